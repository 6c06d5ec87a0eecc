module @jit_indexing attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3x4x5xf32>, %arg1: tensor<3xi32>, %arg2: tensor<3xi32>, %arg3: tensor<3x4x5xf32>) -> (tensor<3x4x5xf32> {jax.result_info = "result[0]"}, tensor<3x3x5xf32> {jax.result_info = "result[1]"}, tensor<3x5xf32> {jax.result_info = "result[2]"}, tensor<3x3x2xf32> {jax.result_info = "result[3]"}, tensor<3x4x5xf32> {jax.result_info = "result[4]"}, tensor<3x4x5xf32> {jax.result_info = "result[5]"}, tensor<3x4x5xf32> {jax.result_info = "result[6]"}, tensor<3x4x5xf32> {jax.result_info = "result[7]"}, tensor<3x3x5xf32> {jax.result_info = "result[8]"}, tensor<3x2x2xf32> {jax.result_info = "result[9]"}, tensor<3x4x5xf32> {jax.result_info = "result[10]"}, tensor<3x1x5xf32> {jax.result_info = "result[11]"}, tensor<3x4x5xf32> {jax.result_info = "result[12]"}) {
    %c = stablehlo.constant dense<[7, -9, 1]> : tensor<3xi32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<3xi32>
    %1 = stablehlo.compare LT, %arg1, %0, SIGNED : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
    %c_1 = stablehlo.constant dense<3> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<i32>) -> tensor<3xi32>
    %3 = stablehlo.add %arg1, %2 : tensor<3xi32>
    %4 = stablehlo.select %1, %3, %arg1 : tensor<3xi1>, tensor<3xi32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<3xi32>) -> tensor<3x1xi32>
    %6 = "stablehlo.gather"(%arg0, %5) <{dimension_numbers = #stablehlo.gather<offset_dims = [1, 2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 4, 5>}> : (tensor<3x4x5xf32>, tensor<3x1xi32>) -> tensor<3x4x5xf32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %7 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<3xi32>
    %8 = stablehlo.compare LT, %arg2, %7, SIGNED : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
    %c_3 = stablehlo.constant dense<4> : tensor<i32>
    %9 = stablehlo.broadcast_in_dim %c_3, dims = [] : (tensor<i32>) -> tensor<3xi32>
    %10 = stablehlo.add %arg2, %9 : tensor<3xi32>
    %11 = stablehlo.select %8, %10, %arg2 : tensor<3xi1>, tensor<3xi32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [0] : (tensor<3xi32>) -> tensor<3x1xi32>
    %13 = "stablehlo.gather"(%arg0, %12) <{dimension_numbers = #stablehlo.gather<offset_dims = [0, 2], collapsed_slice_dims = [1], start_index_map = [1], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 3, 1, 5>}> : (tensor<3x4x5xf32>, tensor<3x1xi32>) -> tensor<3x3x5xf32>
    %c_4 = stablehlo.constant dense<0> : tensor<i32>
    %14 = stablehlo.broadcast_in_dim %c_4, dims = [] : (tensor<i32>) -> tensor<3xi32>
    %15 = stablehlo.compare LT, %arg1, %14, SIGNED : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
    %c_5 = stablehlo.constant dense<3> : tensor<i32>
    %16 = stablehlo.broadcast_in_dim %c_5, dims = [] : (tensor<i32>) -> tensor<3xi32>
    %17 = stablehlo.add %arg1, %16 : tensor<3xi32>
    %18 = stablehlo.select %15, %17, %arg1 : tensor<3xi1>, tensor<3xi32>
    %c_6 = stablehlo.constant dense<0> : tensor<i32>
    %19 = stablehlo.broadcast_in_dim %c_6, dims = [] : (tensor<i32>) -> tensor<3xi32>
    %20 = stablehlo.compare LT, %arg2, %19, SIGNED : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
    %c_7 = stablehlo.constant dense<4> : tensor<i32>
    %21 = stablehlo.broadcast_in_dim %c_7, dims = [] : (tensor<i32>) -> tensor<3xi32>
    %22 = stablehlo.add %arg2, %21 : tensor<3xi32>
    %23 = stablehlo.select %20, %22, %arg2 : tensor<3xi1>, tensor<3xi32>
    %24 = stablehlo.broadcast_in_dim %18, dims = [0] : (tensor<3xi32>) -> tensor<3x1xi32>
    %25 = stablehlo.broadcast_in_dim %23, dims = [0] : (tensor<3xi32>) -> tensor<3x1xi32>
    %26 = stablehlo.concatenate %24, %25, dim = 1 : (tensor<3x1xi32>, tensor<3x1xi32>) -> tensor<3x2xi32>
    %27 = "stablehlo.gather"(%arg0, %26) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1, 5>}> : (tensor<3x4x5xf32>, tensor<3x2xi32>) -> tensor<3x5xf32>
    %28 = stablehlo.broadcast_in_dim %arg1, dims = [0] : (tensor<3xi32>) -> tensor<3x1xi32>
    %29 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<3xi32>) -> tensor<1x3xi32>
    %c_8 = stablehlo.constant dense<0> : tensor<i32>
    %30 = stablehlo.broadcast_in_dim %c_8, dims = [] : (tensor<i32>) -> tensor<3x1xi32>
    %31 = stablehlo.compare LT, %28, %30, SIGNED : (tensor<3x1xi32>, tensor<3x1xi32>) -> tensor<3x1xi1>
    %c_9 = stablehlo.constant dense<3> : tensor<i32>
    %32 = stablehlo.broadcast_in_dim %c_9, dims = [] : (tensor<i32>) -> tensor<3x1xi32>
    %33 = stablehlo.add %28, %32 : tensor<3x1xi32>
    %34 = stablehlo.select %31, %33, %28 : tensor<3x1xi1>, tensor<3x1xi32>
    %c_10 = stablehlo.constant dense<0> : tensor<i32>
    %35 = stablehlo.broadcast_in_dim %c_10, dims = [] : (tensor<i32>) -> tensor<1x3xi32>
    %36 = stablehlo.compare LT, %29, %35, SIGNED : (tensor<1x3xi32>, tensor<1x3xi32>) -> tensor<1x3xi1>
    %c_11 = stablehlo.constant dense<4> : tensor<i32>
    %37 = stablehlo.broadcast_in_dim %c_11, dims = [] : (tensor<i32>) -> tensor<1x3xi32>
    %38 = stablehlo.add %29, %37 : tensor<1x3xi32>
    %39 = stablehlo.select %36, %38, %29 : tensor<1x3xi1>, tensor<1x3xi32>
    %40 = stablehlo.broadcast_in_dim %34, dims = [0, 1] : (tensor<3x1xi32>) -> tensor<3x3xi32>
    %41 = stablehlo.broadcast_in_dim %39, dims = [0, 1] : (tensor<1x3xi32>) -> tensor<3x3xi32>
    %42 = stablehlo.broadcast_in_dim %40, dims = [0, 1] : (tensor<3x3xi32>) -> tensor<3x3x1xi32>
    %43 = stablehlo.broadcast_in_dim %41, dims = [0, 1] : (tensor<3x3xi32>) -> tensor<3x3x1xi32>
    %c_12 = stablehlo.constant dense<1> : tensor<i32>
    %44 = stablehlo.broadcast_in_dim %c_12, dims = [] : (tensor<i32>) -> tensor<3x3x1xi32>
    %45 = stablehlo.concatenate %42, %43, %44, dim = 2 : (tensor<3x3x1xi32>, tensor<3x3x1xi32>, tensor<3x3x1xi32>) -> tensor<3x3x3xi32>
    %46 = "stablehlo.gather"(%arg0, %45) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0, 1], start_index_map = [0, 1, 2], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1, 2>}> : (tensor<3x4x5xf32>, tensor<3x3x3xi32>) -> tensor<3x3x2xf32>
    %c_13 = stablehlo.constant dense<0> : tensor<i32>
    %47 = stablehlo.broadcast_in_dim %c_13, dims = [] : (tensor<i32>) -> tensor<3xi32>
    %48 = stablehlo.compare LT, %arg1, %47, SIGNED : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
    %c_14 = stablehlo.constant dense<3> : tensor<i32>
    %49 = stablehlo.broadcast_in_dim %c_14, dims = [] : (tensor<i32>) -> tensor<3xi32>
    %50 = stablehlo.add %arg1, %49 : tensor<3xi32>
    %51 = stablehlo.select %48, %50, %arg1 : tensor<3xi1>, tensor<3xi32>
    %52 = stablehlo.broadcast_in_dim %51, dims = [0] : (tensor<3xi32>) -> tensor<3x1xi32>
    %53 = "stablehlo.scatter"(%arg0, %52, %arg3) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%arg4: tensor<f32>, %arg5: tensor<f32>):
      %96 = stablehlo.add %arg4, %arg5 : tensor<f32>
      stablehlo.return %96 : tensor<f32>
    }) : (tensor<3x4x5xf32>, tensor<3x1xi32>, tensor<3x4x5xf32>) -> tensor<3x4x5xf32>
    %54 = stablehlo.slice %arg3 [0:3, 0:1, 0:5] : (tensor<3x4x5xf32>) -> tensor<3x1x5xf32>
    %55 = stablehlo.reshape %54 : (tensor<3x1x5xf32>) -> tensor<3x5xf32>
    %c_15 = stablehlo.constant dense<0> : tensor<i32>
    %56 = stablehlo.broadcast_in_dim %c_15, dims = [] : (tensor<i32>) -> tensor<3xi32>
    %57 = stablehlo.compare LT, %arg1, %56, SIGNED : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
    %c_16 = stablehlo.constant dense<3> : tensor<i32>
    %58 = stablehlo.broadcast_in_dim %c_16, dims = [] : (tensor<i32>) -> tensor<3xi32>
    %59 = stablehlo.add %arg1, %58 : tensor<3xi32>
    %60 = stablehlo.select %57, %59, %arg1 : tensor<3xi1>, tensor<3xi32>
    %c_17 = stablehlo.constant dense<0> : tensor<i32>
    %61 = stablehlo.broadcast_in_dim %c_17, dims = [] : (tensor<i32>) -> tensor<3xi32>
    %62 = stablehlo.compare LT, %arg2, %61, SIGNED : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
    %c_18 = stablehlo.constant dense<4> : tensor<i32>
    %63 = stablehlo.broadcast_in_dim %c_18, dims = [] : (tensor<i32>) -> tensor<3xi32>
    %64 = stablehlo.add %arg2, %63 : tensor<3xi32>
    %65 = stablehlo.select %62, %64, %arg2 : tensor<3xi1>, tensor<3xi32>
    %66 = stablehlo.broadcast_in_dim %60, dims = [0] : (tensor<3xi32>) -> tensor<3x1xi32>
    %67 = stablehlo.broadcast_in_dim %65, dims = [0] : (tensor<3xi32>) -> tensor<3x1xi32>
    %68 = stablehlo.concatenate %66, %67, dim = 1 : (tensor<3x1xi32>, tensor<3x1xi32>) -> tensor<3x2xi32>
    %69 = "stablehlo.scatter"(%arg0, %68, %55) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%arg4: tensor<f32>, %arg5: tensor<f32>):
      stablehlo.return %arg5 : tensor<f32>
    }) : (tensor<3x4x5xf32>, tensor<3x2xi32>, tensor<3x5xf32>) -> tensor<3x4x5xf32>
    %c_19 = stablehlo.constant dense<1> : tensor<i32>
    %70 = stablehlo.broadcast_in_dim %c_19, dims = [] : (tensor<i32>) -> tensor<1xi32>
    %cst = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %71 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3x5xf32>
    %72 = "stablehlo.scatter"(%arg0, %70, %71) <{indices_are_sorted = true, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0, 1], inserted_window_dims = [1], scatter_dims_to_operand_dims = [1]>, unique_indices = true}> ({
    ^bb0(%arg4: tensor<f32>, %arg5: tensor<f32>):
      %96 = stablehlo.multiply %arg4, %arg5 : tensor<f32>
      stablehlo.return %96 : tensor<f32>
    }) : (tensor<3x4x5xf32>, tensor<1xi32>, tensor<3x5xf32>) -> tensor<3x4x5xf32>
    %c_20 = stablehlo.constant dense<0> : tensor<i32>
    %73 = stablehlo.broadcast_in_dim %c_20, dims = [] : (tensor<i32>) -> tensor<3xi32>
    %74 = stablehlo.compare LT, %arg1, %73, SIGNED : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
    %c_21 = stablehlo.constant dense<3> : tensor<i32>
    %75 = stablehlo.broadcast_in_dim %c_21, dims = [] : (tensor<i32>) -> tensor<3xi32>
    %76 = stablehlo.add %arg1, %75 : tensor<3xi32>
    %77 = stablehlo.select %74, %76, %arg1 : tensor<3xi1>, tensor<3xi32>
    %78 = stablehlo.broadcast_in_dim %77, dims = [0] : (tensor<3xi32>) -> tensor<3x1xi32>
    %79 = "stablehlo.scatter"(%arg0, %78, %arg3) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%arg4: tensor<f32>, %arg5: tensor<f32>):
      %96 = stablehlo.maximum %arg4, %arg5 : tensor<f32>
      stablehlo.return %96 : tensor<f32>
    }) : (tensor<3x4x5xf32>, tensor<3x1xi32>, tensor<3x4x5xf32>) -> tensor<3x4x5xf32>
    %80 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<3xi32>) -> tensor<1x3x1xi32>
    %81 = call @take_along_axis(%arg0, %80) : (tensor<3x4x5xf32>, tensor<1x3x1xi32>) -> tensor<3x3x5xf32>
    %c_22 = stablehlo.constant dense<0> : tensor<i32>
    %82 = stablehlo.broadcast_in_dim %c_22, dims = [] : (tensor<i32>) -> tensor<3xi32>
    %83 = stablehlo.compare LT, %arg1, %82, SIGNED : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
    %c_23 = stablehlo.constant dense<4> : tensor<i32>
    %84 = stablehlo.broadcast_in_dim %c_23, dims = [] : (tensor<i32>) -> tensor<3xi32>
    %85 = stablehlo.add %arg1, %84 : tensor<3xi32>
    %86 = stablehlo.select %83, %85, %arg1 : tensor<3xi1>, tensor<3xi32>
    %87 = stablehlo.broadcast_in_dim %86, dims = [0] : (tensor<3xi32>) -> tensor<3x1xi32>
    %c_24 = stablehlo.constant dense<0> : tensor<i32>
    %88 = stablehlo.broadcast_in_dim %c_24, dims = [] : (tensor<i32>) -> tensor<3x1xi32>
    %89 = stablehlo.concatenate %87, %88, dim = 1 : (tensor<3x1xi32>, tensor<3x1xi32>) -> tensor<3x2xi32>
    %90 = "stablehlo.gather"(%arg0, %89) <{dimension_numbers = #stablehlo.gather<offset_dims = [1, 2], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1, 2], index_vector_dim = 1>, indices_are_sorted = true, slice_sizes = array<i64: 1, 2, 2>}> : (tensor<3x4x5xf32>, tensor<3x2xi32>) -> tensor<3x2x2xf32>
    %91 = call @_take(%arg0, %c) : (tensor<3x4x5xf32>, tensor<3xi32>) -> tensor<3x4x5xf32>
    %92 = stablehlo.slice %arg2 [1:2] : (tensor<3xi32>) -> tensor<1xi32>
    %93 = stablehlo.reshape %92 : (tensor<1xi32>) -> tensor<i32>
    %94 = call @dynamic_index_in_dim(%arg0, %93) : (tensor<3x4x5xf32>, tensor<i32>) -> tensor<3x1x5xf32>
    %95 = call @_roll_static(%arg0) : (tensor<3x4x5xf32>) -> tensor<3x4x5xf32>
    return %6, %13, %27, %46, %53, %69, %72, %79, %81, %90, %91, %94, %95 : tensor<3x4x5xf32>, tensor<3x3x5xf32>, tensor<3x5xf32>, tensor<3x3x2xf32>, tensor<3x4x5xf32>, tensor<3x4x5xf32>, tensor<3x4x5xf32>, tensor<3x4x5xf32>, tensor<3x3x5xf32>, tensor<3x2x2xf32>, tensor<3x4x5xf32>, tensor<3x1x5xf32>, tensor<3x4x5xf32>
  }
  func.func private @take_along_axis(%arg0: tensor<3x4x5xf32>, %arg1: tensor<1x3x1xi32>) -> tensor<3x3x5xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<1x3x1xi32>
    %1 = stablehlo.compare LT, %arg1, %0, SIGNED : (tensor<1x3x1xi32>, tensor<1x3x1xi32>) -> tensor<1x3x1xi1>
    %c_0 = stablehlo.constant dense<4> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<1x3x1xi32>
    %3 = stablehlo.add %arg1, %2 : tensor<1x3x1xi32>
    %4 = stablehlo.select %1, %3, %arg1 : tensor<1x3x1xi1>, tensor<1x3x1xi32>
    %5 = stablehlo.reshape %4 : (tensor<1x3x1xi32>) -> tensor<3x1xi32>
    %c_1 = stablehlo.constant dense<3> : tensor<1xi32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %6 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<3x1xi32>
    %7 = stablehlo.compare GE, %5, %6, SIGNED : (tensor<3x1xi32>, tensor<3x1xi32>) -> tensor<3x1xi1>
    %8 = stablehlo.broadcast_in_dim %c_1, dims = [1] : (tensor<1xi32>) -> tensor<1x1xi32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1] : (tensor<1x1xi32>) -> tensor<3x1xi32>
    %10 = stablehlo.compare LE, %5, %9, SIGNED : (tensor<3x1xi32>, tensor<3x1xi32>) -> tensor<3x1xi1>
    %11 = stablehlo.and %7, %10 : tensor<3x1xi1>
    %c_3 = stablehlo.constant dense<true> : tensor<i1>
    %12 = stablehlo.reduce(%11 init: %c_3) applies stablehlo.and across dimensions = [1] : (tensor<3x1xi1>, tensor<i1>) -> tensor<3xi1>
    %13 = "stablehlo.gather"(%arg0, %5) <{dimension_numbers = #stablehlo.gather<offset_dims = [0, 2], collapsed_slice_dims = [1], start_index_map = [1], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 3, 1, 5>}> : (tensor<3x4x5xf32>, tensor<3x1xi32>) -> tensor<3x3x5xf32>
    %14 = stablehlo.broadcast_in_dim %12, dims = [1] : (tensor<3xi1>) -> tensor<3x3x5xi1>
    %cst = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %15 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3x3x5xf32>
    %16 = stablehlo.select %14, %13, %15 : tensor<3x3x5xi1>, tensor<3x3x5xf32>
    return %16 : tensor<3x3x5xf32>
  }
  func.func private @_take(%arg0: tensor<3x4x5xf32>, %arg1: tensor<3xi32>) -> tensor<3x4x5xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<3xi32>
    %1 = stablehlo.compare LT, %arg1, %0, SIGNED : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
    %c_0 = stablehlo.constant dense<3> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<3xi32>
    %3 = stablehlo.add %arg1, %2 : tensor<3xi32>
    %4 = call @_where(%1, %3, %arg1) : (tensor<3xi1>, tensor<3xi32>, tensor<3xi32>) -> tensor<3xi32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<3xi32>) -> tensor<3x1xi32>
    %c_1 = stablehlo.constant dense<2> : tensor<1xi32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %6 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<3x1xi32>
    %7 = stablehlo.compare GE, %5, %6, SIGNED : (tensor<3x1xi32>, tensor<3x1xi32>) -> tensor<3x1xi1>
    %8 = stablehlo.broadcast_in_dim %c_1, dims = [1] : (tensor<1xi32>) -> tensor<1x1xi32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1] : (tensor<1x1xi32>) -> tensor<3x1xi32>
    %10 = stablehlo.compare LE, %5, %9, SIGNED : (tensor<3x1xi32>, tensor<3x1xi32>) -> tensor<3x1xi1>
    %11 = stablehlo.and %7, %10 : tensor<3x1xi1>
    %c_3 = stablehlo.constant dense<true> : tensor<i1>
    %12 = stablehlo.reduce(%11 init: %c_3) applies stablehlo.and across dimensions = [1] : (tensor<3x1xi1>, tensor<i1>) -> tensor<3xi1>
    %13 = "stablehlo.gather"(%arg0, %5) <{dimension_numbers = #stablehlo.gather<offset_dims = [1, 2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 4, 5>}> : (tensor<3x4x5xf32>, tensor<3x1xi32>) -> tensor<3x4x5xf32>
    %14 = stablehlo.broadcast_in_dim %12, dims = [0] : (tensor<3xi1>) -> tensor<3x4x5xi1>
    %cst = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %15 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3x4x5xf32>
    %16 = stablehlo.select %14, %13, %15 : tensor<3x4x5xi1>, tensor<3x4x5xf32>
    return %16 : tensor<3x4x5xf32>
  }
  func.func private @_where(%arg0: tensor<3xi1>, %arg1: tensor<3xi32>, %arg2: tensor<3xi32>) -> tensor<3xi32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<3xi1>, tensor<3xi32>
    return %0 : tensor<3xi32>
  }
  func.func private @dynamic_index_in_dim(%arg0: tensor<3x4x5xf32>, %arg1: tensor<i32>) -> tensor<3x1x5xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.compare LT, %arg1, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_0 = stablehlo.constant dense<4> : tensor<i32>
    %1 = stablehlo.add %arg1, %c_0 : tensor<i32>
    %2 = stablehlo.select %0, %1, %arg1 : tensor<i1>, tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %3 = stablehlo.dynamic_slice %arg0, %c_1, %2, %c_2, sizes = [3, 1, 5] : (tensor<3x4x5xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x1x5xf32>
    return %3 : tensor<3x1x5xf32>
  }
  func.func private @_roll_static(%arg0: tensor<3x4x5xf32>) -> tensor<3x4x5xf32> {
    %0 = stablehlo.slice %arg0 [0:3, 0:4, 4:5] : (tensor<3x4x5xf32>) -> tensor<3x4x1xf32>
    %1 = stablehlo.slice %arg0 [0:3, 0:4, 0:4] : (tensor<3x4x5xf32>) -> tensor<3x4x4xf32>
    %2 = stablehlo.concatenate %0, %1, dim = 2 : (tensor<3x4x1xf32>, tensor<3x4x4xf32>) -> tensor<3x4x5xf32>
    return %2 : tensor<3x4x5xf32>
  }
}

module @jit_decode attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<6x4xf32>, %arg1: tensor<4x4xf32>, %arg2: tensor<4x12xf32>, %arg3: tensor<2x5x4xf32>, %arg4: tensor<2x5x4xf32>, %arg5: tensor<i32>, %arg6: tensor<2xi32>) -> (tensor<2x6xf32> {jax.result_info = "result[0]"}, tensor<2x5x4xf32> {jax.result_info = "result[1]"}, tensor<2x5x4xf32> {jax.result_info = "result[2]"}, tensor<2x2x4xf32> {jax.result_info = "result[3]"}) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %1 = stablehlo.compare LT, %arg6, %0, SIGNED : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
    %c_0 = stablehlo.constant dense<6> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %3 = stablehlo.add %arg6, %2 : tensor<2xi32>
    %4 = stablehlo.select %1, %3, %arg6 : tensor<2xi1>, tensor<2xi32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<2xi32>) -> tensor<2x1xi32>
    %6 = "stablehlo.gather"(%arg0, %5) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 4>}> : (tensor<6x4xf32>, tensor<2x1xi32>) -> tensor<2x4xf32>
    %7 = stablehlo.dot_general %6, %arg2, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x4xf32>, tensor<4x12xf32>) -> tensor<2x12xf32>
    %8 = stablehlo.slice %7 [0:2, 0:4] : (tensor<2x12xf32>) -> tensor<2x4xf32>
    %9 = stablehlo.slice %7 [0:2, 4:8] : (tensor<2x12xf32>) -> tensor<2x4xf32>
    %10 = stablehlo.slice %7 [0:2, 8:12] : (tensor<2x12xf32>) -> tensor<2x4xf32>
    %11 = stablehlo.broadcast_in_dim %9, dims = [0, 2] : (tensor<2x4xf32>) -> tensor<2x1x4xf32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %12 = stablehlo.compare LT, %arg5, %c_1, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_2 = stablehlo.constant dense<5> : tensor<i32>
    %13 = stablehlo.add %arg5, %c_2 : tensor<i32>
    %14 = stablehlo.select %12, %13, %arg5 : tensor<i1>, tensor<i32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %c_4 = stablehlo.constant dense<0> : tensor<i32>
    %15 = stablehlo.dynamic_update_slice %arg3, %11, %c_3, %14, %c_4 : (tensor<2x5x4xf32>, tensor<2x1x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x5x4xf32>
    %16 = stablehlo.broadcast_in_dim %10, dims = [0, 2] : (tensor<2x4xf32>) -> tensor<2x1x4xf32>
    %c_5 = stablehlo.constant dense<0> : tensor<i32>
    %17 = stablehlo.compare LT, %arg5, %c_5, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_6 = stablehlo.constant dense<5> : tensor<i32>
    %18 = stablehlo.add %arg5, %c_6 : tensor<i32>
    %19 = stablehlo.select %17, %18, %arg5 : tensor<i1>, tensor<i32>
    %c_7 = stablehlo.constant dense<0> : tensor<i32>
    %c_8 = stablehlo.constant dense<0> : tensor<i32>
    %20 = stablehlo.dynamic_update_slice %arg4, %16, %c_7, %19, %c_8 : (tensor<2x5x4xf32>, tensor<2x1x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x5x4xf32>
    %21 = stablehlo.dot_general %8, %15, batching_dims = [0] x [0], contracting_dims = [1] x [2], precision = [DEFAULT, DEFAULT] : (tensor<2x4xf32>, tensor<2x5x4xf32>) -> tensor<2x5xf32>
    %22 = stablehlo.iota dim = 0 : tensor<5xi32>
    %23 = stablehlo.broadcast_in_dim %arg5, dims = [] : (tensor<i32>) -> tensor<5xi32>
    %24 = stablehlo.compare LE, %22, %23, SIGNED : (tensor<5xi32>, tensor<5xi32>) -> tensor<5xi1>
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %25 = call @_where(%24, %21, %cst) : (tensor<5xi1>, tensor<2x5xf32>, tensor<f32>) -> tensor<2x5xf32>
    %cst_9 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %26 = stablehlo.reduce(%25 init: %cst_9) applies stablehlo.maximum across dimensions = [1] : (tensor<2x5xf32>, tensor<f32>) -> tensor<2xf32>
    %cst_10 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %27 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %28 = stablehlo.maximum %27, %26 : tensor<2xf32>
    %29 = stablehlo.broadcast_in_dim %28, dims = [0] : (tensor<2xf32>) -> tensor<2x1xf32>
    %30 = stablehlo.broadcast_in_dim %29, dims = [0, 1] : (tensor<2x1xf32>) -> tensor<2x5xf32>
    %31 = stablehlo.subtract %25, %30 : tensor<2x5xf32>
    %32 = stablehlo.exponential %31 : tensor<2x5xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %33 = stablehlo.reduce(%32 init: %cst_11) applies stablehlo.add across dimensions = [1] : (tensor<2x5xf32>, tensor<f32>) -> tensor<2xf32>
    %34 = stablehlo.broadcast_in_dim %33, dims = [0] : (tensor<2xf32>) -> tensor<2x1xf32>
    %35 = stablehlo.broadcast_in_dim %34, dims = [0, 1] : (tensor<2x1xf32>) -> tensor<2x5xf32>
    %36 = stablehlo.divide %32, %35 : tensor<2x5xf32>
    %37 = stablehlo.dot_general %36, %20, batching_dims = [0] x [0], contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x5xf32>, tensor<2x5x4xf32>) -> tensor<2x4xf32>
    %c_12 = stablehlo.constant dense<0> : tensor<i32>
    %38 = stablehlo.compare LT, %arg5, %c_12, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_13 = stablehlo.constant dense<5> : tensor<i32>
    %39 = stablehlo.add %arg5, %c_13 : tensor<i32>
    %40 = stablehlo.select %38, %39, %arg5 : tensor<i1>, tensor<i32>
    %c_14 = stablehlo.constant dense<0> : tensor<i32>
    %c_15 = stablehlo.constant dense<0> : tensor<i32>
    %41 = stablehlo.dynamic_slice %15, %c_14, %40, %c_15, sizes = [2, 2, 4] : (tensor<2x5x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x2x4xf32>
    %42 = stablehlo.dot_general %37, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %43 = stablehlo.add %6, %42 : tensor<2x4xf32>
    %44 = stablehlo.transpose %arg0, dims = [1, 0] : (tensor<6x4xf32>) -> tensor<4x6xf32>
    %45 = stablehlo.dot_general %43, %44, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x4xf32>, tensor<4x6xf32>) -> tensor<2x6xf32>
    return %45, %15, %20, %41 : tensor<2x6xf32>, tensor<2x5x4xf32>, tensor<2x5x4xf32>, tensor<2x2x4xf32>
  }
  func.func private @_where(%arg0: tensor<5xi1>, %arg1: tensor<2x5xf32>, %arg2: tensor<f32>) -> tensor<2x5xf32> {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [1] : (tensor<5xi1>) -> tensor<2x5xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<2x5xf32>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<2x5xi1>, tensor<2x5xf32>
    return %3 : tensor<2x5xf32>
  }
}

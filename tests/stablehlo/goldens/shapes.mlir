module @jit_shapes attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x8xf32>) -> (tensor<4x8xf32> {jax.result_info = "result[0]"}, tensor<4x2xf32> {jax.result_info = "result[1]"}, tensor<7x9xf32> {jax.result_info = "result[2]"}, tensor<8x21xf32> {jax.result_info = "result[3]"}, tensor<4x16xf32> {jax.result_info = "result[4]"}, tensor<4x2x8xf32> {jax.result_info = "result[5]"}, tensor<8x8xf32> {jax.result_info = "result[6]"}, tensor<8x8xf32> {jax.result_info = "result[7]"}, tensor<3xf32> {jax.result_info = "result[8]"}, tensor<4x8xf32> {jax.result_info = "result[9]"}, tensor<4x8xf32> {jax.result_info = "result[10]"}, tensor<5xf32> {jax.result_info = "result[11]"}, tensor<4x4x8xf32> {jax.result_info = "result[12]"}, tensor<2x16xf32> {jax.result_info = "result[13]"}, tensor<8xi1> {jax.result_info = "result[14]"}, tensor<4xi1> {jax.result_info = "result[15]"}, tensor<8xf32> {jax.result_info = "result[16]"}, tensor<f32> {jax.result_info = "result[17]"}, tensor<8xf32> {jax.result_info = "result[18]"}, tensor<4x8xf32> {jax.result_info = "result[19]"}, tensor<4x8xbf16> {jax.result_info = "result[20]"}, tensor<4x4xbf16> {jax.result_info = "result[21]"}, tensor<4x4xf32> {jax.result_info = "result[22]"}, tensor<5x2xi32> {jax.result_info = "result[23]"}) {
    %c = stablehlo.constant dense<[[0, 1, 2, 3, 4, 5, 6, 0], [1, 2, 3, 4, 5, 6, 0, 1], [2, 3, 4, 5, 6, 0, 1, 2], [3, 4, 5, 6, 0, 1, 2, 3], [4, 5, 6, 0, 1, 2, 3, 4]]> : tensor<5x8xi32>
    %0 = stablehlo.reverse %arg0, dims = [0] : tensor<4x8xf32>
    %1 = stablehlo.slice %arg0 [0:4, 1:5:2] : (tensor<4x8xf32>) -> tensor<4x2xf32>
    %cst = stablehlo.constant dense<3.000000e+00> : tensor<f32>
    %2 = call @_pad(%arg0, %cst) : (tensor<4x8xf32>, tensor<f32>) -> tensor<7x9xf32>
    %cst_0 = stablehlo.constant dense<1.500000e+00> : tensor<f32>
    %3 = stablehlo.pad %arg0, %cst_0, low = [-1, 2], high = [2, -3], interior = [1, 2] : (tensor<4x8xf32>, tensor<f32>) -> tensor<8x21xf32>
    %cst_1 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %5 = stablehlo.multiply %arg0, %4 : tensor<4x8xf32>
    %6 = stablehlo.concatenate %arg0, %5, dim = 1 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x16xf32>
    %7 = stablehlo.negate %arg0 : tensor<4x8xf32>
    %8 = stablehlo.broadcast_in_dim %arg0, dims = [0, 2] : (tensor<4x8xf32>) -> tensor<4x1x8xf32>
    %9 = stablehlo.broadcast_in_dim %7, dims = [0, 2] : (tensor<4x8xf32>) -> tensor<4x1x8xf32>
    %10 = stablehlo.concatenate %8, %9, dim = 1 : (tensor<4x1x8xf32>, tensor<4x1x8xf32>) -> tensor<4x2x8xf32>
    %11 = stablehlo.broadcast_in_dim %arg0, dims = [0, 2] : (tensor<4x8xf32>) -> tensor<4x2x8xf32>
    %12 = stablehlo.reshape %11 : (tensor<4x2x8xf32>) -> tensor<8x8xf32>
    %13 = stablehlo.reshape %arg0 : (tensor<4x8xf32>) -> tensor<1x4x1x8xf32>
    %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1, 2, 3] : (tensor<1x4x1x8xf32>) -> tensor<2x4x1x8xf32>
    %15 = stablehlo.reshape %14 : (tensor<2x4x1x8xf32>) -> tensor<8x8xf32>
    %16 = stablehlo.slice %arg0 [0:3, 0:3] : (tensor<4x8xf32>) -> tensor<3x3xf32>
    %17 = call @_diag(%16) : (tensor<3x3xf32>) -> tensor<3xf32>
    %18 = call @tril(%arg0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %19 = call @_flip(%arg0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %c_3 = stablehlo.constant dense<1> : tensor<i32>
    %20 = call @_linspace(%c_2, %c_3) : (tensor<i32>, tensor<i32>) -> tensor<5xf32>
    %21 = stablehlo.slice %arg0 [0:1, 0:5] : (tensor<4x8xf32>) -> tensor<1x5xf32>
    %22 = stablehlo.reshape %21 : (tensor<1x5xf32>) -> tensor<5xf32>
    %23 = stablehlo.add %20, %22 : tensor<5xf32>
    %24 = stablehlo.dot_general %arg0, %arg0, batching_dims = [1] x [1], contracting_dims = [] x [], precision = [DEFAULT, DEFAULT] : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x4x4xf32>
    %25 = stablehlo.transpose %24, dims = [2, 1, 0] : (tensor<8x4x4xf32>) -> tensor<4x4x8xf32>
    %26 = stablehlo.transpose %arg0, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %27 = stablehlo.reshape %26 : (tensor<8x4xf32>) -> tensor<2x16xf32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %28 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %29 = stablehlo.compare GT, %arg0, %28, FLOAT : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xi1>
    %c_5 = stablehlo.constant dense<false> : tensor<i1>
    %30 = stablehlo.reduce(%29 init: %c_5) applies stablehlo.or across dimensions = [0] : (tensor<4x8xi1>, tensor<i1>) -> tensor<8xi1>
    %cst_6 = stablehlo.constant dense<9.000000e+00> : tensor<f32>
    %31 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %32 = stablehlo.compare LT, %arg0, %31, FLOAT : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xi1>
    %c_7 = stablehlo.constant dense<true> : tensor<i1>
    %33 = stablehlo.reduce(%32 init: %c_7) applies stablehlo.and across dimensions = [1] : (tensor<4x8xi1>, tensor<i1>) -> tensor<4xi1>
    %cst_8 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %34 = stablehlo.reduce(%arg0 init: %cst_8) applies stablehlo.multiply across dimensions = [0] : (tensor<4x8xf32>, tensor<f32>) -> tensor<8xf32>
    %cst_9 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %35 = stablehlo.reduce(%arg0 init: %cst_9) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<f32>
    %cst_10 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %36 = stablehlo.reduce(%arg0 init: %cst_10) applies stablehlo.minimum across dimensions = [0] : (tensor<4x8xf32>, tensor<f32>) -> tensor<8xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %37 = stablehlo.reduce(%arg0 init: %cst_11) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<f32>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %38 = stablehlo.compare GT, %37, %cst_12, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %c_13 = stablehlo.constant dense<0> : tensor<i32>
    %39 = call @_where(%38, %arg0, %c_13) : (tensor<i1>, tensor<4x8xf32>, tensor<i32>) -> tensor<4x8xf32>
    %40 = stablehlo.convert %arg0 : (tensor<4x8xf32>) -> tensor<4x8xbf16>
    %41 = stablehlo.convert %arg0 : (tensor<4x8xf32>) -> tensor<4x8xbf16>
    %42 = stablehlo.transpose %arg0, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %43 = stablehlo.convert %42 : (tensor<8x4xf32>) -> tensor<8x4xbf16>
    %44 = stablehlo.dot_general %41, %43, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8xbf16>, tensor<8x4xbf16>) -> tensor<4x4xbf16>
    %45 = stablehlo.convert %arg0 : (tensor<4x8xf32>) -> tensor<4x8xbf16>
    %46 = stablehlo.transpose %arg0, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %47 = stablehlo.convert %46 : (tensor<8x4xf32>) -> tensor<8x4xbf16>
    %48 = stablehlo.dot_general %45, %47, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8xbf16>, tensor<8x4xbf16>) -> tensor<4x4xf32>
    %49 = stablehlo.slice %c [0:5, 1:3] : (tensor<5x8xi32>) -> tensor<5x2xi32>
    return %0, %1, %2, %3, %6, %10, %12, %15, %17, %18, %19, %23, %25, %27, %30, %33, %34, %35, %36, %39, %40, %44, %48, %49 : tensor<4x8xf32>, tensor<4x2xf32>, tensor<7x9xf32>, tensor<8x21xf32>, tensor<4x16xf32>, tensor<4x2x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<3xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<5xf32>, tensor<4x4x8xf32>, tensor<2x16xf32>, tensor<8xi1>, tensor<4xi1>, tensor<8xf32>, tensor<f32>, tensor<8xf32>, tensor<4x8xf32>, tensor<4x8xbf16>, tensor<4x4xbf16>, tensor<4x4xf32>, tensor<5x2xi32>
  }
  func.func private @_pad(%arg0: tensor<4x8xf32>, %arg1: tensor<f32>) -> tensor<7x9xf32> {
    %0 = stablehlo.convert %arg1 : tensor<f32>
    %1 = stablehlo.pad %arg0, %0, low = [1, 0], high = [2, 1], interior = [0, 0] : (tensor<4x8xf32>, tensor<f32>) -> tensor<7x9xf32>
    return %1 : tensor<7x9xf32>
  }
  func.func private @_diag(%arg0: tensor<3x3xf32>) -> tensor<3xf32> {
    %0 = call @diagonal(%arg0) : (tensor<3x3xf32>) -> tensor<3xf32>
    return %0 : tensor<3xf32>
  }
  func.func private @diagonal(%arg0: tensor<3x3xf32>) -> tensor<3xf32> {
    %0 = stablehlo.iota dim = 0 : tensor<3x3xi32>
    %1 = stablehlo.iota dim = 1 : tensor<3x3xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<3x3xi32>
    %3 = stablehlo.add %0, %2 : tensor<3x3xi32>
    %4 = stablehlo.compare EQ, %3, %1, SIGNED : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
    %5 = stablehlo.convert %4 : (tensor<3x3xi1>) -> tensor<3x3xf32>
    %c_0 = stablehlo.constant dense<1> : tensor<i32>
    %6 = "stablehlo.case"(%c_0) ({
      %c_1 = stablehlo.constant dense<0> : tensor<i32>
      stablehlo.return %c_1 : tensor<i32>
    }, {
      %c_1 = stablehlo.constant dense<0> : tensor<i32>
      stablehlo.return %c_1 : tensor<i32>
    }) : (tensor<i32>) -> tensor<i32>
    %7 = "stablehlo.case"(%6) ({
      %8 = stablehlo.iota dim = 0 : tensor<3xi32>
      %9 = stablehlo.iota dim = 0 : tensor<3xi32>
      %c_1 = stablehlo.constant dense<0> : tensor<i32>
      %10 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<i32>) -> tensor<3xi32>
      %11 = stablehlo.compare LT, %8, %10, SIGNED : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
      %c_2 = stablehlo.constant dense<3> : tensor<i32>
      %12 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<3xi32>
      %13 = stablehlo.add %8, %12 : tensor<3xi32>
      %14 = stablehlo.select %11, %13, %8 : tensor<3xi1>, tensor<3xi32>
      %c_3 = stablehlo.constant dense<0> : tensor<i32>
      %15 = stablehlo.broadcast_in_dim %c_3, dims = [] : (tensor<i32>) -> tensor<3xi32>
      %16 = stablehlo.compare LT, %9, %15, SIGNED : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
      %c_4 = stablehlo.constant dense<3> : tensor<i32>
      %17 = stablehlo.broadcast_in_dim %c_4, dims = [] : (tensor<i32>) -> tensor<3xi32>
      %18 = stablehlo.add %9, %17 : tensor<3xi32>
      %19 = stablehlo.select %16, %18, %9 : tensor<3xi1>, tensor<3xi32>
      %20 = stablehlo.broadcast_in_dim %14, dims = [0] : (tensor<3xi32>) -> tensor<3x1xi32>
      %21 = stablehlo.broadcast_in_dim %19, dims = [0] : (tensor<3xi32>) -> tensor<3x1xi32>
      %22 = stablehlo.concatenate %20, %21, dim = 1 : (tensor<3x1xi32>, tensor<3x1xi32>) -> tensor<3x2xi32>
      %23 = "stablehlo.gather"(%arg0, %22) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}> : (tensor<3x3xf32>, tensor<3x2xi32>) -> tensor<3xf32>
      stablehlo.return %23 : tensor<3xf32>
    }) : (tensor<i32>) -> tensor<3xf32>
    return %7 : tensor<3xf32>
  }
  func.func private @tril(%arg0: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %0 = stablehlo.iota dim = 0 : tensor<4x8xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<4x8xi32>
    %2 = stablehlo.add %0, %1 : tensor<4x8xi32>
    %3 = stablehlo.iota dim = 1 : tensor<4x8xi32>
    %4 = stablehlo.compare GE, %2, %3, SIGNED : (tensor<4x8xi32>, tensor<4x8xi32>) -> tensor<4x8xi1>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %6 = stablehlo.select %4, %arg0, %5 : tensor<4x8xi1>, tensor<4x8xf32>
    return %6 : tensor<4x8xf32>
  }
  func.func private @_flip(%arg0: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %0 = stablehlo.reverse %arg0, dims = [0, 1] : tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
  }
  func.func private @_linspace(%arg0: tensor<i32>, %arg1: tensor<i32>) -> tensor<5xf32> {
    %0 = stablehlo.convert %arg0 : (tensor<i32>) -> tensor<f32>
    %1 = stablehlo.convert %arg1 : (tensor<i32>) -> tensor<f32>
    %2 = stablehlo.subtract %1, %0 : tensor<f32>
    %cst = stablehlo.constant dense<4.000000e+00> : tensor<f32>
    %3 = stablehlo.divide %2, %cst : tensor<f32>
    %4 = stablehlo.iota dim = 0 : tensor<4xf32>
    %cst_0 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %6 = stablehlo.divide %4, %5 : tensor<4xf32>
    %7 = stablehlo.reshape %0 : (tensor<f32>) -> tensor<1xf32>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %8 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %9 = stablehlo.subtract %8, %6 : tensor<4xf32>
    %10 = stablehlo.broadcast_in_dim %7, dims = [0] : (tensor<1xf32>) -> tensor<4xf32>
    %11 = stablehlo.multiply %10, %9 : tensor<4xf32>
    %12 = stablehlo.reshape %1 : (tensor<f32>) -> tensor<1xf32>
    %13 = stablehlo.broadcast_in_dim %12, dims = [0] : (tensor<1xf32>) -> tensor<4xf32>
    %14 = stablehlo.multiply %13, %6 : tensor<4xf32>
    %15 = stablehlo.add %11, %14 : tensor<4xf32>
    %16 = stablehlo.broadcast_in_dim %1, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %17 = stablehlo.concatenate %15, %16, dim = 0 : (tensor<4xf32>, tensor<1xf32>) -> tensor<5xf32>
    return %17 : tensor<5xf32>
  }
  func.func private @_where(%arg0: tensor<i1>, %arg1: tensor<4x8xf32>, %arg2: tensor<i32>) -> tensor<4x8xf32> {
    %0 = stablehlo.convert %arg2 : (tensor<i32>) -> tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %2 = stablehlo.select %arg0, %arg1, %1 : tensor<i1>, tensor<4x8xf32>
    return %2 : tensor<4x8xf32>
  }
}

module @jit_long_scan attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3x3xf32>, %arg1: tensor<700x2x3xf32>) -> (tensor<f32> {jax.result_info = "result[0]"}, tensor<7xf32> {jax.result_info = "result[1]"}, tensor<3x3xf32> {jax.result_info = "result[2]"}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<700xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<700x2x3xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<700x2x3xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<700x2x3xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %5:8 = stablehlo.while(%iterArg = %arg1, %iterArg_14 = %arg0, %iterArg_15 = %c, %iterArg_16 = %0, %iterArg_17 = %1, %iterArg_18 = %2, %iterArg_19 = %3, %iterArg_20 = %4) : tensor<700x2x3xf32>, tensor<3x3xf32>, tensor<i32>, tensor<2x3xf32>, tensor<700xf32>, tensor<700x2x3xf32>, tensor<700x2x3xf32>, tensor<700x2x3xf32>
    cond {
      %c_21 = stablehlo.constant dense<700> : tensor<i32>
      %21 = stablehlo.compare LT, %iterArg_15, %c_21, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %21 : tensor<i1>
    } do {
      %21 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_15) : (tensor<700x2x3xf32>, tensor<i32>) -> tensor<2x3xf32>
      %22:5 = func.call @closed_call(%iterArg_14, %iterArg_16, %21) : (tensor<3x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<f32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>)
      %23 = func.call @dynamic_update_index_in_dim(%iterArg_17, %22#1, %iterArg_15) : (tensor<700xf32>, tensor<f32>, tensor<i32>) -> tensor<700xf32>
      %24 = func.call @dynamic_update_index_in_dim_0(%iterArg_18, %22#2, %iterArg_15) : (tensor<700x2x3xf32>, tensor<2x3xf32>, tensor<i32>) -> tensor<700x2x3xf32>
      %25 = func.call @dynamic_update_index_in_dim_0(%iterArg_19, %22#3, %iterArg_15) : (tensor<700x2x3xf32>, tensor<2x3xf32>, tensor<i32>) -> tensor<700x2x3xf32>
      %26 = func.call @dynamic_update_index_in_dim_0(%iterArg_20, %22#4, %iterArg_15) : (tensor<700x2x3xf32>, tensor<2x3xf32>, tensor<i32>) -> tensor<700x2x3xf32>
      %c_21 = stablehlo.constant dense<1> : tensor<i32>
      %27 = stablehlo.add %iterArg_15, %c_21 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_14, %27, %22#0, %23, %24, %25, %26 : tensor<700x2x3xf32>, tensor<3x3xf32>, tensor<i32>, tensor<2x3xf32>, tensor<700xf32>, tensor<700x2x3xf32>, tensor<700x2x3xf32>, tensor<700x2x3xf32>
    }
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %6 = stablehlo.reduce(%5#3 init: %cst_4) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<f32>
    %7 = stablehlo.multiply %5#4, %5#4 : tensor<700xf32>
    %cst_5 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %8 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<700xf32>
    %9 = stablehlo.multiply %8, %5#4 : tensor<700xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %10 = stablehlo.reduce(%7 init: %cst_6) applies stablehlo.add across dimensions = [0] : (tensor<700xf32>, tensor<f32>) -> tensor<f32>
    %cst_7 = stablehlo.constant dense<7.000000e+02> : tensor<f32>
    %11 = stablehlo.divide %10, %cst_7 : tensor<f32>
    %12 = stablehlo.add %6, %11 : tensor<f32>
    %13 = stablehlo.slice %5#4 [0:700:100] : (tensor<700xf32>) -> tensor<7xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
    %cst_9 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_10 = stablehlo.constant dense<7.000000e+02> : tensor<f32>
    %15 = stablehlo.divide %cst_9, %cst_10 : tensor<f32>
    %16 = stablehlo.broadcast_in_dim %15, dims = [] : (tensor<f32>) -> tensor<700xf32>
    %17 = stablehlo.multiply %16, %9 : tensor<700xf32>
    %cst_11 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %18 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %19 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<3x3xf32>
    %c_13 = stablehlo.constant dense<0> : tensor<i32>
    %20:8 = stablehlo.while(%iterArg = %17, %iterArg_14 = %5#5, %iterArg_15 = %5#6, %iterArg_16 = %5#7, %iterArg_17 = %arg0, %iterArg_18 = %c_13, %iterArg_19 = %19, %iterArg_20 = %18) : tensor<700xf32>, tensor<700x2x3xf32>, tensor<700x2x3xf32>, tensor<700x2x3xf32>, tensor<3x3xf32>, tensor<i32>, tensor<3x3xf32>, tensor<2x3xf32>
    cond {
      %c_21 = stablehlo.constant dense<700> : tensor<i32>
      %21 = stablehlo.compare LT, %iterArg_18, %c_21, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %21 : tensor<i1>
    } do {
      %c_21 = stablehlo.constant dense<700> : tensor<i32>
      %21 = stablehlo.subtract %c_21, %iterArg_18 : tensor<i32>
      %c_22 = stablehlo.constant dense<1> : tensor<i32>
      %22 = stablehlo.subtract %21, %c_22 : tensor<i32>
      %23 = func.call @dynamic_index_in_dim_1(%iterArg, %22) : (tensor<700xf32>, tensor<i32>) -> tensor<f32>
      %24 = func.call @dynamic_index_in_dim(%iterArg_14, %22) : (tensor<700x2x3xf32>, tensor<i32>) -> tensor<2x3xf32>
      %25 = func.call @dynamic_index_in_dim(%iterArg_15, %22) : (tensor<700x2x3xf32>, tensor<i32>) -> tensor<2x3xf32>
      %26 = func.call @dynamic_index_in_dim(%iterArg_16, %22) : (tensor<700x2x3xf32>, tensor<i32>) -> tensor<2x3xf32>
      %27:2 = func.call @closed_call_2(%iterArg_17, %iterArg_19, %iterArg_20, %23, %24, %25, %26) : (tensor<3x3xf32>, tensor<3x3xf32>, tensor<2x3xf32>, tensor<f32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) -> (tensor<3x3xf32>, tensor<2x3xf32>)
      %c_23 = stablehlo.constant dense<1> : tensor<i32>
      %28 = stablehlo.add %iterArg_18, %c_23 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_14, %iterArg_15, %iterArg_16, %iterArg_17, %28, %27#0, %27#1 : tensor<700xf32>, tensor<700x2x3xf32>, tensor<700x2x3xf32>, tensor<700x2x3xf32>, tensor<3x3xf32>, tensor<i32>, tensor<3x3xf32>, tensor<2x3xf32>
    }
    return %12, %13, %20#6 : tensor<f32>, tensor<7xf32>, tensor<3x3xf32>
  }
  func.func private @dynamic_index_in_dim(%arg0: tensor<700x2x3xf32>, %arg1: tensor<i32>) -> tensor<2x3xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 2, 3] : (tensor<700x2x3xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x3xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x2x3xf32>) -> tensor<2x3xf32>
    return %1 : tensor<2x3xf32>
  }
  func.func private @closed_call(%arg0: tensor<3x3xf32>, %arg1: tensor<2x3xf32>, %arg2: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<f32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
    %0 = stablehlo.dot_general %arg1, %arg0, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
    %1 = stablehlo.add %0, %arg2 : tensor<2x3xf32>
    %2 = stablehlo.tanh %1 : tensor<2x3xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
    %4 = stablehlo.subtract %3, %2 : tensor<2x3xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %5 = stablehlo.reduce(%2 init: %cst_0) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<f32>
    return %2, %5, %arg1, %2, %4 : tensor<2x3xf32>, tensor<f32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>
  }
  func.func private @dynamic_update_index_in_dim(%arg0: tensor<700xf32>, %arg1: tensor<f32>, %arg2: tensor<i32>) -> tensor<700xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2 : (tensor<700xf32>, tensor<1xf32>, tensor<i32>) -> tensor<700xf32>
    return %1 : tensor<700xf32>
  }
  func.func private @dynamic_update_index_in_dim_0(%arg0: tensor<700x2x3xf32>, %arg1: tensor<2x3xf32>, %arg2: tensor<i32>) -> tensor<700x2x3xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<2x3xf32>) -> tensor<1x2x3xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<700x2x3xf32>, tensor<1x2x3xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<700x2x3xf32>
    return %1 : tensor<700x2x3xf32>
  }
  func.func private @dynamic_index_in_dim_1(%arg0: tensor<700xf32>, %arg1: tensor<i32>) -> tensor<f32> {
    %0 = stablehlo.dynamic_slice %arg0, %arg1, sizes = [1] : (tensor<700xf32>, tensor<i32>) -> tensor<1xf32>
    %1 = stablehlo.reshape %0 : (tensor<1xf32>) -> tensor<f32>
    return %1 : tensor<f32>
  }
  func.func private @closed_call_2(%arg0: tensor<3x3xf32>, %arg1: tensor<3x3xf32>, %arg2: tensor<2x3xf32>, %arg3: tensor<f32>, %arg4: tensor<2x3xf32>, %arg5: tensor<2x3xf32>, %arg6: tensor<2x3xf32>) -> (tensor<3x3xf32>, tensor<2x3xf32>) {
    %0 = stablehlo.broadcast_in_dim %arg3, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
    %1 = stablehlo.add %arg2, %0 : tensor<2x3xf32>
    %2 = stablehlo.multiply %1, %arg6 : tensor<2x3xf32>
    %3 = stablehlo.multiply %2, %arg5 : tensor<2x3xf32>
    %4 = stablehlo.add %2, %3 : tensor<2x3xf32>
    %5 = stablehlo.dot_general %4, %arg4, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<3x3xf32>
    %6 = stablehlo.transpose %5, dims = [1, 0] : (tensor<3x3xf32>) -> tensor<3x3xf32>
    %7 = stablehlo.add %arg1, %6 : tensor<3x3xf32>
    %8 = stablehlo.dot_general %4, %arg0, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
    return %7, %8 : tensor<3x3xf32>, tensor<2x3xf32>
  }
}

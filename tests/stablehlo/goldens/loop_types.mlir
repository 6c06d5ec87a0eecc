module @jit_loop_types attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<i32>, %arg1: tensor<3xcomplex<f32>>, %arg2: tensor<2xi1>, %arg3: tensor<4xbf16>, %arg4: tensor<2xui32>, %arg5: tensor<4xi8>) -> (tensor<3xcomplex<f32>> {jax.result_info = "result[0]"}, tensor<2xi1> {jax.result_info = "result[1]"}, tensor<4xbf16> {jax.result_info = "result[2]"}, tensor<2xui32> {jax.result_info = "result[3]"}, tensor<4xi8> {jax.result_info = "result[4]"}, tensor<0x3xf32> {jax.result_info = "result[5]"}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<0x3xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1:8 = stablehlo.while(%iterArg = %0, %iterArg_0 = %c, %iterArg_1 = %arg0, %iterArg_2 = %arg1, %iterArg_3 = %arg2, %iterArg_4 = %arg3, %iterArg_5 = %arg4, %iterArg_6 = %arg5) : tensor<0x3xf32>, tensor<i32>, tensor<i32>, tensor<3xcomplex<f32>>, tensor<2xi1>, tensor<4xbf16>, tensor<2xui32>, tensor<4xi8>
    cond {
      %2 = stablehlo.compare LT, %iterArg_0, %iterArg_1, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %2 : tensor<i1>
    } do {
      %c_7 = stablehlo.constant dense<1> : tensor<i32>
      %2 = stablehlo.add %iterArg_0, %c_7 : tensor<i32>
      %cst_8 = stablehlo.constant dense<(0.899999976,1.000000e-01)> : tensor<complex<f32>>
      %3 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<complex<f32>>) -> tensor<3xcomplex<f32>>
      %4 = stablehlo.multiply %iterArg_2, %3 : tensor<3xcomplex<f32>>
      %cst_9 = stablehlo.constant dense<(1.000000e+00,0.000000e+00)> : tensor<complex<f32>>
      %5 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<complex<f32>>) -> tensor<3xcomplex<f32>>
      %6 = stablehlo.add %4, %5 : tensor<3xcomplex<f32>>
      %7 = stablehlo.not %iterArg_3 : tensor<2xi1>
      %cst_10 = stablehlo.constant dense<1.007810e+00> : tensor<bf16>
      %8 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<bf16>) -> tensor<4xbf16>
      %9 = stablehlo.multiply %iterArg_4, %8 : tensor<4xbf16>
      %cst_11 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
      %10 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<bf16>) -> tensor<4xbf16>
      %11 = stablehlo.add %9, %10 : tensor<4xbf16>
      %c_12 = stablehlo.constant dense<1> : tensor<ui32>
      %12 = stablehlo.broadcast_in_dim %c_12, dims = [] : (tensor<ui32>) -> tensor<2xui32>
      %13 = stablehlo.shift_left %iterArg_5, %12 : tensor<2xui32>
      %c_13 = stablehlo.constant dense<1540483477> : tensor<ui32>
      %14 = stablehlo.broadcast_in_dim %c_13, dims = [] : (tensor<ui32>) -> tensor<2xui32>
      %15 = stablehlo.xor %13, %14 : tensor<2xui32>
      %c_14 = stablehlo.constant dense<4> : tensor<i32>
      %16 = func.call @remainder(%iterArg_0, %c_14) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      %c_15 = stablehlo.constant dense<0> : tensor<i32>
      %17 = stablehlo.compare LT, %16, %c_15, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %c_16 = stablehlo.constant dense<4> : tensor<i32>
      %18 = stablehlo.add %16, %c_16 : tensor<i32>
      %19 = stablehlo.select %17, %18, %16 : tensor<i1>, tensor<i32>
      %20 = stablehlo.convert %19 : tensor<i32>
      %21 = stablehlo.broadcast_in_dim %20, dims = [] : (tensor<i32>) -> tensor<1xi32>
      %c_17 = stablehlo.constant dense<3> : tensor<i8>
      %22 = "stablehlo.scatter"(%iterArg_6, %21, %c_17) <{indices_are_sorted = true, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0]>, unique_indices = true}> ({
      ^bb0(%arg6: tensor<i8>, %arg7: tensor<i8>):
        %23 = stablehlo.add %arg6, %arg7 : tensor<i8>
        stablehlo.return %23 : tensor<i8>
      }) : (tensor<4xi8>, tensor<1xi32>, tensor<i8>) -> tensor<4xi8>
      stablehlo.return %iterArg, %2, %iterArg_1, %6, %7, %11, %15, %22 : tensor<0x3xf32>, tensor<i32>, tensor<i32>, tensor<3xcomplex<f32>>, tensor<2xi1>, tensor<4xbf16>, tensor<2xui32>, tensor<4xi8>
    }
    return %1#3, %1#4, %1#5, %1#6, %1#7, %0 : tensor<3xcomplex<f32>>, tensor<2xi1>, tensor<4xbf16>, tensor<2xui32>, tensor<4xi8>, tensor<0x3xf32>
  }
  func.func private @remainder(%arg0: tensor<i32>, %arg1: tensor<i32>) -> tensor<i32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.compare EQ, %arg1, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_0 = stablehlo.constant dense<1> : tensor<i32>
    %1 = call @_where(%0, %c_0, %arg1) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
    %2 = stablehlo.remainder %arg0, %1 : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %3 = stablehlo.compare NE, %2, %c_1, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %4 = stablehlo.compare LT, %2, %c_2, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %5 = stablehlo.compare LT, %1, %c_3, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %6 = stablehlo.compare NE, %4, %5, UNSIGNED : (tensor<i1>, tensor<i1>) -> tensor<i1>
    %7 = stablehlo.and %6, %3 : tensor<i1>
    %8 = stablehlo.add %2, %1 : tensor<i32>
    %9 = stablehlo.select %7, %8, %2 : tensor<i1>, tensor<i32>
    return %9 : tensor<i32>
  }
  func.func private @_where(%arg0: tensor<i1>, %arg1: tensor<i32>, %arg2: tensor<i32>) -> tensor<i32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<i1>, tensor<i32>
    return %0 : tensor<i32>
  }
}

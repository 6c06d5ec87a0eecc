module @jit_integers attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<5xi32>, %arg1: tensor<5xi32>) -> (tensor<5xi32> {jax.result_info = "result[0]"}, tensor<5xi32> {jax.result_info = "result[1]"}, tensor<5xi32> {jax.result_info = "result[2]"}, tensor<5xi32> {jax.result_info = "result[3]"}, tensor<5xui32> {jax.result_info = "result[4]"}, tensor<5xui32> {jax.result_info = "result[5]"}, tensor<5xui32> {jax.result_info = "result[6]"}, tensor<5xi32> {jax.result_info = "result[7]"}, tensor<5xi32> {jax.result_info = "result[8]"}, tensor<5xi32> {jax.result_info = "result[9]"}, tensor<5xi32> {jax.result_info = "result[10]"}, tensor<5xi32> {jax.result_info = "result[11]"}, tensor<5xi32> {jax.result_info = "result[12]"}, tensor<5xi32> {jax.result_info = "result[13]"}, tensor<5xf32> {jax.result_info = "result[14]"}, tensor<5xi1> {jax.result_info = "result[15]"}, tensor<5xui32> {jax.result_info = "result[16]"}, tensor<5xi32> {jax.result_info = "result[17]"}, tensor<5xi32> {jax.result_info = "result[18]"}, tensor<5xi32> {jax.result_info = "result[19]"}, tensor<5xi8> {jax.result_info = "result[20]"}, tensor<5x4xui8> {jax.result_info = "result[21]"}) {
    %0 = stablehlo.convert %arg0 : (tensor<5xi32>) -> tensor<5xui32>
    %1 = call @floor_divide(%arg0, %arg1) : (tensor<5xi32>, tensor<5xi32>) -> tensor<5xi32>
    %2 = call @remainder(%arg0, %arg1) : (tensor<5xi32>, tensor<5xi32>) -> tensor<5xi32>
    %c = stablehlo.constant dense<3> : tensor<i32>
    %3 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<5xi32>
    %4 = stablehlo.shift_left %arg0, %3 : tensor<5xi32>
    %c_0 = stablehlo.constant dense<2> : tensor<i32>
    %5 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<5xi32>
    %6 = stablehlo.shift_right_arithmetic %arg0, %5 : tensor<5xi32>
    %c_1 = stablehlo.constant dense<5> : tensor<ui32>
    %7 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<ui32>) -> tensor<5xui32>
    %8 = stablehlo.shift_right_logical %0, %7 : tensor<5xui32>
    %c_2 = stablehlo.constant dense<7> : tensor<i32>
    %9 = call @floor_divide_0(%0, %c_2) : (tensor<5xui32>, tensor<i32>) -> tensor<5xui32>
    %c_3 = stablehlo.constant dense<7> : tensor<i32>
    %10 = call @remainder_1(%0, %c_3) : (tensor<5xui32>, tensor<i32>) -> tensor<5xui32>
    %11 = stablehlo.multiply %arg0, %arg0 : tensor<5xi32>
    %12 = stablehlo.popcnt %arg0 : tensor<5xi32>
    %13 = stablehlo.count_leading_zeros %arg0 : tensor<5xi32>
    %14 = stablehlo.and %arg0, %arg1 : tensor<5xi32>
    %15 = stablehlo.or %arg0, %arg1 : tensor<5xi32>
    %16 = stablehlo.xor %arg0, %arg1 : tensor<5xi32>
    %17 = stablehlo.not %arg0 : tensor<5xi32>
    %18 = stablehlo.convert %0 : (tensor<5xui32>) -> tensor<5xf32>
    %c_4 = stablehlo.constant dense<10> : tensor<ui32>
    %19 = stablehlo.broadcast_in_dim %c_4, dims = [] : (tensor<ui32>) -> tensor<5xui32>
    %20 = stablehlo.compare GT, %0, %19, UNSIGNED : (tensor<5xui32>, tensor<5xui32>) -> tensor<5xi1>
    %c_5 = stablehlo.constant dense<100> : tensor<ui32>
    %21 = stablehlo.broadcast_in_dim %c_5, dims = [] : (tensor<ui32>) -> tensor<5xui32>
    %22 = stablehlo.minimum %0, %21 : tensor<5xui32>
    %23 = stablehlo.shift_left %arg0, %arg1 : tensor<5xi32>
    %24 = stablehlo.shift_right_logical %arg0, %arg1 : tensor<5xi32>
    %25 = stablehlo.shift_right_arithmetic %arg0, %arg1 : tensor<5xi32>
    %26 = stablehlo.convert %arg0 : (tensor<5xi32>) -> tensor<5xi8>
    %27 = stablehlo.bitcast_convert %arg0 : (tensor<5xi32>) -> tensor<5x4xui8>
    return %1, %2, %4, %6, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %20, %22, %23, %24, %25, %26, %27 : tensor<5xi32>, tensor<5xi32>, tensor<5xi32>, tensor<5xi32>, tensor<5xui32>, tensor<5xui32>, tensor<5xui32>, tensor<5xi32>, tensor<5xi32>, tensor<5xi32>, tensor<5xi32>, tensor<5xi32>, tensor<5xi32>, tensor<5xi32>, tensor<5xf32>, tensor<5xi1>, tensor<5xui32>, tensor<5xi32>, tensor<5xi32>, tensor<5xi32>, tensor<5xi8>, tensor<5x4xui8>
  }
  func.func private @floor_divide(%arg0: tensor<5xi32>, %arg1: tensor<5xi32>) -> tensor<5xi32> {
    %0 = stablehlo.divide %arg0, %arg1 : tensor<5xi32>
    %1 = stablehlo.sign %arg0 : tensor<5xi32>
    %2 = stablehlo.sign %arg1 : tensor<5xi32>
    %3 = stablehlo.compare NE, %1, %2, SIGNED : (tensor<5xi32>, tensor<5xi32>) -> tensor<5xi1>
    %4 = stablehlo.remainder %arg0, %arg1 : tensor<5xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %5 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<5xi32>
    %6 = stablehlo.compare NE, %4, %5, SIGNED : (tensor<5xi32>, tensor<5xi32>) -> tensor<5xi1>
    %7 = stablehlo.and %3, %6 : tensor<5xi1>
    %c_0 = stablehlo.constant dense<1> : tensor<i32>
    %8 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<5xi32>
    %9 = stablehlo.subtract %0, %8 : tensor<5xi32>
    %10 = call @_where(%7, %9, %0) : (tensor<5xi1>, tensor<5xi32>, tensor<5xi32>) -> tensor<5xi32>
    return %10 : tensor<5xi32>
  }
  func.func private @_where(%arg0: tensor<5xi1>, %arg1: tensor<5xi32>, %arg2: tensor<5xi32>) -> tensor<5xi32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<5xi1>, tensor<5xi32>
    return %0 : tensor<5xi32>
  }
  func.func private @remainder(%arg0: tensor<5xi32>, %arg1: tensor<5xi32>) -> tensor<5xi32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<5xi32>
    %1 = stablehlo.compare EQ, %arg1, %0, SIGNED : (tensor<5xi32>, tensor<5xi32>) -> tensor<5xi1>
    %c_0 = stablehlo.constant dense<1> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<5xi32>
    %3 = call @_where(%1, %2, %arg1) : (tensor<5xi1>, tensor<5xi32>, tensor<5xi32>) -> tensor<5xi32>
    %4 = stablehlo.remainder %arg0, %3 : tensor<5xi32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %5 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<i32>) -> tensor<5xi32>
    %6 = stablehlo.compare NE, %4, %5, SIGNED : (tensor<5xi32>, tensor<5xi32>) -> tensor<5xi1>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %7 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<5xi32>
    %8 = stablehlo.compare LT, %4, %7, SIGNED : (tensor<5xi32>, tensor<5xi32>) -> tensor<5xi1>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %9 = stablehlo.broadcast_in_dim %c_3, dims = [] : (tensor<i32>) -> tensor<5xi32>
    %10 = stablehlo.compare LT, %3, %9, SIGNED : (tensor<5xi32>, tensor<5xi32>) -> tensor<5xi1>
    %11 = stablehlo.compare NE, %8, %10, UNSIGNED : (tensor<5xi1>, tensor<5xi1>) -> tensor<5xi1>
    %12 = stablehlo.and %11, %6 : tensor<5xi1>
    %13 = stablehlo.add %4, %3 : tensor<5xi32>
    %14 = stablehlo.select %12, %13, %4 : tensor<5xi1>, tensor<5xi32>
    return %14 : tensor<5xi32>
  }
  func.func private @floor_divide_0(%arg0: tensor<5xui32>, %arg1: tensor<i32>) -> tensor<5xui32> {
    %0 = stablehlo.convert %arg1 : (tensor<i32>) -> tensor<ui32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<ui32>) -> tensor<5xui32>
    %2 = stablehlo.divide %arg0, %1 : tensor<5xui32>
    return %2 : tensor<5xui32>
  }
  func.func private @remainder_1(%arg0: tensor<5xui32>, %arg1: tensor<i32>) -> tensor<5xui32> {
    %0 = stablehlo.convert %arg1 : (tensor<i32>) -> tensor<ui32>
    %c = stablehlo.constant dense<0> : tensor<ui32>
    %1 = stablehlo.compare EQ, %0, %c, UNSIGNED : (tensor<ui32>, tensor<ui32>) -> tensor<i1>
    %c_0 = stablehlo.constant dense<1> : tensor<ui32>
    %2 = call @_where_2(%1, %c_0, %0) : (tensor<i1>, tensor<ui32>, tensor<ui32>) -> tensor<ui32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<ui32>) -> tensor<5xui32>
    %4 = stablehlo.remainder %arg0, %3 : tensor<5xui32>
    %c_1 = stablehlo.constant dense<0> : tensor<ui32>
    %5 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<ui32>) -> tensor<5xui32>
    %6 = stablehlo.compare NE, %4, %5, UNSIGNED : (tensor<5xui32>, tensor<5xui32>) -> tensor<5xi1>
    %c_2 = stablehlo.constant dense<0> : tensor<ui32>
    %7 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<ui32>) -> tensor<5xui32>
    %8 = stablehlo.compare LT, %4, %7, UNSIGNED : (tensor<5xui32>, tensor<5xui32>) -> tensor<5xi1>
    %c_3 = stablehlo.constant dense<0> : tensor<ui32>
    %9 = stablehlo.compare LT, %2, %c_3, UNSIGNED : (tensor<ui32>, tensor<ui32>) -> tensor<i1>
    %10 = stablehlo.broadcast_in_dim %9, dims = [] : (tensor<i1>) -> tensor<5xi1>
    %11 = stablehlo.compare NE, %8, %10, UNSIGNED : (tensor<5xi1>, tensor<5xi1>) -> tensor<5xi1>
    %12 = stablehlo.and %11, %6 : tensor<5xi1>
    %13 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<ui32>) -> tensor<5xui32>
    %14 = stablehlo.add %4, %13 : tensor<5xui32>
    %15 = stablehlo.select %12, %14, %4 : tensor<5xi1>, tensor<5xui32>
    return %15 : tensor<5xui32>
  }
  func.func private @_where_2(%arg0: tensor<i1>, %arg1: tensor<ui32>, %arg2: tensor<ui32>) -> tensor<ui32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<i1>, tensor<ui32>
    return %0 : tensor<ui32>
  }
}

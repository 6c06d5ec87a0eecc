module @jit_special attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<14xf32>) -> (tensor<14xf32> {jax.result_info = "result[0]"}, tensor<14xf32> {jax.result_info = "result[1]"}, tensor<14xf32> {jax.result_info = "result[2]"}, tensor<14xf32> {jax.result_info = "result[3]"}, tensor<14xf32> {jax.result_info = "result[4]"}, tensor<14xf32> {jax.result_info = "result[5]"}, tensor<14xf32> {jax.result_info = "result[6]"}, tensor<14xf32> {jax.result_info = "result[7]"}, tensor<14xf32> {jax.result_info = "result[8]"}, tensor<14xf32> {jax.result_info = "result[9]"}, tensor<14xf32> {jax.result_info = "result[10]"}, tensor<14xf32> {jax.result_info = "result[11]"}, tensor<14xf32> {jax.result_info = "result[12]"}, tensor<14xf32> {jax.result_info = "result[13]"}, tensor<14xf32> {jax.result_info = "result[14]"}, tensor<14xf32> {jax.result_info = "result[15]"}, tensor<14xf32> {jax.result_info = "result[16]"}, tensor<14xf32> {jax.result_info = "result[17]"}, tensor<14xf32> {jax.result_info = "result[18]"}, tensor<14xf32> {jax.result_info = "result[19]"}, tensor<14xf32> {jax.result_info = "result[20]"}, tensor<14xf32> {jax.result_info = "result[21]"}, tensor<14xf32> {jax.result_info = "result[22]"}, tensor<14xf32> {jax.result_info = "result[23]"}, tensor<14xf32> {jax.result_info = "result[24]"}, tensor<14xf32> {jax.result_info = "result[25]"}) {
    %0 = stablehlo.tanh %arg0 : tensor<14xf32>
    %cst = stablehlo.constant dense<0.899999976> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<14xf32>
    %2 = stablehlo.multiply %1, %0 : tensor<14xf32>
    %3 = chlo.erf %arg0 : tensor<14xf32> -> tensor<14xf32>
    %4 = chlo.erfc %arg0 : tensor<14xf32> -> tensor<14xf32>
    %5 = chlo.erf_inv %2 : tensor<14xf32> -> tensor<14xf32>
    %6 = chlo.lgamma %arg0 : tensor<14xf32> -> tensor<14xf32>
    %7 = chlo.digamma %arg0 : tensor<14xf32> -> tensor<14xf32>
    %8 = chlo.sinh %arg0 : tensor<14xf32> -> tensor<14xf32>
    %9 = chlo.cosh %arg0 : tensor<14xf32> -> tensor<14xf32>
    %10 = stablehlo.tan %arg0 : tensor<14xf32>
    %11 = chlo.asin %2 : tensor<14xf32> -> tensor<14xf32>
    %12 = chlo.acos %2 : tensor<14xf32> -> tensor<14xf32>
    %13 = chlo.atan %arg0 : tensor<14xf32> -> tensor<14xf32>
    %14 = chlo.asinh %arg0 : tensor<14xf32> -> tensor<14xf32>
    %15 = stablehlo.abs %arg0 : tensor<14xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %16 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<14xf32>
    %17 = stablehlo.add %16, %15 : tensor<14xf32>
    %18 = call @arccosh(%17) : (tensor<14xf32>) -> tensor<14xf32>
    %19 = chlo.atanh %2 : tensor<14xf32> -> tensor<14xf32>
    %20 = stablehlo.cbrt %arg0 : tensor<14xf32>
    %21 = stablehlo.sign %arg0 : tensor<14xf32>
    %22 = call @round(%arg0) : (tensor<14xf32>) -> tensor<14xf32>
    %cst_1 = stablehlo.constant dense<3.000000e-01> : tensor<f32>
    %23 = call @floor_divide(%arg0, %cst_1) : (tensor<14xf32>, tensor<f32>) -> tensor<14xf32>
    %cst_2 = stablehlo.constant dense<3.000000e-01> : tensor<f32>
    %24 = call @remainder(%arg0, %cst_2) : (tensor<14xf32>, tensor<f32>) -> tensor<14xf32>
    %cst_3 = stablehlo.constant dense<0.693147182> : tensor<f32>
    %25 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<14xf32>
    %26 = stablehlo.multiply %25, %arg0 : tensor<14xf32>
    %27 = stablehlo.exponential %26 : tensor<14xf32>
    %28 = stablehlo.negate %arg0 : tensor<14xf32>
    %29 = stablehlo.maximum %arg0, %28 : tensor<14xf32>
    %30 = stablehlo.subtract %arg0, %28 : tensor<14xf32>
    %31 = stablehlo.compare NE, %30, %30, FLOAT : (tensor<14xf32>, tensor<14xf32>) -> tensor<14xi1>
    %32 = stablehlo.add %arg0, %28 : tensor<14xf32>
    %33 = stablehlo.abs %30 : tensor<14xf32>
    %34 = stablehlo.negate %33 : tensor<14xf32>
    %35 = stablehlo.exponential %34 : tensor<14xf32>
    %36 = stablehlo.log_plus_one %35 : tensor<14xf32>
    %37 = stablehlo.add %29, %36 : tensor<14xf32>
    %38 = stablehlo.select %31, %32, %37 : tensor<14xi1>, tensor<14xf32>
    %cst_4 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %39 = call @hypot(%arg0, %cst_4) : (tensor<14xf32>, tensor<f32>) -> tensor<14xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %40 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<14xf32>
    %41 = chlo.next_after %arg0, %40 : tensor<14xf32>, tensor<14xf32> -> tensor<14xf32>
    %cst_6 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %cst_7 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %42 = call @clip(%arg0, %cst_6, %cst_7) : (tensor<14xf32>, tensor<f32>, tensor<f32>) -> tensor<14xf32>
    %43 = call @silu(%arg0) : (tensor<14xf32>) -> tensor<14xf32>
    %cst_8 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %44 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<14xf32>
    %45 = stablehlo.multiply %44, %arg0 : tensor<14xf32>
    %46 = stablehlo.negate %arg0 : tensor<14xf32>
    %cst_9 = stablehlo.constant dense<0.707106769> : tensor<f32>
    %47 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<14xf32>
    %48 = stablehlo.multiply %46, %47 : tensor<14xf32>
    %49 = chlo.erfc %48 : tensor<14xf32> -> tensor<14xf32>
    %50 = stablehlo.multiply %45, %49 : tensor<14xf32>
    return %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %18, %19, %20, %21, %22, %23, %24, %27, %38, %39, %41, %42, %43, %50 : tensor<14xf32>, tensor<14xf32>, tensor<14xf32>, tensor<14xf32>, tensor<14xf32>, tensor<14xf32>, tensor<14xf32>, tensor<14xf32>, tensor<14xf32>, tensor<14xf32>, tensor<14xf32>, tensor<14xf32>, tensor<14xf32>, tensor<14xf32>, tensor<14xf32>, tensor<14xf32>, tensor<14xf32>, tensor<14xf32>, tensor<14xf32>, tensor<14xf32>, tensor<14xf32>, tensor<14xf32>, tensor<14xf32>, tensor<14xf32>, tensor<14xf32>, tensor<14xf32>
  }
  func.func private @arccosh(%arg0: tensor<14xf32>) -> tensor<14xf32> {
    %0 = chlo.acosh %arg0 : tensor<14xf32> -> tensor<14xf32>
    return %0 : tensor<14xf32>
  }
  func.func private @round(%arg0: tensor<14xf32>) -> tensor<14xf32> {
    %0 = stablehlo.round_nearest_even %arg0 : tensor<14xf32>
    return %0 : tensor<14xf32>
  }
  func.func private @floor_divide(%arg0: tensor<14xf32>, %arg1: tensor<f32>) -> tensor<14xf32> {
    %0 = stablehlo.convert %arg1 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<14xf32>
    %2 = stablehlo.remainder %arg0, %1 : tensor<14xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %3 = stablehlo.compare EQ, %0, %cst, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %4 = stablehlo.subtract %arg0, %2 : tensor<14xf32>
    %5 = call @_where(%3, %arg0, %4) : (tensor<i1>, tensor<14xf32>, tensor<14xf32>) -> tensor<14xf32>
    %6 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<14xf32>
    %7 = stablehlo.divide %5, %6 : tensor<14xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %8 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<14xf32>
    %9 = stablehlo.compare NE, %2, %8, FLOAT : (tensor<14xf32>, tensor<14xf32>) -> tensor<14xi1>
    %10 = stablehlo.sign %0 : tensor<f32>
    %11 = stablehlo.sign %2 : tensor<14xf32>
    %12 = stablehlo.broadcast_in_dim %10, dims = [] : (tensor<f32>) -> tensor<14xf32>
    %13 = stablehlo.compare NE, %12, %11, FLOAT : (tensor<14xf32>, tensor<14xf32>) -> tensor<14xi1>
    %14 = stablehlo.and %9, %13 : tensor<14xi1>
    %15 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<14xf32>
    %16 = stablehlo.add %2, %15 : tensor<14xf32>
    %17 = stablehlo.select %14, %16, %2 : tensor<14xi1>, tensor<14xf32>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %18 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<14xf32>
    %19 = stablehlo.subtract %7, %18 : tensor<14xf32>
    %20 = stablehlo.select %14, %19, %7 : tensor<14xi1>, tensor<14xf32>
    %21 = stablehlo.round_nearest_afz %20 : tensor<14xf32>
    return %21 : tensor<14xf32>
  }
  func.func private @_where(%arg0: tensor<i1>, %arg1: tensor<14xf32>, %arg2: tensor<14xf32>) -> tensor<14xf32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<i1>, tensor<14xf32>
    return %0 : tensor<14xf32>
  }
  func.func private @remainder(%arg0: tensor<14xf32>, %arg1: tensor<f32>) -> tensor<14xf32> {
    %0 = stablehlo.convert %arg1 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<14xf32>
    %2 = stablehlo.remainder %arg0, %1 : tensor<14xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<14xf32>
    %4 = stablehlo.compare NE, %2, %3, FLOAT : (tensor<14xf32>, tensor<14xf32>) -> tensor<14xi1>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<14xf32>
    %6 = stablehlo.compare LT, %2, %5, FLOAT : (tensor<14xf32>, tensor<14xf32>) -> tensor<14xi1>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %7 = stablehlo.compare LT, %0, %cst_1, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %8 = stablehlo.broadcast_in_dim %7, dims = [] : (tensor<i1>) -> tensor<14xi1>
    %9 = stablehlo.compare NE, %6, %8, UNSIGNED : (tensor<14xi1>, tensor<14xi1>) -> tensor<14xi1>
    %10 = stablehlo.and %9, %4 : tensor<14xi1>
    %11 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<14xf32>
    %12 = stablehlo.add %2, %11 : tensor<14xf32>
    %13 = stablehlo.select %10, %12, %2 : tensor<14xi1>, tensor<14xf32>
    return %13 : tensor<14xf32>
  }
  func.func private @hypot(%arg0: tensor<14xf32>, %arg1: tensor<f32>) -> tensor<14xf32> {
    %0 = stablehlo.convert %arg1 : tensor<f32>
    %1 = stablehlo.abs %arg0 : tensor<14xf32>
    %2 = stablehlo.abs %0 : tensor<f32>
    %cst = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<14xf32>
    %4 = stablehlo.compare EQ, %1, %3, FLOAT : (tensor<14xf32>, tensor<14xf32>) -> tensor<14xi1>
    %cst_0 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %5 = stablehlo.compare EQ, %2, %cst_0, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %6 = stablehlo.broadcast_in_dim %5, dims = [] : (tensor<i1>) -> tensor<14xi1>
    %7 = stablehlo.or %4, %6 : tensor<14xi1>
    %8 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<f32>) -> tensor<14xf32>
    %9 = stablehlo.maximum %1, %8 : tensor<14xf32>
    %10 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<f32>) -> tensor<14xf32>
    %11 = stablehlo.minimum %1, %10 : tensor<14xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<14xf32>
    %13 = stablehlo.compare EQ, %9, %12, FLOAT : (tensor<14xf32>, tensor<14xf32>) -> tensor<14xi1>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<14xf32>
    %15 = stablehlo.compare EQ, %9, %14, FLOAT : (tensor<14xf32>, tensor<14xf32>) -> tensor<14xi1>
    %cst_3 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %16 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<14xf32>
    %17 = call @_where_0(%15, %16, %9) : (tensor<14xi1>, tensor<14xf32>, tensor<14xf32>) -> tensor<14xf32>
    %18 = stablehlo.divide %11, %17 : tensor<14xf32>
    %19 = chlo.square %18 : tensor<14xf32> -> tensor<14xf32>
    %cst_4 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %20 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<14xf32>
    %21 = stablehlo.add %20, %19 : tensor<14xf32>
    %22 = stablehlo.sqrt %21 : tensor<14xf32>
    %23 = stablehlo.multiply %9, %22 : tensor<14xf32>
    %24 = call @_where_0(%13, %9, %23) : (tensor<14xi1>, tensor<14xf32>, tensor<14xf32>) -> tensor<14xf32>
    %cst_5 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %25 = call @_where_1(%7, %cst_5, %24) : (tensor<14xi1>, tensor<f32>, tensor<14xf32>) -> tensor<14xf32>
    return %25 : tensor<14xf32>
  }
  func.func private @_where_0(%arg0: tensor<14xi1>, %arg1: tensor<14xf32>, %arg2: tensor<14xf32>) -> tensor<14xf32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<14xi1>, tensor<14xf32>
    return %0 : tensor<14xf32>
  }
  func.func private @_where_1(%arg0: tensor<14xi1>, %arg1: tensor<f32>, %arg2: tensor<14xf32>) -> tensor<14xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<14xf32>
    %1 = stablehlo.select %arg0, %0, %arg2 : tensor<14xi1>, tensor<14xf32>
    return %1 : tensor<14xf32>
  }
  func.func private @clip(%arg0: tensor<14xf32>, %arg1: tensor<f32>, %arg2: tensor<f32>) -> tensor<14xf32> {
    %0 = stablehlo.convert %arg1 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<14xf32>
    %2 = stablehlo.maximum %1, %arg0 : tensor<14xf32>
    %3 = stablehlo.convert %arg2 : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [] : (tensor<f32>) -> tensor<14xf32>
    %5 = stablehlo.minimum %4, %2 : tensor<14xf32>
    return %5 : tensor<14xf32>
  }
  func.func private @silu(%arg0: tensor<14xf32>) -> tensor<14xf32> {
    %0 = stablehlo.negate %arg0 : tensor<14xf32>
    %1 = stablehlo.exponential %0 : tensor<14xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<14xf32>
    %3 = stablehlo.add %2, %1 : tensor<14xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<14xf32>
    %5 = stablehlo.divide %4, %3 : tensor<14xf32>
    %6 = stablehlo.multiply %arg0, %5 : tensor<14xf32>
    return %6 : tensor<14xf32>
  }
}

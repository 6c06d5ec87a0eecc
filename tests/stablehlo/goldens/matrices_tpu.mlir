module @jit_matrices attributes {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x5x5xf32>, %arg1: tensor<2x5x3xf32>) -> (tensor<f32> {jax.result_info = "result[0][0]"}, tensor<f32> {jax.result_info = "result[0][1]"}, tensor<2x5x5xf32> {jax.result_info = "result[1]"}, tensor<2x5x3xf32> {jax.result_info = "result[2]"}, tensor<2x5x3xf32> {jax.result_info = "result[3]"}, tensor<5xf32> {jax.result_info = "result[4]"}, tensor<2xf32> {jax.result_info = "result[5].sign"}, tensor<2xf32> {jax.result_info = "result[5].logabsdet"}, tensor<5x5xf32> {jax.result_info = "result[6][0]"}, tensor<5x3xf32> {jax.result_info = "result[6][1]"}, tensor<3x3xf32> {jax.result_info = "result[6][2]"}, tensor<5x3xf32> {jax.result_info = "result[6][3]"}, tensor<3x3xf32> {jax.result_info = "result[6][4]"}, tensor<3x3xf32> {jax.result_info = "result[7][0]"}, tensor<3x3xf32> {jax.result_info = "result[7][1]"}, tensor<3x5xf32> {jax.result_info = "result[7][2]"}, tensor<3x3xf32> {jax.result_info = "result[7][3]"}, tensor<3x5xf32> {jax.result_info = "result[7][4]"}, tensor<2x2xf32> {jax.result_info = "result[8]"}, tensor<2x5xf32> {jax.result_info = "result[9]"}, tensor<2x5x5xf32> {jax.result_info = "result[10]"}, tensor<5xf32> {jax.result_info = "result[11]"}, tensor<2xf32> {jax.result_info = "result[12]"}) {
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_0 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %cst_2 = stablehlo.constant dense<1.500000e+00> : tensor<f32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %cst_3 = stablehlo.constant dense<4.000000e+01> : tensor<f32>
    %cst_4 = stablehlo.constant dense<5.000000e+01> : tensor<f32>
    %c_5 = stablehlo.constant dense<101> : tensor<i32>
    %cst_6 = stablehlo.constant dense<5.000000e+00> : tensor<f32>
    %cst_7 = stablehlo.constant dense<1.100000e+01> : tensor<f32>
    %cst_8 = stablehlo.constant dense<3.700000e+01> : tensor<f32>
    %0 = stablehlo.iota dim = 0 : tensor<40xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<40xf32>) -> tensor<40x1xf32>
    %2 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<40x1xf32>
    %3 = stablehlo.multiply %1, %2 : tensor<40x1xf32>
    %4 = stablehlo.multiply %0, %0 : tensor<40xf32>
    %5 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<40xf32>
    %6 = stablehlo.multiply %4, %5 : tensor<40xf32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [1] : (tensor<40xf32>) -> tensor<1x40xf32>
    %8 = stablehlo.broadcast_in_dim %3, dims = [0, 1] : (tensor<40x1xf32>) -> tensor<40x40xf32>
    %9 = stablehlo.broadcast_in_dim %7, dims = [0, 1] : (tensor<1x40xf32>) -> tensor<40x40xf32>
    %10 = stablehlo.add %8, %9 : tensor<40x40xf32>
    %11 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<40xf32>) -> tensor<40x1xf32>
    %12 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<40xf32>) -> tensor<1x40xf32>
    %13 = stablehlo.broadcast_in_dim %11, dims = [0, 1] : (tensor<40x1xf32>) -> tensor<40x40xf32>
    %14 = stablehlo.broadcast_in_dim %12, dims = [0, 1] : (tensor<1x40xf32>) -> tensor<40x40xf32>
    %15 = stablehlo.multiply %13, %14 : tensor<40x40xf32>
    %16 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<40x40xf32>
    %17 = stablehlo.multiply %15, %16 : tensor<40x40xf32>
    %18 = stablehlo.add %10, %17 : tensor<40x40xf32>
    %19 = call @remainder(%18, %c_5) : (tensor<40x40xf32>, tensor<i32>) -> tensor<40x40xf32>
    %20 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<40x40xf32>
    %21 = stablehlo.subtract %19, %20 : tensor<40x40xf32>
    %22 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<40x40xf32>
    %23 = stablehlo.divide %21, %22 : tensor<40x40xf32>
    %24 = stablehlo.transpose %23, dims = [1, 0] : (tensor<40x40xf32>) -> tensor<40x40xf32>
    %25 = stablehlo.dot_general %23, %24, contracting_dims = [1] x [0] : (tensor<40x40xf32>, tensor<40x40xf32>) -> tensor<40x40xf32>
    %26 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<40x40xf32>
    %27 = stablehlo.divide %25, %26 : tensor<40x40xf32>
    %28 = stablehlo.iota dim = 0 : tensor<40x40xi32>
    %29 = stablehlo.iota dim = 1 : tensor<40x40xi32>
    %30 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<40x40xi32>
    %31 = stablehlo.add %28, %30 : tensor<40x40xi32>
    %32 = stablehlo.compare EQ, %31, %29, SIGNED : (tensor<40x40xi32>, tensor<40x40xi32>) -> tensor<40x40xi1>
    %33 = stablehlo.convert %32 : (tensor<40x40xi1>) -> tensor<40x40xf32>
    %34 = stablehlo.add %27, %33 : tensor<40x40xf32>
    %35 = stablehlo.transpose %arg0, dims = [0, 2, 1] : (tensor<2x5x5xf32>) -> tensor<2x5x5xf32>
    %36 = stablehlo.dot_general %arg0, %35, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x5x5xf32>, tensor<2x5x5xf32>) -> tensor<2x5x5xf32>
    %37 = stablehlo.iota dim = 0 : tensor<5x5xi32>
    %38 = stablehlo.iota dim = 1 : tensor<5x5xi32>
    %39 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<5x5xi32>
    %40 = stablehlo.add %37, %39 : tensor<5x5xi32>
    %41 = stablehlo.compare EQ, %40, %38, SIGNED : (tensor<5x5xi32>, tensor<5x5xi32>) -> tensor<5x5xi1>
    %42 = stablehlo.convert %41 : (tensor<5x5xi1>) -> tensor<5x5xf32>
    %43 = stablehlo.broadcast_in_dim %42, dims = [1, 2] : (tensor<5x5xf32>) -> tensor<1x5x5xf32>
    %44 = stablehlo.broadcast_in_dim %43, dims = [0, 1, 2] : (tensor<1x5x5xf32>) -> tensor<2x5x5xf32>
    %45 = stablehlo.add %36, %44 : tensor<2x5x5xf32>
    %46:2 = call @eigh(%45) : (tensor<2x5x5xf32>) -> (tensor<2x5xf32>, tensor<2x5x5xf32>)
    %47 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<40x40xf32>
    %48 = stablehlo.multiply %34, %47 : tensor<40x40xf32>
    %49:7 = call @cholesky(%48) : (tensor<40x40xf32>) -> (tensor<40x40xf32>, tensor<40x40xf32>, tensor<40x40xi1>, tensor<40x40xf32>, tensor<40x40xf32>, tensor<40x40xi1>, tensor<40x40xf32>)
    %50:4 = call @diagonal(%49#0) : (tensor<40x40xf32>) -> (tensor<40xf32>, tensor<i32>, tensor<40x40xf32>, tensor<40x2xi32>)
    %51 = stablehlo.log %50#0 : tensor<40xf32>
    %52 = stablehlo.reduce(%51 init: %cst_1) applies stablehlo.add across dimensions = [0] : (tensor<40xf32>, tensor<f32>) -> tensor<f32>
    %53 = stablehlo.divide %52, %cst_3 : tensor<f32>
    %54:4 = call @_solve_triangular(%49#0, %0) : (tensor<40x40xf32>, tensor<40xf32>) -> (tensor<40xf32>, tensor<40x40xi1>, tensor<40x40xf32>, tensor<40x1xf32>)
    %55 = stablehlo.multiply %54#0, %54#0 : tensor<40xf32>
    %56 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<40xf32>
    %57 = stablehlo.multiply %56, %54#0 : tensor<40xf32>
    %58 = stablehlo.reduce(%55 init: %cst_1) applies stablehlo.add across dimensions = [0] : (tensor<40xf32>, tensor<f32>) -> tensor<f32>
    %59 = stablehlo.divide %58, %cst_3 : tensor<f32>
    %60 = stablehlo.divide %59, %cst_3 : tensor<f32>
    %61 = stablehlo.add %53, %60 : tensor<f32>
    %62 = stablehlo.divide %cst, %cst_3 : tensor<f32>
    %63 = stablehlo.divide %62, %cst_3 : tensor<f32>
    %64 = stablehlo.broadcast_in_dim %63, dims = [] : (tensor<f32>) -> tensor<40xf32>
    %65 = stablehlo.multiply %64, %57 : tensor<40xf32>
    %66 = call @_solve_triangular_0(%54#1, %54#2, %54#3, %49#0, %65) : (tensor<40x40xi1>, tensor<40x40xf32>, tensor<40x1xf32>, tensor<40x40xf32>, tensor<40xf32>) -> tensor<40x40xf32>
    %67 = stablehlo.divide %cst, %cst_3 : tensor<f32>
    %68 = stablehlo.broadcast_in_dim %67, dims = [] : (tensor<f32>) -> tensor<40xf32>
    %69 = stablehlo.divide %68, %50#0 : tensor<40xf32>
    %70 = call @diagonal_1(%50#1, %50#2, %50#3, %69) : (tensor<i32>, tensor<40x40xf32>, tensor<40x2xi32>, tensor<40xf32>) -> tensor<40x40xf32>
    %71 = stablehlo.add %66, %70 : tensor<40x40xf32>
    %72 = call @cholesky_2(%49#1, %49#2, %49#3, %49#4, %49#5, %49#6, %71) : (tensor<40x40xf32>, tensor<40x40xi1>, tensor<40x40xf32>, tensor<40x40xf32>, tensor<40x40xi1>, tensor<40x40xf32>, tensor<40x40xf32>) -> tensor<40x40xf32>
    %73 = stablehlo.multiply %34, %72 : tensor<40x40xf32>
    %74 = stablehlo.reduce(%73 init: %cst_1) applies stablehlo.add across dimensions = [0, 1] : (tensor<40x40xf32>, tensor<f32>) -> tensor<f32>
    %75 = stablehlo.convert %74 : tensor<f32>
    %76 = call @cholesky_3(%45) : (tensor<2x5x5xf32>) -> tensor<2x5x5xf32>
    %77 = call @_solve_triangular_4(%arg0, %arg1) : (tensor<2x5x5xf32>, tensor<2x5x3xf32>) -> tensor<2x5x3xf32>
    %78 = call @solve(%45, %arg1) : (tensor<2x5x5xf32>, tensor<2x5x3xf32>) -> tensor<2x5x3xf32>
    %79 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<40x40xf32>
    %80 = stablehlo.divide %23, %79 : tensor<40x40xf32>
    %81 = stablehlo.add %34, %80 : tensor<40x40xf32>
    %82 = call @solve_5(%81, %0) : (tensor<40x40xf32>, tensor<40xf32>) -> tensor<40xf32>
    %83 = stablehlo.slice %82 [0:40:9] : (tensor<40xf32>) -> tensor<5xf32>
    %84:2 = call @slogdet(%arg0) : (tensor<2x5x5xf32>) -> (tensor<2xf32>, tensor<2xf32>)
    %85 = stablehlo.slice %arg1 [0:1, 0:5, 0:3] : (tensor<2x5x3xf32>) -> tensor<1x5x3xf32>
    %86 = stablehlo.reshape %85 : (tensor<1x5x3xf32>) -> tensor<5x3xf32>
    %87:3 = call @lu(%86) : (tensor<5x3xf32>) -> (tensor<5x5xf32>, tensor<5x3xf32>, tensor<3x3xf32>)
    %88:2 = call @qr(%86) : (tensor<5x3xf32>) -> (tensor<5x3xf32>, tensor<3x3xf32>)
    %89 = stablehlo.slice %arg1 [0:1, 0:5, 0:3] : (tensor<2x5x3xf32>) -> tensor<1x5x3xf32>
    %90 = stablehlo.reshape %89 : (tensor<1x5x3xf32>) -> tensor<5x3xf32>
    %91 = stablehlo.transpose %90, dims = [1, 0] : (tensor<5x3xf32>) -> tensor<3x5xf32>
    %92:3 = call @lu_10(%91) : (tensor<3x5xf32>) -> (tensor<3x3xf32>, tensor<3x3xf32>, tensor<3x5xf32>)
    %93:2 = call @qr_14(%91) : (tensor<3x5xf32>) -> (tensor<3x3xf32>, tensor<3x5xf32>)
    %94:2 = call @qr_15(%23) : (tensor<40x40xf32>) -> (tensor<40x40xf32>, tensor<40x40xf32>)
    %95 = stablehlo.slice %94#0 [0:40:23, 0:40:23] : (tensor<40x40xf32>) -> tensor<2x2xf32>
    %96 = stablehlo.negate %46#0 : tensor<2x5xf32>
    %97 = stablehlo.exponential %96 : tensor<2x5xf32>
    %98 = stablehlo.broadcast_in_dim %97, dims = [0, 2] : (tensor<2x5xf32>) -> tensor<2x1x5xf32>
    %99 = stablehlo.broadcast_in_dim %98, dims = [0, 1, 2] : (tensor<2x1x5xf32>) -> tensor<2x5x5xf32>
    %100 = stablehlo.multiply %46#1, %99 : tensor<2x5x5xf32>
    %101 = stablehlo.transpose %46#1, dims = [0, 2, 1] : (tensor<2x5x5xf32>) -> tensor<2x5x5xf32>
    %102 = stablehlo.dot_general %100, %101, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x5x5xf32>, tensor<2x5x5xf32>) -> tensor<2x5x5xf32>
    %103 = call @eigvalsh(%34) : (tensor<40x40xf32>) -> tensor<40xf32>
    %104 = stablehlo.slice %103 [0:40:9] : (tensor<40xf32>) -> tensor<5xf32>
    %105 = stablehlo.negate %45 : tensor<2x5x5xf32>
    %106 = call @cholesky_17(%105) : (tensor<2x5x5xf32>) -> tensor<2x5x5xf32>
    %107 = stablehlo.slice %106 [0:2, 0:1, 0:1] : (tensor<2x5x5xf32>) -> tensor<2x1x1xf32>
    %108 = stablehlo.reshape %107 : (tensor<2x1x1xf32>) -> tensor<2xf32>
    return %61, %75, %76, %77, %78, %83, %84#0, %84#1, %87#0, %87#1, %87#2, %88#0, %88#1, %92#0, %92#1, %92#2, %93#0, %93#1, %95, %46#0, %102, %104, %108 : tensor<f32>, tensor<f32>, tensor<2x5x5xf32>, tensor<2x5x3xf32>, tensor<2x5x3xf32>, tensor<5xf32>, tensor<2xf32>, tensor<2xf32>, tensor<5x5xf32>, tensor<5x3xf32>, tensor<3x3xf32>, tensor<5x3xf32>, tensor<3x3xf32>, tensor<3x3xf32>, tensor<3x3xf32>, tensor<3x5xf32>, tensor<3x3xf32>, tensor<3x5xf32>, tensor<2x2xf32>, tensor<2x5xf32>, tensor<2x5x5xf32>, tensor<5xf32>, tensor<2xf32>
  }
  func.func private @remainder(%arg0: tensor<40x40xf32>, %arg1: tensor<i32>) -> tensor<40x40xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.convert %arg1 : (tensor<i32>) -> tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<40x40xf32>
    %2 = stablehlo.remainder %arg0, %1 : tensor<40x40xf32>
    %3 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<40x40xf32>
    %4 = stablehlo.compare NE, %2, %3, FLOAT : (tensor<40x40xf32>, tensor<40x40xf32>) -> tensor<40x40xi1>
    %5 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<40x40xf32>
    %6 = stablehlo.compare LT, %2, %5, FLOAT : (tensor<40x40xf32>, tensor<40x40xf32>) -> tensor<40x40xi1>
    %7 = stablehlo.compare LT, %0, %cst, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %8 = stablehlo.broadcast_in_dim %7, dims = [] : (tensor<i1>) -> tensor<40x40xi1>
    %9 = stablehlo.compare NE, %6, %8, UNSIGNED : (tensor<40x40xi1>, tensor<40x40xi1>) -> tensor<40x40xi1>
    %10 = stablehlo.and %9, %4 : tensor<40x40xi1>
    %11 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<40x40xf32>
    %12 = stablehlo.add %2, %11 : tensor<40x40xf32>
    %13 = stablehlo.select %10, %12, %2 : tensor<40x40xi1>, tensor<40x40xf32>
    return %13 : tensor<40x40xf32>
  }
  func.func private @eigh(%arg0: tensor<2x5x5xf32>) -> (tensor<2x5xf32>, tensor<2x5x5xf32>) {
    %cst = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %0 = stablehlo.transpose %arg0, dims = [0, 2, 1] : (tensor<2x5x5xf32>) -> tensor<2x5x5xf32>
    %1 = stablehlo.add %arg0, %0 : tensor<2x5x5xf32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x5x5xf32>
    %3 = stablehlo.divide %1, %2 : tensor<2x5x5xf32>
    %4:2 = stablehlo.custom_call @Eigh(%3) {backend_config = "1,1,100,1e-6"} : (tensor<2x5x5xf32>) -> (tensor<2x5x5xf32>, tensor<2x5xf32>)
    return %4#1, %4#0 : tensor<2x5xf32>, tensor<2x5x5xf32>
  }
  func.func private @cholesky(%arg0: tensor<40x40xf32>) -> (tensor<40x40xf32>, tensor<40x40xf32>, tensor<40x40xi1>, tensor<40x40xf32>, tensor<40x40xf32>, tensor<40x40xi1>, tensor<40x40xf32>) {
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %cst_1 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %0 = stablehlo.transpose %arg0, dims = [1, 0] : (tensor<40x40xf32>) -> tensor<40x40xf32>
    %1 = stablehlo.add %arg0, %0 : tensor<40x40xf32>
    %2 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<40x40xf32>
    %3 = stablehlo.divide %1, %2 : tensor<40x40xf32>
    %4 = stablehlo.cholesky %3, lower = true : tensor<40x40xf32>
    %5 = stablehlo.iota dim = 0 : tensor<40x40xi32>
    %6 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<40x40xi32>
    %7 = stablehlo.add %5, %6 : tensor<40x40xi32>
    %8 = stablehlo.iota dim = 1 : tensor<40x40xi32>
    %9 = stablehlo.compare GE, %7, %8, SIGNED : (tensor<40x40xi32>, tensor<40x40xi32>) -> tensor<40x40xi1>
    %10 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<40x40xf32>
    %11 = stablehlo.select %9, %4, %10 : tensor<40x40xi1>, tensor<40x40xf32>
    %12 = stablehlo.iota dim = 0 : tensor<40x40xi32>
    %13 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<40x40xi32>
    %14 = stablehlo.add %12, %13 : tensor<40x40xi32>
    %15 = stablehlo.iota dim = 1 : tensor<40x40xi32>
    %16 = stablehlo.compare GE, %14, %15, SIGNED : (tensor<40x40xi32>, tensor<40x40xi32>) -> tensor<40x40xi1>
    %17 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<40x40xf32>
    %18 = stablehlo.iota dim = 0 : tensor<40x40xi32>
    %19 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<40x40xi32>
    %20 = stablehlo.add %18, %19 : tensor<40x40xi32>
    %21 = stablehlo.iota dim = 1 : tensor<40x40xi32>
    %22 = stablehlo.compare EQ, %20, %21, SIGNED : (tensor<40x40xi32>, tensor<40x40xi32>) -> tensor<40x40xi1>
    %23 = stablehlo.convert %22 : (tensor<40x40xi1>) -> tensor<40x40xf32>
    %24 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<40x40xf32>
    %25 = stablehlo.add %24, %23 : tensor<40x40xf32>
    %26 = stablehlo.iota dim = 0 : tensor<40x40xi32>
    %27 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<40x40xi32>
    %28 = stablehlo.add %26, %27 : tensor<40x40xi32>
    %29 = stablehlo.iota dim = 1 : tensor<40x40xi32>
    %30 = stablehlo.compare GE, %28, %29, SIGNED : (tensor<40x40xi32>, tensor<40x40xi32>) -> tensor<40x40xi1>
    %31 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<40x40xf32>
    %32 = stablehlo.select %30, %11, %31 : tensor<40x40xi1>, tensor<40x40xf32>
    %33 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<40x40xf32>
    return %32, %11, %16, %17, %25, %30, %33 : tensor<40x40xf32>, tensor<40x40xf32>, tensor<40x40xi1>, tensor<40x40xf32>, tensor<40x40xf32>, tensor<40x40xi1>, tensor<40x40xf32>
  }
  func.func private @diagonal(%arg0: tensor<40x40xf32>) -> (tensor<40xf32>, tensor<i32>, tensor<40x40xf32>, tensor<40x2xi32>) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %c = stablehlo.constant dense<40> : tensor<i32>
    %c_0 = stablehlo.constant dense<1> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %0 = "stablehlo.case"(%c_0) ({
      stablehlo.return %c_1 : tensor<i32>
    }, {
      stablehlo.return %c_1 : tensor<i32>
    }) : (tensor<i32>) -> tensor<i32>
    %1:3 = "stablehlo.case"(%0) ({
      %2 = stablehlo.iota dim = 0 : tensor<40xi32>
      %3 = stablehlo.iota dim = 0 : tensor<40xi32>
      %4 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<i32>) -> tensor<40xi32>
      %5 = stablehlo.compare LT, %2, %4, SIGNED : (tensor<40xi32>, tensor<40xi32>) -> tensor<40xi1>
      %6 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<40xi32>
      %7 = stablehlo.add %2, %6 : tensor<40xi32>
      %8 = stablehlo.select %5, %7, %2 : tensor<40xi1>, tensor<40xi32>
      %9 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<i32>) -> tensor<40xi32>
      %10 = stablehlo.compare LT, %3, %9, SIGNED : (tensor<40xi32>, tensor<40xi32>) -> tensor<40xi1>
      %11 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<40xi32>
      %12 = stablehlo.add %3, %11 : tensor<40xi32>
      %13 = stablehlo.select %10, %12, %3 : tensor<40xi1>, tensor<40xi32>
      %14 = stablehlo.broadcast_in_dim %8, dims = [0] : (tensor<40xi32>) -> tensor<40x1xi32>
      %15 = stablehlo.broadcast_in_dim %13, dims = [0] : (tensor<40xi32>) -> tensor<40x1xi32>
      %16 = stablehlo.concatenate %14, %15, dim = 1 : (tensor<40x1xi32>, tensor<40x1xi32>) -> tensor<40x2xi32>
      %17 = "stablehlo.gather"(%arg0, %16) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 1>, slice_sizes = array<i64: 1, 1>}> : (tensor<40x40xf32>, tensor<40x2xi32>) -> tensor<40xf32>
      %18 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<40x40xf32>
      stablehlo.return %17, %18, %16 : tensor<40xf32>, tensor<40x40xf32>, tensor<40x2xi32>
    }) : (tensor<i32>) -> (tensor<40xf32>, tensor<40x40xf32>, tensor<40x2xi32>)
    return %1#0, %c_0, %1#1, %1#2 : tensor<40xf32>, tensor<i32>, tensor<40x40xf32>, tensor<40x2xi32>
  }
  func.func private @_solve_triangular(%arg0: tensor<40x40xf32>, %arg1: tensor<40xf32>) -> (tensor<40xf32>, tensor<40x40xi1>, tensor<40x40xf32>, tensor<40x1xf32>) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [0] : (tensor<40xf32>) -> tensor<40x1xf32>
    %1 = "stablehlo.triangular_solve"(%arg0, %0) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<40x40xf32>, tensor<40x1xf32>) -> tensor<40x1xf32>
    %2 = stablehlo.iota dim = 0 : tensor<40x40xi32>
    %3 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<40x40xi32>
    %4 = stablehlo.add %2, %3 : tensor<40x40xi32>
    %5 = stablehlo.iota dim = 1 : tensor<40x40xi32>
    %6 = stablehlo.compare GE, %4, %5, SIGNED : (tensor<40x40xi32>, tensor<40x40xi32>) -> tensor<40x40xi1>
    %7 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<40x40xf32>
    %8 = stablehlo.reshape %1 : (tensor<40x1xf32>) -> tensor<40xf32>
    return %8, %6, %7, %1 : tensor<40xf32>, tensor<40x40xi1>, tensor<40x40xf32>, tensor<40x1xf32>
  }
  func.func private @_solve_triangular_0(%arg0: tensor<40x40xi1>, %arg1: tensor<40x40xf32>, %arg2: tensor<40x1xf32>, %arg3: tensor<40x40xf32>, %arg4: tensor<40xf32>) -> tensor<40x40xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %arg4, dims = [0] : (tensor<40xf32>) -> tensor<40x1xf32>
    %1 = "stablehlo.triangular_solve"(%arg3, %0) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose TRANSPOSE>, unit_diagonal = false}> : (tensor<40x40xf32>, tensor<40x1xf32>) -> tensor<40x1xf32>
    %2 = stablehlo.dot_general %1, %arg2, contracting_dims = [1] x [1], precision = [HIGHEST, HIGHEST] : (tensor<40x1xf32>, tensor<40x1xf32>) -> tensor<40x40xf32>
    %3 = stablehlo.negate %2 : tensor<40x40xf32>
    %4 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<40x40xf32>
    %5 = stablehlo.select %arg0, %3, %4 : tensor<40x40xi1>, tensor<40x40xf32>
    return %5 : tensor<40x40xf32>
  }
  func.func private @diagonal_1(%arg0: tensor<i32>, %arg1: tensor<40x40xf32>, %arg2: tensor<40x2xi32>, %arg3: tensor<40xf32>) -> tensor<40x40xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = "stablehlo.case"(%arg0) ({
      stablehlo.return %c : tensor<i32>
    }, {
      stablehlo.return %c : tensor<i32>
    }) : (tensor<i32>) -> tensor<i32>
    %1 = "stablehlo.case"(%0) ({
      %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<40x40xf32>
      %3 = "stablehlo.scatter"(%2, %arg2, %arg3) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>}> ({
      ^bb0(%arg4: tensor<f32>, %arg5: tensor<f32>):
        %4 = stablehlo.add %arg4, %arg5 : tensor<f32>
        stablehlo.return %4 : tensor<f32>
      }) : (tensor<40x40xf32>, tensor<40x2xi32>, tensor<40xf32>) -> tensor<40x40xf32>
      stablehlo.return %3 : tensor<40x40xf32>
    }) : (tensor<i32>) -> tensor<40x40xf32>
    return %1 : tensor<40x40xf32>
  }
  func.func private @cholesky_2(%arg0: tensor<40x40xf32>, %arg1: tensor<40x40xi1>, %arg2: tensor<40x40xf32>, %arg3: tensor<40x40xf32>, %arg4: tensor<40x40xi1>, %arg5: tensor<40x40xf32>, %arg6: tensor<40x40xf32>) -> tensor<40x40xf32> {
    %cst = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<40x40xf32>
    %1 = stablehlo.select %arg4, %arg6, %0 : tensor<40x40xi1>, tensor<40x40xf32>
    %2 = stablehlo.dot_general %1, %arg0, contracting_dims = [0] x [0], precision = [HIGHEST, HIGHEST] : (tensor<40x40xf32>, tensor<40x40xf32>) -> tensor<40x40xf32>
    %3 = stablehlo.transpose %2, dims = [1, 0] : (tensor<40x40xf32>) -> tensor<40x40xf32>
    %4 = stablehlo.divide %3, %arg3 : tensor<40x40xf32>
    %5 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<40x40xf32>
    %6 = stablehlo.select %arg1, %4, %5 : tensor<40x40xi1>, tensor<40x40xf32>
    %7 = "stablehlo.triangular_solve"(%arg0, %6) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose TRANSPOSE>, unit_diagonal = false}> : (tensor<40x40xf32>, tensor<40x40xf32>) -> tensor<40x40xf32>
    %8 = "stablehlo.triangular_solve"(%arg0, %7) <{left_side = false, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<40x40xf32>, tensor<40x40xf32>) -> tensor<40x40xf32>
    %9 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<40x40xf32>
    %10 = stablehlo.divide %8, %9 : tensor<40x40xf32>
    %11 = stablehlo.transpose %10, dims = [1, 0] : (tensor<40x40xf32>) -> tensor<40x40xf32>
    %12 = stablehlo.add %10, %11 : tensor<40x40xf32>
    return %12 : tensor<40x40xf32>
  }
  func.func private @cholesky_3(%arg0: tensor<2x5x5xf32>) -> tensor<2x5x5xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %cst_0 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %0 = stablehlo.transpose %arg0, dims = [0, 2, 1] : (tensor<2x5x5xf32>) -> tensor<2x5x5xf32>
    %1 = stablehlo.add %arg0, %0 : tensor<2x5x5xf32>
    %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x5x5xf32>
    %3 = stablehlo.divide %1, %2 : tensor<2x5x5xf32>
    %4 = stablehlo.cholesky %3, lower = true : tensor<2x5x5xf32>
    %5 = stablehlo.iota dim = 0 : tensor<5x5xi32>
    %6 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<5x5xi32>
    %7 = stablehlo.add %5, %6 : tensor<5x5xi32>
    %8 = stablehlo.iota dim = 1 : tensor<5x5xi32>
    %9 = stablehlo.compare GE, %7, %8, SIGNED : (tensor<5x5xi32>, tensor<5x5xi32>) -> tensor<5x5xi1>
    %10 = stablehlo.broadcast_in_dim %9, dims = [1, 2] : (tensor<5x5xi1>) -> tensor<2x5x5xi1>
    %11 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x5x5xf32>
    %12 = stablehlo.select %10, %4, %11 : tensor<2x5x5xi1>, tensor<2x5x5xf32>
    %13 = stablehlo.transpose %12, dims = [0, 2, 1] : (tensor<2x5x5xf32>) -> tensor<2x5x5xf32>
    return %13 : tensor<2x5x5xf32>
  }
  func.func private @_solve_triangular_4(%arg0: tensor<2x5x5xf32>, %arg1: tensor<2x5x3xf32>) -> tensor<2x5x3xf32> {
    %0 = "stablehlo.triangular_solve"(%arg0, %arg1) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose TRANSPOSE>, unit_diagonal = true}> : (tensor<2x5x5xf32>, tensor<2x5x3xf32>) -> tensor<2x5x3xf32>
    return %0 : tensor<2x5x3xf32>
  }
  func.func private @solve(%arg0: tensor<2x5x5xf32>, %arg1: tensor<2x5x3xf32>) -> tensor<2x5x3xf32> {
    %0:3 = stablehlo.custom_call @LuDecomposition(%arg0) {api_version = 2 : i32} : (tensor<2x5x5xf32>) -> (tensor<2x5x5xf32>, tensor<2x5xi32>, tensor<2x5xi32>)
    %1 = stablehlo.transpose %arg1, dims = [0, 2, 1] : (tensor<2x5x3xf32>) -> tensor<2x3x5xf32>
    %2 = call @_lu_solve(%0#0, %0#2, %1) : (tensor<2x5x5xf32>, tensor<2x5xi32>, tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
    %3 = stablehlo.transpose %2, dims = [0, 2, 1] : (tensor<2x3x5xf32>) -> tensor<2x5x3xf32>
    return %3 : tensor<2x5x3xf32>
  }
  func.func private @_lu_solve(%arg0: tensor<2x5x5xf32>, %arg1: tensor<2x5xi32>, %arg2: tensor<2x3x5xf32>) -> tensor<2x3x5xf32> {
    %c = stablehlo.constant dense<5> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %arg2, dims = [0, 1, 2] : (tensor<2x3x5xf32>) -> tensor<2x3x5x1xf32>
    %1 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<2x5xi32>
    %2 = stablehlo.compare LT, %arg1, %1, SIGNED : (tensor<2x5xi32>, tensor<2x5xi32>) -> tensor<2x5xi1>
    %3 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<2x5xi32>
    %4 = stablehlo.add %arg1, %3 : tensor<2x5xi32>
    %5 = stablehlo.select %2, %4, %arg1 : tensor<2x5xi1>, tensor<2x5xi32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [0, 1] : (tensor<2x5xi32>) -> tensor<2x5x1xi32>
    %7 = "stablehlo.gather"(%0, %6) <{dimension_numbers = #stablehlo.gather<offset_dims = [1, 3], collapsed_slice_dims = [2], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [2], index_vector_dim = 2>, slice_sizes = array<i64: 1, 3, 1, 1>}> : (tensor<2x3x5x1xf32>, tensor<2x5x1xi32>) -> tensor<2x3x5x1xf32>
    %8 = stablehlo.transpose %7, dims = [0, 2, 3, 1] : (tensor<2x3x5x1xf32>) -> tensor<2x5x1x3xf32>
    %9 = stablehlo.reshape %8 : (tensor<2x5x1x3xf32>) -> tensor<2x5x3xf32>
    %10 = "stablehlo.triangular_solve"(%arg0, %9) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = true}> : (tensor<2x5x5xf32>, tensor<2x5x3xf32>) -> tensor<2x5x3xf32>
    %11 = stablehlo.reshape %10 : (tensor<2x5x3xf32>) -> tensor<2x5x1x3xf32>
    %12 = stablehlo.reshape %11 : (tensor<2x5x1x3xf32>) -> tensor<2x5x3xf32>
    %13 = "stablehlo.triangular_solve"(%arg0, %12) <{left_side = true, lower = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<2x5x5xf32>, tensor<2x5x3xf32>) -> tensor<2x5x3xf32>
    %14 = stablehlo.reshape %13 : (tensor<2x5x3xf32>) -> tensor<2x5x1x3xf32>
    %15 = stablehlo.transpose %14, dims = [0, 3, 1, 2] : (tensor<2x5x1x3xf32>) -> tensor<2x3x5x1xf32>
    %16 = stablehlo.reshape %15 : (tensor<2x3x5x1xf32>) -> tensor<2x3x5xf32>
    return %16 : tensor<2x3x5xf32>
  }
  func.func private @solve_5(%arg0: tensor<40x40xf32>, %arg1: tensor<40xf32>) -> tensor<40xf32> {
    %0:3 = stablehlo.custom_call @LuDecomposition(%arg0) {api_version = 2 : i32} : (tensor<40x40xf32>) -> (tensor<40x40xf32>, tensor<40xi32>, tensor<40xi32>)
    %1 = call @_lu_solve_6(%0#0, %0#2, %arg1) : (tensor<40x40xf32>, tensor<40xi32>, tensor<40xf32>) -> tensor<40xf32>
    return %1 : tensor<40xf32>
  }
  func.func private @_lu_solve_6(%arg0: tensor<40x40xf32>, %arg1: tensor<40xi32>, %arg2: tensor<40xf32>) -> tensor<40xf32> {
    %c = stablehlo.constant dense<40> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %arg2, dims = [0] : (tensor<40xf32>) -> tensor<40x1xf32>
    %1 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<40xi32>
    %2 = stablehlo.compare LT, %arg1, %1, SIGNED : (tensor<40xi32>, tensor<40xi32>) -> tensor<40xi1>
    %3 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<40xi32>
    %4 = stablehlo.add %arg1, %3 : tensor<40xi32>
    %5 = stablehlo.select %2, %4, %arg1 : tensor<40xi1>, tensor<40xi32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [0] : (tensor<40xi32>) -> tensor<40x1xi32>
    %7 = "stablehlo.gather"(%0, %6) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 1>}> : (tensor<40x1xf32>, tensor<40x1xi32>) -> tensor<40x1xf32>
    %8 = "stablehlo.triangular_solve"(%arg0, %7) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = true}> : (tensor<40x40xf32>, tensor<40x1xf32>) -> tensor<40x1xf32>
    %9 = "stablehlo.triangular_solve"(%arg0, %8) <{left_side = true, lower = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<40x40xf32>, tensor<40x1xf32>) -> tensor<40x1xf32>
    %10 = stablehlo.reshape %9 : (tensor<40x1xf32>) -> tensor<40xf32>
    return %10 : tensor<40xf32>
  }
  func.func private @slogdet(%arg0: tensor<2x5x5xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %c = stablehlo.constant dense<1> : tensor<i32>
    %c_1 = stablehlo.constant dense<-2> : tensor<i32>
    %c_2 = stablehlo.constant dense<2> : tensor<i32>
    %c_3 = stablehlo.constant dense<false> : tensor<i1>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0:3 = stablehlo.custom_call @LuDecomposition(%arg0) {api_version = 2 : i32} : (tensor<2x5x5xf32>) -> (tensor<2x5x5xf32>, tensor<2x5xi32>, tensor<2x5xi32>)
    %1 = call @diagonal_7(%0#0) : (tensor<2x5x5xf32>) -> tensor<2x5xf32>
    %2 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<2x5xf32>
    %3 = stablehlo.compare EQ, %1, %2, FLOAT : (tensor<2x5xf32>, tensor<2x5xf32>) -> tensor<2x5xi1>
    %4 = stablehlo.reduce(%3 init: %c_3) applies stablehlo.or across dimensions = [1] : (tensor<2x5xi1>, tensor<i1>) -> tensor<2xi1>
    %5 = stablehlo.iota dim = 0 : tensor<5xi32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [1] : (tensor<5xi32>) -> tensor<1x5xi32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [0, 1] : (tensor<1x5xi32>) -> tensor<2x5xi32>
    %8 = stablehlo.compare NE, %0#1, %7, SIGNED : (tensor<2x5xi32>, tensor<2x5xi32>) -> tensor<2x5xi1>
    %9 = call @count_nonzero(%8) : (tensor<2x5xi1>) -> tensor<2xi32>
    %10 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<2x5xf32>
    %11 = stablehlo.compare LT, %1, %10, FLOAT : (tensor<2x5xf32>, tensor<2x5xf32>) -> tensor<2x5xi1>
    %12 = call @count_nonzero(%11) : (tensor<2x5xi1>) -> tensor<2xi32>
    %13 = stablehlo.add %9, %12 : tensor<2xi32>
    %14 = call @remainder_8(%13, %c_2) : (tensor<2xi32>, tensor<i32>) -> tensor<2xi32>
    %15 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %16 = stablehlo.multiply %15, %14 : tensor<2xi32>
    %17 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %18 = stablehlo.add %16, %17 : tensor<2xi32>
    %19 = stablehlo.convert %18 : (tensor<2xi32>) -> tensor<2xf32>
    %20 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %21 = stablehlo.multiply %20, %19 : tensor<2xf32>
    %22 = call @_where_9(%4, %cst_4, %21) : (tensor<2xi1>, tensor<f32>, tensor<2xf32>) -> tensor<2xf32>
    %23 = stablehlo.abs %1 : tensor<2x5xf32>
    %24 = stablehlo.log %23 : tensor<2x5xf32>
    %25 = stablehlo.reduce(%24 init: %cst_4) applies stablehlo.add across dimensions = [1] : (tensor<2x5xf32>, tensor<f32>) -> tensor<2xf32>
    %26 = call @_where_9(%4, %cst, %25) : (tensor<2xi1>, tensor<f32>, tensor<2xf32>) -> tensor<2xf32>
    return %22, %26 : tensor<2xf32>, tensor<2xf32>
  }
  func.func private @diagonal_7(%arg0: tensor<2x5x5xf32>) -> tensor<2x5xf32> {
    %c = stablehlo.constant dense<5> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.iota dim = 0 : tensor<5xi32>
    %1 = stablehlo.iota dim = 0 : tensor<5xi32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<5xi32>
    %3 = stablehlo.compare LT, %0, %2, SIGNED : (tensor<5xi32>, tensor<5xi32>) -> tensor<5xi1>
    %4 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<5xi32>
    %5 = stablehlo.add %0, %4 : tensor<5xi32>
    %6 = stablehlo.select %3, %5, %0 : tensor<5xi1>, tensor<5xi32>
    %7 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<5xi32>
    %8 = stablehlo.compare LT, %1, %7, SIGNED : (tensor<5xi32>, tensor<5xi32>) -> tensor<5xi1>
    %9 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<5xi32>
    %10 = stablehlo.add %1, %9 : tensor<5xi32>
    %11 = stablehlo.select %8, %10, %1 : tensor<5xi1>, tensor<5xi32>
    %12 = stablehlo.broadcast_in_dim %6, dims = [0] : (tensor<5xi32>) -> tensor<5x1xi32>
    %13 = stablehlo.broadcast_in_dim %11, dims = [0] : (tensor<5xi32>) -> tensor<5x1xi32>
    %14 = stablehlo.concatenate %12, %13, dim = 1 : (tensor<5x1xi32>, tensor<5x1xi32>) -> tensor<5x2xi32>
    %15 = "stablehlo.gather"(%arg0, %14) <{dimension_numbers = #stablehlo.gather<offset_dims = [0], collapsed_slice_dims = [1, 2], start_index_map = [1, 2], index_vector_dim = 1>, slice_sizes = array<i64: 2, 1, 1>}> : (tensor<2x5x5xf32>, tensor<5x2xi32>) -> tensor<2x5xf32>
    return %15 : tensor<2x5xf32>
  }
  func.func private @count_nonzero(%arg0: tensor<2x5xi1>) -> tensor<2xi32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<false> : tensor<i1>
    %0 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i1>) -> tensor<2x5xi1>
    %1 = stablehlo.compare NE, %arg0, %0, UNSIGNED : (tensor<2x5xi1>, tensor<2x5xi1>) -> tensor<2x5xi1>
    %2 = stablehlo.convert %1 : (tensor<2x5xi1>) -> tensor<2x5xi32>
    %3 = stablehlo.reduce(%2 init: %c) applies stablehlo.add across dimensions = [1] : (tensor<2x5xi32>, tensor<i32>) -> tensor<2xi32>
    return %3 : tensor<2xi32>
  }
  func.func private @remainder_8(%arg0: tensor<2xi32>, %arg1: tensor<i32>) -> tensor<2xi32> {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.convert %arg1 : tensor<i32>
    %1 = stablehlo.compare EQ, %0, %c_0, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %2 = call @_where(%1, %c, %0) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %4 = stablehlo.remainder %arg0, %3 : tensor<2xi32>
    %5 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %6 = stablehlo.compare NE, %4, %5, SIGNED : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
    %7 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %8 = stablehlo.compare LT, %4, %7, SIGNED : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
    %9 = stablehlo.compare LT, %2, %c_0, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %10 = stablehlo.broadcast_in_dim %9, dims = [] : (tensor<i1>) -> tensor<2xi1>
    %11 = stablehlo.compare NE, %8, %10, UNSIGNED : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
    %12 = stablehlo.and %11, %6 : tensor<2xi1>
    %13 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %14 = stablehlo.add %4, %13 : tensor<2xi32>
    %15 = stablehlo.select %12, %14, %4 : tensor<2xi1>, tensor<2xi32>
    return %15 : tensor<2xi32>
  }
  func.func private @_where(%arg0: tensor<i1>, %arg1: tensor<i32>, %arg2: tensor<i32>) -> tensor<i32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<i1>, tensor<i32>
    return %0 : tensor<i32>
  }
  func.func private @_where_9(%arg0: tensor<2xi1>, %arg1: tensor<f32>, %arg2: tensor<2xf32>) -> tensor<2xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %1 = stablehlo.select %arg0, %0, %arg2 : tensor<2xi1>, tensor<2xf32>
    return %1 : tensor<2xf32>
  }
  func.func private @lu(%arg0: tensor<5x3xf32>) -> (tensor<5x5xf32>, tensor<5x3xf32>, tensor<3x3xf32>) {
    %0:3 = call @_lu(%arg0) : (tensor<5x3xf32>) -> (tensor<5x5xf32>, tensor<5x3xf32>, tensor<3x3xf32>)
    return %0#0, %0#1, %0#2 : tensor<5x5xf32>, tensor<5x3xf32>, tensor<3x3xf32>
  }
  func.func private @_lu(%arg0: tensor<5x3xf32>) -> (tensor<5x5xf32>, tensor<5x3xf32>, tensor<3x3xf32>) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0:3 = stablehlo.custom_call @LuDecomposition(%arg0) {api_version = 2 : i32} : (tensor<5x3xf32>) -> (tensor<5x3xf32>, tensor<3xi32>, tensor<5xi32>)
    %1 = stablehlo.broadcast_in_dim %0#2, dims = [1] : (tensor<5xi32>) -> tensor<1x5xi32>
    %2 = stablehlo.iota dim = 0 : tensor<5xi32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0] : (tensor<5xi32>) -> tensor<5x1xi32>
    %4 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<1x5xi32>) -> tensor<5x5xi32>
    %5 = stablehlo.broadcast_in_dim %3, dims = [0, 1] : (tensor<5x1xi32>) -> tensor<5x5xi32>
    %6 = stablehlo.compare EQ, %4, %5, SIGNED : (tensor<5x5xi32>, tensor<5x5xi32>) -> tensor<5x5xi1>
    %7 = stablehlo.convert %6 : (tensor<5x5xi1>) -> tensor<5x5xf32>
    %8 = call @tril(%0#0) : (tensor<5x3xf32>) -> tensor<5x3xf32>
    %9 = stablehlo.iota dim = 0 : tensor<5x3xi32>
    %10 = stablehlo.iota dim = 1 : tensor<5x3xi32>
    %11 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<5x3xi32>
    %12 = stablehlo.add %9, %11 : tensor<5x3xi32>
    %13 = stablehlo.compare EQ, %12, %10, SIGNED : (tensor<5x3xi32>, tensor<5x3xi32>) -> tensor<5x3xi1>
    %14 = stablehlo.convert %13 : (tensor<5x3xi1>) -> tensor<5x3xf32>
    %15 = stablehlo.add %8, %14 : tensor<5x3xf32>
    %16 = call @triu(%0#0) : (tensor<5x3xf32>) -> tensor<5x3xf32>
    %17 = stablehlo.slice %16 [0:3, 0:3] : (tensor<5x3xf32>) -> tensor<3x3xf32>
    return %7, %15, %17 : tensor<5x5xf32>, tensor<5x3xf32>, tensor<3x3xf32>
  }
  func.func private @tril(%arg0: tensor<5x3xf32>) -> tensor<5x3xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %c = stablehlo.constant dense<-1> : tensor<i32>
    %0 = stablehlo.iota dim = 0 : tensor<5x3xi32>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<5x3xi32>
    %2 = stablehlo.add %0, %1 : tensor<5x3xi32>
    %3 = stablehlo.iota dim = 1 : tensor<5x3xi32>
    %4 = stablehlo.compare GE, %2, %3, SIGNED : (tensor<5x3xi32>, tensor<5x3xi32>) -> tensor<5x3xi1>
    %5 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<5x3xf32>
    %6 = stablehlo.select %4, %arg0, %5 : tensor<5x3xi1>, tensor<5x3xf32>
    return %6 : tensor<5x3xf32>
  }
  func.func private @triu(%arg0: tensor<5x3xf32>) -> tensor<5x3xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %c = stablehlo.constant dense<-1> : tensor<i32>
    %0 = stablehlo.iota dim = 0 : tensor<5x3xi32>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<5x3xi32>
    %2 = stablehlo.add %0, %1 : tensor<5x3xi32>
    %3 = stablehlo.iota dim = 1 : tensor<5x3xi32>
    %4 = stablehlo.compare GE, %2, %3, SIGNED : (tensor<5x3xi32>, tensor<5x3xi32>) -> tensor<5x3xi1>
    %5 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<5x3xf32>
    %6 = stablehlo.select %4, %5, %arg0 : tensor<5x3xi1>, tensor<5x3xf32>
    return %6 : tensor<5x3xf32>
  }
  func.func private @qr(%arg0: tensor<5x3xf32>) -> (tensor<5x3xf32>, tensor<3x3xf32>) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %c = stablehlo.constant dense<-1> : tensor<i32>
    %0:2 = stablehlo.custom_call @Qr(%arg0) : (tensor<5x3xf32>) -> (tensor<5x3xf32>, tensor<3xf32>)
    %1 = stablehlo.custom_call @ProductOfElementaryHouseholderReflectors(%0#0, %0#1) : (tensor<5x3xf32>, tensor<3xf32>) -> tensor<5x3xf32>
    %2 = stablehlo.slice %0#0 [0:3, 0:3] : (tensor<5x3xf32>) -> tensor<3x3xf32>
    %3 = stablehlo.iota dim = 0 : tensor<3x3xi32>
    %4 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<3x3xi32>
    %5 = stablehlo.add %3, %4 : tensor<3x3xi32>
    %6 = stablehlo.iota dim = 1 : tensor<3x3xi32>
    %7 = stablehlo.compare GE, %5, %6, SIGNED : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
    %8 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3x3xf32>
    %9 = stablehlo.select %7, %8, %2 : tensor<3x3xi1>, tensor<3x3xf32>
    return %1, %9 : tensor<5x3xf32>, tensor<3x3xf32>
  }
  func.func private @lu_10(%arg0: tensor<3x5xf32>) -> (tensor<3x3xf32>, tensor<3x3xf32>, tensor<3x5xf32>) {
    %0:3 = call @_lu_11(%arg0) : (tensor<3x5xf32>) -> (tensor<3x3xf32>, tensor<3x3xf32>, tensor<3x5xf32>)
    return %0#0, %0#1, %0#2 : tensor<3x3xf32>, tensor<3x3xf32>, tensor<3x5xf32>
  }
  func.func private @_lu_11(%arg0: tensor<3x5xf32>) -> (tensor<3x3xf32>, tensor<3x3xf32>, tensor<3x5xf32>) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0:3 = stablehlo.custom_call @LuDecomposition(%arg0) {api_version = 2 : i32} : (tensor<3x5xf32>) -> (tensor<3x5xf32>, tensor<3xi32>, tensor<3xi32>)
    %1 = stablehlo.broadcast_in_dim %0#2, dims = [1] : (tensor<3xi32>) -> tensor<1x3xi32>
    %2 = stablehlo.iota dim = 0 : tensor<3xi32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0] : (tensor<3xi32>) -> tensor<3x1xi32>
    %4 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<1x3xi32>) -> tensor<3x3xi32>
    %5 = stablehlo.broadcast_in_dim %3, dims = [0, 1] : (tensor<3x1xi32>) -> tensor<3x3xi32>
    %6 = stablehlo.compare EQ, %4, %5, SIGNED : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
    %7 = stablehlo.convert %6 : (tensor<3x3xi1>) -> tensor<3x3xf32>
    %8 = call @tril_12(%0#0) : (tensor<3x5xf32>) -> tensor<3x5xf32>
    %9 = stablehlo.slice %8 [0:3, 0:3] : (tensor<3x5xf32>) -> tensor<3x3xf32>
    %10 = stablehlo.iota dim = 0 : tensor<3x3xi32>
    %11 = stablehlo.iota dim = 1 : tensor<3x3xi32>
    %12 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<3x3xi32>
    %13 = stablehlo.add %10, %12 : tensor<3x3xi32>
    %14 = stablehlo.compare EQ, %13, %11, SIGNED : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
    %15 = stablehlo.convert %14 : (tensor<3x3xi1>) -> tensor<3x3xf32>
    %16 = stablehlo.add %9, %15 : tensor<3x3xf32>
    %17 = call @triu_13(%0#0) : (tensor<3x5xf32>) -> tensor<3x5xf32>
    return %7, %16, %17 : tensor<3x3xf32>, tensor<3x3xf32>, tensor<3x5xf32>
  }
  func.func private @tril_12(%arg0: tensor<3x5xf32>) -> tensor<3x5xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %c = stablehlo.constant dense<-1> : tensor<i32>
    %0 = stablehlo.iota dim = 0 : tensor<3x5xi32>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<3x5xi32>
    %2 = stablehlo.add %0, %1 : tensor<3x5xi32>
    %3 = stablehlo.iota dim = 1 : tensor<3x5xi32>
    %4 = stablehlo.compare GE, %2, %3, SIGNED : (tensor<3x5xi32>, tensor<3x5xi32>) -> tensor<3x5xi1>
    %5 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3x5xf32>
    %6 = stablehlo.select %4, %arg0, %5 : tensor<3x5xi1>, tensor<3x5xf32>
    return %6 : tensor<3x5xf32>
  }
  func.func private @triu_13(%arg0: tensor<3x5xf32>) -> tensor<3x5xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %c = stablehlo.constant dense<-1> : tensor<i32>
    %0 = stablehlo.iota dim = 0 : tensor<3x5xi32>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<3x5xi32>
    %2 = stablehlo.add %0, %1 : tensor<3x5xi32>
    %3 = stablehlo.iota dim = 1 : tensor<3x5xi32>
    %4 = stablehlo.compare GE, %2, %3, SIGNED : (tensor<3x5xi32>, tensor<3x5xi32>) -> tensor<3x5xi1>
    %5 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3x5xf32>
    %6 = stablehlo.select %4, %5, %arg0 : tensor<3x5xi1>, tensor<3x5xf32>
    return %6 : tensor<3x5xf32>
  }
  func.func private @qr_14(%arg0: tensor<3x5xf32>) -> (tensor<3x3xf32>, tensor<3x5xf32>) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %c = stablehlo.constant dense<-1> : tensor<i32>
    %0:2 = stablehlo.custom_call @Qr(%arg0) : (tensor<3x5xf32>) -> (tensor<3x5xf32>, tensor<3xf32>)
    %1 = stablehlo.slice %0#0 [0:3, 0:3] : (tensor<3x5xf32>) -> tensor<3x3xf32>
    %2 = stablehlo.custom_call @ProductOfElementaryHouseholderReflectors(%1, %0#1) : (tensor<3x3xf32>, tensor<3xf32>) -> tensor<3x3xf32>
    %3 = stablehlo.iota dim = 0 : tensor<3x5xi32>
    %4 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<3x5xi32>
    %5 = stablehlo.add %3, %4 : tensor<3x5xi32>
    %6 = stablehlo.iota dim = 1 : tensor<3x5xi32>
    %7 = stablehlo.compare GE, %5, %6, SIGNED : (tensor<3x5xi32>, tensor<3x5xi32>) -> tensor<3x5xi1>
    %8 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3x5xf32>
    %9 = stablehlo.select %7, %8, %0#0 : tensor<3x5xi1>, tensor<3x5xf32>
    return %2, %9 : tensor<3x3xf32>, tensor<3x5xf32>
  }
  func.func private @qr_15(%arg0: tensor<40x40xf32>) -> (tensor<40x40xf32>, tensor<40x40xf32>) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %c = stablehlo.constant dense<-1> : tensor<i32>
    %0:2 = stablehlo.custom_call @Qr(%arg0) : (tensor<40x40xf32>) -> (tensor<40x40xf32>, tensor<40xf32>)
    %1 = stablehlo.custom_call @ProductOfElementaryHouseholderReflectors(%0#0, %0#1) : (tensor<40x40xf32>, tensor<40xf32>) -> tensor<40x40xf32>
    %2 = stablehlo.iota dim = 0 : tensor<40x40xi32>
    %3 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<40x40xi32>
    %4 = stablehlo.add %2, %3 : tensor<40x40xi32>
    %5 = stablehlo.iota dim = 1 : tensor<40x40xi32>
    %6 = stablehlo.compare GE, %4, %5, SIGNED : (tensor<40x40xi32>, tensor<40x40xi32>) -> tensor<40x40xi1>
    %7 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<40x40xf32>
    %8 = stablehlo.select %6, %7, %0#0 : tensor<40x40xi1>, tensor<40x40xf32>
    return %1, %8 : tensor<40x40xf32>, tensor<40x40xf32>
  }
  func.func private @eigvalsh(%arg0: tensor<40x40xf32>) -> tensor<40xf32> {
    %0:2 = call @eigh_16(%arg0) : (tensor<40x40xf32>) -> (tensor<40xf32>, tensor<40x40xf32>)
    return %0#0 : tensor<40xf32>
  }
  func.func private @eigh_16(%arg0: tensor<40x40xf32>) -> (tensor<40xf32>, tensor<40x40xf32>) {
    %cst = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %0 = stablehlo.transpose %arg0, dims = [1, 0] : (tensor<40x40xf32>) -> tensor<40x40xf32>
    %1 = stablehlo.add %arg0, %0 : tensor<40x40xf32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<40x40xf32>
    %3 = stablehlo.divide %1, %2 : tensor<40x40xf32>
    %4:2 = stablehlo.custom_call @Eigh(%3) {backend_config = "1,1,100,1e-6"} : (tensor<40x40xf32>) -> (tensor<40x40xf32>, tensor<40xf32>)
    return %4#1, %4#0 : tensor<40xf32>, tensor<40x40xf32>
  }
  func.func private @cholesky_17(%arg0: tensor<2x5x5xf32>) -> tensor<2x5x5xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %cst_0 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %0 = stablehlo.transpose %arg0, dims = [0, 2, 1] : (tensor<2x5x5xf32>) -> tensor<2x5x5xf32>
    %1 = stablehlo.add %arg0, %0 : tensor<2x5x5xf32>
    %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x5x5xf32>
    %3 = stablehlo.divide %1, %2 : tensor<2x5x5xf32>
    %4 = stablehlo.cholesky %3, lower = true : tensor<2x5x5xf32>
    %5 = stablehlo.iota dim = 0 : tensor<5x5xi32>
    %6 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<5x5xi32>
    %7 = stablehlo.add %5, %6 : tensor<5x5xi32>
    %8 = stablehlo.iota dim = 1 : tensor<5x5xi32>
    %9 = stablehlo.compare GE, %7, %8, SIGNED : (tensor<5x5xi32>, tensor<5x5xi32>) -> tensor<5x5xi1>
    %10 = stablehlo.broadcast_in_dim %9, dims = [1, 2] : (tensor<5x5xi1>) -> tensor<2x5x5xi1>
    %11 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x5x5xf32>
    %12 = stablehlo.select %10, %4, %11 : tensor<2x5x5xi1>, tensor<2x5x5xf32>
    return %12 : tensor<2x5x5xf32>
  }
}

module @jit_gpt_step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8x4xf32>, %arg1: tensor<7x4xf32>, %arg2: tensor<4xf32>, %arg3: tensor<4xf32>, %arg4: tensor<4x4xf32>, %arg5: tensor<6x4xf32>, %arg6: tensor<4x12xf32>, %arg7: tensor<4x8xf32>, %arg8: tensor<8x4xf32>, %arg9: tensor<7x4xf32>, %arg10: tensor<4xf32>, %arg11: tensor<4xf32>, %arg12: tensor<4x4xf32>, %arg13: tensor<6x4xf32>, %arg14: tensor<4x12xf32>, %arg15: tensor<4x8xf32>, %arg16: tensor<8x4xf32>, %arg17: tensor<7x4xf32>, %arg18: tensor<4xf32>, %arg19: tensor<4xf32>, %arg20: tensor<4x4xf32>, %arg21: tensor<6x4xf32>, %arg22: tensor<4x12xf32>, %arg23: tensor<4x8xf32>, %arg24: tensor<f32>, %arg25: tensor<2x6xi32>) -> (tensor<f32> {jax.result_info = "result[0]"}, tensor<8x4xf32> {jax.result_info = "result[1]['down']"}, tensor<7x4xf32> {jax.result_info = "result[1]['embed']"}, tensor<4xf32> {jax.result_info = "result[1]['norm1']"}, tensor<4xf32> {jax.result_info = "result[1]['norm2']"}, tensor<4x4xf32> {jax.result_info = "result[1]['out']"}, tensor<6x4xf32> {jax.result_info = "result[1]['position']"}, tensor<4x12xf32> {jax.result_info = "result[1]['qkv']"}, tensor<4x8xf32> {jax.result_info = "result[1]['up']"}, tensor<8x4xf32> {jax.result_info = "result[2]['down']"}, tensor<7x4xf32> {jax.result_info = "result[2]['embed']"}, tensor<4xf32> {jax.result_info = "result[2]['norm1']"}, tensor<4xf32> {jax.result_info = "result[2]['norm2']"}, tensor<4x4xf32> {jax.result_info = "result[2]['out']"}, tensor<6x4xf32> {jax.result_info = "result[2]['position']"}, tensor<4x12xf32> {jax.result_info = "result[2]['qkv']"}, tensor<4x8xf32> {jax.result_info = "result[2]['up']"}, tensor<8x4xf32> {jax.result_info = "result[3]['down']"}, tensor<7x4xf32> {jax.result_info = "result[3]['embed']"}, tensor<4xf32> {jax.result_info = "result[3]['norm1']"}, tensor<4xf32> {jax.result_info = "result[3]['norm2']"}, tensor<4x4xf32> {jax.result_info = "result[3]['out']"}, tensor<6x4xf32> {jax.result_info = "result[3]['position']"}, tensor<4x12xf32> {jax.result_info = "result[3]['qkv']"}, tensor<4x8xf32> {jax.result_info = "result[3]['up']"}, tensor<f32> {jax.result_info = "result[4]"}) {
    %0 = stablehlo.slice %arg25 [0:2, 0:5] : (tensor<2x6xi32>) -> tensor<2x5xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<2x5xi32>
    %2 = stablehlo.compare LT, %0, %1, SIGNED : (tensor<2x5xi32>, tensor<2x5xi32>) -> tensor<2x5xi1>
    %c_0 = stablehlo.constant dense<7> : tensor<i32>
    %3 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<2x5xi32>
    %4 = stablehlo.add %0, %3 : tensor<2x5xi32>
    %5 = stablehlo.select %2, %4, %0 : tensor<2x5xi1>, tensor<2x5xi32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [0, 1] : (tensor<2x5xi32>) -> tensor<2x5x1xi32>
    %7 = "stablehlo.gather"(%arg1, %6) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 4>}> : (tensor<7x4xf32>, tensor<2x5x1xi32>) -> tensor<2x5x4xf32>
    %8 = stablehlo.slice %arg5 [0:5, 0:4] : (tensor<6x4xf32>) -> tensor<5x4xf32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [1, 2] : (tensor<5x4xf32>) -> tensor<1x5x4xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2] : (tensor<1x5x4xf32>) -> tensor<2x5x4xf32>
    %11 = stablehlo.add %7, %10 : tensor<2x5x4xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %12 = stablehlo.reduce(%11 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<2x5x4xf32>, tensor<f32>) -> tensor<2x5xf32>
    %13 = stablehlo.broadcast_in_dim %12, dims = [0, 1] : (tensor<2x5xf32>) -> tensor<2x5x1xf32>
    %cst_1 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x5x1xf32>
    %15 = stablehlo.divide %13, %14 : tensor<2x5x1xf32>
    %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2] : (tensor<2x5x1xf32>) -> tensor<2x5x4xf32>
    %17 = stablehlo.subtract %11, %16 : tensor<2x5x4xf32>
    %18 = stablehlo.multiply %17, %17 : tensor<2x5x4xf32>
    %cst_2 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %19 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x5x4xf32>
    %20 = stablehlo.multiply %19, %17 : tensor<2x5x4xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %21 = stablehlo.reduce(%18 init: %cst_3) applies stablehlo.add across dimensions = [2] : (tensor<2x5x4xf32>, tensor<f32>) -> tensor<2x5xf32>
    %22 = stablehlo.broadcast_in_dim %21, dims = [0, 1] : (tensor<2x5xf32>) -> tensor<2x5x1xf32>
    %cst_4 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
    %23 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<2x5x1xf32>
    %24 = stablehlo.divide %22, %23 : tensor<2x5x1xf32>
    %25 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2] : (tensor<2x5x1xf32>) -> tensor<2x5x4xf32>
    %26 = stablehlo.subtract %11, %25 : tensor<2x5x4xf32>
    %cst_5 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %27 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<2x5x1xf32>
    %28 = stablehlo.add %24, %27 : tensor<2x5x1xf32>
    %29 = stablehlo.rsqrt %28 : tensor<2x5x1xf32>
    %30 = stablehlo.divide %29, %28 : tensor<2x5x1xf32>
    %cst_6 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %31 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<2x5x1xf32>
    %32 = stablehlo.multiply %31, %30 : tensor<2x5x1xf32>
    %33 = stablehlo.broadcast_in_dim %29, dims = [0, 1, 2] : (tensor<2x5x1xf32>) -> tensor<2x5x4xf32>
    %34 = stablehlo.multiply %26, %33 : tensor<2x5x4xf32>
    %35 = stablehlo.broadcast_in_dim %arg2, dims = [2] : (tensor<4xf32>) -> tensor<1x1x4xf32>
    %36 = stablehlo.broadcast_in_dim %35, dims = [0, 1, 2] : (tensor<1x1x4xf32>) -> tensor<2x5x4xf32>
    %37 = stablehlo.multiply %34, %36 : tensor<2x5x4xf32>
    %38 = stablehlo.dot_general %37, %arg6, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x5x4xf32>, tensor<4x12xf32>) -> tensor<2x5x12xf32>
    %39 = stablehlo.slice %38 [0:2, 0:5, 0:4] : (tensor<2x5x12xf32>) -> tensor<2x5x4xf32>
    %40 = stablehlo.slice %38 [0:2, 0:5, 4:8] : (tensor<2x5x12xf32>) -> tensor<2x5x4xf32>
    %41 = stablehlo.slice %38 [0:2, 0:5, 8:12] : (tensor<2x5x12xf32>) -> tensor<2x5x4xf32>
    %42 = stablehlo.reshape %39 : (tensor<2x5x4xf32>) -> tensor<2x5x2x2xf32>
    %43 = stablehlo.transpose %42, dims = [0, 2, 1, 3] : (tensor<2x5x2x2xf32>) -> tensor<2x2x5x2xf32>
    %44 = stablehlo.reshape %40 : (tensor<2x5x4xf32>) -> tensor<2x5x2x2xf32>
    %45 = stablehlo.transpose %44, dims = [0, 2, 1, 3] : (tensor<2x5x2x2xf32>) -> tensor<2x2x5x2xf32>
    %46 = stablehlo.reshape %41 : (tensor<2x5x4xf32>) -> tensor<2x5x2x2xf32>
    %47 = stablehlo.transpose %46, dims = [0, 2, 1, 3] : (tensor<2x5x2x2xf32>) -> tensor<2x2x5x2xf32>
    %48 = stablehlo.dot_general %43, %45, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x2x5x2xf32>, tensor<2x2x5x2xf32>) -> tensor<2x2x5x5xf32>
    %cst_7 = stablehlo.constant dense<1.41421354> : tensor<f32>
    %49 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<2x2x5x5xf32>
    %50 = stablehlo.divide %48, %49 : tensor<2x2x5x5xf32>
    %c_8 = stablehlo.constant dense<true> : tensor<i1>
    %51 = stablehlo.broadcast_in_dim %c_8, dims = [] : (tensor<i1>) -> tensor<5x5xi1>
    %52 = call @tril(%51) : (tensor<5x5xi1>) -> tensor<5x5xi1>
    %cst_9 = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
    %53:3 = call @_where(%52, %50, %cst_9) : (tensor<5x5xi1>, tensor<2x2x5x5xf32>, tensor<f32>) -> (tensor<2x2x5x5xf32>, tensor<2x2x5x5xi1>, tensor<2x2x5x5xf32>)
    %cst_10 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %54 = stablehlo.reduce(%53#0 init: %cst_10) applies stablehlo.maximum across dimensions = [3] : (tensor<2x2x5x5xf32>, tensor<f32>) -> tensor<2x2x5xf32>
    %55 = stablehlo.reshape %54 : (tensor<2x2x5xf32>) -> tensor<2x2x5x1xf32>
    %56 = stablehlo.broadcast_in_dim %55, dims = [0, 1, 2, 3] : (tensor<2x2x5x1xf32>) -> tensor<2x2x5x5xf32>
    %57 = stablehlo.compare EQ, %53#0, %56, FLOAT : (tensor<2x2x5x5xf32>, tensor<2x2x5x5xf32>) -> tensor<2x2x5x5xi1>
    %58 = stablehlo.convert %57 : (tensor<2x2x5x5xi1>) -> tensor<2x2x5x5xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %59 = stablehlo.reduce(%58 init: %cst_11) applies stablehlo.add across dimensions = [3] : (tensor<2x2x5x5xf32>, tensor<f32>) -> tensor<2x2x5xf32>
    %cst_12 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %60 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<2x2x5xf32>
    %61 = stablehlo.maximum %60, %54 : tensor<2x2x5xf32>
    %62 = stablehlo.compare EQ, %54, %61, FLOAT : (tensor<2x2x5xf32>, tensor<2x2x5xf32>) -> tensor<2x2x5xi1>
    %cst_13 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %63 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<2x2x5xf32>
    %cst_14 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %64 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<2x2x5xf32>
    %65 = stablehlo.select %62, %63, %64 : tensor<2x2x5xi1>, tensor<2x2x5xf32>
    %cst_15 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %66 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<2x2x5xf32>
    %67 = stablehlo.compare EQ, %66, %61, FLOAT : (tensor<2x2x5xf32>, tensor<2x2x5xf32>) -> tensor<2x2x5xi1>
    %cst_16 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %68 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<2x2x5xf32>
    %cst_17 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %69 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<f32>) -> tensor<2x2x5xf32>
    %70 = stablehlo.select %67, %68, %69 : tensor<2x2x5xi1>, tensor<2x2x5xf32>
    %71 = stablehlo.divide %65, %70 : tensor<2x2x5xf32>
    %72 = stablehlo.broadcast_in_dim %61, dims = [0, 1, 2] : (tensor<2x2x5xf32>) -> tensor<2x2x5x1xf32>
    %73 = stablehlo.broadcast_in_dim %72, dims = [0, 1, 2, 3] : (tensor<2x2x5x1xf32>) -> tensor<2x2x5x5xf32>
    %74 = stablehlo.subtract %53#0, %73 : tensor<2x2x5x5xf32>
    %75 = stablehlo.exponential %74 : tensor<2x2x5x5xf32>
    %cst_18 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %76 = stablehlo.reduce(%75 init: %cst_18) applies stablehlo.add across dimensions = [3] : (tensor<2x2x5x5xf32>, tensor<f32>) -> tensor<2x2x5xf32>
    %77 = stablehlo.broadcast_in_dim %76, dims = [0, 1, 2] : (tensor<2x2x5xf32>) -> tensor<2x2x5x1xf32>
    %78 = stablehlo.broadcast_in_dim %77, dims = [0, 1, 2, 3] : (tensor<2x2x5x1xf32>) -> tensor<2x2x5x5xf32>
    %79 = stablehlo.divide %75, %78 : tensor<2x2x5x5xf32>
    %80 = stablehlo.multiply %77, %77 : tensor<2x2x5x1xf32>
    %cst_19 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %81 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<f32>) -> tensor<2x2x5x1xf32>
    %82 = stablehlo.divide %81, %80 : tensor<2x2x5x1xf32>
    %83 = stablehlo.dot_general %79, %47, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<2x2x5x5xf32>, tensor<2x2x5x2xf32>) -> tensor<2x2x5x2xf32>
    %84 = stablehlo.transpose %83, dims = [0, 2, 1, 3] : (tensor<2x2x5x2xf32>) -> tensor<2x5x2x2xf32>
    %85 = stablehlo.reshape %84 : (tensor<2x5x2x2xf32>) -> tensor<2x5x4xf32>
    %86 = stablehlo.dot_general %85, %arg4, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x5x4xf32>, tensor<4x4xf32>) -> tensor<2x5x4xf32>
    %87 = stablehlo.add %11, %86 : tensor<2x5x4xf32>
    %cst_20 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %88 = stablehlo.reduce(%87 init: %cst_20) applies stablehlo.add across dimensions = [2] : (tensor<2x5x4xf32>, tensor<f32>) -> tensor<2x5xf32>
    %89 = stablehlo.broadcast_in_dim %88, dims = [0, 1] : (tensor<2x5xf32>) -> tensor<2x5x1xf32>
    %cst_21 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
    %90 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<f32>) -> tensor<2x5x1xf32>
    %91 = stablehlo.divide %89, %90 : tensor<2x5x1xf32>
    %92 = stablehlo.broadcast_in_dim %91, dims = [0, 1, 2] : (tensor<2x5x1xf32>) -> tensor<2x5x4xf32>
    %93 = stablehlo.subtract %87, %92 : tensor<2x5x4xf32>
    %94 = stablehlo.multiply %93, %93 : tensor<2x5x4xf32>
    %cst_22 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %95 = stablehlo.broadcast_in_dim %cst_22, dims = [] : (tensor<f32>) -> tensor<2x5x4xf32>
    %96 = stablehlo.multiply %95, %93 : tensor<2x5x4xf32>
    %cst_23 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %97 = stablehlo.reduce(%94 init: %cst_23) applies stablehlo.add across dimensions = [2] : (tensor<2x5x4xf32>, tensor<f32>) -> tensor<2x5xf32>
    %98 = stablehlo.broadcast_in_dim %97, dims = [0, 1] : (tensor<2x5xf32>) -> tensor<2x5x1xf32>
    %cst_24 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
    %99 = stablehlo.broadcast_in_dim %cst_24, dims = [] : (tensor<f32>) -> tensor<2x5x1xf32>
    %100 = stablehlo.divide %98, %99 : tensor<2x5x1xf32>
    %101 = stablehlo.broadcast_in_dim %91, dims = [0, 1, 2] : (tensor<2x5x1xf32>) -> tensor<2x5x4xf32>
    %102 = stablehlo.subtract %87, %101 : tensor<2x5x4xf32>
    %cst_25 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %103 = stablehlo.broadcast_in_dim %cst_25, dims = [] : (tensor<f32>) -> tensor<2x5x1xf32>
    %104 = stablehlo.add %100, %103 : tensor<2x5x1xf32>
    %105 = stablehlo.rsqrt %104 : tensor<2x5x1xf32>
    %106 = stablehlo.divide %105, %104 : tensor<2x5x1xf32>
    %cst_26 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %107 = stablehlo.broadcast_in_dim %cst_26, dims = [] : (tensor<f32>) -> tensor<2x5x1xf32>
    %108 = stablehlo.multiply %107, %106 : tensor<2x5x1xf32>
    %109 = stablehlo.broadcast_in_dim %105, dims = [0, 1, 2] : (tensor<2x5x1xf32>) -> tensor<2x5x4xf32>
    %110 = stablehlo.multiply %102, %109 : tensor<2x5x4xf32>
    %111 = stablehlo.broadcast_in_dim %arg3, dims = [2] : (tensor<4xf32>) -> tensor<1x1x4xf32>
    %112 = stablehlo.broadcast_in_dim %111, dims = [0, 1, 2] : (tensor<1x1x4xf32>) -> tensor<2x5x4xf32>
    %113 = stablehlo.multiply %110, %112 : tensor<2x5x4xf32>
    %114 = stablehlo.dot_general %113, %arg7, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x5x4xf32>, tensor<4x8xf32>) -> tensor<2x5x8xf32>
    %115 = stablehlo.multiply %114, %114 : tensor<2x5x8xf32>
    %116 = stablehlo.multiply %115, %114 : tensor<2x5x8xf32>
    %117 = stablehlo.multiply %114, %114 : tensor<2x5x8xf32>
    %cst_27 = stablehlo.constant dense<3.000000e+00> : tensor<f32>
    %118 = stablehlo.broadcast_in_dim %cst_27, dims = [] : (tensor<f32>) -> tensor<2x5x8xf32>
    %119 = stablehlo.multiply %118, %117 : tensor<2x5x8xf32>
    %cst_28 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %120 = stablehlo.broadcast_in_dim %cst_28, dims = [] : (tensor<f32>) -> tensor<2x5x8xf32>
    %121 = stablehlo.multiply %120, %116 : tensor<2x5x8xf32>
    %122 = stablehlo.add %114, %121 : tensor<2x5x8xf32>
    %cst_29 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %123 = stablehlo.broadcast_in_dim %cst_29, dims = [] : (tensor<f32>) -> tensor<2x5x8xf32>
    %124 = stablehlo.multiply %123, %122 : tensor<2x5x8xf32>
    %125 = stablehlo.tanh %124 : tensor<2x5x8xf32>
    %cst_30 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %126 = stablehlo.broadcast_in_dim %cst_30, dims = [] : (tensor<f32>) -> tensor<2x5x8xf32>
    %127 = stablehlo.subtract %126, %125 : tensor<2x5x8xf32>
    %cst_31 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %128 = stablehlo.broadcast_in_dim %cst_31, dims = [] : (tensor<f32>) -> tensor<2x5x8xf32>
    %129 = stablehlo.add %128, %125 : tensor<2x5x8xf32>
    %cst_32 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %130 = stablehlo.broadcast_in_dim %cst_32, dims = [] : (tensor<f32>) -> tensor<2x5x8xf32>
    %131 = stablehlo.multiply %130, %129 : tensor<2x5x8xf32>
    %132 = stablehlo.multiply %114, %131 : tensor<2x5x8xf32>
    %133 = stablehlo.dot_general %132, %arg0, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x5x8xf32>, tensor<8x4xf32>) -> tensor<2x5x4xf32>
    %134 = stablehlo.add %87, %133 : tensor<2x5x4xf32>
    %135 = stablehlo.transpose %arg1, dims = [1, 0] : (tensor<7x4xf32>) -> tensor<4x7xf32>
    %136 = stablehlo.dot_general %134, %135, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x5x4xf32>, tensor<4x7xf32>) -> tensor<2x5x7xf32>
    %137:3 = call @log_softmax(%136) : (tensor<2x5x7xf32>) -> (tensor<2x5x7xf32>, tensor<2x5x7xf32>, tensor<2x5x1xf32>)
    %138 = stablehlo.slice %arg25 [0:2, 1:6] : (tensor<2x6xi32>) -> tensor<2x5xi32>
    %139 = stablehlo.broadcast_in_dim %138, dims = [0, 1] : (tensor<2x5xi32>) -> tensor<2x5x1xi32>
    %140:2 = call @take_along_axis(%137#0, %139) : (tensor<2x5x7xf32>, tensor<2x5x1xi32>) -> (tensor<2x5x1xf32>, tensor<2x5x1x1xi32>)
    %cst_33 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %141 = stablehlo.reduce(%140#0 init: %cst_33) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x5x1xf32>, tensor<f32>) -> tensor<f32>
    %cst_34 = stablehlo.constant dense<1.000000e+01> : tensor<f32>
    %142 = stablehlo.divide %141, %cst_34 : tensor<f32>
    %143 = stablehlo.negate %142 : tensor<f32>
    %cst_35 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %144 = stablehlo.negate %cst_35 : tensor<f32>
    %cst_36 = stablehlo.constant dense<1.000000e+01> : tensor<f32>
    %145 = stablehlo.divide %144, %cst_36 : tensor<f32>
    %146 = stablehlo.broadcast_in_dim %145, dims = [] : (tensor<f32>) -> tensor<2x5x1xf32>
    %147 = call @take_along_axis_0(%140#1, %146) : (tensor<2x5x1x1xi32>, tensor<2x5x1xf32>) -> tensor<2x5x7xf32>
    %148 = call @log_softmax_1(%137#1, %137#2, %147) : (tensor<2x5x7xf32>, tensor<2x5x1xf32>, tensor<2x5x7xf32>) -> tensor<2x5x7xf32>
    %149 = stablehlo.dot_general %148, %134, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x5x7xf32>, tensor<2x5x4xf32>) -> tensor<7x4xf32>
    %150 = stablehlo.transpose %149, dims = [1, 0] : (tensor<7x4xf32>) -> tensor<4x7xf32>
    %151 = stablehlo.dot_general %148, %135, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x5x7xf32>, tensor<4x7xf32>) -> tensor<2x5x4xf32>
    %152 = stablehlo.transpose %150, dims = [1, 0] : (tensor<4x7xf32>) -> tensor<7x4xf32>
    %153 = stablehlo.dot_general %151, %132, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x5x4xf32>, tensor<2x5x8xf32>) -> tensor<4x8xf32>
    %154 = stablehlo.transpose %153, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %155 = stablehlo.dot_general %151, %arg0, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x5x4xf32>, tensor<8x4xf32>) -> tensor<2x5x8xf32>
    %156 = stablehlo.multiply %114, %155 : tensor<2x5x8xf32>
    %157 = stablehlo.multiply %155, %131 : tensor<2x5x8xf32>
    %cst_37 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %158 = stablehlo.broadcast_in_dim %cst_37, dims = [] : (tensor<f32>) -> tensor<2x5x8xf32>
    %159 = stablehlo.multiply %158, %156 : tensor<2x5x8xf32>
    %160 = stablehlo.multiply %159, %127 : tensor<2x5x8xf32>
    %161 = stablehlo.multiply %160, %125 : tensor<2x5x8xf32>
    %162 = stablehlo.add %160, %161 : tensor<2x5x8xf32>
    %cst_38 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %163 = stablehlo.broadcast_in_dim %cst_38, dims = [] : (tensor<f32>) -> tensor<2x5x8xf32>
    %164 = stablehlo.multiply %163, %162 : tensor<2x5x8xf32>
    %165 = stablehlo.add %157, %164 : tensor<2x5x8xf32>
    %cst_39 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %166 = stablehlo.broadcast_in_dim %cst_39, dims = [] : (tensor<f32>) -> tensor<2x5x8xf32>
    %167 = stablehlo.multiply %166, %164 : tensor<2x5x8xf32>
    %168 = stablehlo.multiply %167, %119 : tensor<2x5x8xf32>
    %169 = stablehlo.add %165, %168 : tensor<2x5x8xf32>
    %170 = stablehlo.dot_general %169, %113, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x5x8xf32>, tensor<2x5x4xf32>) -> tensor<8x4xf32>
    %171 = stablehlo.transpose %170, dims = [1, 0] : (tensor<8x4xf32>) -> tensor<4x8xf32>
    %172 = stablehlo.dot_general %169, %arg7, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x5x8xf32>, tensor<4x8xf32>) -> tensor<2x5x4xf32>
    %173 = stablehlo.multiply %110, %172 : tensor<2x5x4xf32>
    %cst_40 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %174 = stablehlo.reduce(%173 init: %cst_40) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x5x4xf32>, tensor<f32>) -> tensor<4xf32>
    %175 = stablehlo.reshape %174 : (tensor<4xf32>) -> tensor<1x1x4xf32>
    %176 = stablehlo.broadcast_in_dim %111, dims = [0, 1, 2] : (tensor<1x1x4xf32>) -> tensor<2x5x4xf32>
    %177 = stablehlo.multiply %172, %176 : tensor<2x5x4xf32>
    %cst_41 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %178 = stablehlo.reduce(%175 init: %cst_41) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x4xf32>, tensor<f32>) -> tensor<4xf32>
    %179 = stablehlo.multiply %102, %177 : tensor<2x5x4xf32>
    %cst_42 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %180 = stablehlo.reduce(%179 init: %cst_42) applies stablehlo.add across dimensions = [2] : (tensor<2x5x4xf32>, tensor<f32>) -> tensor<2x5xf32>
    %181 = stablehlo.reshape %180 : (tensor<2x5xf32>) -> tensor<2x5x1xf32>
    %182 = stablehlo.broadcast_in_dim %105, dims = [0, 1, 2] : (tensor<2x5x1xf32>) -> tensor<2x5x4xf32>
    %183 = stablehlo.multiply %177, %182 : tensor<2x5x4xf32>
    %184 = stablehlo.multiply %181, %108 : tensor<2x5x1xf32>
    %185 = stablehlo.negate %183 : tensor<2x5x4xf32>
    %cst_43 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %186 = stablehlo.reduce(%185 init: %cst_43) applies stablehlo.add across dimensions = [2] : (tensor<2x5x4xf32>, tensor<f32>) -> tensor<2x5xf32>
    %187 = stablehlo.reshape %186 : (tensor<2x5xf32>) -> tensor<2x5x1xf32>
    %188 = stablehlo.add %151, %183 : tensor<2x5x4xf32>
    %cst_44 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
    %189 = stablehlo.broadcast_in_dim %cst_44, dims = [] : (tensor<f32>) -> tensor<2x5x1xf32>
    %190 = stablehlo.divide %184, %189 : tensor<2x5x1xf32>
    %cst_45 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %191 = stablehlo.reduce(%190 init: %cst_45) applies stablehlo.add across dimensions = [2] : (tensor<2x5x1xf32>, tensor<f32>) -> tensor<2x5xf32>
    %192 = stablehlo.broadcast_in_dim %191, dims = [0, 1] : (tensor<2x5xf32>) -> tensor<2x5x4xf32>
    %193 = stablehlo.multiply %192, %96 : tensor<2x5x4xf32>
    %194 = stablehlo.negate %193 : tensor<2x5x4xf32>
    %cst_46 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %195 = stablehlo.reduce(%194 init: %cst_46) applies stablehlo.add across dimensions = [2] : (tensor<2x5x4xf32>, tensor<f32>) -> tensor<2x5xf32>
    %196 = stablehlo.reshape %195 : (tensor<2x5xf32>) -> tensor<2x5x1xf32>
    %197 = stablehlo.add %188, %193 : tensor<2x5x4xf32>
    %198 = stablehlo.add %187, %196 : tensor<2x5x1xf32>
    %cst_47 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
    %199 = stablehlo.broadcast_in_dim %cst_47, dims = [] : (tensor<f32>) -> tensor<2x5x1xf32>
    %200 = stablehlo.divide %198, %199 : tensor<2x5x1xf32>
    %cst_48 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %201 = stablehlo.reduce(%200 init: %cst_48) applies stablehlo.add across dimensions = [2] : (tensor<2x5x1xf32>, tensor<f32>) -> tensor<2x5xf32>
    %202 = stablehlo.broadcast_in_dim %201, dims = [0, 1] : (tensor<2x5xf32>) -> tensor<2x5x4xf32>
    %203 = stablehlo.add %197, %202 : tensor<2x5x4xf32>
    %204 = stablehlo.dot_general %203, %85, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x5x4xf32>, tensor<2x5x4xf32>) -> tensor<4x4xf32>
    %205 = stablehlo.transpose %204, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %206 = stablehlo.dot_general %203, %arg4, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x5x4xf32>, tensor<4x4xf32>) -> tensor<2x5x4xf32>
    %207 = stablehlo.reshape %206 : (tensor<2x5x4xf32>) -> tensor<2x5x2x2xf32>
    %208 = stablehlo.transpose %207, dims = [0, 2, 1, 3] : (tensor<2x5x2x2xf32>) -> tensor<2x2x5x2xf32>
    %209 = stablehlo.dot_general %208, %79, batching_dims = [0, 1] x [0, 1], contracting_dims = [2] x [2], precision = [DEFAULT, DEFAULT] : (tensor<2x2x5x2xf32>, tensor<2x2x5x5xf32>) -> tensor<2x2x2x5xf32>
    %210 = stablehlo.transpose %209, dims = [0, 1, 3, 2] : (tensor<2x2x2x5xf32>) -> tensor<2x2x5x2xf32>
    %211 = stablehlo.dot_general %208, %47, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x2x5x2xf32>, tensor<2x2x5x2xf32>) -> tensor<2x2x5x5xf32>
    %212 = stablehlo.broadcast_in_dim %82, dims = [0, 1, 2, 3] : (tensor<2x2x5x1xf32>) -> tensor<2x2x5x5xf32>
    %213 = stablehlo.multiply %211, %212 : tensor<2x2x5x5xf32>
    %214 = stablehlo.multiply %213, %75 : tensor<2x2x5x5xf32>
    %cst_49 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %215 = stablehlo.reduce(%214 init: %cst_49) applies stablehlo.add across dimensions = [3] : (tensor<2x2x5x5xf32>, tensor<f32>) -> tensor<2x2x5xf32>
    %216 = stablehlo.reshape %215 : (tensor<2x2x5xf32>) -> tensor<2x2x5x1xf32>
    %217 = stablehlo.negate %216 : tensor<2x2x5x1xf32>
    %218 = stablehlo.broadcast_in_dim %77, dims = [0, 1, 2, 3] : (tensor<2x2x5x1xf32>) -> tensor<2x2x5x5xf32>
    %219 = stablehlo.divide %211, %218 : tensor<2x2x5x5xf32>
    %cst_50 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %220 = stablehlo.reduce(%217 init: %cst_50) applies stablehlo.add across dimensions = [3] : (tensor<2x2x5x1xf32>, tensor<f32>) -> tensor<2x2x5xf32>
    %221 = stablehlo.broadcast_in_dim %220, dims = [0, 1, 2] : (tensor<2x2x5xf32>) -> tensor<2x2x5x5xf32>
    %222 = stablehlo.add %219, %221 : tensor<2x2x5x5xf32>
    %223 = stablehlo.multiply %222, %75 : tensor<2x2x5x5xf32>
    %224 = call @_where_2(%53#1, %53#2, %223) : (tensor<2x2x5x5xi1>, tensor<2x2x5x5xf32>, tensor<2x2x5x5xf32>) -> tensor<2x2x5x5xf32>
    %cst_51 = stablehlo.constant dense<1.41421354> : tensor<f32>
    %225 = stablehlo.broadcast_in_dim %cst_51, dims = [] : (tensor<f32>) -> tensor<2x2x5x5xf32>
    %226 = stablehlo.divide %224, %225 : tensor<2x2x5x5xf32>
    %227 = stablehlo.dot_general %226, %43, batching_dims = [0, 1] x [0, 1], contracting_dims = [2] x [2], precision = [DEFAULT, DEFAULT] : (tensor<2x2x5x5xf32>, tensor<2x2x5x2xf32>) -> tensor<2x2x5x2xf32>
    %228 = stablehlo.dot_general %226, %45, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<2x2x5x5xf32>, tensor<2x2x5x2xf32>) -> tensor<2x2x5x2xf32>
    %229 = stablehlo.transpose %210, dims = [0, 2, 1, 3] : (tensor<2x2x5x2xf32>) -> tensor<2x5x2x2xf32>
    %230 = stablehlo.reshape %229 : (tensor<2x5x2x2xf32>) -> tensor<2x5x4xf32>
    %231 = stablehlo.transpose %227, dims = [0, 2, 1, 3] : (tensor<2x2x5x2xf32>) -> tensor<2x5x2x2xf32>
    %232 = stablehlo.reshape %231 : (tensor<2x5x2x2xf32>) -> tensor<2x5x4xf32>
    %233 = stablehlo.transpose %228, dims = [0, 2, 1, 3] : (tensor<2x2x5x2xf32>) -> tensor<2x5x2x2xf32>
    %234 = stablehlo.reshape %233 : (tensor<2x5x2x2xf32>) -> tensor<2x5x4xf32>
    %235 = stablehlo.concatenate %234, %232, %230, dim = 2 : (tensor<2x5x4xf32>, tensor<2x5x4xf32>, tensor<2x5x4xf32>) -> tensor<2x5x12xf32>
    %236 = stablehlo.dot_general %235, %37, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x5x12xf32>, tensor<2x5x4xf32>) -> tensor<12x4xf32>
    %237 = stablehlo.transpose %236, dims = [1, 0] : (tensor<12x4xf32>) -> tensor<4x12xf32>
    %238 = stablehlo.dot_general %235, %arg6, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x5x12xf32>, tensor<4x12xf32>) -> tensor<2x5x4xf32>
    %239 = stablehlo.multiply %34, %238 : tensor<2x5x4xf32>
    %cst_52 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %240 = stablehlo.reduce(%239 init: %cst_52) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x5x4xf32>, tensor<f32>) -> tensor<4xf32>
    %241 = stablehlo.reshape %240 : (tensor<4xf32>) -> tensor<1x1x4xf32>
    %242 = stablehlo.broadcast_in_dim %35, dims = [0, 1, 2] : (tensor<1x1x4xf32>) -> tensor<2x5x4xf32>
    %243 = stablehlo.multiply %238, %242 : tensor<2x5x4xf32>
    %cst_53 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %244 = stablehlo.reduce(%241 init: %cst_53) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x4xf32>, tensor<f32>) -> tensor<4xf32>
    %245 = stablehlo.multiply %26, %243 : tensor<2x5x4xf32>
    %cst_54 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %246 = stablehlo.reduce(%245 init: %cst_54) applies stablehlo.add across dimensions = [2] : (tensor<2x5x4xf32>, tensor<f32>) -> tensor<2x5xf32>
    %247 = stablehlo.reshape %246 : (tensor<2x5xf32>) -> tensor<2x5x1xf32>
    %248 = stablehlo.broadcast_in_dim %29, dims = [0, 1, 2] : (tensor<2x5x1xf32>) -> tensor<2x5x4xf32>
    %249 = stablehlo.multiply %243, %248 : tensor<2x5x4xf32>
    %250 = stablehlo.multiply %247, %32 : tensor<2x5x1xf32>
    %251 = stablehlo.negate %249 : tensor<2x5x4xf32>
    %cst_55 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %252 = stablehlo.reduce(%251 init: %cst_55) applies stablehlo.add across dimensions = [2] : (tensor<2x5x4xf32>, tensor<f32>) -> tensor<2x5xf32>
    %253 = stablehlo.reshape %252 : (tensor<2x5xf32>) -> tensor<2x5x1xf32>
    %254 = stablehlo.add %203, %249 : tensor<2x5x4xf32>
    %cst_56 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
    %255 = stablehlo.broadcast_in_dim %cst_56, dims = [] : (tensor<f32>) -> tensor<2x5x1xf32>
    %256 = stablehlo.divide %250, %255 : tensor<2x5x1xf32>
    %cst_57 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %257 = stablehlo.reduce(%256 init: %cst_57) applies stablehlo.add across dimensions = [2] : (tensor<2x5x1xf32>, tensor<f32>) -> tensor<2x5xf32>
    %258 = stablehlo.broadcast_in_dim %257, dims = [0, 1] : (tensor<2x5xf32>) -> tensor<2x5x4xf32>
    %259 = stablehlo.multiply %258, %20 : tensor<2x5x4xf32>
    %260 = stablehlo.negate %259 : tensor<2x5x4xf32>
    %cst_58 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %261 = stablehlo.reduce(%260 init: %cst_58) applies stablehlo.add across dimensions = [2] : (tensor<2x5x4xf32>, tensor<f32>) -> tensor<2x5xf32>
    %262 = stablehlo.reshape %261 : (tensor<2x5xf32>) -> tensor<2x5x1xf32>
    %263 = stablehlo.add %254, %259 : tensor<2x5x4xf32>
    %264 = stablehlo.add %253, %262 : tensor<2x5x1xf32>
    %cst_59 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
    %265 = stablehlo.broadcast_in_dim %cst_59, dims = [] : (tensor<f32>) -> tensor<2x5x1xf32>
    %266 = stablehlo.divide %264, %265 : tensor<2x5x1xf32>
    %cst_60 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %267 = stablehlo.reduce(%266 init: %cst_60) applies stablehlo.add across dimensions = [2] : (tensor<2x5x1xf32>, tensor<f32>) -> tensor<2x5xf32>
    %268 = stablehlo.broadcast_in_dim %267, dims = [0, 1] : (tensor<2x5xf32>) -> tensor<2x5x4xf32>
    %269 = stablehlo.add %263, %268 : tensor<2x5x4xf32>
    %cst_61 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %270 = stablehlo.reduce(%269 init: %cst_61) applies stablehlo.add across dimensions = [0] : (tensor<2x5x4xf32>, tensor<f32>) -> tensor<5x4xf32>
    %271 = stablehlo.reshape %270 : (tensor<5x4xf32>) -> tensor<1x5x4xf32>
    %cst_62 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %272 = stablehlo.reduce(%271 init: %cst_62) applies stablehlo.add across dimensions = [0] : (tensor<1x5x4xf32>, tensor<f32>) -> tensor<5x4xf32>
    %cst_63 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %273 = stablehlo.pad %272, %cst_63, low = [0, 0], high = [1, 0], interior = [0, 0] : (tensor<5x4xf32>, tensor<f32>) -> tensor<6x4xf32>
    %cst_64 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %274 = stablehlo.broadcast_in_dim %cst_64, dims = [] : (tensor<f32>) -> tensor<7x4xf32>
    %275 = "stablehlo.scatter"(%274, %6, %269) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 2>, unique_indices = false}> ({
    ^bb0(%arg26: tensor<f32>, %arg27: tensor<f32>):
      %510 = stablehlo.add %arg26, %arg27 : tensor<f32>
      stablehlo.return %510 : tensor<f32>
    }) : (tensor<7x4xf32>, tensor<2x5x1xi32>, tensor<2x5x4xf32>) -> tensor<7x4xf32>
    %276 = stablehlo.add %152, %275 : tensor<7x4xf32>
    %cst_65 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %277 = stablehlo.add %arg24, %cst_65 : tensor<f32>
    %cst_66 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %278 = stablehlo.broadcast_in_dim %cst_66, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %279 = stablehlo.multiply %278, %arg8 : tensor<8x4xf32>
    %cst_67 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %280 = stablehlo.broadcast_in_dim %cst_67, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %281 = stablehlo.multiply %280, %154 : tensor<8x4xf32>
    %282 = stablehlo.add %279, %281 : tensor<8x4xf32>
    %cst_68 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %283 = stablehlo.broadcast_in_dim %cst_68, dims = [] : (tensor<f32>) -> tensor<7x4xf32>
    %284 = stablehlo.multiply %283, %arg9 : tensor<7x4xf32>
    %cst_69 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %285 = stablehlo.broadcast_in_dim %cst_69, dims = [] : (tensor<f32>) -> tensor<7x4xf32>
    %286 = stablehlo.multiply %285, %276 : tensor<7x4xf32>
    %287 = stablehlo.add %284, %286 : tensor<7x4xf32>
    %cst_70 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %288 = stablehlo.broadcast_in_dim %cst_70, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %289 = stablehlo.multiply %288, %arg10 : tensor<4xf32>
    %cst_71 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %290 = stablehlo.broadcast_in_dim %cst_71, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %291 = stablehlo.multiply %290, %244 : tensor<4xf32>
    %292 = stablehlo.add %289, %291 : tensor<4xf32>
    %cst_72 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %293 = stablehlo.broadcast_in_dim %cst_72, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %294 = stablehlo.multiply %293, %arg11 : tensor<4xf32>
    %cst_73 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %295 = stablehlo.broadcast_in_dim %cst_73, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %296 = stablehlo.multiply %295, %178 : tensor<4xf32>
    %297 = stablehlo.add %294, %296 : tensor<4xf32>
    %cst_74 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %298 = stablehlo.broadcast_in_dim %cst_74, dims = [] : (tensor<f32>) -> tensor<4x4xf32>
    %299 = stablehlo.multiply %298, %arg12 : tensor<4x4xf32>
    %cst_75 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %300 = stablehlo.broadcast_in_dim %cst_75, dims = [] : (tensor<f32>) -> tensor<4x4xf32>
    %301 = stablehlo.multiply %300, %205 : tensor<4x4xf32>
    %302 = stablehlo.add %299, %301 : tensor<4x4xf32>
    %cst_76 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %303 = stablehlo.broadcast_in_dim %cst_76, dims = [] : (tensor<f32>) -> tensor<6x4xf32>
    %304 = stablehlo.multiply %303, %arg13 : tensor<6x4xf32>
    %cst_77 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %305 = stablehlo.broadcast_in_dim %cst_77, dims = [] : (tensor<f32>) -> tensor<6x4xf32>
    %306 = stablehlo.multiply %305, %273 : tensor<6x4xf32>
    %307 = stablehlo.add %304, %306 : tensor<6x4xf32>
    %cst_78 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %308 = stablehlo.broadcast_in_dim %cst_78, dims = [] : (tensor<f32>) -> tensor<4x12xf32>
    %309 = stablehlo.multiply %308, %arg14 : tensor<4x12xf32>
    %cst_79 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %310 = stablehlo.broadcast_in_dim %cst_79, dims = [] : (tensor<f32>) -> tensor<4x12xf32>
    %311 = stablehlo.multiply %310, %237 : tensor<4x12xf32>
    %312 = stablehlo.add %309, %311 : tensor<4x12xf32>
    %cst_80 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %313 = stablehlo.broadcast_in_dim %cst_80, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %314 = stablehlo.multiply %313, %arg15 : tensor<4x8xf32>
    %cst_81 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %315 = stablehlo.broadcast_in_dim %cst_81, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %316 = stablehlo.multiply %315, %171 : tensor<4x8xf32>
    %317 = stablehlo.add %314, %316 : tensor<4x8xf32>
    %cst_82 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %318 = stablehlo.broadcast_in_dim %cst_82, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %319 = stablehlo.multiply %318, %arg16 : tensor<8x4xf32>
    %cst_83 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %320 = stablehlo.broadcast_in_dim %cst_83, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %321 = stablehlo.multiply %320, %154 : tensor<8x4xf32>
    %322 = stablehlo.multiply %321, %154 : tensor<8x4xf32>
    %323 = stablehlo.add %319, %322 : tensor<8x4xf32>
    %cst_84 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %324 = stablehlo.broadcast_in_dim %cst_84, dims = [] : (tensor<f32>) -> tensor<7x4xf32>
    %325 = stablehlo.multiply %324, %arg17 : tensor<7x4xf32>
    %cst_85 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %326 = stablehlo.broadcast_in_dim %cst_85, dims = [] : (tensor<f32>) -> tensor<7x4xf32>
    %327 = stablehlo.multiply %326, %276 : tensor<7x4xf32>
    %328 = stablehlo.multiply %327, %276 : tensor<7x4xf32>
    %329 = stablehlo.add %325, %328 : tensor<7x4xf32>
    %cst_86 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %330 = stablehlo.broadcast_in_dim %cst_86, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %331 = stablehlo.multiply %330, %arg18 : tensor<4xf32>
    %cst_87 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %332 = stablehlo.broadcast_in_dim %cst_87, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %333 = stablehlo.multiply %332, %244 : tensor<4xf32>
    %334 = stablehlo.multiply %333, %244 : tensor<4xf32>
    %335 = stablehlo.add %331, %334 : tensor<4xf32>
    %cst_88 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %336 = stablehlo.broadcast_in_dim %cst_88, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %337 = stablehlo.multiply %336, %arg19 : tensor<4xf32>
    %cst_89 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %338 = stablehlo.broadcast_in_dim %cst_89, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %339 = stablehlo.multiply %338, %178 : tensor<4xf32>
    %340 = stablehlo.multiply %339, %178 : tensor<4xf32>
    %341 = stablehlo.add %337, %340 : tensor<4xf32>
    %cst_90 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %342 = stablehlo.broadcast_in_dim %cst_90, dims = [] : (tensor<f32>) -> tensor<4x4xf32>
    %343 = stablehlo.multiply %342, %arg20 : tensor<4x4xf32>
    %cst_91 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %344 = stablehlo.broadcast_in_dim %cst_91, dims = [] : (tensor<f32>) -> tensor<4x4xf32>
    %345 = stablehlo.multiply %344, %205 : tensor<4x4xf32>
    %346 = stablehlo.multiply %345, %205 : tensor<4x4xf32>
    %347 = stablehlo.add %343, %346 : tensor<4x4xf32>
    %cst_92 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %348 = stablehlo.broadcast_in_dim %cst_92, dims = [] : (tensor<f32>) -> tensor<6x4xf32>
    %349 = stablehlo.multiply %348, %arg21 : tensor<6x4xf32>
    %cst_93 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %350 = stablehlo.broadcast_in_dim %cst_93, dims = [] : (tensor<f32>) -> tensor<6x4xf32>
    %351 = stablehlo.multiply %350, %273 : tensor<6x4xf32>
    %352 = stablehlo.multiply %351, %273 : tensor<6x4xf32>
    %353 = stablehlo.add %349, %352 : tensor<6x4xf32>
    %cst_94 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %354 = stablehlo.broadcast_in_dim %cst_94, dims = [] : (tensor<f32>) -> tensor<4x12xf32>
    %355 = stablehlo.multiply %354, %arg22 : tensor<4x12xf32>
    %cst_95 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %356 = stablehlo.broadcast_in_dim %cst_95, dims = [] : (tensor<f32>) -> tensor<4x12xf32>
    %357 = stablehlo.multiply %356, %237 : tensor<4x12xf32>
    %358 = stablehlo.multiply %357, %237 : tensor<4x12xf32>
    %359 = stablehlo.add %355, %358 : tensor<4x12xf32>
    %cst_96 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %360 = stablehlo.broadcast_in_dim %cst_96, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %361 = stablehlo.multiply %360, %arg23 : tensor<4x8xf32>
    %cst_97 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %362 = stablehlo.broadcast_in_dim %cst_97, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %363 = stablehlo.multiply %362, %171 : tensor<4x8xf32>
    %364 = stablehlo.multiply %363, %171 : tensor<4x8xf32>
    %365 = stablehlo.add %361, %364 : tensor<4x8xf32>
    %cst_98 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %366 = stablehlo.power %cst_98, %277 : tensor<f32>
    %cst_99 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %367 = stablehlo.subtract %cst_99, %366 : tensor<f32>
    %368 = stablehlo.broadcast_in_dim %367, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %369 = stablehlo.divide %282, %368 : tensor<8x4xf32>
    %cst_100 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %370 = stablehlo.power %cst_100, %277 : tensor<f32>
    %cst_101 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %371 = stablehlo.subtract %cst_101, %370 : tensor<f32>
    %372 = stablehlo.broadcast_in_dim %371, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %373 = stablehlo.divide %323, %372 : tensor<8x4xf32>
    %374 = stablehlo.sqrt %373 : tensor<8x4xf32>
    %cst_102 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %375 = stablehlo.broadcast_in_dim %cst_102, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %376 = stablehlo.add %374, %375 : tensor<8x4xf32>
    %377 = stablehlo.divide %369, %376 : tensor<8x4xf32>
    %cst_103 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %378 = stablehlo.broadcast_in_dim %cst_103, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %379 = stablehlo.multiply %378, %arg0 : tensor<8x4xf32>
    %380 = stablehlo.add %377, %379 : tensor<8x4xf32>
    %cst_104 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %381 = stablehlo.broadcast_in_dim %cst_104, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %382 = stablehlo.multiply %381, %380 : tensor<8x4xf32>
    %383 = stablehlo.subtract %arg0, %382 : tensor<8x4xf32>
    %cst_105 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %384 = stablehlo.power %cst_105, %277 : tensor<f32>
    %cst_106 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %385 = stablehlo.subtract %cst_106, %384 : tensor<f32>
    %386 = stablehlo.broadcast_in_dim %385, dims = [] : (tensor<f32>) -> tensor<7x4xf32>
    %387 = stablehlo.divide %287, %386 : tensor<7x4xf32>
    %cst_107 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %388 = stablehlo.power %cst_107, %277 : tensor<f32>
    %cst_108 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %389 = stablehlo.subtract %cst_108, %388 : tensor<f32>
    %390 = stablehlo.broadcast_in_dim %389, dims = [] : (tensor<f32>) -> tensor<7x4xf32>
    %391 = stablehlo.divide %329, %390 : tensor<7x4xf32>
    %392 = stablehlo.sqrt %391 : tensor<7x4xf32>
    %cst_109 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %393 = stablehlo.broadcast_in_dim %cst_109, dims = [] : (tensor<f32>) -> tensor<7x4xf32>
    %394 = stablehlo.add %392, %393 : tensor<7x4xf32>
    %395 = stablehlo.divide %387, %394 : tensor<7x4xf32>
    %cst_110 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %396 = stablehlo.broadcast_in_dim %cst_110, dims = [] : (tensor<f32>) -> tensor<7x4xf32>
    %397 = stablehlo.multiply %396, %arg1 : tensor<7x4xf32>
    %398 = stablehlo.add %395, %397 : tensor<7x4xf32>
    %cst_111 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %399 = stablehlo.broadcast_in_dim %cst_111, dims = [] : (tensor<f32>) -> tensor<7x4xf32>
    %400 = stablehlo.multiply %399, %398 : tensor<7x4xf32>
    %401 = stablehlo.subtract %arg1, %400 : tensor<7x4xf32>
    %cst_112 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %402 = stablehlo.power %cst_112, %277 : tensor<f32>
    %cst_113 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %403 = stablehlo.subtract %cst_113, %402 : tensor<f32>
    %404 = stablehlo.broadcast_in_dim %403, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %405 = stablehlo.divide %292, %404 : tensor<4xf32>
    %cst_114 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %406 = stablehlo.power %cst_114, %277 : tensor<f32>
    %cst_115 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %407 = stablehlo.subtract %cst_115, %406 : tensor<f32>
    %408 = stablehlo.broadcast_in_dim %407, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %409 = stablehlo.divide %335, %408 : tensor<4xf32>
    %410 = stablehlo.sqrt %409 : tensor<4xf32>
    %cst_116 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %411 = stablehlo.broadcast_in_dim %cst_116, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %412 = stablehlo.add %410, %411 : tensor<4xf32>
    %413 = stablehlo.divide %405, %412 : tensor<4xf32>
    %cst_117 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %414 = stablehlo.broadcast_in_dim %cst_117, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %415 = stablehlo.multiply %414, %arg2 : tensor<4xf32>
    %416 = stablehlo.add %413, %415 : tensor<4xf32>
    %cst_118 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %417 = stablehlo.broadcast_in_dim %cst_118, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %418 = stablehlo.multiply %417, %416 : tensor<4xf32>
    %419 = stablehlo.subtract %arg2, %418 : tensor<4xf32>
    %cst_119 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %420 = stablehlo.power %cst_119, %277 : tensor<f32>
    %cst_120 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %421 = stablehlo.subtract %cst_120, %420 : tensor<f32>
    %422 = stablehlo.broadcast_in_dim %421, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %423 = stablehlo.divide %297, %422 : tensor<4xf32>
    %cst_121 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %424 = stablehlo.power %cst_121, %277 : tensor<f32>
    %cst_122 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %425 = stablehlo.subtract %cst_122, %424 : tensor<f32>
    %426 = stablehlo.broadcast_in_dim %425, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %427 = stablehlo.divide %341, %426 : tensor<4xf32>
    %428 = stablehlo.sqrt %427 : tensor<4xf32>
    %cst_123 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %429 = stablehlo.broadcast_in_dim %cst_123, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %430 = stablehlo.add %428, %429 : tensor<4xf32>
    %431 = stablehlo.divide %423, %430 : tensor<4xf32>
    %cst_124 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %432 = stablehlo.broadcast_in_dim %cst_124, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %433 = stablehlo.multiply %432, %arg3 : tensor<4xf32>
    %434 = stablehlo.add %431, %433 : tensor<4xf32>
    %cst_125 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %435 = stablehlo.broadcast_in_dim %cst_125, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %436 = stablehlo.multiply %435, %434 : tensor<4xf32>
    %437 = stablehlo.subtract %arg3, %436 : tensor<4xf32>
    %cst_126 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %438 = stablehlo.power %cst_126, %277 : tensor<f32>
    %cst_127 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %439 = stablehlo.subtract %cst_127, %438 : tensor<f32>
    %440 = stablehlo.broadcast_in_dim %439, dims = [] : (tensor<f32>) -> tensor<4x4xf32>
    %441 = stablehlo.divide %302, %440 : tensor<4x4xf32>
    %cst_128 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %442 = stablehlo.power %cst_128, %277 : tensor<f32>
    %cst_129 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %443 = stablehlo.subtract %cst_129, %442 : tensor<f32>
    %444 = stablehlo.broadcast_in_dim %443, dims = [] : (tensor<f32>) -> tensor<4x4xf32>
    %445 = stablehlo.divide %347, %444 : tensor<4x4xf32>
    %446 = stablehlo.sqrt %445 : tensor<4x4xf32>
    %cst_130 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %447 = stablehlo.broadcast_in_dim %cst_130, dims = [] : (tensor<f32>) -> tensor<4x4xf32>
    %448 = stablehlo.add %446, %447 : tensor<4x4xf32>
    %449 = stablehlo.divide %441, %448 : tensor<4x4xf32>
    %cst_131 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %450 = stablehlo.broadcast_in_dim %cst_131, dims = [] : (tensor<f32>) -> tensor<4x4xf32>
    %451 = stablehlo.multiply %450, %arg4 : tensor<4x4xf32>
    %452 = stablehlo.add %449, %451 : tensor<4x4xf32>
    %cst_132 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %453 = stablehlo.broadcast_in_dim %cst_132, dims = [] : (tensor<f32>) -> tensor<4x4xf32>
    %454 = stablehlo.multiply %453, %452 : tensor<4x4xf32>
    %455 = stablehlo.subtract %arg4, %454 : tensor<4x4xf32>
    %cst_133 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %456 = stablehlo.power %cst_133, %277 : tensor<f32>
    %cst_134 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %457 = stablehlo.subtract %cst_134, %456 : tensor<f32>
    %458 = stablehlo.broadcast_in_dim %457, dims = [] : (tensor<f32>) -> tensor<6x4xf32>
    %459 = stablehlo.divide %307, %458 : tensor<6x4xf32>
    %cst_135 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %460 = stablehlo.power %cst_135, %277 : tensor<f32>
    %cst_136 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %461 = stablehlo.subtract %cst_136, %460 : tensor<f32>
    %462 = stablehlo.broadcast_in_dim %461, dims = [] : (tensor<f32>) -> tensor<6x4xf32>
    %463 = stablehlo.divide %353, %462 : tensor<6x4xf32>
    %464 = stablehlo.sqrt %463 : tensor<6x4xf32>
    %cst_137 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %465 = stablehlo.broadcast_in_dim %cst_137, dims = [] : (tensor<f32>) -> tensor<6x4xf32>
    %466 = stablehlo.add %464, %465 : tensor<6x4xf32>
    %467 = stablehlo.divide %459, %466 : tensor<6x4xf32>
    %cst_138 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %468 = stablehlo.broadcast_in_dim %cst_138, dims = [] : (tensor<f32>) -> tensor<6x4xf32>
    %469 = stablehlo.multiply %468, %arg5 : tensor<6x4xf32>
    %470 = stablehlo.add %467, %469 : tensor<6x4xf32>
    %cst_139 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %471 = stablehlo.broadcast_in_dim %cst_139, dims = [] : (tensor<f32>) -> tensor<6x4xf32>
    %472 = stablehlo.multiply %471, %470 : tensor<6x4xf32>
    %473 = stablehlo.subtract %arg5, %472 : tensor<6x4xf32>
    %cst_140 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %474 = stablehlo.power %cst_140, %277 : tensor<f32>
    %cst_141 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %475 = stablehlo.subtract %cst_141, %474 : tensor<f32>
    %476 = stablehlo.broadcast_in_dim %475, dims = [] : (tensor<f32>) -> tensor<4x12xf32>
    %477 = stablehlo.divide %312, %476 : tensor<4x12xf32>
    %cst_142 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %478 = stablehlo.power %cst_142, %277 : tensor<f32>
    %cst_143 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %479 = stablehlo.subtract %cst_143, %478 : tensor<f32>
    %480 = stablehlo.broadcast_in_dim %479, dims = [] : (tensor<f32>) -> tensor<4x12xf32>
    %481 = stablehlo.divide %359, %480 : tensor<4x12xf32>
    %482 = stablehlo.sqrt %481 : tensor<4x12xf32>
    %cst_144 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %483 = stablehlo.broadcast_in_dim %cst_144, dims = [] : (tensor<f32>) -> tensor<4x12xf32>
    %484 = stablehlo.add %482, %483 : tensor<4x12xf32>
    %485 = stablehlo.divide %477, %484 : tensor<4x12xf32>
    %cst_145 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %486 = stablehlo.broadcast_in_dim %cst_145, dims = [] : (tensor<f32>) -> tensor<4x12xf32>
    %487 = stablehlo.multiply %486, %arg6 : tensor<4x12xf32>
    %488 = stablehlo.add %485, %487 : tensor<4x12xf32>
    %cst_146 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %489 = stablehlo.broadcast_in_dim %cst_146, dims = [] : (tensor<f32>) -> tensor<4x12xf32>
    %490 = stablehlo.multiply %489, %488 : tensor<4x12xf32>
    %491 = stablehlo.subtract %arg6, %490 : tensor<4x12xf32>
    %cst_147 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %492 = stablehlo.power %cst_147, %277 : tensor<f32>
    %cst_148 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %493 = stablehlo.subtract %cst_148, %492 : tensor<f32>
    %494 = stablehlo.broadcast_in_dim %493, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %495 = stablehlo.divide %317, %494 : tensor<4x8xf32>
    %cst_149 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %496 = stablehlo.power %cst_149, %277 : tensor<f32>
    %cst_150 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %497 = stablehlo.subtract %cst_150, %496 : tensor<f32>
    %498 = stablehlo.broadcast_in_dim %497, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %499 = stablehlo.divide %365, %498 : tensor<4x8xf32>
    %500 = stablehlo.sqrt %499 : tensor<4x8xf32>
    %cst_151 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %501 = stablehlo.broadcast_in_dim %cst_151, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %502 = stablehlo.add %500, %501 : tensor<4x8xf32>
    %503 = stablehlo.divide %495, %502 : tensor<4x8xf32>
    %cst_152 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %504 = stablehlo.broadcast_in_dim %cst_152, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %505 = stablehlo.multiply %504, %arg7 : tensor<4x8xf32>
    %506 = stablehlo.add %503, %505 : tensor<4x8xf32>
    %cst_153 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %507 = stablehlo.broadcast_in_dim %cst_153, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %508 = stablehlo.multiply %507, %506 : tensor<4x8xf32>
    %509 = stablehlo.subtract %arg7, %508 : tensor<4x8xf32>
    return %143, %383, %401, %419, %437, %455, %473, %491, %509, %282, %287, %292, %297, %302, %307, %312, %317, %323, %329, %335, %341, %347, %353, %359, %365, %277 : tensor<f32>, tensor<8x4xf32>, tensor<7x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4x4xf32>, tensor<6x4xf32>, tensor<4x12xf32>, tensor<4x8xf32>, tensor<8x4xf32>, tensor<7x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4x4xf32>, tensor<6x4xf32>, tensor<4x12xf32>, tensor<4x8xf32>, tensor<8x4xf32>, tensor<7x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4x4xf32>, tensor<6x4xf32>, tensor<4x12xf32>, tensor<4x8xf32>, tensor<f32>
  }
  func.func private @tril(%arg0: tensor<5x5xi1>) -> tensor<5x5xi1> {
    %0 = stablehlo.iota dim = 0 : tensor<5x5xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<5x5xi32>
    %2 = stablehlo.add %0, %1 : tensor<5x5xi32>
    %3 = stablehlo.iota dim = 1 : tensor<5x5xi32>
    %4 = stablehlo.compare GE, %2, %3, SIGNED : (tensor<5x5xi32>, tensor<5x5xi32>) -> tensor<5x5xi1>
    %c_0 = stablehlo.constant dense<false> : tensor<i1>
    %5 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i1>) -> tensor<5x5xi1>
    %6 = stablehlo.select %4, %arg0, %5 : tensor<5x5xi1>, tensor<5x5xi1>
    return %6 : tensor<5x5xi1>
  }
  func.func private @_where(%arg0: tensor<5x5xi1>, %arg1: tensor<2x2x5x5xf32>, %arg2: tensor<f32>) -> (tensor<2x2x5x5xf32>, tensor<2x2x5x5xi1>, tensor<2x2x5x5xf32>) {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [2, 3] : (tensor<5x5xi1>) -> tensor<2x2x5x5xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<2x2x5x5xf32>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<2x2x5x5xi1>, tensor<2x2x5x5xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x2x5x5xf32>
    return %3, %1, %4 : tensor<2x2x5x5xf32>, tensor<2x2x5x5xi1>, tensor<2x2x5x5xf32>
  }
  func.func private @log_softmax(%arg0: tensor<2x5x7xf32>) -> (tensor<2x5x7xf32>, tensor<2x5x7xf32>, tensor<2x5x1xf32>) {
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.maximum across dimensions = [2] : (tensor<2x5x7xf32>, tensor<f32>) -> tensor<2x5xf32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x5xf32>
    %2 = stablehlo.maximum %1, %0 : tensor<2x5xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<2x5xf32>) -> tensor<2x5x1xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<2x5x1xf32>) -> tensor<2x5x7xf32>
    %5 = stablehlo.subtract %arg0, %4 : tensor<2x5x7xf32>
    %6 = stablehlo.exponential %5 : tensor<2x5x7xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %7 = stablehlo.reduce(%6 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<2x5x7xf32>, tensor<f32>) -> tensor<2x5xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1] : (tensor<2x5xf32>) -> tensor<2x5x1xf32>
    %9 = stablehlo.log %8 : tensor<2x5x1xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2] : (tensor<2x5x1xf32>) -> tensor<2x5x7xf32>
    %11 = stablehlo.subtract %5, %10 : tensor<2x5x7xf32>
    return %11, %6, %8 : tensor<2x5x7xf32>, tensor<2x5x7xf32>, tensor<2x5x1xf32>
  }
  func.func private @take_along_axis(%arg0: tensor<2x5x7xf32>, %arg1: tensor<2x5x1xi32>) -> (tensor<2x5x1xf32>, tensor<2x5x1x1xi32>) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<2x5x1xi32>
    %1 = stablehlo.compare LT, %arg1, %0, SIGNED : (tensor<2x5x1xi32>, tensor<2x5x1xi32>) -> tensor<2x5x1xi1>
    %c_0 = stablehlo.constant dense<7> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<2x5x1xi32>
    %3 = stablehlo.add %arg1, %2 : tensor<2x5x1xi32>
    %4 = stablehlo.select %1, %3, %arg1 : tensor<2x5x1xi1>, tensor<2x5x1xi32>
    %5 = stablehlo.reshape %4 : (tensor<2x5x1xi32>) -> tensor<2x5x1x1xi32>
    %c_1 = stablehlo.constant dense<6> : tensor<1xi32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %6 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<2x5x1x1xi32>
    %7 = stablehlo.compare GE, %5, %6, SIGNED : (tensor<2x5x1x1xi32>, tensor<2x5x1x1xi32>) -> tensor<2x5x1x1xi1>
    %8 = stablehlo.broadcast_in_dim %c_1, dims = [3] : (tensor<1xi32>) -> tensor<1x1x1x1xi32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2, 3] : (tensor<1x1x1x1xi32>) -> tensor<2x5x1x1xi32>
    %10 = stablehlo.compare LE, %5, %9, SIGNED : (tensor<2x5x1x1xi32>, tensor<2x5x1x1xi32>) -> tensor<2x5x1x1xi1>
    %11 = stablehlo.and %7, %10 : tensor<2x5x1x1xi1>
    %c_3 = stablehlo.constant dense<true> : tensor<i1>
    %12 = stablehlo.reduce(%11 init: %c_3) applies stablehlo.and across dimensions = [3] : (tensor<2x5x1x1xi1>, tensor<i1>) -> tensor<2x5x1xi1>
    %13 = "stablehlo.gather"(%arg0, %5) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [2], operand_batching_dims = [0, 1], start_indices_batching_dims = [0, 1], start_index_map = [2], index_vector_dim = 3>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1, 1>}> : (tensor<2x5x7xf32>, tensor<2x5x1x1xi32>) -> tensor<2x5x1xf32>
    %cst = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x5x1xf32>
    %15 = stablehlo.select %12, %13, %14 : tensor<2x5x1xi1>, tensor<2x5x1xf32>
    return %15, %5 : tensor<2x5x1xf32>, tensor<2x5x1x1xi32>
  }
  func.func private @take_along_axis_0(%arg0: tensor<2x5x1x1xi32>, %arg1: tensor<2x5x1xf32>) -> tensor<2x5x7xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x5x7xf32>
    %1 = "stablehlo.scatter"(%0, %arg0, %arg1) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [2], input_batching_dims = [0, 1], scatter_indices_batching_dims = [0, 1], scatter_dims_to_operand_dims = [2], index_vector_dim = 3>, unique_indices = false}> ({
    ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
      %2 = stablehlo.add %arg2, %arg3 : tensor<f32>
      stablehlo.return %2 : tensor<f32>
    }) : (tensor<2x5x7xf32>, tensor<2x5x1x1xi32>, tensor<2x5x1xf32>) -> tensor<2x5x7xf32>
    return %1 : tensor<2x5x7xf32>
  }
  func.func private @log_softmax_1(%arg0: tensor<2x5x7xf32>, %arg1: tensor<2x5x1xf32>, %arg2: tensor<2x5x7xf32>) -> tensor<2x5x7xf32> {
    %0 = stablehlo.negate %arg2 : tensor<2x5x7xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<2x5x7xf32>, tensor<f32>) -> tensor<2x5xf32>
    %2 = stablehlo.reshape %1 : (tensor<2x5xf32>) -> tensor<2x5x1xf32>
    %3 = stablehlo.divide %2, %arg1 : tensor<2x5x1xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %4 = stablehlo.reduce(%3 init: %cst_0) applies stablehlo.add across dimensions = [2] : (tensor<2x5x1xf32>, tensor<f32>) -> tensor<2x5xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<2x5xf32>) -> tensor<2x5x7xf32>
    %6 = stablehlo.multiply %5, %arg0 : tensor<2x5x7xf32>
    %7 = stablehlo.add %arg2, %6 : tensor<2x5x7xf32>
    return %7 : tensor<2x5x7xf32>
  }
  func.func private @_where_2(%arg0: tensor<2x2x5x5xi1>, %arg1: tensor<2x2x5x5xf32>, %arg2: tensor<2x2x5x5xf32>) -> tensor<2x2x5x5xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x2x5x5xf32>
    %1 = stablehlo.select %arg0, %arg2, %0 : tensor<2x2x5x5xi1>, tensor<2x2x5x5xf32>
    return %1 : tensor<2x2x5x5xf32>
  }
}

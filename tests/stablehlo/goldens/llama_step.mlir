module @jit_llama_step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<12x8xf32>, %arg1: tensor<11x8xf32>, %arg2: tensor<8x12xf32>, %arg3: tensor<8x4xf32>, %arg4: tensor<8xf32>, %arg5: tensor<8xf32>, %arg6: tensor<8xf32>, %arg7: tensor<8x8xf32>, %arg8: tensor<8x8xf32>, %arg9: tensor<8x12xf32>, %arg10: tensor<8x4xf32>, %arg11: tensor<12x8xf32>, %arg12: tensor<11x8xf32>, %arg13: tensor<8x12xf32>, %arg14: tensor<8x4xf32>, %arg15: tensor<8xf32>, %arg16: tensor<8xf32>, %arg17: tensor<8xf32>, %arg18: tensor<8x8xf32>, %arg19: tensor<8x8xf32>, %arg20: tensor<8x12xf32>, %arg21: tensor<8x4xf32>, %arg22: tensor<12x8xf32>, %arg23: tensor<11x8xf32>, %arg24: tensor<8x12xf32>, %arg25: tensor<8x4xf32>, %arg26: tensor<8xf32>, %arg27: tensor<8xf32>, %arg28: tensor<8xf32>, %arg29: tensor<8x8xf32>, %arg30: tensor<8x8xf32>, %arg31: tensor<8x12xf32>, %arg32: tensor<8x4xf32>, %arg33: tensor<f32>, %arg34: tensor<2x7xi32>) -> (tensor<f32> {jax.result_info = "result[0]"}, tensor<12x8xf32> {jax.result_info = "result[1]['down']"}, tensor<11x8xf32> {jax.result_info = "result[1]['embed']"}, tensor<8x12xf32> {jax.result_info = "result[1]['gate']"}, tensor<8x4xf32> {jax.result_info = "result[1]['k']"}, tensor<8xf32> {jax.result_info = "result[1]['norm1']"}, tensor<8xf32> {jax.result_info = "result[1]['norm2']"}, tensor<8xf32> {jax.result_info = "result[1]['norm3']"}, tensor<8x8xf32> {jax.result_info = "result[1]['o']"}, tensor<8x8xf32> {jax.result_info = "result[1]['q']"}, tensor<8x12xf32> {jax.result_info = "result[1]['up']"}, tensor<8x4xf32> {jax.result_info = "result[1]['v']"}, tensor<12x8xf32> {jax.result_info = "result[2]['down']"}, tensor<11x8xf32> {jax.result_info = "result[2]['embed']"}, tensor<8x12xf32> {jax.result_info = "result[2]['gate']"}, tensor<8x4xf32> {jax.result_info = "result[2]['k']"}, tensor<8xf32> {jax.result_info = "result[2]['norm1']"}, tensor<8xf32> {jax.result_info = "result[2]['norm2']"}, tensor<8xf32> {jax.result_info = "result[2]['norm3']"}, tensor<8x8xf32> {jax.result_info = "result[2]['o']"}, tensor<8x8xf32> {jax.result_info = "result[2]['q']"}, tensor<8x12xf32> {jax.result_info = "result[2]['up']"}, tensor<8x4xf32> {jax.result_info = "result[2]['v']"}, tensor<12x8xf32> {jax.result_info = "result[3]['down']"}, tensor<11x8xf32> {jax.result_info = "result[3]['embed']"}, tensor<8x12xf32> {jax.result_info = "result[3]['gate']"}, tensor<8x4xf32> {jax.result_info = "result[3]['k']"}, tensor<8xf32> {jax.result_info = "result[3]['norm1']"}, tensor<8xf32> {jax.result_info = "result[3]['norm2']"}, tensor<8xf32> {jax.result_info = "result[3]['norm3']"}, tensor<8x8xf32> {jax.result_info = "result[3]['o']"}, tensor<8x8xf32> {jax.result_info = "result[3]['q']"}, tensor<8x12xf32> {jax.result_info = "result[3]['up']"}, tensor<8x4xf32> {jax.result_info = "result[3]['v']"}, tensor<f32> {jax.result_info = "result[4]"}) {
    %0 = stablehlo.iota dim = 0 : tensor<6xi32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<6xi32>) -> tensor<6x1xi32>
    %2 = stablehlo.iota dim = 0 : tensor<1xi32>
    %3 = stablehlo.negate %2 : tensor<1xi32>
    %4 = stablehlo.convert %3 : (tensor<1xi32>) -> tensor<1xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %6 = stablehlo.divide %4, %5 : tensor<1xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+04> : tensor<f32>
    %7 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %8 = stablehlo.power %7, %6 : tensor<1xf32>
    %9 = stablehlo.convert %1 : (tensor<6x1xi32>) -> tensor<6x1xf32>
    %10 = stablehlo.broadcast_in_dim %8, dims = [1] : (tensor<1xf32>) -> tensor<1x1xf32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<6x1xf32>
    %12 = stablehlo.multiply %9, %11 : tensor<6x1xf32>
    %13 = stablehlo.cosine %12 : tensor<6x1xf32>
    %14 = stablehlo.broadcast_in_dim %13, dims = [0, 2] : (tensor<6x1xf32>) -> tensor<6x1x1xf32>
    %15 = stablehlo.sine %12 : tensor<6x1xf32>
    %16 = stablehlo.broadcast_in_dim %15, dims = [0, 2] : (tensor<6x1xf32>) -> tensor<6x1x1xf32>
    %17 = stablehlo.slice %arg34 [0:2, 0:6] : (tensor<2x7xi32>) -> tensor<2x6xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %18 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<2x6xi32>
    %19 = stablehlo.compare LT, %17, %18, SIGNED : (tensor<2x6xi32>, tensor<2x6xi32>) -> tensor<2x6xi1>
    %c_1 = stablehlo.constant dense<11> : tensor<i32>
    %20 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<i32>) -> tensor<2x6xi32>
    %21 = stablehlo.add %17, %20 : tensor<2x6xi32>
    %22 = stablehlo.select %19, %21, %17 : tensor<2x6xi1>, tensor<2x6xi32>
    %23 = stablehlo.broadcast_in_dim %22, dims = [0, 1] : (tensor<2x6xi32>) -> tensor<2x6x1xi32>
    %24 = "stablehlo.gather"(%arg1, %23) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 8>}> : (tensor<11x8xf32>, tensor<2x6x1xi32>) -> tensor<2x6x8xf32>
    %25 = stablehlo.multiply %24, %24 : tensor<2x6x8xf32>
    %cst_2 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %26 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x6x8xf32>
    %27 = stablehlo.multiply %26, %24 : tensor<2x6x8xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %28 = stablehlo.reduce(%25 init: %cst_3) applies stablehlo.add across dimensions = [2] : (tensor<2x6x8xf32>, tensor<f32>) -> tensor<2x6xf32>
    %29 = stablehlo.broadcast_in_dim %28, dims = [0, 1] : (tensor<2x6xf32>) -> tensor<2x6x1xf32>
    %cst_4 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %30 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<2x6x1xf32>
    %31 = stablehlo.divide %29, %30 : tensor<2x6x1xf32>
    %cst_5 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %32 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<2x6x1xf32>
    %33 = stablehlo.add %31, %32 : tensor<2x6x1xf32>
    %34 = stablehlo.rsqrt %33 : tensor<2x6x1xf32>
    %35 = stablehlo.divide %34, %33 : tensor<2x6x1xf32>
    %cst_6 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %36 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<2x6x1xf32>
    %37 = stablehlo.multiply %36, %35 : tensor<2x6x1xf32>
    %38 = stablehlo.broadcast_in_dim %34, dims = [0, 1, 2] : (tensor<2x6x1xf32>) -> tensor<2x6x8xf32>
    %39 = stablehlo.multiply %24, %38 : tensor<2x6x8xf32>
    %40 = stablehlo.broadcast_in_dim %arg4, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %41 = stablehlo.broadcast_in_dim %40, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<2x6x8xf32>
    %42 = stablehlo.multiply %39, %41 : tensor<2x6x8xf32>
    %43 = stablehlo.dot_general %42, %arg8, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x6x8xf32>, tensor<8x8xf32>) -> tensor<2x6x8xf32>
    %44 = stablehlo.reshape %43 : (tensor<2x6x8xf32>) -> tensor<2x6x4x2xf32>
    %45 = stablehlo.slice %44 [0:2, 0:6, 0:4, 0:1] : (tensor<2x6x4x2xf32>) -> tensor<2x6x4x1xf32>
    %46 = stablehlo.slice %44 [0:2, 0:6, 0:4, 1:2] : (tensor<2x6x4x2xf32>) -> tensor<2x6x4x1xf32>
    %47 = stablehlo.broadcast_in_dim %14, dims = [1, 2, 3] : (tensor<6x1x1xf32>) -> tensor<1x6x1x1xf32>
    %48 = stablehlo.broadcast_in_dim %47, dims = [0, 1, 2, 3] : (tensor<1x6x1x1xf32>) -> tensor<2x6x4x1xf32>
    %49 = stablehlo.multiply %45, %48 : tensor<2x6x4x1xf32>
    %50 = stablehlo.broadcast_in_dim %16, dims = [1, 2, 3] : (tensor<6x1x1xf32>) -> tensor<1x6x1x1xf32>
    %51 = stablehlo.broadcast_in_dim %50, dims = [0, 1, 2, 3] : (tensor<1x6x1x1xf32>) -> tensor<2x6x4x1xf32>
    %52 = stablehlo.multiply %46, %51 : tensor<2x6x4x1xf32>
    %53 = stablehlo.subtract %49, %52 : tensor<2x6x4x1xf32>
    %54 = stablehlo.broadcast_in_dim %16, dims = [1, 2, 3] : (tensor<6x1x1xf32>) -> tensor<1x6x1x1xf32>
    %55 = stablehlo.broadcast_in_dim %54, dims = [0, 1, 2, 3] : (tensor<1x6x1x1xf32>) -> tensor<2x6x4x1xf32>
    %56 = stablehlo.multiply %45, %55 : tensor<2x6x4x1xf32>
    %57 = stablehlo.broadcast_in_dim %14, dims = [1, 2, 3] : (tensor<6x1x1xf32>) -> tensor<1x6x1x1xf32>
    %58 = stablehlo.broadcast_in_dim %57, dims = [0, 1, 2, 3] : (tensor<1x6x1x1xf32>) -> tensor<2x6x4x1xf32>
    %59 = stablehlo.multiply %46, %58 : tensor<2x6x4x1xf32>
    %60 = stablehlo.add %56, %59 : tensor<2x6x4x1xf32>
    %61 = stablehlo.concatenate %53, %60, dim = 3 : (tensor<2x6x4x1xf32>, tensor<2x6x4x1xf32>) -> tensor<2x6x4x2xf32>
    %62 = stablehlo.dot_general %42, %arg3, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x6x8xf32>, tensor<8x4xf32>) -> tensor<2x6x4xf32>
    %63 = stablehlo.reshape %62 : (tensor<2x6x4xf32>) -> tensor<2x6x2x2xf32>
    %64 = stablehlo.slice %63 [0:2, 0:6, 0:2, 0:1] : (tensor<2x6x2x2xf32>) -> tensor<2x6x2x1xf32>
    %65 = stablehlo.slice %63 [0:2, 0:6, 0:2, 1:2] : (tensor<2x6x2x2xf32>) -> tensor<2x6x2x1xf32>
    %66 = stablehlo.broadcast_in_dim %14, dims = [1, 2, 3] : (tensor<6x1x1xf32>) -> tensor<1x6x1x1xf32>
    %67 = stablehlo.broadcast_in_dim %66, dims = [0, 1, 2, 3] : (tensor<1x6x1x1xf32>) -> tensor<2x6x2x1xf32>
    %68 = stablehlo.multiply %64, %67 : tensor<2x6x2x1xf32>
    %69 = stablehlo.broadcast_in_dim %16, dims = [1, 2, 3] : (tensor<6x1x1xf32>) -> tensor<1x6x1x1xf32>
    %70 = stablehlo.broadcast_in_dim %69, dims = [0, 1, 2, 3] : (tensor<1x6x1x1xf32>) -> tensor<2x6x2x1xf32>
    %71 = stablehlo.multiply %65, %70 : tensor<2x6x2x1xf32>
    %72 = stablehlo.subtract %68, %71 : tensor<2x6x2x1xf32>
    %73 = stablehlo.broadcast_in_dim %16, dims = [1, 2, 3] : (tensor<6x1x1xf32>) -> tensor<1x6x1x1xf32>
    %74 = stablehlo.broadcast_in_dim %73, dims = [0, 1, 2, 3] : (tensor<1x6x1x1xf32>) -> tensor<2x6x2x1xf32>
    %75 = stablehlo.multiply %64, %74 : tensor<2x6x2x1xf32>
    %76 = stablehlo.broadcast_in_dim %14, dims = [1, 2, 3] : (tensor<6x1x1xf32>) -> tensor<1x6x1x1xf32>
    %77 = stablehlo.broadcast_in_dim %76, dims = [0, 1, 2, 3] : (tensor<1x6x1x1xf32>) -> tensor<2x6x2x1xf32>
    %78 = stablehlo.multiply %65, %77 : tensor<2x6x2x1xf32>
    %79 = stablehlo.add %75, %78 : tensor<2x6x2x1xf32>
    %80 = stablehlo.concatenate %72, %79, dim = 3 : (tensor<2x6x2x1xf32>, tensor<2x6x2x1xf32>) -> tensor<2x6x2x2xf32>
    %81 = stablehlo.dot_general %42, %arg10, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x6x8xf32>, tensor<8x4xf32>) -> tensor<2x6x4xf32>
    %82 = stablehlo.reshape %81 : (tensor<2x6x4xf32>) -> tensor<2x6x2x2xf32>
    %83 = stablehlo.broadcast_in_dim %80, dims = [0, 1, 2, 4] : (tensor<2x6x2x2xf32>) -> tensor<2x6x2x2x2xf32>
    %84 = stablehlo.reshape %83 : (tensor<2x6x2x2x2xf32>) -> tensor<2x6x4x2xf32>
    %85 = stablehlo.broadcast_in_dim %82, dims = [0, 1, 2, 4] : (tensor<2x6x2x2xf32>) -> tensor<2x6x2x2x2xf32>
    %86 = stablehlo.reshape %85 : (tensor<2x6x2x2x2xf32>) -> tensor<2x6x4x2xf32>
    %87 = stablehlo.dot_general %61, %84, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x6x4x2xf32>, tensor<2x6x4x2xf32>) -> tensor<2x4x6x6xf32>
    %cst_7 = stablehlo.constant dense<1.41421354> : tensor<f32>
    %88 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<2x4x6x6xf32>
    %89 = stablehlo.divide %87, %88 : tensor<2x4x6x6xf32>
    %c_8 = stablehlo.constant dense<true> : tensor<i1>
    %90 = stablehlo.broadcast_in_dim %c_8, dims = [] : (tensor<i1>) -> tensor<6x6xi1>
    %91 = call @tril(%90) : (tensor<6x6xi1>) -> tensor<6x6xi1>
    %cst_9 = stablehlo.constant dense<-1.000000e+30> : tensor<f32>
    %92:3 = call @_where(%91, %89, %cst_9) : (tensor<6x6xi1>, tensor<2x4x6x6xf32>, tensor<f32>) -> (tensor<2x4x6x6xf32>, tensor<2x4x6x6xi1>, tensor<2x4x6x6xf32>)
    %cst_10 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %93 = stablehlo.reduce(%92#0 init: %cst_10) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x6x6xf32>, tensor<f32>) -> tensor<2x4x6xf32>
    %94 = stablehlo.reshape %93 : (tensor<2x4x6xf32>) -> tensor<2x4x6x1xf32>
    %95 = stablehlo.broadcast_in_dim %94, dims = [0, 1, 2, 3] : (tensor<2x4x6x1xf32>) -> tensor<2x4x6x6xf32>
    %96 = stablehlo.compare EQ, %92#0, %95, FLOAT : (tensor<2x4x6x6xf32>, tensor<2x4x6x6xf32>) -> tensor<2x4x6x6xi1>
    %97 = stablehlo.convert %96 : (tensor<2x4x6x6xi1>) -> tensor<2x4x6x6xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %98 = stablehlo.reduce(%97 init: %cst_11) applies stablehlo.add across dimensions = [3] : (tensor<2x4x6x6xf32>, tensor<f32>) -> tensor<2x4x6xf32>
    %cst_12 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %99 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<2x4x6xf32>
    %100 = stablehlo.maximum %99, %93 : tensor<2x4x6xf32>
    %101 = stablehlo.compare EQ, %93, %100, FLOAT : (tensor<2x4x6xf32>, tensor<2x4x6xf32>) -> tensor<2x4x6xi1>
    %cst_13 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %102 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<2x4x6xf32>
    %cst_14 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %103 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<2x4x6xf32>
    %104 = stablehlo.select %101, %102, %103 : tensor<2x4x6xi1>, tensor<2x4x6xf32>
    %cst_15 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %105 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<2x4x6xf32>
    %106 = stablehlo.compare EQ, %105, %100, FLOAT : (tensor<2x4x6xf32>, tensor<2x4x6xf32>) -> tensor<2x4x6xi1>
    %cst_16 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %107 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<2x4x6xf32>
    %cst_17 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %108 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<f32>) -> tensor<2x4x6xf32>
    %109 = stablehlo.select %106, %107, %108 : tensor<2x4x6xi1>, tensor<2x4x6xf32>
    %110 = stablehlo.divide %104, %109 : tensor<2x4x6xf32>
    %111 = stablehlo.broadcast_in_dim %100, dims = [0, 1, 2] : (tensor<2x4x6xf32>) -> tensor<2x4x6x1xf32>
    %112 = stablehlo.broadcast_in_dim %111, dims = [0, 1, 2, 3] : (tensor<2x4x6x1xf32>) -> tensor<2x4x6x6xf32>
    %113 = stablehlo.subtract %92#0, %112 : tensor<2x4x6x6xf32>
    %114 = stablehlo.exponential %113 : tensor<2x4x6x6xf32>
    %cst_18 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %115 = stablehlo.reduce(%114 init: %cst_18) applies stablehlo.add across dimensions = [3] : (tensor<2x4x6x6xf32>, tensor<f32>) -> tensor<2x4x6xf32>
    %116 = stablehlo.broadcast_in_dim %115, dims = [0, 1, 2] : (tensor<2x4x6xf32>) -> tensor<2x4x6x1xf32>
    %117 = stablehlo.broadcast_in_dim %116, dims = [0, 1, 2, 3] : (tensor<2x4x6x1xf32>) -> tensor<2x4x6x6xf32>
    %118 = stablehlo.divide %114, %117 : tensor<2x4x6x6xf32>
    %119 = stablehlo.multiply %116, %116 : tensor<2x4x6x1xf32>
    %cst_19 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %120 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<f32>) -> tensor<2x4x6x1xf32>
    %121 = stablehlo.divide %120, %119 : tensor<2x4x6x1xf32>
    %122 = stablehlo.dot_general %86, %118, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x6x4x2xf32>, tensor<2x4x6x6xf32>) -> tensor<2x4x2x6xf32>
    %123 = stablehlo.transpose %122, dims = [0, 3, 1, 2] : (tensor<2x4x2x6xf32>) -> tensor<2x6x4x2xf32>
    %124 = stablehlo.reshape %123 : (tensor<2x6x4x2xf32>) -> tensor<2x6x8xf32>
    %125 = stablehlo.dot_general %124, %arg7, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x6x8xf32>, tensor<8x8xf32>) -> tensor<2x6x8xf32>
    %126 = stablehlo.add %24, %125 : tensor<2x6x8xf32>
    %127 = stablehlo.multiply %126, %126 : tensor<2x6x8xf32>
    %cst_20 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %128 = stablehlo.broadcast_in_dim %cst_20, dims = [] : (tensor<f32>) -> tensor<2x6x8xf32>
    %129 = stablehlo.multiply %128, %126 : tensor<2x6x8xf32>
    %cst_21 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %130 = stablehlo.reduce(%127 init: %cst_21) applies stablehlo.add across dimensions = [2] : (tensor<2x6x8xf32>, tensor<f32>) -> tensor<2x6xf32>
    %131 = stablehlo.broadcast_in_dim %130, dims = [0, 1] : (tensor<2x6xf32>) -> tensor<2x6x1xf32>
    %cst_22 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %132 = stablehlo.broadcast_in_dim %cst_22, dims = [] : (tensor<f32>) -> tensor<2x6x1xf32>
    %133 = stablehlo.divide %131, %132 : tensor<2x6x1xf32>
    %cst_23 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %134 = stablehlo.broadcast_in_dim %cst_23, dims = [] : (tensor<f32>) -> tensor<2x6x1xf32>
    %135 = stablehlo.add %133, %134 : tensor<2x6x1xf32>
    %136 = stablehlo.rsqrt %135 : tensor<2x6x1xf32>
    %137 = stablehlo.divide %136, %135 : tensor<2x6x1xf32>
    %cst_24 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %138 = stablehlo.broadcast_in_dim %cst_24, dims = [] : (tensor<f32>) -> tensor<2x6x1xf32>
    %139 = stablehlo.multiply %138, %137 : tensor<2x6x1xf32>
    %140 = stablehlo.broadcast_in_dim %136, dims = [0, 1, 2] : (tensor<2x6x1xf32>) -> tensor<2x6x8xf32>
    %141 = stablehlo.multiply %126, %140 : tensor<2x6x8xf32>
    %142 = stablehlo.broadcast_in_dim %arg5, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %143 = stablehlo.broadcast_in_dim %142, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<2x6x8xf32>
    %144 = stablehlo.multiply %141, %143 : tensor<2x6x8xf32>
    %145 = stablehlo.dot_general %144, %arg2, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x6x8xf32>, tensor<8x12xf32>) -> tensor<2x6x12xf32>
    %146:3 = call @silu(%145) : (tensor<2x6x12xf32>) -> (tensor<2x6x12xf32>, tensor<2x6x12xf32>, tensor<2x6x12xf32>)
    %147 = stablehlo.dot_general %144, %arg9, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x6x8xf32>, tensor<8x12xf32>) -> tensor<2x6x12xf32>
    %148 = stablehlo.multiply %146#0, %147 : tensor<2x6x12xf32>
    %149 = stablehlo.dot_general %148, %arg0, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x6x12xf32>, tensor<12x8xf32>) -> tensor<2x6x8xf32>
    %150 = stablehlo.add %126, %149 : tensor<2x6x8xf32>
    %151 = stablehlo.multiply %150, %150 : tensor<2x6x8xf32>
    %cst_25 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %152 = stablehlo.broadcast_in_dim %cst_25, dims = [] : (tensor<f32>) -> tensor<2x6x8xf32>
    %153 = stablehlo.multiply %152, %150 : tensor<2x6x8xf32>
    %cst_26 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %154 = stablehlo.reduce(%151 init: %cst_26) applies stablehlo.add across dimensions = [2] : (tensor<2x6x8xf32>, tensor<f32>) -> tensor<2x6xf32>
    %155 = stablehlo.broadcast_in_dim %154, dims = [0, 1] : (tensor<2x6xf32>) -> tensor<2x6x1xf32>
    %cst_27 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %156 = stablehlo.broadcast_in_dim %cst_27, dims = [] : (tensor<f32>) -> tensor<2x6x1xf32>
    %157 = stablehlo.divide %155, %156 : tensor<2x6x1xf32>
    %cst_28 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %158 = stablehlo.broadcast_in_dim %cst_28, dims = [] : (tensor<f32>) -> tensor<2x6x1xf32>
    %159 = stablehlo.add %157, %158 : tensor<2x6x1xf32>
    %160 = stablehlo.rsqrt %159 : tensor<2x6x1xf32>
    %161 = stablehlo.divide %160, %159 : tensor<2x6x1xf32>
    %cst_29 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %162 = stablehlo.broadcast_in_dim %cst_29, dims = [] : (tensor<f32>) -> tensor<2x6x1xf32>
    %163 = stablehlo.multiply %162, %161 : tensor<2x6x1xf32>
    %164 = stablehlo.broadcast_in_dim %160, dims = [0, 1, 2] : (tensor<2x6x1xf32>) -> tensor<2x6x8xf32>
    %165 = stablehlo.multiply %150, %164 : tensor<2x6x8xf32>
    %166 = stablehlo.broadcast_in_dim %arg6, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %167 = stablehlo.broadcast_in_dim %166, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<2x6x8xf32>
    %168 = stablehlo.multiply %165, %167 : tensor<2x6x8xf32>
    %169 = stablehlo.transpose %arg1, dims = [1, 0] : (tensor<11x8xf32>) -> tensor<8x11xf32>
    %170 = stablehlo.dot_general %168, %169, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x6x8xf32>, tensor<8x11xf32>) -> tensor<2x6x11xf32>
    %171:3 = call @log_softmax(%170) : (tensor<2x6x11xf32>) -> (tensor<2x6x11xf32>, tensor<2x6x11xf32>, tensor<2x6x1xf32>)
    %172 = stablehlo.slice %arg34 [0:2, 1:7] : (tensor<2x7xi32>) -> tensor<2x6xi32>
    %173 = stablehlo.broadcast_in_dim %172, dims = [0, 1] : (tensor<2x6xi32>) -> tensor<2x6x1xi32>
    %174:2 = call @take_along_axis(%171#0, %173) : (tensor<2x6x11xf32>, tensor<2x6x1xi32>) -> (tensor<2x6x1xf32>, tensor<2x6x1x1xi32>)
    %cst_30 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %175 = stablehlo.reduce(%174#0 init: %cst_30) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x6x1xf32>, tensor<f32>) -> tensor<f32>
    %cst_31 = stablehlo.constant dense<1.200000e+01> : tensor<f32>
    %176 = stablehlo.divide %175, %cst_31 : tensor<f32>
    %177 = stablehlo.negate %176 : tensor<f32>
    %cst_32 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %178 = stablehlo.negate %cst_32 : tensor<f32>
    %cst_33 = stablehlo.constant dense<1.200000e+01> : tensor<f32>
    %179 = stablehlo.divide %178, %cst_33 : tensor<f32>
    %180 = stablehlo.broadcast_in_dim %179, dims = [] : (tensor<f32>) -> tensor<2x6x1xf32>
    %181 = call @take_along_axis_0(%174#1, %180) : (tensor<2x6x1x1xi32>, tensor<2x6x1xf32>) -> tensor<2x6x11xf32>
    %182 = call @log_softmax_1(%171#1, %171#2, %181) : (tensor<2x6x11xf32>, tensor<2x6x1xf32>, tensor<2x6x11xf32>) -> tensor<2x6x11xf32>
    %183 = stablehlo.dot_general %182, %168, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x6x11xf32>, tensor<2x6x8xf32>) -> tensor<11x8xf32>
    %184 = stablehlo.transpose %183, dims = [1, 0] : (tensor<11x8xf32>) -> tensor<8x11xf32>
    %185 = stablehlo.dot_general %182, %169, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x6x11xf32>, tensor<8x11xf32>) -> tensor<2x6x8xf32>
    %186 = stablehlo.transpose %184, dims = [1, 0] : (tensor<8x11xf32>) -> tensor<11x8xf32>
    %187 = stablehlo.multiply %165, %185 : tensor<2x6x8xf32>
    %cst_34 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %188 = stablehlo.reduce(%187 init: %cst_34) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x6x8xf32>, tensor<f32>) -> tensor<8xf32>
    %189 = stablehlo.reshape %188 : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %190 = stablehlo.broadcast_in_dim %166, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<2x6x8xf32>
    %191 = stablehlo.multiply %185, %190 : tensor<2x6x8xf32>
    %cst_35 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %192 = stablehlo.reduce(%189 init: %cst_35) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x8xf32>, tensor<f32>) -> tensor<8xf32>
    %193 = stablehlo.multiply %150, %191 : tensor<2x6x8xf32>
    %cst_36 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %194 = stablehlo.reduce(%193 init: %cst_36) applies stablehlo.add across dimensions = [2] : (tensor<2x6x8xf32>, tensor<f32>) -> tensor<2x6xf32>
    %195 = stablehlo.reshape %194 : (tensor<2x6xf32>) -> tensor<2x6x1xf32>
    %196 = stablehlo.broadcast_in_dim %160, dims = [0, 1, 2] : (tensor<2x6x1xf32>) -> tensor<2x6x8xf32>
    %197 = stablehlo.multiply %191, %196 : tensor<2x6x8xf32>
    %198 = stablehlo.multiply %195, %163 : tensor<2x6x1xf32>
    %cst_37 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %199 = stablehlo.broadcast_in_dim %cst_37, dims = [] : (tensor<f32>) -> tensor<2x6x1xf32>
    %200 = stablehlo.divide %198, %199 : tensor<2x6x1xf32>
    %cst_38 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %201 = stablehlo.reduce(%200 init: %cst_38) applies stablehlo.add across dimensions = [2] : (tensor<2x6x1xf32>, tensor<f32>) -> tensor<2x6xf32>
    %202 = stablehlo.broadcast_in_dim %201, dims = [0, 1] : (tensor<2x6xf32>) -> tensor<2x6x8xf32>
    %203 = stablehlo.multiply %202, %153 : tensor<2x6x8xf32>
    %204 = stablehlo.add %197, %203 : tensor<2x6x8xf32>
    %205 = stablehlo.dot_general %204, %148, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x6x8xf32>, tensor<2x6x12xf32>) -> tensor<8x12xf32>
    %206 = stablehlo.transpose %205, dims = [1, 0] : (tensor<8x12xf32>) -> tensor<12x8xf32>
    %207 = stablehlo.dot_general %204, %arg0, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x6x8xf32>, tensor<12x8xf32>) -> tensor<2x6x12xf32>
    %208 = stablehlo.multiply %146#0, %207 : tensor<2x6x12xf32>
    %209 = stablehlo.multiply %207, %147 : tensor<2x6x12xf32>
    %210 = stablehlo.dot_general %208, %144, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x6x12xf32>, tensor<2x6x8xf32>) -> tensor<12x8xf32>
    %211 = stablehlo.transpose %210, dims = [1, 0] : (tensor<12x8xf32>) -> tensor<8x12xf32>
    %212 = stablehlo.dot_general %208, %arg9, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x6x12xf32>, tensor<8x12xf32>) -> tensor<2x6x8xf32>
    %213 = call @silu_2(%146#1, %146#2, %145, %209) : (tensor<2x6x12xf32>, tensor<2x6x12xf32>, tensor<2x6x12xf32>, tensor<2x6x12xf32>) -> tensor<2x6x12xf32>
    %214 = stablehlo.dot_general %213, %144, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x6x12xf32>, tensor<2x6x8xf32>) -> tensor<12x8xf32>
    %215 = stablehlo.transpose %214, dims = [1, 0] : (tensor<12x8xf32>) -> tensor<8x12xf32>
    %216 = stablehlo.dot_general %213, %arg2, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x6x12xf32>, tensor<8x12xf32>) -> tensor<2x6x8xf32>
    %217 = stablehlo.add %212, %216 : tensor<2x6x8xf32>
    %218 = stablehlo.multiply %141, %217 : tensor<2x6x8xf32>
    %cst_39 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %219 = stablehlo.reduce(%218 init: %cst_39) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x6x8xf32>, tensor<f32>) -> tensor<8xf32>
    %220 = stablehlo.reshape %219 : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %221 = stablehlo.broadcast_in_dim %142, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<2x6x8xf32>
    %222 = stablehlo.multiply %217, %221 : tensor<2x6x8xf32>
    %cst_40 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %223 = stablehlo.reduce(%220 init: %cst_40) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x8xf32>, tensor<f32>) -> tensor<8xf32>
    %224 = stablehlo.multiply %126, %222 : tensor<2x6x8xf32>
    %cst_41 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %225 = stablehlo.reduce(%224 init: %cst_41) applies stablehlo.add across dimensions = [2] : (tensor<2x6x8xf32>, tensor<f32>) -> tensor<2x6xf32>
    %226 = stablehlo.reshape %225 : (tensor<2x6xf32>) -> tensor<2x6x1xf32>
    %227 = stablehlo.broadcast_in_dim %136, dims = [0, 1, 2] : (tensor<2x6x1xf32>) -> tensor<2x6x8xf32>
    %228 = stablehlo.multiply %222, %227 : tensor<2x6x8xf32>
    %229 = stablehlo.add %204, %228 : tensor<2x6x8xf32>
    %230 = stablehlo.multiply %226, %139 : tensor<2x6x1xf32>
    %cst_42 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %231 = stablehlo.broadcast_in_dim %cst_42, dims = [] : (tensor<f32>) -> tensor<2x6x1xf32>
    %232 = stablehlo.divide %230, %231 : tensor<2x6x1xf32>
    %cst_43 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %233 = stablehlo.reduce(%232 init: %cst_43) applies stablehlo.add across dimensions = [2] : (tensor<2x6x1xf32>, tensor<f32>) -> tensor<2x6xf32>
    %234 = stablehlo.broadcast_in_dim %233, dims = [0, 1] : (tensor<2x6xf32>) -> tensor<2x6x8xf32>
    %235 = stablehlo.multiply %234, %129 : tensor<2x6x8xf32>
    %236 = stablehlo.add %229, %235 : tensor<2x6x8xf32>
    %237 = stablehlo.dot_general %236, %124, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x6x8xf32>, tensor<2x6x8xf32>) -> tensor<8x8xf32>
    %238 = stablehlo.transpose %237, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %239 = stablehlo.dot_general %236, %arg7, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x6x8xf32>, tensor<8x8xf32>) -> tensor<2x6x8xf32>
    %240 = stablehlo.reshape %239 : (tensor<2x6x8xf32>) -> tensor<2x6x4x2xf32>
    %241 = stablehlo.transpose %240, dims = [0, 2, 3, 1] : (tensor<2x6x4x2xf32>) -> tensor<2x4x2x6xf32>
    %242 = stablehlo.dot_general %241, %86, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x4x2x6xf32>, tensor<2x6x4x2xf32>) -> tensor<2x4x6x6xf32>
    %243 = stablehlo.dot_general %241, %118, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<2x4x2x6xf32>, tensor<2x4x6x6xf32>) -> tensor<2x4x2x6xf32>
    %244 = stablehlo.transpose %243, dims = [0, 3, 1, 2] : (tensor<2x4x2x6xf32>) -> tensor<2x6x4x2xf32>
    %245 = stablehlo.broadcast_in_dim %121, dims = [0, 1, 2, 3] : (tensor<2x4x6x1xf32>) -> tensor<2x4x6x6xf32>
    %246 = stablehlo.multiply %242, %245 : tensor<2x4x6x6xf32>
    %247 = stablehlo.multiply %246, %114 : tensor<2x4x6x6xf32>
    %cst_44 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %248 = stablehlo.reduce(%247 init: %cst_44) applies stablehlo.add across dimensions = [3] : (tensor<2x4x6x6xf32>, tensor<f32>) -> tensor<2x4x6xf32>
    %249 = stablehlo.reshape %248 : (tensor<2x4x6xf32>) -> tensor<2x4x6x1xf32>
    %250 = stablehlo.negate %249 : tensor<2x4x6x1xf32>
    %251 = stablehlo.broadcast_in_dim %116, dims = [0, 1, 2, 3] : (tensor<2x4x6x1xf32>) -> tensor<2x4x6x6xf32>
    %252 = stablehlo.divide %242, %251 : tensor<2x4x6x6xf32>
    %cst_45 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %253 = stablehlo.reduce(%250 init: %cst_45) applies stablehlo.add across dimensions = [3] : (tensor<2x4x6x1xf32>, tensor<f32>) -> tensor<2x4x6xf32>
    %254 = stablehlo.broadcast_in_dim %253, dims = [0, 1, 2] : (tensor<2x4x6xf32>) -> tensor<2x4x6x6xf32>
    %255 = stablehlo.add %252, %254 : tensor<2x4x6x6xf32>
    %256 = stablehlo.multiply %255, %114 : tensor<2x4x6x6xf32>
    %257 = call @_where_3(%92#1, %92#2, %256) : (tensor<2x4x6x6xi1>, tensor<2x4x6x6xf32>, tensor<2x4x6x6xf32>) -> tensor<2x4x6x6xf32>
    %cst_46 = stablehlo.constant dense<1.41421354> : tensor<f32>
    %258 = stablehlo.broadcast_in_dim %cst_46, dims = [] : (tensor<f32>) -> tensor<2x4x6x6xf32>
    %259 = stablehlo.divide %257, %258 : tensor<2x4x6x6xf32>
    %260 = stablehlo.dot_general %259, %61, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x4x6x6xf32>, tensor<2x6x4x2xf32>) -> tensor<2x4x6x2xf32>
    %261 = stablehlo.transpose %260, dims = [0, 2, 1, 3] : (tensor<2x4x6x2xf32>) -> tensor<2x6x4x2xf32>
    %262 = stablehlo.dot_general %259, %84, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x4x6x6xf32>, tensor<2x6x4x2xf32>) -> tensor<2x4x6x2xf32>
    %263 = stablehlo.transpose %262, dims = [0, 2, 1, 3] : (tensor<2x4x6x2xf32>) -> tensor<2x6x4x2xf32>
    %264 = stablehlo.reshape %244 : (tensor<2x6x4x2xf32>) -> tensor<2x6x2x2x2xf32>
    %cst_47 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %265 = stablehlo.reduce(%264 init: %cst_47) applies stablehlo.add across dimensions = [3] : (tensor<2x6x2x2x2xf32>, tensor<f32>) -> tensor<2x6x2x2xf32>
    %266 = stablehlo.reshape %261 : (tensor<2x6x4x2xf32>) -> tensor<2x6x2x2x2xf32>
    %cst_48 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %267 = stablehlo.reduce(%266 init: %cst_48) applies stablehlo.add across dimensions = [3] : (tensor<2x6x2x2x2xf32>, tensor<f32>) -> tensor<2x6x2x2xf32>
    %268 = stablehlo.reshape %265 : (tensor<2x6x2x2xf32>) -> tensor<2x6x4xf32>
    %269 = stablehlo.dot_general %268, %42, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x6x4xf32>, tensor<2x6x8xf32>) -> tensor<4x8xf32>
    %270 = stablehlo.transpose %269, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %271 = stablehlo.dot_general %268, %arg10, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x6x4xf32>, tensor<8x4xf32>) -> tensor<2x6x8xf32>
    %272 = stablehlo.slice %267 [0:2, 0:6, 0:2, 0:1] : (tensor<2x6x2x2xf32>) -> tensor<2x6x2x1xf32>
    %273 = stablehlo.slice %267 [0:2, 0:6, 0:2, 1:2] : (tensor<2x6x2x2xf32>) -> tensor<2x6x2x1xf32>
    %274 = stablehlo.broadcast_in_dim %76, dims = [0, 1, 2, 3] : (tensor<1x6x1x1xf32>) -> tensor<2x6x2x1xf32>
    %275 = stablehlo.multiply %273, %274 : tensor<2x6x2x1xf32>
    %276 = stablehlo.broadcast_in_dim %73, dims = [0, 1, 2, 3] : (tensor<1x6x1x1xf32>) -> tensor<2x6x2x1xf32>
    %277 = stablehlo.multiply %273, %276 : tensor<2x6x2x1xf32>
    %278 = stablehlo.negate %272 : tensor<2x6x2x1xf32>
    %279 = stablehlo.broadcast_in_dim %69, dims = [0, 1, 2, 3] : (tensor<1x6x1x1xf32>) -> tensor<2x6x2x1xf32>
    %280 = stablehlo.multiply %278, %279 : tensor<2x6x2x1xf32>
    %281 = stablehlo.add %275, %280 : tensor<2x6x2x1xf32>
    %282 = stablehlo.broadcast_in_dim %66, dims = [0, 1, 2, 3] : (tensor<1x6x1x1xf32>) -> tensor<2x6x2x1xf32>
    %283 = stablehlo.multiply %272, %282 : tensor<2x6x2x1xf32>
    %284 = stablehlo.add %277, %283 : tensor<2x6x2x1xf32>
    %285 = stablehlo.concatenate %284, %281, dim = 3 : (tensor<2x6x2x1xf32>, tensor<2x6x2x1xf32>) -> tensor<2x6x2x2xf32>
    %286 = stablehlo.reshape %285 : (tensor<2x6x2x2xf32>) -> tensor<2x6x4xf32>
    %287 = stablehlo.dot_general %286, %42, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x6x4xf32>, tensor<2x6x8xf32>) -> tensor<4x8xf32>
    %288 = stablehlo.transpose %287, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %289 = stablehlo.dot_general %286, %arg3, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x6x4xf32>, tensor<8x4xf32>) -> tensor<2x6x8xf32>
    %290 = stablehlo.add %271, %289 : tensor<2x6x8xf32>
    %291 = stablehlo.slice %263 [0:2, 0:6, 0:4, 0:1] : (tensor<2x6x4x2xf32>) -> tensor<2x6x4x1xf32>
    %292 = stablehlo.slice %263 [0:2, 0:6, 0:4, 1:2] : (tensor<2x6x4x2xf32>) -> tensor<2x6x4x1xf32>
    %293 = stablehlo.broadcast_in_dim %57, dims = [0, 1, 2, 3] : (tensor<1x6x1x1xf32>) -> tensor<2x6x4x1xf32>
    %294 = stablehlo.multiply %292, %293 : tensor<2x6x4x1xf32>
    %295 = stablehlo.broadcast_in_dim %54, dims = [0, 1, 2, 3] : (tensor<1x6x1x1xf32>) -> tensor<2x6x4x1xf32>
    %296 = stablehlo.multiply %292, %295 : tensor<2x6x4x1xf32>
    %297 = stablehlo.negate %291 : tensor<2x6x4x1xf32>
    %298 = stablehlo.broadcast_in_dim %50, dims = [0, 1, 2, 3] : (tensor<1x6x1x1xf32>) -> tensor<2x6x4x1xf32>
    %299 = stablehlo.multiply %297, %298 : tensor<2x6x4x1xf32>
    %300 = stablehlo.add %294, %299 : tensor<2x6x4x1xf32>
    %301 = stablehlo.broadcast_in_dim %47, dims = [0, 1, 2, 3] : (tensor<1x6x1x1xf32>) -> tensor<2x6x4x1xf32>
    %302 = stablehlo.multiply %291, %301 : tensor<2x6x4x1xf32>
    %303 = stablehlo.add %296, %302 : tensor<2x6x4x1xf32>
    %304 = stablehlo.concatenate %303, %300, dim = 3 : (tensor<2x6x4x1xf32>, tensor<2x6x4x1xf32>) -> tensor<2x6x4x2xf32>
    %305 = stablehlo.reshape %304 : (tensor<2x6x4x2xf32>) -> tensor<2x6x8xf32>
    %306 = stablehlo.dot_general %305, %42, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x6x8xf32>, tensor<2x6x8xf32>) -> tensor<8x8xf32>
    %307 = stablehlo.transpose %306, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %308 = stablehlo.dot_general %305, %arg8, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x6x8xf32>, tensor<8x8xf32>) -> tensor<2x6x8xf32>
    %309 = stablehlo.add %290, %308 : tensor<2x6x8xf32>
    %310 = stablehlo.multiply %39, %309 : tensor<2x6x8xf32>
    %cst_49 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %311 = stablehlo.reduce(%310 init: %cst_49) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x6x8xf32>, tensor<f32>) -> tensor<8xf32>
    %312 = stablehlo.reshape %311 : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %313 = stablehlo.broadcast_in_dim %40, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<2x6x8xf32>
    %314 = stablehlo.multiply %309, %313 : tensor<2x6x8xf32>
    %cst_50 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %315 = stablehlo.reduce(%312 init: %cst_50) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x8xf32>, tensor<f32>) -> tensor<8xf32>
    %316 = stablehlo.multiply %24, %314 : tensor<2x6x8xf32>
    %cst_51 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %317 = stablehlo.reduce(%316 init: %cst_51) applies stablehlo.add across dimensions = [2] : (tensor<2x6x8xf32>, tensor<f32>) -> tensor<2x6xf32>
    %318 = stablehlo.reshape %317 : (tensor<2x6xf32>) -> tensor<2x6x1xf32>
    %319 = stablehlo.broadcast_in_dim %34, dims = [0, 1, 2] : (tensor<2x6x1xf32>) -> tensor<2x6x8xf32>
    %320 = stablehlo.multiply %314, %319 : tensor<2x6x8xf32>
    %321 = stablehlo.add %236, %320 : tensor<2x6x8xf32>
    %322 = stablehlo.multiply %318, %37 : tensor<2x6x1xf32>
    %cst_52 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %323 = stablehlo.broadcast_in_dim %cst_52, dims = [] : (tensor<f32>) -> tensor<2x6x1xf32>
    %324 = stablehlo.divide %322, %323 : tensor<2x6x1xf32>
    %cst_53 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %325 = stablehlo.reduce(%324 init: %cst_53) applies stablehlo.add across dimensions = [2] : (tensor<2x6x1xf32>, tensor<f32>) -> tensor<2x6xf32>
    %326 = stablehlo.broadcast_in_dim %325, dims = [0, 1] : (tensor<2x6xf32>) -> tensor<2x6x8xf32>
    %327 = stablehlo.multiply %326, %27 : tensor<2x6x8xf32>
    %328 = stablehlo.add %321, %327 : tensor<2x6x8xf32>
    %cst_54 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %329 = stablehlo.broadcast_in_dim %cst_54, dims = [] : (tensor<f32>) -> tensor<11x8xf32>
    %330 = "stablehlo.scatter"(%329, %23, %328) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 2>, unique_indices = false}> ({
    ^bb0(%arg35: tensor<f32>, %arg36: tensor<f32>):
      %652 = stablehlo.add %arg35, %arg36 : tensor<f32>
      stablehlo.return %652 : tensor<f32>
    }) : (tensor<11x8xf32>, tensor<2x6x1xi32>, tensor<2x6x8xf32>) -> tensor<11x8xf32>
    %331 = stablehlo.add %186, %330 : tensor<11x8xf32>
    %cst_55 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %332 = stablehlo.add %arg33, %cst_55 : tensor<f32>
    %cst_56 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %333 = stablehlo.broadcast_in_dim %cst_56, dims = [] : (tensor<f32>) -> tensor<12x8xf32>
    %334 = stablehlo.multiply %333, %arg11 : tensor<12x8xf32>
    %cst_57 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %335 = stablehlo.broadcast_in_dim %cst_57, dims = [] : (tensor<f32>) -> tensor<12x8xf32>
    %336 = stablehlo.multiply %335, %206 : tensor<12x8xf32>
    %337 = stablehlo.add %334, %336 : tensor<12x8xf32>
    %cst_58 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %338 = stablehlo.broadcast_in_dim %cst_58, dims = [] : (tensor<f32>) -> tensor<11x8xf32>
    %339 = stablehlo.multiply %338, %arg12 : tensor<11x8xf32>
    %cst_59 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %340 = stablehlo.broadcast_in_dim %cst_59, dims = [] : (tensor<f32>) -> tensor<11x8xf32>
    %341 = stablehlo.multiply %340, %331 : tensor<11x8xf32>
    %342 = stablehlo.add %339, %341 : tensor<11x8xf32>
    %cst_60 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %343 = stablehlo.broadcast_in_dim %cst_60, dims = [] : (tensor<f32>) -> tensor<8x12xf32>
    %344 = stablehlo.multiply %343, %arg13 : tensor<8x12xf32>
    %cst_61 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %345 = stablehlo.broadcast_in_dim %cst_61, dims = [] : (tensor<f32>) -> tensor<8x12xf32>
    %346 = stablehlo.multiply %345, %215 : tensor<8x12xf32>
    %347 = stablehlo.add %344, %346 : tensor<8x12xf32>
    %cst_62 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %348 = stablehlo.broadcast_in_dim %cst_62, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %349 = stablehlo.multiply %348, %arg14 : tensor<8x4xf32>
    %cst_63 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %350 = stablehlo.broadcast_in_dim %cst_63, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %351 = stablehlo.multiply %350, %288 : tensor<8x4xf32>
    %352 = stablehlo.add %349, %351 : tensor<8x4xf32>
    %cst_64 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %353 = stablehlo.broadcast_in_dim %cst_64, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %354 = stablehlo.multiply %353, %arg15 : tensor<8xf32>
    %cst_65 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %355 = stablehlo.broadcast_in_dim %cst_65, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %356 = stablehlo.multiply %355, %315 : tensor<8xf32>
    %357 = stablehlo.add %354, %356 : tensor<8xf32>
    %cst_66 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %358 = stablehlo.broadcast_in_dim %cst_66, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %359 = stablehlo.multiply %358, %arg16 : tensor<8xf32>
    %cst_67 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %360 = stablehlo.broadcast_in_dim %cst_67, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %361 = stablehlo.multiply %360, %223 : tensor<8xf32>
    %362 = stablehlo.add %359, %361 : tensor<8xf32>
    %cst_68 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %363 = stablehlo.broadcast_in_dim %cst_68, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %364 = stablehlo.multiply %363, %arg17 : tensor<8xf32>
    %cst_69 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %365 = stablehlo.broadcast_in_dim %cst_69, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %366 = stablehlo.multiply %365, %192 : tensor<8xf32>
    %367 = stablehlo.add %364, %366 : tensor<8xf32>
    %cst_70 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %368 = stablehlo.broadcast_in_dim %cst_70, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
    %369 = stablehlo.multiply %368, %arg18 : tensor<8x8xf32>
    %cst_71 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %370 = stablehlo.broadcast_in_dim %cst_71, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
    %371 = stablehlo.multiply %370, %238 : tensor<8x8xf32>
    %372 = stablehlo.add %369, %371 : tensor<8x8xf32>
    %cst_72 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %373 = stablehlo.broadcast_in_dim %cst_72, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
    %374 = stablehlo.multiply %373, %arg19 : tensor<8x8xf32>
    %cst_73 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %375 = stablehlo.broadcast_in_dim %cst_73, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
    %376 = stablehlo.multiply %375, %307 : tensor<8x8xf32>
    %377 = stablehlo.add %374, %376 : tensor<8x8xf32>
    %cst_74 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %378 = stablehlo.broadcast_in_dim %cst_74, dims = [] : (tensor<f32>) -> tensor<8x12xf32>
    %379 = stablehlo.multiply %378, %arg20 : tensor<8x12xf32>
    %cst_75 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %380 = stablehlo.broadcast_in_dim %cst_75, dims = [] : (tensor<f32>) -> tensor<8x12xf32>
    %381 = stablehlo.multiply %380, %211 : tensor<8x12xf32>
    %382 = stablehlo.add %379, %381 : tensor<8x12xf32>
    %cst_76 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %383 = stablehlo.broadcast_in_dim %cst_76, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %384 = stablehlo.multiply %383, %arg21 : tensor<8x4xf32>
    %cst_77 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %385 = stablehlo.broadcast_in_dim %cst_77, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %386 = stablehlo.multiply %385, %270 : tensor<8x4xf32>
    %387 = stablehlo.add %384, %386 : tensor<8x4xf32>
    %cst_78 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %388 = stablehlo.broadcast_in_dim %cst_78, dims = [] : (tensor<f32>) -> tensor<12x8xf32>
    %389 = stablehlo.multiply %388, %arg22 : tensor<12x8xf32>
    %cst_79 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %390 = stablehlo.broadcast_in_dim %cst_79, dims = [] : (tensor<f32>) -> tensor<12x8xf32>
    %391 = stablehlo.multiply %390, %206 : tensor<12x8xf32>
    %392 = stablehlo.multiply %391, %206 : tensor<12x8xf32>
    %393 = stablehlo.add %389, %392 : tensor<12x8xf32>
    %cst_80 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %394 = stablehlo.broadcast_in_dim %cst_80, dims = [] : (tensor<f32>) -> tensor<11x8xf32>
    %395 = stablehlo.multiply %394, %arg23 : tensor<11x8xf32>
    %cst_81 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %396 = stablehlo.broadcast_in_dim %cst_81, dims = [] : (tensor<f32>) -> tensor<11x8xf32>
    %397 = stablehlo.multiply %396, %331 : tensor<11x8xf32>
    %398 = stablehlo.multiply %397, %331 : tensor<11x8xf32>
    %399 = stablehlo.add %395, %398 : tensor<11x8xf32>
    %cst_82 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %400 = stablehlo.broadcast_in_dim %cst_82, dims = [] : (tensor<f32>) -> tensor<8x12xf32>
    %401 = stablehlo.multiply %400, %arg24 : tensor<8x12xf32>
    %cst_83 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %402 = stablehlo.broadcast_in_dim %cst_83, dims = [] : (tensor<f32>) -> tensor<8x12xf32>
    %403 = stablehlo.multiply %402, %215 : tensor<8x12xf32>
    %404 = stablehlo.multiply %403, %215 : tensor<8x12xf32>
    %405 = stablehlo.add %401, %404 : tensor<8x12xf32>
    %cst_84 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %406 = stablehlo.broadcast_in_dim %cst_84, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %407 = stablehlo.multiply %406, %arg25 : tensor<8x4xf32>
    %cst_85 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %408 = stablehlo.broadcast_in_dim %cst_85, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %409 = stablehlo.multiply %408, %288 : tensor<8x4xf32>
    %410 = stablehlo.multiply %409, %288 : tensor<8x4xf32>
    %411 = stablehlo.add %407, %410 : tensor<8x4xf32>
    %cst_86 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %412 = stablehlo.broadcast_in_dim %cst_86, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %413 = stablehlo.multiply %412, %arg26 : tensor<8xf32>
    %cst_87 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %414 = stablehlo.broadcast_in_dim %cst_87, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %415 = stablehlo.multiply %414, %315 : tensor<8xf32>
    %416 = stablehlo.multiply %415, %315 : tensor<8xf32>
    %417 = stablehlo.add %413, %416 : tensor<8xf32>
    %cst_88 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %418 = stablehlo.broadcast_in_dim %cst_88, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %419 = stablehlo.multiply %418, %arg27 : tensor<8xf32>
    %cst_89 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %420 = stablehlo.broadcast_in_dim %cst_89, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %421 = stablehlo.multiply %420, %223 : tensor<8xf32>
    %422 = stablehlo.multiply %421, %223 : tensor<8xf32>
    %423 = stablehlo.add %419, %422 : tensor<8xf32>
    %cst_90 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %424 = stablehlo.broadcast_in_dim %cst_90, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %425 = stablehlo.multiply %424, %arg28 : tensor<8xf32>
    %cst_91 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %426 = stablehlo.broadcast_in_dim %cst_91, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %427 = stablehlo.multiply %426, %192 : tensor<8xf32>
    %428 = stablehlo.multiply %427, %192 : tensor<8xf32>
    %429 = stablehlo.add %425, %428 : tensor<8xf32>
    %cst_92 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %430 = stablehlo.broadcast_in_dim %cst_92, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
    %431 = stablehlo.multiply %430, %arg29 : tensor<8x8xf32>
    %cst_93 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %432 = stablehlo.broadcast_in_dim %cst_93, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
    %433 = stablehlo.multiply %432, %238 : tensor<8x8xf32>
    %434 = stablehlo.multiply %433, %238 : tensor<8x8xf32>
    %435 = stablehlo.add %431, %434 : tensor<8x8xf32>
    %cst_94 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %436 = stablehlo.broadcast_in_dim %cst_94, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
    %437 = stablehlo.multiply %436, %arg30 : tensor<8x8xf32>
    %cst_95 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %438 = stablehlo.broadcast_in_dim %cst_95, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
    %439 = stablehlo.multiply %438, %307 : tensor<8x8xf32>
    %440 = stablehlo.multiply %439, %307 : tensor<8x8xf32>
    %441 = stablehlo.add %437, %440 : tensor<8x8xf32>
    %cst_96 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %442 = stablehlo.broadcast_in_dim %cst_96, dims = [] : (tensor<f32>) -> tensor<8x12xf32>
    %443 = stablehlo.multiply %442, %arg31 : tensor<8x12xf32>
    %cst_97 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %444 = stablehlo.broadcast_in_dim %cst_97, dims = [] : (tensor<f32>) -> tensor<8x12xf32>
    %445 = stablehlo.multiply %444, %211 : tensor<8x12xf32>
    %446 = stablehlo.multiply %445, %211 : tensor<8x12xf32>
    %447 = stablehlo.add %443, %446 : tensor<8x12xf32>
    %cst_98 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %448 = stablehlo.broadcast_in_dim %cst_98, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %449 = stablehlo.multiply %448, %arg32 : tensor<8x4xf32>
    %cst_99 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %450 = stablehlo.broadcast_in_dim %cst_99, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %451 = stablehlo.multiply %450, %270 : tensor<8x4xf32>
    %452 = stablehlo.multiply %451, %270 : tensor<8x4xf32>
    %453 = stablehlo.add %449, %452 : tensor<8x4xf32>
    %cst_100 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %454 = stablehlo.power %cst_100, %332 : tensor<f32>
    %cst_101 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %455 = stablehlo.subtract %cst_101, %454 : tensor<f32>
    %456 = stablehlo.broadcast_in_dim %455, dims = [] : (tensor<f32>) -> tensor<12x8xf32>
    %457 = stablehlo.divide %337, %456 : tensor<12x8xf32>
    %cst_102 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %458 = stablehlo.power %cst_102, %332 : tensor<f32>
    %cst_103 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %459 = stablehlo.subtract %cst_103, %458 : tensor<f32>
    %460 = stablehlo.broadcast_in_dim %459, dims = [] : (tensor<f32>) -> tensor<12x8xf32>
    %461 = stablehlo.divide %393, %460 : tensor<12x8xf32>
    %462 = stablehlo.sqrt %461 : tensor<12x8xf32>
    %cst_104 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %463 = stablehlo.broadcast_in_dim %cst_104, dims = [] : (tensor<f32>) -> tensor<12x8xf32>
    %464 = stablehlo.add %462, %463 : tensor<12x8xf32>
    %465 = stablehlo.divide %457, %464 : tensor<12x8xf32>
    %cst_105 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %466 = stablehlo.broadcast_in_dim %cst_105, dims = [] : (tensor<f32>) -> tensor<12x8xf32>
    %467 = stablehlo.multiply %466, %arg0 : tensor<12x8xf32>
    %468 = stablehlo.add %465, %467 : tensor<12x8xf32>
    %cst_106 = stablehlo.constant dense<2.000000e-02> : tensor<f32>
    %469 = stablehlo.broadcast_in_dim %cst_106, dims = [] : (tensor<f32>) -> tensor<12x8xf32>
    %470 = stablehlo.multiply %469, %468 : tensor<12x8xf32>
    %471 = stablehlo.subtract %arg0, %470 : tensor<12x8xf32>
    %cst_107 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %472 = stablehlo.power %cst_107, %332 : tensor<f32>
    %cst_108 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %473 = stablehlo.subtract %cst_108, %472 : tensor<f32>
    %474 = stablehlo.broadcast_in_dim %473, dims = [] : (tensor<f32>) -> tensor<11x8xf32>
    %475 = stablehlo.divide %342, %474 : tensor<11x8xf32>
    %cst_109 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %476 = stablehlo.power %cst_109, %332 : tensor<f32>
    %cst_110 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %477 = stablehlo.subtract %cst_110, %476 : tensor<f32>
    %478 = stablehlo.broadcast_in_dim %477, dims = [] : (tensor<f32>) -> tensor<11x8xf32>
    %479 = stablehlo.divide %399, %478 : tensor<11x8xf32>
    %480 = stablehlo.sqrt %479 : tensor<11x8xf32>
    %cst_111 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %481 = stablehlo.broadcast_in_dim %cst_111, dims = [] : (tensor<f32>) -> tensor<11x8xf32>
    %482 = stablehlo.add %480, %481 : tensor<11x8xf32>
    %483 = stablehlo.divide %475, %482 : tensor<11x8xf32>
    %cst_112 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %484 = stablehlo.broadcast_in_dim %cst_112, dims = [] : (tensor<f32>) -> tensor<11x8xf32>
    %485 = stablehlo.multiply %484, %arg1 : tensor<11x8xf32>
    %486 = stablehlo.add %483, %485 : tensor<11x8xf32>
    %cst_113 = stablehlo.constant dense<2.000000e-02> : tensor<f32>
    %487 = stablehlo.broadcast_in_dim %cst_113, dims = [] : (tensor<f32>) -> tensor<11x8xf32>
    %488 = stablehlo.multiply %487, %486 : tensor<11x8xf32>
    %489 = stablehlo.subtract %arg1, %488 : tensor<11x8xf32>
    %cst_114 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %490 = stablehlo.power %cst_114, %332 : tensor<f32>
    %cst_115 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %491 = stablehlo.subtract %cst_115, %490 : tensor<f32>
    %492 = stablehlo.broadcast_in_dim %491, dims = [] : (tensor<f32>) -> tensor<8x12xf32>
    %493 = stablehlo.divide %347, %492 : tensor<8x12xf32>
    %cst_116 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %494 = stablehlo.power %cst_116, %332 : tensor<f32>
    %cst_117 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %495 = stablehlo.subtract %cst_117, %494 : tensor<f32>
    %496 = stablehlo.broadcast_in_dim %495, dims = [] : (tensor<f32>) -> tensor<8x12xf32>
    %497 = stablehlo.divide %405, %496 : tensor<8x12xf32>
    %498 = stablehlo.sqrt %497 : tensor<8x12xf32>
    %cst_118 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %499 = stablehlo.broadcast_in_dim %cst_118, dims = [] : (tensor<f32>) -> tensor<8x12xf32>
    %500 = stablehlo.add %498, %499 : tensor<8x12xf32>
    %501 = stablehlo.divide %493, %500 : tensor<8x12xf32>
    %cst_119 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %502 = stablehlo.broadcast_in_dim %cst_119, dims = [] : (tensor<f32>) -> tensor<8x12xf32>
    %503 = stablehlo.multiply %502, %arg2 : tensor<8x12xf32>
    %504 = stablehlo.add %501, %503 : tensor<8x12xf32>
    %cst_120 = stablehlo.constant dense<2.000000e-02> : tensor<f32>
    %505 = stablehlo.broadcast_in_dim %cst_120, dims = [] : (tensor<f32>) -> tensor<8x12xf32>
    %506 = stablehlo.multiply %505, %504 : tensor<8x12xf32>
    %507 = stablehlo.subtract %arg2, %506 : tensor<8x12xf32>
    %cst_121 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %508 = stablehlo.power %cst_121, %332 : tensor<f32>
    %cst_122 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %509 = stablehlo.subtract %cst_122, %508 : tensor<f32>
    %510 = stablehlo.broadcast_in_dim %509, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %511 = stablehlo.divide %352, %510 : tensor<8x4xf32>
    %cst_123 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %512 = stablehlo.power %cst_123, %332 : tensor<f32>
    %cst_124 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %513 = stablehlo.subtract %cst_124, %512 : tensor<f32>
    %514 = stablehlo.broadcast_in_dim %513, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %515 = stablehlo.divide %411, %514 : tensor<8x4xf32>
    %516 = stablehlo.sqrt %515 : tensor<8x4xf32>
    %cst_125 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %517 = stablehlo.broadcast_in_dim %cst_125, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %518 = stablehlo.add %516, %517 : tensor<8x4xf32>
    %519 = stablehlo.divide %511, %518 : tensor<8x4xf32>
    %cst_126 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %520 = stablehlo.broadcast_in_dim %cst_126, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %521 = stablehlo.multiply %520, %arg3 : tensor<8x4xf32>
    %522 = stablehlo.add %519, %521 : tensor<8x4xf32>
    %cst_127 = stablehlo.constant dense<2.000000e-02> : tensor<f32>
    %523 = stablehlo.broadcast_in_dim %cst_127, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %524 = stablehlo.multiply %523, %522 : tensor<8x4xf32>
    %525 = stablehlo.subtract %arg3, %524 : tensor<8x4xf32>
    %cst_128 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %526 = stablehlo.power %cst_128, %332 : tensor<f32>
    %cst_129 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %527 = stablehlo.subtract %cst_129, %526 : tensor<f32>
    %528 = stablehlo.broadcast_in_dim %527, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %529 = stablehlo.divide %357, %528 : tensor<8xf32>
    %cst_130 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %530 = stablehlo.power %cst_130, %332 : tensor<f32>
    %cst_131 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %531 = stablehlo.subtract %cst_131, %530 : tensor<f32>
    %532 = stablehlo.broadcast_in_dim %531, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %533 = stablehlo.divide %417, %532 : tensor<8xf32>
    %534 = stablehlo.sqrt %533 : tensor<8xf32>
    %cst_132 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %535 = stablehlo.broadcast_in_dim %cst_132, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %536 = stablehlo.add %534, %535 : tensor<8xf32>
    %537 = stablehlo.divide %529, %536 : tensor<8xf32>
    %cst_133 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %538 = stablehlo.broadcast_in_dim %cst_133, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %539 = stablehlo.multiply %538, %arg4 : tensor<8xf32>
    %540 = stablehlo.add %537, %539 : tensor<8xf32>
    %cst_134 = stablehlo.constant dense<2.000000e-02> : tensor<f32>
    %541 = stablehlo.broadcast_in_dim %cst_134, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %542 = stablehlo.multiply %541, %540 : tensor<8xf32>
    %543 = stablehlo.subtract %arg4, %542 : tensor<8xf32>
    %cst_135 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %544 = stablehlo.power %cst_135, %332 : tensor<f32>
    %cst_136 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %545 = stablehlo.subtract %cst_136, %544 : tensor<f32>
    %546 = stablehlo.broadcast_in_dim %545, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %547 = stablehlo.divide %362, %546 : tensor<8xf32>
    %cst_137 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %548 = stablehlo.power %cst_137, %332 : tensor<f32>
    %cst_138 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %549 = stablehlo.subtract %cst_138, %548 : tensor<f32>
    %550 = stablehlo.broadcast_in_dim %549, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %551 = stablehlo.divide %423, %550 : tensor<8xf32>
    %552 = stablehlo.sqrt %551 : tensor<8xf32>
    %cst_139 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %553 = stablehlo.broadcast_in_dim %cst_139, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %554 = stablehlo.add %552, %553 : tensor<8xf32>
    %555 = stablehlo.divide %547, %554 : tensor<8xf32>
    %cst_140 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %556 = stablehlo.broadcast_in_dim %cst_140, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %557 = stablehlo.multiply %556, %arg5 : tensor<8xf32>
    %558 = stablehlo.add %555, %557 : tensor<8xf32>
    %cst_141 = stablehlo.constant dense<2.000000e-02> : tensor<f32>
    %559 = stablehlo.broadcast_in_dim %cst_141, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %560 = stablehlo.multiply %559, %558 : tensor<8xf32>
    %561 = stablehlo.subtract %arg5, %560 : tensor<8xf32>
    %cst_142 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %562 = stablehlo.power %cst_142, %332 : tensor<f32>
    %cst_143 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %563 = stablehlo.subtract %cst_143, %562 : tensor<f32>
    %564 = stablehlo.broadcast_in_dim %563, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %565 = stablehlo.divide %367, %564 : tensor<8xf32>
    %cst_144 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %566 = stablehlo.power %cst_144, %332 : tensor<f32>
    %cst_145 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %567 = stablehlo.subtract %cst_145, %566 : tensor<f32>
    %568 = stablehlo.broadcast_in_dim %567, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %569 = stablehlo.divide %429, %568 : tensor<8xf32>
    %570 = stablehlo.sqrt %569 : tensor<8xf32>
    %cst_146 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %571 = stablehlo.broadcast_in_dim %cst_146, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %572 = stablehlo.add %570, %571 : tensor<8xf32>
    %573 = stablehlo.divide %565, %572 : tensor<8xf32>
    %cst_147 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %574 = stablehlo.broadcast_in_dim %cst_147, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %575 = stablehlo.multiply %574, %arg6 : tensor<8xf32>
    %576 = stablehlo.add %573, %575 : tensor<8xf32>
    %cst_148 = stablehlo.constant dense<2.000000e-02> : tensor<f32>
    %577 = stablehlo.broadcast_in_dim %cst_148, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %578 = stablehlo.multiply %577, %576 : tensor<8xf32>
    %579 = stablehlo.subtract %arg6, %578 : tensor<8xf32>
    %cst_149 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %580 = stablehlo.power %cst_149, %332 : tensor<f32>
    %cst_150 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %581 = stablehlo.subtract %cst_150, %580 : tensor<f32>
    %582 = stablehlo.broadcast_in_dim %581, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
    %583 = stablehlo.divide %372, %582 : tensor<8x8xf32>
    %cst_151 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %584 = stablehlo.power %cst_151, %332 : tensor<f32>
    %cst_152 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %585 = stablehlo.subtract %cst_152, %584 : tensor<f32>
    %586 = stablehlo.broadcast_in_dim %585, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
    %587 = stablehlo.divide %435, %586 : tensor<8x8xf32>
    %588 = stablehlo.sqrt %587 : tensor<8x8xf32>
    %cst_153 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %589 = stablehlo.broadcast_in_dim %cst_153, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
    %590 = stablehlo.add %588, %589 : tensor<8x8xf32>
    %591 = stablehlo.divide %583, %590 : tensor<8x8xf32>
    %cst_154 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %592 = stablehlo.broadcast_in_dim %cst_154, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
    %593 = stablehlo.multiply %592, %arg7 : tensor<8x8xf32>
    %594 = stablehlo.add %591, %593 : tensor<8x8xf32>
    %cst_155 = stablehlo.constant dense<2.000000e-02> : tensor<f32>
    %595 = stablehlo.broadcast_in_dim %cst_155, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
    %596 = stablehlo.multiply %595, %594 : tensor<8x8xf32>
    %597 = stablehlo.subtract %arg7, %596 : tensor<8x8xf32>
    %cst_156 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %598 = stablehlo.power %cst_156, %332 : tensor<f32>
    %cst_157 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %599 = stablehlo.subtract %cst_157, %598 : tensor<f32>
    %600 = stablehlo.broadcast_in_dim %599, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
    %601 = stablehlo.divide %377, %600 : tensor<8x8xf32>
    %cst_158 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %602 = stablehlo.power %cst_158, %332 : tensor<f32>
    %cst_159 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %603 = stablehlo.subtract %cst_159, %602 : tensor<f32>
    %604 = stablehlo.broadcast_in_dim %603, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
    %605 = stablehlo.divide %441, %604 : tensor<8x8xf32>
    %606 = stablehlo.sqrt %605 : tensor<8x8xf32>
    %cst_160 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %607 = stablehlo.broadcast_in_dim %cst_160, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
    %608 = stablehlo.add %606, %607 : tensor<8x8xf32>
    %609 = stablehlo.divide %601, %608 : tensor<8x8xf32>
    %cst_161 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %610 = stablehlo.broadcast_in_dim %cst_161, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
    %611 = stablehlo.multiply %610, %arg8 : tensor<8x8xf32>
    %612 = stablehlo.add %609, %611 : tensor<8x8xf32>
    %cst_162 = stablehlo.constant dense<2.000000e-02> : tensor<f32>
    %613 = stablehlo.broadcast_in_dim %cst_162, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
    %614 = stablehlo.multiply %613, %612 : tensor<8x8xf32>
    %615 = stablehlo.subtract %arg8, %614 : tensor<8x8xf32>
    %cst_163 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %616 = stablehlo.power %cst_163, %332 : tensor<f32>
    %cst_164 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %617 = stablehlo.subtract %cst_164, %616 : tensor<f32>
    %618 = stablehlo.broadcast_in_dim %617, dims = [] : (tensor<f32>) -> tensor<8x12xf32>
    %619 = stablehlo.divide %382, %618 : tensor<8x12xf32>
    %cst_165 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %620 = stablehlo.power %cst_165, %332 : tensor<f32>
    %cst_166 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %621 = stablehlo.subtract %cst_166, %620 : tensor<f32>
    %622 = stablehlo.broadcast_in_dim %621, dims = [] : (tensor<f32>) -> tensor<8x12xf32>
    %623 = stablehlo.divide %447, %622 : tensor<8x12xf32>
    %624 = stablehlo.sqrt %623 : tensor<8x12xf32>
    %cst_167 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %625 = stablehlo.broadcast_in_dim %cst_167, dims = [] : (tensor<f32>) -> tensor<8x12xf32>
    %626 = stablehlo.add %624, %625 : tensor<8x12xf32>
    %627 = stablehlo.divide %619, %626 : tensor<8x12xf32>
    %cst_168 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %628 = stablehlo.broadcast_in_dim %cst_168, dims = [] : (tensor<f32>) -> tensor<8x12xf32>
    %629 = stablehlo.multiply %628, %arg9 : tensor<8x12xf32>
    %630 = stablehlo.add %627, %629 : tensor<8x12xf32>
    %cst_169 = stablehlo.constant dense<2.000000e-02> : tensor<f32>
    %631 = stablehlo.broadcast_in_dim %cst_169, dims = [] : (tensor<f32>) -> tensor<8x12xf32>
    %632 = stablehlo.multiply %631, %630 : tensor<8x12xf32>
    %633 = stablehlo.subtract %arg9, %632 : tensor<8x12xf32>
    %cst_170 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %634 = stablehlo.power %cst_170, %332 : tensor<f32>
    %cst_171 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %635 = stablehlo.subtract %cst_171, %634 : tensor<f32>
    %636 = stablehlo.broadcast_in_dim %635, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %637 = stablehlo.divide %387, %636 : tensor<8x4xf32>
    %cst_172 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %638 = stablehlo.power %cst_172, %332 : tensor<f32>
    %cst_173 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %639 = stablehlo.subtract %cst_173, %638 : tensor<f32>
    %640 = stablehlo.broadcast_in_dim %639, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %641 = stablehlo.divide %453, %640 : tensor<8x4xf32>
    %642 = stablehlo.sqrt %641 : tensor<8x4xf32>
    %cst_174 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %643 = stablehlo.broadcast_in_dim %cst_174, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %644 = stablehlo.add %642, %643 : tensor<8x4xf32>
    %645 = stablehlo.divide %637, %644 : tensor<8x4xf32>
    %cst_175 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %646 = stablehlo.broadcast_in_dim %cst_175, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %647 = stablehlo.multiply %646, %arg10 : tensor<8x4xf32>
    %648 = stablehlo.add %645, %647 : tensor<8x4xf32>
    %cst_176 = stablehlo.constant dense<2.000000e-02> : tensor<f32>
    %649 = stablehlo.broadcast_in_dim %cst_176, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %650 = stablehlo.multiply %649, %648 : tensor<8x4xf32>
    %651 = stablehlo.subtract %arg10, %650 : tensor<8x4xf32>
    return %177, %471, %489, %507, %525, %543, %561, %579, %597, %615, %633, %651, %337, %342, %347, %352, %357, %362, %367, %372, %377, %382, %387, %393, %399, %405, %411, %417, %423, %429, %435, %441, %447, %453, %332 : tensor<f32>, tensor<12x8xf32>, tensor<11x8xf32>, tensor<8x12xf32>, tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x12xf32>, tensor<8x4xf32>, tensor<12x8xf32>, tensor<11x8xf32>, tensor<8x12xf32>, tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x12xf32>, tensor<8x4xf32>, tensor<12x8xf32>, tensor<11x8xf32>, tensor<8x12xf32>, tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x12xf32>, tensor<8x4xf32>, tensor<f32>
  }
  func.func private @tril(%arg0: tensor<6x6xi1>) -> tensor<6x6xi1> {
    %0 = stablehlo.iota dim = 0 : tensor<6x6xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<6x6xi32>
    %2 = stablehlo.add %0, %1 : tensor<6x6xi32>
    %3 = stablehlo.iota dim = 1 : tensor<6x6xi32>
    %4 = stablehlo.compare GE, %2, %3, SIGNED : (tensor<6x6xi32>, tensor<6x6xi32>) -> tensor<6x6xi1>
    %c_0 = stablehlo.constant dense<false> : tensor<i1>
    %5 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i1>) -> tensor<6x6xi1>
    %6 = stablehlo.select %4, %arg0, %5 : tensor<6x6xi1>, tensor<6x6xi1>
    return %6 : tensor<6x6xi1>
  }
  func.func private @_where(%arg0: tensor<6x6xi1>, %arg1: tensor<2x4x6x6xf32>, %arg2: tensor<f32>) -> (tensor<2x4x6x6xf32>, tensor<2x4x6x6xi1>, tensor<2x4x6x6xf32>) {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [2, 3] : (tensor<6x6xi1>) -> tensor<2x4x6x6xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<2x4x6x6xf32>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<2x4x6x6xi1>, tensor<2x4x6x6xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x4x6x6xf32>
    return %3, %1, %4 : tensor<2x4x6x6xf32>, tensor<2x4x6x6xi1>, tensor<2x4x6x6xf32>
  }
  func.func private @silu(%arg0: tensor<2x6x12xf32>) -> (tensor<2x6x12xf32>, tensor<2x6x12xf32>, tensor<2x6x12xf32>) {
    %0 = stablehlo.negate %arg0 : tensor<2x6x12xf32>
    %1 = stablehlo.exponential %0 : tensor<2x6x12xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x6x12xf32>
    %3 = stablehlo.add %2, %1 : tensor<2x6x12xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x6x12xf32>
    %5 = stablehlo.divide %4, %3 : tensor<2x6x12xf32>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %6 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x6x12xf32>
    %7 = stablehlo.subtract %6, %5 : tensor<2x6x12xf32>
    %8 = stablehlo.multiply %5, %7 : tensor<2x6x12xf32>
    %9 = stablehlo.multiply %arg0, %5 : tensor<2x6x12xf32>
    return %9, %8, %5 : tensor<2x6x12xf32>, tensor<2x6x12xf32>, tensor<2x6x12xf32>
  }
  func.func private @log_softmax(%arg0: tensor<2x6x11xf32>) -> (tensor<2x6x11xf32>, tensor<2x6x11xf32>, tensor<2x6x1xf32>) {
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.maximum across dimensions = [2] : (tensor<2x6x11xf32>, tensor<f32>) -> tensor<2x6xf32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x6xf32>
    %2 = stablehlo.maximum %1, %0 : tensor<2x6xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<2x6xf32>) -> tensor<2x6x1xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<2x6x1xf32>) -> tensor<2x6x11xf32>
    %5 = stablehlo.subtract %arg0, %4 : tensor<2x6x11xf32>
    %6 = stablehlo.exponential %5 : tensor<2x6x11xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %7 = stablehlo.reduce(%6 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<2x6x11xf32>, tensor<f32>) -> tensor<2x6xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1] : (tensor<2x6xf32>) -> tensor<2x6x1xf32>
    %9 = stablehlo.log %8 : tensor<2x6x1xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2] : (tensor<2x6x1xf32>) -> tensor<2x6x11xf32>
    %11 = stablehlo.subtract %5, %10 : tensor<2x6x11xf32>
    return %11, %6, %8 : tensor<2x6x11xf32>, tensor<2x6x11xf32>, tensor<2x6x1xf32>
  }
  func.func private @take_along_axis(%arg0: tensor<2x6x11xf32>, %arg1: tensor<2x6x1xi32>) -> (tensor<2x6x1xf32>, tensor<2x6x1x1xi32>) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<2x6x1xi32>
    %1 = stablehlo.compare LT, %arg1, %0, SIGNED : (tensor<2x6x1xi32>, tensor<2x6x1xi32>) -> tensor<2x6x1xi1>
    %c_0 = stablehlo.constant dense<11> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<2x6x1xi32>
    %3 = stablehlo.add %arg1, %2 : tensor<2x6x1xi32>
    %4 = stablehlo.select %1, %3, %arg1 : tensor<2x6x1xi1>, tensor<2x6x1xi32>
    %5 = stablehlo.reshape %4 : (tensor<2x6x1xi32>) -> tensor<2x6x1x1xi32>
    %c_1 = stablehlo.constant dense<10> : tensor<1xi32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %6 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<2x6x1x1xi32>
    %7 = stablehlo.compare GE, %5, %6, SIGNED : (tensor<2x6x1x1xi32>, tensor<2x6x1x1xi32>) -> tensor<2x6x1x1xi1>
    %8 = stablehlo.broadcast_in_dim %c_1, dims = [3] : (tensor<1xi32>) -> tensor<1x1x1x1xi32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2, 3] : (tensor<1x1x1x1xi32>) -> tensor<2x6x1x1xi32>
    %10 = stablehlo.compare LE, %5, %9, SIGNED : (tensor<2x6x1x1xi32>, tensor<2x6x1x1xi32>) -> tensor<2x6x1x1xi1>
    %11 = stablehlo.and %7, %10 : tensor<2x6x1x1xi1>
    %c_3 = stablehlo.constant dense<true> : tensor<i1>
    %12 = stablehlo.reduce(%11 init: %c_3) applies stablehlo.and across dimensions = [3] : (tensor<2x6x1x1xi1>, tensor<i1>) -> tensor<2x6x1xi1>
    %13 = "stablehlo.gather"(%arg0, %5) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [2], operand_batching_dims = [0, 1], start_indices_batching_dims = [0, 1], start_index_map = [2], index_vector_dim = 3>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1, 1>}> : (tensor<2x6x11xf32>, tensor<2x6x1x1xi32>) -> tensor<2x6x1xf32>
    %cst = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x6x1xf32>
    %15 = stablehlo.select %12, %13, %14 : tensor<2x6x1xi1>, tensor<2x6x1xf32>
    return %15, %5 : tensor<2x6x1xf32>, tensor<2x6x1x1xi32>
  }
  func.func private @take_along_axis_0(%arg0: tensor<2x6x1x1xi32>, %arg1: tensor<2x6x1xf32>) -> tensor<2x6x11xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x6x11xf32>
    %1 = "stablehlo.scatter"(%0, %arg0, %arg1) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [2], input_batching_dims = [0, 1], scatter_indices_batching_dims = [0, 1], scatter_dims_to_operand_dims = [2], index_vector_dim = 3>, unique_indices = false}> ({
    ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
      %2 = stablehlo.add %arg2, %arg3 : tensor<f32>
      stablehlo.return %2 : tensor<f32>
    }) : (tensor<2x6x11xf32>, tensor<2x6x1x1xi32>, tensor<2x6x1xf32>) -> tensor<2x6x11xf32>
    return %1 : tensor<2x6x11xf32>
  }
  func.func private @log_softmax_1(%arg0: tensor<2x6x11xf32>, %arg1: tensor<2x6x1xf32>, %arg2: tensor<2x6x11xf32>) -> tensor<2x6x11xf32> {
    %0 = stablehlo.negate %arg2 : tensor<2x6x11xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<2x6x11xf32>, tensor<f32>) -> tensor<2x6xf32>
    %2 = stablehlo.reshape %1 : (tensor<2x6xf32>) -> tensor<2x6x1xf32>
    %3 = stablehlo.divide %2, %arg1 : tensor<2x6x1xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %4 = stablehlo.reduce(%3 init: %cst_0) applies stablehlo.add across dimensions = [2] : (tensor<2x6x1xf32>, tensor<f32>) -> tensor<2x6xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<2x6xf32>) -> tensor<2x6x11xf32>
    %6 = stablehlo.multiply %5, %arg0 : tensor<2x6x11xf32>
    %7 = stablehlo.add %arg2, %6 : tensor<2x6x11xf32>
    return %7 : tensor<2x6x11xf32>
  }
  func.func private @silu_2(%arg0: tensor<2x6x12xf32>, %arg1: tensor<2x6x12xf32>, %arg2: tensor<2x6x12xf32>, %arg3: tensor<2x6x12xf32>) -> tensor<2x6x12xf32> {
    %0 = stablehlo.multiply %arg2, %arg3 : tensor<2x6x12xf32>
    %1 = stablehlo.multiply %arg3, %arg1 : tensor<2x6x12xf32>
    %2 = stablehlo.multiply %0, %arg0 : tensor<2x6x12xf32>
    %3 = stablehlo.add %1, %2 : tensor<2x6x12xf32>
    return %3 : tensor<2x6x12xf32>
  }
  func.func private @_where_3(%arg0: tensor<2x4x6x6xi1>, %arg1: tensor<2x4x6x6xf32>, %arg2: tensor<2x4x6x6xf32>) -> tensor<2x4x6x6xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x4x6x6xf32>
    %1 = stablehlo.select %arg0, %arg2, %0 : tensor<2x4x6x6xi1>, tensor<2x4x6x6xf32>
    return %1 : tensor<2x4x6x6xf32>
  }
}

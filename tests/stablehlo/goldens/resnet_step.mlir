module @jit_resnet_step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x4x3x3xf32>, %arg1: tensor<6x4x3x3xf32>, %arg2: tensor<6x3xf32>, %arg3: tensor<4xf32>, %arg4: tensor<4xf32>, %arg5: tensor<6xf32>, %arg6: tensor<6xf32>, %arg7: tensor<4x4x3x3xf32>, %arg8: tensor<6x6x3x3xf32>, %arg9: tensor<6x4x1x1xf32>, %arg10: tensor<4x2x3x3xf32>, %arg11: tensor<4xf32>, %arg12: tensor<4xf32>, %arg13: tensor<4xf32>, %arg14: tensor<4xf32>, %arg15: tensor<4xf32>, %arg16: tensor<4xf32>, %arg17: tensor<6xf32>, %arg18: tensor<6xf32>, %arg19: tensor<4x4x3x3xf32>, %arg20: tensor<6x4x3x3xf32>, %arg21: tensor<6x3xf32>, %arg22: tensor<4xf32>, %arg23: tensor<4xf32>, %arg24: tensor<6xf32>, %arg25: tensor<6xf32>, %arg26: tensor<4x4x3x3xf32>, %arg27: tensor<6x6x3x3xf32>, %arg28: tensor<6x4x1x1xf32>, %arg29: tensor<4x2x3x3xf32>, %arg30: tensor<4xf32>, %arg31: tensor<4xf32>, %arg32: tensor<4x2x8x8xf32>, %arg33: tensor<4xi32>) -> (tensor<f32> {jax.result_info = "result[0]"}, tensor<4x4x3x3xf32> {jax.result_info = "result[1]['conv1']"}, tensor<6x4x3x3xf32> {jax.result_info = "result[1]['conv2']"}, tensor<6x3xf32> {jax.result_info = "result[1]['head']"}, tensor<4xf32> {jax.result_info = "result[1]['norm1'][0]"}, tensor<4xf32> {jax.result_info = "result[1]['norm1'][1]"}, tensor<6xf32> {jax.result_info = "result[1]['norm2'][0]"}, tensor<6xf32> {jax.result_info = "result[1]['norm2'][1]"}, tensor<4x4x3x3xf32> {jax.result_info = "result[1]['out1']"}, tensor<6x6x3x3xf32> {jax.result_info = "result[1]['out2']"}, tensor<6x4x1x1xf32> {jax.result_info = "result[1]['shortcut']"}, tensor<4x2x3x3xf32> {jax.result_info = "result[1]['stem']"}, tensor<4xf32> {jax.result_info = "result[1]['stem_norm'][0]"}, tensor<4xf32> {jax.result_info = "result[1]['stem_norm'][1]"}, tensor<4xf32> {jax.result_info = "result[2][0][0]"}, tensor<4xf32> {jax.result_info = "result[2][0][1]"}, tensor<4xf32> {jax.result_info = "result[2][1][0]"}, tensor<4xf32> {jax.result_info = "result[2][1][1]"}, tensor<6xf32> {jax.result_info = "result[2][2][0]"}, tensor<6xf32> {jax.result_info = "result[2][2][1]"}, tensor<4x4x3x3xf32> {jax.result_info = "result[3]['conv1']"}, tensor<6x4x3x3xf32> {jax.result_info = "result[3]['conv2']"}, tensor<6x3xf32> {jax.result_info = "result[3]['head']"}, tensor<4xf32> {jax.result_info = "result[3]['norm1'][0]"}, tensor<4xf32> {jax.result_info = "result[3]['norm1'][1]"}, tensor<6xf32> {jax.result_info = "result[3]['norm2'][0]"}, tensor<6xf32> {jax.result_info = "result[3]['norm2'][1]"}, tensor<4x4x3x3xf32> {jax.result_info = "result[3]['out1']"}, tensor<6x6x3x3xf32> {jax.result_info = "result[3]['out2']"}, tensor<6x4x1x1xf32> {jax.result_info = "result[3]['shortcut']"}, tensor<4x2x3x3xf32> {jax.result_info = "result[3]['stem']"}, tensor<4xf32> {jax.result_info = "result[3]['stem_norm'][0]"}, tensor<4xf32> {jax.result_info = "result[3]['stem_norm'][1]"}) {
    %0 = stablehlo.convolution(%arg32, %arg10) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<4x2x8x8xf32>, tensor<4x2x3x3xf32>) -> tensor<4x4x8x8xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [0, 2, 3] : (tensor<4x4x8x8xf32>, tensor<f32>) -> tensor<4xf32>
    %cst_0 = stablehlo.constant dense<2.560000e+02> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %3 = stablehlo.divide %1, %2 : tensor<4xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %4:5 = call @_var(%0, %c) : (tensor<4x4x8x8xf32>, tensor<i32>) -> (tensor<4xf32>, tensor<4x4x8x8xf32>, tensor<f32>, tensor<i1>, tensor<4xf32>)
    %cst_1 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %6 = stablehlo.multiply %5, %arg13 : tensor<4xf32>
    %cst_2 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %7 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %8 = stablehlo.multiply %7, %3 : tensor<4xf32>
    %9 = stablehlo.add %6, %8 : tensor<4xf32>
    %cst_3 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %10 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %11 = stablehlo.multiply %10, %arg14 : tensor<4xf32>
    %cst_4 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %13 = stablehlo.multiply %12, %4#0 : tensor<4xf32>
    %14 = stablehlo.add %11, %13 : tensor<4xf32>
    %cst_5 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %15 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %16 = stablehlo.add %4#0, %15 : tensor<4xf32>
    %17 = stablehlo.rsqrt %16 : tensor<4xf32>
    %18 = stablehlo.divide %17, %16 : tensor<4xf32>
    %cst_6 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %19 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %20 = stablehlo.multiply %19, %18 : tensor<4xf32>
    %21 = stablehlo.multiply %arg11, %17 : tensor<4xf32>
    %22 = stablehlo.broadcast_in_dim %3, dims = [0] : (tensor<4xf32>) -> tensor<4x1x1xf32>
    %23 = stablehlo.broadcast_in_dim %22, dims = [1, 2, 3] : (tensor<4x1x1xf32>) -> tensor<1x4x1x1xf32>
    %24 = stablehlo.broadcast_in_dim %23, dims = [0, 1, 2, 3] : (tensor<1x4x1x1xf32>) -> tensor<4x4x8x8xf32>
    %25 = stablehlo.subtract %0, %24 : tensor<4x4x8x8xf32>
    %26 = stablehlo.broadcast_in_dim %21, dims = [0] : (tensor<4xf32>) -> tensor<4x1x1xf32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [1, 2, 3] : (tensor<4x1x1xf32>) -> tensor<1x4x1x1xf32>
    %28 = stablehlo.broadcast_in_dim %27, dims = [0, 1, 2, 3] : (tensor<1x4x1x1xf32>) -> tensor<4x4x8x8xf32>
    %29 = stablehlo.multiply %25, %28 : tensor<4x4x8x8xf32>
    %30 = stablehlo.broadcast_in_dim %arg12, dims = [0] : (tensor<4xf32>) -> tensor<4x1x1xf32>
    %31 = stablehlo.broadcast_in_dim %30, dims = [1, 2, 3] : (tensor<4x1x1xf32>) -> tensor<1x4x1x1xf32>
    %32 = stablehlo.broadcast_in_dim %31, dims = [0, 1, 2, 3] : (tensor<1x4x1x1xf32>) -> tensor<4x4x8x8xf32>
    %33 = stablehlo.add %29, %32 : tensor<4x4x8x8xf32>
    %34 = call @relu(%33) : (tensor<4x4x8x8xf32>) -> tensor<4x4x8x8xf32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %35 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<4x4x8x8xf32>
    %36 = stablehlo.compare GT, %33, %35, FLOAT : (tensor<4x4x8x8xf32>, tensor<4x4x8x8xf32>) -> tensor<4x4x8x8xi1>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %37 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<4x4x8x8xf32>
    %38 = stablehlo.convolution(%34, %arg0) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<4x4x8x8xf32>, tensor<4x4x3x3xf32>) -> tensor<4x4x8x8xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %39 = stablehlo.reduce(%38 init: %cst_9) applies stablehlo.add across dimensions = [0, 2, 3] : (tensor<4x4x8x8xf32>, tensor<f32>) -> tensor<4xf32>
    %cst_10 = stablehlo.constant dense<2.560000e+02> : tensor<f32>
    %40 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %41 = stablehlo.divide %39, %40 : tensor<4xf32>
    %c_11 = stablehlo.constant dense<0> : tensor<i32>
    %42:5 = call @_var(%38, %c_11) : (tensor<4x4x8x8xf32>, tensor<i32>) -> (tensor<4xf32>, tensor<4x4x8x8xf32>, tensor<f32>, tensor<i1>, tensor<4xf32>)
    %cst_12 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %43 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %44 = stablehlo.multiply %43, %arg15 : tensor<4xf32>
    %cst_13 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %45 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %46 = stablehlo.multiply %45, %41 : tensor<4xf32>
    %47 = stablehlo.add %44, %46 : tensor<4xf32>
    %cst_14 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %48 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %49 = stablehlo.multiply %48, %arg16 : tensor<4xf32>
    %cst_15 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %50 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %51 = stablehlo.multiply %50, %42#0 : tensor<4xf32>
    %52 = stablehlo.add %49, %51 : tensor<4xf32>
    %cst_16 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %53 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %54 = stablehlo.add %42#0, %53 : tensor<4xf32>
    %55 = stablehlo.rsqrt %54 : tensor<4xf32>
    %56 = stablehlo.divide %55, %54 : tensor<4xf32>
    %cst_17 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %57 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %58 = stablehlo.multiply %57, %56 : tensor<4xf32>
    %59 = stablehlo.multiply %arg3, %55 : tensor<4xf32>
    %60 = stablehlo.broadcast_in_dim %41, dims = [0] : (tensor<4xf32>) -> tensor<4x1x1xf32>
    %61 = stablehlo.broadcast_in_dim %60, dims = [1, 2, 3] : (tensor<4x1x1xf32>) -> tensor<1x4x1x1xf32>
    %62 = stablehlo.broadcast_in_dim %61, dims = [0, 1, 2, 3] : (tensor<1x4x1x1xf32>) -> tensor<4x4x8x8xf32>
    %63 = stablehlo.subtract %38, %62 : tensor<4x4x8x8xf32>
    %64 = stablehlo.broadcast_in_dim %59, dims = [0] : (tensor<4xf32>) -> tensor<4x1x1xf32>
    %65 = stablehlo.broadcast_in_dim %64, dims = [1, 2, 3] : (tensor<4x1x1xf32>) -> tensor<1x4x1x1xf32>
    %66 = stablehlo.broadcast_in_dim %65, dims = [0, 1, 2, 3] : (tensor<1x4x1x1xf32>) -> tensor<4x4x8x8xf32>
    %67 = stablehlo.multiply %63, %66 : tensor<4x4x8x8xf32>
    %68 = stablehlo.broadcast_in_dim %arg4, dims = [0] : (tensor<4xf32>) -> tensor<4x1x1xf32>
    %69 = stablehlo.broadcast_in_dim %68, dims = [1, 2, 3] : (tensor<4x1x1xf32>) -> tensor<1x4x1x1xf32>
    %70 = stablehlo.broadcast_in_dim %69, dims = [0, 1, 2, 3] : (tensor<1x4x1x1xf32>) -> tensor<4x4x8x8xf32>
    %71 = stablehlo.add %67, %70 : tensor<4x4x8x8xf32>
    %72 = call @relu(%71) : (tensor<4x4x8x8xf32>) -> tensor<4x4x8x8xf32>
    %cst_18 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %73 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<f32>) -> tensor<4x4x8x8xf32>
    %74 = stablehlo.compare GT, %71, %73, FLOAT : (tensor<4x4x8x8xf32>, tensor<4x4x8x8xf32>) -> tensor<4x4x8x8xi1>
    %cst_19 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %75 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<f32>) -> tensor<4x4x8x8xf32>
    %76 = stablehlo.convolution(%72, %arg7) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<4x4x8x8xf32>, tensor<4x4x3x3xf32>) -> tensor<4x4x8x8xf32>
    %77 = stablehlo.add %33, %76 : tensor<4x4x8x8xf32>
    %78 = call @relu(%77) : (tensor<4x4x8x8xf32>) -> tensor<4x4x8x8xf32>
    %cst_20 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %79 = stablehlo.broadcast_in_dim %cst_20, dims = [] : (tensor<f32>) -> tensor<4x4x8x8xf32>
    %80 = stablehlo.compare GT, %77, %79, FLOAT : (tensor<4x4x8x8xf32>, tensor<4x4x8x8xf32>) -> tensor<4x4x8x8xi1>
    %cst_21 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %81 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<f32>) -> tensor<4x4x8x8xf32>
    %82 = stablehlo.convolution(%78, %arg1) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [2, 2], pad = [[0, 1], [0, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<4x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<4x6x4x4xf32>
    %cst_22 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %83 = stablehlo.reduce(%82 init: %cst_22) applies stablehlo.add across dimensions = [0, 2, 3] : (tensor<4x6x4x4xf32>, tensor<f32>) -> tensor<6xf32>
    %cst_23 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %84 = stablehlo.broadcast_in_dim %cst_23, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %85 = stablehlo.divide %83, %84 : tensor<6xf32>
    %c_24 = stablehlo.constant dense<0> : tensor<i32>
    %86:5 = call @_var_0(%82, %c_24) : (tensor<4x6x4x4xf32>, tensor<i32>) -> (tensor<6xf32>, tensor<4x6x4x4xf32>, tensor<f32>, tensor<i1>, tensor<6xf32>)
    %cst_25 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %87 = stablehlo.broadcast_in_dim %cst_25, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %88 = stablehlo.multiply %87, %arg17 : tensor<6xf32>
    %cst_26 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %89 = stablehlo.broadcast_in_dim %cst_26, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %90 = stablehlo.multiply %89, %85 : tensor<6xf32>
    %91 = stablehlo.add %88, %90 : tensor<6xf32>
    %cst_27 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %92 = stablehlo.broadcast_in_dim %cst_27, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %93 = stablehlo.multiply %92, %arg18 : tensor<6xf32>
    %cst_28 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %94 = stablehlo.broadcast_in_dim %cst_28, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %95 = stablehlo.multiply %94, %86#0 : tensor<6xf32>
    %96 = stablehlo.add %93, %95 : tensor<6xf32>
    %cst_29 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %97 = stablehlo.broadcast_in_dim %cst_29, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %98 = stablehlo.add %86#0, %97 : tensor<6xf32>
    %99 = stablehlo.rsqrt %98 : tensor<6xf32>
    %100 = stablehlo.divide %99, %98 : tensor<6xf32>
    %cst_30 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %101 = stablehlo.broadcast_in_dim %cst_30, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %102 = stablehlo.multiply %101, %100 : tensor<6xf32>
    %103 = stablehlo.multiply %arg5, %99 : tensor<6xf32>
    %104 = stablehlo.broadcast_in_dim %85, dims = [0] : (tensor<6xf32>) -> tensor<6x1x1xf32>
    %105 = stablehlo.broadcast_in_dim %104, dims = [1, 2, 3] : (tensor<6x1x1xf32>) -> tensor<1x6x1x1xf32>
    %106 = stablehlo.broadcast_in_dim %105, dims = [0, 1, 2, 3] : (tensor<1x6x1x1xf32>) -> tensor<4x6x4x4xf32>
    %107 = stablehlo.subtract %82, %106 : tensor<4x6x4x4xf32>
    %108 = stablehlo.broadcast_in_dim %103, dims = [0] : (tensor<6xf32>) -> tensor<6x1x1xf32>
    %109 = stablehlo.broadcast_in_dim %108, dims = [1, 2, 3] : (tensor<6x1x1xf32>) -> tensor<1x6x1x1xf32>
    %110 = stablehlo.broadcast_in_dim %109, dims = [0, 1, 2, 3] : (tensor<1x6x1x1xf32>) -> tensor<4x6x4x4xf32>
    %111 = stablehlo.multiply %107, %110 : tensor<4x6x4x4xf32>
    %112 = stablehlo.broadcast_in_dim %arg6, dims = [0] : (tensor<6xf32>) -> tensor<6x1x1xf32>
    %113 = stablehlo.broadcast_in_dim %112, dims = [1, 2, 3] : (tensor<6x1x1xf32>) -> tensor<1x6x1x1xf32>
    %114 = stablehlo.broadcast_in_dim %113, dims = [0, 1, 2, 3] : (tensor<1x6x1x1xf32>) -> tensor<4x6x4x4xf32>
    %115 = stablehlo.add %111, %114 : tensor<4x6x4x4xf32>
    %116 = stablehlo.convolution(%77, %arg9) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [2, 2], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<4x4x8x8xf32>, tensor<6x4x1x1xf32>) -> tensor<4x6x4x4xf32>
    %117 = call @relu_2(%115) : (tensor<4x6x4x4xf32>) -> tensor<4x6x4x4xf32>
    %cst_31 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %118 = stablehlo.broadcast_in_dim %cst_31, dims = [] : (tensor<f32>) -> tensor<4x6x4x4xf32>
    %119 = stablehlo.compare GT, %115, %118, FLOAT : (tensor<4x6x4x4xf32>, tensor<4x6x4x4xf32>) -> tensor<4x6x4x4xi1>
    %cst_32 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %120 = stablehlo.broadcast_in_dim %cst_32, dims = [] : (tensor<f32>) -> tensor<4x6x4x4xf32>
    %121 = stablehlo.convolution(%117, %arg8) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<4x6x4x4xf32>, tensor<6x6x3x3xf32>) -> tensor<4x6x4x4xf32>
    %122 = stablehlo.add %116, %121 : tensor<4x6x4x4xf32>
    %123 = call @relu_2(%122) : (tensor<4x6x4x4xf32>) -> tensor<4x6x4x4xf32>
    %cst_33 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %124 = stablehlo.broadcast_in_dim %cst_33, dims = [] : (tensor<f32>) -> tensor<4x6x4x4xf32>
    %125 = stablehlo.compare GT, %122, %124, FLOAT : (tensor<4x6x4x4xf32>, tensor<4x6x4x4xf32>) -> tensor<4x6x4x4xi1>
    %cst_34 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %126 = stablehlo.broadcast_in_dim %cst_34, dims = [] : (tensor<f32>) -> tensor<4x6x4x4xf32>
    %cst_35 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %127 = stablehlo.reduce(%123 init: %cst_35) applies stablehlo.add across dimensions = [2, 3] : (tensor<4x6x4x4xf32>, tensor<f32>) -> tensor<4x6xf32>
    %cst_36 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %128 = stablehlo.broadcast_in_dim %cst_36, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %129 = stablehlo.divide %127, %128 : tensor<4x6xf32>
    %130 = stablehlo.dot_general %129, %arg2, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x6xf32>, tensor<6x3xf32>) -> tensor<4x3xf32>
    %131:3 = call @log_softmax(%130) : (tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x1xf32>)
    %132 = stablehlo.broadcast_in_dim %arg33, dims = [0] : (tensor<4xi32>) -> tensor<4x1xi32>
    %133:2 = call @take_along_axis(%131#0, %132) : (tensor<4x3xf32>, tensor<4x1xi32>) -> (tensor<4x1xf32>, tensor<4x1x1xi32>)
    %cst_37 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %134 = stablehlo.reduce(%133#0 init: %cst_37) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x1xf32>, tensor<f32>) -> tensor<f32>
    %cst_38 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
    %135 = stablehlo.divide %134, %cst_38 : tensor<f32>
    %136 = stablehlo.negate %135 : tensor<f32>
    %cst_39 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %137 = stablehlo.negate %cst_39 : tensor<f32>
    %cst_40 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
    %138 = stablehlo.divide %137, %cst_40 : tensor<f32>
    %139 = stablehlo.broadcast_in_dim %138, dims = [] : (tensor<f32>) -> tensor<4x1xf32>
    %140 = call @take_along_axis_3(%133#1, %139) : (tensor<4x1x1xi32>, tensor<4x1xf32>) -> tensor<4x3xf32>
    %141 = call @log_softmax_4(%131#1, %131#2, %140) : (tensor<4x3xf32>, tensor<4x1xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %142 = stablehlo.dot_general %141, %129, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x3xf32>, tensor<4x6xf32>) -> tensor<3x6xf32>
    %143 = stablehlo.transpose %142, dims = [1, 0] : (tensor<3x6xf32>) -> tensor<6x3xf32>
    %144 = stablehlo.dot_general %141, %arg2, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x3xf32>, tensor<6x3xf32>) -> tensor<4x6xf32>
    %cst_41 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %145 = stablehlo.broadcast_in_dim %cst_41, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %146 = stablehlo.divide %144, %145 : tensor<4x6xf32>
    %147 = stablehlo.broadcast_in_dim %146, dims = [0, 1] : (tensor<4x6xf32>) -> tensor<4x6x4x4xf32>
    %cst_42 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %148 = stablehlo.broadcast_in_dim %cst_42, dims = [] : (tensor<f32>) -> tensor<4x6x4x4xf32>
    %149 = stablehlo.select %125, %147, %148 : tensor<4x6x4x4xi1>, tensor<4x6x4x4xf32>
    %150 = stablehlo.convolution(%117, %149) dim_numbers = [f, b, 0, 1]x[i, o, 0, 1]->[f, b, 0, 1], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<4x6x4x4xf32>, tensor<4x6x4x4xf32>) -> tensor<6x6x3x3xf32>
    %151 = stablehlo.reverse %arg8, dims = [2, 3] : tensor<6x6x3x3xf32>
    %152 = stablehlo.convolution(%149, %151) dim_numbers = [b, f, 0, 1]x[i, o, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<4x6x4x4xf32>, tensor<6x6x3x3xf32>) -> tensor<4x6x4x4xf32>
    %cst_43 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %153 = stablehlo.broadcast_in_dim %cst_43, dims = [] : (tensor<f32>) -> tensor<4x6x4x4xf32>
    %154 = stablehlo.select %119, %152, %153 : tensor<4x6x4x4xi1>, tensor<4x6x4x4xf32>
    %155 = stablehlo.convolution(%77, %149) dim_numbers = [f, b, 0, 1]x[i, o, 0, 1]->[f, b, 0, 1], window = {stride = [1, 1], pad = [[0, -1], [0, -1]], lhs_dilate = [1, 1], rhs_dilate = [2, 2], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<4x4x8x8xf32>, tensor<4x6x4x4xf32>) -> tensor<6x4x1x1xf32>
    %156 = stablehlo.reverse %arg9, dims = [2, 3] : tensor<6x4x1x1xf32>
    %157 = stablehlo.convolution(%149, %156) dim_numbers = [b, f, 0, 1]x[i, o, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[0, 1], [0, 1]], lhs_dilate = [2, 2], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<4x6x4x4xf32>, tensor<6x4x1x1xf32>) -> tensor<4x4x8x8xf32>
    %cst_44 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %158 = stablehlo.reduce(%154 init: %cst_44) applies stablehlo.add across dimensions = [0, 2, 3] : (tensor<4x6x4x4xf32>, tensor<f32>) -> tensor<6xf32>
    %159 = stablehlo.reshape %158 : (tensor<6xf32>) -> tensor<1x6x1x1xf32>
    %cst_45 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %160 = stablehlo.reduce(%159 init: %cst_45) applies stablehlo.add across dimensions = [0, 2, 3] : (tensor<1x6x1x1xf32>, tensor<f32>) -> tensor<6xf32>
    %161 = stablehlo.broadcast_in_dim %160, dims = [0] : (tensor<6xf32>) -> tensor<6x1x1xf32>
    %cst_46 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %162 = stablehlo.reduce(%161 init: %cst_46) applies stablehlo.add across dimensions = [1, 2] : (tensor<6x1x1xf32>, tensor<f32>) -> tensor<6xf32>
    %163 = stablehlo.multiply %107, %154 : tensor<4x6x4x4xf32>
    %cst_47 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %164 = stablehlo.reduce(%163 init: %cst_47) applies stablehlo.add across dimensions = [0, 2, 3] : (tensor<4x6x4x4xf32>, tensor<f32>) -> tensor<6xf32>
    %165 = stablehlo.reshape %164 : (tensor<6xf32>) -> tensor<1x6x1x1xf32>
    %166 = stablehlo.broadcast_in_dim %109, dims = [0, 1, 2, 3] : (tensor<1x6x1x1xf32>) -> tensor<4x6x4x4xf32>
    %167 = stablehlo.multiply %154, %166 : tensor<4x6x4x4xf32>
    %cst_48 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %168 = stablehlo.reduce(%165 init: %cst_48) applies stablehlo.add across dimensions = [0, 2, 3] : (tensor<1x6x1x1xf32>, tensor<f32>) -> tensor<6xf32>
    %169 = stablehlo.broadcast_in_dim %168, dims = [0] : (tensor<6xf32>) -> tensor<6x1x1xf32>
    %cst_49 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %170 = stablehlo.reduce(%169 init: %cst_49) applies stablehlo.add across dimensions = [1, 2] : (tensor<6x1x1xf32>, tensor<f32>) -> tensor<6xf32>
    %171 = stablehlo.negate %167 : tensor<4x6x4x4xf32>
    %cst_50 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %172 = stablehlo.reduce(%171 init: %cst_50) applies stablehlo.add across dimensions = [0, 2, 3] : (tensor<4x6x4x4xf32>, tensor<f32>) -> tensor<6xf32>
    %173 = stablehlo.reshape %172 : (tensor<6xf32>) -> tensor<1x6x1x1xf32>
    %cst_51 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %174 = stablehlo.reduce(%173 init: %cst_51) applies stablehlo.add across dimensions = [0, 2, 3] : (tensor<1x6x1x1xf32>, tensor<f32>) -> tensor<6xf32>
    %175 = stablehlo.broadcast_in_dim %174, dims = [0] : (tensor<6xf32>) -> tensor<6x1x1xf32>
    %cst_52 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %176 = stablehlo.reduce(%175 init: %cst_52) applies stablehlo.add across dimensions = [1, 2] : (tensor<6x1x1xf32>, tensor<f32>) -> tensor<6xf32>
    %177 = stablehlo.multiply %arg5, %170 : tensor<6xf32>
    %178 = stablehlo.multiply %170, %99 : tensor<6xf32>
    %179 = stablehlo.multiply %177, %102 : tensor<6xf32>
    %180 = call @_var_5(%86#1, %86#2, %86#3, %86#4, %179) : (tensor<4x6x4x4xf32>, tensor<f32>, tensor<i1>, tensor<6xf32>, tensor<6xf32>) -> tensor<4x6x4x4xf32>
    %181 = stablehlo.add %167, %180 : tensor<4x6x4x4xf32>
    %cst_53 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %182 = stablehlo.broadcast_in_dim %cst_53, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %183 = stablehlo.divide %176, %182 : tensor<6xf32>
    %184 = stablehlo.broadcast_in_dim %183, dims = [1] : (tensor<6xf32>) -> tensor<4x6x4x4xf32>
    %185 = stablehlo.add %181, %184 : tensor<4x6x4x4xf32>
    %186 = stablehlo.convolution(%78, %185) dim_numbers = [f, b, 0, 1]x[i, o, 0, 1]->[f, b, 0, 1], window = {stride = [1, 1], pad = [[0, 1], [0, 1]], lhs_dilate = [1, 1], rhs_dilate = [2, 2], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<4x4x8x8xf32>, tensor<4x6x4x4xf32>) -> tensor<6x4x3x3xf32>
    %187 = stablehlo.reverse %arg1, dims = [2, 3] : tensor<6x4x3x3xf32>
    %188 = stablehlo.convolution(%185, %187) dim_numbers = [b, f, 0, 1]x[i, o, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[2, 1], [2, 1]], lhs_dilate = [2, 2], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<4x6x4x4xf32>, tensor<6x4x3x3xf32>) -> tensor<4x4x8x8xf32>
    %cst_54 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %189 = stablehlo.broadcast_in_dim %cst_54, dims = [] : (tensor<f32>) -> tensor<4x4x8x8xf32>
    %190 = stablehlo.select %80, %188, %189 : tensor<4x4x8x8xi1>, tensor<4x4x8x8xf32>
    %191 = stablehlo.add %157, %190 : tensor<4x4x8x8xf32>
    %192 = stablehlo.convolution(%72, %191) dim_numbers = [f, b, 0, 1]x[i, o, 0, 1]->[f, b, 0, 1], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<4x4x8x8xf32>, tensor<4x4x8x8xf32>) -> tensor<4x4x3x3xf32>
    %193 = stablehlo.reverse %arg7, dims = [2, 3] : tensor<4x4x3x3xf32>
    %194 = stablehlo.convolution(%191, %193) dim_numbers = [b, f, 0, 1]x[i, o, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<4x4x8x8xf32>, tensor<4x4x3x3xf32>) -> tensor<4x4x8x8xf32>
    %cst_55 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %195 = stablehlo.broadcast_in_dim %cst_55, dims = [] : (tensor<f32>) -> tensor<4x4x8x8xf32>
    %196 = stablehlo.select %74, %194, %195 : tensor<4x4x8x8xi1>, tensor<4x4x8x8xf32>
    %cst_56 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %197 = stablehlo.reduce(%196 init: %cst_56) applies stablehlo.add across dimensions = [0, 2, 3] : (tensor<4x4x8x8xf32>, tensor<f32>) -> tensor<4xf32>
    %198 = stablehlo.reshape %197 : (tensor<4xf32>) -> tensor<1x4x1x1xf32>
    %cst_57 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %199 = stablehlo.reduce(%198 init: %cst_57) applies stablehlo.add across dimensions = [0, 2, 3] : (tensor<1x4x1x1xf32>, tensor<f32>) -> tensor<4xf32>
    %200 = stablehlo.broadcast_in_dim %199, dims = [0] : (tensor<4xf32>) -> tensor<4x1x1xf32>
    %cst_58 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %201 = stablehlo.reduce(%200 init: %cst_58) applies stablehlo.add across dimensions = [1, 2] : (tensor<4x1x1xf32>, tensor<f32>) -> tensor<4xf32>
    %202 = stablehlo.multiply %63, %196 : tensor<4x4x8x8xf32>
    %cst_59 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %203 = stablehlo.reduce(%202 init: %cst_59) applies stablehlo.add across dimensions = [0, 2, 3] : (tensor<4x4x8x8xf32>, tensor<f32>) -> tensor<4xf32>
    %204 = stablehlo.reshape %203 : (tensor<4xf32>) -> tensor<1x4x1x1xf32>
    %205 = stablehlo.broadcast_in_dim %65, dims = [0, 1, 2, 3] : (tensor<1x4x1x1xf32>) -> tensor<4x4x8x8xf32>
    %206 = stablehlo.multiply %196, %205 : tensor<4x4x8x8xf32>
    %cst_60 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %207 = stablehlo.reduce(%204 init: %cst_60) applies stablehlo.add across dimensions = [0, 2, 3] : (tensor<1x4x1x1xf32>, tensor<f32>) -> tensor<4xf32>
    %208 = stablehlo.broadcast_in_dim %207, dims = [0] : (tensor<4xf32>) -> tensor<4x1x1xf32>
    %cst_61 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %209 = stablehlo.reduce(%208 init: %cst_61) applies stablehlo.add across dimensions = [1, 2] : (tensor<4x1x1xf32>, tensor<f32>) -> tensor<4xf32>
    %210 = stablehlo.negate %206 : tensor<4x4x8x8xf32>
    %cst_62 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %211 = stablehlo.reduce(%210 init: %cst_62) applies stablehlo.add across dimensions = [0, 2, 3] : (tensor<4x4x8x8xf32>, tensor<f32>) -> tensor<4xf32>
    %212 = stablehlo.reshape %211 : (tensor<4xf32>) -> tensor<1x4x1x1xf32>
    %cst_63 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %213 = stablehlo.reduce(%212 init: %cst_63) applies stablehlo.add across dimensions = [0, 2, 3] : (tensor<1x4x1x1xf32>, tensor<f32>) -> tensor<4xf32>
    %214 = stablehlo.broadcast_in_dim %213, dims = [0] : (tensor<4xf32>) -> tensor<4x1x1xf32>
    %cst_64 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %215 = stablehlo.reduce(%214 init: %cst_64) applies stablehlo.add across dimensions = [1, 2] : (tensor<4x1x1xf32>, tensor<f32>) -> tensor<4xf32>
    %216 = stablehlo.multiply %arg3, %209 : tensor<4xf32>
    %217 = stablehlo.multiply %209, %55 : tensor<4xf32>
    %218 = stablehlo.multiply %216, %58 : tensor<4xf32>
    %219 = call @_var_7(%42#1, %42#2, %42#3, %42#4, %218) : (tensor<4x4x8x8xf32>, tensor<f32>, tensor<i1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4x4x8x8xf32>
    %220 = stablehlo.add %206, %219 : tensor<4x4x8x8xf32>
    %cst_65 = stablehlo.constant dense<2.560000e+02> : tensor<f32>
    %221 = stablehlo.broadcast_in_dim %cst_65, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %222 = stablehlo.divide %215, %221 : tensor<4xf32>
    %223 = stablehlo.broadcast_in_dim %222, dims = [1] : (tensor<4xf32>) -> tensor<4x4x8x8xf32>
    %224 = stablehlo.add %220, %223 : tensor<4x4x8x8xf32>
    %225 = stablehlo.convolution(%34, %224) dim_numbers = [f, b, 0, 1]x[i, o, 0, 1]->[f, b, 0, 1], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<4x4x8x8xf32>, tensor<4x4x8x8xf32>) -> tensor<4x4x3x3xf32>
    %226 = stablehlo.reverse %arg0, dims = [2, 3] : tensor<4x4x3x3xf32>
    %227 = stablehlo.convolution(%224, %226) dim_numbers = [b, f, 0, 1]x[i, o, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<4x4x8x8xf32>, tensor<4x4x3x3xf32>) -> tensor<4x4x8x8xf32>
    %cst_66 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %228 = stablehlo.broadcast_in_dim %cst_66, dims = [] : (tensor<f32>) -> tensor<4x4x8x8xf32>
    %229 = stablehlo.select %36, %227, %228 : tensor<4x4x8x8xi1>, tensor<4x4x8x8xf32>
    %230 = stablehlo.add %191, %229 : tensor<4x4x8x8xf32>
    %cst_67 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %231 = stablehlo.reduce(%230 init: %cst_67) applies stablehlo.add across dimensions = [0, 2, 3] : (tensor<4x4x8x8xf32>, tensor<f32>) -> tensor<4xf32>
    %232 = stablehlo.reshape %231 : (tensor<4xf32>) -> tensor<1x4x1x1xf32>
    %cst_68 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %233 = stablehlo.reduce(%232 init: %cst_68) applies stablehlo.add across dimensions = [0, 2, 3] : (tensor<1x4x1x1xf32>, tensor<f32>) -> tensor<4xf32>
    %234 = stablehlo.broadcast_in_dim %233, dims = [0] : (tensor<4xf32>) -> tensor<4x1x1xf32>
    %cst_69 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %235 = stablehlo.reduce(%234 init: %cst_69) applies stablehlo.add across dimensions = [1, 2] : (tensor<4x1x1xf32>, tensor<f32>) -> tensor<4xf32>
    %236 = stablehlo.multiply %25, %230 : tensor<4x4x8x8xf32>
    %cst_70 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %237 = stablehlo.reduce(%236 init: %cst_70) applies stablehlo.add across dimensions = [0, 2, 3] : (tensor<4x4x8x8xf32>, tensor<f32>) -> tensor<4xf32>
    %238 = stablehlo.reshape %237 : (tensor<4xf32>) -> tensor<1x4x1x1xf32>
    %239 = stablehlo.broadcast_in_dim %27, dims = [0, 1, 2, 3] : (tensor<1x4x1x1xf32>) -> tensor<4x4x8x8xf32>
    %240 = stablehlo.multiply %230, %239 : tensor<4x4x8x8xf32>
    %cst_71 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %241 = stablehlo.reduce(%238 init: %cst_71) applies stablehlo.add across dimensions = [0, 2, 3] : (tensor<1x4x1x1xf32>, tensor<f32>) -> tensor<4xf32>
    %242 = stablehlo.broadcast_in_dim %241, dims = [0] : (tensor<4xf32>) -> tensor<4x1x1xf32>
    %cst_72 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %243 = stablehlo.reduce(%242 init: %cst_72) applies stablehlo.add across dimensions = [1, 2] : (tensor<4x1x1xf32>, tensor<f32>) -> tensor<4xf32>
    %244 = stablehlo.negate %240 : tensor<4x4x8x8xf32>
    %cst_73 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %245 = stablehlo.reduce(%244 init: %cst_73) applies stablehlo.add across dimensions = [0, 2, 3] : (tensor<4x4x8x8xf32>, tensor<f32>) -> tensor<4xf32>
    %246 = stablehlo.reshape %245 : (tensor<4xf32>) -> tensor<1x4x1x1xf32>
    %cst_74 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %247 = stablehlo.reduce(%246 init: %cst_74) applies stablehlo.add across dimensions = [0, 2, 3] : (tensor<1x4x1x1xf32>, tensor<f32>) -> tensor<4xf32>
    %248 = stablehlo.broadcast_in_dim %247, dims = [0] : (tensor<4xf32>) -> tensor<4x1x1xf32>
    %cst_75 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %249 = stablehlo.reduce(%248 init: %cst_75) applies stablehlo.add across dimensions = [1, 2] : (tensor<4x1x1xf32>, tensor<f32>) -> tensor<4xf32>
    %250 = stablehlo.multiply %arg11, %243 : tensor<4xf32>
    %251 = stablehlo.multiply %243, %17 : tensor<4xf32>
    %252 = stablehlo.multiply %250, %20 : tensor<4xf32>
    %253 = call @_var_7(%4#1, %4#2, %4#3, %4#4, %252) : (tensor<4x4x8x8xf32>, tensor<f32>, tensor<i1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4x4x8x8xf32>
    %254 = stablehlo.add %240, %253 : tensor<4x4x8x8xf32>
    %cst_76 = stablehlo.constant dense<2.560000e+02> : tensor<f32>
    %255 = stablehlo.broadcast_in_dim %cst_76, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %256 = stablehlo.divide %249, %255 : tensor<4xf32>
    %257 = stablehlo.broadcast_in_dim %256, dims = [1] : (tensor<4xf32>) -> tensor<4x4x8x8xf32>
    %258 = stablehlo.add %254, %257 : tensor<4x4x8x8xf32>
    %259 = stablehlo.convolution(%arg32, %258) dim_numbers = [f, b, 0, 1]x[i, o, 0, 1]->[f, b, 0, 1], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<4x2x8x8xf32>, tensor<4x4x8x8xf32>) -> tensor<4x2x3x3xf32>
    %cst_77 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %260 = stablehlo.broadcast_in_dim %cst_77, dims = [] : (tensor<f32>) -> tensor<4x4x3x3xf32>
    %261 = stablehlo.multiply %260, %arg19 : tensor<4x4x3x3xf32>
    %262 = stablehlo.add %261, %225 : tensor<4x4x3x3xf32>
    %cst_78 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %263 = stablehlo.broadcast_in_dim %cst_78, dims = [] : (tensor<f32>) -> tensor<6x4x3x3xf32>
    %264 = stablehlo.multiply %263, %arg20 : tensor<6x4x3x3xf32>
    %265 = stablehlo.add %264, %186 : tensor<6x4x3x3xf32>
    %cst_79 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %266 = stablehlo.broadcast_in_dim %cst_79, dims = [] : (tensor<f32>) -> tensor<6x3xf32>
    %267 = stablehlo.multiply %266, %arg21 : tensor<6x3xf32>
    %268 = stablehlo.add %267, %143 : tensor<6x3xf32>
    %cst_80 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %269 = stablehlo.broadcast_in_dim %cst_80, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %270 = stablehlo.multiply %269, %arg22 : tensor<4xf32>
    %271 = stablehlo.add %270, %217 : tensor<4xf32>
    %cst_81 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %272 = stablehlo.broadcast_in_dim %cst_81, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %273 = stablehlo.multiply %272, %arg23 : tensor<4xf32>
    %274 = stablehlo.add %273, %201 : tensor<4xf32>
    %cst_82 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %275 = stablehlo.broadcast_in_dim %cst_82, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %276 = stablehlo.multiply %275, %arg24 : tensor<6xf32>
    %277 = stablehlo.add %276, %178 : tensor<6xf32>
    %cst_83 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %278 = stablehlo.broadcast_in_dim %cst_83, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %279 = stablehlo.multiply %278, %arg25 : tensor<6xf32>
    %280 = stablehlo.add %279, %162 : tensor<6xf32>
    %cst_84 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %281 = stablehlo.broadcast_in_dim %cst_84, dims = [] : (tensor<f32>) -> tensor<4x4x3x3xf32>
    %282 = stablehlo.multiply %281, %arg26 : tensor<4x4x3x3xf32>
    %283 = stablehlo.add %282, %192 : tensor<4x4x3x3xf32>
    %cst_85 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %284 = stablehlo.broadcast_in_dim %cst_85, dims = [] : (tensor<f32>) -> tensor<6x6x3x3xf32>
    %285 = stablehlo.multiply %284, %arg27 : tensor<6x6x3x3xf32>
    %286 = stablehlo.add %285, %150 : tensor<6x6x3x3xf32>
    %cst_86 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %287 = stablehlo.broadcast_in_dim %cst_86, dims = [] : (tensor<f32>) -> tensor<6x4x1x1xf32>
    %288 = stablehlo.multiply %287, %arg28 : tensor<6x4x1x1xf32>
    %289 = stablehlo.add %288, %155 : tensor<6x4x1x1xf32>
    %cst_87 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %290 = stablehlo.broadcast_in_dim %cst_87, dims = [] : (tensor<f32>) -> tensor<4x2x3x3xf32>
    %291 = stablehlo.multiply %290, %arg29 : tensor<4x2x3x3xf32>
    %292 = stablehlo.add %291, %259 : tensor<4x2x3x3xf32>
    %cst_88 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %293 = stablehlo.broadcast_in_dim %cst_88, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %294 = stablehlo.multiply %293, %arg30 : tensor<4xf32>
    %295 = stablehlo.add %294, %251 : tensor<4xf32>
    %cst_89 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %296 = stablehlo.broadcast_in_dim %cst_89, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %297 = stablehlo.multiply %296, %arg31 : tensor<4xf32>
    %298 = stablehlo.add %297, %235 : tensor<4xf32>
    %cst_90 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %299 = stablehlo.broadcast_in_dim %cst_90, dims = [] : (tensor<f32>) -> tensor<4x4x3x3xf32>
    %300 = stablehlo.multiply %299, %262 : tensor<4x4x3x3xf32>
    %301 = stablehlo.subtract %arg0, %300 : tensor<4x4x3x3xf32>
    %cst_91 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %302 = stablehlo.broadcast_in_dim %cst_91, dims = [] : (tensor<f32>) -> tensor<6x4x3x3xf32>
    %303 = stablehlo.multiply %302, %265 : tensor<6x4x3x3xf32>
    %304 = stablehlo.subtract %arg1, %303 : tensor<6x4x3x3xf32>
    %cst_92 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %305 = stablehlo.broadcast_in_dim %cst_92, dims = [] : (tensor<f32>) -> tensor<6x3xf32>
    %306 = stablehlo.multiply %305, %268 : tensor<6x3xf32>
    %307 = stablehlo.subtract %arg2, %306 : tensor<6x3xf32>
    %cst_93 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %308 = stablehlo.broadcast_in_dim %cst_93, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %309 = stablehlo.multiply %308, %271 : tensor<4xf32>
    %310 = stablehlo.subtract %arg3, %309 : tensor<4xf32>
    %cst_94 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %311 = stablehlo.broadcast_in_dim %cst_94, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %312 = stablehlo.multiply %311, %274 : tensor<4xf32>
    %313 = stablehlo.subtract %arg4, %312 : tensor<4xf32>
    %cst_95 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %314 = stablehlo.broadcast_in_dim %cst_95, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %315 = stablehlo.multiply %314, %277 : tensor<6xf32>
    %316 = stablehlo.subtract %arg5, %315 : tensor<6xf32>
    %cst_96 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %317 = stablehlo.broadcast_in_dim %cst_96, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %318 = stablehlo.multiply %317, %280 : tensor<6xf32>
    %319 = stablehlo.subtract %arg6, %318 : tensor<6xf32>
    %cst_97 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %320 = stablehlo.broadcast_in_dim %cst_97, dims = [] : (tensor<f32>) -> tensor<4x4x3x3xf32>
    %321 = stablehlo.multiply %320, %283 : tensor<4x4x3x3xf32>
    %322 = stablehlo.subtract %arg7, %321 : tensor<4x4x3x3xf32>
    %cst_98 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %323 = stablehlo.broadcast_in_dim %cst_98, dims = [] : (tensor<f32>) -> tensor<6x6x3x3xf32>
    %324 = stablehlo.multiply %323, %286 : tensor<6x6x3x3xf32>
    %325 = stablehlo.subtract %arg8, %324 : tensor<6x6x3x3xf32>
    %cst_99 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %326 = stablehlo.broadcast_in_dim %cst_99, dims = [] : (tensor<f32>) -> tensor<6x4x1x1xf32>
    %327 = stablehlo.multiply %326, %289 : tensor<6x4x1x1xf32>
    %328 = stablehlo.subtract %arg9, %327 : tensor<6x4x1x1xf32>
    %cst_100 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %329 = stablehlo.broadcast_in_dim %cst_100, dims = [] : (tensor<f32>) -> tensor<4x2x3x3xf32>
    %330 = stablehlo.multiply %329, %292 : tensor<4x2x3x3xf32>
    %331 = stablehlo.subtract %arg10, %330 : tensor<4x2x3x3xf32>
    %cst_101 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %332 = stablehlo.broadcast_in_dim %cst_101, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %333 = stablehlo.multiply %332, %295 : tensor<4xf32>
    %334 = stablehlo.subtract %arg11, %333 : tensor<4xf32>
    %cst_102 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %335 = stablehlo.broadcast_in_dim %cst_102, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %336 = stablehlo.multiply %335, %298 : tensor<4xf32>
    %337 = stablehlo.subtract %arg12, %336 : tensor<4xf32>
    return %136, %301, %304, %307, %310, %313, %316, %319, %322, %325, %328, %331, %334, %337, %9, %14, %47, %52, %91, %96, %262, %265, %268, %271, %274, %277, %280, %283, %286, %289, %292, %295, %298 : tensor<f32>, tensor<4x4x3x3xf32>, tensor<6x4x3x3xf32>, tensor<6x3xf32>, tensor<4xf32>, tensor<4xf32>, tensor<6xf32>, tensor<6xf32>, tensor<4x4x3x3xf32>, tensor<6x6x3x3xf32>, tensor<6x4x1x1xf32>, tensor<4x2x3x3xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<6xf32>, tensor<6xf32>, tensor<4x4x3x3xf32>, tensor<6x4x3x3xf32>, tensor<6x3xf32>, tensor<4xf32>, tensor<4xf32>, tensor<6xf32>, tensor<6xf32>, tensor<4x4x3x3xf32>, tensor<6x6x3x3xf32>, tensor<6x4x1x1xf32>, tensor<4x2x3x3xf32>, tensor<4xf32>, tensor<4xf32>
  }
  func.func private @_var(%arg0: tensor<4x4x8x8xf32>, %arg1: tensor<i32>) -> (tensor<4xf32>, tensor<4x4x8x8xf32>, tensor<f32>, tensor<i1>, tensor<4xf32>) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.add across dimensions = [0, 2, 3] : (tensor<4x4x8x8xf32>, tensor<f32>) -> tensor<4xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<4xf32>) -> tensor<1x4x1x1xf32>
    %cst_0 = stablehlo.constant dense<2.560000e+02> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<1x4x1x1xf32>
    %3 = stablehlo.divide %1, %2 : tensor<1x4x1x1xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2, 3] : (tensor<1x4x1x1xf32>) -> tensor<4x4x8x8xf32>
    %5 = stablehlo.subtract %arg0, %4 : tensor<4x4x8x8xf32>
    %6 = chlo.square %5 : tensor<4x4x8x8xf32> -> tensor<4x4x8x8xf32>
    %cst_1 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %7 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<4x4x8x8xf32>
    %8 = stablehlo.multiply %7, %5 : tensor<4x4x8x8xf32>
    %9 = stablehlo.convert %arg1 : (tensor<i32>) -> tensor<f32>
    %cst_2 = stablehlo.constant dense<2.560000e+02> : tensor<f32>
    %10 = stablehlo.subtract %cst_2, %9 : tensor<f32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %11 = stablehlo.reduce(%6 init: %cst_3) applies stablehlo.add across dimensions = [0, 2, 3] : (tensor<4x4x8x8xf32>, tensor<f32>) -> tensor<4xf32>
    %12 = stablehlo.broadcast_in_dim %10, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %13 = stablehlo.divide %11, %12 : tensor<4xf32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %14 = stablehlo.compare GT, %10, %cst_4, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %cst_5 = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %15:2 = call @_where(%14, %13, %cst_5) : (tensor<i1>, tensor<4xf32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>)
    return %15#0, %8, %10, %14, %15#1 : tensor<4xf32>, tensor<4x4x8x8xf32>, tensor<f32>, tensor<i1>, tensor<4xf32>
  }
  func.func private @_where(%arg0: tensor<i1>, %arg1: tensor<4xf32>, %arg2: tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %2 = stablehlo.select %arg0, %arg1, %1 : tensor<i1>, tensor<4xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4xf32>
    return %2, %3 : tensor<4xf32>, tensor<4xf32>
  }
  func.func private @relu(%arg0: tensor<4x4x8x8xf32>) -> tensor<4x4x8x8xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x4x8x8xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<4x4x8x8xf32>
    return %1 : tensor<4x4x8x8xf32>
  }
  func.func private @_var_0(%arg0: tensor<4x6x4x4xf32>, %arg1: tensor<i32>) -> (tensor<6xf32>, tensor<4x6x4x4xf32>, tensor<f32>, tensor<i1>, tensor<6xf32>) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.add across dimensions = [0, 2, 3] : (tensor<4x6x4x4xf32>, tensor<f32>) -> tensor<6xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<6xf32>) -> tensor<1x6x1x1xf32>
    %cst_0 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<1x6x1x1xf32>
    %3 = stablehlo.divide %1, %2 : tensor<1x6x1x1xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2, 3] : (tensor<1x6x1x1xf32>) -> tensor<4x6x4x4xf32>
    %5 = stablehlo.subtract %arg0, %4 : tensor<4x6x4x4xf32>
    %6 = chlo.square %5 : tensor<4x6x4x4xf32> -> tensor<4x6x4x4xf32>
    %cst_1 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %7 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<4x6x4x4xf32>
    %8 = stablehlo.multiply %7, %5 : tensor<4x6x4x4xf32>
    %9 = stablehlo.convert %arg1 : (tensor<i32>) -> tensor<f32>
    %cst_2 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %10 = stablehlo.subtract %cst_2, %9 : tensor<f32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %11 = stablehlo.reduce(%6 init: %cst_3) applies stablehlo.add across dimensions = [0, 2, 3] : (tensor<4x6x4x4xf32>, tensor<f32>) -> tensor<6xf32>
    %12 = stablehlo.broadcast_in_dim %10, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %13 = stablehlo.divide %11, %12 : tensor<6xf32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %14 = stablehlo.compare GT, %10, %cst_4, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %cst_5 = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %15:2 = call @_where_1(%14, %13, %cst_5) : (tensor<i1>, tensor<6xf32>, tensor<f32>) -> (tensor<6xf32>, tensor<6xf32>)
    return %15#0, %8, %10, %14, %15#1 : tensor<6xf32>, tensor<4x6x4x4xf32>, tensor<f32>, tensor<i1>, tensor<6xf32>
  }
  func.func private @_where_1(%arg0: tensor<i1>, %arg1: tensor<6xf32>, %arg2: tensor<f32>) -> (tensor<6xf32>, tensor<6xf32>) {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %2 = stablehlo.select %arg0, %arg1, %1 : tensor<i1>, tensor<6xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<6xf32>
    return %2, %3 : tensor<6xf32>, tensor<6xf32>
  }
  func.func private @relu_2(%arg0: tensor<4x6x4x4xf32>) -> tensor<4x6x4x4xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x6x4x4xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<4x6x4x4xf32>
    return %1 : tensor<4x6x4x4xf32>
  }
  func.func private @log_softmax(%arg0: tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x1xf32>) {
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.maximum across dimensions = [1] : (tensor<4x3xf32>, tensor<f32>) -> tensor<4xf32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %2 = stablehlo.maximum %1, %0 : tensor<4xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0] : (tensor<4xf32>) -> tensor<4x1xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1] : (tensor<4x1xf32>) -> tensor<4x3xf32>
    %5 = stablehlo.subtract %arg0, %4 : tensor<4x3xf32>
    %6 = stablehlo.exponential %5 : tensor<4x3xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %7 = stablehlo.reduce(%6 init: %cst_1) applies stablehlo.add across dimensions = [1] : (tensor<4x3xf32>, tensor<f32>) -> tensor<4xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0] : (tensor<4xf32>) -> tensor<4x1xf32>
    %9 = stablehlo.log %8 : tensor<4x1xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1] : (tensor<4x1xf32>) -> tensor<4x3xf32>
    %11 = stablehlo.subtract %5, %10 : tensor<4x3xf32>
    return %11, %6, %8 : tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x1xf32>
  }
  func.func private @take_along_axis(%arg0: tensor<4x3xf32>, %arg1: tensor<4x1xi32>) -> (tensor<4x1xf32>, tensor<4x1x1xi32>) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<4x1xi32>
    %1 = stablehlo.compare LT, %arg1, %0, SIGNED : (tensor<4x1xi32>, tensor<4x1xi32>) -> tensor<4x1xi1>
    %c_0 = stablehlo.constant dense<3> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<4x1xi32>
    %3 = stablehlo.add %arg1, %2 : tensor<4x1xi32>
    %4 = stablehlo.select %1, %3, %arg1 : tensor<4x1xi1>, tensor<4x1xi32>
    %5 = stablehlo.reshape %4 : (tensor<4x1xi32>) -> tensor<4x1x1xi32>
    %c_1 = stablehlo.constant dense<2> : tensor<1xi32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %6 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<4x1x1xi32>
    %7 = stablehlo.compare GE, %5, %6, SIGNED : (tensor<4x1x1xi32>, tensor<4x1x1xi32>) -> tensor<4x1x1xi1>
    %8 = stablehlo.broadcast_in_dim %c_1, dims = [2] : (tensor<1xi32>) -> tensor<1x1x1xi32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2] : (tensor<1x1x1xi32>) -> tensor<4x1x1xi32>
    %10 = stablehlo.compare LE, %5, %9, SIGNED : (tensor<4x1x1xi32>, tensor<4x1x1xi32>) -> tensor<4x1x1xi1>
    %11 = stablehlo.and %7, %10 : tensor<4x1x1xi1>
    %c_3 = stablehlo.constant dense<true> : tensor<i1>
    %12 = stablehlo.reduce(%11 init: %c_3) applies stablehlo.and across dimensions = [2] : (tensor<4x1x1xi1>, tensor<i1>) -> tensor<4x1xi1>
    %13 = "stablehlo.gather"(%arg0, %5) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}> : (tensor<4x3xf32>, tensor<4x1x1xi32>) -> tensor<4x1xf32>
    %cst = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x1xf32>
    %15 = stablehlo.select %12, %13, %14 : tensor<4x1xi1>, tensor<4x1xf32>
    return %15, %5 : tensor<4x1xf32>, tensor<4x1x1xi32>
  }
  func.func private @take_along_axis_3(%arg0: tensor<4x1x1xi32>, %arg1: tensor<4x1xf32>) -> tensor<4x3xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x3xf32>
    %1 = "stablehlo.scatter"(%0, %arg0, %arg1) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], index_vector_dim = 2>, unique_indices = false}> ({
    ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
      %2 = stablehlo.add %arg2, %arg3 : tensor<f32>
      stablehlo.return %2 : tensor<f32>
    }) : (tensor<4x3xf32>, tensor<4x1x1xi32>, tensor<4x1xf32>) -> tensor<4x3xf32>
    return %1 : tensor<4x3xf32>
  }
  func.func private @log_softmax_4(%arg0: tensor<4x3xf32>, %arg1: tensor<4x1xf32>, %arg2: tensor<4x3xf32>) -> tensor<4x3xf32> {
    %0 = stablehlo.negate %arg2 : tensor<4x3xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<4x3xf32>, tensor<f32>) -> tensor<4xf32>
    %2 = stablehlo.reshape %1 : (tensor<4xf32>) -> tensor<4x1xf32>
    %3 = stablehlo.divide %2, %arg1 : tensor<4x1xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %4 = stablehlo.reduce(%3 init: %cst_0) applies stablehlo.add across dimensions = [1] : (tensor<4x1xf32>, tensor<f32>) -> tensor<4xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<4xf32>) -> tensor<4x3xf32>
    %6 = stablehlo.multiply %5, %arg0 : tensor<4x3xf32>
    %7 = stablehlo.add %arg2, %6 : tensor<4x3xf32>
    return %7 : tensor<4x3xf32>
  }
  func.func private @_var_5(%arg0: tensor<4x6x4x4xf32>, %arg1: tensor<f32>, %arg2: tensor<i1>, %arg3: tensor<6xf32>, %arg4: tensor<6xf32>) -> tensor<4x6x4x4xf32> {
    %0 = call @_where_6(%arg2, %arg3, %arg4) : (tensor<i1>, tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
    %1 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %2 = stablehlo.divide %0, %1 : tensor<6xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [1] : (tensor<6xf32>) -> tensor<4x6x4x4xf32>
    %4 = stablehlo.multiply %3, %arg0 : tensor<4x6x4x4xf32>
    %5 = stablehlo.negate %4 : tensor<4x6x4x4xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %6 = stablehlo.reduce(%5 init: %cst) applies stablehlo.add across dimensions = [0, 2, 3] : (tensor<4x6x4x4xf32>, tensor<f32>) -> tensor<6xf32>
    %7 = stablehlo.reshape %6 : (tensor<6xf32>) -> tensor<1x6x1x1xf32>
    %cst_0 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %8 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<1x6x1x1xf32>
    %9 = stablehlo.divide %7, %8 : tensor<1x6x1x1xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %10 = stablehlo.reduce(%9 init: %cst_1) applies stablehlo.add across dimensions = [0, 2, 3] : (tensor<1x6x1x1xf32>, tensor<f32>) -> tensor<6xf32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [1] : (tensor<6xf32>) -> tensor<4x6x4x4xf32>
    %12 = stablehlo.add %4, %11 : tensor<4x6x4x4xf32>
    return %12 : tensor<4x6x4x4xf32>
  }
  func.func private @_where_6(%arg0: tensor<i1>, %arg1: tensor<6xf32>, %arg2: tensor<6xf32>) -> tensor<6xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %1 = stablehlo.select %arg0, %arg2, %0 : tensor<i1>, tensor<6xf32>
    return %1 : tensor<6xf32>
  }
  func.func private @_var_7(%arg0: tensor<4x4x8x8xf32>, %arg1: tensor<f32>, %arg2: tensor<i1>, %arg3: tensor<4xf32>, %arg4: tensor<4xf32>) -> tensor<4x4x8x8xf32> {
    %0 = call @_where_8(%arg2, %arg3, %arg4) : (tensor<i1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %1 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %2 = stablehlo.divide %0, %1 : tensor<4xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [1] : (tensor<4xf32>) -> tensor<4x4x8x8xf32>
    %4 = stablehlo.multiply %3, %arg0 : tensor<4x4x8x8xf32>
    %5 = stablehlo.negate %4 : tensor<4x4x8x8xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %6 = stablehlo.reduce(%5 init: %cst) applies stablehlo.add across dimensions = [0, 2, 3] : (tensor<4x4x8x8xf32>, tensor<f32>) -> tensor<4xf32>
    %7 = stablehlo.reshape %6 : (tensor<4xf32>) -> tensor<1x4x1x1xf32>
    %cst_0 = stablehlo.constant dense<2.560000e+02> : tensor<f32>
    %8 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<1x4x1x1xf32>
    %9 = stablehlo.divide %7, %8 : tensor<1x4x1x1xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %10 = stablehlo.reduce(%9 init: %cst_1) applies stablehlo.add across dimensions = [0, 2, 3] : (tensor<1x4x1x1xf32>, tensor<f32>) -> tensor<4xf32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [1] : (tensor<4xf32>) -> tensor<4x4x8x8xf32>
    %12 = stablehlo.add %4, %11 : tensor<4x4x8x8xf32>
    return %12 : tensor<4x4x8x8xf32>
  }
  func.func private @_where_8(%arg0: tensor<i1>, %arg1: tensor<4xf32>, %arg2: tensor<4xf32>) -> tensor<4xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %1 = stablehlo.select %arg0, %arg2, %0 : tensor<i1>, tensor<4xf32>
    return %1 : tensor<4xf32>
  }
}

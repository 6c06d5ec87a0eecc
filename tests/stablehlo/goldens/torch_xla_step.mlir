module @IrToHlo.651 attributes {mhlo.cross_program_prefetches = [], mhlo.input_output_alias = [], mhlo.is_dynamic = false, mhlo.use_auto_spmd_partitioning = false} {
  func.func @main(%arg0: tensor<3xi64>, %arg1: tensor<4xf32>, %arg2: tensor<4x6xf32>, %arg3: tensor<6xf32>, %arg4: tensor<6xf32>, %arg5: tensor<6x12xf32>, %arg6: tensor<3xf32>, %arg7: tensor<3xf32>, %arg8: tensor<3xf32>, %arg9: tensor<3xf32>, %arg10: tensor<3x2x3x3xf32>, %arg11: tensor<3x2x6x6xf32>, %arg12: tensor<6xf32>, %arg13: tensor<f64>, %arg14: tensor<f32>, %arg15: tensor<f32>, %arg16: tensor<f64>, %arg17: tensor<f32>, %arg18: tensor<3x2x3x3xf32>, %arg19: tensor<f32>, %arg20: tensor<3x2x3x3xf32>, %arg21: tensor<f32>, %arg22: tensor<3xf32>, %arg23: tensor<3xf32>, %arg24: tensor<3xf32>, %arg25: tensor<3xf32>, %arg26: tensor<6x12xf32>, %arg27: tensor<6x12xf32>, %arg28: tensor<6xf32>, %arg29: tensor<6xf32>, %arg30: tensor<6xf32>, %arg31: tensor<6xf32>, %arg32: tensor<6xf32>, %arg33: tensor<6xf32>, %arg34: tensor<4x6xf32>, %arg35: tensor<4x6xf32>, %arg36: tensor<4xf32>, %arg37: tensor<4xf32>, %arg38: tensor<i64>) -> (tensor<f32>, tensor<3x2x3x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<6x12xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<4x6xf32>, tensor<4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<i64>, tensor<3x2x3x3xf32>, tensor<3x2x3x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<6x12xf32>, tensor<6x12xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4xf32>, tensor<4xf32>) {
    %c = stablehlo.constant dense<1> : tensor<i64>
    %cst = stablehlo.constant dense<0.899999976> : tensor<3xf32>
    %cst_0 = stablehlo.constant dense<1.000000e-01> : tensor<3xf32>
    %cst_1 = stablehlo.constant dense<0.398942292> : tensor<3x6xf32>
    %cst_2 = stablehlo.constant dense<-5.000000e-01> : tensor<3x6xf32>
    %c_3 = stablehlo.constant dense<-100> : tensor<3xi64>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<3x4xf32>
    %cst_5 = stablehlo.constant dense<1.000000e+00> : tensor<3x4xf32>
    %cst_6 = stablehlo.constant dense<9.99999974E-6> : tensor<3xf32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<3xf32>
    %cst_8 = stablehlo.constant dense<1.000000e+00> : tensor<3xf32>
    %cst_9 = stablehlo.constant dense<1.000000e+00> : tensor<3x6xf32>
    %cst_10 = stablehlo.constant dense<0.707106769> : tensor<3x6xf32>
    %cst_11 = stablehlo.constant dense<5.000000e-01> : tensor<3x6xf32>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<3x3x4x4xf32>
    %cst_13 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_14 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %cst_15 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.convolution(%arg11, %arg10) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<3x2x6x6xf32>, tensor<3x2x3x3xf32>) -> tensor<3x3x4x4xf32>
    %output, %batch_mean, %batch_var = "stablehlo.batch_norm_training"(%0, %arg9, %arg8) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<3x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<3x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>)
    %1 = stablehlo.maximum %output, %cst_12 : tensor<3x3x4x4xf32>
    %2 = "stablehlo.reduce_window"(%1, %cst_14) <{base_dilations = array<i64: 1, 1, 1, 1>, padding = dense<0> : tensor<4x2xi64>, window_dilations = array<i64: 1, 1, 1, 1>, window_dimensions = array<i64: 1, 1, 2, 2>, window_strides = array<i64: 1, 1, 2, 2>}> ({
    ^bb0(%arg39: tensor<f32>, %arg40: tensor<f32>):
      %275 = stablehlo.maximum %arg39, %arg40 : tensor<f32>
      stablehlo.return %275 : tensor<f32>
    }) : (tensor<3x3x4x4xf32>, tensor<f32>) -> tensor<3x3x2x2xf32>
    %3 = stablehlo.reshape %2 : (tensor<3x3x2x2xf32>) -> tensor<3x12xf32>
    %4 = stablehlo.transpose %arg5, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[12,6]{0,1}"} : (tensor<6x12xf32>) -> tensor<12x6xf32>
    %5 = stablehlo.dot_general %3, %4, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x12xf32>, tensor<12x6xf32>) -> tensor<3x6xf32>
    %6 = stablehlo.broadcast_in_dim %arg4, dims = [1] : (tensor<6xf32>) -> tensor<3x6xf32>
    %7 = stablehlo.add %5, %6 : tensor<3x6xf32>
    %8 = stablehlo.multiply %7, %cst_11 : tensor<3x6xf32>
    %9 = stablehlo.multiply %7, %cst_10 : tensor<3x6xf32>
    %10 = stablehlo.custom_call @mhlo.erf(%9) {mhlo.attributes = {}, mhlo.version = 1 : i64} : (tensor<3x6xf32>) -> tensor<3x6xf32>
    %11 = stablehlo.add %10, %cst_9 : tensor<3x6xf32>
    %12 = stablehlo.multiply %8, %11 : tensor<3x6xf32>
    %13 = stablehlo.reshape %12 : (tensor<3x6xf32>) -> tensor<1x3x6xf32>
    %output_16, %batch_mean_17, %batch_var_18 = "stablehlo.batch_norm_training"(%13, %cst_8, %cst_7) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<1x3x6xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<1x3x6xf32>, tensor<3xf32>, tensor<3xf32>)
    %14 = stablehlo.add %batch_var_18, %cst_6 : tensor<3xf32>
    %15 = stablehlo.rsqrt %14 : tensor<3xf32>
    %16 = stablehlo.divide %cst_8, %15 : tensor<3xf32>
    %17 = stablehlo.multiply %16, %16 : tensor<3xf32>
    %18 = stablehlo.subtract %17, %cst_6 : tensor<3xf32>
    %19 = stablehlo.broadcast_in_dim %arg0, dims = [0] : (tensor<3xi64>) -> tensor<3x4xi64>
    %20 = stablehlo.iota dim = 0 : tensor<4xi64>
    %21 = stablehlo.broadcast_in_dim %20, dims = [1] : (tensor<4xi64>) -> tensor<3x4xi64>
    %22 = stablehlo.compare  EQ, %19, %21 : (tensor<3x4xi64>, tensor<3x4xi64>) -> tensor<3x4xi1>
    %23 = stablehlo.select %22, %cst_5, %cst_4 : tensor<3x4xi1>, tensor<3x4xf32>
    %24 = stablehlo.negate %23 : tensor<3x4xf32>
    %25 = stablehlo.compare  NE, %arg0, %c_3 : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi1>
    %26 = stablehlo.broadcast_in_dim %25, dims = [0] : (tensor<3xi1>) -> tensor<3x4xi1>
    %27 = stablehlo.select %26, %cst_5, %cst_4 : tensor<3x4xi1>, tensor<3x4xf32>
    %28 = stablehlo.multiply %27, %23 : tensor<3x4xf32>
    %29 = stablehlo.multiply %24, %28 : tensor<3x4xf32>
    %30 = stablehlo.reduce(%28 init: %cst_15) applies stablehlo.add across dimensions = [0, 1] : (tensor<3x4xf32>, tensor<f32>) -> tensor<f32>
    %31 = stablehlo.compare  NE, %30, %cst_15 : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %32 = stablehlo.select %31, %30, %cst_13 : tensor<i1>, tensor<f32>
    %33 = stablehlo.broadcast_in_dim %32, dims = [] : (tensor<f32>) -> tensor<3x4xf32>
    %34 = stablehlo.divide %29, %33 : tensor<3x4xf32>
    %35 = stablehlo.broadcast_in_dim %arg12, dims = [1] : (tensor<6xf32>) -> tensor<3x6xf32>
    %36 = stablehlo.reshape %output_16 : (tensor<1x3x6xf32>) -> tensor<3x6xf32>
    %37 = stablehlo.broadcast_in_dim %arg3, dims = [1] : (tensor<6xf32>) -> tensor<3x6xf32>
    %38 = stablehlo.multiply %36, %37 : tensor<3x6xf32>
    %39 = stablehlo.add %35, %38 : tensor<3x6xf32>
    %40 = stablehlo.transpose %arg2, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[6,4]{0,1}"} : (tensor<4x6xf32>) -> tensor<6x4xf32>
    %41 = stablehlo.dot_general %39, %40, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x6xf32>, tensor<6x4xf32>) -> tensor<3x4xf32>
    %42 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<4xf32>) -> tensor<3x4xf32>
    %43 = stablehlo.add %41, %42 : tensor<3x4xf32>
    %44 = stablehlo.reduce(%43 init: %cst_14) applies stablehlo.maximum across dimensions = [1] : (tensor<3x4xf32>, tensor<f32>) -> tensor<3xf32>
    %45 = stablehlo.broadcast_in_dim %44, dims = [0] : (tensor<3xf32>) -> tensor<3x4xf32>
    %46 = stablehlo.subtract %43, %45 : tensor<3x4xf32>
    %47 = stablehlo.exponential %46 : tensor<3x4xf32>
    %48 = stablehlo.reduce(%47 init: %cst_15) applies stablehlo.add across dimensions = [1] : (tensor<3x4xf32>, tensor<f32>) -> tensor<3xf32>
    %49 = stablehlo.log %48 : tensor<3xf32>
    %50 = stablehlo.broadcast_in_dim %49, dims = [0] : (tensor<3xf32>) -> tensor<3x4xf32>
    %51 = stablehlo.subtract %46, %50 : tensor<3x4xf32>
    %52 = stablehlo.exponential %51 : tensor<3x4xf32>
    %53 = stablehlo.reduce(%34 init: %cst_15) applies stablehlo.add across dimensions = [1] : (tensor<3x4xf32>, tensor<f32>) -> tensor<3xf32>
    %54 = stablehlo.broadcast_in_dim %53, dims = [0] : (tensor<3xf32>) -> tensor<3x4xf32>
    %55 = stablehlo.multiply %52, %54 : tensor<3x4xf32>
    %56 = stablehlo.subtract %34, %55 : tensor<3x4xf32>
    %57 = stablehlo.dot_general %56, %arg2, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x4xf32>, tensor<4x6xf32>) -> tensor<3x6xf32>
    %58 = stablehlo.multiply %57, %37 : tensor<3x6xf32>
    %59 = stablehlo.reshape %58 : (tensor<3x6xf32>) -> tensor<1x3x6xf32>
    %grad_operand, %grad_scale, %grad_offset = "stablehlo.batch_norm_grad"(%13, %cst_8, %batch_mean_17, %18, %59) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<1x3x6xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<1x3x6xf32>) -> (tensor<1x3x6xf32>, tensor<3xf32>, tensor<3xf32>)
    %60 = stablehlo.add %batch_var, %cst_6 : tensor<3xf32>
    %61 = stablehlo.rsqrt %60 : tensor<3xf32>
    %62 = stablehlo.divide %cst_8, %61 : tensor<3xf32>
    %63 = stablehlo.multiply %62, %62 : tensor<3xf32>
    %64 = stablehlo.subtract %63, %cst_6 : tensor<3xf32>
    %65 = stablehlo.compare  GT, %1, %cst_12 : (tensor<3x3x4x4xf32>, tensor<3x3x4x4xf32>) -> tensor<3x3x4x4xi1>
    %66 = stablehlo.reshape %grad_operand : (tensor<1x3x6xf32>) -> tensor<3x6xf32>
    %67 = stablehlo.multiply %11, %cst_11 : tensor<3x6xf32>
    %68 = stablehlo.multiply %7, %7 : tensor<3x6xf32>
    %69 = stablehlo.multiply %68, %cst_2 : tensor<3x6xf32>
    %70 = stablehlo.exponential %69 : tensor<3x6xf32>
    %71 = stablehlo.multiply %7, %70 : tensor<3x6xf32>
    %72 = stablehlo.multiply %71, %cst_1 : tensor<3x6xf32>
    %73 = stablehlo.add %67, %72 : tensor<3x6xf32>
    %74 = stablehlo.multiply %66, %73 : tensor<3x6xf32>
    %75 = stablehlo.dot_general %74, %arg5, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x6xf32>, tensor<6x12xf32>) -> tensor<3x12xf32>
    %76 = stablehlo.reshape %75 : (tensor<3x12xf32>) -> tensor<3x3x2x2xf32>
    %77 = "stablehlo.select_and_scatter"(%1, %76, %cst_15) <{padding = dense<0> : tensor<4x2xi64>, window_dimensions = array<i64: 1, 1, 2, 2>, window_strides = array<i64: 1, 1, 2, 2>}> ({
    ^bb0(%arg39: tensor<f32>, %arg40: tensor<f32>):
      %275 = stablehlo.compare  GE, %arg39, %arg40 : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %275 : tensor<i1>
    }, {
    ^bb0(%arg39: tensor<f32>, %arg40: tensor<f32>):
      %275 = stablehlo.add %arg39, %arg40 : tensor<f32>
      stablehlo.return %275 : tensor<f32>
    }) : (tensor<3x3x4x4xf32>, tensor<3x3x2x2xf32>, tensor<f32>) -> tensor<3x3x4x4xf32>
    %78 = stablehlo.select %65, %77, %cst_12 : tensor<3x3x4x4xi1>, tensor<3x3x4x4xf32>
    %grad_operand_19, %grad_scale_20, %grad_offset_21 = "stablehlo.batch_norm_grad"(%0, %arg9, %batch_mean, %64, %78) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<3x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3x3x4x4xf32>) -> (tensor<3x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>)
    %79 = stablehlo.compare  NE, %23, %cst_5 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xi1>
    %80 = stablehlo.multiply %24, %51 : tensor<3x4xf32>
    %81 = stablehlo.select %79, %cst_4, %80 : tensor<3x4xi1>, tensor<3x4xf32>
    %82 = stablehlo.multiply %81, %28 : tensor<3x4xf32>
    %83 = stablehlo.reduce(%82 init: %cst_15) applies stablehlo.add across dimensions = [0, 1] : (tensor<3x4xf32>, tensor<f32>) -> tensor<f32>
    %84 = stablehlo.divide %83, %30 : tensor<f32>
    %85 = stablehlo.broadcast_in_dim %arg21, dims = [] : (tensor<f32>) -> tensor<3x2x3x3xf32>
    %86 = stablehlo.multiply %arg10, %85 : tensor<3x2x3x3xf32>
    %87 = stablehlo.broadcast_in_dim %arg19, dims = [] : (tensor<f32>) -> tensor<3x2x3x3xf32>
    %88 = stablehlo.convolution(%arg11, %grad_operand_19) dim_numbers = [f, b, 0, 1]x[i, o, 0, 1]->[0, 1, b, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<3x2x6x6xf32>, tensor<3x3x4x4xf32>) -> tensor<3x3x2x3xf32>
    %89 = stablehlo.transpose %88, dims = [3, 2, 0, 1] {result_layout = dense<[0, 1, 3, 2]> : tensor<4xindex>, xla_shape = "f32[3,2,3,3]{0,1,3,2}"} : (tensor<3x3x2x3xf32>) -> tensor<3x2x3x3xf32>
    %90 = stablehlo.subtract %89, %arg20 {result_layout = dense<[0, 1, 3, 2]> : tensor<4xindex>, xla_shape = "f32[3,2,3,3]{0,1,3,2}"} : tensor<3x2x3x3xf32>
    %91 = stablehlo.multiply %87, %90 : tensor<3x2x3x3xf32>
    %92 = stablehlo.add %arg20, %91 : tensor<3x2x3x3xf32>
    %93 = stablehlo.broadcast_in_dim %arg17, dims = [] : (tensor<f32>) -> tensor<3x2x3x3xf32>
    %94 = stablehlo.multiply %arg18, %93 : tensor<3x2x3x3xf32>
    %95 = stablehlo.multiply %89, %89 {result_layout = dense<[0, 1, 3, 2]> : tensor<4xindex>, xla_shape = "f32[3,2,3,3]{0,1,3,2}"} : tensor<3x2x3x3xf32>
    %96 = stablehlo.convert %arg16 : (tensor<f64>) -> tensor<f32>
    %97 = stablehlo.broadcast_in_dim %96, dims = [] : (tensor<f32>) -> tensor<3x2x3x3xf32>
    %98 = stablehlo.multiply %95, %97 : tensor<3x2x3x3xf32>
    %99 = stablehlo.add %94, %98 : tensor<3x2x3x3xf32>
    %100 = stablehlo.sqrt %99 : tensor<3x2x3x3xf32>
    %101 = stablehlo.broadcast_in_dim %arg15, dims = [] : (tensor<f32>) -> tensor<3x2x3x3xf32>
    %102 = stablehlo.divide %100, %101 : tensor<3x2x3x3xf32>
    %103 = stablehlo.broadcast_in_dim %arg14, dims = [] : (tensor<f32>) -> tensor<3x2x3x3xf32>
    %104 = stablehlo.add %102, %103 : tensor<3x2x3x3xf32>
    %105 = stablehlo.divide %92, %104 : tensor<3x2x3x3xf32>
    %106 = stablehlo.convert %arg13 : (tensor<f64>) -> tensor<f32>
    %107 = stablehlo.broadcast_in_dim %106, dims = [] : (tensor<f32>) -> tensor<3x2x3x3xf32>
    %108 = stablehlo.multiply %105, %107 : tensor<3x2x3x3xf32>
    %109 = stablehlo.add %86, %108 : tensor<3x2x3x3xf32>
    %110 = stablehlo.broadcast_in_dim %arg21, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %111 = stablehlo.multiply %arg9, %110 : tensor<3xf32>
    %112 = stablehlo.broadcast_in_dim %arg19, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %113 = stablehlo.subtract %grad_scale_20, %arg23 : tensor<3xf32>
    %114 = stablehlo.multiply %112, %113 : tensor<3xf32>
    %115 = stablehlo.add %arg23, %114 : tensor<3xf32>
    %116 = stablehlo.broadcast_in_dim %arg17, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %117 = stablehlo.multiply %arg22, %116 : tensor<3xf32>
    %118 = stablehlo.multiply %grad_scale_20, %grad_scale_20 : tensor<3xf32>
    %119 = stablehlo.broadcast_in_dim %96, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %120 = stablehlo.multiply %118, %119 : tensor<3xf32>
    %121 = stablehlo.add %117, %120 : tensor<3xf32>
    %122 = stablehlo.sqrt %121 : tensor<3xf32>
    %123 = stablehlo.broadcast_in_dim %arg15, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %124 = stablehlo.divide %122, %123 : tensor<3xf32>
    %125 = stablehlo.broadcast_in_dim %arg14, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %126 = stablehlo.add %124, %125 : tensor<3xf32>
    %127 = stablehlo.divide %115, %126 : tensor<3xf32>
    %128 = stablehlo.broadcast_in_dim %106, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %129 = stablehlo.multiply %127, %128 : tensor<3xf32>
    %130 = stablehlo.add %111, %129 : tensor<3xf32>
    %131 = stablehlo.multiply %arg8, %110 : tensor<3xf32>
    %132 = stablehlo.subtract %grad_offset_21, %arg25 : tensor<3xf32>
    %133 = stablehlo.multiply %112, %132 : tensor<3xf32>
    %134 = stablehlo.add %arg25, %133 : tensor<3xf32>
    %135 = stablehlo.multiply %arg24, %116 : tensor<3xf32>
    %136 = stablehlo.multiply %grad_offset_21, %grad_offset_21 : tensor<3xf32>
    %137 = stablehlo.multiply %136, %119 : tensor<3xf32>
    %138 = stablehlo.add %135, %137 : tensor<3xf32>
    %139 = stablehlo.sqrt %138 : tensor<3xf32>
    %140 = stablehlo.divide %139, %123 : tensor<3xf32>
    %141 = stablehlo.add %140, %125 : tensor<3xf32>
    %142 = stablehlo.divide %134, %141 : tensor<3xf32>
    %143 = stablehlo.multiply %142, %128 : tensor<3xf32>
    %144 = stablehlo.add %131, %143 : tensor<3xf32>
    %145 = stablehlo.broadcast_in_dim %arg21, dims = [] : (tensor<f32>) -> tensor<6x12xf32>
    %146 = stablehlo.multiply %arg5, %145 : tensor<6x12xf32>
    %147 = stablehlo.broadcast_in_dim %arg19, dims = [] : (tensor<f32>) -> tensor<6x12xf32>
    %148 = stablehlo.transpose %3, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[12,3]{0,1}"} : (tensor<3x12xf32>) -> tensor<12x3xf32>
    %149 = stablehlo.dot_general %148, %74, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<12x3xf32>, tensor<3x6xf32>) -> tensor<12x6xf32>
    %150 = stablehlo.transpose %149, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[6,12]{0,1}"} : (tensor<12x6xf32>) -> tensor<6x12xf32>
    %151 = stablehlo.subtract %150, %arg27 {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[6,12]{0,1}"} : tensor<6x12xf32>
    %152 = stablehlo.multiply %147, %151 : tensor<6x12xf32>
    %153 = stablehlo.add %arg27, %152 : tensor<6x12xf32>
    %154 = stablehlo.broadcast_in_dim %arg17, dims = [] : (tensor<f32>) -> tensor<6x12xf32>
    %155 = stablehlo.multiply %arg26, %154 : tensor<6x12xf32>
    %156 = stablehlo.multiply %150, %150 {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[6,12]{0,1}"} : tensor<6x12xf32>
    %157 = stablehlo.broadcast_in_dim %96, dims = [] : (tensor<f32>) -> tensor<6x12xf32>
    %158 = stablehlo.multiply %156, %157 : tensor<6x12xf32>
    %159 = stablehlo.add %155, %158 : tensor<6x12xf32>
    %160 = stablehlo.sqrt %159 : tensor<6x12xf32>
    %161 = stablehlo.broadcast_in_dim %arg15, dims = [] : (tensor<f32>) -> tensor<6x12xf32>
    %162 = stablehlo.divide %160, %161 : tensor<6x12xf32>
    %163 = stablehlo.broadcast_in_dim %arg14, dims = [] : (tensor<f32>) -> tensor<6x12xf32>
    %164 = stablehlo.add %162, %163 : tensor<6x12xf32>
    %165 = stablehlo.divide %153, %164 : tensor<6x12xf32>
    %166 = stablehlo.broadcast_in_dim %106, dims = [] : (tensor<f32>) -> tensor<6x12xf32>
    %167 = stablehlo.multiply %165, %166 : tensor<6x12xf32>
    %168 = stablehlo.add %146, %167 : tensor<6x12xf32>
    %169 = stablehlo.broadcast_in_dim %arg21, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %170 = stablehlo.multiply %arg4, %169 : tensor<6xf32>
    %171 = stablehlo.broadcast_in_dim %arg19, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %172 = stablehlo.reduce(%74 init: %cst_15) applies stablehlo.add across dimensions = [0] : (tensor<3x6xf32>, tensor<f32>) -> tensor<6xf32>
    %173 = stablehlo.subtract %172, %arg29 : tensor<6xf32>
    %174 = stablehlo.multiply %171, %173 : tensor<6xf32>
    %175 = stablehlo.add %arg29, %174 : tensor<6xf32>
    %176 = stablehlo.broadcast_in_dim %arg17, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %177 = stablehlo.multiply %arg28, %176 : tensor<6xf32>
    %178 = stablehlo.multiply %172, %172 : tensor<6xf32>
    %179 = stablehlo.broadcast_in_dim %96, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %180 = stablehlo.multiply %178, %179 : tensor<6xf32>
    %181 = stablehlo.add %177, %180 : tensor<6xf32>
    %182 = stablehlo.sqrt %181 : tensor<6xf32>
    %183 = stablehlo.broadcast_in_dim %arg15, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %184 = stablehlo.divide %182, %183 : tensor<6xf32>
    %185 = stablehlo.broadcast_in_dim %arg14, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %186 = stablehlo.add %184, %185 : tensor<6xf32>
    %187 = stablehlo.divide %175, %186 : tensor<6xf32>
    %188 = stablehlo.broadcast_in_dim %106, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %189 = stablehlo.multiply %187, %188 : tensor<6xf32>
    %190 = stablehlo.add %170, %189 : tensor<6xf32>
    %191 = stablehlo.multiply %arg3, %169 : tensor<6xf32>
    %192 = stablehlo.multiply %57, %36 : tensor<3x6xf32>
    %193 = stablehlo.reduce(%192 init: %cst_15) applies stablehlo.add across dimensions = [0] : (tensor<3x6xf32>, tensor<f32>) -> tensor<6xf32>
    %194 = stablehlo.subtract %193, %arg31 : tensor<6xf32>
    %195 = stablehlo.multiply %171, %194 : tensor<6xf32>
    %196 = stablehlo.add %arg31, %195 : tensor<6xf32>
    %197 = stablehlo.multiply %arg30, %176 : tensor<6xf32>
    %198 = stablehlo.multiply %193, %193 : tensor<6xf32>
    %199 = stablehlo.multiply %198, %179 : tensor<6xf32>
    %200 = stablehlo.add %197, %199 : tensor<6xf32>
    %201 = stablehlo.sqrt %200 : tensor<6xf32>
    %202 = stablehlo.divide %201, %183 : tensor<6xf32>
    %203 = stablehlo.add %202, %185 : tensor<6xf32>
    %204 = stablehlo.divide %196, %203 : tensor<6xf32>
    %205 = stablehlo.multiply %204, %188 : tensor<6xf32>
    %206 = stablehlo.add %191, %205 : tensor<6xf32>
    %207 = stablehlo.multiply %arg12, %169 : tensor<6xf32>
    %208 = stablehlo.reduce(%57 init: %cst_15) applies stablehlo.add across dimensions = [0] : (tensor<3x6xf32>, tensor<f32>) -> tensor<6xf32>
    %209 = stablehlo.subtract %208, %arg33 : tensor<6xf32>
    %210 = stablehlo.multiply %171, %209 : tensor<6xf32>
    %211 = stablehlo.add %arg33, %210 : tensor<6xf32>
    %212 = stablehlo.multiply %arg32, %176 : tensor<6xf32>
    %213 = stablehlo.multiply %208, %208 : tensor<6xf32>
    %214 = stablehlo.multiply %213, %179 : tensor<6xf32>
    %215 = stablehlo.add %212, %214 : tensor<6xf32>
    %216 = stablehlo.sqrt %215 : tensor<6xf32>
    %217 = stablehlo.divide %216, %183 : tensor<6xf32>
    %218 = stablehlo.add %217, %185 : tensor<6xf32>
    %219 = stablehlo.divide %211, %218 : tensor<6xf32>
    %220 = stablehlo.multiply %219, %188 : tensor<6xf32>
    %221 = stablehlo.add %207, %220 : tensor<6xf32>
    %222 = stablehlo.broadcast_in_dim %arg21, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %223 = stablehlo.multiply %arg2, %222 : tensor<4x6xf32>
    %224 = stablehlo.broadcast_in_dim %arg19, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %225 = stablehlo.transpose %39, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[6,3]{0,1}"} : (tensor<3x6xf32>) -> tensor<6x3xf32>
    %226 = stablehlo.dot_general %225, %56, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<6x3xf32>, tensor<3x4xf32>) -> tensor<6x4xf32>
    %227 = stablehlo.transpose %226, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[4,6]{0,1}"} : (tensor<6x4xf32>) -> tensor<4x6xf32>
    %228 = stablehlo.subtract %227, %arg35 {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[4,6]{0,1}"} : tensor<4x6xf32>
    %229 = stablehlo.multiply %224, %228 : tensor<4x6xf32>
    %230 = stablehlo.add %arg35, %229 : tensor<4x6xf32>
    %231 = stablehlo.broadcast_in_dim %arg17, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %232 = stablehlo.multiply %arg34, %231 : tensor<4x6xf32>
    %233 = stablehlo.multiply %227, %227 {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[4,6]{0,1}"} : tensor<4x6xf32>
    %234 = stablehlo.broadcast_in_dim %96, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %235 = stablehlo.multiply %233, %234 : tensor<4x6xf32>
    %236 = stablehlo.add %232, %235 : tensor<4x6xf32>
    %237 = stablehlo.sqrt %236 : tensor<4x6xf32>
    %238 = stablehlo.broadcast_in_dim %arg15, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %239 = stablehlo.divide %237, %238 : tensor<4x6xf32>
    %240 = stablehlo.broadcast_in_dim %arg14, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %241 = stablehlo.add %239, %240 : tensor<4x6xf32>
    %242 = stablehlo.divide %230, %241 : tensor<4x6xf32>
    %243 = stablehlo.broadcast_in_dim %106, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %244 = stablehlo.multiply %242, %243 : tensor<4x6xf32>
    %245 = stablehlo.add %223, %244 : tensor<4x6xf32>
    %246 = stablehlo.broadcast_in_dim %arg21, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %247 = stablehlo.multiply %arg1, %246 : tensor<4xf32>
    %248 = stablehlo.broadcast_in_dim %arg19, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %249 = stablehlo.reduce(%56 init: %cst_15) applies stablehlo.add across dimensions = [0] : (tensor<3x4xf32>, tensor<f32>) -> tensor<4xf32>
    %250 = stablehlo.subtract %249, %arg37 : tensor<4xf32>
    %251 = stablehlo.multiply %248, %250 : tensor<4xf32>
    %252 = stablehlo.add %arg37, %251 : tensor<4xf32>
    %253 = stablehlo.broadcast_in_dim %arg17, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %254 = stablehlo.multiply %arg36, %253 : tensor<4xf32>
    %255 = stablehlo.multiply %249, %249 : tensor<4xf32>
    %256 = stablehlo.broadcast_in_dim %96, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %257 = stablehlo.multiply %255, %256 : tensor<4xf32>
    %258 = stablehlo.add %254, %257 : tensor<4xf32>
    %259 = stablehlo.sqrt %258 : tensor<4xf32>
    %260 = stablehlo.broadcast_in_dim %arg15, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %261 = stablehlo.divide %259, %260 : tensor<4xf32>
    %262 = stablehlo.broadcast_in_dim %arg14, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %263 = stablehlo.add %261, %262 : tensor<4xf32>
    %264 = stablehlo.divide %252, %263 : tensor<4xf32>
    %265 = stablehlo.broadcast_in_dim %106, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %266 = stablehlo.multiply %264, %265 : tensor<4xf32>
    %267 = stablehlo.add %247, %266 : tensor<4xf32>
    %268 = stablehlo.multiply %batch_mean, %cst_0 : tensor<3xf32>
    %269 = stablehlo.multiply %arg7, %cst : tensor<3xf32>
    %270 = stablehlo.add %268, %269 : tensor<3xf32>
    %271 = stablehlo.multiply %batch_var, %cst_0 : tensor<3xf32>
    %272 = stablehlo.multiply %arg6, %cst : tensor<3xf32>
    %273 = stablehlo.add %271, %272 : tensor<3xf32>
    %274 = stablehlo.add %arg38, %c : tensor<i64>
    return %84, %109, %130, %144, %168, %190, %206, %221, %245, %267, %270, %273, %274, %92, %99, %115, %121, %134, %138, %153, %159, %175, %181, %196, %200, %211, %215, %230, %236, %252, %258 : tensor<f32>, tensor<3x2x3x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<6x12xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<4x6xf32>, tensor<4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<i64>, tensor<3x2x3x3xf32>, tensor<3x2x3x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<6x12xf32>, tensor<6x12xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4xf32>, tensor<4xf32>
  }
}

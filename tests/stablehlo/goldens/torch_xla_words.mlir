module @IrToHlo.214 attributes {mhlo.cross_program_prefetches = [], mhlo.input_output_alias = [], mhlo.is_dynamic = false, mhlo.use_auto_spmd_partitioning = false} {
  func.func @main(%arg0: tensor<8xf32>, %arg1: tensor<8xf32>, %arg2: tensor<8x12xf32>, %arg3: tensor<12xf32>, %arg4: tensor<12x8xf32>, %arg5: tensor<8xf32>, %arg6: tensor<8xf32>, %arg7: tensor<8x8xf32>, %arg8: tensor<24xf32>, %arg9: tensor<24x8xf32>, %arg10: tensor<2x3xi64>, %arg11: tensor<7x8xf32>, %arg12: tensor<8xf32>, %arg13: tensor<8xf32>) -> tensor<2x3x8xf32> {
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<2x3x12xf32>
    %cst_0 = stablehlo.constant dense<0.707106769> : tensor<2x3x12xf32>
    %cst_1 = stablehlo.constant dense<5.000000e-01> : tensor<2x3x12xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<6xf32>
    %cst_3 = stablehlo.constant dense<1.000000e+00> : tensor<6xf32>
    %cst_4 = stablehlo.constant dense<0.707106769> : tensor<2x2x4x3xf32>
    %cst_5 = stablehlo.constant dense<0.707106769> : tensor<2x2x3x4xf32>
    %cst_6 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.reshape %arg10 : (tensor<2x3xi64>) -> tensor<6xi64>
    %1 = stablehlo.convert %0 : (tensor<6xi64>) -> tensor<6xui32>
    %2 = "stablehlo.gather"(%arg11, %1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 8>}> : (tensor<7x8xf32>, tensor<6xui32>) -> tensor<6x8xf32>
    %3 = stablehlo.reshape %2 : (tensor<6x8xf32>) -> tensor<2x3x8xf32>
    %4 = stablehlo.transpose %3, dims = [1, 0, 2] {result_layout = dense<[2, 0, 1]> : tensor<3xindex>, xla_shape = "f32[3,2,8]{2,0,1}"} : (tensor<2x3x8xf32>) -> tensor<3x2x8xf32>
    %5 = stablehlo.transpose %arg9, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[8,24]{0,1}"} : (tensor<24x8xf32>) -> tensor<8x24xf32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [1, 2] : (tensor<8x24xf32>) -> tensor<3x8x24xf32>
    %7 = stablehlo.dot_general %4, %6, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<3x2x8xf32>, tensor<3x8x24xf32>) -> tensor<3x2x24xf32>
    %8 = stablehlo.broadcast_in_dim %arg8, dims = [2] : (tensor<24xf32>) -> tensor<3x2x24xf32>
    %9 = stablehlo.add %7, %8 : tensor<3x2x24xf32>
    %10 = stablehlo.reshape %9 : (tensor<3x2x24xf32>) -> tensor<1x3x2x3x8xf32>
    %11 = stablehlo.transpose %10, dims = [3, 1, 2, 0, 4] {result_layout = dense<[4, 0, 2, 1, 3]> : tensor<5xindex>, xla_shape = "f32[3,3,2,1,8]{4,0,2,1,3}"} : (tensor<1x3x2x3x8xf32>) -> tensor<3x3x2x1x8xf32>
    %12 = stablehlo.reshape %11 : (tensor<3x3x2x1x8xf32>) -> tensor<3x3x2x8xf32>
    %13 = stablehlo.slice %12 [0:1, 0:3, 0:2, 0:8] : (tensor<3x3x2x8xf32>) -> tensor<1x3x2x8xf32>
    %14 = stablehlo.reshape %13 : (tensor<1x3x2x8xf32>) -> tensor<3x4x4xf32>
    %15 = stablehlo.transpose %14, dims = [1, 0, 2] {result_layout = dense<[2, 0, 1]> : tensor<3xindex>, xla_shape = "f32[4,3,4]{2,0,1}"} : (tensor<3x4x4xf32>) -> tensor<4x3x4xf32>
    %16 = stablehlo.reshape %15 : (tensor<4x3x4xf32>) -> tensor<2x2x3x4xf32>
    %17 = stablehlo.multiply %16, %cst_5 : tensor<2x2x3x4xf32>
    %18 = stablehlo.reshape %17 : (tensor<2x2x3x4xf32>) -> tensor<4x3x4xf32>
    %19 = stablehlo.slice %12 [1:2, 0:3, 0:2, 0:8] : (tensor<3x3x2x8xf32>) -> tensor<1x3x2x8xf32>
    %20 = stablehlo.reshape %19 : (tensor<1x3x2x8xf32>) -> tensor<3x4x4xf32>
    %21 = stablehlo.transpose %20, dims = [1, 0, 2] {result_layout = dense<[2, 0, 1]> : tensor<3xindex>, xla_shape = "f32[4,3,4]{2,0,1}"} : (tensor<3x4x4xf32>) -> tensor<4x3x4xf32>
    %22 = stablehlo.reshape %21 : (tensor<4x3x4xf32>) -> tensor<2x2x3x4xf32>
    %23 = stablehlo.transpose %22, dims = [0, 1, 3, 2] {result_layout = dense<[2, 3, 1, 0]> : tensor<4xindex>, xla_shape = "f32[2,2,4,3]{2,3,1,0}"} : (tensor<2x2x3x4xf32>) -> tensor<2x2x4x3xf32>
    %24 = stablehlo.multiply %23, %cst_4 : tensor<2x2x4x3xf32>
    %25 = stablehlo.reshape %24 : (tensor<2x2x4x3xf32>) -> tensor<4x4x3xf32>
    %26 = stablehlo.dot_general %18, %25, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x3x4xf32>, tensor<4x4x3xf32>) -> tensor<4x3x3xf32>
    %27 = stablehlo.reshape %26 : (tensor<4x3x3xf32>) -> tensor<2x2x3x3xf32>
    %28 = stablehlo.reduce(%27 init: %cst_6) applies stablehlo.maximum across dimensions = [3] : (tensor<2x2x3x3xf32>, tensor<f32>) -> tensor<2x2x3xf32>
    %29 = stablehlo.broadcast_in_dim %28, dims = [0, 1, 2] : (tensor<2x2x3xf32>) -> tensor<2x2x3x3xf32>
    %30 = stablehlo.subtract %27, %29 : tensor<2x2x3x3xf32>
    %31 = stablehlo.exponential %30 : tensor<2x2x3x3xf32>
    %32 = stablehlo.reduce(%31 init: %cst_7) applies stablehlo.add across dimensions = [3] : (tensor<2x2x3x3xf32>, tensor<f32>) -> tensor<2x2x3xf32>
    %33 = stablehlo.broadcast_in_dim %32, dims = [0, 1, 2] : (tensor<2x2x3xf32>) -> tensor<2x2x3x3xf32>
    %34 = stablehlo.divide %31, %33 : tensor<2x2x3x3xf32>
    %35 = stablehlo.reshape %34 : (tensor<2x2x3x3xf32>) -> tensor<4x3x3xf32>
    %36 = stablehlo.slice %12 [2:3, 0:3, 0:2, 0:8] : (tensor<3x3x2x8xf32>) -> tensor<1x3x2x8xf32>
    %37 = stablehlo.reshape %36 : (tensor<1x3x2x8xf32>) -> tensor<3x4x4xf32>
    %38 = stablehlo.transpose %37, dims = [1, 0, 2] {result_layout = dense<[2, 0, 1]> : tensor<3xindex>, xla_shape = "f32[4,3,4]{2,0,1}"} : (tensor<3x4x4xf32>) -> tensor<4x3x4xf32>
    %39 = stablehlo.dot_general %35, %38, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x3x3xf32>, tensor<4x3x4xf32>) -> tensor<4x3x4xf32>
    %40 = stablehlo.reshape %39 : (tensor<4x3x4xf32>) -> tensor<2x2x3x4xf32>
    %41 = stablehlo.transpose %40, dims = [2, 0, 1, 3] {result_layout = dense<[3, 0, 2, 1]> : tensor<4xindex>, xla_shape = "f32[3,2,2,4]{3,0,2,1}"} : (tensor<2x2x3x4xf32>) -> tensor<3x2x2x4xf32>
    %42 = stablehlo.reshape %41 : (tensor<3x2x2x4xf32>) -> tensor<6x8xf32>
    %43 = stablehlo.transpose %arg7, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[8,8]{0,1}"} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %44 = stablehlo.dot_general %42, %43, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<6x8xf32>, tensor<8x8xf32>) -> tensor<6x8xf32>
    %45 = stablehlo.broadcast_in_dim %arg6, dims = [1] : (tensor<8xf32>) -> tensor<6x8xf32>
    %46 = stablehlo.add %44, %45 : tensor<6x8xf32>
    %47 = stablehlo.reshape %46 : (tensor<6x8xf32>) -> tensor<3x2x8xf32>
    %48 = stablehlo.transpose %47, dims = [1, 0, 2] {result_layout = dense<[2, 0, 1]> : tensor<3xindex>, xla_shape = "f32[2,3,8]{2,0,1}"} : (tensor<3x2x8xf32>) -> tensor<2x3x8xf32>
    %49 = stablehlo.add %3, %48 : tensor<2x3x8xf32>
    %50 = stablehlo.reshape %49 : (tensor<2x3x8xf32>) -> tensor<1x6x8xf32>
    %output, %batch_mean, %batch_var = "stablehlo.batch_norm_training"(%50, %cst_3, %cst_2) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<1x6x8xf32>, tensor<6xf32>, tensor<6xf32>) -> (tensor<1x6x8xf32>, tensor<6xf32>, tensor<6xf32>)
    %51 = stablehlo.broadcast_in_dim %arg12, dims = [2] : (tensor<8xf32>) -> tensor<2x3x8xf32>
    %52 = stablehlo.reshape %output : (tensor<1x6x8xf32>) -> tensor<2x3x8xf32>
    %53 = stablehlo.broadcast_in_dim %arg5, dims = [2] : (tensor<8xf32>) -> tensor<2x3x8xf32>
    %54 = stablehlo.multiply %52, %53 : tensor<2x3x8xf32>
    %55 = stablehlo.add %51, %54 : tensor<2x3x8xf32>
    %56 = stablehlo.reshape %55 : (tensor<2x3x8xf32>) -> tensor<6x8xf32>
    %57 = stablehlo.transpose %arg4, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[8,12]{0,1}"} : (tensor<12x8xf32>) -> tensor<8x12xf32>
    %58 = stablehlo.dot_general %56, %57, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<6x8xf32>, tensor<8x12xf32>) -> tensor<6x12xf32>
    %59 = stablehlo.broadcast_in_dim %arg3, dims = [1] : (tensor<12xf32>) -> tensor<6x12xf32>
    %60 = stablehlo.add %58, %59 : tensor<6x12xf32>
    %61 = stablehlo.reshape %60 : (tensor<6x12xf32>) -> tensor<2x3x12xf32>
    %62 = stablehlo.multiply %61, %cst_1 : tensor<2x3x12xf32>
    %63 = stablehlo.multiply %61, %cst_0 : tensor<2x3x12xf32>
    %64 = stablehlo.custom_call @mhlo.erf(%63) {mhlo.attributes = {}, mhlo.version = 1 : i64} : (tensor<2x3x12xf32>) -> tensor<2x3x12xf32>
    %65 = stablehlo.add %64, %cst : tensor<2x3x12xf32>
    %66 = stablehlo.multiply %62, %65 : tensor<2x3x12xf32>
    %67 = stablehlo.reshape %66 : (tensor<2x3x12xf32>) -> tensor<6x12xf32>
    %68 = stablehlo.transpose %arg2, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[12,8]{0,1}"} : (tensor<8x12xf32>) -> tensor<12x8xf32>
    %69 = stablehlo.dot_general %67, %68, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<6x12xf32>, tensor<12x8xf32>) -> tensor<6x8xf32>
    %70 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<8xf32>) -> tensor<6x8xf32>
    %71 = stablehlo.add %69, %70 : tensor<6x8xf32>
    %72 = stablehlo.reshape %71 : (tensor<6x8xf32>) -> tensor<2x3x8xf32>
    %73 = stablehlo.add %55, %72 : tensor<2x3x8xf32>
    %74 = stablehlo.reshape %73 : (tensor<2x3x8xf32>) -> tensor<1x6x8xf32>
    %output_8, %batch_mean_9, %batch_var_10 = "stablehlo.batch_norm_training"(%74, %cst_3, %cst_2) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<1x6x8xf32>, tensor<6xf32>, tensor<6xf32>) -> (tensor<1x6x8xf32>, tensor<6xf32>, tensor<6xf32>)
    %75 = stablehlo.broadcast_in_dim %arg13, dims = [2] : (tensor<8xf32>) -> tensor<2x3x8xf32>
    %76 = stablehlo.reshape %output_8 : (tensor<1x6x8xf32>) -> tensor<2x3x8xf32>
    %77 = stablehlo.broadcast_in_dim %arg0, dims = [2] : (tensor<8xf32>) -> tensor<2x3x8xf32>
    %78 = stablehlo.multiply %76, %77 : tensor<2x3x8xf32>
    %79 = stablehlo.add %75, %78 : tensor<2x3x8xf32>
    return %79 : tensor<2x3x8xf32>
  }
}

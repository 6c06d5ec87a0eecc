module @IrToHlo.2244 attributes {mhlo.cross_program_prefetches = [], mhlo.input_output_alias = [], mhlo.is_dynamic = false, mhlo.use_auto_spmd_partitioning = false} {
  func.func @main(%arg0: tensor<3x4xf32>, %arg1: tensor<3xi64>, %arg2: tensor<3x3xf32>) -> (tensor<3x4xf32>, tensor<3x4xi64>, tensor<3x2xf32>, tensor<3x2xi64>, tensor<3xi64>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x3xf32>, tensor<3x4xf32>, tensor<1x1x5x7xf32>, tensor<3x3xf32>, tensor<3xf32>, tensor<3x3xf32>, tensor<3xf32>) {
    %cst = stablehlo.constant dense<9.99999997E-7> : tensor<3x3xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<3x3xf32>
    %c = stablehlo.constant dense<-1> : tensor<3xi32>
    %cst_1 = stablehlo.constant dense<5.000000e-01> : tensor<7x3xf32>
    %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<7xf32>
    %cst_3 = stablehlo.constant dense<0.571428597> : tensor<7xf32>
    %cst_4 = stablehlo.constant dense<5.000000e-01> : tensor<7xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<7xf32>
    %cst_6 = stablehlo.constant dense<1.000000e+00> : tensor<7x3xf32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<7x3xf32>
    %cst_8 = stablehlo.constant dense<5.000000e-01> : tensor<5x3xf32>
    %cst_9 = stablehlo.constant dense<1.000000e+00> : tensor<5xf32>
    %cst_10 = stablehlo.constant dense<6.000000e-01> : tensor<5xf32>
    %cst_11 = stablehlo.constant dense<5.000000e-01> : tensor<5xf32>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<5xf32>
    %cst_13 = stablehlo.constant dense<1.000000e+00> : tensor<5x3xf32>
    %cst_14 = stablehlo.constant dense<0.000000e+00> : tensor<5x3xf32>
    %cst_15 = stablehlo.constant dense<1.000000e+00> : tensor<3x4xf32>
    %c_16 = stablehlo.constant dense<3> : tensor<3xi64>
    %c_17 = stablehlo.constant dense<0> : tensor<3xi64>
    %cst_18 = stablehlo.constant dense<-1.000000e+00> : tensor<1x1xf32>
    %cst_19 = stablehlo.constant dense<0.000000e+00> : tensor<3xf32>
    %cst_20 = stablehlo.constant dense<0.000000e+00> : tensor<3x3xf32>
    %c_21 = stablehlo.constant dense<2> : tensor<3x1xi32>
    %cst_22 = stablehlo.constant dense<9.99999997E-7> : tensor<1xf32>
    %cst_23 = stablehlo.constant dense<9.99999997E-7> : tensor<1x1xf32>
    %c_24 = stablehlo.constant dense<1> : tensor<3x1xi32>
    %cst_25 = stablehlo.constant dense<1.000000e+00> : tensor<1x3xf32>
    %cst_26 = stablehlo.constant dense<0.000000e+00> : tensor<1x3xf32>
    %cst_27 = stablehlo.constant dense<1.000000e+00> : tensor<3x1xf32>
    %cst_28 = stablehlo.constant dense<1.000000e+00> : tensor<1x1xf32>
    %cst_29 = stablehlo.constant dense<2.000000e+00> : tensor<1x1xf32>
    %cst_30 = stablehlo.constant dense<0.000000e+00> : tensor<1x1xf32>
    %cst_31 = stablehlo.constant dense<0.000000e+00> : tensor<3x1xf32>
    %c_32 = stablehlo.constant dense<[0, 1, 2]> : tensor<3xi64>
    %cst_33 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %c_34 = stablehlo.constant dense<3> : tensor<i32>
    %c_35 = stablehlo.constant dense<false> : tensor<i1>
    %c_36 = stablehlo.constant dense<100> : tensor<i32>
    %c_37 = stablehlo.constant dense<2> : tensor<i32>
    %cst_38 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %c_39 = stablehlo.constant dense<1> : tensor<i32>
    %c_40 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.iota dim = 0 : tensor<3xui32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<3xui32>) -> tensor<3x3xui32>
    %2 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<3xui32>) -> tensor<3x3xui32>
    %3 = stablehlo.compare  EQ, %1, %2 : (tensor<3x3xui32>, tensor<3x3xui32>) -> tensor<3x3xi1>
    %4 = stablehlo.convert %3 : (tensor<3x3xi1>) -> tensor<3x3xf32>
    %5:4 = stablehlo.while(%iterArg = %c_40, %iterArg_41 = %4, %iterArg_42 = %4, %iterArg_43 = %arg2) : tensor<i32>, tensor<3x3xf32>, tensor<3x3xf32>, tensor<3x3xf32>
    cond {
      %203 = stablehlo.compare  LT, %iterArg, %c_39 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %203 : tensor<i1>
    } do {
      %203 = stablehlo.add %iterArg, %c_39 : tensor<i32>
      %204 = stablehlo.iota dim = 0 : tensor<3xi32>
      %205 = stablehlo.reshape %204 : (tensor<3xi32>) -> tensor<3x1xi32>
      %206 = stablehlo.broadcast_in_dim %iterArg, dims = [] : (tensor<i32>) -> tensor<3x1xi32>
      %207 = stablehlo.compare  GT, %205, %206 : (tensor<3x1xi32>, tensor<3x1xi32>) -> tensor<3x1xi1>
      %208 = stablehlo.dynamic_slice %iterArg_43, %c_40, %iterArg, sizes = [3, 1] : (tensor<3x3xf32>, tensor<i32>, tensor<i32>) -> tensor<3x1xf32>
      %209 = stablehlo.select %207, %208, %cst_31 : tensor<3x1xi1>, tensor<3x1xf32>
      %210 = stablehlo.multiply %209, %209 : tensor<3x1xf32>
      %211 = stablehlo.reduce(%210 init: %cst_38) applies stablehlo.add across dimensions = [0] : (tensor<3x1xf32>, tensor<f32>) -> tensor<1xf32>
      %212 = stablehlo.sqrt %211 : tensor<1xf32>
      %213 = stablehlo.reshape %212 : (tensor<1xf32>) -> tensor<1x1xf32>
      %214 = stablehlo.compare  LT, %213, %cst_23 : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xi1>
      %215 = stablehlo.dynamic_slice %208, %iterArg, %c_40, sizes = [1, 1] : (tensor<3x1xf32>, tensor<i32>, tensor<i32>) -> tensor<1x1xf32>
      %216 = stablehlo.compare  LE, %215, %cst_30 : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xi1>
      %217 = stablehlo.divide %215, %213 : tensor<1x1xf32>
      %218 = stablehlo.multiply %217, %217 : tensor<1x1xf32>
      %219 = stablehlo.add %218, %cst_28 : tensor<1x1xf32>
      %220 = stablehlo.sqrt %219 : tensor<1x1xf32>
      %221 = stablehlo.multiply %213, %220 : tensor<1x1xf32>
      %222 = stablehlo.subtract %215, %221 : tensor<1x1xf32>
      %223 = stablehlo.add %215, %221 : tensor<1x1xf32>
      %224 = stablehlo.divide %213, %223 : tensor<1x1xf32>
      %225 = stablehlo.multiply %213, %224 : tensor<1x1xf32>
      %226 = stablehlo.negate %225 : tensor<1x1xf32>
      %227 = stablehlo.select %216, %222, %226 : tensor<1x1xi1>, tensor<1x1xf32>
      %228 = stablehlo.divide %213, %227 : tensor<1x1xf32>
      %229 = stablehlo.multiply %228, %228 : tensor<1x1xf32>
      %230 = stablehlo.add %229, %cst_28 : tensor<1x1xf32>
      %231 = stablehlo.divide %cst_29, %230 : tensor<1x1xf32>
      %232 = stablehlo.select %214, %cst_30, %231 : tensor<1x1xi1>, tensor<1x1xf32>
      %233 = stablehlo.reshape %232 : (tensor<1x1xf32>) -> tensor<f32>
      %234 = stablehlo.broadcast_in_dim %233, dims = [] : (tensor<f32>) -> tensor<3x3xf32>
      %235 = stablehlo.compare  EQ, %205, %206 : (tensor<3x1xi32>, tensor<3x1xi32>) -> tensor<3x1xi1>
      %236 = stablehlo.compare  LT, %212, %cst_22 : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xi1>
      %237 = stablehlo.broadcast_in_dim %236, dims = [1] : (tensor<1xi1>) -> tensor<3x1xi1>
      %238 = stablehlo.reshape %227 : (tensor<1x1xf32>) -> tensor<1xf32>
      %239 = stablehlo.broadcast_in_dim %238, dims = [1] : (tensor<1xf32>) -> tensor<3x1xf32>
      %240 = stablehlo.divide %209, %239 : tensor<3x1xf32>
      %241 = stablehlo.select %237, %209, %240 : tensor<3x1xi1>, tensor<3x1xf32>
      %242 = stablehlo.select %235, %cst_27, %241 : tensor<3x1xi1>, tensor<3x1xf32>
      %243 = stablehlo.dot_general %iterArg_41, %242, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x3xf32>, tensor<3x1xf32>) -> tensor<3x1xf32>
      %244 = stablehlo.dot_general %243, %242, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] {mhlo.frontend_attributes = {grad_x = "false", grad_y = "false"}} : (tensor<3x1xf32>, tensor<3x1xf32>) -> tensor<3x3xf32>
      %245 = stablehlo.multiply %234, %244 : tensor<3x3xf32>
      %246 = stablehlo.subtract %iterArg_41, %245 : tensor<3x3xf32>
      %247 = stablehlo.reshape %204 : (tensor<3xi32>) -> tensor<1x3xi32>
      %248 = stablehlo.broadcast_in_dim %203, dims = [] : (tensor<i32>) -> tensor<1x3xi32>
      %249 = stablehlo.compare  GT, %247, %248 : (tensor<1x3xi32>, tensor<1x3xi32>) -> tensor<1x3xi1>
      %250 = stablehlo.dot_general %242, %iterArg_43, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] {mhlo.frontend_attributes = {grad_x = "false", grad_y = "false"}} : (tensor<3x1xf32>, tensor<3x3xf32>) -> tensor<1x3xf32>
      %251 = stablehlo.dot_general %242, %250, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x1xf32>, tensor<1x3xf32>) -> tensor<3x3xf32>
      %252 = stablehlo.multiply %234, %251 : tensor<3x3xf32>
      %253 = stablehlo.subtract %iterArg_43, %252 : tensor<3x3xf32>
      %254 = stablehlo.dynamic_slice %253, %iterArg, %c_40, sizes = [1, 3] : (tensor<3x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>
      %255 = stablehlo.select %249, %254, %cst_26 : tensor<1x3xi1>, tensor<1x3xf32>
      %256 = stablehlo.multiply %255, %255 : tensor<1x3xf32>
      %257 = stablehlo.reduce(%256 init: %cst_38) applies stablehlo.add across dimensions = [1] : (tensor<1x3xf32>, tensor<f32>) -> tensor<1xf32>
      %258 = stablehlo.sqrt %257 : tensor<1xf32>
      %259 = stablehlo.reshape %258 : (tensor<1xf32>) -> tensor<1x1xf32>
      %260 = stablehlo.compare  LT, %259, %cst_23 : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xi1>
      %261 = stablehlo.dynamic_slice %254, %c_40, %203, sizes = [1, 1] : (tensor<1x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x1xf32>
      %262 = stablehlo.compare  LE, %261, %cst_30 : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xi1>
      %263 = stablehlo.divide %261, %259 : tensor<1x1xf32>
      %264 = stablehlo.multiply %263, %263 : tensor<1x1xf32>
      %265 = stablehlo.add %264, %cst_28 : tensor<1x1xf32>
      %266 = stablehlo.sqrt %265 : tensor<1x1xf32>
      %267 = stablehlo.multiply %259, %266 : tensor<1x1xf32>
      %268 = stablehlo.subtract %261, %267 : tensor<1x1xf32>
      %269 = stablehlo.add %261, %267 : tensor<1x1xf32>
      %270 = stablehlo.divide %259, %269 : tensor<1x1xf32>
      %271 = stablehlo.multiply %259, %270 : tensor<1x1xf32>
      %272 = stablehlo.negate %271 : tensor<1x1xf32>
      %273 = stablehlo.select %262, %268, %272 : tensor<1x1xi1>, tensor<1x1xf32>
      %274 = stablehlo.divide %259, %273 : tensor<1x1xf32>
      %275 = stablehlo.multiply %274, %274 : tensor<1x1xf32>
      %276 = stablehlo.add %275, %cst_28 : tensor<1x1xf32>
      %277 = stablehlo.divide %cst_29, %276 : tensor<1x1xf32>
      %278 = stablehlo.select %260, %cst_30, %277 : tensor<1x1xi1>, tensor<1x1xf32>
      %279 = stablehlo.reshape %278 : (tensor<1x1xf32>) -> tensor<f32>
      %280 = stablehlo.broadcast_in_dim %279, dims = [] : (tensor<f32>) -> tensor<3x3xf32>
      %281 = stablehlo.compare  EQ, %247, %248 : (tensor<1x3xi32>, tensor<1x3xi32>) -> tensor<1x3xi1>
      %282 = stablehlo.compare  LT, %258, %cst_22 : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xi1>
      %283 = stablehlo.broadcast_in_dim %282, dims = [0] : (tensor<1xi1>) -> tensor<1x3xi1>
      %284 = stablehlo.reshape %273 : (tensor<1x1xf32>) -> tensor<1xf32>
      %285 = stablehlo.broadcast_in_dim %284, dims = [0] : (tensor<1xf32>) -> tensor<1x3xf32>
      %286 = stablehlo.divide %255, %285 : tensor<1x3xf32>
      %287 = stablehlo.select %283, %255, %286 : tensor<1x3xi1>, tensor<1x3xf32>
      %288 = stablehlo.select %281, %cst_25, %287 : tensor<1x3xi1>, tensor<1x3xf32>
      %289 = stablehlo.dot_general %iterArg_42, %288, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] {mhlo.frontend_attributes = {grad_x = "false", grad_y = "false"}} : (tensor<3x3xf32>, tensor<1x3xf32>) -> tensor<3x1xf32>
      %290 = stablehlo.dot_general %289, %288, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x1xf32>, tensor<1x3xf32>) -> tensor<3x3xf32>
      %291 = stablehlo.multiply %280, %290 : tensor<3x3xf32>
      %292 = stablehlo.subtract %iterArg_42, %291 : tensor<3x3xf32>
      %293 = stablehlo.dot_general %253, %288, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] {mhlo.frontend_attributes = {grad_x = "false", grad_y = "false"}} : (tensor<3x3xf32>, tensor<1x3xf32>) -> tensor<3x1xf32>
      %294 = stablehlo.dot_general %293, %288, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x1xf32>, tensor<1x3xf32>) -> tensor<3x3xf32>
      %295 = stablehlo.multiply %280, %294 : tensor<3x3xf32>
      %296 = stablehlo.subtract %253, %295 : tensor<3x3xf32>
      stablehlo.return %203, %246, %292, %296 : tensor<i32>, tensor<3x3xf32>, tensor<3x3xf32>, tensor<3x3xf32>
    }
    %6 = stablehlo.iota dim = 0 : tensor<3xi32>
    %7 = stablehlo.reshape %6 : (tensor<3xi32>) -> tensor<3x1xi32>
    %8 = stablehlo.compare  GT, %7, %c_24 : (tensor<3x1xi32>, tensor<3x1xi32>) -> tensor<3x1xi1>
    %9 = stablehlo.slice %5#3 [0:3, 1:2] : (tensor<3x3xf32>) -> tensor<3x1xf32>
    %10 = stablehlo.select %8, %9, %cst_31 : tensor<3x1xi1>, tensor<3x1xf32>
    %11 = stablehlo.multiply %10, %10 : tensor<3x1xf32>
    %12 = stablehlo.reduce(%11 init: %cst_38) applies stablehlo.add across dimensions = [0] : (tensor<3x1xf32>, tensor<f32>) -> tensor<1xf32>
    %13 = stablehlo.sqrt %12 : tensor<1xf32>
    %14 = stablehlo.reshape %13 : (tensor<1xf32>) -> tensor<1x1xf32>
    %15 = stablehlo.compare  LT, %14, %cst_23 : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xi1>
    %16 = stablehlo.slice %9 [1:2, 0:1] : (tensor<3x1xf32>) -> tensor<1x1xf32>
    %17 = stablehlo.compare  LE, %16, %cst_30 : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xi1>
    %18 = stablehlo.divide %16, %14 : tensor<1x1xf32>
    %19 = stablehlo.multiply %18, %18 : tensor<1x1xf32>
    %20 = stablehlo.add %19, %cst_28 : tensor<1x1xf32>
    %21 = stablehlo.sqrt %20 : tensor<1x1xf32>
    %22 = stablehlo.multiply %14, %21 : tensor<1x1xf32>
    %23 = stablehlo.subtract %16, %22 : tensor<1x1xf32>
    %24 = stablehlo.add %16, %22 : tensor<1x1xf32>
    %25 = stablehlo.divide %14, %24 : tensor<1x1xf32>
    %26 = stablehlo.multiply %14, %25 : tensor<1x1xf32>
    %27 = stablehlo.negate %26 : tensor<1x1xf32>
    %28 = stablehlo.select %17, %23, %27 : tensor<1x1xi1>, tensor<1x1xf32>
    %29 = stablehlo.divide %14, %28 : tensor<1x1xf32>
    %30 = stablehlo.multiply %29, %29 : tensor<1x1xf32>
    %31 = stablehlo.add %30, %cst_28 : tensor<1x1xf32>
    %32 = stablehlo.divide %cst_29, %31 : tensor<1x1xf32>
    %33 = stablehlo.select %15, %cst_30, %32 : tensor<1x1xi1>, tensor<1x1xf32>
    %34 = stablehlo.reshape %33 : (tensor<1x1xf32>) -> tensor<f32>
    %35 = stablehlo.broadcast_in_dim %34, dims = [] : (tensor<f32>) -> tensor<3x3xf32>
    %36 = stablehlo.compare  EQ, %7, %c_24 : (tensor<3x1xi32>, tensor<3x1xi32>) -> tensor<3x1xi1>
    %37 = stablehlo.compare  LT, %13, %cst_22 : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xi1>
    %38 = stablehlo.broadcast_in_dim %37, dims = [1] : (tensor<1xi1>) -> tensor<3x1xi1>
    %39 = stablehlo.reshape %28 : (tensor<1x1xf32>) -> tensor<1xf32>
    %40 = stablehlo.broadcast_in_dim %39, dims = [1] : (tensor<1xf32>) -> tensor<3x1xf32>
    %41 = stablehlo.divide %10, %40 : tensor<3x1xf32>
    %42 = stablehlo.select %38, %10, %41 : tensor<3x1xi1>, tensor<3x1xf32>
    %43 = stablehlo.select %36, %cst_27, %42 : tensor<3x1xi1>, tensor<3x1xf32>
    %44 = stablehlo.dot_general %5#1, %43, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x3xf32>, tensor<3x1xf32>) -> tensor<3x1xf32>
    %45 = stablehlo.dot_general %44, %43, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] {mhlo.frontend_attributes = {grad_x = "false", grad_y = "false"}} : (tensor<3x1xf32>, tensor<3x1xf32>) -> tensor<3x3xf32>
    %46 = stablehlo.multiply %35, %45 : tensor<3x3xf32>
    %47 = stablehlo.subtract %5#1, %46 : tensor<3x3xf32>
    %48 = stablehlo.compare  GT, %7, %c_21 : (tensor<3x1xi32>, tensor<3x1xi32>) -> tensor<3x1xi1>
    %49 = stablehlo.dot_general %43, %5#3, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] {mhlo.frontend_attributes = {grad_x = "false", grad_y = "false"}} : (tensor<3x1xf32>, tensor<3x3xf32>) -> tensor<1x3xf32>
    %50 = stablehlo.dot_general %43, %49, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x1xf32>, tensor<1x3xf32>) -> tensor<3x3xf32>
    %51 = stablehlo.multiply %35, %50 : tensor<3x3xf32>
    %52 = stablehlo.subtract %5#3, %51 : tensor<3x3xf32>
    %53 = stablehlo.slice %52 [0:3, 2:3] : (tensor<3x3xf32>) -> tensor<3x1xf32>
    %54 = stablehlo.select %48, %53, %cst_31 : tensor<3x1xi1>, tensor<3x1xf32>
    %55 = stablehlo.multiply %54, %54 : tensor<3x1xf32>
    %56 = stablehlo.reduce(%55 init: %cst_38) applies stablehlo.add across dimensions = [0] : (tensor<3x1xf32>, tensor<f32>) -> tensor<1xf32>
    %57 = stablehlo.sqrt %56 : tensor<1xf32>
    %58 = stablehlo.reshape %57 : (tensor<1xf32>) -> tensor<1x1xf32>
    %59 = stablehlo.compare  LT, %58, %cst_23 : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xi1>
    %60 = stablehlo.slice %53 [2:3, 0:1] : (tensor<3x1xf32>) -> tensor<1x1xf32>
    %61 = stablehlo.compare  LE, %60, %cst_30 : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xi1>
    %62 = stablehlo.divide %60, %58 : tensor<1x1xf32>
    %63 = stablehlo.multiply %62, %62 : tensor<1x1xf32>
    %64 = stablehlo.add %63, %cst_28 : tensor<1x1xf32>
    %65 = stablehlo.sqrt %64 : tensor<1x1xf32>
    %66 = stablehlo.multiply %58, %65 : tensor<1x1xf32>
    %67 = stablehlo.subtract %60, %66 : tensor<1x1xf32>
    %68 = stablehlo.add %60, %66 : tensor<1x1xf32>
    %69 = stablehlo.divide %58, %68 : tensor<1x1xf32>
    %70 = stablehlo.multiply %58, %69 : tensor<1x1xf32>
    %71 = stablehlo.negate %70 : tensor<1x1xf32>
    %72 = stablehlo.select %61, %67, %71 : tensor<1x1xi1>, tensor<1x1xf32>
    %73 = stablehlo.divide %58, %72 : tensor<1x1xf32>
    %74 = stablehlo.multiply %73, %73 : tensor<1x1xf32>
    %75 = stablehlo.add %74, %cst_28 : tensor<1x1xf32>
    %76 = stablehlo.divide %cst_29, %75 : tensor<1x1xf32>
    %77 = stablehlo.select %59, %cst_30, %76 : tensor<1x1xi1>, tensor<1x1xf32>
    %78 = stablehlo.reshape %77 : (tensor<1x1xf32>) -> tensor<f32>
    %79 = stablehlo.broadcast_in_dim %78, dims = [] : (tensor<f32>) -> tensor<3x3xf32>
    %80 = stablehlo.compare  EQ, %7, %c_21 : (tensor<3x1xi32>, tensor<3x1xi32>) -> tensor<3x1xi1>
    %81 = stablehlo.compare  LT, %57, %cst_22 : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xi1>
    %82 = stablehlo.broadcast_in_dim %81, dims = [1] : (tensor<1xi1>) -> tensor<3x1xi1>
    %83 = stablehlo.reshape %72 : (tensor<1x1xf32>) -> tensor<1xf32>
    %84 = stablehlo.broadcast_in_dim %83, dims = [1] : (tensor<1xf32>) -> tensor<3x1xf32>
    %85 = stablehlo.divide %54, %84 : tensor<3x1xf32>
    %86 = stablehlo.select %82, %54, %85 : tensor<3x1xi1>, tensor<3x1xf32>
    %87 = stablehlo.select %80, %cst_27, %86 : tensor<3x1xi1>, tensor<3x1xf32>
    %88 = stablehlo.dot_general %47, %87, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x3xf32>, tensor<3x1xf32>) -> tensor<3x1xf32>
    %89 = stablehlo.dot_general %88, %87, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] {mhlo.frontend_attributes = {grad_x = "false", grad_y = "false"}} : (tensor<3x1xf32>, tensor<3x1xf32>) -> tensor<3x3xf32>
    %90 = stablehlo.multiply %79, %89 : tensor<3x3xf32>
    %91 = stablehlo.subtract %47, %90 : tensor<3x3xf32>
    %92 = stablehlo.dot_general %87, %52, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] {mhlo.frontend_attributes = {grad_x = "false", grad_y = "false"}} : (tensor<3x1xf32>, tensor<3x3xf32>) -> tensor<1x3xf32>
    %93 = stablehlo.dot_general %87, %92, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x1xf32>, tensor<1x3xf32>) -> tensor<3x3xf32>
    %94 = stablehlo.multiply %79, %93 : tensor<3x3xf32>
    %95 = stablehlo.subtract %52, %94 : tensor<3x3xf32>
    %96:4 = stablehlo.while(%iterArg = %c_40, %iterArg_41 = %91, %iterArg_42 = %5#2, %iterArg_43 = %95) : tensor<i32>, tensor<3x3xf32>, tensor<3x3xf32>, tensor<3x3xf32>
    cond {
      %203 = stablehlo.compare  GT, %c_36, %iterArg : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %204 = stablehlo.broadcast_in_dim %6, dims = [0] : (tensor<3xi32>) -> tensor<3x3xi32>
      %205 = stablehlo.broadcast_in_dim %6, dims = [1] : (tensor<3xi32>) -> tensor<3x3xi32>
      %206 = stablehlo.compare  EQ, %204, %205 : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
      %207 = stablehlo.select %206, %iterArg_43, %cst_20 : tensor<3x3xi1>, tensor<3x3xf32>
      %208 = stablehlo.reduce(%207 init: %cst_38) applies stablehlo.add across dimensions = [0] : (tensor<3x3xf32>, tensor<f32>) -> tensor<3xf32>
      %209 = stablehlo.compare  LT, %208, %cst_19 : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
      %210 = stablehlo.negate %208 : tensor<3xf32>
      %211 = stablehlo.select %209, %210, %208 : tensor<3xi1>, tensor<3xf32>
      %212 = stablehlo.broadcast_in_dim %211, dims = [0] : (tensor<3xf32>) -> tensor<3x3xf32>
      %213 = stablehlo.broadcast_in_dim %211, dims = [1] : (tensor<3xf32>) -> tensor<3x3xf32>
      %214 = stablehlo.multiply %212, %213 : tensor<3x3xf32>
      %215 = stablehlo.multiply %214, %cst : tensor<3x3xf32>
      %216 = stablehlo.multiply %215, %cst : tensor<3x3xf32>
      %217 = stablehlo.select %206, %cst_20, %iterArg_43 : tensor<3x3xi1>, tensor<3x3xf32>
      %218 = stablehlo.multiply %217, %217 : tensor<3x3xf32>
      %219 = stablehlo.compare  LT, %216, %218 : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xi1>
      %220 = stablehlo.reduce(%219 init: %c_35) applies stablehlo.or across dimensions = [0, 1] : (tensor<3x3xi1>, tensor<i1>) -> tensor<i1>
      %221 = stablehlo.and %203, %220 : tensor<i1>
      stablehlo.return %221 : tensor<i1>
    } do {
      %203:4 = stablehlo.while(%iterArg_44 = %c_40, %iterArg_45 = %iterArg_41, %iterArg_46 = %iterArg_42, %iterArg_47 = %iterArg_43) : tensor<i32>, tensor<3x3xf32>, tensor<3x3xf32>, tensor<3x3xf32>
      cond {
        %205 = stablehlo.compare  LT, %iterArg_44, %c_37 : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %205 : tensor<i1>
      } do {
        %205 = stablehlo.add %iterArg_44, %c_39 : tensor<i32>
        %206:4 = stablehlo.while(%iterArg_48 = %205, %iterArg_49 = %iterArg_45, %iterArg_50 = %iterArg_46, %iterArg_51 = %iterArg_47) : tensor<i32>, tensor<3x3xf32>, tensor<3x3xf32>, tensor<3x3xf32>
        cond {
          %207 = stablehlo.compare  LT, %iterArg_48, %c_34 : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %207 : tensor<i1>
        } do {
          %207 = stablehlo.add %iterArg_48, %c_39 : tensor<i32>
          %208 = stablehlo.dynamic_slice %iterArg_51, %iterArg_48, %iterArg_44, sizes = [1, 1] : (tensor<3x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x1xf32>
          %209 = stablehlo.dynamic_slice %iterArg_51, %iterArg_44, %iterArg_48, sizes = [1, 1] : (tensor<3x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x1xf32>
          %210 = stablehlo.subtract %208, %209 : tensor<1x1xf32>
          %211 = stablehlo.abs %210 : tensor<1x1xf32>
          %212 = stablehlo.compare  LT, %211, %cst_23 : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xi1>
          %213 = stablehlo.dynamic_slice %iterArg_51, %iterArg_44, %iterArg_44, sizes = [1, 1] : (tensor<3x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x1xf32>
          %214 = stablehlo.dynamic_slice %iterArg_51, %iterArg_48, %iterArg_48, sizes = [1, 1] : (tensor<3x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x1xf32>
          %215 = stablehlo.add %213, %214 : tensor<1x1xf32>
          %216 = stablehlo.divide %215, %210 : tensor<1x1xf32>
          %217 = stablehlo.multiply %216, %216 : tensor<1x1xf32>
          %218 = stablehlo.add %217, %cst_28 : tensor<1x1xf32>
          %219 = stablehlo.rsqrt %218 : tensor<1x1xf32>
          %220 = stablehlo.multiply %216, %219 : tensor<1x1xf32>
          %221 = stablehlo.select %212, %cst_28, %220 : tensor<1x1xi1>, tensor<1x1xf32>
          %222 = stablehlo.multiply %221, %209 : tensor<1x1xf32>
          %223 = stablehlo.negate %219 : tensor<1x1xf32>
          %224 = stablehlo.select %212, %cst_30, %223 : tensor<1x1xi1>, tensor<1x1xf32>
          %225 = stablehlo.multiply %224, %214 : tensor<1x1xf32>
          %226 = stablehlo.subtract %222, %225 : tensor<1x1xf32>
          %227 = stablehlo.abs %226 : tensor<1x1xf32>
          %228 = stablehlo.compare  GE, %227, %cst_23 : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xi1>
          %229 = stablehlo.multiply %224, %209 : tensor<1x1xf32>
          %230 = stablehlo.multiply %221, %214 : tensor<1x1xf32>
          %231 = stablehlo.add %229, %230 : tensor<1x1xf32>
          %232 = stablehlo.multiply %221, %213 : tensor<1x1xf32>
          %233 = stablehlo.multiply %224, %208 : tensor<1x1xf32>
          %234 = stablehlo.subtract %232, %233 : tensor<1x1xf32>
          %235 = stablehlo.subtract %231, %234 : tensor<1x1xf32>
          %236 = stablehlo.multiply %226, %cst_29 : tensor<1x1xf32>
          %237 = stablehlo.divide %235, %236 : tensor<1x1xf32>
          %238 = stablehlo.compare  GE, %237, %cst_30 : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xi1>
          %239 = stablehlo.multiply %237, %237 : tensor<1x1xf32>
          %240 = stablehlo.add %239, %cst_28 : tensor<1x1xf32>
          %241 = stablehlo.sqrt %240 : tensor<1x1xf32>
          %242 = stablehlo.add %237, %241 : tensor<1x1xf32>
          %243 = stablehlo.divide %cst_28, %242 : tensor<1x1xf32>
          %244 = stablehlo.negate %237 : tensor<1x1xf32>
          %245 = stablehlo.add %244, %241 : tensor<1x1xf32>
          %246 = stablehlo.divide %cst_18, %245 : tensor<1x1xf32>
          %247 = stablehlo.select %238, %243, %246 : tensor<1x1xi1>, tensor<1x1xf32>
          %248 = stablehlo.multiply %247, %247 : tensor<1x1xf32>
          %249 = stablehlo.add %248, %cst_28 : tensor<1x1xf32>
          %250 = stablehlo.rsqrt %249 : tensor<1x1xf32>
          %251 = stablehlo.select %228, %250, %cst_28 : tensor<1x1xi1>, tensor<1x1xf32>
          %252 = stablehlo.multiply %251, %251 : tensor<1x1xf32>
          %253 = stablehlo.multiply %247, %250 : tensor<1x1xf32>
          %254 = stablehlo.select %228, %253, %cst_30 : tensor<1x1xi1>, tensor<1x1xf32>
          %255 = stablehlo.multiply %254, %254 : tensor<1x1xf32>
          %256 = stablehlo.add %252, %255 : tensor<1x1xf32>
          %257 = stablehlo.rsqrt %256 : tensor<1x1xf32>
          %258 = stablehlo.multiply %251, %257 : tensor<1x1xf32>
          %259 = stablehlo.multiply %221, %258 : tensor<1x1xf32>
          %260 = stablehlo.multiply %254, %257 : tensor<1x1xf32>
          %261 = stablehlo.multiply %224, %260 : tensor<1x1xf32>
          %262 = stablehlo.subtract %259, %261 : tensor<1x1xf32>
          %263 = stablehlo.reshape %262 : (tensor<1x1xf32>) -> tensor<1xf32>
          %264 = stablehlo.broadcast_in_dim %263, dims = [1] : (tensor<1xf32>) -> tensor<3x1xf32>
          %265 = stablehlo.dynamic_slice %iterArg_49, %c_40, %iterArg_44, sizes = [3, 1] : (tensor<3x3xf32>, tensor<i32>, tensor<i32>) -> tensor<3x1xf32>
          %266 = stablehlo.multiply %264, %265 : tensor<3x1xf32>
          %267 = stablehlo.multiply %224, %258 : tensor<1x1xf32>
          %268 = stablehlo.multiply %221, %260 : tensor<1x1xf32>
          %269 = stablehlo.add %267, %268 : tensor<1x1xf32>
          %270 = stablehlo.reshape %269 : (tensor<1x1xf32>) -> tensor<1xf32>
          %271 = stablehlo.broadcast_in_dim %270, dims = [1] : (tensor<1xf32>) -> tensor<3x1xf32>
          %272 = stablehlo.dynamic_slice %iterArg_49, %c_40, %iterArg_48, sizes = [3, 1] : (tensor<3x3xf32>, tensor<i32>, tensor<i32>) -> tensor<3x1xf32>
          %273 = stablehlo.multiply %271, %272 : tensor<3x1xf32>
          %274 = stablehlo.subtract %266, %273 : tensor<3x1xf32>
          %275 = stablehlo.multiply %274, %274 : tensor<3x1xf32>
          %276 = stablehlo.reduce(%275 init: %cst_38) applies stablehlo.add across dimensions = [0] : (tensor<3x1xf32>, tensor<f32>) -> tensor<1xf32>
          %277 = stablehlo.rsqrt %276 : tensor<1xf32>
          %278 = stablehlo.broadcast_in_dim %277, dims = [1] : (tensor<1xf32>) -> tensor<3x1xf32>
          %279 = stablehlo.multiply %274, %278 : tensor<3x1xf32>
          %280 = stablehlo.dynamic_update_slice %iterArg_49, %279, %c_40, %iterArg_44 : (tensor<3x3xf32>, tensor<3x1xf32>, tensor<i32>, tensor<i32>) -> tensor<3x3xf32>
          %281 = stablehlo.multiply %271, %265 : tensor<3x1xf32>
          %282 = stablehlo.multiply %264, %272 : tensor<3x1xf32>
          %283 = stablehlo.add %281, %282 : tensor<3x1xf32>
          %284 = stablehlo.multiply %283, %283 : tensor<3x1xf32>
          %285 = stablehlo.reduce(%284 init: %cst_38) applies stablehlo.add across dimensions = [0] : (tensor<3x1xf32>, tensor<f32>) -> tensor<1xf32>
          %286 = stablehlo.rsqrt %285 : tensor<1xf32>
          %287 = stablehlo.broadcast_in_dim %286, dims = [1] : (tensor<1xf32>) -> tensor<3x1xf32>
          %288 = stablehlo.multiply %283, %287 : tensor<3x1xf32>
          %289 = stablehlo.dynamic_update_slice %280, %288, %c_40, %iterArg_48 : (tensor<3x3xf32>, tensor<3x1xf32>, tensor<i32>, tensor<i32>) -> tensor<3x3xf32>
          %290 = stablehlo.reshape %258 : (tensor<1x1xf32>) -> tensor<1xf32>
          %291 = stablehlo.broadcast_in_dim %290, dims = [1] : (tensor<1xf32>) -> tensor<3x1xf32>
          %292 = stablehlo.dynamic_slice %iterArg_50, %c_40, %iterArg_44, sizes = [3, 1] : (tensor<3x3xf32>, tensor<i32>, tensor<i32>) -> tensor<3x1xf32>
          %293 = stablehlo.multiply %291, %292 : tensor<3x1xf32>
          %294 = stablehlo.reshape %260 : (tensor<1x1xf32>) -> tensor<1xf32>
          %295 = stablehlo.broadcast_in_dim %294, dims = [1] : (tensor<1xf32>) -> tensor<3x1xf32>
          %296 = stablehlo.dynamic_slice %iterArg_50, %c_40, %iterArg_48, sizes = [3, 1] : (tensor<3x3xf32>, tensor<i32>, tensor<i32>) -> tensor<3x1xf32>
          %297 = stablehlo.multiply %295, %296 : tensor<3x1xf32>
          %298 = stablehlo.subtract %293, %297 : tensor<3x1xf32>
          %299 = stablehlo.multiply %298, %298 : tensor<3x1xf32>
          %300 = stablehlo.reduce(%299 init: %cst_38) applies stablehlo.add across dimensions = [0] : (tensor<3x1xf32>, tensor<f32>) -> tensor<1xf32>
          %301 = stablehlo.rsqrt %300 : tensor<1xf32>
          %302 = stablehlo.broadcast_in_dim %301, dims = [1] : (tensor<1xf32>) -> tensor<3x1xf32>
          %303 = stablehlo.multiply %298, %302 : tensor<3x1xf32>
          %304 = stablehlo.dynamic_update_slice %iterArg_50, %303, %c_40, %iterArg_44 : (tensor<3x3xf32>, tensor<3x1xf32>, tensor<i32>, tensor<i32>) -> tensor<3x3xf32>
          %305 = stablehlo.multiply %295, %292 : tensor<3x1xf32>
          %306 = stablehlo.multiply %291, %296 : tensor<3x1xf32>
          %307 = stablehlo.add %305, %306 : tensor<3x1xf32>
          %308 = stablehlo.multiply %307, %307 : tensor<3x1xf32>
          %309 = stablehlo.reduce(%308 init: %cst_38) applies stablehlo.add across dimensions = [0] : (tensor<3x1xf32>, tensor<f32>) -> tensor<1xf32>
          %310 = stablehlo.rsqrt %309 : tensor<1xf32>
          %311 = stablehlo.broadcast_in_dim %310, dims = [1] : (tensor<1xf32>) -> tensor<3x1xf32>
          %312 = stablehlo.multiply %307, %311 : tensor<3x1xf32>
          %313 = stablehlo.dynamic_update_slice %304, %312, %c_40, %iterArg_48 : (tensor<3x3xf32>, tensor<3x1xf32>, tensor<i32>, tensor<i32>) -> tensor<3x3xf32>
          %314 = stablehlo.broadcast_in_dim %263, dims = [0] : (tensor<1xf32>) -> tensor<1x3xf32>
          %315 = stablehlo.dynamic_slice %iterArg_51, %iterArg_44, %c_40, sizes = [1, 3] : (tensor<3x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>
          %316 = stablehlo.multiply %314, %315 : tensor<1x3xf32>
          %317 = stablehlo.broadcast_in_dim %270, dims = [0] : (tensor<1xf32>) -> tensor<1x3xf32>
          %318 = stablehlo.dynamic_slice %iterArg_51, %iterArg_48, %c_40, sizes = [1, 3] : (tensor<3x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>
          %319 = stablehlo.multiply %317, %318 : tensor<1x3xf32>
          %320 = stablehlo.subtract %316, %319 : tensor<1x3xf32>
          %321 = stablehlo.dynamic_update_slice %iterArg_51, %320, %iterArg_44, %c_40 : (tensor<3x3xf32>, tensor<1x3xf32>, tensor<i32>, tensor<i32>) -> tensor<3x3xf32>
          %322 = stablehlo.multiply %317, %315 : tensor<1x3xf32>
          %323 = stablehlo.multiply %314, %318 : tensor<1x3xf32>
          %324 = stablehlo.add %322, %323 : tensor<1x3xf32>
          %325 = stablehlo.dynamic_update_slice %321, %324, %iterArg_48, %c_40 : (tensor<3x3xf32>, tensor<1x3xf32>, tensor<i32>, tensor<i32>) -> tensor<3x3xf32>
          %326 = stablehlo.dynamic_slice %325, %c_40, %iterArg_44, sizes = [3, 1] : (tensor<3x3xf32>, tensor<i32>, tensor<i32>) -> tensor<3x1xf32>
          %327 = stablehlo.multiply %291, %326 : tensor<3x1xf32>
          %328 = stablehlo.dynamic_slice %325, %c_40, %iterArg_48, sizes = [3, 1] : (tensor<3x3xf32>, tensor<i32>, tensor<i32>) -> tensor<3x1xf32>
          %329 = stablehlo.multiply %295, %328 : tensor<3x1xf32>
          %330 = stablehlo.subtract %327, %329 : tensor<3x1xf32>
          %331 = stablehlo.dynamic_update_slice %325, %330, %c_40, %iterArg_44 : (tensor<3x3xf32>, tensor<3x1xf32>, tensor<i32>, tensor<i32>) -> tensor<3x3xf32>
          %332 = stablehlo.multiply %295, %326 : tensor<3x1xf32>
          %333 = stablehlo.multiply %291, %328 : tensor<3x1xf32>
          %334 = stablehlo.add %332, %333 : tensor<3x1xf32>
          %335 = stablehlo.dynamic_update_slice %331, %334, %c_40, %iterArg_48 : (tensor<3x3xf32>, tensor<3x1xf32>, tensor<i32>, tensor<i32>) -> tensor<3x3xf32>
          %336 = stablehlo.dynamic_update_slice %335, %cst_30, %iterArg_44, %iterArg_48 : (tensor<3x3xf32>, tensor<1x1xf32>, tensor<i32>, tensor<i32>) -> tensor<3x3xf32>
          %337 = stablehlo.dynamic_update_slice %336, %cst_30, %iterArg_48, %iterArg_44 : (tensor<3x3xf32>, tensor<1x1xf32>, tensor<i32>, tensor<i32>) -> tensor<3x3xf32>
          stablehlo.return %207, %289, %313, %337 : tensor<i32>, tensor<3x3xf32>, tensor<3x3xf32>, tensor<3x3xf32>
        }
        stablehlo.return %205, %206#1, %206#2, %206#3 : tensor<i32>, tensor<3x3xf32>, tensor<3x3xf32>, tensor<3x3xf32>
      }
      %204 = stablehlo.add %iterArg, %c_39 : tensor<i32>
      stablehlo.return %204, %203#1, %203#2, %203#3 : tensor<i32>, tensor<3x3xf32>, tensor<3x3xf32>, tensor<3x3xf32>
    }
    %97 = stablehlo.broadcast_in_dim %6, dims = [0] : (tensor<3xi32>) -> tensor<3x3xi32>
    %98 = stablehlo.broadcast_in_dim %6, dims = [1] : (tensor<3xi32>) -> tensor<3x3xi32>
    %99 = stablehlo.compare  EQ, %97, %98 : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
    %100 = stablehlo.select %99, %96#3, %cst_20 : tensor<3x3xi1>, tensor<3x3xf32>
    %101 = stablehlo.reduce(%100 init: %cst_38) applies stablehlo.add across dimensions = [0] : (tensor<3x3xf32>, tensor<f32>) -> tensor<3xf32>
    %102 = stablehlo.compare  GE, %101, %cst_19 : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %103 = stablehlo.negate %101 : tensor<3xf32>
    %104 = stablehlo.select %102, %101, %103 : tensor<3xi1>, tensor<3xf32>
    %105 = stablehlo.broadcast_in_dim %104, dims = [1] : (tensor<3xf32>) -> tensor<3x3xf32>
    %106 = "stablehlo.sort"(%105) <{dimension = 1 : i64, is_stable = false}> ({
    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
      %203 = stablehlo.compare  GT, %arg3, %arg4,  TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %203 : tensor<i1>
    }) : (tensor<3x3xf32>) -> tensor<3x3xf32>
    %107 = stablehlo.iota dim = 0 : tensor<4xi32>
    %108 = stablehlo.broadcast_in_dim %107, dims = [1] : (tensor<4xi32>) -> tensor<3x4xi32>
    %109:2 = "stablehlo.sort"(%arg0, %108) <{dimension = 1 : i64, is_stable = false}> ({
    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>, %arg5: tensor<i32>, %arg6: tensor<i32>):
      %203 = stablehlo.compare  GT, %arg3, %arg4,  TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %203 : tensor<i1>
    }) : (tensor<3x4xf32>, tensor<3x4xi32>) -> (tensor<3x4xf32>, tensor<3x4xi32>)
    %110 = stablehlo.convert %109#1 : (tensor<3x4xi32>) -> tensor<3x4xi64>
    %111 = stablehlo.slice %109#0 [0:3, 0:2] : (tensor<3x4xf32>) -> tensor<3x2xf32>
    %112 = stablehlo.slice %109#1 [0:3, 0:2] : (tensor<3x4xi32>) -> tensor<3x2xi32>
    %113 = stablehlo.convert %112 : (tensor<3x2xi32>) -> tensor<3x2xi64>
    %114:2 = stablehlo.reduce(%arg0 init: %cst_33), (%108 init: %c_40) across dimensions = [1] : (tensor<3x4xf32>, tensor<3x4xi32>, tensor<f32>, tensor<i32>) -> (tensor<3xf32>, tensor<3xi32>)
     reducer(%arg3: tensor<f32>, %arg5: tensor<f32>) (%arg4: tensor<i32>, %arg6: tensor<i32>)  {
      %203 = stablehlo.compare  GE, %arg3, %arg5 : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %204 = stablehlo.select %203, %arg3, %arg5 : tensor<i1>, tensor<f32>
      %205 = stablehlo.compare  EQ, %arg3, %arg5 : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %206 = stablehlo.minimum %arg4, %arg6 : tensor<i32>
      %207 = stablehlo.select %203, %arg4, %arg6 : tensor<i1>, tensor<i32>
      %208 = stablehlo.select %205, %206, %207 : tensor<i1>, tensor<i32>
      stablehlo.return %204, %208 : tensor<f32>, tensor<i32>
    }
    %115 = stablehlo.convert %114#1 : (tensor<3xi32>) -> tensor<3xi64>
    %116 = "stablehlo.reduce_window"(%arg0, %cst_38) <{base_dilations = array<i64: 1, 1>, padding = dense<[[0, 0], [3, 0]]> : tensor<2x2xi64>, window_dilations = array<i64: 1, 1>, window_dimensions = array<i64: 1, 4>, window_strides = array<i64: 1, 1>}> ({
    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
      %203 = stablehlo.add %arg3, %arg4 : tensor<f32>
      stablehlo.return %203 : tensor<f32>
    }) : (tensor<3x4xf32>, tensor<f32>) -> tensor<3x4xf32>
    %117 = stablehlo.compare  LT, %arg1, %c_17 : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi1>
    %118 = stablehlo.add %arg1, %c_16 : tensor<3xi64>
    %119 = stablehlo.select %117, %118, %arg1 : tensor<3xi1>, tensor<3xi64>
    %120 = stablehlo.reshape %119 : (tensor<3xi64>) -> tensor<3x1xi64>
    %121 = "stablehlo.gather"(%arg0, %120) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 4>}> : (tensor<3x4xf32>, tensor<3x1xi64>) -> tensor<3x4xf32>
    %122 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<3xui32>) -> tensor<3x3x1xui32>
    %123 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<3xi64>) -> tensor<3x3xi64>
    %124 = stablehlo.convert %123 : (tensor<3x3xi64>) -> tensor<3x3xui32>
    %125 = stablehlo.reshape %124 : (tensor<3x3xui32>) -> tensor<3x3x1xui32>
    %126 = stablehlo.concatenate %122, %125, dim = 2 : (tensor<3x3x1xui32>, tensor<3x3x1xui32>) -> tensor<3x3x2xui32>
    %127 = "stablehlo.gather"(%arg0, %126) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}> : (tensor<3x4xf32>, tensor<3x3x2xui32>) -> tensor<3x3xf32>
    %128 = "stablehlo.scatter"(%arg0, %120, %cst_15) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
      %203 = stablehlo.add %arg3, %arg4 : tensor<f32>
      stablehlo.return %203 : tensor<f32>
    }) : (tensor<3x4xf32>, tensor<3x1xi64>, tensor<3x4xf32>) -> tensor<3x4xf32>
    %129 = stablehlo.iota dim = 0 : tensor<5xf32>
    %130 = stablehlo.add %129, %cst_11 : tensor<5xf32>
    %131 = stablehlo.multiply %130, %cst_10 : tensor<5xf32>
    %132 = stablehlo.subtract %131, %cst_9 : tensor<5xf32>
    %133 = stablehlo.subtract %132, %cst_11 : tensor<5xf32>
    %134 = stablehlo.ceil %133 : tensor<5xf32>
    %135 = stablehlo.clamp %cst_12, %134, %cst_12 : tensor<5xf32>
    %136 = stablehlo.subtract %135, %131 : tensor<5xf32>
    %137 = stablehlo.broadcast_in_dim %136, dims = [0] : (tensor<5xf32>) -> tensor<5x3xf32>
    %138 = stablehlo.iota dim = 0 : tensor<3xf32>
    %139 = stablehlo.broadcast_in_dim %138, dims = [1] : (tensor<3xf32>) -> tensor<5x3xf32>
    %140 = stablehlo.add %137, %139 : tensor<5x3xf32>
    %141 = stablehlo.add %140, %cst_8 : tensor<5x3xf32>
    %142 = stablehlo.abs %141 : tensor<5x3xf32>
    %143 = stablehlo.subtract %cst_13, %142 : tensor<5x3xf32>
    %144 = stablehlo.maximum %143, %cst_14 : tensor<5x3xf32>
    %145 = stablehlo.reduce(%144 init: %cst_38) applies stablehlo.add across dimensions = [1] : (tensor<5x3xf32>, tensor<f32>) -> tensor<5xf32>
    %146 = stablehlo.broadcast_in_dim %145, dims = [0] : (tensor<5xf32>) -> tensor<5x3xf32>
    %147 = stablehlo.divide %144, %146 : tensor<5x3xf32>
    %148 = stablehlo.iota dim = 0 : tensor<7xf32>
    %149 = stablehlo.add %148, %cst_4 : tensor<7xf32>
    %150 = stablehlo.multiply %149, %cst_3 : tensor<7xf32>
    %151 = stablehlo.subtract %150, %cst_2 : tensor<7xf32>
    %152 = stablehlo.subtract %151, %cst_4 : tensor<7xf32>
    %153 = stablehlo.ceil %152 : tensor<7xf32>
    %154 = stablehlo.clamp %cst_5, %153, %cst_2 : tensor<7xf32>
    %155 = stablehlo.subtract %154, %150 : tensor<7xf32>
    %156 = stablehlo.broadcast_in_dim %155, dims = [0] : (tensor<7xf32>) -> tensor<7x3xf32>
    %157 = stablehlo.broadcast_in_dim %138, dims = [1] : (tensor<3xf32>) -> tensor<7x3xf32>
    %158 = stablehlo.add %156, %157 : tensor<7x3xf32>
    %159 = stablehlo.add %158, %cst_1 : tensor<7x3xf32>
    %160 = stablehlo.abs %159 : tensor<7x3xf32>
    %161 = stablehlo.subtract %cst_6, %160 : tensor<7x3xf32>
    %162 = stablehlo.maximum %161, %cst_7 : tensor<7x3xf32>
    %163 = stablehlo.reduce(%162 init: %cst_38) applies stablehlo.add across dimensions = [1] : (tensor<7x3xf32>, tensor<f32>) -> tensor<7xf32>
    %164 = stablehlo.broadcast_in_dim %163, dims = [0] : (tensor<7xf32>) -> tensor<7x3xf32>
    %165 = stablehlo.divide %162, %164 : tensor<7x3xf32>
    %166 = stablehlo.dot_general %147, %165, contracting_dims = [] x [], precision = [DEFAULT, DEFAULT] : (tensor<5x3xf32>, tensor<7x3xf32>) -> tensor<5x3x7x3xf32>
    %167 = stablehlo.reshape %arg0 : (tensor<3x4xf32>) -> tensor<1x1x3x4xf32>
    %168 = stablehlo.transpose %167, dims = [0, 3, 2, 1] {result_layout = dense<[1, 2, 3, 0]> : tensor<4xindex>, xla_shape = "f32[1,4,3,1]{1,2,3,0}"} : (tensor<1x1x3x4xf32>) -> tensor<1x4x3x1xf32>
    %169 = stablehlo.broadcast_in_dim %154, dims = [0] : (tensor<7xf32>) -> tensor<7x5x1xf32>
    %170 = stablehlo.broadcast_in_dim %135, dims = [1] : (tensor<5xf32>) -> tensor<7x5x1xf32>
    %171 = stablehlo.concatenate %169, %170, dim = 2 : (tensor<7x5x1xf32>, tensor<7x5x1xf32>) -> tensor<7x5x2xf32>
    %172 = stablehlo.convert %171 : (tensor<7x5x2xf32>) -> tensor<7x5x2xi32>
    %173 = "stablehlo.gather"(%168, %172) <{dimension_numbers = #stablehlo.gather<offset_dims = [0, 1, 2, 3], start_index_map = [1, 2], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 3, 3, 1>}> : (tensor<1x4x3x1xf32>, tensor<7x5x2xi32>) -> tensor<1x3x3x1x7x5xf32>
    %174 = stablehlo.dot_general %166, %173, batching_dims = [2, 0] x [4, 5], contracting_dims = [3, 1] x [1, 2], precision = [DEFAULT, DEFAULT] : (tensor<5x3x7x3xf32>, tensor<1x3x3x1x7x5xf32>) -> tensor<7x5x1x1xf32>
    %175 = stablehlo.reshape %174 : (tensor<7x5x1x1xf32>) -> tensor<1x7x5x1xf32>
    %176 = stablehlo.transpose %175, dims = [0, 3, 2, 1] {result_layout = dense<[1, 0, 2, 3]> : tensor<4xindex>, xla_shape = "f32[1,1,5,7]{1,0,2,3}"} : (tensor<1x7x5x1xf32>) -> tensor<1x1x5x7xf32>
    %177 = stablehlo.add %6, %c : tensor<3xi32>
    %178 = stablehlo.broadcast_in_dim %177, dims = [0] : (tensor<3xi32>) -> tensor<3x3xi32>
    %179 = stablehlo.compare  GE, %178, %98 : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
    %180 = stablehlo.custom_call @Qr(%arg2) {backend_config = "", xla_shape = "(f32[3,3]{1,0}, f32[3]{0})"} : (tensor<3x3xf32>) -> tuple<tensor<3x3xf32>, tensor<3xf32>>
    %181 = stablehlo.get_tuple_element %180[0] : (tuple<tensor<3x3xf32>, tensor<3xf32>>) -> tensor<3x3xf32>
    %182 = stablehlo.select %179, %cst_20, %181 : tensor<3x3xi1>, tensor<3x3xf32>
    %183 = stablehlo.get_tuple_element %180[1] : (tuple<tensor<3x3xf32>, tensor<3xf32>>) -> tensor<3xf32>
    %184 = stablehlo.custom_call @ProductOfElementaryHouseholderReflectors(%181, %183) {backend_config = ""} : (tensor<3x3xf32>, tensor<3xf32>) -> tensor<3x3xf32>
    %185 = stablehlo.transpose %184, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[3,3]{0,1}"} : (tensor<3x3xf32>) -> tensor<3x3xf32>
    %186 = "stablehlo.triangular_solve"(%182, %185) <{left_side = true, lower = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[3,3]{0,1}"} : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
    %187 = stablehlo.transpose %arg2, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[3,3]{0,1}"} : (tensor<3x3xf32>) -> tensor<3x3xf32>
    %188 = stablehlo.dot_general %arg2, %187, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
    %189 = stablehlo.broadcast_in_dim %c_32, dims = [0] : (tensor<3xi64>) -> tensor<3x3xi64>
    %190 = stablehlo.broadcast_in_dim %c_32, dims = [1] : (tensor<3xi64>) -> tensor<3x3xi64>
    %191 = stablehlo.compare  EQ, %189, %190 : (tensor<3x3xi64>, tensor<3x3xi64>) -> tensor<3x3xi1>
    %192 = stablehlo.select %191, %cst_0, %cst_20 : tensor<3x3xi1>, tensor<3x3xf32>
    %193 = stablehlo.add %188, %192 : tensor<3x3xf32>
    %194 = stablehlo.custom_call @Eigh(%193) {backend_config = "1,1,100,0.000001", xla_shape = "(f32[3,3]{1,0}, f32[3]{0})"} : (tensor<3x3xf32>) -> tuple<tensor<3x3xf32>, tensor<3xf32>>
    %195 = stablehlo.get_tuple_element %194[1] : (tuple<tensor<3x3xf32>, tensor<3xf32>>) -> tensor<3xf32>
    %196 = stablehlo.get_tuple_element %194[0] : (tuple<tensor<3x3xf32>, tensor<3xf32>>) -> tensor<3x3xf32>
    %197 = stablehlo.broadcast_in_dim %195, dims = [1] : (tensor<3xf32>) -> tensor<3x3xf32>
    %198 = stablehlo.multiply %196, %197 : tensor<3x3xf32>
    %199 = stablehlo.transpose %196, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[3,3]{0,1}"} : (tensor<3x3xf32>) -> tensor<3x3xf32>
    %200 = stablehlo.dot_general %198, %199, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
    %201 = stablehlo.select %99, %106, %cst_20 : tensor<3x3xi1>, tensor<3x3xf32>
    %202 = stablehlo.reduce(%201 init: %cst_38) applies stablehlo.add across dimensions = [0] : (tensor<3x3xf32>, tensor<f32>) -> tensor<3xf32>
    return %109#0, %110, %111, %113, %115, %116, %121, %127, %128, %176, %186, %195, %200, %202 : tensor<3x4xf32>, tensor<3x4xi64>, tensor<3x2xf32>, tensor<3x2xi64>, tensor<3xi64>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x3xf32>, tensor<3x4xf32>, tensor<1x1x5x7xf32>, tensor<3x3xf32>, tensor<3xf32>, tensor<3x3xf32>, tensor<3xf32>
  }
}

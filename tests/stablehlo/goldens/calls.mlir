module @jit_calls attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @maximal_mesh_0 = <[], device_ids=[0]> {stablehlo.mesh = {axes = [], device_ids = dense<0> : tensor<1xi64>}}
  func.func @top_k_lt_f32_comparator(%arg0: tensor<f32>, %arg1: tensor<f32>, %arg2: tensor<i32>, %arg3: tensor<i32>) -> tensor<i1> {
    %0 = stablehlo.compare LT, %arg0, %arg1 : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %0 : tensor<i1>
  }
  func.func @top_k_gt_f32_comparator(%arg0: tensor<f32>, %arg1: tensor<f32>, %arg2: tensor<i32>, %arg3: tensor<i32>) -> tensor<i1> {
    %0 = stablehlo.compare GT, %arg0, %arg1 : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %0 : tensor<i1>
  }
  func.func public @main(%arg0: tensor<5x4xf32>, %arg1: tensor<3xcomplex<f32>>) -> (tensor<5x2xf32> {jax.result_info = "result[0][0]"}, tensor<5x2xi32> {jax.result_info = "result[0][1]"}, tensor<2x4xf32> {jax.result_info = "result[1][0]"}, tensor<2x4xi32> {jax.result_info = "result[1][1]"}, tensor<5x4xf32> {jax.result_info = "result[2]"}, tensor<5x4xf32> {jax.result_info = "result[3]"}, tensor<4x5xf32> {jax.result_info = "result[4]"}, tensor<4x5xf32> {jax.result_info = "result[5]"}, tensor<3xcomplex<f32>> {jax.result_info = "result[6]"}, tensor<3xcomplex<f32>> {jax.result_info = "result[7]"}) {
    %0 = stablehlo.slice %arg0 [0:1, 0:1] : (tensor<5x4xf32>) -> tensor<1x1xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x1xf32>) -> tensor<f32>
    stablehlo.custom_call @xla_ffi_python_cpu_callback(%1) {backend_config = "", has_side_effect = true, mhlo.backend_config = {index = 0 : ui64}, operand_layouts = [dense<> : tensor<0xindex>], result_layouts = [], sdy.sharding = #sdy.sharding_per_value<[<@maximal_mesh_0, []>]>} : (tensor<f32>) -> ()
    %2:2 = call @qr(%arg0) : (tensor<5x4xf32>) -> (tensor<4x5xf32>, tensor<4xf32>)
    %3 = stablehlo.transpose %2#0, dims = [1, 0] : (tensor<4x5xf32>) -> tensor<5x4xf32>
    %4 = stablehlo.iota dim = 1 : tensor<5x4xi32>
    %c = stablehlo.constant dense<-1> : tensor<i32>
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %5:2 = stablehlo.custom_call @ApproxTopK(%arg0, %4, %cst, %c) {backend_config = "", called_computations = [@top_k_gt_f32_comparator], mhlo.backend_config = {aggregate_to_topk = true, is_fallback = true, recall_target = 0.949999988 : f32, reduction_dim = 1 : i64, reduction_input_size_override = -1 : i64, top_k = 2 : i64}} : (tensor<5x4xf32>, tensor<5x4xi32>, tensor<f32>, tensor<i32>) -> (tensor<5x2xf32>, tensor<5x2xi32>)
    %6 = stablehlo.iota dim = 0 : tensor<5x4xi32>
    %c_0 = stablehlo.constant dense<-1> : tensor<i32>
    %cst_1 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %7:2 = stablehlo.custom_call @ApproxTopK(%arg0, %6, %cst_1, %c_0) {backend_config = "", called_computations = [@top_k_lt_f32_comparator], mhlo.backend_config = {aggregate_to_topk = true, is_fallback = true, recall_target = 0.949999988 : f32, reduction_dim = 0 : i64, reduction_input_size_override = -1 : i64, top_k = 2 : i64}} : (tensor<5x4xf32>, tensor<5x4xi32>, tensor<f32>, tensor<i32>) -> (tensor<2x4xf32>, tensor<2x4xi32>)
    %8 = stablehlo.custom_call @lapack_sormqr_ffi(%3, %2#1, %arg0) {backend_config = "", mhlo.backend_config = {left = true, transpose = false}, mhlo.frontend_attributes = {num_batch_dims = "0"}, operand_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<0> : tensor<1xindex>, dense<[0, 1]> : tensor<2xindex>], output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 2, operand_tuple_indices = []>], result_layouts = [dense<[0, 1]> : tensor<2xindex>], sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [k], [l, m])->([n, o]) {i=5, j=4, k=4, l=5, m=4, n=5, o=4}, custom>} : (tensor<5x4xf32>, tensor<4xf32>, tensor<5x4xf32>) -> tensor<5x4xf32>
    %9 = stablehlo.custom_call @lapack_sormqr_ffi(%3, %2#1, %arg0) {backend_config = "", mhlo.backend_config = {left = true, transpose = true}, mhlo.frontend_attributes = {num_batch_dims = "0"}, operand_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<0> : tensor<1xindex>, dense<[0, 1]> : tensor<2xindex>], output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 2, operand_tuple_indices = []>], result_layouts = [dense<[0, 1]> : tensor<2xindex>], sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [k], [l, m])->([n, o]) {i=5, j=4, k=4, l=5, m=4, n=5, o=4}, custom>} : (tensor<5x4xf32>, tensor<4xf32>, tensor<5x4xf32>) -> tensor<5x4xf32>
    %10 = stablehlo.transpose %arg0, dims = [1, 0] : (tensor<5x4xf32>) -> tensor<4x5xf32>
    %11 = stablehlo.custom_call @lapack_sormqr_ffi(%3, %2#1, %10) {backend_config = "", mhlo.backend_config = {left = false, transpose = false}, mhlo.frontend_attributes = {num_batch_dims = "0"}, operand_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<0> : tensor<1xindex>, dense<[0, 1]> : tensor<2xindex>], output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 2, operand_tuple_indices = []>], result_layouts = [dense<[0, 1]> : tensor<2xindex>], sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [k], [l, m])->([n, o]) {i=5, j=4, k=4, l=4, m=5, n=4, o=5}, custom>} : (tensor<5x4xf32>, tensor<4xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
    %12 = stablehlo.transpose %arg0, dims = [1, 0] : (tensor<5x4xf32>) -> tensor<4x5xf32>
    %13 = stablehlo.custom_call @lapack_sormqr_ffi(%3, %2#1, %12) {backend_config = "", mhlo.backend_config = {left = false, transpose = true}, mhlo.frontend_attributes = {num_batch_dims = "0"}, operand_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<0> : tensor<1xindex>, dense<[0, 1]> : tensor<2xindex>], output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 2, operand_tuple_indices = []>], result_layouts = [dense<[0, 1]> : tensor<2xindex>], sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [k], [l, m])->([n, o]) {i=5, j=4, k=4, l=4, m=5, n=4, o=5}, custom>} : (tensor<5x4xf32>, tensor<4xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
    %cst_2 = stablehlo.constant dense<(0.000000e+00,0.000000e+00)> : tensor<complex<f32>>
    %14 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<complex<f32>>) -> tensor<3xcomplex<f32>>
    %15 = stablehlo.multiply %arg1, %14 : tensor<3xcomplex<f32>>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %c_4 = stablehlo.constant dense<0> : tensor<i32>
    %16:4 = stablehlo.while(%iterArg = %arg1, %iterArg_6 = %c_4, %iterArg_7 = %c_3, %iterArg_8 = %15) : tensor<3xcomplex<f32>>, tensor<i32>, tensor<i32>, tensor<3xcomplex<f32>>
    cond {
      %c_9 = stablehlo.constant dense<9> : tensor<i32>
      %22 = stablehlo.compare LT, %iterArg_6, %c_9, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %22 : tensor<i1>
    } do {
      %22:2 = func.call @closed_call(%iterArg, %iterArg_7, %iterArg_8) : (tensor<3xcomplex<f32>>, tensor<i32>, tensor<3xcomplex<f32>>) -> (tensor<i32>, tensor<3xcomplex<f32>>)
      %c_9 = stablehlo.constant dense<1> : tensor<i32>
      %23 = stablehlo.add %iterArg_6, %c_9 : tensor<i32>
      stablehlo.return %iterArg, %23, %22#0, %22#1 : tensor<3xcomplex<f32>>, tensor<i32>, tensor<i32>, tensor<3xcomplex<f32>>
    }
    %17 = stablehlo.slice %arg0 [0:1, 0:1] : (tensor<5x4xf32>) -> tensor<1x1xf32>
    %18 = stablehlo.reshape %17 : (tensor<1x1xf32>) -> tensor<f32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %19 = stablehlo.compare GT, %18, %cst_5, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %20 = stablehlo.convert %19 : (tensor<i1>) -> tensor<i32>
    %21 = "stablehlo.case"(%20) ({
      %cst_6 = stablehlo.constant dense<(1.000000e+00,0.000000e+00)> : tensor<complex<f32>>
      %22 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<complex<f32>>) -> tensor<3xcomplex<f32>>
      %23 = stablehlo.add %arg1, %22 : tensor<3xcomplex<f32>>
      stablehlo.return %23 : tensor<3xcomplex<f32>>
    }, {
      %cst_6 = stablehlo.constant dense<(2.000000e+00,0.000000e+00)> : tensor<complex<f32>>
      %22 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<complex<f32>>) -> tensor<3xcomplex<f32>>
      %23 = stablehlo.multiply %arg1, %22 : tensor<3xcomplex<f32>>
      stablehlo.return %23 : tensor<3xcomplex<f32>>
    }) : (tensor<i32>) -> tensor<3xcomplex<f32>>
    return %5#0, %5#1, %7#0, %7#1, %8, %9, %11, %13, %16#3, %21 : tensor<5x2xf32>, tensor<5x2xi32>, tensor<2x4xf32>, tensor<2x4xi32>, tensor<5x4xf32>, tensor<5x4xf32>, tensor<4x5xf32>, tensor<4x5xf32>, tensor<3xcomplex<f32>>, tensor<3xcomplex<f32>>
  }
  func.func private @qr(%arg0: tensor<5x4xf32>) -> (tensor<4x5xf32>, tensor<4xf32>) {
    %0:2 = stablehlo.custom_call @lapack_sgeqrf_ffi(%arg0) {backend_config = "", mhlo.backend_config = {}, mhlo.frontend_attributes = {num_batch_dims = "0"}, operand_layouts = [dense<[0, 1]> : tensor<2xindex>], output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [0], operand_index = 0, operand_tuple_indices = []>], result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<0> : tensor<1xindex>], sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([k, l], [m]) {i=5, j=4, k=5, l=4, m=4}, custom>} : (tensor<5x4xf32>) -> (tensor<5x4xf32>, tensor<4xf32>)
    %1 = stablehlo.transpose %0#0, dims = [1, 0] : (tensor<5x4xf32>) -> tensor<4x5xf32>
    return %1, %0#1 : tensor<4x5xf32>, tensor<4xf32>
  }
  func.func private @closed_call(%arg0: tensor<3xcomplex<f32>>, %arg1: tensor<i32>, %arg2: tensor<3xcomplex<f32>>) -> (tensor<i32>, tensor<3xcomplex<f32>>) {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %0 = stablehlo.add %arg1, %c : tensor<i32>
    %1 = stablehlo.abs %arg2 : (tensor<3xcomplex<f32>>) -> tensor<3xf32>
    %cst = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %3 = stablehlo.compare LT, %1, %2, FLOAT : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %4 = stablehlo.multiply %arg2, %arg2 : tensor<3xcomplex<f32>>
    %5 = stablehlo.add %4, %arg0 : tensor<3xcomplex<f32>>
    %6 = call @_where(%3, %5, %arg2) : (tensor<3xi1>, tensor<3xcomplex<f32>>, tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>>
    return %0, %6 : tensor<i32>, tensor<3xcomplex<f32>>
  }
  func.func private @_where(%arg0: tensor<3xi1>, %arg1: tensor<3xcomplex<f32>>, %arg2: tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<3xi1>, tensor<3xcomplex<f32>>
    return %0 : tensor<3xcomplex<f32>>
  }
}

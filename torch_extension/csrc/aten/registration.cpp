// Every kernel of the device in the `aten` namespace, in one place.
#include <torch/library.h>

#include "aten/copy.h"
#include "aten/float8.h"
#include "aten/kernels.h"
#include "record/immediate.h"
#include "record/recorder.h"
#include "runtime/runtime.h"

namespace torchacc {
namespace {

torch::CppFunction recorder() { return torch::CppFunction::makeFromBoxedFunction<&record_boxed>(); }

bool is_structured(const c10::OperatorHandle& op) {
  return op.hasKernelForDispatchKey(c10::DispatchKey::CPU) &&
         op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional);
}

// Pointwise operators that are implemented by calling their out= form on a tensor without elements,
// whose shapes would be inferred anew each time.
bool is_pointwise_by_out(const c10::OperatorHandle& op) {
  const c10::OperatorName& name = op.operator_name();
  if (!name.overload_name.empty() || !op.hasTag(at::Tag::pointwise) ||
      op.hasKernelForDispatchKey(c10::DispatchKey::CPU) ||
      !op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd)) {
    return false;
  }
  const auto out = c10::Dispatcher::singleton().findOp({name.name, "out"});
  return out.has_value() && out->hasKernelForDispatchKey(c10::DispatchKey::CPU);
}

// For structured operators PyTorch has a default for every backend: infer shapes, allocate, call
// the out= form. It would infer the shapes of each call twice, so the functional and in-place forms
// go to the recorder directly. Operators that have such a default but no CPU kernel are
// compositions (views and copies); their parts are recorded instead.
void record_whole_operators(torch::Library& library) {
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    constexpr std::string_view kNamespace = "aten::";
    if (name.name.compare(0, kNamespace.size(), kNamespace) != 0) continue;
    const auto op = dispatcher.findOp(name);
    if (!op || !(is_structured(*op) || is_pointwise_by_out(*op))) continue;
    // Some have a kernel of their own here.
    if (op->hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1)) continue;
    const std::string local = c10::toString(name).substr(kNamespace.size());
    library.impl(local.c_str(), recorder());
  }
}

// Compositions in name only: they read and write memory themselves, or choose a kernel by the type
// of the device. They run on the CPU at once, on copies.
void run_on_the_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  run_immediately(*operator_info(op), *stack);
}

void add_readers_of_memory(torch::Library& m) {
  for (const char* name :
       {"kaiser_window", "kaiser_window.periodic", "kaiser_window.beta", "_sobol_engine_draw",
        "_sobol_engine_ff_", "_sobol_engine_initialize_state_", "_sobol_engine_scramble_",
        "_rowwise_prune", "choose_qparams_optimized", "_grid_sampler_2d_cpu_fallback",
        "_grid_sampler_2d_cpu_fallback_backward"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&run_on_the_host>());
  }
}

// Composites of differentiable operators, registered for both keys: autograd must not stand before
// them.
void add_recurrent_layers(torch::Library& m) {
  m.impl("_thnn_fused_lstm_cell", &lstm_cell);
  m.impl("_thnn_fused_gru_cell", &gru_cell);
  m.impl("lstm.input", &lstm);
  m.impl("gru.input", &gru);
  m.impl("rnn_tanh.input", &rnn_tanh);
  m.impl("rnn_relu.input", &rnn_relu);
  m.impl("lstm.data", &packed_lstm);
  m.impl("gru.data", &packed_gru);
  m.impl("rnn_tanh.data", &packed_rnn_tanh);
  m.impl("rnn_relu.data", &packed_rnn_relu);
  m.impl("_pack_padded_sequence_backward", &pack_padded_sequence_backward);
  m.impl("_pad_packed_sequence", &pad_packed_sequence);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(recorder()); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("_efficientzerotensor", &efficient_zero_tensor);
  m.impl("arange.start_out", &arange_out);
  m.impl("range.out", &range_out);
  m.impl("range.out_", &range_out_by_one);
  m.impl("linspace.out", &linspace_out);
  m.impl("logspace.out", &logspace_out);

  m.impl("as_strided", &as_strided);
  m.impl("view", &view);
  m.impl("view.dtype", &view_dtype);
  m.impl("_reshape_alias", &reshape_alias);
  m.impl("unfold", &unfold);
  m.impl("view_as_real", &view_as_real);
  m.impl("view_as_complex", &view_as_complex);
  m.impl("resize_", &resize_);
  m.impl("set_.source_Storage_storage_offset", &set_source_storage_offset);
  m.impl("set_.source_Storage", &set_source_storage);
  m.impl("set_.source_Tensor", &set_source_tensor);
  m.impl("set_", &set_empty);
  m.impl("is_set_to", &is_set_to);
  m.impl("_has_compatible_shallow_copy_type", &has_compatible_shallow_copy_type);
  m.impl("record_stream", &record_stream);

  m.impl("_copy_from", &copy_from);
  m.impl("_copy_from_and_resize", &copy_from_and_resize);
  m.impl("_local_scalar_dense", &local_scalar_dense);

  m.impl("_fused_sdp_choice", &fused_sdp_choice);
  m.impl("_scaled_dot_product_fused_attention_overrideable", &attention);
  m.impl("_scaled_dot_product_fused_attention_overrideable_backward", &attention_backward);

  m.impl("_flash_attention_forward", torch::CppFunction::makeFromBoxedFunction<&flash_attention>());
  m.impl("_flash_attention_backward",
         torch::CppFunction::makeFromBoxedFunction<&flash_attention_backward>());
  m.impl("_efficient_attention_forward",
         torch::CppFunction::makeFromBoxedFunction<&efficient_attention>());
  m.impl("_efficient_attention_backward",
         torch::CppFunction::makeFromBoxedFunction<&efficient_attention_backward>());

  m.impl("_embedding_bag_backward",
         torch::CppFunction::makeFromBoxedFunction<&embedding_bag_backward>());
  m.impl("convolution_overrideable",
         torch::CppFunction::makeFromBoxedFunction<&convolution_overrideable>());
  m.impl("convolution_backward_overrideable",
         torch::CppFunction::makeFromBoxedFunction<&convolution_backward_overrideable>());
  m.impl("_pack_padded_sequence", &pack_padded_sequence);
  add_recurrent_layers(m);
  m.impl("addr", &addr);
  m.impl("roll", &roll);
  m.impl("stack", &stack);
  m.impl("masked_select", torch::CppFunction::makeFromBoxedFunction<&masked_select>());
  m.impl("ldexp.Tensor", torch::CppFunction::makeFromBoxedFunction<&ldexp>());
  m.impl("cat", torch::CppFunction::makeFromBoxedFunction<&cat>());
  m.impl("cat.out", torch::CppFunction::makeFromBoxedFunction<&cat_out>());
  m.impl("select_backward", &select_backward);
  m.impl("slice_backward", &slice_backward);
  m.impl("addr.out", &addr_out);
  m.impl("_nested_tensor_from_mask_left_aligned", &is_left_aligned);
  m.impl("_native_multi_head_attention", &multi_head_attention);
  m.impl("_transformer_encoder_layer_fwd", &encoder_layer);

  m.impl("one_hot", &one_hot);
  add_readers_of_memory(m);

  // Recorded whole instead of PyTorch's decomposition for unknown devices, which may not even know
  // them.
  for (const char* name :
       {"embedding", "logsumexp", "native_layer_norm", "native_group_norm", "mish_backward",
        "complex", "polar", "ldexp.out", "ldexp_", "smooth_l1_loss_backward", "huber_loss_backward",
        "masked_scatter_backward", "_grouped_mm", "conj_physical_", "mode.values", "all.dims_out",
        "any.dims_out"}) {
    m.impl(name, recorder());
  }
  for (const char* name : {"cumprod_backward", "cummax", "cummax.out", "cummin", "cummin.out",
                           "logcumsumexp", "logcumsumexp.out"}) {
    m.impl(name, recorder());
  }
  for (const char* name : {"_scaled_mm", "_scaled_mm.out", "_scaled_mm_v2", "_scaled_mm_v2.out"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&scaled_product>());
  }
  // PyTorch's CPU has no kernel for the gradient: if forced to the host, it stays a composition.
  if (!host_forced("aten::_fused_rms_norm")) m.impl("_fused_rms_norm", recorder());
  record_whole_operators(m);
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  add_recurrent_layers(m);
  m.impl("prod", TORCH_FN(prod));
  m.impl("prod.dim_int", TORCH_FN(prod_dim));
  m.impl("cumprod_backward", &cumprod_backward);
  // Concerns the tensors themselves.
  m.impl("_has_compatible_shallow_copy_type", &has_compatible_shallow_copy_type);
}

// The copy kernel handles the lazy bits itself; PyTorch's fallback would call it again to resolve
// them.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, Negative, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}

}  // namespace
}  // namespace torchacc

// The kernels that registration.cpp binds to operator names. All other operators go through the
// recorder.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <array>
#include <optional>
#include <tuple>

namespace torchacc {

// factory.cpp
at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout> layout, std::optional<at::Device> device,
                 std::optional<bool> pin_memory, std::optional<at::MemoryFormat> memory_format);
at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                         std::optional<at::Device> device, std::optional<bool> pin_memory);
at::Tensor efficient_zero_tensor(at::IntArrayRef size, std::optional<at::ScalarType> dtype,
                                 std::optional<at::Layout> layout, std::optional<at::Device> device,
                                 std::optional<bool> pin_memory);
at::Tensor& arange_out(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step,
                       at::Tensor& out);
at::Tensor& range_out(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step,
                      at::Tensor& out);
at::Tensor& range_out_by_one(const at::Scalar& start, const at::Scalar& end, at::Tensor& out);
at::Tensor& linspace_out(const at::Scalar& start, const at::Scalar& end, int64_t steps,
                         at::Tensor& out);
at::Tensor& logspace_out(const at::Scalar& start, const at::Scalar& end, int64_t steps, double base,
                         at::Tensor& out);

// varying.cpp
at::Tensor roll(const at::Tensor& self, c10::SymIntArrayRef shifts, at::IntArrayRef dims);
at::Tensor stack(at::TensorList tensors, int64_t dim);
void cat(const c10::OperatorHandle& op, torch::jit::Stack* stack);
void cat_out(const c10::OperatorHandle& op, torch::jit::Stack* stack);
at::Tensor select_backward(const at::Tensor& grad, c10::SymIntArrayRef input_sizes, int64_t dim,
                           c10::SymInt index);
at::Tensor slice_backward(const at::Tensor& grad, c10::SymIntArrayRef input_sizes, int64_t dim,
                          c10::SymInt start, c10::SymInt end, c10::SymInt step);

// view.cpp
at::Tensor as_strided(const at::Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride,
                      std::optional<c10::SymInt> storage_offset);
at::Tensor view(const at::Tensor& self, c10::SymIntArrayRef size);
at::Tensor view_dtype(const at::Tensor& self, at::ScalarType dtype);
at::Tensor reshape_alias(const at::Tensor& self, c10::SymIntArrayRef size,
                         c10::SymIntArrayRef stride);
at::Tensor unfold(const at::Tensor& self, int64_t dimension, int64_t size, int64_t step);
at::Tensor view_as_real(const at::Tensor& self);
at::Tensor view_as_complex(const at::Tensor& self);
const at::Tensor& resize_(const at::Tensor& self, c10::SymIntArrayRef size,
                          std::optional<at::MemoryFormat> memory_format);
at::Tensor& set_source_storage_offset(at::Tensor& self, at::Storage source,
                                      c10::SymInt storage_offset, c10::SymIntArrayRef size,
                                      c10::SymIntArrayRef stride);
at::Tensor& set_source_storage(at::Tensor& self, at::Storage source);
at::Tensor& set_source_tensor(at::Tensor& self, const at::Tensor& source);
at::Tensor& set_empty(at::Tensor& self);
bool is_set_to(const at::Tensor& self, const at::Tensor& other);
bool has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from);
void record_stream(at::Tensor& self, at::Stream stream);

// attention.cpp
int64_t fused_sdp_choice(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                         const std::optional<at::Tensor>& mask, double dropout_p, bool is_causal,
                         std::optional<double> scale, bool enable_gqa);
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt, at::Tensor,
           at::Tensor, at::Tensor>
attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
          const std::optional<at::Tensor>& bias, double dropout_p, bool is_causal,
          bool return_debug_mask, std::optional<double> scale);
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> attention_backward(
    const at::Tensor& grad_out, const at::Tensor& query, const at::Tensor& key,
    const at::Tensor& value, const at::Tensor& bias, std::array<bool, 4> grad_input_mask,
    const at::Tensor& out, const at::Tensor& logsumexp, const at::Tensor& cum_seq_q,
    const at::Tensor& cum_seq_k, c10::SymInt max_q, c10::SymInt max_k, double dropout_p,
    bool is_causal, const at::Tensor& philox_seed, const at::Tensor& philox_offset,
    std::optional<double> scale);

// sequences.cpp
void flash_attention(const c10::OperatorHandle& op, torch::jit::Stack* stack);
void flash_attention_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack);
void efficient_attention(const c10::OperatorHandle& op, torch::jit::Stack* stack);
void efficient_attention_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// composite.cpp
at::Tensor addr(const at::Tensor& self, const at::Tensor& vec1, const at::Tensor& vec2,
                const at::Scalar& beta, const at::Scalar& alpha);
at::Tensor& addr_out(const at::Tensor& self, const at::Tensor& vec1, const at::Tensor& vec2,
                     const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out);
at::Tensor one_hot(const at::Tensor& self, int64_t num_classes);
bool is_left_aligned(const at::Tensor& tensor, const at::Tensor& mask);
void masked_select(const c10::OperatorHandle& op, torch::jit::Stack* stack);
void ldexp(const c10::OperatorHandle& op, torch::jit::Stack* stack);
void embedding_bag_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack);
void convolution_overrideable(const c10::OperatorHandle& op, torch::jit::Stack* stack);
void convolution_backward_overrideable(const c10::OperatorHandle& op, torch::jit::Stack* stack);
std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell(
    const at::Tensor& input_gates, const at::Tensor& hidden_gates, const at::Tensor& cell,
    const std::optional<at::Tensor>& input_bias, const std::optional<at::Tensor>& hidden_bias);
std::tuple<at::Tensor, at::Tensor> gru_cell(const at::Tensor& input_gates,
                                            const at::Tensor& hidden_gates,
                                            const at::Tensor& hidden,
                                            const std::optional<at::Tensor>& input_bias,
                                            const std::optional<at::Tensor>& hidden_bias);

// derivatives.cpp
at::Tensor prod(c10::DispatchKeySet keys, const at::Tensor& self,
                std::optional<c10::ScalarType> dtype);
at::Tensor prod_dim(c10::DispatchKeySet keys, const at::Tensor& self, int64_t dim, bool keepdim,
                    std::optional<c10::ScalarType> dtype);
at::Tensor cumprod_backward(const at::Tensor& grad, const at::Tensor& input, int64_t dim,
                            const at::Tensor& output);

// encoder.cpp
std::tuple<at::Tensor, at::Tensor> multi_head_attention(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, int64_t embed_dim,
    int64_t num_head, const at::Tensor& qkv_weight, const at::Tensor& qkv_bias,
    const at::Tensor& proj_weight, const at::Tensor& proj_bias,
    const std::optional<at::Tensor>& mask, bool need_weights, bool average_attn_weights,
    std::optional<int64_t> mask_type);
at::Tensor encoder_layer(const at::Tensor& src, int64_t embed_dim, int64_t num_heads,
                         const at::Tensor& qkv_weight, const at::Tensor& qkv_bias,
                         const at::Tensor& proj_weight, const at::Tensor& proj_bias, bool use_gelu,
                         bool norm_first, double eps, const at::Tensor& norm_weight_1,
                         const at::Tensor& norm_bias_1, const at::Tensor& norm_weight_2,
                         const at::Tensor& norm_bias_2, const at::Tensor& ffn_weight_1,
                         const at::Tensor& ffn_bias_1, const at::Tensor& ffn_weight_2,
                         const at::Tensor& ffn_bias_2, const std::optional<at::Tensor>& mask,
                         std::optional<int64_t> mask_type);

// recurrent.cpp
std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm(const at::Tensor& input, at::TensorList states,
                                                    at::TensorList parameters, bool has_biases,
                                                    int64_t layers, double dropout, bool train,
                                                    bool bidirectional, bool batch_first);
using RecurrentLayer = std::tuple<at::Tensor, at::Tensor>(
    const at::Tensor& input, const at::Tensor& hidden, at::TensorList parameters, bool has_biases,
    int64_t layers, double dropout, bool train, bool bidirectional, bool batch_first);
RecurrentLayer gru, rnn_tanh, rnn_relu;
std::tuple<at::Tensor, at::Tensor, at::Tensor> packed_lstm(
    const at::Tensor& data, const at::Tensor& batch_sizes, at::TensorList states,
    at::TensorList parameters, bool has_biases, int64_t layers, double dropout, bool train,
    bool bidirectional);
using PackedLayer = std::tuple<at::Tensor, at::Tensor>(const at::Tensor& data,
                                                       const at::Tensor& batch_sizes,
                                                       const at::Tensor& hidden,
                                                       at::TensorList parameters, bool has_biases,
                                                       int64_t layers, double dropout, bool train,
                                                       bool bidirectional);
PackedLayer packed_gru, packed_rnn_tanh, packed_rnn_relu;

// packing.cpp
std::tuple<at::Tensor, at::Tensor> pack_padded_sequence(const at::Tensor& input,
                                                        const at::Tensor& lengths,
                                                        bool batch_first);
at::Tensor pack_padded_sequence_backward(const at::Tensor& grad, c10::SymIntArrayRef input_size,
                                         const at::Tensor& batch_sizes, bool batch_first);
std::tuple<at::Tensor, at::Tensor> pad_packed_sequence(const at::Tensor& data,
                                                       const at::Tensor& batch_sizes,
                                                       bool batch_first,
                                                       const at::Scalar& padding_value,
                                                       int64_t total_length);

}  // namespace torchacc

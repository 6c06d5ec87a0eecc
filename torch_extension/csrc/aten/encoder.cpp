// Operators that nn.MultiheadAttention and nn.TransformerEncoderLayer call in evaluation. PyTorch
// has kernels for them on its own devices; here they are the compositions that they stand for.
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>

#include <cmath>
#include <limits>

#include "aten/kernels.h"

namespace torchacc {
namespace {

using Mask = std::optional<at::Tensor>;

// PyTorch's mask types.
constexpr int64_t kOfPlaces = 0;   // [length, length]
constexpr int64_t kOfPadding = 1;  // [batch, length]

void check_sizes(const at::Tensor& tensor, at::IntArrayRef sizes, const char* name) {
  TORCH_CHECK(tensor.sizes() == sizes, "expected `", name, "` of sizes ", sizes, ", got ",
              tensor.sizes());
}

// The positions that attention must not see, as true, in a shape that broadcasts to [batch, heads,
// length, length]. Numbers other than 0 are true, as in PyTorch's kernels.
at::Tensor unseen(const at::Tensor& mask, std::optional<int64_t> type, at::IntArrayRef scores) {
  const at::Tensor places = mask.to(at::kBool);
  if (mask.dim() == 2 && type == kOfPlaces) {
    check_sizes(mask, {scores[2], scores[3]}, "mask");
    return places;
  }
  if (mask.dim() == 2 && type == kOfPadding) {
    check_sizes(mask, {scores[0], scores[3]}, "mask");
    return places.unsqueeze(1).unsqueeze(1);
  }
  check_sizes(mask, scores, "mask");
  return places;
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> multi_head_attention(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, int64_t embed_dim,
    int64_t num_head, const at::Tensor& qkv_weight, const at::Tensor& qkv_bias,
    const at::Tensor& proj_weight, const at::Tensor& proj_bias, const Mask& mask, bool need_weights,
    bool average_attn_weights, std::optional<int64_t> mask_type) {
  TORCH_CHECK(query.dim() == 3, "expected 3-D `query`, got ", query.dim(), "-D tensor");
  TORCH_CHECK(query.sizes() == key.sizes() && key.sizes() == value.sizes(),
              "expected `query`/`key`/`value` shapes to match");
  TORCH_CHECK(num_head > 0 && embed_dim % num_head == 0,
              "`embed_dim` must divide evenly by `num_heads`");
  check_sizes(query, {query.size(0), query.size(1), embed_dim}, "query");
  check_sizes(qkv_weight, {3 * embed_dim, embed_dim}, "qkv_weight");
  check_sizes(qkv_bias, {3 * embed_dim}, "qkv_bias");
  const bool is_self = query.is_same(key) && key.is_same(value);
  const auto weights = qkv_weight.chunk(3);
  const auto biases = qkv_bias.chunk(3);
  const auto projected = [&] {
    if (is_self) return at::linear(query, qkv_weight, qkv_bias).chunk(3, -1);
    return std::vector<at::Tensor>{at::linear(query, weights[0], biases[0]),
                                   at::linear(key, weights[1], biases[1]),
                                   at::linear(value, weights[2], biases[2])};
  }();
  const int64_t width = embed_dim / num_head;
  const auto heads = [&](const at::Tensor& tensor) {
    return tensor.unflatten(-1, {num_head, width}).transpose(1, 2);
  };
  const at::Tensor q = heads(projected[0]), k = heads(projected[1]), v = heads(projected[2]);
  const c10::SmallVector<int64_t, 4> sizes{query.size(0), num_head, query.size(1), query.size(1)};
  const Mask hidden = mask.has_value() && mask->defined()
                          ? std::optional(unseen(*mask, mask_type, sizes))
                          : std::nullopt;
  at::Tensor context, looked_at;
  if (need_weights) {
    at::Tensor scores = at::matmul(q * (1 / std::sqrt(static_cast<double>(width))), k.mT());
    if (hidden.has_value())
      scores = scores.masked_fill(*hidden, -std::numeric_limits<double>::infinity());
    looked_at = at::softmax(scores, -1);
    context = at::matmul(looked_at, v);
    if (average_attn_weights) looked_at = looked_at.mean(1);
  } else {
    const Mask seen = hidden.has_value() ? std::optional(hidden->logical_not()) : std::nullopt;
    context = at::scaled_dot_product_attention(q, k, v, seen);
    // For a query that sees no key, the attention gives 0, PyTorch's kernel NaN.
    if (hidden.has_value()) {
      context = context.masked_fill(hidden->all(-1, /*keepdim=*/true),
                                    std::numeric_limits<double>::quiet_NaN());
    }
  }
  return {at::linear(context.transpose(1, 2).flatten(2), proj_weight, proj_bias), looked_at};
}

at::Tensor encoder_layer(const at::Tensor& src, int64_t embed_dim, int64_t num_heads,
                         const at::Tensor& qkv_weight, const at::Tensor& qkv_bias,
                         const at::Tensor& proj_weight, const at::Tensor& proj_bias, bool use_gelu,
                         bool norm_first, double eps, const at::Tensor& norm_weight_1,
                         const at::Tensor& norm_bias_1, const at::Tensor& norm_weight_2,
                         const at::Tensor& norm_bias_2, const at::Tensor& ffn_weight_1,
                         const at::Tensor& ffn_bias_1, const at::Tensor& ffn_weight_2,
                         const at::Tensor& ffn_bias_2, const Mask& mask,
                         std::optional<int64_t> mask_type) {
  if (src.numel() == 0) return src.clone();
  const auto attended = [&](const at::Tensor& x) {
    return std::get<0>(multi_head_attention(x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias,
                                            proj_weight, proj_bias, mask, /*need_weights=*/false,
                                            /*average_attn_weights=*/true, mask_type));
  };
  const auto fed_forward = [&](const at::Tensor& x) {
    const at::Tensor inner = at::linear(x, ffn_weight_1, ffn_bias_1);
    return at::linear(use_gelu ? at::gelu(inner) : at::relu(inner), ffn_weight_2, ffn_bias_2);
  };
  const auto norm_1 = [&](const at::Tensor& x) {
    return at::layer_norm(x, {embed_dim}, norm_weight_1, norm_bias_1, eps);
  };
  const auto norm_2 = [&](const at::Tensor& x) {
    return at::layer_norm(x, {embed_dim}, norm_weight_2, norm_bias_2, eps);
  };
  if (norm_first) {
    const at::Tensor x = src + attended(norm_1(src));
    return x + fed_forward(norm_2(x));
  }
  const at::Tensor x = norm_1(src + attended(src));
  return norm_2(x + fed_forward(x));
}

}  // namespace torchacc

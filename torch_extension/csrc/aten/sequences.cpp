// Attention within each of many concatenated sequences, as on CUDA: the operators that nested
// tensors and torch.nn.attention.varlen call. Sequences are padded to the longest, and masked.
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <limits>

#include "aten/kernels.h"
#include "record/dispatch.h"

namespace torchacc {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A call's arguments by name. These differ between versions of PyTorch: `check_known` refuses given
// arguments that were not asked for.
class NamedArguments {
 public:
  NamedArguments(const c10::OperatorHandle& op, const torch::jit::Stack& stack)
      : schema_(op.schema()),
        values_(torch::jit::last(stack, schema_.arguments().size()).vec()),
        known_(values_.size()) {}

  c10::IValue operator[](const char* name) {
    const auto index = schema_.argumentIndexWithName(name);
    if (!index.has_value()) return {};
    known_[*index] = true;
    return values_[*index];
  }

  // Accepts any value of an argument that has no effect here.
  void ignore(const char* name) { (*this)[name]; }

  void check_known() const {
    for (size_t index = 0; index < values_.size(); ++index) {
      const auto& argument = schema_.arguments()[index];
      const c10::IValue& value = values_[index];
      const auto fallback = argument.default_value().value_or(c10::IValue());
      const bool usual = value.isNone() || (value.isTensor() && !value.toTensor().defined()) ||
                         (!fallback.isNone() && fallback.isScalar() && value == fallback);
      TORCH_CHECK_NOT_IMPLEMENTED(
          known_[index] || usual, schema_.name(), ": the acc device has no ", argument.name(),
          " here. Leave it out, or use torch.nn.functional.scaled_dot_product_attention");
    }
  }

 private:
  const c10::FunctionSchema& schema_;
  std::vector<c10::IValue> values_;
  std::vector<bool> known_;
};

// Sequences concatenated as rows [steps, ...], and as a batch [sequences, longest, ...].
struct Sequences {
  int64_t count, longest;
  at::Tensor lengths;   // [count]
  at::Tensor there;     // [count, longest]: which positions of the batch belong to a sequence
  at::Tensor of_rows;   // [count * longest]: the row of each position
  at::Tensor of_batch;  // [steps]: the position of each row; any for rows outside
  at::Tensor outside;   // [steps]: which rows belong to no sequence, as in buffers of fixed size

  Sequences(const at::Tensor& ends, int64_t longest, int64_t steps, c10::Device device)
      : count(ends.numel() - 1), longest(longest) {
    const at::Tensor bounds = ends.to(device, at::kLong);
    const at::Tensor starts = bounds.narrow(0, 0, count);
    lengths = bounds.narrow(0, 1, count) - starts;
    const auto options = bounds.options();
    const at::Tensor places = at::arange(longest, options), rows = at::arange(steps, options);
    there = places.lt(lengths.unsqueeze(1));
    of_rows = at::where(there, starts.unsqueeze(1) + places, 0).flatten();
    const at::Tensor which =
        at::searchsorted(bounds, rows, /*out_int32=*/false, /*right=*/true) - 1;
    const at::Tensor place = rows - starts.index_select(0, which.clamp(0, count - 1));
    outside = which.lt(0).logical_or(which.ge(count));
    // A sequence longer than declared gives an index out of range.
    const at::Tensor index = at::where(place.lt(longest), which * longest + place, count * longest);
    of_batch = index.masked_fill(outside, 0);
  }

  // [steps, heads, ...] as [count, heads, longest, ...]
  at::Tensor to_batch(const at::Tensor& rows, double padding = 0) const {
    const at::Tensor batch = rows.index_select(0, of_rows).unflatten(0, {count, longest});
    return filled(batch, there.logical_not(), padding).transpose(1, 2);
  }

  at::Tensor to_rows(const at::Tensor& batch) const {
    const at::Tensor rows = batch.transpose(1, 2).flatten(0, 1).index_select(0, of_batch);
    return filled(rows, outside, 0);
  }

 private:
  // Writes `with` where `where`, which has the leading dimensions, is true.
  static at::Tensor filled(const at::Tensor& tensor, at::Tensor where, double with) {
    while (where.dim() < tensor.dim()) where = where.unsqueeze(-1);
    return tensor.masked_fill(where, with);
  }
};

// Number of keys before and behind its own position that a query sees; negative for all. Positions
// are aligned at the first key or, with `from_end`, so that the last query is at the last key.
struct Window {
  int64_t before, behind;
  bool from_end;
};

// One attention problem: tensors of [batch, length, heads, width], or, with `queries`, of [steps,
// heads, width].
struct Problem {
  at::Tensor query, key, value;
  std::optional<Sequences> queries, keys;
  Window window;
  double dropout;
  std::optional<double> scale;

  bool is_empty() const { return query.numel() == 0 || key.numel() == 0 || value.numel() == 0; }
  at::Tensor queries_to_batch(const at::Tensor& tensor) const {
    return queries.has_value() ? queries->to_batch(tensor) : tensor.transpose(1, 2);
  }
  at::Tensor keys_to_batch(const at::Tensor& tensor) const {
    return keys.has_value() ? keys->to_batch(tensor) : tensor.transpose(1, 2);
  }
  at::Tensor queries_of_batch(const at::Tensor& batch) const {
    return queries.has_value() ? queries->to_rows(batch) : batch.transpose(1, 2);
  }
  at::Tensor keys_of_batch(const at::Tensor& batch) const {
    return keys.has_value() ? keys->to_rows(batch) : batch.transpose(1, 2);
  }

  // The keys that each query sees, [count or 1, 1, queries, keys]; undefined if it sees all.
  at::Tensor mask() const {
    const bool is_limited = window.before >= 0 || window.behind >= 0;
    if (!keys.has_value() && !is_limited) return {};
    const int64_t from = queries.has_value() ? queries->longest : query.size(1);
    const int64_t to = keys.has_value() ? keys->longest : key.size(1);
    const auto options = query.options().dtype(at::kLong);
    at::Tensor seen;
    if (keys.has_value()) seen = keys->there.unsqueeze(1).expand({keys->count, from, to});
    if (is_limited) {
      at::Tensor distance = at::arange(to, options) - at::arange(from, options).unsqueeze(1);
      if (window.from_end && keys.has_value()) {
        distance = distance - (keys->lengths - queries->lengths).unsqueeze(1).unsqueeze(2);
      } else if (window.from_end) {
        distance = distance - (to - from);
      }
      const auto limit = [&seen](const at::Tensor& also) {
        seen = seen.defined() ? seen.logical_and(also) : also;
      };
      if (window.before >= 0) limit(distance.ge(-window.before));
      if (window.behind >= 0) limit(distance.le(window.behind));
    }
    return seen.dim() == 3 ? seen.unsqueeze(1) : seen.unsqueeze(0).unsqueeze(0);
  }
};

std::optional<at::Tensor> defined(const c10::IValue& value) {
  if (!value.isTensor() || !value.toTensor().defined()) return std::nullopt;
  return value.toTensor();
}

std::optional<double> scale_of(const c10::IValue& value) {
  return value.isNone() ? std::nullopt : std::optional(value.toDouble());
}

int64_t number_or(const c10::IValue& value, int64_t otherwise) {
  return value.isNone() ? otherwise : value.toInt();
}

// Takes three-dimensional tensors if there are sequences, else four-dimensional ones.
Problem problem(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                const c10::IValue& query_ends, const c10::IValue& key_ends,
                const c10::IValue& longest_query, const c10::IValue& longest_key, Window window,
                double dropout, const c10::IValue& scale) {
  Problem made{query, key, value, {}, {}, window, dropout, scale_of(scale)};
  const auto from = defined(query_ends), to = defined(key_ends);
  TORCH_CHECK(from.has_value() == to.has_value(),
              "attention: the sequences of the queries and those of the keys are given together");
  const int64_t dims = from.has_value() ? 3 : 4;
  TORCH_CHECK(query.dim() == dims && key.dim() == dims && value.dim() == dims,
              "attention: expected query, key and value of ", dims, " dimensions, but they have ",
              query.dim(), ", ", key.dim(), " and ", value.dim());
  if (!from.has_value()) return made;
  TORCH_CHECK(
      from->dim() == 1 && to->dim() == 1 && from->numel() == to->numel() && from->numel() > 0,
      "attention: expected as many sequences of queries as of keys, but their ends are of "
      "sizes ",
      from->sizes(), " and ", to->sizes());
  made.queries.emplace(*from, longest_query.toInt(), query.size(0), query.device());
  made.keys.emplace(*to, longest_key.toInt(), key.size(0), key.device());
  return made;
}

struct Attended {
  at::Tensor out;        // shaped like the query
  at::Tensor logsumexp;  // [batch, heads, longest query]
  at::Tensor seed, offset;
};

Attended attend(const Problem& of) {
  if (of.is_empty()) {
    auto sizes = of.query.sizes().vec();
    sizes.back() = of.value.size(-1);
    const bool packed = of.queries.has_value();
    const at::Tensor nothing =
        at::full({packed ? of.queries->count : of.query.size(0), of.query.size(-2),
                  packed ? of.queries->longest : of.query.size(1)},
                 -kInfinity, of.query.options().dtype(at::kFloat));
    return {at::zeros(sizes, of.query.options()), nothing, {}, {}};
  }
  const auto made = attention(of.queries_to_batch(of.query), of.keys_to_batch(of.key),
                              of.keys_to_batch(of.value), of.mask(), of.dropout,
                              /*is_causal=*/false, /*return_debug_mask=*/false, of.scale);
  return {of.queries_of_batch(std::get<0>(made)), std::get<1>(made), std::get<6>(made),
          std::get<7>(made)};
}

std::array<at::Tensor, 3> attend_backward(const Problem& of, const at::Tensor& grad_out,
                                          const at::Tensor& out, const at::Tensor& logsumexp,
                                          const at::Tensor& seed, const at::Tensor& offset) {
  if (of.is_empty()) {
    return {at::zeros_like(of.query), at::zeros_like(of.key), at::zeros_like(of.value)};
  }
  const at::Tensor mask = of.mask();
  const auto made = attention_backward(of.queries_to_batch(grad_out), of.queries_to_batch(of.query),
                                       of.keys_to_batch(of.key), of.keys_to_batch(of.value), mask,
                                       {true, true, true, false}, of.queries_to_batch(out),
                                       logsumexp.contiguous(), {}, {}, 0, 0, of.dropout,
                                       /*is_causal=*/false, seed, offset, of.scale);
  return {of.queries_of_batch(std::get<0>(made)), of.keys_of_batch(std::get<1>(made)),
          of.keys_of_batch(std::get<2>(made))};
}

Problem flash_problem(NamedArguments& arguments) {
  Window window{number_or(arguments["window_size_left"], -1),
                number_or(arguments["window_size_right"], -1),
                /*from_end=*/true};
  if (arguments["is_causal"].toBool()) window.behind = 0;
  return problem(arguments["query"].toTensor(), arguments["key"].toTensor(),
                 arguments["value"].toTensor(), arguments["cum_seq_q"], arguments["cum_seq_k"],
                 arguments["max_q"], arguments["max_k"], window, arguments["dropout_p"].toDouble(),
                 arguments["scale"]);
}

// custom_mask_type: 0 for none, 1 for causal from the first key, 2 for causal to the last.
Window window_of_type(int64_t type) {
  TORCH_CHECK(type >= 0 && type <= 2, "attention: custom_mask_type is 0, 1 or 2, not ", type);
  return {-1, type == 0 ? -1 : 0, type == 2};
}

// An argument in the form of a problem: the operator has sequences in a batch of one.
at::Tensor efficient_rows(NamedArguments& arguments, const char* name) {
  const at::Tensor tensor = arguments[name].toTensor();
  return defined(arguments["cu_seqlens_q"]).has_value() ? tensor.squeeze(0) : tensor;
}

Problem efficient_problem(NamedArguments& arguments) {
  return problem(efficient_rows(arguments, "query"), efficient_rows(arguments, "key"),
                 efficient_rows(arguments, "value"), arguments["cu_seqlens_q"],
                 arguments["cu_seqlens_k"], arguments["max_seqlen_q"], arguments["max_seqlen_k"],
                 window_of_type(arguments["custom_mask_type"].toInt()),
                 arguments["dropout_p"].toDouble(), arguments["scale"]);
}

template <typename... Values>
void answer(const c10::OperatorHandle& op, torch::jit::Stack* stack, Values&&... values) {
  torch::jit::drop(*stack, op.schema().arguments().size());
  torch::jit::push(*stack, std::forward<Values>(values)...);
}

}  // namespace

void flash_attention(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const DispatchBelowAutograd guard;
  NamedArguments arguments(op, *stack);
  const Problem of = flash_problem(arguments);
  arguments.ignore("return_debug_mask");
  arguments.check_known();
  const Attended made = attend(of);
  const at::Tensor random =
      made.seed.defined() ? at::stack({made.seed, made.offset}) : at::zeros({2}, at::kLong);
  const at::Tensor logsumexp =
      of.queries.has_value() ? of.queries->to_rows(made.logsumexp).t() : made.logsumexp;
  const at::Tensor none = at::empty({0}, of.query.options());
  answer(op, stack, made.out, logsumexp, random, none, none);
}

void flash_attention_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const DispatchBelowAutograd guard;
  NamedArguments arguments(op, *stack);
  const Problem of = flash_problem(arguments);
  const at::Tensor random = arguments["rng_state"].toTensor();
  arguments.ignore("unused");
  at::Tensor logsumexp = arguments["logsumexp"].toTensor();
  const at::Tensor out = arguments["out"].toTensor(), grad_out = arguments["grad_out"].toTensor();
  arguments.check_known();
  // Gives padding no weight, whatever keys it sees.
  if (of.queries.has_value() && !of.is_empty())
    logsumexp = of.queries->to_batch(logsumexp.t(), kInfinity);
  auto [query, key, value] =
      attend_backward(of, grad_out, out, logsumexp, of.dropout > 0 ? random[0] : at::Tensor(),
                      of.dropout > 0 ? random[1] : at::Tensor());
  answer(op, stack, std::move(query), std::move(key), std::move(value));
}

void efficient_attention(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const DispatchBelowAutograd guard;
  NamedArguments arguments(op, *stack);
  const Problem of = efficient_problem(arguments);
  arguments.ignore("compute_log_sumexp");
  arguments.check_known();
  const Attended made = attend(of);
  const bool packed = of.queries.has_value();
  answer(op, stack, packed ? made.out.unsqueeze(0) : made.out, made.logsumexp, made.seed,
         made.offset, packed ? of.queries->longest : of.query.size(1),
         packed ? of.keys->longest : of.key.size(1));
}

void efficient_attention_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const DispatchBelowAutograd guard;
  NamedArguments arguments(op, *stack);
  const Problem of = efficient_problem(arguments);
  const bool packed = of.queries.has_value();
  const at::Tensor grad_out = efficient_rows(arguments, "grad_out_");
  const at::Tensor out = efficient_rows(arguments, "out");
  const at::Tensor logsumexp = arguments["logsumexp"].toTensor();
  const at::Tensor seed = arguments["philox_seed"].toTensor();
  const at::Tensor offset = arguments["philox_offset"].toTensor();
  for (const char* name : {"bias_requires_grad", "num_splits_key", "shared_storage_dqdkdv"})
    arguments.ignore(name);
  arguments.check_known();
  const auto made = attend_backward(of, grad_out, out, logsumexp, seed, offset);
  const auto shaped = [&](const at::Tensor& tensor) {
    return packed ? tensor.unsqueeze(0) : tensor;
  };
  answer(op, stack, shaped(made[0]), shaped(made[1]), shaped(made[2]), at::Tensor());
}

}  // namespace torchacc

#include "record/shape_rule.h"

#include <ATen/EmptyTensor.h>
#include <c10/util/flat_hash_map.h>

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>
#include <vector>

#include "record/dry_run.h"
#include "record/meta.h"
#include "record/recorder.h"
#include "record/stopwatch.h"
#include "record/validate.h"
#include "runtime/runtime.h"

namespace torchacc {
namespace {

// Number of calls, of different sizes, for which a rule must have been right before it is believed.
constexpr int kConfirmations = 2;
constexpr int kNever = std::numeric_limits<int>::min() / 2;
constexpr size_t kMaxResults = 4;

using Types = std::vector<torchacc_type>;

// The dimensions of a dense result, the one with the largest stride first.
using Order = c10::SmallVector<uint8_t, 6>;

// The properties of a result that its pattern determines: whether it is a new tensor, an argument
// or none; for a new one, its layout, which the rule does not give, and its type, which may differ
// between PyTorch and the row.
struct ResultLayout {
  OutputShape::Kind kind = OutputShape::Kind::Fresh;
  int32_t argument = -1;
  at::ScalarType dtype = at::ScalarType::Undefined;
  Order order{};

  bool operator==(const ResultLayout& other) const {
    return kind == other.kind && argument == other.argument && dtype == other.dtype &&
           order == other.order;
  }
};
using ResultLayouts = std::vector<ResultLayout>;

// Number of a pattern's calls for which the rule was right, and the layouts of their results.
struct Record {
  std::vector<uint64_t> pattern;
  ResultLayouts layouts;
  int confirmations = 0;
};

class Ledger {
 public:
  // The layouts of results, if the rule is to be believed.
  std::optional<ResultLayouts> believes(const Call& call, const KeyWords& pattern) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (refuted_.count(call.info().id) != 0) return std::nullopt;
    const auto found = records_.find(hash_of(pattern));
    const bool known = found != records_.end() && found->second.confirmations >= kConfirmations &&
                       same(found->second.pattern, pattern);
    return known ? std::optional(found->second.layouts) : std::nullopt;
  }

  void confirm(const KeyWords& pattern, const ResultLayouts& layouts) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (records_.size() >= kCapacity) records_.clear();
    Record& record = records_[hash_of(pattern)];
    if (!same(record.pattern, pattern)) {
      record = {std::vector<uint64_t>(pattern.begin(), pattern.end()), layouts, 0};
    }
    // If layouts differ between calls, the pattern does not determine them.
    record.confirmations = record.layouts == layouts ? record.confirmations + 1 : kNever;
  }

  void refute(const Call& call) {
    std::lock_guard<std::mutex> lock(mutex_);
    refuted_.emplace(call.info().id, call.info().name);
  }

  std::string refuted() {
    std::lock_guard<std::mutex> lock(mutex_);
    std::string names;
    for (const auto& [id, name] : refuted_) names += (names.empty() ? "" : " ") + name;
    return names;
  }

 private:
  static constexpr size_t kCapacity = 16384;

  static bool same(const std::vector<uint64_t>& words, const KeyWords& other) {
    return words.size() == other.size() && std::equal(words.begin(), words.end(), other.begin());
  }

  std::mutex mutex_;
  ska::flat_hash_map<uint64_t, Record> records_;
  std::map<uint64_t, std::string> refuted_;  // by the operators' ids
};

Ledger& ledger() {
  static auto* instance = new Ledger();
  return *instance;
}

std::atomic<uint64_t> g_uses{0};
std::atomic<uint64_t> g_nanoseconds{0};

bool may_have_rule(const Call& call) {
  const OperatorInfo& info = call.info();
  const auto& returns = info.handle.schema().returns();
  return info.native.has_value() && !call.has_complex_number() && !returns.empty() &&
         returns.size() <= kMaxResults;
}

// The rule's types for `n_results` results; nothing if there is no native form, or it refuses the
// call. With `raises` the refusal is thrown: PyTorch's Meta kernels let some of these calls pass.
std::optional<Types> ask(Call& call, size_t n_results, bool raises) {
  Types types(n_results);
  const auto views = argument_views(call);
  const auto given = call.arguments(views.data());
  c10::SmallVector<torchacc_arg, 16> arguments(given.begin(), given.end());
  if (call.info().seeded) {
    // Placeholders for the seed and the offset.
    arguments.append(2, integer_argument(TORCHACC_ARG_SCALAR_INT, 0));
  }
  torchacc_error* error = torchacc_infer(context(), *call.info().native, arguments.data(),
                                         arguments.size(), types.data(), types.size());
  if (error == nullptr) return types;
  const torchacc_code code = torchacc_error_code(error);
  if (raises && code == TORCHACC_INVALID_ARGUMENT) check(error);
  torchacc_error_free(error);
  if (raises && code == TORCHACC_UNSUPPORTED) check_kernel(call);
  return std::nullopt;
}

at::IntArrayRef sizes_of(const torchacc_type& type) { return {type.sizes, type.rank}; }

// Whether `same` holds for all new results, whose types come first.
template <class Same>
bool agree(const Types& types, const Shapes& shapes, Same same) {
  size_t next = 0;
  for (const OutputShape& output : shapes.outputs) {
    if (output.kind != OutputShape::Kind::Fresh) continue;
    if (next == types.size() || !same(types[next++], output)) return false;
  }
  return true;
}

bool agree_in_sizes(const Types& types, const Shapes& shapes) {
  return agree(types, shapes, [](const torchacc_type& type, const OutputShape& output) {
    return at::IntArrayRef(output.sizes) == sizes_of(type);
  });
}

bool agree_in_types(const Types& types, const Shapes& shapes) {
  return agree(types, shapes, [](const torchacc_type& type, const OutputShape& output) {
    return to_dtype(output.dtype) == type.dtype;
  });
}

// Whether written tensors, whose types come after the `fresh` ones, keep their sizes.
bool keeps_written(const Types& types, size_t fresh, const Call& call) {
  size_t next = fresh;
  for (const TensorUse& use : call.tensors()) {
    if (!use.written) continue;
    if (next == types.size() || use.tensor->sizes() != sizes_of(types[next++])) return false;
  }
  return next == types.size();
}

// Calls without resulting elements compute nothing, and PyTorch refuses fewer of them.
bool gives_elements(const Call& call, const Shapes& shapes) {
  const auto has_elements = [](const OutputShape& output) {
    return output.kind == OutputShape::Kind::Fresh && c10::multiply_integers(output.sizes) != 0;
  };
  const auto tensors = call.tensors();
  return std::any_of(shapes.outputs.begin(), shapes.outputs.end(), has_elements) ||
         std::any_of(tensors.begin(), tensors.end(),
                     [](const TensorUse& use) { return use.written && use.tensor->numel() != 0; });
}

size_t count_written(const Call& call) {
  const auto tensors = call.tensors();
  return static_cast<size_t>(std::count_if(tensors.begin(), tensors.end(),
                                           [](const TensorUse& use) { return use.written; }));
}

// Whether nothing but sizes of new tensors changes from call to call: no lists, no views.
bool are_plain(const Shapes& shapes) {
  return shapes.resized.empty() && shapes.outputs.size() == shapes.returns.size() &&
         std::none_of(shapes.outputs.begin(), shapes.outputs.end(), [](const OutputShape& output) {
           return output.kind == OutputShape::Kind::View;
         });
}

Dims strides_of(const Dims& sizes, const Order& order) {
  Dims strides(sizes.size());
  int64_t next = 1;
  for (size_t n = order.size(); n > 0; --n) {
    strides[order[n - 1]] = next;
    next *= std::max<int64_t>(sizes[order[n - 1]], 1);
  }
  return strides;
}

Order row_major(size_t rank) {
  Order order(rank);
  std::iota(order.begin(), order.end(), uint8_t{0});
  return order;
}

// The layouts of the results; nothing where one is not dense.
std::optional<ResultLayouts> layouts_of(const Shapes& shapes) {
  ResultLayouts layouts;
  for (const OutputShape& output : shapes.outputs) {
    if (output.kind != OutputShape::Kind::Fresh) {
      layouts.push_back({output.kind, output.index});
      continue;
    }
    Order order = row_major(output.sizes.size());
    std::stable_sort(order.begin(), order.end(), [&output](uint8_t a, uint8_t b) {
      return output.strides[a] > output.strides[b];
    });
    if (strides_of(output.sizes, order) != output.strides) return std::nullopt;
    layouts.push_back({output.kind, output.index, output.dtype, std::move(order)});
  }
  return layouts;
}

// The layouts of new row-major tensors.
ResultLayouts in_rows(const Types& types) {
  ResultLayouts layouts;
  for (const torchacc_type& type : types)
    layouts.push_back(
        {OutputShape::Kind::Fresh, -1, to_scalar_type(type.dtype), row_major(type.rank)});
  return layouts;
}

// The shapes of results with these layouts; `types` are those of the new ones, and perhaps others.
std::shared_ptr<const Shapes> shapes_of(const Call& call, const Types& types,
                                        const ResultLayouts& layouts) {
  auto shapes = std::make_shared<Shapes>();
  for (const ResultLayout& layout : layouts) {
    OutputShape output;
    output.kind = layout.kind;
    output.index = layout.argument;
    if (layout.kind == OutputShape::Kind::Fresh) {
      const torchacc_type& type = types[shapes->fresh++];
      output.dtype = layout.dtype;
      output.sizes.assign(type.sizes, type.sizes + type.rank);
      output.strides = strides_of(output.sizes, layout.order);
      output.nbytes = at::detail::computeStorageNbytes(output.sizes, output.strides,
                                                       c10::elementSize(output.dtype));
    }
    shapes->outputs.push_back(std::move(output));
    shapes->returns.push_back({});
  }
  shapes->random_numel = random_numel(call, *shapes);
  return shapes;
}

// The right shapes if the rule and the Meta kernel differ; null if they do not, or nothing can be
// determined.
std::shared_ptr<const Shapes> check_rule(Call& call, const Shapes& shapes) {
  if (!may_have_rule(call)) return nullptr;
  const bool raises =
      call.info().has(TORCHACC_FACT_REFUSES_OF_NOTHING) || gives_elements(call, shapes);
  const auto types = ask(call, shapes.fresh + count_written(call), raises);
  if (!types.has_value() || !are_plain(shapes) || !keeps_written(*types, shapes.fresh, call)) {
    return nullptr;
  }
  std::shared_ptr<const Shapes> found;
  if (!agree_in_sizes(*types, shapes) || !agree_in_types(*types, shapes)) {
    // The CPU's kernels are not run on indices that may be out of range: then the row, which
    // computes the results, takes precedence over the Meta kernel, except in types, which may
    // depend on the default dtype.
    if (trusts_operands(call) && agree_in_types(*types, shapes)) {
      const Types fresh(types->begin(), types->begin() + static_cast<std::ptrdiff_t>(shapes.fresh));
      return fresh.size() == shapes.outputs.size() ? shapes_of(call, fresh, in_rows(fresh))
                                                   : nullptr;
    }
    found = shapes_of_cpu(call);
  }
  const Shapes& right = found != nullptr ? *found : shapes;
  if (!agree_in_sizes(*types, right)) {
    ledger().refute(call);
    return found;
  }
  const auto pattern = call.pattern();
  const auto layouts = layouts_of(right);
  if (pattern.has_value() && layouts.has_value()) ledger().confirm(*pattern, *layouts);
  return found;
}

}  // namespace

std::shared_ptr<const Shapes> rule_shapes(Call& call) {
  if (!may_have_rule(call)) return nullptr;
  const auto pattern = call.pattern();
  if (!pattern.has_value()) return nullptr;
  const auto layouts = ledger().believes(call, *pattern);
  if (!layouts.has_value()) return nullptr;
  const auto is_fresh = [](const ResultLayout& layout) {
    return layout.kind == OutputShape::Kind::Fresh;
  };
  const auto fresh = static_cast<size_t>(std::count_if(layouts->begin(), layouts->end(), is_fresh));
  const auto types = ask(call, fresh + count_written(call), false);
  if (!types.has_value() || !keeps_written(*types, fresh, call)) return nullptr;
  size_t next = 0;
  for (const ResultLayout& layout : *layouts) {
    if (is_fresh(layout) && (*types)[next++].rank != layout.order.size()) return nullptr;
  }
  auto shapes = shapes_of(call, *types, *layouts);
  g_uses.fetch_add(1, std::memory_order_relaxed);
  return shapes;
}

std::shared_ptr<const Shapes> asked_shapes(Call& call) {
  const Stopwatch watch(g_nanoseconds);
  auto shapes = run_meta(call);
  if (shapes == nullptr) return nullptr;
  auto corrected = check_rule(call, *shapes);
  return corrected != nullptr ? corrected : shapes;
}

uint64_t shape_function_ns() { return g_nanoseconds.load(std::memory_order_relaxed); }
uint64_t shape_rule_uses() { return g_uses.load(std::memory_order_relaxed); }
void reset_shape_rule_uses() {
  g_uses.store(0, std::memory_order_relaxed);
  g_nanoseconds.store(0, std::memory_order_relaxed);
}
std::string refuted_shape_rules() { return ledger().refuted(); }

}  // namespace torchacc

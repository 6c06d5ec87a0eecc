#include "record/shape_rule.h"

#include <ATen/EmptyTensor.h>
#include <c10/util/flat_hash_map.h>
#include <c10/util/strides.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <vector>

#include "record/dry_run.h"
#include "record/meta.h"
#include "record/recorder.h"
#include "record/validate.h"
#include "runtime/runtime.h"

namespace torchacc {
namespace {

// As often as this a rule must have been right, for different sizes, before it is believed.
constexpr int kConfirmations = 2;
constexpr size_t kMaxResults = 4;

using Types = std::vector<torchacc_type>;

// How often the rule was right for calls of a pattern.
struct Record {
  std::vector<uint64_t> pattern;
  int confirmations = 0;
};

class Ledger {
 public:
  bool believes(const Call& call, const KeyWords& pattern) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (refuted_.count(call.info().id) != 0) return false;
    const auto found = records_.find(hash_of(pattern));
    return found != records_.end() && found->second.confirmations >= kConfirmations &&
           same(found->second.pattern, pattern);
  }

  void confirm(const KeyWords& pattern) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (records_.size() >= kCapacity) records_.clear();
    Record& record = records_[hash_of(pattern)];
    if (!same(record.pattern, pattern)) {
      record = {std::vector<uint64_t>(pattern.begin(), pattern.end()), 0};
    }
    ++record.confirmations;
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

bool may_have_rule(const Call& call) {
  const OperatorInfo& info = call.info();
  const auto& returns = info.handle.schema().returns();
  return info.native.has_value() && !call.has_complex_number() && !returns.empty() &&
         returns.size() <= kMaxResults;
}

// What the rule says of so many results; nothing where there is no native form, or it refuses
// the call. With `raises` that is thrown: PyTorch's Meta kernels let some of it pass.
std::optional<Types> ask(Call& call, size_t n_results, bool raises) {
  Types types(n_results);
  const auto views = argument_views(call);
  const auto given = call.arguments(views.data());
  c10::SmallVector<torchacc_arg, 16> arguments(given.begin(), given.end());
  if (call.info().seeded) {
    // Where the seed and the offset will be.
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

bool agree(const Types& types, const Shapes& shapes) {
  const auto same = [](const torchacc_type& type, const OutputShape& output) {
    return output.kind == OutputShape::Kind::Fresh && to_dtype(output.dtype) == type.dtype &&
           at::IntArrayRef(output.sizes) == sizes_of(type);
  };
  return types.size() == shapes.outputs.size() &&
         std::equal(types.begin(), types.end(), shapes.outputs.begin(), same);
}

bool agree_in_types(const Types& types, const Shapes& shapes) {
  const auto same = [](const torchacc_type& type, const OutputShape& output) {
    return to_dtype(output.dtype) == type.dtype;
  };
  return types.size() == shapes.outputs.size() &&
         std::equal(types.begin(), types.end(), shapes.outputs.begin(), same);
}

bool all_outputs(const Shapes& shapes, bool (*holds)(const OutputShape&)) {
  return std::all_of(shapes.outputs.begin(), shapes.outputs.end(), holds);
}

// Of calls that give none nothing is computed, and PyTorch refuses less.
bool gives_elements(const Call& call, const Shapes& shapes) {
  const auto has_elements = [](const OutputShape& output) {
    return output.kind == OutputShape::Kind::Fresh && c10::multiply_integers(output.sizes) != 0;
  };
  const auto tensors = call.tensors();
  return std::any_of(shapes.outputs.begin(), shapes.outputs.end(), has_elements) ||
         std::any_of(tensors.begin(), tensors.end(),
                     [](const TensorUse& use) { return use.written && use.tensor->numel() != 0; });
}

// Those that a row gives: new ones, and what is written.
size_t n_results(const Call& call, const Shapes& shapes) {
  const auto tensors = call.tensors();
  const auto written = std::count_if(tensors.begin(), tensors.end(),
                                     [](const TensorUse& use) { return use.written; });
  return shapes.fresh + static_cast<size_t>(written);
}

bool are_fresh(const Shapes& shapes) {
  const auto fresh = [](const OutputShape& output) {
    return output.kind == OutputShape::Kind::Fresh;
  };
  return shapes.resized.empty() && shapes.outputs.size() == shapes.returns.size() &&
         all_outputs(shapes, fresh);
}

// The rule says nothing of strides.
bool are_row_major(const Shapes& shapes) {
  return all_outputs(shapes, [](const OutputShape& output) {
    return at::IntArrayRef(output.strides) ==
           at::IntArrayRef(c10::contiguous_strides(output.sizes));
  });
}

// The rule says nothing of strides: they are those of rows.
std::shared_ptr<const Shapes> shapes_of(const Call& call, const Types& types) {
  auto shapes = std::make_shared<Shapes>();
  for (const torchacc_type& type : types) {
    OutputShape output;
    output.kind = OutputShape::Kind::Fresh;
    output.dtype = to_scalar_type(type.dtype);
    output.sizes.assign(type.sizes, type.sizes + type.rank);
    const auto strides = c10::contiguous_strides(output.sizes);
    output.strides.assign(strides.begin(), strides.end());
    output.nbytes = at::detail::computeStorageNbytes(output.sizes, output.strides,
                                                     c10::elementSize(output.dtype));
    shapes->outputs.push_back(std::move(output));
    shapes->returns.push_back({});
  }
  shapes->fresh = shapes->outputs.size();
  shapes->random_numel = random_numel(call, *shapes);
  return shapes;
}

}  // namespace

std::shared_ptr<const Shapes> rule_shapes(Call& call) {
  if (!may_have_rule(call)) return nullptr;
  const auto pattern = call.pattern();
  if (!pattern.has_value() || !ledger().believes(call, *pattern)) return nullptr;
  const auto types = ask(call, call.info().handle.schema().returns().size(), false);
  if (!types.has_value()) return nullptr;
  auto shapes = shapes_of(call, *types);
  g_uses.fetch_add(1, std::memory_order_relaxed);
  return shapes;
}

std::shared_ptr<const Shapes> check_rule(Call& call, const Shapes& shapes) {
  if (!may_have_rule(call)) return nullptr;
  const bool raises =
      call.info().has(TORCHACC_FACT_REFUSES_OF_NOTHING) || gives_elements(call, shapes);
  const auto types = ask(call, n_results(call, shapes), raises);
  // What is written besides has the sizes that it had.
  if (!types.has_value() || types->size() != shapes.fresh || !are_fresh(shapes)) return nullptr;
  if (agree(*types, shapes)) {
    const auto pattern = call.pattern();
    if (pattern.has_value() && are_row_major(shapes)) ledger().confirm(*pattern);
    return nullptr;
  }
  // The CPU's kernels are not run on indices that are not there: then the row, which computes the
  // results, goes before the Meta kernel. But that knows types, which may hang on the default one.
  if (trusts_operands(call) && agree_in_types(*types, shapes)) return shapes_of(call, *types);
  auto found = shapes_of_cpu(call);
  if (found == nullptr || !agree(*types, *found)) ledger().refute(call);
  return found;
}

uint64_t shape_rule_uses() { return g_uses.load(std::memory_order_relaxed); }
void reset_shape_rule_uses() { g_uses.store(0, std::memory_order_relaxed); }
std::string refuted_shape_rules() { return ledger().refuted(); }

}  // namespace torchacc

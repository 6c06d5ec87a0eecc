#include "record/layout.h"

#include <ATen/EmptyTensor.h>
#include <ATen/TensorGeometry.h>
#include <c10/util/strides.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <sstream>
#include <utility>

#include "record/dry_run.h"

namespace torchacc {
namespace {

bool is_row_major(at::IntArrayRef sizes, at::IntArrayRef strides) {
  return at::geometry_is_contiguous(sizes, strides);
}

// A result whose geometry is to be determined: a fresh one, or an out= tensor that gets elements.
struct Geometry {
  const Dims& sizes;
  Dims& strides;
  OutputShape* fresh;
};

std::optional<Geometry> geometry_of(Shapes& shapes, size_t index) {
  OutputShape& output = shapes.outputs[index];
  if (output.kind == OutputShape::Kind::Fresh) {
    return Geometry{output.sizes, output.strides, &output};
  }
  if (output.kind != OutputShape::Kind::Argument) return std::nullopt;
  for (ResizedArgument& resized : shapes.resized) {
    if (resized.use == static_cast<size_t>(output.index)) {
      return Geometry{resized.sizes, resized.strides, nullptr};
    }
  }
  return std::nullopt;
}

// Whether the layout is injective: every element has an address of its own.
bool is_injective(const Geometry& geometry) {
  c10::SmallVector<std::pair<int64_t, int64_t>, 6> dims;  // stride and size
  for (size_t index = 0; index < geometry.sizes.size(); ++index) {
    if (geometry.sizes[index] == 0) return true;
    if (geometry.sizes[index] != 1) {
      dims.emplace_back(geometry.strides[index], geometry.sizes[index]);
    }
  }
  std::sort(dims.begin(), dims.end());
  int64_t extent = 1;
  for (const auto& [stride, size] : dims) {
    if (stride < extent) return false;
    extent = stride * size;
  }
  return true;
}

// Whether all operands and results are row-major: then every kernel returns row-major results.
bool is_plain(const Call& call, const Shapes& shapes) {
  const auto tensors = call.tensors();
  const auto& outputs = shapes.outputs;
  return std::all_of(tensors.begin(), tensors.end(),
                     [](const TensorUse& use) {
                       // Includes dimensions of one element: the strides of results may follow
                       // theirs.
                       return use.tensor == nullptr ||
                              use.tensor->strides() ==
                                  at::IntArrayRef(c10::contiguous_strides(use.tensor->sizes()));
                     }) &&
         std::all_of(outputs.begin(), outputs.end(), [](const OutputShape& output) {
           return output.kind != OutputShape::Kind::Fresh ||
                  is_row_major(output.sizes, output.strides);
         });
}

// Whether a result's strides tell the order in all calls of the pattern: dimensions of one element
// have no place in it.
bool tells_strides(const at::Tensor& result, const Dims& sizes) {
  if (!result.defined() || result.sizes().size() != sizes.size()) return false;
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    const int64_t size = result.sizes()[dim];
    if (size == 0 || (size == 1) != (sizes[dim] == 1)) return false;
  }
  return true;
}

void set_nbytes(OutputShape& output) {
  output.nbytes = at::detail::computeStorageNbytes(output.sizes, output.strides,
                                                   c10::elementSize(output.dtype));
}

void set_strides(const Geometry& geometry, at::IntArrayRef strides) {
  geometry.strides.assign(strides.begin(), strides.end());
  if (geometry.fresh != nullptr) set_nbytes(*geometry.fresh);
}

bool mixes_floats(const Call& call) {
  std::optional<at::ScalarType> first;
  for (const TensorUse& use : call.tensors()) {
    if (use.tensor == nullptr || !at::isFloatingType(type_of(*use.tensor))) continue;
    if (!first.has_value()) first = type_of(*use.tensor);
    if (type_of(*use.tensor) != *first) return true;
  }
  return false;
}

// Whether a call on halves has results besides the first, which the CPU may keep in f32, such as
// norms for a gradient.
bool may_keep_f32(const Call& call, const Shapes& shapes) {
  const auto tensors = call.tensors();
  return shapes.fresh > 1 && std::any_of(tensors.begin(), tensors.end(), [](const TensorUse& use) {
           return use.tensor != nullptr && is_half(type_of(*use.tensor));
         });
}

bool verifying() {
  static const bool wanted = [] {
    const char* value = std::getenv("TORCHACC_VERIFY_SHAPES");
    return value != nullptr && std::string_view(value) == "1";
  }();
  return wanted;
}

std::mutex g_mutex;
std::string g_wrong;

// Strides of dimensions of one element are irrelevant.
bool same_strides(const OutputShape& output, const at::Tensor& result) {
  if (result.numel() == 0) return true;
  for (int64_t dim = 0; dim < result.dim(); ++dim) {
    if (result.size(dim) > 1 && result.stride(dim) != output.strides[dim]) return false;
  }
  return true;
}

bool same(const OutputShape& output, const at::Tensor& result) {
  if (output.kind == OutputShape::Kind::Undefined) return !result.defined();
  if (output.kind != OutputShape::Kind::Fresh) return true;
  return result.defined() && result.scalar_type() == output.dtype &&
         result.sizes() == at::IntArrayRef(output.sizes) && same_strides(output, result);
}

}  // namespace

void leave_out_unasked(const Call& call, Shapes& shapes) {
  for (const c10::IValue& value : call.inputs()) {
    if (!value.isBoolList() || value.toBoolList().size() != shapes.outputs.size()) continue;
    if (shapes.outputs.empty() || value.toBoolList().get(0)) continue;
    OutputShape& input = shapes.outputs[0];
    if (input.kind != OutputShape::Kind::Fresh) continue;
    input = OutputShape();
    --shapes.fresh;
  }
}

void correct_types(const Call& call, Shapes& shapes) {
  const bool mixed = mixes_floats(call);
  if (shapes.fresh == 0 || !(mixed || may_keep_f32(call, shapes))) return;
  auto results = dry_run_sketch(call, /*halves=*/true);
  if (mixed && !results.has_value() && !trusts_operands(call)) results = dry_run_in_full(call);
  if (!results.has_value() || results->size() != shapes.outputs.size()) return;
  for (size_t index = 0; index < results->size(); ++index) {
    OutputShape& output = shapes.outputs[index];
    const at::Tensor& result = (*results)[index];
    if (output.kind != OutputShape::Kind::Fresh || !result.defined()) continue;
    const bool is_wider = is_half(output.dtype) && result.scalar_type() == at::kFloat;
    if (!mixed && !is_wider) continue;
    output.dtype = result.scalar_type();
    set_nbytes(output);
  }
}

void correct_strides(const Call& call, Shapes& shapes) {
  if ((shapes.fresh == 0 && shapes.resized.empty()) || is_plain(call, shapes)) return;
  const size_t count = shapes.outputs.size();
  c10::SmallVector<std::optional<Geometry>, 4> unknown;
  for (size_t index = 0; index < count; ++index) unknown.push_back(geometry_of(shapes, index));
  const auto learn = [&](const std::optional<Tensors>& results) {
    if (!results.has_value() || results->size() != count) return;
    for (size_t index = 0; index < count; ++index) {
      const at::Tensor& result = (*results)[index];
      if (!unknown[index] || !tells_strides(result, unknown[index]->sizes)) continue;
      set_strides(*unknown[index], strides_in_order(unknown[index]->sizes, result.strides()));
      unknown[index].reset();
    }
  };
  learn(dry_run_sketch(call, /*halves=*/false));
  const bool any_unknown =
      std::any_of(unknown.begin(), unknown.end(), [](const auto& one) { return one.has_value(); });
  if (any_unknown && !trusts_operands(call) && !call.info().seeded) learn(dry_run_in_full(call));
  for (const auto& geometry : unknown) {
    if (geometry.has_value() && !is_injective(*geometry)) {
      set_strides(*geometry, c10::contiguous_strides(geometry->sizes));
    }
  }
}

void verify_shapes(const Call& call, const Shapes& shapes) {
  if (!verifying() || shapes.fresh == 0 || call.info().seeded) return;
  if (trusts_operands(call) && !call.info().dry_runnable) return;
  const auto results = dry_run_in_full(call);
  if (!results.has_value()) return;
  std::ostringstream text;
  if (results->size() != shapes.outputs.size()) {
    text << call.info().name << " returned " << results->size() << " tensors where "
         << shapes.outputs.size() << " were predicted\n";
  } else {
    for (size_t index = 0; index < results->size(); ++index) {
      const OutputShape& output = shapes.outputs[index];
      const at::Tensor& result = (*results)[index];
      if (same(output, result)) continue;
      text << call.info().name << " result " << index << ": predicted " << output.dtype
           << at::IntArrayRef(output.sizes) << " by " << at::IntArrayRef(output.strides)
           << ", got ";
      if (result.defined()) {
        text << result.scalar_type() << result.sizes() << " by " << result.strides() << "\n";
      } else {
        text << "nothing\n";
      }
    }
  }
  std::lock_guard<std::mutex> lock(g_mutex);
  g_wrong += text.str();
}

std::string wrong_shapes() {
  std::lock_guard<std::mutex> lock(g_mutex);
  return std::exchange(g_wrong, {});
}

}  // namespace torchacc

#include "aten/float8.h"

#include <ATen/ops/clamp.h>

#include <limits>
#include <optional>

#include "record/recorder.h"
#include "record/torch_versions.h"

namespace torchacc {
namespace {

constexpr c10::ScalarType kSaturating = c10::ScalarType::Float8_e4m3fn;

std::optional<at::Tensor> tensor_of(const c10::IValue& value) {
  return value.isTensor() ? std::optional(value.toTensor()) : std::nullopt;
}

}  // namespace

at::Tensor saturated(const at::Tensor& source, c10::ScalarType type) {
  const c10::ScalarType from = source.scalar_type();
  // No integer of 8 bits is too large.
  const bool is_narrow = c10::isIntegralType(from, /*includeBool=*/true) && source.itemsize() == 1;
  if (type != kSaturating || from == type || is_narrow || !float8_saturates()) return source;
  static const auto largest = static_cast<int64_t>(std::numeric_limits<c10::Float8_e4m3fn>::max());
  return at::clamp(source.itemsize() == 1 ? source.to(at::kFloat) : source, -largest, largest);
}

void scaled_product(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  const size_t first = stack->size() - schema.arguments().size();
  const auto argument = [&](const char* name) -> c10::IValue* {
    const auto index = schema.argumentIndexWithName(name);
    return index.has_value() ? &(*stack)[first + *index] : nullptr;
  };
  c10::IValue& type = *argument("out_dtype");
  const bool is_given = !type.isNone();
  const auto made_type =
      is_given ? type.toScalarType() : argument("self")->toTensor().scalar_type();
  if (made_type != kSaturating || !float8_saturates()) return record_boxed(op, stack);

  // Computes the sum in f32, then applies bias and scale here, and rounds by a conversion.
  type = static_cast<int64_t>(at::kFloat);
  c10::IValue& given_bias = *argument("bias");
  const auto bias = tensor_of(given_bias);
  given_bias = c10::IValue();
  const c10::IValue* const given_scale = argument("scale_result");
  const auto scale = given_scale != nullptr ? tensor_of(*given_scale) : std::nullopt;
  std::optional<at::Tensor> out;
  if (argument("out") != nullptr) {
    out = stack->back().toTensor();
    stack->pop_back();
  }
  record_boxed(c10::Dispatcher::singleton().findSchemaOrThrow(schema.name().c_str(), ""), stack);
  at::Tensor made = stack->back().toTensor();
  stack->pop_back();
  if (bias.has_value()) made = made + bias->to(at::kFloat);
  if (scale.has_value()) made = made * *scale;
  if (out.has_value()) {
    out->resize_(made.sizes()).copy_(made);
  } else {
    out = made.to(kSaturating);
  }
  stack->emplace_back(*std::move(out));
}

}  // namespace torchacc

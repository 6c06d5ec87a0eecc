// Random numbers: a counter-based generator, so that its state is a seed and an offset and a random
// operation can be recorded with two scalars instead of a stream of draws.
#pragma once

#include <ATen/core/Generator.h>

#include <cstdint>
#include <optional>

namespace torchacc {

struct RandomState {
  uint64_t seed;
  uint64_t offset;
};

const at::Generator& default_generator(c10::DeviceIndex device);
at::Generator new_generator(c10::DeviceIndex device);

// Takes the random numbers for `numel` elements: returns the state to use and advances the
// generator (by default the device's) past it.
RandomState draw(const std::optional<at::Generator>& generator, c10::DeviceIndex device,
                 int64_t numel);

}  // namespace torchacc

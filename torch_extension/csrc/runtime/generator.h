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

// Takes the numbers that `numel` elements need: returns the state to use and moves the generator
// (the device's default one if none is given) past it.
RandomState draw(const std::optional<at::Generator>& generator, c10::DeviceIndex device,
                 int64_t numel);

}  // namespace torchacc

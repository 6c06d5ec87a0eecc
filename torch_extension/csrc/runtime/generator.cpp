#include "runtime/generator.h"

#include <ATen/ops/empty.h>

#include <cstring>
#include <mutex>
#include <vector>

#include "runtime/runtime.h"

namespace torchacc {
namespace {

class Generator final : public c10::GeneratorImpl {
 public:
  explicit Generator(c10::DeviceIndex device)
      : GeneratorImpl(c10::Device(c10::DeviceType::PrivateUse1, device),
                      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

  void set_current_seed(uint64_t seed) override { state_ = {seed, 0}; }
  void set_offset(uint64_t offset) override { state_.offset = offset; }
  uint64_t get_offset() const override { return state_.offset; }
  uint64_t current_seed() const override { return state_.seed; }
  uint64_t seed() override {
    set_current_seed(c10::detail::getNonDeterministicRandom(true));
    return state_.seed;
  }

  // The state is 16 bytes on the CPU, seed then offset: the layout that DTensor's random tracker
  // reads and writes.
  void set_state(const c10::TensorImpl& state) override {
    TORCH_CHECK(state.device().is_cpu() && state.numel() == sizeof(RandomState) &&
                    state.itemsize() == 1 && state.is_contiguous(),
                "The state of an acc generator is a CPU tensor of ", sizeof(RandomState), " bytes");
    std::memcpy(&state_, state.data(), sizeof state_);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    at::Tensor state =
        at::empty({sizeof(RandomState)}, at::TensorOptions().dtype(at::kByte).device(at::kCPU));
    std::memcpy(state.mutable_data_ptr(), &state_, sizeof state_);
    return state.getIntrusivePtr();
  }

  RandomState take(int64_t numel) {
    std::lock_guard<std::mutex> lock(mutex_);
    const RandomState taken = state_;
    // Philox gives four numbers per counter; PyTorch's tools expect offsets that are multiples of
    // four.
    const uint64_t counters = (static_cast<uint64_t>(numel) + 3) / 4;
    state_.offset += (counters + 3) / 4 * 4;
    return taken;
  }

  static c10::DeviceType device_type() { return c10::DeviceType::PrivateUse1; }

 private:
  GeneratorImpl* clone_impl() const override {
    auto* copy = new Generator(device_.index());
    copy->state_ = state_;
    return copy;
  }

  RandomState state_{c10::default_rng_seed_val, 0};
};

}  // namespace

const at::Generator& default_generator(c10::DeviceIndex device) {
  static const auto* generators = [] {
    auto* made = new std::vector<at::Generator>();
    for (c10::DeviceIndex index = 0; index < device_count(); ++index) {
      made->push_back(at::make_generator<Generator>(index));
    }
    return made;
  }();
  return (*generators)[normalize_device(device)];
}

at::Generator new_generator(c10::DeviceIndex device) {
  return at::make_generator<Generator>(normalize_device(device));
}

RandomState draw(const std::optional<at::Generator>& generator, c10::DeviceIndex device,
                 int64_t numel) {
  const at::Generator& source =
      generator.has_value() && generator->defined() ? *generator : default_generator(device);
  TORCH_CHECK(source.device().type() == c10::DeviceType::PrivateUse1,
              "Expected a 'acc' device type for generator but found '", source.device().type(),
              "'");
  return static_cast<Generator*>(source.unsafeGetGeneratorImpl())->take(numel);
}

}  // namespace torchacc

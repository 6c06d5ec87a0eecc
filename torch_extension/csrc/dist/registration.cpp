// Attaches the backend to a process group from Python: by operators, since the library has no
// bindings of its own.
#include <torch/custom_class.h>
#include <torch/library.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "dist/backend.h"
#include "runtime/native_device.h"
#include "runtime/runtime.h"

namespace torchacc {
namespace {

using Group = c10::intrusive_ptr<c10d::ProcessGroup>;

// The backend of `transport` for the native device, if both exist.
BackendPtr native_backend(c10d::ProcessGroup& transport) {
  context();  // opens the native device
  if (!native_device().has_value()) return nullptr;
  const c10::DeviceType type = native_device()->type();
  for (const c10::Device& served : transport.getDeviceTypes()) {
    if (served.type() == type) return transport.getBackend(type);
  }
  return nullptr;
}

// Gives `group` a backend for device tensors. It uses `transport`'s backends for the CPU, and for
// the native device with the same memory; for large gathers that of `gathers`.
void attach_backend(const Group& group, const Group& transport, const std::optional<Group>& gathers,
                    const std::string& name) {
  const c10::DeviceType cpu = c10::DeviceType::CPU;
  auto backend = c10::make_intrusive<AccBackend>(
      transport->getBackend(cpu), native_backend(*transport),
      gathers.has_value() ? (*gathers)->getBackend(cpu) : BackendPtr(), transport->getStore(),
      name);
  group->setBackend(c10::DeviceType::PrivateUse1, c10d::ProcessGroup::BackendType::CUSTOM,
                    c10::intrusive_ptr<c10d::Backend>(std::move(backend)));
}

// For a group that the program may use on the host while lanes run.
void introduce(const Group& group) {
  enter_flight_recorder(*group->getBackend(c10::DeviceType::CPU));
}

TORCH_LIBRARY_FRAGMENT(acc, m) {
  m.def(
      "attach_backend(__torch__.torch.classes.c10d.ProcessGroup group, "
      "__torch__.torch.classes.c10d.ProcessGroup transport, "
      "__torch__.torch.classes.c10d.ProcessGroup? gathers, str name) -> ()",
      &attach_backend);
  m.def("introduce(__torch__.torch.classes.c10d.ProcessGroup group) -> ()", &introduce);
}

}  // namespace
}  // namespace torchacc

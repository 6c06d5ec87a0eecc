// Dispatcher state for calling an operator below everything that has already been done for the
// recorded call.
#pragma once

#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace torchacc {

inline const c10::DispatchKeySet kHandledKeys =
    c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset |
    c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot,
                         c10::DispatchKey::Functionalize});

// On the recording thread: keeps the caller's other state, such as functorch's.
class DispatchBelowAutograd {
  c10::impl::ExcludeDispatchKeyGuard exclude_{kHandledKeys};
};

// For running CPU kernels: a separate state, on any thread. BackendSelect and the like are in the
// default included set; without it, factory functions inside kernels find no backend.
class CleanDispatch {
  c10::impl::ForceDispatchKeyGuard keys_{c10::default_included_set, kHandledKeys};
  at::NoGradGuard no_grad_;
};

}  // namespace torchacc

// torch.classes.acc.HostCopies: copies to the host, made while the next program runs.
#include <ATen/ATen.h>
#include <torch/custom_class.h>
#include <torch/library.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "record/recorder.h"
#include "runtime/allocator.h"
#include "runtime/runtime.h"

namespace torchacc {
namespace {

// Number of copies still to be made, and the first error.
struct Progress {
  std::mutex mutex;
  std::condition_variable made;
  size_t left = 0;
  std::string error;
};

struct Copy {
  std::shared_ptr<Progress> progress;
  at::Tensor target;  // Kept until the copy is made.
};

void copied(void* user, const torchacc_error* error, const void*, size_t) noexcept {
  const auto& progress = static_cast<Copy*>(user)->progress;
  const std::lock_guard<std::mutex> lock(progress->mutex);
  if (error != nullptr && progress->error.empty())
    progress->error = to_string(torchacc_error_message(error));
}

void dropped(void* user) noexcept {
  const std::unique_ptr<Copy> copy(static_cast<Copy*>(user));
  const std::lock_guard<std::mutex> lock(copy->progress->mutex);
  --copy->progress->left;
  copy->progress->made.notify_all();
}

// Copies the present values of `sources` on acc to `targets` on the CPU, which are dense and of the
// same sizes and dtypes. Nothing else may touch the targets before `wait`.
class HostCopies : public torch::CustomClassHolder {
 public:
  HostCopies(const std::vector<at::Tensor>& sources, const std::vector<at::Tensor>& targets) {
    TORCH_CHECK(sources.size() == targets.size(), "HostCopies: ", sources.size(), " sources and ",
                targets.size(), " targets");
    for (size_t i = 0; i < sources.size(); ++i) {
      const at::Tensor &source = sources[i], &target = targets[i];
      TORCH_CHECK(is_acc(source), "HostCopies: source ", i, " is on ", source.device());
      TORCH_CHECK(target.device().is_cpu() && target.is_contiguous() && !target.is_neg() &&
                      !target.is_conj() && target.sizes() == source.sizes() &&
                      target.scalar_type() == source.scalar_type(),
                  "HostCopies: target ", i, " is no dense tensor on the CPU like its source, ",
                  source.scalar_type(), " of ", source.sizes());
    }
    for (size_t i = 0; i < sources.size(); ++i)
      start(sources[i].resolve_conj().resolve_neg(), targets[i]);
  }

  // Waits until all copies are made. Throws the first error that prevented one.
  void wait() const {
    std::unique_lock<std::mutex> lock(progress_->mutex);
    progress_->made.wait(lock, [&] { return progress_->left == 0; });
    TORCH_CHECK(progress_->error.empty(), progress_->error);
  }

 private:
  void start(const at::Tensor& source, const at::Tensor& target) {
    const torchacc_view view = view_of(*source.unsafeGetTensorImpl());
    torchacc_tensor* handle = nullptr;
    check(torchacc_tensor_from_view(&view, &handle));
    {
      const std::lock_guard<std::mutex> lock(progress_->mutex);
      ++progress_->left;
    }
    auto copy = std::make_unique<Copy>(Copy{progress_, target});
    torchacc_error* error =
        torchacc_tensor_copy_async(handle, target.data_ptr(), target.nbytes(), callback(copied),
                                   copy.release(), callback(dropped));
    torchacc_tensor_release(handle);
    check(error);
  }

  std::shared_ptr<Progress> progress_ = std::make_shared<Progress>();
};

TORCH_LIBRARY_FRAGMENT(acc, m) {
  m.class_<HostCopies>("HostCopies")
      .def(torch::init<const std::vector<at::Tensor>&, const std::vector<at::Tensor>&>())
      .def("wait", &HostCopies::wait);
}

}  // namespace
}  // namespace torchacc

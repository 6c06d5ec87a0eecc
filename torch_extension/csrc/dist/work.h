// The Work of a recorded collective.
#pragma once

#include <ATen/core/ivalue.h>

#include <functional>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>
#include <vector>

namespace torchacc {

// Complete as soon as it is recorded: the trace orders operations, and a read waits for the value.
class RecordedWork : public c10d::Work {
 public:
  // `finish`: records operations that were put off until the result is asked for (receives, so that
  // sends recorded meanwhile come before them).
  RecordedWork(c10d::OpType type, std::vector<at::Tensor> results,
               std::function<void()> finish = nullptr, int source = -1)
      : Work(source, type), results_(std::move(results)), finish_(std::move(finish)) {}

  // The sender of a receive from any rank.
  int sourceRank() const override { return rank_; }

  bool isCompleted() override {
    finish();
    return true;
  }
  bool isSuccess() const override { return true; }
  bool wait(std::chrono::milliseconds) override {
    finish();
    return true;
  }
  void synchronize() override { finish(); }
  std::vector<at::Tensor> result() override {
    finish();
    return results_;
  }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    finish();
    if (future_ == nullptr) {
      future_ =
          c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
      future_->markCompleted(c10::IValue(results_));
    }
    return future_;
  }

 private:
  void finish() {
    if (auto finish = std::exchange(finish_, nullptr)) finish();
  }

  std::vector<at::Tensor> results_;
  std::function<void()> finish_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace torchacc

// Copies between the host and the device.
#pragma once

#include <ATen/core/Tensor.h>

namespace torchacc {

// aten::_copy_from. Host data is snapshotted: the caller may change it as soon as this returns.
at::Tensor copy_from(const at::Tensor& source, const at::Tensor& target, bool non_blocking);
at::Tensor copy_from_and_resize(const at::Tensor& source, const at::Tensor& target);
at::Scalar local_scalar_dense(const at::Tensor& tensor);

// Whether a tensor stores its numbers as they are: not if it is lazily conjugated or negated, or
// has bools whose bytes another type may have written.
bool is_plain(const at::Tensor& tensor);
// The same numbers, stored as they are.
at::Tensor plain(const at::Tensor& tensor);

// A CPU tensor with the sizes and strides of a device tensor. Waits for the value.
at::Tensor download(const at::Tensor& tensor);
// Like `download`, but cuts nothing: waits until another thread has cut. For a separate thread.
at::Tensor download_after_cut(const at::Tensor& tensor);
// Makes sure that the value gets computed; does not wait for it.
void request(const at::Tensor& tensor);
// A new device tensor with the value of a CPU tensor.
at::Tensor upload(const at::Tensor& tensor, c10::DeviceIndex device);

}  // namespace torchacc

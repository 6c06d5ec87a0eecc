#include "aten/copy.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/_conj_physical.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/neg.h>
#include <c10/util/strides.h>

#include "aten/float8.h"
#include "record/arguments.h"
#include "record/dispatch.h"
#include "record/operator.h"
#include "record/recorder.h"
#include "runtime/absent.h"
#include "runtime/allocator.h"
#include "runtime/native_device.h"
#include "runtime/runtime.h"

namespace torchacc {
namespace {

// Whether the library converts elements of one type to the other; it only stores and moves other
// types.
bool are_convertible(c10::ScalarType one, c10::ScalarType other) {
  const auto all = [&](bool (*holds)(torchacc_dtype)) {
    return holds(to_dtype(one)) && holds(to_dtype(other));
  };
  return all([](torchacc_dtype dtype) { return dtype <= TORCHACC_C128; }) ||
         all([](torchacc_dtype dtype) {
           return dtype <= TORCHACC_F64 ||
                  (dtype >= TORCHACC_F8E4M3FN && dtype <= TORCHACC_F8E5M2FNUZ);
         });
}

bool covers_storage(const at::Tensor& tensor) {
  return tensor.storage_offset() == 0 && tensor.is_non_overlapping_and_dense() &&
         tensor.nbytes() != 0 && tensor.nbytes() == tensor.storage().nbytes();
}

// The bools as 0 and 1, if true may be any non-zero byte.
at::Tensor plain_bools(const at::Tensor& tensor) {
  return has_other_bools(tensor) ? at::ne(tensor.view(at::kByte), 0) : tensor;
}

// The same elements without the lazy bits; on the device, the bits of the result must agree with
// those of the target.
at::Tensor with_bits_of(const at::Tensor& source, const at::Tensor& target) {
  at::Tensor plain = source;
  if (source.is_conj() != (target.is_conj() && source.is_complex())) {
    at::Tensor stored = source.alias();
    stored._set_conj(false);
    stored._set_neg(false);
    plain = at::_conj_physical(stored);
    plain._set_neg(source.is_neg());
  }
  if (plain.is_neg() != target.is_neg()) {
    at::Tensor stored = plain.alias();
    stored._set_neg(false);
    plain = at::neg(stored);
  }
  return plain;
}

void write_all(const at::Tensor& cpu, const at::Tensor& target) {
  const auto [buffer, offset] = buffer_of(*target.storage().unsafeGetStorageImpl());
  TORCH_INTERNAL_ASSERT(offset == 0 && buffer->nbytes == cpu.nbytes());
  check(torchacc_buffer_write(buffer->handle, to_dtype(target.scalar_type()), cpu.const_data_ptr(),
                              cpu.nbytes()));
}

void move_to_device(const at::Tensor& source, const at::Tensor& target);

// If both show the same memory PyTorch copies nothing, even if elements overlap.
bool shows_the_same(const at::Tensor& source, const at::Tensor& target) {
  return target.is_alias_of(source) && target.storage_offset() == source.storage_offset() &&
         target.sizes() == source.sizes() && target.strides() == source.strides() &&
         target.scalar_type() == source.scalar_type() && target.is_conj() == source.is_conj() &&
         target.is_neg() == source.is_neg();
}

void device_to_device(const at::Tensor& source, const at::Tensor& target) {
  static const auto native = find_native("torchacc::copy");
  const bool is_ours = are_convertible(source.scalar_type(), target.scalar_type());
  const at::Tensor plain =
      with_bits_of(is_ours ? saturated(source, target.scalar_type()) : source, target);
  const bool movable = plain.scalar_type() == target.scalar_type() ||
                       are_convertible(plain.scalar_type(), target.scalar_type());
  if (native.has_value() && movable && !host_forced("torchacc::copy")) {
    const torchacc_view from = view_of(*plain.unsafeGetTensorImpl());
    return record_native(*native, view_argument(from), view_of(*target.unsafeGetTensorImpl()));
  }
  if (plain.device() != target.device()) return move_to_device(download(plain), target);
  static const auto copy = c10::Dispatcher::singleton().findSchemaOrThrow("aten::copy_", "");
  // Converts the stored elements: the bits already agree.
  record(copy, target, plain, false);
}

// Gives a new tensor the lazy bits of `tensor`.
void set_bits_of(const at::Tensor& made, const at::Tensor& tensor) {
  if (tensor.is_conj()) made._set_conj(true);
  if (tensor.is_neg()) made._set_neg(true);
}

// The memory of a device tensor's storage as a tensor of the native device.
at::Tensor seen(void* memory, const at::Tensor& tensor) {
  const auto [buffer, byte_offset] = buffer_of(*tensor.storage().unsafeGetStorageImpl());
  const int64_t offset =
      tensor.storage_offset() + byte_offset / static_cast<int64_t>(tensor.itemsize());
  const at::Tensor native =
      native_tensor(memory, tensor.sizes(), tensor.strides(), offset, tensor.scalar_type());
  set_bits_of(native, tensor);
  return native;
}

struct Crossing {
  const at::Tensor& source;
  const at::Tensor& target;
};

torchacc_error* write_natively(void* user, const torchacc_device* device, void* memory,
                               size_t) noexcept {
  const auto& [source, target] = *static_cast<const Crossing*>(user);
  return guarded("aten::copy_", [&, &source = source, &target = target] {
    in_order(*device, [&] { seen(memory, target).copy_(source); });
  });
}

torchacc_error* read_natively(void* user, const torchacc_device* device, void* memory,
                              size_t) noexcept {
  const auto& [source, target] = *static_cast<const Crossing*>(user);
  return guarded("aten::copy_", [&, &source = source, &target = target] {
    in_order(*device, [&] {
      if (memory == nullptr) {
        target.zero_();
      } else {
        target.copy_(seen(memory, source));
      }
    });
  });
}

// Whether tensors cross between `device` and the context without the host.
bool is_native(c10::Device device) {
  return native_device().has_value() && native_device()->type() == device.type();
}

// Writes a whole tensor that covers its storage.
void write_whole(const at::Tensor& source, const at::Tensor& target) {
  if (is_native(source.device())) {
    Crossing crossing{source, target};
    const auto [buffer, offset] = buffer_of(*target.storage().unsafeGetStorageImpl());
    return check(torchacc_buffer_fill(buffer->handle, callback(&write_natively), &crossing));
  }
  if (source.is_cpu() && source.layout() == at::kStrided &&
      source.scalar_type() == target.scalar_type() && source.strides() == target.strides() &&
      source.is_conj() == target.is_conj() && source.is_neg() == target.is_neg()) {
    return write_all(source, target);
  }
  const at::Tensor packed =
      at::empty_strided(target.sizes(), target.strides(), target.options().device(at::kCPU));
  set_bits_of(packed, target);
  packed.copy_(source);
  write_all(packed, target);
}

// Copies from another PyTorch device, at once: the source may change afterwards.
void move_to_device(const at::Tensor& source, const at::Tensor& target) {
  if (covers_storage(target)) return write_whole(source, target);
  const at::Tensor staged = make_tensor(target.sizes(), c10::contiguous_strides(target.sizes()),
                                        target.scalar_type(), target.device().index());
  set_bits_of(staged, target);
  write_whole(source, staged);
  device_to_device(staged, target);
}

bool same_plain_layout(const at::Tensor& source, const at::Tensor& target) {
  return source.scalar_type() == target.scalar_type() && source.sizes() == target.sizes() &&
         source.is_contiguous() && target.is_contiguous() && source.is_conj() == target.is_conj() &&
         source.is_neg() == target.is_neg();
}

using Read = decltype(&torchacc_buffer_read);

void read_bytes(const at::Tensor& tensor, int64_t first_element, void* to, size_t nbytes,
                Read read = &torchacc_buffer_read) {
  const auto [buffer, byte_offset] = buffer_of(*tensor.storage().unsafeGetStorageImpl());
  const size_t start =
      static_cast<size_t>(byte_offset) + static_cast<size_t>(first_element) * tensor.itemsize();
  check(read(buffer->handle, start, to, nbytes));
}

at::Tensor download_with(const at::Tensor& tensor, Read read) {
  const auto options = tensor.options().device(at::kCPU);
  if (tensor.numel() == 0) return at::empty_strided(tensor.sizes(), tensor.strides(), options);
  // Strides are never negative, so the view starts at the tensor's offset.
  const size_t nbytes =
      at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.itemsize());
  at::Tensor bytes = at::empty({static_cast<int64_t>(nbytes)}, options.dtype(at::kByte));
  read_bytes(tensor, tensor.storage_offset(), bytes.mutable_data_ptr(), nbytes, read);
  auto cpu = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(bytes.storage()), c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  cpu.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides());
  set_bits_of(cpu, tensor);
  return cpu;
}

}  // namespace

bool is_plain(const at::Tensor& tensor) {
  return !tensor.is_conj() && !tensor.is_neg() && !has_other_bools(tensor);
}

at::Tensor plain(const at::Tensor& tensor) {
  return plain_bools(tensor.resolve_conj().resolve_neg());
}

at::Tensor download(const at::Tensor& tensor) {
  return download_with(tensor, &torchacc_buffer_read);
}

at::Tensor download_after_cut(const at::Tensor& tensor) {
  return download_with(tensor, &torchacc_buffer_read_after_cut);
}

void request(const at::Tensor& tensor) {
  check(
      torchacc_buffer_request(buffer_of(*tensor.storage().unsafeGetStorageImpl()).buffer->handle));
}

at::Tensor upload(const at::Tensor& tensor, c10::DeviceIndex device) {
  TORCH_CHECK_NOT_IMPLEMENTED(tensor.layout() == at::kStrided, kNoSparse);
  const at::Tensor packed = tensor.resolve_conj().resolve_neg();
  const at::Tensor dense = packed.is_non_overlapping_and_dense() ? packed : packed.contiguous();
  at::Tensor made = make_tensor(dense.sizes(), dense.strides(), dense.scalar_type(), device);
  if (dense.numel() != 0) write_all(dense, made);
  return made;
}

at::Tensor copy_from(const at::Tensor& source, const at::Tensor& target, bool) {
  const DispatchBelowAutograd guard;
  const at::Tensor expanded =
      source.sizes() == target.sizes() ? source : source.expand(target.sizes());
  if (target.numel() == 0) return target;
  if (shows_the_same(source, target)) return target;
  if (has_other_bools(target) && source.is_cpu() && source.scalar_type() == at::kBool) {
    // Copies the bytes: as bools, values from the host would become 0 and 1.
    copy_from(source.view(at::kByte), target.view(at::kByte), false);
    return target;
  }
  if (has_other_bools(source) && is_acc(target)) {
    return copy_from(plain_bools(source), target, false);
  }
  at::assert_no_internal_overlap(target);
  if (is_acc(source) && is_acc(target)) at::assert_no_partial_overlap(target, source);
  if (!is_acc(target)) {
    if (is_native(target.device())) {
      Crossing crossing{expanded, target};
      const auto [buffer, offset] = buffer_of(*source.storage().unsafeGetStorageImpl());
      check(torchacc_buffer_look(buffer->handle, callback(&read_natively), &crossing));
    } else if (same_plain_layout(expanded, target)) {
      read_bytes(expanded, expanded.storage_offset(), target.mutable_data_ptr(), target.nbytes());
    } else {
      // A broadcast source is read once, before it is expanded.
      const_cast<at::Tensor&>(target).copy_(download(source).expand(target.sizes()));
    }
  } else if (is_acc(source)) {
    device_to_device(expanded, target);
  } else {
    move_to_device(expanded, target);
  }
  return target;
}

at::Tensor copy_from_and_resize(const at::Tensor& source, const at::Tensor& target) {
  target.resize_(source.sizes());
  return copy_from(source, target, false);
}

at::Scalar local_scalar_dense(const at::Tensor& tensor) {
  return at::_local_scalar_dense(download(plain_bools(tensor)));
}

}  // namespace torchacc

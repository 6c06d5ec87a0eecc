// Features that the device lacks, and their alternatives.
#pragma once

namespace torchacc {

constexpr char kNoSparse[] =
    "the acc device has no sparse tensors. Use dense gradients (nn.Embedding and torch.gather "
    "without "
    "sparse=True and sparse_grad=True, torch.optim.Adam for SparseAdam), or compute with sparse "
    "tensors on the CPU";
constexpr char kNoNested[] =
    "the acc device has no nested tensors of layout torch.strided. Use layout=torch.jagged, or "
    "padding "
    "and a mask";
constexpr char kNoQuantized[] =
    "the acc device has no quantized tensors. Use torchacc.fp8 or half types, or compute with them "
    "on "
    "the CPU";

}  // namespace torchacc

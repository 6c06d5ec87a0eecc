// Whether sharded data parallelism is gathering its parameters.
#pragma once

namespace torchacc {

enum class Gathered { kAnything, kParameters, kParametersAgain };

// What an all-gather that this thread records is of: parameters, if PyTorch's fully_shard or
// FullyShardedDataParallel asks for it (torchacc/adapters/fsdp.py), and the same ones again
// within a backward pass, until whose end no rank may change them.
Gathered what_is_gathered();

}  // namespace torchacc

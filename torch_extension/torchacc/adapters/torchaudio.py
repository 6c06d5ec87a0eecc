"""torchaudio's filters are loops on the CPU. Tested with torchaudio 2.11.0.

`lfilter`, and so every biquad, has a compiled loop for the CPU and one of PyTorch's operators for
devices that torchaudio does not know: some operations for each sample.
"""

import torch

LOOP = "torchaudio::_lfilter_core_loop"
SCHEMA = (
    f"{LOOP}(Tensor input_signal_windows, Tensor a_coeff_flipped, "
    "Tensor(a!) padded_output_waveform) -> Tensor(a!)"
)

# Lives as long as the process.
_library = torch.library.Library("torchaudio", "FRAGMENT")


def _extension(module):
    if not module._IS_TORCHAUDIO_EXT_AVAILABLE:
        return
    # The operator must only write as its schema says, which is known for this one.
    schema = str(torch.ops.torchaudio._lfilter_core_loop.default._schema)
    if schema != SCHEMA:
        raise LookupError(
            f"lfilter stays some operations a sample: its loop is another one, {schema}"
        )
    # Gives the result's type; the composition would go through all samples for that.
    if not torch._C._dispatch_has_kernel_for_dispatch_key(LOOP, "Meta"):
        _library.impl("_lfilter_core_loop", lambda windows, coefficients, output: output, "Meta")
    torch.ops.acc.record_whole(LOOP)


MENDS = {"torchaudio._extension": _extension}

"""accelerate knows acc. Tested with accelerate 1.15.0."""

import functools
import inspect
import os
import sys
from pathlib import Path

import torch

from torchacc import device as acc
from torchacc.adapters import mend


def _chosen() -> bool:
    """Whether accelerate has chosen acc or, before it has chosen anything, will."""
    state = getattr(sys.modules["accelerate.state"], "PartialState", None)
    device = getattr(state, "_shared_state", {}).get("device")
    return acc.is_available() if device is None else device.type == "acc"


def _state(module):
    def default_device(original):
        def choose(self):
            if acc.is_available():
                return torch.device("acc")
            return original.fget(self)

        return property(choose, doc=original.__doc__)

    def prepare_backend(original):
        @functools.wraps(original)
        def choose(self, cpu=False, sagemaker_dp=False, backend=None):
            starts = (
                int(os.environ.get("LOCAL_RANK", "-1")) != -1 and not cpu and acc.is_available()
            )
            if not starts or backend not in (None, "acc"):
                return original(self, cpu, sagemaker_dp, backend)
            # Processes without a list of numbered devices, of which each would have one.
            return "acc", module.DistributedType.MULTI_CPU

        return choose

    def set_device(original):
        @functools.wraps(original)
        def choose(self):
            if self.device is None and self.backend == "acc":
                self.device = torch.device("acc")
            original(self)

        return choose

    mend(module, "PartialState.default_device", default_device, "programs train on the CPU")
    why = "each of several processes trains a model of its own"
    mend(module, "PartialState._prepare_backend", prepare_backend, why)
    mend(module, "PartialState.set_device", set_device, why)


def _accelerator(module):
    def constructor(original):
        # The devices that may train in fp16 are a tuple in the middle of a long function.
        constants = original.__code__.co_consts
        known = [c for c in constants if isinstance(c, tuple) and {"cuda", "npu"} <= {*c}]
        if len(known) != 1:
            raise LookupError
        constants = tuple((*c, "acc") if c is known[0] else c for c in constants)
        original.__code__ = original.__code__.replace(co_consts=constants)
        return original

    mend(module, "Accelerator.__init__", constructor, 'mixed_precision="fp16" is refused')


def _modeling(module):
    def get_grad_scaler(original):
        @functools.wraps(original)
        def make(distributed_type=None, **kwargs):
            if _chosen():
                return torch.amp.GradScaler("acc", **kwargs)
            return original(distributed_type, **kwargs)

        return make

    def get_max_memory(original):
        def without_numbers(memory):
            return {key: size for key, size in memory.items() if not isinstance(key, int)}

        @functools.wraps(original)
        def ask(max_memory=None):
            if not acc.is_available():
                return original(max_memory)
            numbers = range(torch.acc.device_count())
            if max_memory is None:
                memory = {i: torch.acc.mem_get_info(i)[0] for i in numbers}
                # If acc has the host's memory, there is none left for the CPU.
                on_host = torch.acc.memory.native_device() is None
                return memory if on_host else memory | without_numbers(original())
            # In place: the caller reads the numbers from its own argument.
            for key, size in max_memory.items():
                if isinstance(size, str):
                    max_memory[key] = module.convert_file_size_to_int(size)
            memory = {i: max_memory[i] for i in numbers if i in max_memory}
            return memory | original({i: max_memory[i] for i in max_memory if i not in memory})

        return ask

    mend(module, "get_grad_scaler", get_grad_scaler, "training in fp16 does not scale gradients")
    mend(module, "get_max_memory", get_max_memory, 'device_map="auto" does not use acc')


def _memory(module):
    def clear_device_cache(original):
        @functools.wraps(original)
        def clear(*args, **kwargs):
            original(*args, **kwargs)
            if _chosen():
                torch.acc.empty_cache()

        return clear

    def should_reduce_batch_size(original):
        # It knows the messages of each device; acc's error has PyTorch's type.
        @functools.wraps(original)
        def ask(exception):
            return isinstance(exception, torch.OutOfMemoryError) or original(exception)

        return ask

    why = "auto_find_batch_size does not know acc's errors"
    mend(module, "should_reduce_batch_size", should_reduce_batch_size, why)
    mend(module, "clear_device_cache", clear_device_cache, "release_memory keeps acc's memory")


def _checkpointing(module):
    def file(folder, process_index) -> Path:
        return Path(folder) / f"random_states_acc_{process_index}.pt"

    def save_accelerator_state(original):
        signature = inspect.signature(original)

        @functools.wraps(original)
        def save(*args, **kwargs):
            result = original(*args, **kwargs)
            if _chosen():
                given = signature.bind(*args, **kwargs).arguments
                name = file(given["output_dir"], given["process_index"])
                torch.save(torch.acc.get_rng_state_all(), name)
            return result

        return save

    def load_accelerator_state(original):
        signature = inspect.signature(original)

        @functools.wraps(original)
        def load(*args, **kwargs):
            result = original(*args, **kwargs)
            given = signature.bind(*args, **kwargs).arguments
            name = file(given["input_dir"], given["process_index"])
            if _chosen() and name.exists():
                torch.acc.set_rng_state_all(torch.load(name))
            return result

        return load

    why = "checkpoints have no state of acc's generator"
    mend(module, "save_accelerator_state", save_accelerator_state, why)
    mend(module, "load_accelerator_state", load_accelerator_state, why)


MENDS = {
    "accelerate.accelerator": _accelerator,
    "accelerate.checkpointing": _checkpointing,
    "accelerate.state": _state,
    "accelerate.utils.memory": _memory,
    "accelerate.utils.modeling": _modeling,
}

"""transformers knows acc. Tested with transformers 5.24.0 and 4.57.6."""

import functools
import inspect
from pathlib import Path

import torch

from torchacc import device as acc
from torchacc.adapters import mend


def _training_args(module):
    def setup_devices(original):
        # A cached property of the standard library, or in version 4 of the library itself.
        compute = getattr(original, "func", None) or original.fget

        def setup(self):
            device = compute(self)
            state = getattr(self, "distributed_state", None)
            # accelerate has chosen the device; only this list of names lacks it.
            if state is None or state.device.type != "acc" or self.use_cpu:
                return device
            self._n_gpu = 1
            return torch.device("acc", state.device.index or 0)

        replacement = functools.cached_property(setup)
        replacement.__set_name__(module.TrainingArguments, "_setup_devices")
        return replacement

    mend(module, "TrainingArguments._setup_devices", setup_devices, "Trainer uses the CPU")


def _import_utils(module):
    def is_torch_bf16_gpu_available(original):
        @functools.wraps(original)
        def ask():
            return acc.is_available() or original()

        return ask

    mend(module, "is_torch_bf16_gpu_available", is_torch_bf16_gpu_available, "bf16=True is refused")


def _trainer(module):
    def file(trainer, folder) -> Path:
        args = trainer.args
        process = f"_{args.process_index}" if args.world_size > 1 else ""
        return Path(folder) / f"rng_state_acc{process}.pth"

    def save_rng_state(original):
        @functools.wraps(original)
        def save(self, output_dir):
            original(self, output_dir)
            if self.args.device.type == "acc":
                torch.save(torch.acc.get_rng_state_all(), file(self, output_dir))

        return save

    def load_rng_state(original):
        @functools.wraps(original)
        def load(self, checkpoint):
            original(self, checkpoint)
            if checkpoint is None or self.args.device.type != "acc":
                return
            if (name := file(self, checkpoint)).exists():
                torch.acc.set_rng_state_all(torch.load(name))
            else:
                module.logger.warning(f"{name} is missing: random numbers on acc will be others")

        return load

    why = "checkpoints have no state of acc's generator"
    mend(module, "Trainer._save_rng_state", save_rng_state, why)
    mend(module, "Trainer._load_rng_state", load_rng_state, why)


def _pipelines(module):
    def constructor(original):
        signature = inspect.signature(original)

        @functools.wraps(original)
        def construct(self, *args, **kwargs):
            given = signature.bind(self, *args, **kwargs)
            device = given.arguments.get("device")
            placed = getattr(given.arguments["model"], "hf_device_map", None) is not None
            if (
                acc.is_available()
                and not placed
                and (device is None or type(device) is int and device >= 0)
            ):
                given.arguments["device"] = torch.device("acc", device or 0)
            original(*given.args, **given.kwargs)

        return construct

    mend(module, "Pipeline.__init__", constructor, "pipelines use the CPU where no device is given")


MENDS = {
    "transformers.pipelines.base": _pipelines,
    "transformers.trainer": _trainer,
    "transformers.training_args": _training_args,
    "transformers.utils.import_utils": _import_utils,
}

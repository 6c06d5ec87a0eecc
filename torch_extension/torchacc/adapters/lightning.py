"""Lightning knows acc: `lightning`, `pytorch_lightning` and Fabric. Tested with Lightning 2.6.6."""

import functools

import torch

from torchacc import device as acc
from torchacc.adapters import mend


def make_accelerator(base: type) -> type:
    """Lightning's `Accelerator` for acc, a subclass of Fabric's or the Trainer's `base`."""

    class AccAccelerator(base):
        def setup_device(self, device: torch.device) -> None:
            torch.acc.set_device(device)

        def teardown(self) -> None:
            torch.acc.empty_cache()

        def get_device_stats(self, device) -> dict:
            return torch.acc.memory_stats(device)

        @staticmethod
        def parse_devices(devices) -> list[int]:
            if isinstance(devices, str):
                devices = [int(i) for i in devices.split(",")] if "," in devices else int(devices)
            count = torch.acc.device_count()
            if isinstance(devices, int):
                devices = range(count if devices == -1 else devices)
            if not set(devices) <= {*range(count)}:
                raise ValueError(
                    f"there are {count} acc devices, of which {[*devices]} were chosen"
                )
            return list(devices)

        @staticmethod
        def get_parallel_devices(devices: list[int]) -> list[torch.device]:
            return [torch.device("acc", i) for i in devices]

        @staticmethod
        def auto_device_count() -> int:
            return torch.acc.device_count()

        @staticmethod
        def is_available() -> bool:
            return torch.acc.is_available()

        @staticmethod
        def name() -> str:
            return "acc"

    return AccAccelerator


def _register(registry: str):
    def add(module):
        def register(original):
            accelerator = module.AccAccelerator = make_accelerator(module.Accelerator)
            original.register("acc", accelerator, description="torchacc", override=True)
            return original

        mend(module, registry, register, 'accelerator="acc" is refused')

    return add


def _auto(original):
    def choose():
        if acc.is_available():
            return "acc"
        return original()

    # A static method of Fabric, a function of the Trainer.
    return staticmethod(choose) if isinstance(original, staticmethod) else choose


def _device_parser(module):
    mend(module, "_select_auto_accelerator", _auto, 'accelerator="auto" does not use acc')


def _connector(class_name: str, precision_flags: tuple[str, str], auto: bool):
    """The class that makes one of the Trainer's or Fabric's arguments fit to the others."""
    precision_flag, precision_object = precision_flags

    def adapt(module):
        def is_acc(self) -> bool:
            return type(self.accelerator).__name__ == "AccAccelerator"

        def choose_strategy(original):
            strategy = module.SingleDeviceStrategy

            @functools.wraps(original)
            def choose(self):
                if is_acc(self) and len(self._parallel_devices) == 1:
                    return strategy(device=self._parallel_devices[0])
                return original(self)

            return choose

        def check_and_init_precision(original):
            mixed = module.MixedPrecision

            @functools.wraps(original)
            def check(self):
                given, precision = getattr(self, precision_object), getattr(self, precision_flag)
                if is_acc(self) and given is None and precision in ("16-mixed", "bf16-mixed"):
                    return mixed(precision, "acc")
                return original(self)

            return check

        why = "training runs on the CPU"
        mend(module, f"{class_name}._choose_strategy", choose_strategy, why)
        why = "mixed precision does not work on acc"
        mend(module, f"{class_name}._check_and_init_precision", check_and_init_precision, why)
        if auto:
            why = 'accelerator="auto" does not use acc'
            mend(module, f"{class_name}._choose_auto_accelerator", _auto, why)

    return adapt


_TRAINER = {
    "accelerators": _register("AcceleratorRegistry"),
    "trainer.connectors.accelerator_connector": _connector(
        "_AcceleratorConnector", ("_precision_flag", "_precision_plugin_flag"), auto=False
    ),
}
_FABRIC = {
    "accelerators": _register("ACCELERATOR_REGISTRY"),
    "connector": _connector("_Connector", ("_precision_input", "_precision_instance"), auto=True),
    "utilities.device_parser": _device_parser,
}
# As parts of the package `lightning`, and as packages of their own.
MENDS = {
    f"{package}.{module}": function
    for packages, functions in (
        (("lightning.pytorch", "pytorch_lightning"), _TRAINER),
        (("lightning.fabric", "lightning_fabric"), _FABRIC),
    )
    for package in packages
    for module, function in functions.items()
}

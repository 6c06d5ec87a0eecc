"""What `make gpu-kit` made for a machine where nothing can be built, and the time there is lent."""

import os
import shutil
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KIT = ROOT / "target" / "gpu"
PACKAGE = ROOT / "torch_extension"


def unpack():
    """Puts the kit's libraries into the package, unless it has newer ones."""
    folder = PACKAGE / "torchacc" / "lib"
    folder.mkdir(exist_ok=True)
    for file in [*KIT.glob("*.so*"), KIT / "torch_version"]:
        there = folder / file.name
        if not there.exists() or there.stat().st_mtime < file.stat().st_mtime:
            shutil.copy2(file, there)


def environment(*folders: Path) -> dict[str, str]:
    """The variables by which Python finds the package, what is in `folders` and the kit's modules,
    and the runtime NVIDIA's libraries: where a variable says already, else among the packages."""
    here = [*map(str, (PACKAGE, *folders, KIT)), os.environ.get("PYTHONPATH", "")]
    packages = [Path(path) / "nvidia" for path in sys.path]
    libraries = [str(folder) for package in packages for folder in sorted(package.glob("*/lib"))]
    return {
        "PYTHONPATH": os.pathsep.join(filter(None, here)),
        "TORCHACC_CUDA": os.environ.get("TORCHACC_CUDA") or os.pathsep.join(libraries),
        "TORCHACC_CACHE_DIR": "off",
    }


def share(end: float, count: int) -> float:
    """When the next of `count` things that have until `end` (`time.monotonic`) must be over: it may
    take up to three times its part, and always leaves some to the others."""
    now = time.monotonic()
    return now + max(end - now, 0) * 3 / (count + 2)

"""What pyproject.toml cannot say: the two libraries in the package, and what follows from them.

`pip install` and `make wheel` build the Rust library with cargo and the extension with make and
g++, against the PyTorch of the environment that they build in. An editable install builds neither:
`make build` does.
"""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Distribution, find_packages, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.errors import ExecError, PlatformError

ROOT = Path(__file__).resolve().parent
TARGET = ROOT / "target"
BUILD = TARGET / "python"


def version() -> str:
    return re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.M)[1]


def torch_folder() -> Path | None:
    """Where the environment's PyTorch is; it need not be importable."""
    found = importlib.util.find_spec("torch")
    return found and Path(found.submodule_search_locations[0])


def torch_requirement() -> str:
    """Any patch of the minor version that is there: its C++ interface changes between these."""
    folder = torch_folder()
    if folder is None:
        return "torch>=2.11"
    minor = re.search(r"__version__ = '(\d+\.\d+)", (folder / "version.py").read_text())[1]
    return f"torch=={minor}.*"


def need(program: str, what: str) -> None:
    if shutil.which(program) is None:
        raise PlatformError(f"torchacc is built with {program}, which is not on the PATH: {what}")


def run(*command: str) -> None:
    print("+", shlex.join(command), flush=True)
    if subprocess.run(command, cwd=ROOT).returncode != 0:
        raise ExecError(f"{command[0]} could not build torchacc; its messages are above")


def build_libraries(folder: Path) -> None:
    if not sys.platform.startswith("linux"):
        raise PlatformError(f"torchacc is for Linux, and this is {sys.platform}")
    compiler = shlex.split(os.environ.get("CXX", "g++"))[0]
    need("cargo", "install Rust 1.89 or newer (https://rustup.rs)")
    need(compiler, "install g++ 11 or newer (on Debian and Ubuntu: apt install g++), or set CXX")
    need("make", "install it (on Debian and Ubuntu: apt install make)")
    torch = torch_folder()
    if torch is None:
        raise PlatformError(
            "torchacc is built for one PyTorch, and there is none in this environment: install "
            "torch 2.11 or newer first, or build without --no-build-isolation"
        )
    run("cargo", "build", "--release", "--lib", "--locked", f"--target-dir={TARGET}")
    run(
        *("make", f"--jobs={os.cpu_count()}", "--file=torch_extension/csrc/build.mk"),
        *(f"EXT_TORCH={torch}", f"EXT_DIR={folder}", "RUST_LIB=target/release/libtorchacc.so"),
    )


class BuildPackage(build_py):
    def run(self) -> None:
        # Modules that are no more would stay there.
        shutil.rmtree(BUILD, ignore_errors=True)
        super().run()
        if not self.editable_mode:
            build_libraries(Path(self.build_lib).resolve() / "torchacc" / "lib")


class Platform(Distribution):
    """Of one kind of machine, though no extension is setuptools'."""

    def has_ext_modules(self) -> bool:
        return True


class Wheel(bdist_wheel):
    """For any Python: no library needs a symbol of libpython."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


setup(
    version=version(),
    # No package of Python's, so that it is not found.
    packages=[*find_packages("torch_extension", include=["torchacc*"]), "torch-stubs"],
    install_requires=[
        torch_requirement(),
        "pyyaml>=6",
        'onednn-cpu-gomp>=2023.2; platform_machine == "x86_64" and sys_platform == "linux"',
    ],
    cmdclass={"build_py": BuildPackage, "bdist_wheel": Wheel},
    distclass=Platform,
    # Among what is built, not beside the sources.
    options={"build": {"build_base": str(BUILD)}},
)

"""The package as others get it: its wheel, used where the sources are not, and its sources."""

import email
import io
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
import torch
import torchacc
from elftools.elf.elffile import ELFFile

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
# Where the packages are that the wheel requires.
SITE = Path(torch.__file__).parents[1]
VERSION = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.M)[1]
MINOR = ".".join(torch.__version__.split(".")[:2])
PYTHONS = ["3.10", "3.11", "3.12", "3.13"]
# Whether they train, too: PyTorch is downloaded for each.
WHOLE = os.environ.get("TORCHACC_WHEEL") == "whole"
# The most bytes that it may have.
LIMIT = 20 << 20

TRAINING = """
import torch, torchacc
torch.manual_seed(0)
layers = torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)
model = torch.nn.Sequential(*layers).to("acc")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
x = torch.randn(64, 8, device="acc")
for step in range(100):
    loss = (model(x) - x.square().mean(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    first = first if step else loss.item()
print(loss.device, torchacc.__version__, first, loss.item())
"""

# Prints what `code` does, then the files that were opened or mapped meanwhile.
WATCHED = """
import sys
opened = set()

def watch(event, args):
    # What is opened by number was opened by name before.
    if event == "open" and not isinstance(args[0], int):
        opened.add(str(args[0]))

sys.addaudithook(watch)
{code}
maps = (line.split()[-1] for line in open("/proc/self/maps"))
print(*sorted(opened | {{path for path in maps if path.startswith("/")}}), sep="\\n")
"""


def run(*command, **options) -> str:
    """What a command prints that ends well; the environment names no place of Python packages."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS", "PYTHON"))}
    options.setdefault("env", kept)
    command = [str(part) for part in command]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, **options)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def assert_trains(python, folder) -> list[str]:
    """The device learns; the files that were opened meanwhile."""
    line, *opened = run(python, "-c", WATCHED.format(code=TRAINING), cwd=folder).splitlines()
    device, version, first, last = line.split()
    assert (device, version) == ("acc:0", VERSION)
    assert float(last) < 0.1 * float(first)
    return opened


def tracked(*folders) -> set[str]:
    """The files of the repository, also those that are new, below `folders`."""
    listed = run(
        "git", "ls-files", "--cached", "--others", "--exclude-standard", *folders, cwd=ROOT
    )
    return {path for path in listed.splitlines() if (ROOT / path).exists()}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """What `make wheel` makes."""
    folder = tmp_path_factory.mktemp("dist")
    run("make", "wheel", f"DIST={folder}", f"TORCH_PYTHON={sys.executable}", cwd=ROOT)
    (made,) = folder.glob("*/*")
    assert made.parent.name == f"torch-{MINOR}"
    return made


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory) -> Path:
    """The interpreter of an environment with the wheel, and PyTorch as if it were there."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    found = folder / "bin" / "python"
    (site,) = folder.glob("lib/python3*/site-packages")
    (site / "torch.pth").write_text(str(SITE))
    installer = (sys.executable, "-m", "pip", "--python", found)
    run(*installer, "install", "--quiet", "--no-deps", "--no-index", wheel)
    return found


@pytest.fixture(params=PYTHONS)
def interpreter(request) -> Path:
    """A CPython of that version, on the PATH or of pyenv."""
    version = request.param
    ours = Path.home().glob(f".pyenv/versions/{version}.*/bin/python")
    for found in filter(None, (shutil.which(f"python{version}"), *ours)):
        ask = [found, "-c", "import platform; print(platform.python_version())"]
        said = subprocess.run(ask, capture_output=True, text=True).stdout
        if said.startswith(f"{version}."):
            return Path(found)
    pytest.skip(f"there is no CPython {version} here, neither on the PATH nor of pyenv")


def test_the_tag_says_what_the_libraries_need(wheel):
    name = rf"torchacc_runtime-{VERSION}-py3-none-(manylinux_2_\d+_{platform.machine()})\.whl"
    tag = re.fullmatch(name, wheel.name)[1]
    verdict = json.loads(run(BIN / "auditwheel", "show", "--json", wheel))
    assert verdict["sym_tag"] == tag
    assert wheel.stat().st_size <= LIMIT
    assert not verdict["pure"]
    with zipfile.ZipFile(wheel) as files:
        (info,) = (name for name in files.namelist() if name.endswith(".dist-info/WHEEL"))
        assert email.message_from_bytes(files.read(info)).get_all("Tag") == [f"py3-none-{tag}"]
    newest = int(tag.split("_")[2])
    for name, symbols in verdict["versioned_symbols"].items():
        for symbol in symbols:
            if name.startswith("lib") and re.match(r"GLIBC_2\.", symbol):
                assert int(symbol.split(".")[1]) <= newest, (name, symbol)


def test_the_wheel_has_the_package_and_its_libraries_alone(wheel):
    prefix = "torch_extension/"
    folders = "torchacc", "torch-stubs", "torchacc_autoload.py"
    sources = tracked(*(f"{prefix}{name}" for name in folders))
    built = {"libtorchacc.so.1", "libtorchacc_torch.so", "torch_version"}
    expected = {path.removeprefix(prefix) for path in sources}
    expected |= {f"torchacc/lib/{name}" for name in built}
    with zipfile.ZipFile(wheel) as files:
        names = {name for name in files.namelist() if not name.endswith("/")}
        info = {name for name in names if ".dist-info/" in name}
        metadata = next(name for name in info if name.endswith("METADATA"))
        metadata = email.message_from_bytes(files.read(metadata))
    assert names - info == expected
    assert any(name.endswith("licenses/LICENSE") for name in info)
    assert (metadata["Name"], metadata["Version"]) == ("torchacc-runtime", VERSION)
    assert f"torch=={MINOR}.*" in metadata.get_all("Requires-Dist")
    assert metadata.get_payload().startswith("# torchacc")


@pytest.mark.parametrize("name", ["libtorchacc.so.1", "libtorchacc_torch.so"])
def test_the_libraries_find_each_other_wherever_they_are(wheel, name):
    with zipfile.ZipFile(wheel) as files:
        elf = ELFFile(io.BytesIO(files.read(f"torchacc/lib/{name}")))
    tags = list(elf.get_section_by_name(".dynamic").iter_tags())
    needed = {tag.needed for tag in tags if tag.entry.d_tag == "DT_NEEDED"}
    paths = {tag.runpath for tag in tags if tag.entry.d_tag == "DT_RUNPATH"}
    paths |= {tag.rpath for tag in tags if tag.entry.d_tag == "DT_RPATH"}
    assert not any("python" in library for library in needed)
    assert paths == ({"$ORIGIN"} if name == "libtorchacc_torch.so" else set())


def test_every_python_installs_it(wheel, interpreter, tmp_path):
    run(interpreter, "-m", "venv", "--without-pip", tmp_path)
    python = tmp_path / "bin" / "python"
    options = ["--quiet"] if WHOLE else ["--quiet", "--no-deps", "--no-index"]
    run(sys.executable, "-m", "pip", "--python", python, "install", *options, wheel)
    (site,) = tmp_path.glob("lib/python3*/site-packages")
    modules = [site / "torchacc", site / "torchacc_autoload.py"]
    run(python, "-W", "error", "-m", "compileall", "-q", "-f", *modules)
    points = "[one.value for one in metadata.entry_points(group='torch.backends')]"
    asked = f"from importlib import metadata; print({points})"
    assert run(python, "-c", asked) == "['torchacc_autoload:autoload']\n"
    if WHOLE:
        assert_trains(python, tmp_path)


def test_the_wheel_trains_where_the_sources_are_not(python, tmp_path):
    package = python.parents[1].resolve()
    opened = [Path(path).resolve() for path in assert_trains(python, tmp_path)]
    assert any(path.is_relative_to(package) and path.name == "libtorchacc.so.1" for path in opened)
    strangers = [path for path in opened if path.is_relative_to(ROOT)]
    assert [path for path in strangers if not path.is_relative_to(sys.prefix)] == []


def test_the_command_works(python, tmp_path):
    for command in ([python, "-m", "torchacc"], [python.with_name("torchacc")]):
        said = run(*command, "check", cwd=tmp_path)
        assert f"torchacc {VERSION} at {python.parents[1]}" in said


def test_the_sources_are_whole(tmp_path):
    run(sys.executable, "setup.py", "--quiet", "sdist", "--dist-dir", tmp_path, cwd=ROOT)
    with tarfile.open(tmp_path / f"torchacc_runtime-{VERSION}.tar.gz") as archive:
        files = [member.name.partition("/")[2] for member in archive if member.isfile()]
    made = {name for name in files if name in ("PKG-INFO", "setup.cfg") or ".egg-info/" in name}
    assert set(files) - made == tracked()


def test_what_is_missing_to_build_is_named(tmp_path):
    programs = {"cargo": "https://rustup.rs", "g++": "apt install g++", "make": "apt install make"}
    environment = {"PATH": str(tmp_path), "HOME": os.environ.get("HOME", "")}
    for program, advice in programs.items():
        done = subprocess.run(
            [sys.executable, "setup.py", "build", f"--build-base={tmp_path / 'build'}"],
            env=environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        assert done.returncode != 0
        (said,) = (line for line in done.stderr.splitlines() if line.startswith("error:"))
        assert f"with {program}," in said
        assert advice in said
        (tmp_path / program).symlink_to(shutil.which("true"))


def test_the_version_is_the_librarys():
    assert torchacc.__version__ == VERSION

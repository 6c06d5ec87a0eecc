"""What clang says of the C and C++ headers and of programs that use them."""

import subprocess
from pathlib import Path

import pytest

cindex = pytest.importorskip("clang.cindex", reason="there is no libclang here")

ROOT = Path(__file__).parents[2]


def said(source, text, standard):
    """Warnings and errors of a source, which is read from `text` if there is one."""
    # The wheel is clang's library alone: <stddef.h> and its like are the system's compiler's.
    found = subprocess.run(["cc", "-print-file-name=include"], capture_output=True, text=True)
    language = "c++" if "++" in standard else "c"
    flags = ["-x", language, f"-std={standard}", "-Wall", "-Wextra", "-pedantic"]
    flags += [f"-I{ROOT}/include", f"-I{ROOT}/ffi_tests", "-isystem", found.stdout.strip()]
    files = [(source, text)] if text else None
    unit = cindex.Index.create().parse(source, flags, unsaved_files=files)
    return [str(message) for message in unit.diagnostics]


@pytest.mark.parametrize(
    ("header", "standard"),
    [
        ("torchacc.h", "c11"),
        ("torchacc.h", "c17"),
        ("torchacc.h", "c++17"),
        ("torchacc.h", "c++20"),
        ("torchacc.hpp", "c++17"),
        ("torchacc.hpp", "c++20"),
    ],
)
def test_a_header_stands_alone(header, standard):
    include = f'#include "{header}"\n'
    assert said("alone.c", include + include, standard) == []
    assert len(said("wrong.c", include + "static int unused;\n", standard)) == 1


@pytest.mark.parametrize(
    "program", ["ffi_tests/cpp.cpp", "ffi_tests/ranks.cpp", "examples/cpp/digits.cpp"]
)
def test_programs_in_cpp_are_understood(program):
    assert said(str(ROOT / program), None, "c++17") == []

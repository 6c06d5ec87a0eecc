"""The package runs on the oldest CPython that its wheel is for: an older one than runs tests."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [
    ROOT / "torch_extension/torchacc_autoload.py",
    *sorted((ROOT / "torch_extension/torchacc").rglob("*.py")),
]
REQUIRED = re.search(r'requires-python = ">=3\.(\d+)"', (ROOT / "pyproject.toml").read_text())
# What CPython 3.11 added to modules of the standard library.
NEWER = {
    "ast": "TryStar",
    "asyncio": "Barrier Runner TaskGroup Timeout timeout timeout_at",
    "builtins": "BaseExceptionGroup ExceptionGroup",
    "contextlib": "chdir",
    "ctypes": "BigEndianUnion LittleEndianUnion",
    "datetime": "UTC",
    "enum": "EnumCheck EnumType FlagBoundary ReprEnum StrEnum global_enum member nonmember "
    "property verify",
    "hashlib": "file_digest",
    "inspect": "getmembers_static ismethodwrapper",
    "math": "cbrt exp2",
    "os": "login_tty",
    "re": "NOFLAG",
    "sys": "exception",
    "tomllib": "load loads TOMLDecodeError",
    "typing": "LiteralString Never NotRequired Required Self TypeVarTuple Unpack assert_never "
    "assert_type clear_overloads dataclass_transform get_overloads reveal_type",
}
METHODS = {"add_note", "enterContext", "addModuleCleanup"}


def newer(code):
    """What a source uses that CPython 3.10 has not. Raises SyntaxError for what it cannot read."""
    found = set()
    for node in ast.walk(ast.parse(code, feature_version=(3, 10))):
        if isinstance(node, ast.ImportFrom):
            used = {(node.module, one.name) for one in node.names}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            used = {(node.value.id, node.attr)}
        elif isinstance(node, ast.Name):
            used = {("builtins", node.id)}
        else:
            used = set()
        found |= {f"{m}.{n}" for m, n in used if n in NEWER.get(m, "").split()}
        if isinstance(node, ast.Attribute) and node.attr in METHODS:
            found.add(node.attr)
    return found


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: str(file.relative_to(ROOT)))
def test_nothing_is_newer_than_what_is_required(file):
    assert REQUIRED[1] == "10"
    assert newer(file.read_text()) == set()


def test_what_is_newer_is_found():
    assert newer("from typing import Any, Self") == {"typing.Self"}
    assert newer("import enum\nclass A(enum.StrEnum): ...") == {"enum.StrEnum"}
    assert newer("import tomllib\ntomllib.loads(text)") == {"tomllib.loads"}
    assert newer("raise ExceptionGroup('', [])") == {"builtins.ExceptionGroup"}
    with pytest.raises(SyntaxError):
        newer("try: ...\nexcept* ValueError: ...")

"""What type checkers and editors are told: annotations of all that is public, and `torch.acc`."""

import ast
import importlib
from pathlib import Path

import pytest
import torch
import torch.acc

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = sorted((ROOT / "torchacc").rglob("*.py"))
STUBS = ROOT / "torch-stubs"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def is_public(name):
    return not name.startswith("_") or (name.startswith("__") and name.endswith("__"))


def functions(body, is_class=False):
    """Public functions and methods: what they are, and if they have `self`."""
    for node in body:
        if isinstance(node, ast.ClassDef) and is_public(node.name):
            yield from functions(node.body, is_class=True)
        elif isinstance(node, FUNCTIONS) and is_public(node.name):
            kinds = {getattr(one, "id", "") for one in node.decorator_list}
            yield node, is_class and "staticmethod" not in kinds


def unannotated(node, has_self):
    given = node.args
    names = [*given.posonlyargs, *given.args][1 if has_self else 0 :]
    names += [*given.kwonlyargs, *filter(None, (given.vararg, given.kwarg))]
    missing = [one.arg for one in names if one.annotation is None]
    return missing + ["return"] * (node.returns is None and node.name != "__init__")


@pytest.mark.parametrize("file", PACKAGE, ids=lambda file: str(file.relative_to(ROOT)))
def test_all_that_is_public_is_annotated(file):
    found = functions(ast.parse(file.read_text()).body)
    wrong = {node.name: missing for node, has in found if (missing := unannotated(node, has))}
    assert wrong == {}


def test_what_is_not_annotated_is_found():
    code = (
        "def f(a, *b, c: int): ...\nclass C:\n    def g(self, x): ...\n    def _h(self, y): ...\n"
    )
    found = {node.name: unannotated(node, has) for node, has in functions(ast.parse(code).body)}
    assert found == {"f": ["a", "b", "return"], "g": ["x", "return"]}


def test_the_stubs_have_the_names_of_torch_acc():
    body = ast.parse((STUBS / "acc/__init__.pyi").read_text()).body
    imports = [node for node in body if isinstance(node, ast.ImportFrom)]
    names = [(node.module, one.name, one.asname) for node in imports for one in node.names]
    assert sorted(name for _, name, _ in names) == torch.acc.__all__
    for module, name, called in names:
        # Without `as` a name of a stub is its own.
        assert called == name
        module = importlib.import_module(module)
        assert name == "default_generators" or hasattr(module, name)
        assert getattr(torch.acc, name) is not None
    assert (STUBS / "py.typed").read_text() == "partial\n"


@pytest.mark.parametrize("name", ["amp", "memory", "random", "streams"])
def test_submodules_have_stubs(name):
    assert (STUBS / f"acc/{name}.pyi").read_text() == f"from torchacc.{name} import *\n"
    module = importlib.import_module(f"torch.acc.{name}")
    assert module is getattr(torch.acc, name)
    assert module.__all__

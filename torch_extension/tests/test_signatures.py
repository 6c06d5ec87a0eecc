"""`src/aten/signatures.jsonl`, from which bindings are made, says what PyTorch's schemas say.

`UPDATE=1` rewrites it.
"""

import ctypes
import json
import os
import pathlib
import re

import torch
import torchacc

ATEN = pathlib.Path(__file__).parents[2] / "src/aten"
FILE = ATEN / "signatures.jsonl"

# Arguments of other types choose what a host device has no choice of: the rows do not look at them.
TYPES = {
    "Tensor": "tensor",
    "number": "scalar",
    "Scalar": "scalar",
    "int": "int",
    "SymInt": "int",
    "float": "float",
    "bool": "bool",
    "str": "text",
    "ScalarType": "dtype",
    "Generator": "generator",
}


TENSOR = {"type": "tensor"}


def given(name, **about):
    return {"name": name, **(about or TENSOR)}


LIST = {"type": "tensor", "list": True}


def listed(name):
    return given(name, **LIST)


ATTENTION = [
    given("dropout_p", type="float", default=0.0),
    given("is_causal", type="bool", default=False),
    given("scale", type="float", default=1.0),
    given("seed", type="int", default=0),
    given("offset", type="int", default=0),
]
QKV = [given("query"), given("key"), given("value"), given("bias", type="tensor", optional=True)]

REDUCTION = given("reduction", type="text", optional=True)
COLLECTIVES = {
    "all_reduce": [REDUCTION],
    "all_gather": [],
    "all_gather_parameters": [given("again", type="bool", default=False)],
    "reduce_scatter": [REDUCTION],
    "broadcast": [given("root", type="int")],
    "all_to_all": [],
    "reduce": [REDUCTION, given("root", type="int")],
    "all_to_all_v": [given("there", type="int", list=True), given("back", type="int", list=True)],
    "send": [given("rank", type="int"), given("tag", type="int")],
    "receive": [
        given("sizes", type="int", list=True),
        given("dtype", type="dtype"),
        given("rank", type="int"),
        given("tag", type="int"),
    ],
}


def collective(name):
    last = given("communicator", type="communicator")
    operand = [] if name == "receive" else [given("self")]
    return {
        "operator": f"torchacc::{name}",
        "overload": "",
        "arguments": [*operand, *COLLECTIVES[name], last],
        "results": [] if name == "send" else [TENSOR],
    }


# What PyTorch has no schema for.
OWN = [
    {
        "operator": "torchacc::attention",
        "overload": "",
        "arguments": QKV + ATTENTION,
        "results": [TENSOR, TENSOR],
    },
    {
        "operator": "torchacc::attention_backward",
        "overload": "",
        "arguments": [given("grad"), *QKV, given("out"), given("logsumexp"), *ATTENTION],
        "results": [TENSOR, TENSOR, TENSOR],
    },
    {
        "operator": "torchacc::prod_backward",
        "overload": "",
        "arguments": [given("grad"), given("self"), given("dim", type="int", optional=True)],
        "results": [TENSOR],
    },
    {
        "operator": "torchacc::copy",
        "overload": "",
        "arguments": [given("self")],
        "results": [TENSOR],
    },
    {
        "operator": "torchacc::grad",
        "overload": "",
        "arguments": [given("loss"), listed("params")],
        "results": [LIST],
    },
    {
        "operator": "torchacc::adamw",
        "overload": "",
        "arguments": [
            *map(listed, ["params", "grads", "means", "squares"]),
            given("step", type="scalar", default=1),
            given("lr", type="scalar", default=0.001),
            given("beta1", type="scalar", default=0.9),
            given("beta2", type="scalar", default=0.999),
            given("weight_decay", type="scalar", default=0.01),
            given("eps", type="scalar", default=1e-8),
        ],
        "results": [LIST, LIST, LIST],
    },
    {
        "operator": "torchacc::sgd",
        "overload": "",
        "arguments": [
            *map(listed, ["params", "grads", "momentum_buffers"]),
            given("lr", type="scalar", default=0.001),
            given("momentum", type="scalar", default=0.0),
            given("weight_decay", type="scalar", default=0.0),
            given("nesterov", type="bool", default=False),
        ],
        "results": [LIST, LIST],
    },
    *map(collective, COLLECTIVES),
]

# What PyTorch 2.15 names otherwise: bindings keep the names of 2.11.
RENAMED = {("aten::_cdist_backward", "grad_output"): "grad"}


class Text(ctypes.Structure):
    _fields_ = (("data", ctypes.c_char_p), ("len", ctypes.c_size_t))


def library():
    return ctypes.CDLL(str(pathlib.Path(torchacc.__file__).parent / "lib/libtorchacc.so.1"))


def served(lib, name):
    """The number of the row that serves an operator, if any does."""
    number = ctypes.c_uint32()
    data = name.encode()
    error = lib.torchacc_op_find(Text(data, len(data)), ctypes.byref(number))
    if error:
        lib.torchacc_error_free(ctypes.c_void_p(error))
        return None
    return number.value


def typed(text):
    """`Tensor(a!)?[]` as a base type with flags."""
    base = text.split("(")[0]
    rest = text[len(base) :]
    while base and base[-1] in "?[]0123456789":
        base, rest = base[:-1], base[-1] + rest
    about = {"type": TYPES.get(base, "unused")}
    if "[" in rest:
        about["list"] = True
    if "?[" in rest:
        about["gaps"] = True
    if rest.endswith("?"):
        about["optional"] = True
    return about


def argument(one):
    about = {"name": one.name, **typed(one.annotation)}
    if one.has_default_value() and one.default_value is not None:
        about["default"] = one.default_value
    return about


class Argument:
    """An argument as the text says it: the object does not tell a dtype from an integer."""

    def __init__(self, schema_argument, text):
        self.name = schema_argument.name
        self.annotation = text
        self.has_default_value = schema_argument.has_default_value
        self.default_value = schema_argument.default_value


def split(text):
    """Parts between commas that are in no brackets."""
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char in "([") - (char in ")]")
        if char == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [part.strip() for part in [*parts, text[start:]] if part.strip()]


def arguments(schema):
    text = str(schema)
    inside = text[text.index("(") + 1 : text.rindex(") ->")]
    texts = [part.split(" ")[0] for part in split(inside) if part != "*"]
    return [Argument(one, text) for one, text in zip(schema.arguments, texts, strict=True)]


def results(schema):
    text = str(schema).rsplit("-> ", 1)[1]
    text = text[1:-1] if text.startswith("(") else text
    return [typed(part.split(" ")[0]) for part in split(text)]


def line(schema, name):
    given = arguments(schema)
    about = [argument(one) for one in given]
    for one in about:
        one["name"] = RENAMED.get((schema.name, one["name"]), one["name"])
    packet = getattr(torch.ops.aten, schema.name.removeprefix("aten::"))
    tags = getattr(packet, schema.overload_name or "default").tags
    if torch.Tag.nondeterministic_seeded in tags and about[-1]["type"] != "generator":
        about.append({"name": "generator", "type": "generator"})
    return {
        "operator": name,
        "overload": schema.overload_name,
        "arguments": about,
        "results": results(schema),
    }


def lines():
    lib = library()
    lib.torchacc_op_find.restype = ctypes.c_void_p
    lib.torchacc_op_name.restype = Text
    rows = {}
    schemas = [s for s in torch._C._jit_get_all_schemas() if s.name.startswith("aten::")]
    # Functional forms come before those in place, which stand for an operator that has no other.
    for schema in sorted(schemas, key=lambda s: (s.name.endswith("_"), s.name, s.overload_name)):
        full = schema.name + ("." + schema.overload_name if schema.overload_name else "")
        on_tensors = "Tensor" in str(schema) and not any(a.is_out for a in schema.arguments)
        row = served(lib, full) if on_tensors else None
        if row is None:
            continue
        name = lib.torchacc_op_name(row)
        name = ctypes.string_at(name.data, name.len).decode()
        rows.setdefault((row, schema.overload_name), line(schema, name))
    return [json.dumps(row) for row in OWN + [rows[key] for key in sorted(rows)]]


def test_signatures_are_those_of_pytorch():
    made = "\n".join(lines()) + "\n"
    if os.environ.get("UPDATE"):
        FILE.write_text(made)
    assert FILE.read_text() == made, "stale: run with UPDATE=1"


def test_facts_are_about_operators_of_pytorch():
    named = re.findall(r'^    \("(\w+)", ', (ATEN / "facts.rs").read_text(), re.MULTILINE)
    known = {schema.name for schema in torch._C._jit_get_all_schemas()}
    assert named
    assert [name for name in named if f"aten::{name}" not in known] == []

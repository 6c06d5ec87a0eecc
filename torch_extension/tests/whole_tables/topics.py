"""The topics, and of each the tests: rows of a table with the types that it holds for."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from operators import name_of
from torch.testing._internal import common_methods_invocations as tables
from torch.testing._internal.common_modules import module_db
from torch.testing._internal.common_optimizers import optim_db

from . import forms, modules, values

FLOATS = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
PLAIN = (torch.float32, torch.int64, torch.complex64, torch.bool, torch.bfloat16)
FOREACH = [
    *tables.foreach_unary_op_db,
    *tables.foreach_binary_op_db,
    *tables.foreach_pointwise_op_db,
    *tables.foreach_reduce_op_db,
    *tables.foreach_other_op_db,
]
# Without those of the masks of torch.masked.
OPERATORS = [op for op in tables.op_db if not op.name.startswith("masked.")]

# PyTorch's CPU kernels write beyond a result that lies otherwise, or to wrong places of it.
BEYOND = {"narrow_copy", "nn.functional.avg_pool3d", "tril", "triu", "lu_unpack", "linalg.lu"}


@dataclass(frozen=True)
class Topic:
    """`check(row, dtype)` counts the calls that the CPU takes, and raises where acc differs."""

    rows: Iterable
    name: Callable
    types: Callable
    check: Callable


def of(types, supported=lambda op: op.supported_dtypes("cpu")):
    return lambda op: [dtype for dtype in types if dtype in supported(op)]


def every(op):
    return sorted(op.supported_dtypes("cpu"), key=str)


def backward(op):
    if not op.supports_autograd:
        return []
    return sorted(op.supported_backward_dtypes("cpu"), key=str)


def derivatives(is_supported):
    return lambda op: of(values.WIDE)(op) if is_supported(op) else []


def operators(types, check, rows=OPERATORS):
    return Topic(rows, name_of, types, check)


def where(has, types):
    return lambda op: of(types)(op) if has(op) else []


def module_name(info):
    return info.formatted_name


def optimizer_name(info):
    return info.optim_cls.__name__


def fixed(types):
    return lambda row: types


def has_errors(info):
    return [torch.float32] if info.module_error_inputs_func else []


def own_references(op):
    """Those that have a reference function of their own, or inputs beyond the samples."""
    return op.reference_inputs_func is not None


TOPICS = {
    "results": operators(every, values.results),
    "gradients": operators(backward, values.gradients),
    "forward-mode derivatives": operators(
        derivatives(lambda op: op.supports_forward_ad), values.forward_mode
    ),
    "gradients of gradients": operators(
        derivatives(lambda op: op.supports_gradgrad), values.second_gradients
    ),
    "reference inputs": operators(
        where(own_references, (torch.float32, torch.int64, torch.complex64)),
        values.reference_inputs,
    ),
    "operands that are not contiguous": operators(of(PLAIN[:3]), values.non_contiguous),
    "conjugate views": operators(of((torch.complex64,)), values.conjugates),
    "negative views": operators(of((torch.float64, torch.complex128)), values.negatives),
    "methods": operators(where(lambda op: op.method_variant, PLAIN), forms.methods),
    "in place": operators(where(lambda op: op.inplace_variant, PLAIN), forms.in_place),
    "gradients in place": operators(
        where(lambda op: op.inplace_variant and op.supports_inplace_autograd, values.WIDE),
        forms.in_place_gradients,
    ),
    "out=": operators(
        where(
            lambda op: op.supports_out and op.name not in BEYOND,
            (torch.float32, torch.int64, torch.complex64),
        ),
        forms.out_arguments,
    ),
    "what operators refuse": operators(
        lambda op: every(op)[:1] if op.error_inputs_func else [], forms.refusals
    ),
    "torch._refs": operators(of(PLAIN[:3]), values.results, tables.python_ref_db),
    "lists of tensors": operators(every, values.results, FOREACH),
    "lists in place": operators(
        where(lambda op: op.inplace_variant, (*FLOATS, *PLAIN)), forms.in_place, FOREACH
    ),
    "gradients of lists": operators(
        lambda op: of(values.WIDE)(op) if op.supports_autograd else [], values.gradients, FOREACH
    ),
    "modules": Topic(module_db, module_name, fixed(FLOATS), modules.module_calls),
    "modules, operands that are not contiguous": Topic(
        module_db, module_name, fixed((torch.float32,)), modules.non_contiguous_modules
    ),
    "modules, gradients of gradients": Topic(
        module_db,
        module_name,
        lambda info: [torch.float64] if info.supports_gradgrad else [],
        modules.second_module_gradients,
    ),
    "what modules refuse": Topic(module_db, module_name, has_errors, modules.module_refusals),
    "optimizers": Topic(
        optim_db,
        optimizer_name,
        fixed((torch.float32, torch.float64, torch.complex64)),
        modules.optimizer_calls,
    ),
    "what optimizers refuse": Topic(
        optim_db, optimizer_name, fixed((torch.float32,)), modules.optimizer_refusals
    ),
}


def listed(topic):
    """The names of a topic's tests, with the row and the type of each."""
    known = TOPICS[topic]
    found = {}
    for row in known.rows:
        for dtype in dict.fromkeys(known.types(row)):
            found.setdefault(f"{known.name(row)} {str(dtype)[6:]}", (row, dtype))
    return found

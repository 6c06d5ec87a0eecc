"""Other forms of operators: methods, in place, `out=`; and what they refuse."""

import re

import torch
from operators import comparable
from support import DEVICE
from torch.utils._pytree import tree_leaves

from .compare import Differs, arguments_on, attempt, check, compare, first_line, wider
from .values import adapted, call, draws, gradients_of, is_differentiable, parts


def methods(op, dtype):
    method = op.method_variant
    taken = 0
    for sample in op.sample_inputs("cpu", dtype):
        run = adapted(op, sample, lambda source, rest, more: method(source, *rest, **more))
        taken += check(run, parts(sample), values=not draws(op, sample))
    return taken


def in_place(op, dtype):
    """The operand afterwards, which is the result."""

    def run(source, rest, keywords):
        result = op.inplace_variant(source, *rest, **keywords)
        if result is not source:
            raise Differs("another tensor is returned")
        return source

    taken = 0
    for sample in op.sample_inputs("cpu", dtype):
        taken += check(run, parts(sample), values=not draws(op, sample))
    return taken


def in_place_gradients(op, dtype):
    def run(source, rest, keywords):
        inputs = [leaf for leaf in tree_leaves((source, rest, keywords)) if is_differentiable(leaf)]
        result = op.inplace_variant(source.clone(), *rest, **keywords)
        return result, gradients_of(result, inputs)

    taken = 0
    for sample in op.sample_inputs("cpu", dtype, requires_grad=True):
        if isinstance(sample.input, torch.Tensor):
            taken += check(run, parts(sample), values=not draws(op, sample))
    return taken


def outs(expected):
    """Tensors to write to, for what the call gives: of its shape, empty, and laid otherwise."""
    yield lambda e: torch.full_like(e, 1)
    yield lambda e: e.new_empty(0)
    yield lambda e: torch.full((*e.shape, 2), 1, dtype=e.dtype)[..., 0]
    back = tuple(range(expected[0].dim()))[::-1]
    yield lambda e: torch.full(tuple(e.shape[::-1]), 1, dtype=e.dtype).permute(back[-e.dim() :])
    yield lambda e: torch.full_like(e, 1, dtype=torch.int64)
    yield lambda e: torch.full_like(e, 1, dtype=torch.complex128)
    yield lambda e: e.new_full((*e.shape, 3), 1)


def out_arguments(op, dtype):
    """The tensor that is written to, its strides, and whether it is refused."""
    taken = 0
    for sample in op.sample_inputs("cpu", dtype):
        expected, refused = attempt(
            lambda *all_: call(op, *all_), arguments_on("cpu", parts(sample))
        )
        is_tuple = isinstance(expected, tuple)
        leaves = tree_leaves(expected)
        if refused is not None or not leaves or not all(map(comparable, leaves)):
            continue
        for make in outs(leaves):
            try:
                out = [make(leaf) for leaf in leaves]
            except (RuntimeError, IndexError):
                continue
            taken += one_out(op, sample, out, is_tuple, [leaf.dtype for leaf in leaves])
    return taken


def one_out(op, sample, out, is_tuple, types):
    def run(source, rest, keywords, out):
        given = tuple(out) if is_tuple else out[0]
        with_out = op(source, *rest, **keywords, out=given)
        for found, wanted in zip(tree_leaves(with_out), out, strict=True):
            if found is not wanted:
                raise Differs("another tensor is returned")
        return out

    arguments = (*parts(sample), out)
    expected, refused = attempt(run, arguments_on("cpu", arguments))
    actual, refused_there = attempt(run, arguments_on(DEVICE, arguments))
    if type(refused) is not type(refused_there):
        said = first_line(refused_there or refused)
        what = "refuses" if refused is None else "takes"
        raise Differs(
            f"{what} out of {[(o.dtype, tuple(o.shape), o.stride()) for o in out]}: {said}"
        )
    if refused is None and not draws(op, sample):

        def narrow(found):
            # What is written to wider elements is as exact as the operator's own result.
            return [leaf.to(dtype) for leaf, dtype in zip(found, types, strict=True)]

        def exact():
            return attempt(run, wider(arguments_on("cpu", arguments)))[0] or expected

        compare(narrow(actual), narrow(expected), exact)
        for given, a, e in zip(out, actual, expected, strict=True):
            # One that is resized lies as its memory comes.
            if given.shape == e.shape and e.numel() and a.stride() != e.stride():
                raise Differs(f"out has strides {a.stride()}, not {e.stride()}")
    return refused is None


def same_refusal(function, arguments, regex=None):
    """Whether the CPU refuses the call, in the words of `regex`; acc then does so, too."""
    _, refused = attempt(function, arguments_on("cpu", arguments))
    if refused is None:
        return False
    _, there = attempt(function, arguments_on(DEVICE, arguments))
    if there is None:
        raise Differs(f"not refused: {first_line(refused)}")
    if not isinstance(there, type(refused)) and not isinstance(refused, type(there)):
        raise Differs(
            f"{type(there).__name__} ({first_line(there)}), not {type(refused).__name__}"
            f" ({first_line(refused)})"
        )
    if regex and re.search(regex, str(refused)) and not re.search(regex, str(there)):
        raise Differs(f"says “{first_line(there)}”, not “{first_line(refused)}”")
    return True


def refusals(op, dtype):
    taken = 0
    for error in op.error_inputs("cpu"):
        sample = error.sample_input
        taken += same_refusal(lambda *all_: call(op, *all_), parts(sample), error.error_regex)
    return taken

"""Results and derivatives of operators for every type, and for every input that is generated."""

from functools import partial

import torch
import torch.autograd.forward_ad as forward_ad
from operators import RANDOM, comparable
from torch.testing._internal.common_utils import noncontiguous_like
from torch.utils._pytree import tree_leaves, tree_map

from .compare import check

# With random projections, beside those whose results are drawn.
DRAWING = RANDOM | {"svd_lowrank", "pca_lowrank"}
# Operators whose result says where elements are, with the position of the dimension among the
# arguments behind the tensor.
PICKS = {"sort": 0, "argsort": 0, "topk": 1, "kthvalue": 1}
WIDE = (torch.float64, torch.complex128)


def call(op, source, rest, keywords):
    return op(source, *rest, **keywords)


def parts(sample):
    return sample.input, sample.args, sample.kwargs


def defined(op, sample, function):
    """Of eigenvectors and the like what does not depend on signs, which libraries choose."""
    if not op.name.startswith(("linalg.", "svd", "qr", "geqrf", "lu", "pca", "eig")):
        return function

    def of(*arguments):
        return sample.output_process_fn_grad(function(*arguments))

    return of


def draws(op, sample):
    """Whether numbers are drawn, which differ between devices."""
    return op.name.removeprefix("_refs.") in DRAWING or sample.kwargs.get("dropout_p", 0) > 0


def picking(op, sample, function):
    """Of places of elements the elements: which of equal ones comes first is not defined."""
    position = PICKS.get(op.name)
    if position is None or sample.kwargs.get("stable"):
        return function
    dim = sample.kwargs.get("dim", (*sample.args, -1, -1)[position])

    def picked(source, rest, keywords):
        found = function(source, rest, keywords)
        values, places = (None, found) if isinstance(found, torch.Tensor) else found
        of = source.detach()
        if of.dim() == places.dim() + 1:
            return values, of.take_along_dim(places.unsqueeze(dim), dim)
        return values, of.take_along_dim(places, dim) if of.dim() else places

    return picked


def adapted(op, sample, function):
    """The call as it is comparable: what it makes that is defined, of what it wants where."""
    function = picking(op, sample, defined(op, sample, function))
    if op.name.removeprefix("_refs.") != "tensor_split":
        return function
    # PyTorch wants the tensor of sections on the CPU, whatever the device.
    return lambda source, rest, keywords: function(source, *on_cpu((rest, keywords)))


def on_cpu(tree):
    return tree_map(lambda leaf: leaf.cpu() if isinstance(leaf, torch.Tensor) else leaf, tree)


def over(op, dtype, samples, function, **how):
    """How many of the samples the CPU takes."""
    run, taken = function(op), 0
    for sample in samples:
        taken += check(adapted(op, sample, run), parts(sample), values=not draws(op, sample), **how)
    return taken


def plain(op):
    return partial(call, op)


def results(op, dtype):
    return over(op, dtype, op.sample_inputs("cpu", dtype), plain)


def reference_inputs(op, dtype):
    return over(op, dtype, op.reference_inputs("cpu", dtype), plain)


def non_contiguous(op, dtype):
    samples = (sample.transform(strided) for sample in op.sample_inputs("cpu", dtype))
    return over(op, dtype, samples, plain)


def strided(leaf):
    """The same elements, further apart in memory."""
    return noncontiguous_like(leaf) if comparable(leaf) and leaf.dim() > 0 else leaf


def lazily(op, dtype, view):
    """The samples of views that are conjugated, or negated, when they are read."""

    def viewed(leaf):
        if comparable(leaf) and leaf.dtype == dtype:
            return view(leaf)
        return leaf

    samples = (sample.transform(viewed) for sample in op.sample_inputs("cpu", dtype))
    return over(op, dtype, samples, plain)


def conjugates(op, dtype):
    return lazily(op, dtype, lambda leaf: leaf.conj_physical().conj())


def negatives(op, dtype):
    return lazily(op, dtype, lambda leaf: torch._neg_view(leaf.neg()))


def weights_for(leaf, step):
    """Numbers that differ, so that no sum over a normalised dimension vanishes."""
    n = max(leaf.numel(), 1)
    numbers = torch.linspace(-1, 2, n, dtype=torch.float64)[: leaf.numel()].roll(step)
    numbers = numbers * (1 - 0.5j) if leaf.is_complex() else numbers
    return numbers.view(leaf.shape).to(leaf.dtype).to(leaf.device)


def is_differentiable(leaf):
    return comparable(leaf) and leaf.requires_grad


def gradients_of(outputs, inputs, again=False):
    """Those of a weighted sum of the results, by input; None where there is none."""
    terms = [leaf for leaf in tree_leaves(outputs) if is_differentiable(leaf)]
    if not terms or not inputs:
        return []
    weights = [weights_for(term, step) for step, term in enumerate(terms)]
    return torch.autograd.grad(terms, inputs, weights, allow_unused=True, create_graph=again)


def with_gradients(op, again=False):
    def run(source, rest, keywords):
        inputs = [leaf for leaf in tree_leaves((source, rest, keywords)) if is_differentiable(leaf)]
        # The operator may write to its operand, which must not be a leaf then.
        outputs = op(source, *rest, **keywords)
        first = gradients_of(outputs, inputs, again)
        second = gradients_of(first, inputs) if again else []
        return outputs, first, second

    return run


def gradients(op, dtype):
    return over(op, dtype, op.sample_inputs("cpu", dtype, requires_grad=True), with_gradients)


def second_gradients(op, dtype):
    samples = op.sample_inputs("cpu", dtype, requires_grad=True)
    return over(op, dtype, samples, partial(with_gradients, again=True))


def with_tangents(op):
    def run(source, rest, keywords):
        with forward_ad.dual_level():

            def dual(leaf):
                if not is_differentiable(leaf):
                    return leaf
                leaf = leaf.detach()
                return forward_ad.make_dual(leaf, weights_for(leaf, 0))

            source, rest, keywords = tree_map(dual, (source, rest, keywords))
            pairs = [
                forward_ad.unpack_dual(leaf)
                for leaf in tree_leaves(op(source, *rest, **keywords))
                if comparable(leaf)
            ]
        return [pair.primal for pair in pairs], [pair.tangent for pair in pairs]

    return run


def forward_mode(op, dtype):
    return over(op, dtype, op.sample_inputs("cpu", dtype, requires_grad=True), with_tangents)

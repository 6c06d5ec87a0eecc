"""What a call gives on acc beside what it gives on the CPU."""

import math

import torch
from operators import comparable
from support import DEVICE, forget_errors
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map

# Errors that a result may have where the CPU's has none, in units of the last place.
ROUNDINGS = {torch.float32: 16, torch.bfloat16: 32, torch.float16: 16, torch.complex64: 16}
# A float of 8 bits may round to the neighbour, which is up to a quarter away.
EIGHT_BITS = 0.25
WIDER = {
    torch.float32: torch.float64,
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.complex64: torch.complex128,
    torch.complex32: torch.complex128,
}


class Differs(AssertionError):
    """acc and the CPU do not agree."""


def rebuilt(leaf, device):
    """A copy of a tensor as it lies: its strides, its offset, and whether it is a conjugate."""
    if not comparable(leaf) or leaf.is_meta:
        return leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf
    value = leaf.detach()
    if value.is_conj():
        copy = rebuilt(value.conj(), device).conj()
    elif value.is_neg():
        copy = torch._neg_view(rebuilt(torch._neg_view(value), device))
    else:
        memory = value.untyped_storage().size() // value.itemsize
        whole = value.as_strided((memory,), (1,), 0).clone().to(device)
        copy = whole.as_strided(value.shape, value.stride(), value.storage_offset())
    return copy.requires_grad_(leaf.requires_grad)


def arguments_on(device, arguments):
    """Copies of the arguments on `device`; one tensor that is there twice stays one."""
    seen = {}

    def move(leaf):
        if isinstance(leaf, torch.Tensor):
            if id(leaf) not in seen:
                seen[id(leaf)] = rebuilt(leaf, device)
            return seen[id(leaf)]
        return torch.device(device) if names_cpu(leaf) else leaf

    return tree_map(move, arguments)


def names_cpu(leaf):
    return isinstance(leaf, str | torch.device) and str(leaf) == "cpu"


def wider(arguments):
    """The arguments in the widest types of their kinds."""

    def widen(leaf):
        if isinstance(leaf, torch.dtype):
            return WIDER.get(leaf, leaf)
        if isinstance(leaf, torch.Tensor) and leaf.dtype in WIDER:
            return leaf.detach().to(WIDER[leaf.dtype]).requires_grad_(leaf.requires_grad)
        return leaf

    return tree_map(widen, arguments)


def attempt(function, arguments):
    """What the call gives, read, and the error where it is refused, if only when it is read."""
    torch.manual_seed(0)
    try:
        found = function(*arguments)
        for leaf in tree_leaves(found):
            if comparable(leaf) and leaf.device.type == DEVICE:
                leaf.detach().cpu()
    except Exception as error:
        forget_errors()
        return None, error
    return found, None


def check(function, arguments, values=True):
    """Whether the CPU takes the call; raises where acc then makes something else of it."""
    expected, refused = attempt(function, arguments_on("cpu", arguments))
    # Of numbers alone it makes tensors wherever it is called.
    if not any(
        isinstance(leaf, torch.Tensor) or names_cpu(leaf) for leaf in tree_leaves(arguments)
    ):
        return False
    if refused is not None or any(e.is_cuda for e in tree_leaves(expected) if comparable(e)):
        return False
    actual, refused = attempt(function, arguments_on(DEVICE, arguments))
    if refused is not None:
        raise Differs(f"{type(refused).__name__}: {first_line(refused)}")

    def exact():
        return attempt(function, wider(arguments_on("cpu", arguments)))[0]

    compare(actual, expected, exact, values)
    return True


def first_line(error):
    return (str(error).splitlines() or [""])[0][:160]


def compare(actual, expected, exact, values=True):
    actual, kind = tree_flatten(actual)
    expected, wanted = tree_flatten(expected)
    if kind != wanted:
        raise Differs(f"{kind} for {wanted}")
    reference = None
    for place, (a, e) in enumerate(zip(actual, expected, strict=True)):
        if not comparable(e):
            if not isinstance(e, torch.Tensor) and not same(a, e):
                raise Differs(f"result {place} is {a}, not {e}")
            continue
        found, like = (a.device.type, a.shape, a.dtype), (DEVICE, e.shape, e.dtype)
        if found != like:
            raise Differs(f"result {place} is {describe(*found)}, not {describe(*like)}")
        a, e = a.detach().cpu().resolve_conj().resolve_neg(), e.detach()
        if not values or close(a, e):
            continue
        if reference is None:
            reference = tree_leaves(exact()) if e.dtype in WIDER else []
        if place >= len(reference) or not near(a, e, reference[place]):
            raise Differs(f"result {place}: {largest(a, e)}")


def same(a, e):
    if isinstance(e, float) and isinstance(a, float):
        return math.isclose(a, e, rel_tol=1e-6) or (a != a and e != e)
    if isinstance(e, torch.device):
        return isinstance(a, torch.device)
    return a == e


def describe(device, shape, dtype):
    return f"{str(dtype)[6:]}{list(shape)} on {device}"


def close(a, e):
    if e.is_floating_point() and e.itemsize == 1:
        return torch.allclose(a.float(), e.float(), EIGHT_BITS, EIGHT_BITS, equal_nan=True)
    try:
        torch.testing.assert_close(a, e, equal_nan=True)
    except AssertionError:
        return False
    return True


def near(a, e, exact):
    """As near to what wider types give as the type lets it be, or as the CPU is."""
    if not comparable(exact) or exact.shape != e.shape:
        return False
    wide = WIDER[e.dtype]
    a, cpu, exact = a.to(wide), e.to(wide), exact.detach().to(wide)
    # What is beyond the type's largest is infinite in it, in both or by a rounding in one.
    limit = torch.finfo(e.dtype).max
    finite = exact.abs() < limit * (1 - torch.finfo(e.dtype).eps)
    rounded = exact.to(e.dtype).to(wide)
    agree = (a == cpu) | (a == rounded) | (a.isnan() & cpu.isnan())
    if e.is_complex():
        # One part that is too large makes of the other what the order of operations makes of it.
        agree |= (exact.abs() > limit) & ~a.isfinite()
    if not (finite | agree).all():
        return False
    off, allowed = (a - exact)[finite & ~agree], (cpu - exact)[finite].abs()
    scale = 1 + (exact[finite].abs().max().item() if finite.any() else 0)
    bound = ROUNDINGS.get(e.dtype, 16) * torch.finfo(e.dtype).eps * scale
    bound += 8 * (allowed.nan_to_num(0, 0, 0).max().item() if allowed.numel() else 0)
    return bool((off.abs() <= bound).all())


def largest(a, e):
    """The element that is farthest from what it should be."""
    if not e.numel():
        return "differs"
    if a.is_complex():
        a, e = (
            torch.view_as_real(a.to(torch.complex128)),
            torch.view_as_real(e.resolve_conj().resolve_neg().to(torch.complex128)),
        )
    a, e = a.flatten().double(), e.flatten().double()
    off = (a - e).abs()
    off[(a == e) | (a.isnan() & e.isnan())] = -1
    place = off.nan_to_num(math.inf).argmax()
    wrong = int((off != -1).sum())
    return f"{a[place].item():.9g}, not {e[place].item():.9g} ({wrong} of {len(a)} elements differ)"

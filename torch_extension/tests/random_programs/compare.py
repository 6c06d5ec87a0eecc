"""Whether a run on the device gave what it should, as far as the arithmetic says what that is."""

import re
from dataclasses import dataclass

import torch

from .known import known
from .run import kind_of

LAYOUT = ("shape", "dtype", "strides", "storage offset", "requires_grad")


@dataclass(frozen=True)
class Failure:
    kind: str
    message: str


def compare(got, expected):
    """The first difference, or None."""
    return _errors(got.errors, expected.eager.errors) or _values(got.values, expected)


def same_bits(first, second):
    """A difference between two runs on the device, which give the same bits."""
    for name, value in first.values.items():
        if not _identical(value, second.values.get(name)):
            return Failure(
                "bits", f"{name} is {value} in the first run, {second.values[name]} then"
            )
    return None


def _identical(a, b):
    if not isinstance(a, tuple):
        return repr(a) == repr(b)
    if a[0] != b[0] or (a[2] is None) != (b[2] is None):
        return False
    equal = torch.allclose if a[1].is_floating_point() else torch.equal
    how = {"rtol": 0, "atol": 0, "equal_nan": True} if a[1].is_floating_point() else {}
    return equal(a[1], b[1], **how) and (a[2] is None or _identical(a[2], b[2]))


def _errors(got, expected):
    for place in sorted(got.keys() | expected.keys()):
        a, e = kind_of(got.get(place)), kind_of(expected.get(place))
        if a != e:
            text = f"line {place} raised {a}, not {e}: {got.get(place)} / {expected.get(place)}"
            said = re.sub(r"[^a-z ]|\bt\d+", "", str(got.get(place) or expected.get(place)))[:40]
            return Failure(f"raised {a}, not {e}: {said}", text)
    return None


def _values(got, expected):
    if got.keys() != expected.eager.values.keys():
        return Failure("names", f"{sorted(got)} is not {sorted(expected.eager.values)}")
    for name, value in expected.eager.values.items():
        others = [values[name] for values in expected.others]
        failure = _value(name, got[name], value, others)
        if failure:
            return failure
    return None


def _value(name, got, eager, others):
    if type(got) is not type(eager):
        return Failure("type", f"{name} is a {type(got)}, not a {type(eager)}")
    if not isinstance(eager, tuple):
        return _read(name, got, eager, others)
    for what, a, e in zip(LAYOUT, got[0], eager[0], strict=True):
        ordered = what in ("strides", "storage offset")
        if a != e and not (ordered and known("memory format")):
            return Failure(what, f"{name}: {what} is {a}, not {e}")
    failure = _elements(name, got[1], eager[1], [other[1] for other in others])
    if failure:
        return failure
    if (got[2] is None) != (eager[2] is None):
        return Failure("gradient", f"{name}.grad is {got[2]}, not {eager[2]}")
    if got[2] is not None:
        return _value(f"{name}.grad", got[2], eager[2], [other[2] for other in others])
    return None


def _read(name, got, eager, others):
    if isinstance(eager, float | list):
        got, eager, *others = (torch.tensor(v, dtype=torch.float64) for v in (got, eager, *others))
        if got.shape != eager.shape:
            return Failure("shape", f"{name} has shape {got.shape}, not {eager.shape}")
        return _elements(name, got, eager, others, torch.finfo(torch.float32).eps)
    return None if got == eager else Failure("values", f"{name} is {got}, not {eager}")


def _elements(name, got, eager, others, eps=None):
    if not eager.is_floating_point():
        if torch.equal(got, eager):
            return None
        return Failure("values", f"{name} is\n{got}, not\n{eager}")
    margin = margins(eager, *others, eps or torch.finfo(eager.dtype).eps)
    wide, got64 = others[0], got.double()
    fits = (got64 == wide) | (got64.isnan() & wide.isnan()) | (got == eager)
    fits |= ((got64 - wide).abs() <= margin) | margin.isinf()
    if fits.all():
        return None
    worst = (~fits).nonzero()[0].tolist()
    at = tuple(worst)
    text = (
        f"{name}{worst} is {got64[at].item()!r}, not {wide[at].item()!r}: eager gives "
        f"{eager[at].item()!r}, allowed is {margin[at].item():.3g}"
    )
    return Failure("values", text)


def margins(eager, wide, up, down, eps):
    """How far off every element may be.

    Eager's error, or how far an element moves when what rounds is off by two to four roundings, is
    what rounding can do to it, through cancellation, long sums and steep functions alike.
    """
    deviation = torch.stack([(run.double() - wide).abs() for run in (eager, up, down)]).amax(0)
    settled = wide.isfinite() & deviation.isfinite()
    # An element may by chance not have moved while its neighbours did.
    mean = deviation[settled].mean() if settled.any() else 0.0
    least = torch.finfo(eager.dtype).smallest_normal * eps
    margin = 8 * deviation + 2 * mean + 4 * eps * wide.abs() + least
    if eager.dtype == torch.float64:
        # Nothing is more precise: what cancels within an operator has not been seen.
        margin += 1e-9 * (1 + wide.abs().nan_to_num(0, 0, 0))
    unmoved = (wide == eager) & (wide == up) & (wide == down)
    unmoved |= wide.isnan() & eager.isnan() & up.isnan() & down.isnan()
    nothing = torch.where(unmoved, 0.0, torch.inf).double()
    return torch.where(settled, margin, nothing)

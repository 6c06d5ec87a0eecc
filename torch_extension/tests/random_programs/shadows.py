"""A program on the CPU in several precisions at once: what its arithmetic decides."""

import math
import re
import warnings
from dataclasses import dataclass

import torch

from .known import known
from .program import VARIABLE
from .run import Outcome, environment, gradient, kind_of, overlaps, perform, results, variables

# An error that only says what the CPU has no kernel for, or what a value is.
UNIMPLEMENTED = ("not implemented for", "not supported", "unsupported", "does not support")
OF_VALUES = (
    "out of bounds",
    "out of range",
    "out of DATA bounds",
    "ZeroDivision",
    "division by zero",
    "is not in",
    "shape mismatch: indexing",
    "Number of elements of source",
    "cannot be converted to type",
)
# Operators that round inside and subtract what they rounded.
CANCELS = re.compile(
    r"grad|norm|softm|cosine|loss|entropy|kl_div|std|var|logsumexp|gelu|\bo\d+\.|attention|addc|addr|addmm|addmv|bmm|lerp|linear|backward"
)

# Operators that divide by how far elements are from their mean.
NORMALIZES = re.compile(r"\b(layer|group|batch|instance|rms)_norm\(")

# Operators that ask whether elements are 0, or equal.
COUNTS = re.compile(r"unique|argwhere|nonzero|logical_not|masked_scatter|atan2|norm\(\w+, 0")
# Operators that step at whole numbers, or between them; for a divisor that is one, too.
STEPS = re.compile(
    r"\b(round|floor|ceil|trunc|frac|fmod|remainder|floor_divide)_?\b| % | // |_mode="
)
ITSELF = re.compile(r"cosine_similarity\((\w+), \1\b")
NORMALIZED = re.compile(r"\bnormalize\((\w+), dim=(-?\d+)")
# Operators that ask for a sign, which 0 has too.
SIGNS = re.compile(r"copysign|signbit")
# Operators that compute a part in the type of one of their operands.
OF_TWO_TYPES = re.compile(r"loss|entropy|kl_div")
# Operators that take one of several equal elements.
TAKES = re.compile(r"\btopk\((t\d+)")
# Two variables that are compared, element by element.
COMPARES = re.compile(
    r"\b(t\d+)(?: [=!]= | [<>]=? |\.(?:eq|ne|lt|le|gt|ge)_?\()(t\d+)\b"
    r"|\b(?:eq|ne|lt|le|gt|ge|isclose)\((t\d+), (t\d+)\b"
)
DIFFERENTIATES = re.compile(r"\.backward\(|autograd\.grad\(")
# A tensor on the host as an operand: one with dimensions is refused by every device but the CPU.
HOSTED = re.compile(r"\* (h\d+)$")


class Diverged(Exception):
    """From `place` on the arithmetic does not say what a correct run gives."""

    def __init__(self, place, reason):
        super().__init__(reason)
        self.place = place


class Shadows:
    """A program on the CPU as it is, in f64, and in f64 with what rounds off by a few roundings.

    The two runs that are disturbed are off in opposite directions, so that what hangs on a tie is
    decided differently in one of them.
    """

    def __init__(self):
        self.eager = environment("cpu")
        self.wide, self.up, self.down = (environment("cpu", wide=True) for _ in range(3))
        self.others = (self.wide, self.up, self.down)
        self.seen = {}
        self.noise = torch.Generator().manual_seed(0)
        self.errors = {}
        self.normalizes = False
        self.saved = []
        self.has_nothing_left = False
        # Of the types of operands that were computed with others: gradients pass through each.
        self.coarsest = 0.0

    def step(self, place, line):
        # The CPU alone makes it of operators of which some save nothing.
        if "rms_norm(" in line:
            operands = map(self.eager.get, VARIABLE.findall(line))
            self.saved += [(t, t._version) for t in operands if isinstance(t, torch.Tensor)]
        # The cosine of a vector and itself is 1, and so is a number by its norm: their gradients
        # are what rounding leaves.
        self.has_nothing_left |= bool(ITSELF.search(line))
        self.has_nothing_left |= any(
            self.is_one_wide(name, int(dim)) for name, dim in NORMALIZED.findall(line)
        )
        if DIFFERENTIATES.search(line) and self.has_nothing_left:
            raise Diverged(place, "a gradient is rounding alone")
        if DIFFERENTIATES.search(line) and any(t._version != then for t, then in self.saved):
            raise Diverged(place, "what rms_norm saves was written over")
        self.normalizes |= bool(NORMALIZES.search(line))
        if COUNTS.search(line) and any(map(self.is_noise, VARIABLE.findall(line))):
            raise Diverged(place, "a shape hangs on what rounding leaves")
        if STEPS.search(line) and any(map(self.is_at_a_step, VARIABLE.findall(line))):
            raise Diverged(place, "a step hangs on the precision")
        if ".step()" in line and any(map(self.has_odd_gradient, variables(self.eager))):
            raise Diverged(place, "PyTorch's fused kernels go beyond a gradient of other sizes")
        if OF_TWO_TYPES.search(line) and self.is_of_two_types(line):
            raise Diverged(place, "a part is as precise as one of two types")
        if SIGNS.search(line) and any(map(self.has_zeros, VARIABLE.findall(line))):
            raise Diverged(place, "the sign of a zero is nobody's promise")
        if any(map(self.has_ties, TAKES.findall(line))):
            raise Diverged(place, "to which of equal elements a gradient goes is nobody's promise")
        if self.is_of_two_types(line):
            self.coarsest = max(self.coarsest, *map(self.eps_of, VARIABLE.findall(line)))
        pairs = (filter(None, pair.groups()) for pair in COMPARES.finditer(line))
        if any(self.may_be_equal(*pair) for pair in pairs):
            raise Diverged(place, "a comparison hangs on the precision")
        if any(getattr(self.eager.get(name), "ndim", 0) for name in HOSTED.findall(line)):
            raise Diverged(place, "an operand is on another device")
        if CANCELS.search(line) and any(map(self.overflows, VARIABLE.findall(line))):
            raise Diverged(place, "squares overflow")
        error = perform(line, self.eager)
        torch.set_default_dtype(torch.float64)
        try:
            kinds = [kind_of(perform(line, names)) for names in self.others]
        finally:
            torch.set_default_dtype(torch.float32)
        if error:
            if isinstance(error, NameError):
                raise Diverged(place, "a name is missing")
            message = str(error)
            if any(text in message for text in UNIMPLEMENTED):
                raise Diverged(place, "the CPU has no kernel")
            of_values = any(text in message for text in OF_VALUES)
            # How many elements a mask selects is a matter of values, too.
            of_values |= "shape mismatch: value tensor" in message and self.has_mask(line)
            if known("value errors") and of_values:
                raise Diverged(place, "an error that depends on values")
            self.errors[place] = error
        if any(kind != kind_of(error) for kind in kinds):
            raise Diverged(place, "an error hangs on the precision")
        cancels = bool(CANCELS.search(line))
        # What rounding leaves of constant rows is divided by the root of 1e-5.
        amplified = 316 if NORMALIZES.search(line) else 1
        differentiates = bool(DIFFERENTIATES.search(line))
        for name, value in variables(self.eager).items():
            others = [names.get(name) for names in self.others]
            self.settle(place, name, value, others, cancels, amplified, differentiates)
            if isinstance(value, torch.Tensor) and gradient(value) is not None:
                grads = [gradient(other) for other in others]
                self.settle(
                    place, f"{name}.grad", gradient(value), grads, cancels, 1, differentiates
                )

    def is_noise(self, name):
        """Whether rounding decides which elements are 0, or equal."""
        value = self.eager.get(name)
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return False
        exact = value.detach().double()
        others = [names[name].detach() for names in self.others]
        off = torch.stack([(exact - other).abs() > 0.25 * other.abs() for other in others])
        finite = exact[exact.isfinite()].sort().values
        near = 64 * torch.finfo(value.dtype).eps * largest(exact)
        gaps = finite.diff()
        return bool(off.any() or ((gaps > 0) & (gaps <= near)).any())

    def is_at_a_step(self, name):
        """Whether an element may be on the other side of a multiple of a half."""
        value = self.eager.get(name)
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return False
        wide, *others = (names[name].detach() for names in self.others)
        runs = torch.stack([value.detach().double(), *others])
        moved = (runs - wide).abs().amax(0) if wide.numel() else wide
        away = (2 * wide - (2 * wide).round()).abs() / 2
        return bool(((moved > 0) & (away <= 8 * moved)).any())

    def is_one_wide(self, name, dim):
        value = self.eager.get(name)
        sizes = value.shape if isinstance(value, torch.Tensor) else ()
        return dim in range(-len(sizes), len(sizes)) and sizes[dim] == 1

    def has_odd_gradient(self, name):
        """Whether the sizes of a gradient, or of what it belongs to, were changed."""
        value = self.eager[name]
        grad = gradient(value) if isinstance(value, torch.Tensor) else None
        return grad is not None and grad.shape != value.shape

    def has_zeros(self, name):
        """Whether an element is 0 in one of the runs."""
        values = [names.get(name) for names in (self.eager, *self.others)]
        return any(bool((v == 0).any()) for v in values if isinstance(v, torch.Tensor))

    def has_ties(self, name):
        """Whether elements are equal of what is differentiated."""
        value = self.eager.get(name)
        if not isinstance(value, torch.Tensor) or not value.requires_grad:
            return False
        return value.detach().unique().numel() < value.numel()

    def may_be_equal(self, *names):
        """Whether two elements that are compared lie as near as rounding moves them."""
        values = [self.eager.get(name) for name in names]
        if not all(isinstance(v, torch.Tensor) and v.is_floating_point() for v in values):
            return False
        runs = [[v[name].detach() for name in names] for v in (self.eager, *self.others)]
        try:
            eager, wide, up, down = (a.double() - b.double() for a, b in runs)
        except RuntimeError:
            return False
        moved = torch.stack([eager - wide, up - wide, down - wide]).abs().amax(0)
        return bool(((moved > 0) & (wide.abs() <= 8 * moved)).any())

    def has_mask(self, line):
        masks = (torch.bool, torch.uint8)
        found = map(self.eager.get, VARIABLE.findall(line))
        return any(isinstance(t, torch.Tensor) and t.dtype in masks for t in found)

    def overflows(self, name):
        """Whether squares of finite elements leave the range of f64, which nothing has more of."""
        value = self.eager.get(name)
        if not isinstance(value, torch.Tensor) or value.dtype != torch.float64:
            return False
        return bool(largest(value.detach()) > 1e150)

    def eps_of(self, name):
        value = self.eager.get(name)
        is_float = isinstance(value, torch.Tensor) and value.is_floating_point()
        return torch.finfo(value.dtype).eps if is_float else 0.0

    def is_of_two_types(self, line):
        """Whether operands are floats of several types."""
        found = map(self.eager.get, VARIABLE.findall(line))
        return (
            len({t.dtype for t in found if isinstance(t, torch.Tensor) and t.is_floating_point()})
            > 1
        )

    def settle(self, place, name, value, others, cancels, amplified, differentiates):
        if not isinstance(value, torch.Tensor):
            if not all(alike(value, other) for other in others):
                raise Diverged(place, "a value hangs on the precision")
            return
        seen = (id(value), value._version, value.shape, value.data_ptr())
        if self.seen.get(name) == seen:
            return
        self.seen[name] = seen
        if overlaps_in_part(value):
            raise Diverged(place, "what is written to overlapping elements depends on the order")
        if any(value.shape != other.shape for other in others):
            raise Diverged(place, "a shape hangs on the precision")
        value = value.detach()
        if not value.is_floating_point():
            if not all(torch.equal(value, other) for other in others):
                raise Diverged(place, "a value hangs on the precision")
            return
        if differentiates and self.normalizes and value.isnan().any():
            raise Diverged(place, "where infinities cancel hangs on a norm's formula")
        wide, up, down = (other.data for other in others)
        self.follow(place, value, wide, up, down)
        eps = max(torch.finfo(value.dtype).eps, self.coarsest if differentiates else 0.0)
        self.disturb(value, eps, (wide, up, down), cancels, amplified)

    def follow(self, place, eager, wide, up, down):
        """Where the CPU's values left their type's range, the others do too."""
        exact = eager.double()
        overflown = ~exact.isfinite() & wide.isfinite()
        if overflown.any():
            if known("half overflow") and eager.itemsize == 2:
                raise Diverged(place, "a half value overflows")
            if (wide.abs() < torch.finfo(eager.dtype).max)[overflown].any():
                raise Diverged(place, "an overflow hangs on the precision")
        for other in (wide, up, down):
            if overflown.any() and is_writable(other):
                other.copy_(torch.where(overflown, exact, other))
            if not torch.equal(other.isnan(), exact.isnan()):
                raise Diverged(place, "a NaN hangs on the precision")
            if not torch.equal(other.isinf(), exact.isinf()):
                raise Diverged(place, "an infinity hangs on the precision")

    def disturb(self, eager, eps, runs, cancels, amplified):
        wide, up, down = runs
        exact = eager.double()
        # The sign of a zero is nobody's promise, nor that of a NaN.
        for other, sign in ((up, 1.0), (down, -1.0)):
            if is_writable(other):
                other.masked_fill_(other == 0, math.copysign(0.0, sign))
                other.masked_fill_(other.isnan(), math.copysign(math.nan, sign))
        # Nothing has more bits than f64: there, what has many is taken to have been rounded.
        rounded = exact != wide
        if eager.dtype == torch.float64:
            rounded = ((wide * 2**40).frac() != 0) | (wide.abs() >= 2**53)
        rounded &= wide.isfinite()
        if cancels:
            # Even what comes out exact may not elsewhere. What halves cancel is mostly held in f32.
            inside = 4 * eps if eager.itemsize > 2 else eps
            if largest(wide) < 0.1:
                inside *= amplified
            off = self.random(wide, up) * inside * (1 + largest(wide)) * wide.isfinite()
            for other, sign in ((up, 1), (down, -1)):
                if is_writable(other):
                    other.add_(sign * off)
        elif rounded.any():
            off = self.random(wide, up) * wide.sign() * rounded * eps
            for other, factor in ((up, 1 + off), (down, 1 - off)):
                if is_writable(other):
                    other.mul_(factor)
        # What is next to nothing may as well be nothing: a test for 0 hangs on that.
        small = down.abs() <= 16 * eps * largest(down)
        tiny = small & (wide.isfinite() if cancels else rounded)
        # Nor is there anything where a few roundings change most of it.
        moved = (up - wide).abs()
        changed = (moved > 0.25 * wide.abs()) & wide.isfinite() & up.isfinite()
        # But another branch is not noise.
        tiny |= changed & ((down - wide).abs() <= 4 * moved)
        if tiny.any() and is_writable(down):
            down.masked_fill_(tiny, -0.0)

    def random(self, wide, up):
        """Numbers from two to four, of either sign: that of how far an element has moved before, or
        by chance it would be back where it was."""
        size = torch.rand(wide.shape, generator=self.noise, dtype=torch.float64) * 2 + 2
        sign = torch.randint(2, wide.shape, generator=self.noise) * 2 - 1
        moved = (up - wide).nan_to_num(0, 0, 0).sign()
        return size * torch.where(moved == 0, sign, moved)


def largest(tensor):
    """The largest finite magnitude."""
    finite = tensor.abs().nan_to_num(0, 0, 0)
    return finite.amax() if finite.numel() else finite.sum()


def alike(value, other):
    """Whether two things that were read can be compared: of lists, the shape."""
    if isinstance(value, list):
        same = isinstance(other, list) and len(value) == len(other)
        return same and all(map(alike, value, other))
    return isinstance(value, float) or type(value) not in (bool, int) or value == other


def is_writable(tensor):
    return not overlaps(tensor) and not tensor._is_zerotensor()


def overlaps_in_part(tensor):
    """Whether elements overlap otherwise than by a stride of 0."""
    reach = 1
    for stride, n in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if n > 1 and stride:
            if stride < reach:
                return True
            reach += stride * (n - 1)
    return False


@dataclass
class Expected:
    """What the CPU gave, in its own precision and in the three others."""

    eager: Outcome
    others: tuple


def on_host(program):
    """As much of the program as its arithmetic decides, and what it gives."""
    while True:
        shadows = Shadows()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for place, line in program.steps():
                    shadows.step(place, line)
        except Diverged as diverged:
            program = program.before(diverged.place)
            continue
        eager, *others = (results(names) for names in (shadows.eager, *shadows.others))
        return program, Expected(Outcome(eager, shadows.errors), tuple(others))

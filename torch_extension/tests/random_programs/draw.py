"""What statements are drawn from: the variables of a program so far, and numbers at random."""

from random import Random

import torch

from .run import environment, perform, tensors

FLOATS = ("f32", "f32", "f32", "f32", "bf16", "bf16", "f16", "f64")
INTS = ("i64", "i64", "i32", "i16", "i8", "u8")
NAMES = {
    torch.float64: "f64",
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.bool: "b1",
}
SIZES = (1, 2, 3, 4, 5, 7, 8, 16, 17, 33)
MOST_ELEMENTS = 5000

# Of (weight, function): each takes a Draw and returns a line, or None where nothing fits.
STATEMENTS = []


def statement(weight=1.0):
    def register(function):
        STATEMENTS.append((weight, function))
        return function

    return register


class Draw:
    """A program while it is drawn: its lines run on the CPU, so that what is drawn next fits."""

    def __init__(self, seed):
        self.rng = Random(seed)
        self.names = environment("cpu")
        self.lines = []
        self.made = 0
        # Few sizes, so that shapes meet.
        self.sizes = self.rng.sample(SIZES, 3) + [self.rng.choice((1, 2))]
        if self.rng.random() < 0.08:
            self.sizes.append(0)
        self.most_dims = self.rng.choice((2, 3, 3, 4, 5))

    def chance(self, p):
        return self.rng.random() < p

    def choice(self, among):
        return self.rng.choice(list(among))

    def say(self, line):
        """Adds a line if it runs; the error if it does not."""
        error = perform(line, self.names)
        if error is None:
            self.lines.append(line)
        return error

    # Names.

    def new(self, letter="t"):
        self.made += 1
        return f"{letter}{self.made}"

    def where(self, fits=lambda t: True, letter="t"):
        found = tensors(self.names).items()
        return [name for name, t in found if name[0] == letter and fits(t)]

    def tensor(self, fits=lambda t: True):
        """The name of a tensor, rather one that was made lately, or None."""
        names = self.where(fits)
        if not names:
            return None
        late = names[len(names) // 2 :]
        return self.choice(late if self.chance(0.5) else names)

    def of(self, name):
        return self.names[name]

    def floating(self, fits=lambda t: True):
        return self.tensor(lambda t: t.is_floating_point() and fits(t))

    def integral(self, fits=lambda t: True):
        return self.tensor(lambda t: is_integral(t) and fits(t))

    def some(self, fits=lambda t: True):
        """A tensor for which `fits` holds, drawn if there is none."""
        return self.tensor(fits) or self.fresh()

    # Data.

    def dtype(self):
        x = self.rng.random()
        return self.choice(FLOATS if x < 0.72 else INTS if x < 0.92 else ("b1",))

    def shape(self, most=None):
        most = self.most_dims if most is None else most
        return tuple(self.choice(self.sizes) for _ in range(self.rng.randint(0, most)))

    def fresh(self, shape=None, dtype=None, kind=None):
        """The name of a new tensor of drawn numbers."""
        dtype = dtype or self.dtype()
        shape = self.shape() if shape is None else tuple(shape)
        while torch.Size(shape).numel() > MOST_ELEMENTS:
            shape = shape[1:]
        if dtype in FLOATS:
            kinds = ("small", "small", "normal", "normal", "normal", "positive", "special", "large")
        else:
            kinds = ("small", "small", "large")
        kind = kind or self.choice(kinds if self.chance(0.6) else kinds[:3])
        name = self.new()
        extra = "" if kind == "small" else f', "{kind}"'
        seed = self.rng.randrange(100)
        self.say(f'{name} = data({seed}, {shape}, "{dtype}"{extra})')
        return name

    def indices(self, count, bound, unique=False):
        """The name of int64 indices below `bound`; `count` is a shape or a number."""
        shape = (count,) if isinstance(count, int) else tuple(count)
        n = torch.Size(shape).numel()
        if unique and n > bound or n > 64 or (n and not bound):
            return None
        drawn = self.rng.sample(range(bound), n) if unique else self.rng.choices(range(bound), k=n)
        name = self.new()
        ending = "" if len(shape) == 1 else f".reshape({shape})"
        self.say(f"{name} = torch.tensor({drawn}, dtype=i64, device=device){ending}")
        return name

    def number(self, like=None):
        """A number as text; mostly of the kind that `like` holds."""
        if like is not None and not like.is_floating_point() and self.chance(0.8):
            return str(self.choice((0, 1, 2, 3, -1, -2, 5, 100)))
        return str(self.choice((0, 1, 2, -1, 3, 0.5, 2.0, -1.5, 0.1, 0.25, True, 7)))

    # Dimensions.

    def dim(self, t):
        return self.rng.randrange(-t.dim(), t.dim()) if t.dim() else self.choice((0, -1))

    def dims(self, t):
        """A list of different dimensions, in any order, some counted from the end."""
        some = self.rng.sample(range(t.dim()), self.rng.randint(1, t.dim())) if t.dim() else [0]
        return [d - t.dim() if t.dim() and self.chance(0.4) else d for d in some]

    def broadcastable(self, t):
        """A shape that broadcasts to the shape of t."""
        shape = [1 if self.chance(0.2) else n for n in t.shape]
        return tuple(shape[self.rng.choice((0, 0, 0, 1)) :])

    def partner(self, name, fits=lambda t: True, numbers=True):
        """A second operand: a tensor that broadcasts with the first, or a number."""
        t = self.of(name)
        if numbers and self.chance(0.3):
            return self.number(t)
        found = self.tensor(lambda u: fits(u) and broadcasts(t, u))
        if found and self.chance(0.6):
            return found
        dtype = NAMES[t.dtype] if self.chance(0.7) else self.dtype()
        return self.fresh(self.broadcastable(t), dtype)

    def same_shape(self, t, dtype=None):
        fits = lambda u: u.shape == t.shape and (dtype is None or u.dtype == dtype)  # noqa: E731
        name = self.tensor(fits) if self.chance(0.5) else None
        return name or self.fresh(t.shape, NAMES[dtype or t.dtype])


def is_integral(t):
    return not t.is_floating_point() and t.dtype != torch.bool


def broadcasts(t, u):
    pairs = zip(reversed(t.shape), reversed(u.shape), strict=False)
    return all(a == b or a == 1 or b == 1 for a, b in pairs)

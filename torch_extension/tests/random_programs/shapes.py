"""Statements that move data and make views: no arithmetic."""

from .draw import NAMES, is_integral, statement


def _view(d, t, x):
    """An expression for a view of x."""
    dim, n = d.dim(t), max(1, t.dim())
    size = t.shape[dim] if t.dim() else 1
    a = d.rng.randint(0, max(0, size - 1))
    b = d.rng.randint(a, size)
    permuted = d.rng.sample(range(t.dim()), t.dim())
    total, flat = t.numel(), d.choice((1, 2, 3, 4, 6, 8))
    among = [
        f"{x}.transpose({dim}, {d.dim(t)})",
        f"{x}.permute({permuted})",
        f"{x}.unsqueeze({d.rng.randint(-n, n)})",
        f"{x}.squeeze()",
        f"{x}.squeeze({dim})",
        f"{x}.select({dim}, {a})",
        f"{x}[{a - size if d.chance(0.3) else a}]",
        f"{x}[{a}:{b}]",
        f"{x}[..., {a}:{b}]",
        f"{x}[{a}::{d.choice((1, 2, 3))}]",
        f"{x}[..., ::{d.choice((2, 3))}]",
        f"{x}[None]",
        f"{x}.narrow({dim}, {a}, {b - a})",
        f"{x}.movedim({dim}, {d.dim(t)})",
        f"{x}.diagonal({d.rng.randint(-1, 1)}, -2, -1)",
        f"{x}.unfold({dim}, {max(1, b - a)}, {d.choice((1, 2))}).clone()",
        f"{x}.split({max(1, b - a)}, {dim})[-1]",
        f"{x}.chunk({d.choice((2, 3))}, {dim})[0]",
        f"{x}.unbind({dim})[{a}]",
        f"{x}.detach()",
        f"{x}.mT",
        f"{x}.view(-1)",
        f"{x}.reshape(-1, {flat})",
        f"{x}.view({flat}, -1)",
        f"{x}.flatten({d.choice((0, 0, 1))})",
        f"{x}.expand({d.choice((2, 3))}, *{x}.shape)",
        f"{x}.view_as({x})",
    ]
    if total >= 4:
        rows, columns = d.rng.randint(1, 2), d.rng.randint(1, 2)
        strides = (columns, 1) if d.chance(0.5) else (1, rows)
        start = d.rng.randint(0, total - rows * columns)
        if t.is_contiguous():
            among.append(f"{x}.as_strided(({rows}, {columns}), {strides}, {start})")
    if is_integral(t):
        among.append(f"{x}.view({d.choice(('i8', 'i16', 'i32', 'i64', 'u8'))})")
    return d.choice(among)


@statement(7)
def view(d):
    x = d.some()
    return f"{d.new()} = {_view(d, d.of(x), x)}"


@statement(2)
def write_through_a_view(d):
    x = d.some(lambda t: t.dim())
    t = d.of(x)
    change = d.choice(
        (
            f".mul_({d.number(t)})",
            f".add_({d.number(t)})",
            f".fill_({d.number(t)})",
            ".zero_()",
            ".neg_()",
            f".copy_({d.partner(x)})",
        )
    )
    return f"{_view(d, t, x)}{change}"


@statement(1.5)
def move(d):
    x = d.some()
    t = d.of(x)
    dim, dims = d.dim(t), d.dims(t)
    shifts = [d.choice((1, -1, 2)) for _ in dims]
    repeats = [d.choice((1, 2)) for _ in range(t.dim() + d.choice((0, 0, 1)))]
    pads = [d.choice((0, 1, 2)) for _ in range(2 * d.rng.randint(1, max(1, t.dim())))]
    among = (
        f"{x}.clone()",
        f"{x}.contiguous()",
        f"torch.flip({x}, {dims})",
        f"torch.roll({x}, {shifts}, {dims})",
        f"{x}.repeat({repeats})",
        f"torch.tile({x}, {repeats})",
        f"{x}.repeat_interleave({d.choice((1, 2))}, {dim})",
        f"torch.tril({x}, {d.choice((-1, 0, 1))})",
        f"torch.triu({x}, {d.choice((-1, 0, 1))})",
        f"torch.diag_embed({x})",
        f"torch.rot90({x}, 1, (0, -1))",
        f"F.pad({x}, {pads}, value={d.choice((0, 1.5))})",
        f"torch.pixel_shuffle({x}, 2)",
        f"{x}.reshape({list(t.shape)[::-1]})",
        f"torch.broadcast_to({x}, (2, *{x}.shape)).clone()",
    )
    return f"{d.new()} = {d.choice(among)}"


@statement(2)
def join(d):
    x = d.some(lambda t: t.dim())
    t = d.of(x)
    dim = d.dim(t)
    parts = [x]
    for _ in range(d.rng.randint(1, 3)):
        if t.dim() and d.chance(0.4):
            shape = list(t.shape)
            shape[dim] = d.choice(d.sizes)
            parts.append(d.fresh(shape, NAMES[t.dtype] if d.chance(0.7) else None))
        else:
            parts.append(d.same_shape(t) if d.chance(0.7) else x)
    d.rng.shuffle(parts)
    listed = ", ".join(parts)
    how = d.choice(("cat", "cat", "stack", "concat", "hstack", "vstack"))
    ending = "" if how in ("hstack", "vstack") else f", {dim}"
    return f"{d.new()} = torch.{how}([{listed}]{ending})"


@statement(3)
def cast(d):
    x = d.some()
    t = d.of(x)
    dtype = d.dtype()
    if t.is_floating_point() and dtype[0] in "iu" and t.numel():
        low, high = float(t.data.min()), float(t.data.max())
        fits = (0 if dtype == "u8" else -127) <= low and high <= 127
        # Halfway between two integers nothing hangs on rounding.
        if not fits:
            return None
    # In f64 alone a cast must not be what it is not elsewhere: the tensor itself.
    copy = "" if NAMES[t.dtype] == dtype else ", copy=True"
    return f"{d.new()} = {x}.to({dtype}{copy})"


@statement(2)
def create(d):
    shape = d.shape(3)
    dtype = d.dtype()
    number = "True" if dtype == "b1" else d.choice(("0", "1", "2", "3"))
    x = d.some()
    n = d.choice((3, 5, 8))
    among = (
        f"torch.zeros({shape}, dtype={dtype}, device=device)",
        f"torch.ones({shape}, dtype={dtype}, device=device)",
        f"torch.full({shape}, {number}, dtype={dtype}, device=device)",
        f"torch.arange({n}, dtype={'i64' if dtype == 'b1' else dtype}, device=device)",
        f"torch.arange(10, 0, -{n}, device=device)",
        f"torch.linspace(0, 1, {n}, device=device)",
        f"torch.eye({n}, dtype={dtype}, device=device)",
        f"torch.zeros_like({x})",
        f"torch.ones_like({x}, dtype={dtype})",
        f"torch.full_like({x}, {number})",
        f"{x}.new_zeros({shape})",
        f"{x}.new_tensor([1, 2, 3])",
        f"torch.tensor({number}, dtype={dtype}, device=device)",
        f"torch.tril_indices({n}, {n}, device=device)",
        f"torch.scalar_tensor({number}, dtype={dtype}, device=device)",
    )
    return f"{d.new()} = {d.choice(among)}"


@statement(0.8)
def change_metadata(d):
    x = d.some()
    t = d.of(x)
    dim = d.dim(t)
    y = d.some()
    among = (
        f"{x}.t_()",
        f"{x}.transpose_({dim}, {d.dim(t)})",
        f"{x}.squeeze_()",
        f"{x}.unsqueeze_({d.choice((0, -1))})",
        f"{x}.detach_()",
        f"{x}.set_({y})",
        f"{d.new()} = {x}",
    )
    # Autograd does not notice such changes, and PyTorch's CPU writes gradients of losses wherever
    # classes say.
    if not is_integral(t):
        among += (f"{x}.data = {d.same_shape(t)}", f"{d.new()} = {x}.data")
    return d.choice(among)

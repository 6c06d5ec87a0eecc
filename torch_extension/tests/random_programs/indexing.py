"""Statements that read and write by indices and masks."""

from .draw import NAMES, statement


def _index(d, t, unique=False):
    """An index of t as text, and whether it names no element twice."""
    parts, length = [], d.choice((1, 2, 3))
    at = d.rng.randrange(t.dim()) if t.dim() else 0
    for dim, size in enumerate(t.shape[: d.rng.randint(at + 1, max(at + 1, t.dim()))]):
        kind = d.rng.random()
        if dim == at or kind < 0.2:
            if kind < 0.15 and size:
                mask = d.fresh((size,), "b1")
                parts.append(mask)
                continue
            some = d.indices(length, size, unique)
            parts.append(some or ":")
        elif kind < 0.5:
            parts.append(":")
        elif kind < 0.7 and size:
            parts.append(str(d.rng.randrange(-size, size)))
        elif kind < 0.85:
            parts.append(f"{d.rng.randint(0, size)}:")
        else:
            parts.append("None, :")
    if d.chance(0.1):
        parts.append("...")
    return ", ".join(parts)


def _mask(d, x):
    """A mask of some leading dimensions of x."""
    t = d.of(x)
    many = d.rng.randint(1, t.dim())
    if many == t.dim() and d.chance(0.4):
        return f"{x} > {d.choice((0, 1, -1))}"
    return d.fresh(t.shape[:many], "b1")


@statement(3)
def read(d):
    x = d.some(lambda t: t.dim())
    t = d.of(x)
    if not t.dim():
        return None
    dim = d.dim(t)
    size = t.shape[dim]
    some = d.indices(d.choice((1, 2, 4)), size)
    if some is None:
        return None
    shape = [min(2, n) for n in t.shape]
    across = d.indices(shape, size) or some
    among = (
        f"{x}[{_index(d, t)}]",
        f"{x}[{_index(d, t)}]",
        f"{x}[{_index(d, t)}]",
        f"{x}[{_mask(d, x)}]",
        f"torch.masked_select({x}, {x} > 0)",
        f"{x}.index_select({dim}, {some})",
        f"{x}.gather({dim}, {across})",
        f"torch.take({x}, {some})",
        f"torch.take_along_dim({x}, {across}, {dim})",
        f"{x}[torch.tensor({d.rng.randrange(size)}, device=device)]",
        f"torch.nonzero({x})",
        f"{x}.nonzero(as_tuple=True)[{dim}]",
        f"{x}.argwhere()",
        f"F.embedding({some}, {x})",
        f"F.one_hot({some}, {size})",
        f"torch.isin({x}, {some})",
        f"torch.searchsorted(torch.arange(3, device=device), {some})",
    )
    return f"{d.new()} = {d.choice(among)}"


@statement(5)
def write(d):
    x = d.some(lambda t: t.dim())
    t = d.of(x)
    if not t.dim():
        return None
    dim = d.dim(t)
    size = t.shape[dim]
    count = d.choice((1, 2, 3))
    once = d.indices(min(count, size), size, unique=True)
    often = d.indices(count, size)
    if once is None or often is None:
        return None
    dtype, n = NAMES[t.dtype], d.number(t)
    part = list(t.shape)
    part[dim] = d.of(once).numel()
    source = d.fresh(part, dtype)
    part[dim] = count
    added = d.fresh(part, dtype)
    shape = [min(2, k) for k in t.shape]
    across = d.indices(shape, size) or often
    values = d.fresh(shape, dtype)
    sliced = f"{x}[{d.rng.randrange(size)}:]"
    index = _index(d, t, unique=True)
    among = (
        f"{x}[{index}] = {n}",
        f"{x}[{_index(d, t)}] = {n}",
        f"{x}[{index}] += {n}",
        f"{x}[{index}] = {x}[{index}] * 2",
        f"{x}[{index}] = {x}[{_index(d, t)}].sum()",
        f"{sliced} = {n}",
        f"{sliced} = {d.fresh(t.shape[1:], dtype)}",
        f"{sliced} = {sliced}.flip(0)",
        f"{x}[..., 0] = {x}[..., -1]",
        f"{x}[{_mask(d, x)}] = {n}",
        f"{x}.index_fill_({dim}, {often}, {n})",
        f"{x}.index_copy_({dim}, {once}, {source})",
        f"{x}.index_add_({dim}, {often}, {added})",
        f"{x}.index_add_({dim}, {often}, {added}, alpha=2)",
        f"{x}.scatter_({dim}, {across}, {n})",
        f"{x}.scatter_add_({dim}, {across}, {values})",
        f'{x}.scatter_reduce_({dim}, {across}, {values}, "{d.choice(("sum", "amax", "amin"))}")',
        f"{x}.index_put_(({often},), {d.fresh((), dtype)}, accumulate=True)",
        f"{x}.index_put_(({once},), {d.fresh((), dtype)})",
        f"{x}.masked_scatter_({x} > 0, {d.fresh(t.shape, dtype)})",
        f"{x}.put_({once}, {d.fresh(d.of(once).shape, dtype)}, accumulate={d.chance(0.5)})",
        f"{d.new()} = {x}.select_scatter({x}.select({dim}, -1) * 2, {dim}, 0)",
        f"{d.new()} = {x}.index_add({dim}, {often}, {added})",
        f"{d.new()} = torch.scatter({x}, {dim}, {across}, {n})",
        f"{d.new()} = torch.slice_scatter({x}, {source}, {dim}, 0, {d.of(once).numel()})",
    )
    line = d.choice(among)
    return f"with torch.no_grad(): {line}" if t.requires_grad and d.chance(0.5) else line

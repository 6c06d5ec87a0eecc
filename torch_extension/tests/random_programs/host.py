"""Statements between device and host: reads, copies, cuts, dropped tensors, refused calls."""

import torch

from .draw import is_integral, statement


@statement(3)
def read(d):
    x = d.some()
    y = d.partner(x, numbers=False)
    among = (
        f"{x}.tolist()",
        f"{x}.sum().item()",
        f"{x}.reshape(-1)[0].item()" if d.of(x).numel() else f"{x}.numel()",
        f"bool(({x} > 0).any())",
        f"bool(({x} == {x}).all())",
        f"float({x}.amax())" if d.of(x).numel() else f"{x}.dim()",
        f"int(({x} > 1).sum())",
        f"torch.equal({x}, {x})",
        f"torch.equal({x}, {y})",
        f"torch.allclose({x}, {x})",
        f"len({x})",
        f"{x}.is_contiguous()",
        f"{x}.cpu().tolist()",
        f"{x}.dtype == torch.result_type({x}, {y})",
        f"{x}.data_ptr() == {x}.view_as({x}).data_ptr()",
        f"torch.is_nonzero({x})",
        f"{x}._is_view()",
    )
    return f"{d.new('r')} = {d.choice(among)}"


@statement(1)
def use_what_was_read(d):
    numbers = [n for n, v in d.names.items() if n[0] == "r" and n[1:].isdigit()]
    numbers = [n for n in numbers if type(d.names[n]) in (int, float, bool)]
    if not numbers:
        return None
    x, r = d.some(), d.choice(numbers)
    among = (f"{x} * {r}", f"{x} + {r}", f"torch.clamp({x}, max={r})", f"{x} > {r}")
    return f"{d.new()} = {d.choice(among)}"


@statement(1.5)
def copy_to_host(d):
    x = d.some()
    among = (
        f'{x}.detach().to("cpu", copy=True)',
        f"torch.tensor({x}.tolist())",
        f'torch.from_numpy({x}.detach().to("cpu", copy=True).numpy()) * 1',
        f'{x}.to(f64).to("cpu", copy=True)',
    )
    return f"{d.new('h')} = {d.choice(among)}"


@statement(1.5)
def copy_while_the_program_goes_on(d):
    return f"{d.new('r')} = Copy({d.some()})"


@statement(1)
def wait_for_a_copy(d):
    copies = [name for name, value in d.names.items() if hasattr(value, "made")]
    return f"{d.new('h')} = {d.choice(copies)}.made().clone()" if copies else None


@statement(2)
def use_host(d):
    h = d.where(letter="h")
    if not h:
        return None
    h = d.choice(h)
    t = d.of(h)
    x = d.tensor(lambda u: u.shape == t.shape)
    if x and d.chance(0.4):
        into = x if is_integral(d.of(x)) else f"{x}.data"
        return d.choice((f"{x}.copy_({h})", f"{h}.copy_({x})", f"{into}.copy_({h})"))
    if d.chance(0.3):
        return d.choice((f"{h}.add_(1)", f"{h}.zero_()"))
    if t.dtype == torch.int64 and d.chance(0.5):
        y = d.tensor(lambda u: u.dim() and t.numel() and t.min() >= 0 and t.max() < u.shape[0])
        if y:
            return f"{d.new()} = {y}[{h}]"
    if t.dim() == 0 and d.chance(0.6):
        return f"{d.new()} = {d.some()} * {h}"
    return f"{d.new()} = {h}.to(device, copy=True)"


@statement(3)
def cut(d):
    return d.choice(("mark_step()", "mark_step()", "sync()"))


@statement(1.5)
def drop(d):
    """Deletes a variable that this part made."""
    made = {line.split(" = ")[0] for line in d.lines}
    names = [name for name in d.where() if name in made]
    return f"del {d.choice(names)}" if len(names) > 2 else None


@statement(0.7)
def refused(d):
    """Most of these raise at once."""
    x, y = d.some(), d.some()
    t = d.of(x)
    among = (
        f"{d.new()} = {x} + {y}",
        f"{d.new()} = {x} @ {y}",
        f"{d.new()} = torch.cat([{x}, {y}])",
        f"{x}.add_({y})",
        f"{x}.copy_({y})",
        f"{d.new()} = {x}.view({t.numel() + 1})",
        f"{d.new()} = {x}.sum({t.dim() + 1})",
        f"{d.new()} = {x}.transpose(0, {t.dim() + 1})",
        f"{d.new()} = {x}[{t.shape[0] + 1 if t.dim() else 0}]",
        f"{x}[{t.shape[0] + 1 if t.dim() else 0}] = 1",
        f"{d.new()} = {x}.reshape(7, 11)",
        f"{x} += 1.5" if is_integral(t) else f"{x} &= 1",
        f"{d.new()} = F.softmax({x}, 9)",
        f"{d.new()} = F.layer_norm({x}, (99,))",
        f"{d.new()} = F.cross_entropy({x}, {y})",
        f"{d.new()} = torch.stack([{x}, {y}])",
        f"{d.new()} = {x}.expand(*[9] * {t.dim() + 1})",
        f"{d.new()} = {x}.item()",
        f"{x}.backward()",
        f"{d.new()} = torch.where({x}, {x}, {y})",
        f"{d.new()} = F.conv2d({x}, {y})",
        f"{x}.index_add_(0, {y}, {x})",
        f"{d.new()} = {x}.gather(0, {y})",
        f"torch.add({x}, {x}, out={y})" if t.shape == d.of(y).shape else f"{x}.squeeze_(9)",
        f"{d.new()} = bool({x})",
        f"{x}.requires_grad_()",
    )
    return d.choice(among)

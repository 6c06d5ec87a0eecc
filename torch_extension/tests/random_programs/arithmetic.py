"""Statements that compute: by elements, over dimensions, products; also in place and into out=."""

import torch

from .draw import NAMES, is_integral, statement

UNARY = (
    "neg abs exp log sqrt rsqrt sin cos tanh sigmoid relu floor ceil round trunc sign square "
    "reciprocal erf expm1 log1p isnan isfinite isinf logical_not bitwise_not frac positive asin "
    "atan log2 exp2 sgn signbit erfc nan_to_num sinh deg2rad isneginf logit"
).split()
BINARY = (
    "add sub mul div maximum minimum fmod remainder atan2 eq ne lt gt le ge logical_and "
    "logical_or logical_xor pow true_divide floor_divide hypot fmax fmin copysign float_power"
).split()
WHOLE = "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift gcd".split()
ACTIVATIONS = (
    "F.leaky_relu({x}, 0.2)",
    "F.elu({x})",
    "F.gelu({x})",
    'F.gelu({x}, approximate="tanh")',
    "F.silu({x})",
    "F.softplus({x})",
    "F.hardtanh({x})",
    "F.hardswish({x})",
    "F.mish({x})",
    "F.logsigmoid({x})",
    "F.relu6({x})",
    "F.threshold({x}, 0.5, 7)",
    "torch.clamp({x}, {a}, {b})",
    "torch.clamp({x}, min={a})",
    "torch.clamp_max({x}, {b})",
    "torch.nan_to_num({x}, 1.0, 2.0, 3.0)",
    "torch.round({x}, decimals=1)",
    "torch.where({x} > {a}, {x}, {b})",
    "torch.where({x} > {a}, {b}, {x})",
    "{x} ** {p}",
    "{a} - {x}",
    "{b} / {x}",
    "{x} // {p}",
    "{x} % {p}",
    "-{x}",
    "~({x} > {a})",
    "({x} > {a}) & ({x} < {b})",
    "{x} * ({x} > {a})",
    "2 ** {x}",
    "torch.heaviside({x}, {x})",
)


@statement(5)
def unary(d):
    x = d.some()
    return f"{d.new()} = torch.{d.choice(UNARY)}({x})"


@statement(3)
def function_with_numbers(d):
    x = d.some()
    t = d.of(x)
    a, b = d.choice((-1, 0, -0.5, 1)), d.choice((2, 1, 1.5, 3))
    text = d.choice(ACTIVATIONS).format(x=x, a=a, b=b, p=d.choice((2, 3, 0.5, 1)))
    if "//" in text and t.is_floating_point() and d.chance(0.5):
        return None
    return f"{d.new()} = {text}"


@statement(7)
def binary(d):
    x = d.some()
    t = d.of(x)
    whole = is_integral(t) and d.chance(0.25)
    name = d.choice(WHOLE if whole else BINARY)
    y = d.partner(x, numbers=name not in ("hypot", "maximum", "minimum", "fmax", "fmin", "atan2"))
    extra = ""
    if name in ("add", "sub") and d.chance(0.3):
        extra = f", alpha={d.choice((2, -1, 3))}"
    if name == "div" and d.chance(0.4):
        extra = f', rounding_mode="{d.choice(("floor", "trunc"))}"'
    return f"{d.new()} = torch.{name}({x}, {y}{extra})"


@statement(3)
def operator(d):
    x = d.some()
    y = d.partner(x)
    sign = d.choice(("+", "-", "*", "/", "<", ">", "==", "!=", "&", "|", "^", "<=", ">="))
    if d.chance(0.2):
        x, y = y, x
    return f"{d.new()} = {x} {sign} {y}"


@statement(2)
def ternary(d):
    x = d.some()
    y, z = d.partner(x, numbers=False), d.partner(x, numbers=False)
    c = d.partner(x, fits=lambda t: t.dtype == torch.bool, numbers=False)
    among = (
        f"torch.where({c}, {x}, {y})",
        f"torch.where({c} != 0, {x}, {y})",
        f"torch.where({c} != 0, {x}, {d.number(d.of(x))})",
        f"torch.lerp({x}, {y}, 0.3)",
        f"torch.lerp({x}, {y}, {z})",
        f"torch.addcmul({x}, {y}, {z}, value={d.choice((1, 2, -1))})",
        f"torch.addcdiv({x}, {y}, {z}, value=0.5)",
        f"{x}.masked_fill({c} != 0, {d.number(d.of(x))})",
        f"torch.clamp({x}, {y}, {z})",
    )
    return f"{d.new()} = {d.choice(among)}"


@statement(7)
def in_place(d):
    x = d.some()
    t = d.of(x)
    y = d.partner(x)
    z = d.partner(x, numbers=False)
    n = d.number(t)
    among = [
        f"{x}.add_({y})",
        f"{x}.sub_({y}, alpha=2)",
        f"{x}.mul_({y})",
        f"{x}.div_({y})",
        f"{x} += {y}",
        f"{x} *= {y}",
        f"{x} -= {y}",
        f"{x}.{d.choice(UNARY[:21])}_()",
        f"{x}.zero_()",
        f"{x}.fill_({n})",
        f"{x}.copy_({z})",
        f"{x}.clamp_(-1, 2)",
        f"{x}.masked_fill_({z} != 0, {n})",
        f"{x}.addcmul_({z}, {z})",
        f"{x}.lerp_({z}, 0.25)",
        f"{x}.{d.choice(('eq', 'lt', 'ge', 'logical_and', 'pow', 'remainder', 'fmod'))}_({y})",
        f"{x}.cumsum_({d.dim(t)})",
        f"{x}.tril_()",
        f"{x}.fill_diagonal_({n})",
        f"torch._foreach_mul_([{x}, {z}], {n})",
        f"torch._foreach_add_([{x}], [{z}], alpha=2)",
        f"F.relu({x}, inplace=True)",
    ]
    line = d.choice(among)
    return f"with torch.no_grad(): {line}" if d.chance(0.3) else line


@statement(2.5)
def out(d):
    x = d.some()
    t = d.of(x)
    y = d.partner(x, numbers=False)
    dim = d.dim(t)
    among = (
        f"torch.add({x}, {y}",
        f"torch.mul({x}, {y}",
        f"torch.sub({x}, {y}, alpha=2",
        f"torch.div({x}, {y}",
        f"torch.exp({x}",
        f"torch.neg({x}",
        f"torch.eq({x}, {y}",
        f"torch.sum({x}, {dim}",
        f"torch.mean({x}, {dim}, keepdim=True",
        f"torch.cumsum({x}, {dim}",
        f"torch.cat([{x}, {x}], {dim}",
        f"torch.where({x} > 0, {x}, {y}",
        f"torch.matmul({x}, {x}",
        f"torch.softmax({x}, {dim}",
        f"torch.clamp({x}, -1, 1",
        f"torch.sigmoid({x}",
        f"torch.amax({x}, {dim}",
        f"torch.maximum({x}, {y}",
        f"torch.stack([{x}, {y}], 0",
        f"torch.index_select({x}, {dim}, torch.tensor([0], device=device)",
        "torch.arange(0, 4",
        "torch.linspace(0, 1, 5",
    )
    call = d.choice(among)
    try:
        result = eval(call + ")", d.names)
    except Exception:
        return None
    if d.chance(0.2):
        target = d.some()
        if d.of(target).requires_grad and d.of(target).numel() != result.numel():
            return None  # fused optimizers would go over elements that their state does not have
    else:
        target = d.tensor(lambda u: u.shape == result.shape)
        if not target or d.chance(0.3):
            dtype = NAMES[result.dtype] if d.chance(0.7) else d.dtype()
            target = d.fresh(result.shape, dtype)
        if d.chance(0.2) and result.dim() > 1:
            d.say(f"{target} = torch.zeros({tuple(result.mT.shape)}, device=device).mT")
    storages = {d.of(name).untyped_storage()._cdata for name in (x, y)}
    if target != x and d.of(target).untyped_storage()._cdata in storages:
        return None
    if target == x and call.split("(")[0][6:] not in (*UNARY, *BINARY, "clamp"):
        return None
    return f"{call}, out={target})"


REDUCTIONS = "sum mean prod amax amin any all std var logsumexp count_nonzero norm".split()
ALONG = "cumsum cumprod argmax argmin logcumsumexp".split()
PAIRS = "max min cummax cummin sort".split()


@statement(6)
def reduction(d):
    x = d.some()
    t = d.of(x)
    dim, dims = d.dim(t), d.dims(t)
    name = d.choice(REDUCTIONS)
    keep = d.choice(("", ", keepdim=True"))
    at = d.choice((dim, dims, dims)) if name not in ("prod",) else dim
    dtype = f", dtype={d.choice(('f32', 'f64', 'i64', 'bf16'))}" if d.chance(0.15) else ""
    if name not in ("sum", "mean", "prod"):
        dtype = ""
    if dtype == ", dtype=i64" and t.is_floating_point():
        dtype = ""
    correction = f", correction={d.choice((0, 1, 2))}" if name in ("std", "var") else ""
    if name == "norm":
        return f"{d.new()} = torch.linalg.vector_norm({x}, {d.choice((1, 2, 0, 3))}, {at}{keep})"
    if name == "count_nonzero":
        return f"{d.new()} = torch.count_nonzero({x}, {at})"
    among = (
        f"{x}.{name}()" if name != "logsumexp" else f"{x}.logsumexp({dim})",
        f"torch.{name}({x}, dim={at}{correction}{keep}{dtype})",
        f"torch.{name}({x}, dim={at}{correction}{keep}{dtype})",
        f"torch.{d.choice(ALONG)}({x}, {dim})",
        f"torch.{d.choice(PAIRS)}({x}, {dim}).values",
        f"torch.sort({x}, {dim}, descending=True, stable=True).indices",
        f"torch.argsort({x}, {dim}, stable=True)",
        f"torch.{d.choice(('argmax', 'argmin'))}({x})",
        f"torch.topk({x}, 1, {dim}).values",
        f"torch.median({x})",
        f"torch.nanmedian({x})",
        f"torch.{d.choice(('max', 'min'))}({x}, {dim}).indices",
        f"torch.var_mean({x}, dim={at})[0]",
        f"torch.aminmax({x}, dim={dim}).max",
        f"torch.diff({x}, dim={dim})",
        f"torch.trace({x})",
        f"torch.nansum({x}, {dim})",
        f"torch.unique({x})",
        f"torch.bincount({x}.clamp(0, 5).reshape(-1))",
    )
    return f"{d.new()} = {d.choice(among)}"


@statement(4)
def product(d):
    x = d.tensor(lambda t: t.dim() in (1, 2, 3) and t.dtype != torch.bool)
    x = x or d.fresh((d.choice(d.sizes), d.choice(d.sizes)))
    t = d.of(x)
    inner = t.shape[-1] if t.dim() else 1
    batch = tuple(t.shape[:-2]) if d.chance(0.7) else ()
    dtype = NAMES[t.dtype]
    columns = d.choice(d.sizes)
    if d.chance(0.15):
        y = d.fresh((inner,), dtype, "normal")
    elif d.chance(0.3):
        y = f"{d.fresh((*batch, columns, inner), dtype)}.mT"
    else:
        y = d.fresh((*batch, inner, columns), dtype)
    if t.dim() == 2 and d.chance(0.5):
        flat = d.fresh((inner, columns), dtype)
        bias = d.fresh(d.choice(((columns,), (t.shape[0], columns), (1, columns))), dtype)
        among = (
            f"torch.addmm({bias}, {x}, {flat}, beta={d.choice((1, 0, 2))}, alpha=2)",
            f"F.linear({x}, {flat}.t(), {bias}.reshape(-1)[:{columns}])",
            f'torch.einsum("ij,jk->ki", {x}, {flat})',
            f'torch.einsum("ij,ik->jk", {x}, {x})',
            f"{x}.t() @ {x}",
            f"{x} @ {flat} + {bias}",
            f"F.relu({x} @ {flat})",
            f"torch.mv({x}, {flat}[:, 0])",
            f"torch.outer({x}[0], {x}[-1])",
            f"torch.mm({x}, {flat})",
        )
        return f"{d.new()} = {d.choice(among)}"
    if t.dim() == 3 and d.chance(0.5):
        y = d.fresh((t.shape[0], inner, columns), dtype)
        z = d.fresh((t.shape[0], t.shape[1], columns), dtype)
        return f"{d.new()} = " + d.choice(
            (f"torch.bmm({x}, {y})", f"torch.baddbmm({z}, {x}, {y}, alpha=0.5)")
        )
    return f"{d.new()} = {x} @ {y}"

"""Statements of training: layers, losses, gradients, updates."""

from .draw import NAMES, statement
from .run import gradient, is_parameter


@statement(4)
def layer(d):
    # Of one or two numbers a normalisation leaves signs, and its gradient is rounding alone.
    x = d.floating(lambda t: t.dim() and t.shape[-1] > 2)
    if not x:
        return None
    t = d.of(x)
    dim, last, dtype = d.dim(t), t.shape[-1], NAMES[t.dtype]
    w, b = d.fresh((last,), dtype, "normal"), d.fresh((last,), dtype, "normal")
    channels = t.shape[1] if t.dim() > 1 else 1
    scale = d.fresh((channels,), dtype, "positive")
    among = [
        f"F.softmax({x}, {dim})",
        f"F.log_softmax({x}, {dim})",
        f"F.softmin({x}, {dim})",
        f"F.softmax({x}, {dim}, dtype=f32)",
        f"F.layer_norm({x}, ({last},), {w}, {b})",
        f"F.layer_norm({x}, ({last},))",
        f"F.layer_norm({x}, {tuple(t.shape[-2:])})",
        f"F.rms_norm({x}, ({last},), {w})",
        f"F.glu({x}, {dim})",
        f"F.group_norm({x}, {channels})",
        f"F.batch_norm({x}, None, None, {scale}, None, True)",
        f"F.instance_norm({x})",
        f"F.dropout({x}, 0.0)",
        f"F.linear({x}, {d.fresh((3, last), dtype, 'normal')})",
        f"F.max_pool1d({x}, 2)",
        f"F.avg_pool2d({x}, 2, ceil_mode=True)",
        f"F.adaptive_avg_pool1d({x}, 2)",
        f"F.local_response_norm({x}, 2)",
    ]
    if t.itemsize > 2:
        # What they subtract is next to nothing, in halves no more than rounding.
        among += [f"F.normalize({x}, dim={dim})", f"F.cosine_similarity({x}, {x} * 2, {dim})"]
    if t.dim() in (3, 4) and t.numel():
        k = d.choice((1, 2))
        kernel = d.fresh((3, channels, *[k] * (t.dim() - 2)), dtype, "normal")
        among += [f"F.conv{t.dim() - 2}d({x}, {kernel}, stride={k}, padding={k - 1})"] * 2
        finite = bool(t.detach().isfinite().all())
        among += (
            [f"F.scaled_dot_product_attention({x}, {x}, {x}, is_causal={d.chance(0.5)})"]
            * 2
            * finite
        )
        among += [f'F.interpolate({x}, scale_factor=2, mode="nearest")', f"F.max_pool2d({x}, 2)"]
        linear = "linear" if t.dim() == 3 else "bilinear"
        edge = d.choice(("reflect", "replicate"))
        # Of the same size the CPU multiplies what CUDA copies: infinities by 0.
        size = d.choice([n for n in (2, 3, 5) if n not in t.shape[2:]] or [7])
        among += [
            f'F.interpolate({x}, size={size}, mode="{linear}", align_corners={d.chance(0.5)})',
            f'F.pad({x}, (1, {min(last - 1, 1)}), mode="{edge}")',
        ]
        if t.dim() == 4 and finite:
            grid = d.fresh((t.shape[0], 2, 3, 2), dtype, "normal")
            among += [
                f"F.unfold({x}, 2, padding={k}, stride={k})",
                f"F.grid_sample({x}, {grid} / 2, align_corners=False)",
                f"F.pixel_unshuffle(F.pixel_shuffle({x}.repeat(1, 4, 1, 1), 2), 2)",
            ]
    return f"{d.new()} = {d.choice(among)}"


@statement(2)
def loss(d):
    x = d.floating(lambda t: t.dim() and t.numel())
    if not x:
        return None
    t = d.of(x)
    y = d.same_shape(t)
    reduction = d.choice(("mean", "sum", "none"))
    among = [
        f'F.mse_loss({x}, {y}, reduction="{reduction}")',
        f'F.l1_loss({x}, {y}, reduction="{reduction}")',
        f'F.smooth_l1_loss({x}, {y}, reduction="{reduction}", beta=0.5)',
        f'F.huber_loss({x}, {y}, reduction="{reduction}")',
        f'F.binary_cross_entropy_with_logits({x}, {y}, reduction="{reduction}")',
        f'F.kl_div({x}, {y}, reduction="{reduction}")',
    ]
    if t.dim() == 2:
        classes = d.indices(t.shape[0], t.shape[1])
        if classes:
            among += [
                f'F.cross_entropy({x}, {classes}, reduction="{reduction}")',
                f'F.nll_loss({x}, {classes}, reduction="{reduction}")',
                f"F.cross_entropy({x}, {classes}, label_smoothing=0.1)",
                f"F.cross_entropy({x}, {classes}, ignore_index=0)",
            ]
    return f"{d.new()} = {d.choice(among)}"


@statement(2.5)
def leaf(d):
    x = d.floating(lambda t: not t.requires_grad)
    if not x:
        return None
    return f"{x}.requires_grad_()"


def _sources(d):
    """Leaves by one name each: what is given to an optimizer twice is nobody's promise."""
    return list({id(d.of(name)): name for name in d.where(is_parameter)}.values())


@statement(5)
def backward(d):
    x = d.floating(lambda t: t.requires_grad and not is_parameter(t))
    if not x:
        parameters = _sources(d)
        if not parameters:
            return None
        x = d.choice(parameters)
        loss = d.choice((f"{x}.square().sum()", f"({x} * 2).mean()", f"{x}.exp().sum()"))
        return f"{loss}.backward()"
    leaves = ", ".join(d.rng.sample(_sources(d), min(len(_sources(d)), d.rng.randint(1, 2))))
    retain = d.choice(("", "retain_graph=True"))
    loss = d.choice((f"{x}.sum()", f"{x}.mean()", f"({x} * {x}).sum()", f"{x}.reshape(-1)[0]"))
    comma = ", " if retain else ""
    among = [
        f"{loss}.backward({retain})",
        f"{loss}.backward({retain})",
        f"{x}.backward(torch.ones_like({x}){comma}{retain})",
    ]
    if leaves:
        kept = ", materialize_grads=True, allow_unused=True"
        among += [
            f"{d.new()} = torch.autograd.grad({loss}, [{leaves}]{kept}{comma}{retain})[0]",
            f"{d.new()} = torch.autograd.grad({loss}, [{leaves}]{kept}, create_graph=True)[-1]",
        ]
    return d.choice(among)


@statement(6)
def update(d):
    x = d.tensor(lambda t: gradient(t) is not None)
    if not x:
        return None
    g = d.tensor(lambda t: t.shape == d.of(x).shape) or x
    among = (
        f"with torch.no_grad(): {x}.sub_({x}.grad, alpha=0.1)",
        f"with torch.no_grad(): {x} -= 0.5 * {x}.grad",
        f"with torch.no_grad(): {x}.mul_(0.9).add_({x}.grad, alpha=0.1)",
        f"with torch.no_grad(): {x}.addcdiv_({x}.grad, {x}.grad.abs().add(1).sqrt(), value=-0.1)",
        f"with torch.no_grad(): torch._foreach_lerp_([{x}], [{x}.grad], 0.1)",
        f"with torch.no_grad(): {g}.lerp_({x}.grad, 0.1)",
        f"{x}.grad.zero_()",
        f"{x}.grad = None",
        f"{x}.grad.clamp_(-1, 1)",
        f"{d.new()} = {x}.grad",
        f"{d.new()} = torch.nn.utils.clip_grad_norm_([{x}], 1.0).to(device)",
        f"{x}.data.add_({x}.grad)",
    )
    return d.choice(among)


@statement(0.7)
def make_optimizer(d):
    leaves = _sources(d)
    if not leaves:
        return None
    some = ", ".join(d.rng.sample(leaves, min(2, len(leaves))))
    kinds = (
        f"SGD([{some}], lr=0.1, momentum=0.9)",
        f"AdamW([{some}], lr=0.01)",
        f"Adam([{some}], lr=0.01, foreach=False)",
        f"AdamW([{some}], lr=0.01, fused=True)",
        f"RMSprop([{some}], lr=0.01)",
    )
    return f"{d.new('o')} = torch.optim.{d.choice(kinds)}"


@statement(4)
def optimize(d):
    optimizers = [name for name in d.names if name[0] == "o" and name[1:].isdigit()]
    if not optimizers:
        return None
    return f"{d.choice(optimizers)}.{d.choice(('step()', 'step()', 'zero_grad()'))}"

"""Trainings in f16 whose gradients overflow on some ranks, for tests: as every rank sees them."""

import copy
import functools

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
import torchacc
from accelerated import KINDS, MLP, config
from engines import counts_of
from torchacc.config import ComputeConfig


class Residual(nn.Module):
    """Gradients of the second half of its hidden elements are `factor` times as large."""

    def __init__(self, factor):
        super().__init__()
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)
        with torch.no_grad():
            self.up.weight[16:] /= factor
            self.down.weight[:, 16:] *= factor

    def forward(self, x):
        return x + self.down(F.gelu(self.up(x)))


class Uneven(nn.Module):
    """The largest gradients are those of half of the first layer, and go no further."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Residual(1 if at else 64) for at in range(4))
        self.head = nn.Linear(16, 1)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def scaled(*kinds):
    """Steps in f16 whose gradients overflow at first, some of them on a part of the ranks."""
    torchacc.set_recompile_limit(10_000)  # of all of them by the same lines
    return {kind: scaled_steps(KINDS[dist.get_world_size()][kind]) for kind in kinds}


def scaled_steps(options):
    """Losses and scales with those of one process, and whether a rank's own gradients are finite
    and its parameters stay, for each step."""
    size = dist.get_world_size()
    pp, micro = options.get("pp", (1, 1))[:2]
    copies = size // (options.get("tp", 1) * pp)
    torch.manual_seed(0)
    model = Uneven()
    whole = copy.deepcopy(model).to("acc")
    optimizers = [
        torch.optim.AdamW(one.parameters(), lr=1e-3, fused=True) for one in (whole, model)
    ]
    wanted = config(**options, compute=ComputeConfig(fp16=True))
    wanted.dist.tp.plan = MLP
    model, optimizers[1] = torchacc.accelerate(model, config=wanted, optimizer=optimizers[1])
    scalers = [torch.amp.GradScaler("acc", 2.0**16), torchacc.amp.GradScaler(2.0**16)]
    parameters = [one for one in model.parameters() if own(one).numel()]  # of this rank

    def follow(at, clip):
        scalers[at].unscale_(optimizers[at])
        clip(0.3)
        scalers[at].step(optimizers[at])
        scalers[at].update()
        optimizers[at].zero_grad()

    def alone(x):
        # Of the same parts, whose sums overflow when theirs do, and then the mean.
        losses = []
        for part in x.chunk(copies * micro):
            with torch.autocast("acc", torch.float16):
                losses.append(F.mse_loss(whole(part).float(), part[:, :1]))
            scalers[0].scale(losses[-1] / micro).backward()
        for parameter in whole.parameters():
            parameter.grad /= copies
        follow(0, functools.partial(nn.utils.clip_grad_norm_, whole.parameters()))
        return torch.stack(losses).mean()

    def step(x):
        if hasattr(model, "forward_backward"):
            given = {"output_fn": F.mse_loss, "target": x[:, :1], "scaler": scalers[1]}
            loss = model.forward_backward(x, **given)
        else:
            loss = F.mse_loss(model(x), x[:, :1])
            scalers[1].scale(loss).backward()
        finite = [own(parameter.grad).isfinite().all() for parameter in parameters]
        follow(1, model.clip_grad_norm_)
        return loss.detach(), torch.stack(finite).all()

    made = {name: [] for name in ("losses", "scales", "finite", "stays", "counts")}
    for number in range(10):
        x = torch.randn(8, 16, generator=torch.Generator().manual_seed(number)).to("acc")
        expected = alone(x)
        before = [own(parameter).detach().clone() for parameter in parameters]
        part = x.chunk(copies)[dist.get_rank() // (size // copies)]
        (loss, finite), counts = counts_of(step, part)
        stays = [torch.equal(own(p), was) for p, was in zip(parameters, before, strict=True)]
        made["losses"].append([loss.item(), expected.item()])
        made["scales"].append([scalers[1].get_scale(), scalers[0].get_scale()])
        made["finite"].append(finite.item())
        made["stays"].append([all(stays), any(stays)])
        made["counts"].append(counts)
    return made


def own(tensor):
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor

"""Trainings of several ranks that save and restore, for tests: as every rank sees them."""

import os
import random
import resource
import signal
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn as nn
import torchacc
from divided import tokens_of
from engines import MODELS
from engines.models import CONTEXT, loss_of
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torchacc.checkpoint import Checkpointer, CheckpointError, files
from torchacc.config import Config, DistConfig, PPConfig

LAYOUTS = ["ddp", "fsdp", "tp"]


class Net(nn.Module):
    """Rows that two ranks do not share evenly."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(10, 16), nn.Linear(16, 5)
        self.register_buffer("scale", torch.ones(5))

    def forward(self, x):
        return self.down(torch.tanh(self.up(x))) * self.scale


class Training:
    def __init__(self, layout, seed=0):
        torch.manual_seed(seed)
        model = Net().to("acc")
        mesh = None
        if layout != "plain":
            mesh = dist.init_device_mesh("acc", (dist.get_world_size(),))
        if layout == "ddp":
            model = nn.parallel.DistributedDataParallel(model)
        elif layout == "fsdp":
            fully_shard(model.up, mesh=mesh)
            fully_shard(model, mesh=mesh)
        elif layout == "tp":
            plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
            parallelize_module(model, mesh, plan)
        self.model = model
        options = {"foreach": False} if layout == "tp" else {}
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, **options)
        self.state = {"model": self.model, "optimizer": self.optimizer}

    def steps(self, *numbers):
        """Every rank has the whole batch, so that losses are those of one process."""
        losses = []
        for number in numbers:
            generator = torch.Generator().manual_seed(number)
            x = torch.randn(6, 10, generator=generator).to("acc")
            loss = self.model(x).square().mean()
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            losses.append(loss.item())
        return losses

    def values(self):
        """Parameters and the optimizer's state, whole, by name."""
        made = {}
        for name, one in self.model.state_dict().items():
            made[name.removeprefix("module.")] = _whole(one)
        for name, one in self.model.named_parameters():
            for kind, value in self.optimizer.state[one].items():
                made[f"{name.removeprefix('module.')} {kind}"] = _whole(value)
        return made


def _whole(tensor):
    tensor = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    return tensor.detach().cpu().tolist()


def layouts(folder):
    """Saves in each layout, restores what was saved in every one: names of what differs."""
    wrong = []
    for saved in LAYOUTS:
        training = Training(saved)
        training.steps(0, 1)
        with Checkpointer(f"{folder}/{saved}") as checkpointer:
            checkpointer.save(training.state, 2)
            values, losses = training.values(), training.steps(2, 3)
            for number, other in enumerate(LAYOUTS):
                restored = Training(other, seed=1)
                # From memory, from disk, and beside what a step has left.
                if number == 2:
                    checkpointer.wait()
                    restored.steps(9)
                assert checkpointer.restore(restored.state) == 2
                if restored.values() != values:
                    wrong.append(f"{other} from {saved}: state")
                if any(
                    abs(a - b) > 1e-5 for a, b in zip(restored.steps(2, 3), losses, strict=True)
                ):
                    wrong.append(f"{other} from {saved}: losses")
    return wrong, values, losses


def plain(folder, values, losses):
    """Of one rank: what `layouts` of several left."""
    for saved in LAYOUTS:
        training = Training("plain", seed=1)
        with Checkpointer(f"{folder}/{saved}") as checkpointer:
            assert checkpointer.restore(training.state) == 2
        for name, value in training.values().items():
            torch.testing.assert_close(torch.tensor(value), torch.tensor(values[name]))
        made = torch.tensor(training.steps(2, 3))
        torch.testing.assert_close(made, torch.tensor(losses), rtol=1e-5, atol=1e-6)


def own_values(folder):
    """Values and random states of each rank, and what the others say when one cannot save."""
    rank = dist.get_rank()
    torch.manual_seed(rank)
    random.seed(rank)
    shared = torch.full((3,), 4.0)
    with Checkpointer(folder) as checkpointer:
        checkpointer.save({"mine": f"rank {rank}", "shared": shared}, 1)
        expected = [random.random(), torch.rand(1).item(), torch.rand(1, device="acc").item()]
        state = {"mine": "", "shared": torch.zeros(3)}
        assert checkpointer.restore(state) == 1
        drawn = [random.random(), torch.rand(1).item(), torch.rand(1, device="acc").item()]
        errors = []
        for refused in ({"model": lambda: 0} if rank == 1 else {"model": 1}, {"shared": shared}):
            try:
                checkpointer.save(refused, 2)
            except Exception as error:
                errors.append(str(error))
        checkpointer.wait()
    return state["mine"], state["shared"].tolist(), drawn == expected, errors


def restored_values(folder):
    rank = dist.get_rank() if dist.is_initialized() else 0
    torch.manual_seed(100 + rank)
    seeded = torch.rand(1).item()
    torch.manual_seed(100 + rank)
    with Checkpointer(folder) as checkpointer:
        state = {"mine": "", "shared": torch.zeros(3)}
        assert checkpointer.restore(state, step=1) == 1
    return state["mine"], torch.rand(1).item() == seeded


def of_a_group(folder):
    """The last two ranks save, each as one of a group."""
    group = dist.new_group([1, 2])
    if dist.get_rank() == 0:
        return None
    state = {"shared": torch.arange(4.0), "mine": dist.get_rank()}
    with Checkpointer(folder, process_group=group) as checkpointer:
        checkpointer.save(state, 1)
        other = {"shared": torch.zeros(4), "mine": None}
        assert checkpointer.restore(other) == 1
    return other["shared"].tolist(), other["mine"]


def full_disk(folder):
    """The disk is full for one rank."""
    rank, value = dist.get_rank(), torch.ones(1 << 18)
    said = []
    with Checkpointer(folder) as checkpointer:
        for step in (1, 2, 3):
            state = {f"value {one}": value * step for one in range(2)}
            checkpointer.save(state, step)
            try:
                checkpointer.wait()
            except CheckpointError as error:
                said.append(str(error))
            limit = 1 << 16 if step == 1 and rank == 1 else -1
            pid = checkpointer._saver._process.pid
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (limit, -1))
    return said, [saved.step for saved in files.whole(folder)]


def on_hosts(folder, hosts, *names):
    """A rank on each machine of these names, whose snapshots those on others do not see."""
    rank = dist.get_rank()
    os.environ["TORCHACC_SNAPSHOTS"] = f"{hosts}/{names[rank]}"
    Path(hosts, names[rank]).mkdir(parents=True, exist_ok=True)
    training = Training("fsdp")
    checkpointer = Checkpointer(folder, replicas=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        begin = checkpointer.restore(training.state) or 0
    values = training.values() if begin else None
    # What was in memory alone goes to disk.
    checkpointer.wait()
    for step in range(begin, begin + 3):
        training.steps(step)
        # On disk there is the first one only.
        checkpointer.save(training.state, step + 1, persist=step == 0)
        if step == 0:
            checkpointer.wait()
    checkpointer._join()
    # The machine is gone, and with it the saver, which would write what there is.
    os.kill(checkpointer._saver._process.pid, signal.SIGKILL)
    return begin, values, training.values()


def pipeline(folder):
    """Stages, and the whole model in one process."""
    is_alone = not dist.is_initialized()
    torch.manual_seed(0)
    model = MODELS["gpt2"](layers=4)
    if is_alone:
        model.to("acc")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    if not is_alone:
        config = Config(dist=DistConfig(pp=PPConfig(2, 2)))
        model, optimizer = torchacc.accelerate(model, optimizer=optimizer, config=config)
    tokens, targets = tokens_of(CONTEXT)

    def steps(count):
        losses = []
        for _ in range(count):
            if is_alone:
                loss = loss_of(model(tokens), targets)
                loss.backward()
            else:
                loss = model.forward_backward(tokens, output_fn=loss_of, target=targets)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        return losses

    state = {"model": model, "optimizer": optimizer}
    with Checkpointer(folder) as checkpointer:
        if is_alone:
            assert checkpointer.restore(state) == 2
            return steps(2)
        steps(2)
        checkpointer.save(state, 2)
        expected = steps(2)
        assert checkpointer.restore(state) == 2
        return expected, steps(2)

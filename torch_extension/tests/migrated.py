"""What programs of Alibaba's TorchAcc do, for tests: as every rank sees it."""

import copy
import shutil
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torchacc
from divided import CONTEXT, MODELS, loss_of, tokens_of
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict import (
    get_model_state_dict,
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)
from torchacc.config import Config, DistConfig, FSDPConfig, MemoryConfig


def sharded(config=None):
    """A model in parts and an optimizer of two groups, after a step."""
    torch.manual_seed(0)
    model = MODELS["llama"]()
    model = torchacc.accelerate(
        model, config=config or Config(dist=DistConfig(fsdp=FSDPConfig(dist.get_world_size())))
    )
    norms = [p for name, p in model.named_parameters() if "norm" in name]
    others = [p for name, p in model.named_parameters() if "norm" not in name]
    groups = [{"params": others}, {"params": norms, "weight_decay": 0.0, "lr": 1e-2}]
    return model, torch.optim.AdamW(groups, lr=1e-3)


def step(model, optimizer):
    tokens, targets = tokens_of(CONTEXT)
    loss = loss_of(model(tokens), targets)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


def layers_again():
    """How often each layer computes in a step, if those that are sharded compute again."""
    runs = []
    config = Config(
        memory=MemoryConfig(gc=True, gc_cls={"LlamaLayer"}),
        dist=DistConfig(fsdp=FSDPConfig(dist.get_world_size(), wrap_layer_cls={"LlamaLayer"})),
    )
    model, optimizer = sharded(config)
    for layer in model.layers:
        layer.up.register_forward_pre_hook(lambda *_, layer=layer: runs.append(id(layer)))
    step(model, optimizer)
    return sorted(runs.count(id(layer)) for layer in model.layers)


def optimizer_states():
    """A state of two groups goes on in another model: the losses of both."""
    model, optimizer = sharded()
    step(model, optimizer)
    state = copy.deepcopy(get_optimizer_state_dict(model, optimizer))
    weights = copy.deepcopy(get_model_state_dict(model))
    other, other_optimizer = sharded()
    other.load_state_dict(weights)
    set_optimizer_state_dict(other, other_optimizer, state)
    rates = [group["lr"] for group in other_optimizer.param_groups]
    losses = [[step(model, optimizer), step(other, other_optimizer)] for _ in range(3)]
    return {"losses": losses, "rates": rates}


def incomplete_checkpoint():
    """What loading says if the second rank's file is not there, on each rank."""
    model, _ = sharded()
    shared = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(shared, device=torch.device("acc"))
    folder = Path(shared[0])
    state = {"model": get_model_state_dict(model)}
    dcp.save(state, checkpoint_id=folder)
    dcp.load(state, checkpoint_id=folder)
    dist.barrier()
    if dist.get_rank() == 0:
        for file in folder.glob("__1_*"):
            file.unlink()
    dist.barrier()
    try:
        dcp.load(state, checkpoint_id=folder)
        said = ""
    except CheckpointException as error:
        said = str(error)
    dist.barrier()
    if dist.get_rank() == 0:
        shutil.rmtree(folder)
    return said

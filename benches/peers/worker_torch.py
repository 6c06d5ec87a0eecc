"""The works and kernels on PyTorch: `worker_torch.py PEER WORK f32|bf16`, where the peer is acc,
openxla (acc with that engine), eager, compile, max-autotune or xla."""

import sys
from functools import cache, partial

import kernels
import module
import torch
import works
from models import MODELS
from torch.utils.flop_counter import FlopCounterMode
from worker import serve

TYPES = {"q": torch.int64, "f": torch.float32}
ON_ACC = ("acc", "openxla")
# How peers compile a function.
COMPILERS = {"compile": torch.compile, "max-autotune": partial(torch.compile, mode="max-autotune")}


def training(counted, peer, work, dtype):
    """What `serve` wants for a training step of `work`: forward, backward, AdamW; `counted`: what
    it computes (`teraflops`)."""
    torch.manual_seed(0)
    device, autocast_device, finish = place(peer)
    model = new_model(work, device)
    # torch_xla has no fused kernel; foreach is what its users run.
    options = works.TRAINING | {"fused": peer != "xla"}
    optimizer = torch.optim.AdamW(model.parameters(), **options)
    forward = COMPILERS[peer](model) if peer in COMPILERS else model

    def batch(number):
        drawn = works.batch(work, number)
        tensors = as_tensors(drawn)
        if kernels.ON_GPU:
            # Larger than a processor's; a program that trains would upload them during a step.
            tensors = [tensor.to(device) for tensor in tensors]
        return tensors, works.checksum(drawn)

    def step(tensors):
        tensors = [tensor.to(device) for tensor in tensors]
        with torch.autocast(autocast_device, dtype=torch.bfloat16, enabled=dtype == "bf16"):
            loss = forward(*tensors)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item

    made = [batch(number) for number in range(works.WORKS[work].get("batches", 0))]

    def next_batch(number):
        return made[number % len(made)] if made else batch(number)

    return works.amount(work) | counted, next_batch, step, finish


def new_model(work, device):
    """The model of `work`, with the same weights for all peers."""
    if not kernels.ON_GPU:
        return MODELS[work](**works.WORKS[work]["model"]).to(device)
    # Drawn by PyTorch on the GPU: a CPU takes a minute for the weights of the largest.
    with torch.device("cuda"):
        model = MODELS[work](**works.WORKS[work]["model"])
    if device == "acc":
        model = model.cpu().to(device)
        torch.cuda.empty_cache()
    return model


def as_tensors(drawn):
    """Of what `works.batch` draws."""
    return [torch.frombuffer(data, dtype=TYPES[data.typecode]).view(sizes) for data, sizes in drawn]


def teraflops(work):
    """{"teraflops"} that a step's products, convolutions and attention need, forward and backward,
    as PyTorch counts them on tensors without memory."""
    with torch.device("meta"):
        model = MODELS[work](**works.WORKS[work]["model"])
    drawn = as_tensors(works.batch(work, 0))
    tensors = [torch.empty_like(tensor, device="meta") for tensor in drawn]
    with FlopCounterMode(display=False) as counter:
        model(*tensors).backward()
    return {"teraflops": counter.get_total_flops() / 1e12}


def kernel(peer, name, dtype):
    """What `serve` wants for one kernel, forward and backward, always on the same data."""
    torch.manual_seed(0)
    device, _, finish = place(peer)
    kind = {"f32": torch.float32, "bf16": torch.bfloat16}[dtype]
    run, amount = getattr(kernels, name)(device, kind, COMPILERS.get(peer))

    def step(_):
        results = run()
        return lambda: sum(result.float().abs().mean().item() for result in results)

    return amount, lambda number: (None, 0), step, finish


def module_step(peer, _work, _dtype):
    """What `serve` wants for the step of examples/stablehlo/gpt.py, as JAX wrote it."""
    import torchacc
    from safetensors.torch import load_file

    # In the first step, as JAX's tracing is.
    load = cache(torchacc.stablehlo.load)
    given = load_file(module.FOLDER / "inputs.safetensors")
    *state, text = (given[str(number)].to("acc") for number in range(len(given)))

    def step(_):
        loss, *state[:] = load(module.FOLDER / "step.mlir")(*state, text)
        return loss.item

    return {}, lambda number: (None, 0), step, place(peer)[2]


def place(peer):
    """(device, its name for autocast, what waits for the step to end)."""
    if peer in ON_ACC:
        import torchacc

        return "acc", "acc", torchacc.sync
    if peer == "xla":
        import torch_xla

        return torch_xla.device(), "xla", lambda: torch_xla.sync(wait=True)
    if kernels.ON_GPU:
        return "cuda", "cuda", torch.cuda.synchronize
    return "cpu", "cpu", lambda: None


def versions(peer):
    found = {"torch": torch.__version__}
    if kernels.ON_GPU:
        found["gpu"] = torch.cuda.get_device_name()
    if peer == "xla":
        import torch_xla

        found["torch_xla"] = torch_xla.__version__
    return found


if __name__ == "__main__":
    peer, work, dtype = sys.argv[1:]
    make = module_step if work == "module" else kernel
    if work in MODELS:
        # Before the process's memory is looked at: PyTorch's shape functions take some.
        make = partial(training, teraflops(work))
    memory = (lambda: torch.acc if peer in ON_ACC else torch.cuda) if kernels.ON_GPU else None
    serve(versions(peer), lambda: make(peer, work, dtype), memory)

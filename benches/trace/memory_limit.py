"""What a memory limit costs: training steps in less and less memory.

`python benches/trace/memory_limit.py [MODEL...]` prints for each of gpt, llama, bert and vit the
memory of a step besides its inputs, what an eager step keeps (what is saved for the backward pass
and gradients), and, within parts of the former, the memory and the time of a step.
"""

import sys
import time
from pathlib import Path

import torch
import torchacc

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "peers"))
import works  # noqa: E402
from models import MODELS  # noqa: E402

DTYPES = {"f": torch.float32, "q": torch.int64}

PARTS = (0.8, 0.6, 0.5, 0.4, 0.3)
STEPS, ROUNDS = 3, 3


def batch(name):
    """What the model takes: texts or images, and targets."""
    drawn = works.batch(name, 0)
    return [
        torch.frombuffer(numbers, dtype=DTYPES[numbers.typecode]).view(sizes)
        for numbers, sizes in drawn
    ]


def eager_bytes(model, tensors):
    """What eager keeps for the backward pass, each storage once, and gradients."""
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        model(*tensors)
    saved = sum(storage.nbytes() for storage in kept.values())
    return saved + sum(p.nbytes for p in model.parameters())


def seconds_of(step):
    """Of all processors together, which depends least on what else the machine does."""
    start = time.process_time()
    step().item()
    return time.process_time() - start


def measured(step):
    """Bytes that a step takes besides its inputs, its arena as a multiple of what no arena can be
    lower than, and seconds of the first step, which compiles."""
    first = seconds_of(step)
    step().item()
    torch.acc.empty_cache()
    torch.acc.reset_peak_memory_stats()
    before = torch.acc.memory_allocated()
    step().item()
    torchacc.sync()
    taken = torch.acc.max_memory_allocated() - before
    # "arena 123 (bound 120)"
    program = torchacc.last_program().splitlines()
    words = next(line for line in program if line.startswith("arena")).split()
    ratio = int(words[1]) / int(words[3].rstrip(")"))
    return taken, ratio, first


def fastest(step, limit):
    """Seconds of a step within the limit, and without one: in turns, since a machine is not always
    as fast."""
    seconds = {limit: [], None: []}
    for _ in range(ROUNDS):
        for one, found in seconds.items():
            torchacc.set_memory_limit(one)
            step().item()
            found += [seconds_of(step) for _ in range(STEPS)]
    return min(seconds[limit]), min(seconds[None])


def main(names):
    torchacc.set_backend("cpu")
    for name in names:
        torch.manual_seed(0)
        model, tensors = MODELS[name](**works.WORKS[name]["model"]), batch(name)
        eager = eager_bytes(model, tensors)
        model, tensors = model.to("acc"), [t.to("acc") for t in tensors]
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)

        def step(model=model, tensors=tensors, optimizer=optimizer):
            loss = model(*tensors)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss.detach()

        step().item()
        whole, ratio, first = measured(step)
        print(
            f"{name}: {whole / 2**20:.0f} MiB (eager keeps {eager / 2**20:.0f}), arena {ratio:.3f}"
            f" of the bound, first step {first:.2f} s",
            flush=True,
        )
        for part in PARTS:
            limit = int(whole * part)
            torchacc.set_memory_limit(limit)
            try:
                taken, ratio, first = measured(step)
            except torch.OutOfMemoryError as error:
                print(f"  within {part}: {str(error).splitlines()[0]}", flush=True)
                break
            last = torchacc.explanation()["compiles"][-1]["recomputed"]
            limited, seconds = fastest(step, limit)
            print(
                f"  within {part}: {taken / whole:.3f} of it, arena {ratio:.3f} of the bound,"
                f" {limited:.2f} s, {limited / seconds:.2f} times as long (estimated"
                f" {last['time']:.2f}), first step {first:.2f} s",
                flush=True,
            )
        torchacc.set_memory_limit(None)


if __name__ == "__main__":
    main(sys.argv[1:] or ["gpt", "llama", "bert", "vit"])

"""What a memory limit costs: training steps in less and less memory.

`python benches/trace/memory_limit.py [MODEL...]` prints for each of gpt, llama, bert and vit the
most that a step takes besides its inputs (parameters, optimizer state, the batch), what an eager
step takes, and, within parts of the latter, the memory and the time of a step. With `--held`
gradients are dropped between the forward and the backward pass of the next step.
"""

import os
import sys
import time
from pathlib import Path

# Each limit is to compile.
os.environ["TORCHACC_CACHE_DIR"] = "off"

import torch  # noqa: E402
import torchacc  # noqa: E402
from torch.distributed._tools.mem_tracker import MemTracker  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "peers"))
import works  # noqa: E402
from models import MODELS  # noqa: E402

DTYPES = {"f": torch.float32, "q": torch.int64}

PARTS = (0.6, 0.5, 0.4, 0.3)
STEPS, ROUNDS = 3, 3


def batch(name):
    """What the model takes: texts or images, and targets."""
    drawn = works.batch(name, 0)
    return [
        torch.frombuffer(numbers, dtype=DTYPES[numbers.typecode]).view(sizes)
        for numbers, sizes in drawn
    ]


def eager_bytes(model, tensors):
    """The most that a step of eager takes at once, without parameters and optimizer state."""
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)

    def step():
        model(*tensors).backward()
        optimizer.step()
        optimizer.zero_grad()

    step()
    tracker = MemTracker()
    tracker.track_external(model, optimizer, *tensors)
    with tracker:
        step()
    peak = tracker.get_tracker_snapshot("peak")[torch.device("cpu")]
    states = [t for state in optimizer.state.values() for t in state.values()]
    held = [*model.parameters(), *model.buffers(), *states, *tensors]
    return peak["Total"] - sum(tensor.nbytes for tensor in held)


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
    ratio = int(words[1]) / int(words[3].rstrip("),"))
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


def main(names, held):
    torchacc.set_backend("cpu")
    for name in names:
        torch.manual_seed(0)
        model, tensors = MODELS[name](**works.WORKS[name]["model"]), batch(name)
        eager = eager_bytes(model, tensors)
        model, tensors = model.to("acc"), [t.to("acc") for t in tensors]
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)

        def step(model=model, tensors=tensors, optimizer=optimizer):
            loss = model(*tensors)
            if held:
                optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if not held:
                optimizer.zero_grad()
            return loss.detach()

        step().item()
        whole, ratio, first = measured(step)
        print(
            f"{name}: {whole / 2**20:.0f} MiB, {whole / eager:.2f} of eager's {eager / 2**20:.0f},"
            f" arena {ratio:.3f} of the bound, first step {first:.2f} s",
            flush=True,
        )
        for part in PARTS:
            limit = int(eager * part)
            torchacc.set_memory_limit(limit)
            try:
                taken, ratio, first = measured(step)
            except torch.OutOfMemoryError as error:
                print(f"  within {part}: {str(error).splitlines()[0]}", flush=True)
                break
            last = torchacc.explanation()["compiles"][-1].get("recomputed") or {"time": 1.0}
            limited, seconds = fastest(step, limit)
            print(
                f"  within {part}: {taken / eager:.3f} of it, arena {ratio:.3f} of the bound,"
                f" {limited:.2f} s, {limited / seconds:.2f} times as long (estimated"
                f" {last['time']:.2f}), first step {first:.2f} s",
                flush=True,
            )
        torchacc.set_memory_limit(None)


if __name__ == "__main__":
    names = [name for name in sys.argv[1:] if name != "--held"]
    main(names or ["gpt", "llama", "bert", "vit"], "--held" in sys.argv)

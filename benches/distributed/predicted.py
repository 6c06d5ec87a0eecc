"""Steps of `torchacc.accelerate` on this machine: how long they were predicted to take, and took.

    make bench-predicted                    on four processes with one thread each, and on two
    make bench-predicted KINDS="fsdp4 dp2"  some of them

The processes measure the machine (`Cluster.local_cpu`), by which steps are predicted
(`torchacc.auto.predict`), and train a Llama by each strategy. Milliseconds; a step's time is the
median of that of the slowest rank, with AdamW and the loss, which is read. *Others* is how many
cores other processes took meanwhile (steps beside which they took least are chosen), and *alone*
the time less their part of the machine, of which the prediction is *off by* so much.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve()
# Arguments of `accelerated.config`, by the number of processes.
KINDS = {
    4: {
        "fsdp4": {"fsdp": 4},
        "dp2-fsdp2": {"dp": 2, "fsdp": 2},
        "fsdp2-tp2": {"fsdp": 2, "tp": 2},
        "dp2-tp2": {"dp": 2, "tp": 2},
        "ulysses4": {"sp": (4,)},
        "ring4": {"sp": (4, "ring")},
        "2d": {"sp": (4, "2d", 2)},
        "dp2-ulysses2": {"dp": 2, "sp": (2,)},
        "fsdp2-ulysses2": {"fsdp": 2, "sp": (2,)},
        "tp2-ulysses2": {"tp": 2, "sp": (2,)},
        "dp2-pp2": {"dp": 2, "pp": (2, 4)},
        "fsdp2-pp2": {"fsdp": 2, "pp": (2, 4)},
        "tp2-pp2": {"tp": 2, "pp": (2, 4)},
        "ulysses2-pp2": {"sp": (2,), "pp": (2, 4)},
        "pp4": {"pp": (4, 4)},
    },
    2: {
        "dp2": {"dp": 2},
        "fsdp2": {"fsdp": 2},
        "tp2": {"tp": 2},
        "ulysses2": {"sp": (2,)},
        "ring2": {"sp": (2, "ring")},
        "gpipe2": {"pp": (2, 4, [], "gpipe")},
        "1f1b2": {"pp": (2, 4)},
        "interleaved2": {"pp": (2, 4, [], "interleaved")},
        "zero-bubble2": {"pp": (2, 4, [], "zero-bubble")},
    },
}
LAYERS, WIDTH, HEADS, BATCH = 4, 512, 8, 8
WARM = 3
# Steps that count have less than so many cores taken by other processes; of so many times as many
# steps they are chosen.
QUIET, MOST = 0.1, 3


def ticks():
    """Seconds in which the machine's cores were busy since it started."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _, _, *interrupts = map(int, fields[:8])
    return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")


def of_all(value, reduction):
    import torch
    import torch.distributed as dist

    made = torch.tensor(value, dtype=torch.float64)
    dist.all_reduce(made, reduction)
    return made.item()


def timed(step):
    """Of all ranks the seconds of the slowest, and the cores that other processes took; all cores
    where the step was compiled once more."""
    import torch.distributed as dist
    import torchacc

    torchacc.reset_metrics()
    dist.barrier()
    busy, own, began = ticks(), time.process_time(), time.perf_counter()
    step()
    torchacc.sync()
    took = of_all(time.perf_counter() - began, dist.ReduceOp.MAX)
    own = of_all(time.process_time() - own, dist.ReduceOp.SUM)
    others = (ticks() - busy - own) / took
    if torchacc.metrics()["compiles"]:
        others = os.cpu_count()
    # All ranks see the same, and count the same steps.
    return took, of_all(max(others, 0.0), dist.ReduceOp.MAX)


def trained(config, steps):
    """The medians of a step's seconds, and of the cores that other processes took: of so many
    steps beside which these took next to nothing, or least."""
    import torch.distributed as dist
    import torchacc
    from engines.models import CONTEXT, adamw, loss_of, model_of
    from support import token_batch

    model = model_of(build, "cpu")
    optimizer = adamw(model.parameters())
    sizes = config.mesh(dist.get_world_size())
    rows = BATCH // (sizes["dp"] * sizes["fsdp"])
    tokens, targets = (one.to("acc") for one in token_batch(0, rows, CONTEXT))
    model, optimizer = torchacc.accelerate(model, config=config, optimizer=optimizer)

    def step():
        if hasattr(model, "forward_backward"):
            loss = model.forward_backward(tokens, output_fn=loss_of, target=targets)
        else:
            loss = loss_of(model(tokens), targets)
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    for _ in range(WARM):
        timed(step)
    samples = []
    while len(samples) < MOST * steps and sum(others < QUIET for _, others in samples) < steps:
        samples.append(timed(step))
    quiet = sorted(samples, key=lambda sample: sample[1])[:steps]
    return [statistics.median(column) for column in zip(*quiet, strict=True)]


def build():
    from engines.models import MODELS

    return MODELS["llama"](LAYERS, WIDTH, HEADS)


def measure(kind, steps):
    """In a rank: a row of the table."""
    import accelerated
    import torch
    import torch.distributed as dist
    import torchacc
    from engines.models import CONTEXT
    from torchacc.auto import Cluster, predict
    from torchacc.auto import measure as measured

    torch.set_num_threads(1)
    dist.init_process_group()
    torchacc.set_recompile_limit(10_000)
    ranks, is_first = dist.get_world_size(), dist.get_rank() == 0
    tokens = torch.zeros(1, CONTEXT, dtype=torch.long)
    cluster = Cluster.local_cpu(ranks, device="acc", together=True)
    if is_first:
        print(cluster.to_yaml(), file=sys.stderr, flush=True)
    config = accelerated.config(gate=True, **KINDS[ranks][kind])
    shape = measured(build(), [tokens], heads=HEADS, plan=config.dist.tp.plan)
    expected = predict(shape, cluster, config, BATCH)
    took, others = trained(config, steps)
    if is_first:
        exposed = sum(expected.exposed.values())
        alone = took * (1 - others / os.cpu_count())
        parts = (expected.seconds, expected.compute, exposed, expected.bubble)
        row = "".join(f"{1e3 * part:10.0f}" for part in (took, alone, *parts))
        off = expected.seconds / alone - 1
        print(f"{ranks:5}  {kind:16}{row}{off:+8.0%}{others:8.2f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


def run(ranks, kind, steps):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TORCHACC_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(ranks), str(HERE), kind, "--worker"]
    subprocess.run([*command, "--steps", str(steps)], env=environment, check=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kinds", nargs="*")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        return measure(*args.kinds, args.steps)
    print(f"{'ranks':5}  {'strategy':16}{'measured':>10}{'alone':>10}{'predicted':>10}", end="")
    print(f"{'compute':>10}{'exposed':>10}{'bubble':>10}{'off by':>8}{'others':>8}", flush=True)
    for ranks, known in KINDS.items():
        # Each in processes of its own: threads and memory of others would be there beside it.
        for kind in known:
            if kind in (args.kinds or known):
                run(ranks, kind, args.steps)


if __name__ == "__main__":
    main()

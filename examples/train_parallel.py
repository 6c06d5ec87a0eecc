"""Trains the GPT of train_gpt.py in parts: of its parameters, and of its layers' matrices.

    make train-parallel                                                     all of what follows
    torchrun --standalone --nproc-per-node 4 examples/train_parallel.py     FSDP2 x TP
    ... --nproc-per-node 2 examples/train_parallel.py --tp 1 --resume       two processes go on
    python examples/train_parallel.py --tp 1                                one process
    python examples/train_parallel.py --report                              compares their losses

`torchacc.accelerate` does all of it. The first run saves its state, of which each process writes
its part, and draws a step of every process as a picture; the second one reads it, in other parts.
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn.functional as F
import torchacc
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torchacc.config import Config, DistConfig, FSDPConfig, TPConfig
from train_ddp import add_sizes
from train_gpt import GPT, SEED, Text

# Attention's three matrices are one here, whose rows cannot be split as heads: it stays whole.
PLAN = {"blocks.*.mlp.0": "colwise", "blocks.*.mlp.2": "rowwise"}


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="acc", choices=("acc", "cpu"))
    parser.add_argument("--tp", type=int, default=2, help="processes that share each layer")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--resume", action="store_true", help="after as many steps, from --out")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "train-parallel")
    add_sizes(parser)
    return parser.parse_args()


def train(args):
    size, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    parts = size // args.tp
    torch.manual_seed(SEED)
    model = GPT(args.layers, args.width, args.heads, args.context, dropout=0.0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    config = Config(
        backend="lazy" if args.device == "acc" else "eager",
        dist=DistConfig(
            fsdp=FSDPConfig(parts, wrap_layer_cls={"Block"}), tp=TPConfig(args.tp, PLAN)
        ),
    )
    model, optimizer = torchacc.accelerate(model, config=config, optimizer=optimizer)
    done = 0
    if args.resume:
        done = args.steps
        load(model, optimizer, args.out / "state")
    text = Text(args.context, args.batch)
    losses, began = [], time.perf_counter()
    for step in range(done + 1, done + args.steps + 1):
        # Processes that share a layer have the same part of the batch.
        batch = text.batch_at(text.train, seed=step)
        inputs, targets = (one.chunk(parts)[rank // args.tp].to(args.device) for one in batch)
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        loss.backward()
        model.clip_grad_norm_(1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    losses = torch.stack(losses)
    if size > 1:
        dist.all_reduce(losses)
    losses = (losses / size).tolist()
    milliseconds = 1000 * (time.perf_counter() - began) / args.steps
    if rank == 0:
        name = f"{size} processes (fsdp {parts} x tp {args.tp})"
        print(f"{name}: loss {losses[-1]:.4f}, {milliseconds:.0f} ms a step with compiling")
        args.out.mkdir(parents=True, exist_ok=True)
        file = args.out / f"losses-{size}.json"
        file.write_text(json.dumps({"name": name, "first": done + 1, "losses": losses}))
    if size > 1 and not args.resume:
        dcp.save(dict(zip(("model", "optimizer"), get_state_dict(model, optimizer), strict=True)),
                 checkpoint_id=args.out / "state")  # fmt: skip
        if args.device == "acc":
            draw(args, model, inputs, targets)
    if size > 1:
        dist.destroy_process_group()


def load(model, optimizer, folder: Path):
    state = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer), strict=True))
    dcp.load(state, checkpoint_id=folder)
    set_state_dict(
        model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
    )


def draw(args, model, inputs, targets):
    """Saves a picture of one step, a row for each process's thread."""
    rank = dist.get_rank()
    trace = args.out / f"timeline-{rank}.json"
    dist.barrier()
    with torchacc.profile(trace):
        F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten()).backward()
    dist.barrier()
    if rank == 0:
        traces = [args.out / f"timeline-{other}.json" for other in range(dist.get_world_size())]
        picture(traces, args.out / "timeline.png")


def picture(traces: list[Path], path: Path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(12, 1 + len(traces)))
    kinds = {"computes": "tab:blue", "waits for others": "tab:orange"}
    for row, trace in enumerate(traces):
        spans = [one for one in json.loads(trace.read_text())["traceEvents"] if is_kernel(one)]
        begin = min(one["ts"] for one in spans)
        for kind, color in kinds.items():
            bars = [
                ((one["ts"] - begin) / 1000, one["dur"] / 1000)
                for one in spans
                if ("torchacc::" in one["name"]) == (kind != "computes")
            ]
            axes.broken_barh(bars, (row - 0.4, 0.8), color=color, label=kind if row == 0 else None)
    axes.set_yticks(range(len(traces)), [f"rank {rank}" for rank in range(len(traces))])
    axes.set_xlabel("milliseconds")
    axes.legend()
    figure.savefig(path, dpi=120)
    print(f"a step of every process: {path}")


def is_kernel(event: dict) -> bool:
    return event.get("ph") == "X" and event.get("cat") in ("kernel", "fallback")


def report(args):
    """The losses of all runs, step by step, against those of one process."""
    runs = [json.loads(file.read_text()) for file in sorted(args.out.glob("losses-*.json"))]
    alone = next(run for run in runs if run["name"].startswith("1 "))
    expected = dict(enumerate(alone["losses"], alone["first"]))
    for run in runs:
        found = dict(enumerate(run["losses"], run["first"]))
        off = max(abs(loss - expected[step]) for step, loss in found.items() if step in expected)
        steps = f"steps {min(found)} to {max(found)}"
        print(f"{run['name']}: {steps}, at most {off:.1e} from the losses of one process")
        if off > 1e-3:
            raise SystemExit("that is too much")


if __name__ == "__main__":
    options = arguments()
    report(options) if options.report else train(options)

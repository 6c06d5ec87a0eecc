r"""Communication of Llama's 7B shape under FSDP2 on a cluster that is not there, by simulation.

    TORCHACC_BACKEND=null .venv/bin/python benches/distributed/simulated.py --nodes 8

One process records a step as the first of all ranks, and the plan is gone through with the
figures of a cluster (`torchacc.auto`): sharded over all ranks, halves, each layer recomputed but
for the first `--offload` ones, whose activations wait on the host; or, with `--memory`, within so
many GiB by what the plan chooses.

    ENGINES_CONTEXT=1024 PYTHONPATH=torch_extension/tests TORCHACC_BACKEND=null \
        TORCHACC_SPLIT=1000000 .venv/bin/python benches/distributed/simulated.py \
        --engine sequence_parallel --ranks 4 --layers 4 --width 2048 --slower 5

Likewise one of torch_extension/tests/engines, on some of a node's devices, in f32.
"""

import argparse
import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
import torchacc
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.utils.checkpoint import checkpoint
from torchacc.auto import Cluster
from torchacc.auto.collectives import Group
from torchacc.auto.simulate import simulate, world


class Layer(nn.Module):
    def __init__(self, width, hidden, heads):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(2))
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        q, k, v = self.qkv(self.norms[0](x)).unflatten(-1, (3, self.heads, -1)).unbind(2)
        attended = F.scaled_dot_product_attention(
            *(part.transpose(1, 2) for part in (q, k, v)), is_causal=True
        )
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        y = self.norms[1](x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, layers, width, offloaded, recomputed, vocabulary=32000):
        super().__init__()
        self.offloaded, self.recomputed = offloaded, recomputed
        hidden, heads = 11008 * width // 4096, width // 128
        self.token = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Layer(width, hidden, heads) for _ in range(layers))
        self.norm = nn.RMSNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        x = self.token(tokens)
        for at, layer in enumerate(self.layers):
            if at < self.offloaded:
                with torchacc.save_on_host():
                    x = layer(x)
            elif self.recomputed:
                x = checkpoint(layer, x, use_reentrant=False)
            else:
                x = layer(x)
        return self.head(self.norm(x))


def training(layers, width, batch, length, offloaded, recomputed):
    """A function that records a step, sharded over all ranks."""
    with torch.device("meta"):
        model = Llama(layers, width, offloaded, recomputed)
    halves = MixedPrecisionPolicy(torch.bfloat16, torch.float32)
    for layer in model.layers:
        fully_shard(layer, mp_policy=halves)
    fully_shard(model, mp_policy=halves)
    model.to_empty(device="acc")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    tokens = torch.zeros(batch, length, dtype=torch.long, device="acc")

    def step(_):
        loss = F.cross_entropy(model(tokens).flatten(0, 1).float(), tokens.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def engine(name, layers, width):
    from engines import ENGINES, MODELS

    class Sized(MODELS["llama"]):
        def __init__(self):
            super().__init__(layers=layers, width=width)

    return ENGINES[name]("acc", Sized)


def recorded(step, limit=None):
    """The program of a step within so many bytes, as text: the second one, which the others are
    like."""
    for number in range(2):
        if number and limit:
            torchacc.set_memory_limit(limit)
        step(number)
        torchacc.sync()
    return torchacc.last_program()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cluster", default="a100")
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--offload", type=int, default=0)
    parser.add_argument("--memory", type=float, help="GiB that a step may take")
    parser.add_argument("--timeline", help="a file for Perfetto")
    parser.add_argument("--engine", help="tp, sequence_parallel, …")
    parser.add_argument("--ranks", type=int, default=4, help="of one node, for an engine")
    parser.add_argument("--slower", type=float, default=1, help="how many times, links of a node")
    args = parser.parse_args()
    cluster = Cluster.load(args.cluster, nodes=args.nodes)
    cluster.intra_node.bandwidth /= args.slower
    group = Group(cluster.devices_per_node, cluster.nodes)
    if args.engine:
        group = Group(args.ranks, 1)
    began = time.perf_counter()
    with world(group.size):
        if args.engine:
            text = recorded(engine(args.engine, args.layers, args.width))
        else:
            sizes = args.layers, args.width, args.batch, args.length
            step = training(*sizes, args.offload, recomputed=not args.memory)
            text = recorded(step, args.memory and int(args.memory * 2**30))
    took = time.perf_counter() - began
    made = simulate(text, cluster, {"all": group})
    print(
        f"{group.size:5} ranks, lanes {os.environ.get('TORCHACC_LANES', '1')}:"
        f" step {made.seconds * 1e3:.0f} ms, compute {made.compute * 1e3:.0f},"
        f" collectives and copies {made.communication * 1e3:.0f}, exposed {made.exposed_part:.2%},"
        f" arena {made.arena / 2**30:.2f} GiB, recorded and planned in {took:.1f} s"
    )
    if args.memory:
        print(torchacc.explain())
    if args.timeline:
        made.write_timeline(args.timeline)


if __name__ == "__main__":
    main()

"""Runs whose speed is published, with what they were: models, machines, strategies.

`table` predicts each with its own strategy; docs/strategies.md has it.
"""

import dataclasses
import functools
from dataclasses import dataclass

from torchacc.auto.cluster import Cluster
from torchacc.auto.cost import predict
from torchacc.auto.model import transformer
from torchacc.config import Config

# Microbatches, sequences a rank and hours of work are as the source says; where gradients are
# accumulated without a pipeline, `num_micro_batches` says how often.
GPT = {"tied": True, "causal": True}
# Megatron-LM of 2021: dropout, and attention by kernels that keep its matrix of scores.
MEGATRON = {"vocab": 51200, "sequence": 2048, "positions": 2048, "flash": False, "dropout": True}
LLAMA = {"gated": True, "bias": False, "tied": False}


@dataclass
class Run:
    name: str
    source: str
    cluster: str
    devices: int
    model: dict
    batch: int  # sequences
    seconds: float  # of a step
    dist: dict
    gc: bool = False
    changes: dict = dataclasses.field(default_factory=dict)
    compute: str = "bf16"

    def predicted(self):
        per_node = min(self.devices, 8)
        machine = {"nodes": self.devices // per_node, "devices_per_node": per_node}
        cluster = Cluster.load(self.cluster, **machine | self.changes)
        model = transformer(**self.model)
        values = {"compute": {self.compute: True}, "memory": {"gc": bool(self.gc), "gc_cnt": None if self.gc in (True, False) else self.gc}, "dist": self.dist}
        return predict(model, cluster, Config.from_dict(values), self.batch)

    def published_mfu(self):
        """In the convention of `Prediction.mfu`, whatever the source's is."""
        peak = Cluster.load(self.cluster).peak(self.compute)
        flops = 3 * transformer(**self.model).flops * self.batch
        return flops / self.seconds / self.devices / peak


def megatron_seconds(model, batch, devices, teraflops, *, passes=4):
    """A step's time, by Narayanan et al.'s formula of its FLOPs (2021, section 5), in which a layer
    is computed again; `passes` of 3 without."""
    s, l, h, v = model["sequence"], model["layers"], model["hidden"], model["vocab"]
    layers = passes * 24 * batch * s * l * h**2 * (1 + s / (6 * h))
    return (layers + 6 * batch * s * h * v) / (devices * teraflops * 1e12)


def mpt(name, size, sequence, micro, accumulated, devices, card, tokens, *, gc=False):
    """A row of llm-foundry's scripts/train/benchmarking/README.md: `tokens` a second of a GPU."""
    hidden, heads, layers = size
    batch = micro * accumulated * devices
    return Run(
        f"MPT {name}, {sequence} tokens",
        "llm-foundry, benchmarking/README.md",
        card,
        devices,
        {"layers": layers, "hidden": hidden, "heads": heads, "vocab": 50368}
        | {"sequence": sequence, "positions": sequence},
        batch,
        batch * sequence / devices / tokens,
        {"fsdp": {"size": devices}, "pp": {"num_micro_batches": accumulated}},
        gc=gc,
    )


def narayanan(billions, heads, hidden, layers, tp, pp, devices, batch, micro, stages, teraflops):
    """A row of Narayanan et al. (2021), table 1. Micro-batches and interleaved stages are not in
    the table: those of its section 5."""
    model = MEGATRON | {"layers": layers, "hidden": hidden, "heads": heads}
    dp = devices // tp // pp
    schedule = "interleaved" if stages > 1 else "1f1b"
    points = [f"layers.{layers * n // (pp * stages)}" for n in range(1, pp * stages)]
    return Run(
        f"Megatron-LM GPT {billions} B",
        "Narayanan et al. 2021, table 1",
        "a100",
        devices,
        model,
        batch,
        megatron_seconds(model, batch, devices, teraflops),
        {
            "dp": {"size": dp},
            "tp": {"size": tp},
            "pp": {
                "size": pp,
                "num_micro_batches": batch // dp // micro,
                "schedule": schedule,
                "split_points": points,
            },
        },
        gc=True,
        compute="fp16",
    )


SIZES = {
    "125m": (768, 12, 12),
    "350m": (1024, 16, 24),
    "760m": (1536, 12, 24),
    "1b": (2048, 16, 24),
    "3b": (2560, 20, 32),
    "7b": (4096, 32, 32),
    "13b": (5120, 40, 40),
    "30b": (7168, 56, 48),
    "70b": (8192, 64, 80),
}
GPT2_XL = {"layers": 48, "hidden": 1600, "heads": 25, "vocab": 50304, "sequence": 1024}


def korthikanti(billions, heads, hidden, layers, pp, stages, devices, batch, micro, mfu):
    """A row of Korthikanti et al. (2022), tables 3 and 5: tensor parallel of 8, attention's scores
    computed again, which is what kernels that keep none do, too."""
    model = MEGATRON | {"layers": layers, "hidden": hidden, "heads": heads}
    run = narayanan(billions, heads, hidden, layers, 8, pp, devices, batch, micro, stages, 100)
    seconds = megatron_seconds(model, batch, devices, mfu * 312, passes=3)
    return dataclasses.replace(
        run,
        name=f"Megatron-LM GPT {billions} B, selective",
        source="Korthikanti et al. 2022, table 5",
        model=model | {"flash": True, "causal": False},
        seconds=seconds,
        gc=False,
    )


RUNS = [
    mpt("125m", SIZES["125m"], 1024, 64, 2, 8, "a100", 156468),
    mpt("350m", SIZES["350m"], 2048, 32, 2, 8, "a100", 58782),
    mpt("1b", SIZES["1b"], 2048, 14, 4, 8, "a100", 20513),
    mpt("3b", SIZES["3b"], 2048, 10, 2, 8, "a100", 10811),
    mpt("7b", SIZES["7b"], 2048, 6, 2, 8, "a100", 4641),
    mpt("7b", SIZES["7b"], 8192, 8, 2, 8, "a100", 3206, gc=True),
    mpt("13b", SIZES["13b"], 2048, 2, 3, 8, "a100", 2262),
    mpt("30b", SIZES["30b"], 2048, 3, 21, 8, "a100", 916, gc=True),
    mpt("70b", SIZES["70b"], 2048, 8, 4, 64, "a100", 410, gc=True),
    mpt("1b", SIZES["1b"], 2048, 14, 1, 8, "h100", 45455),
    mpt("3b", SIZES["3b"], 1024, 20, 6, 8, "h100", 27046),
    mpt("7b", SIZES["7b"], 2048, 6, 1, 8, "h100", 10643),
    mpt("7b", SIZES["7b"], 8192, 8, 2, 8, "h100", 6935, gc=True),
    mpt("13b", SIZES["13b"], 2048, 2, 1, 64, "h100", 4800),
    mpt("30b", SIZES["30b"], 2048, 14, 3, 32, "h100", 2308, gc=True),
    mpt("70b", SIZES["70b"], 2048, 8, 4, 64, "h100", 1039, gc=True),
    Run(
        "GPT-2 124M, llm.c", "llm.c, run_gpt2_124M.sh", "a100", 8,
        {"layers": 12, "hidden": 768, "heads": 12, "vocab": 50304, "sequence": 1024, "positions": 1024},
        512, 0.300, {"fsdp": {"size": 8, "reshard_after_forward": False}},
    ),
    Run(
        "GPT-2 124M, llm.c", "modded-nanogpt, 2024-10-13", "h100", 8,
        {"layers": 12, "hidden": 768, "heads": 12, "vocab": 50304, "sequence": 1024, "positions": 1024},
        512, 0.140, {"fsdp": {"size": 8, "reshard_after_forward": False}},
    ),
    Run(
        "GPT-2 774M, llm.c", "llm.c, run_gpt2_774M.sh", "a100", 8,
        {"layers": 36, "hidden": 1280, "heads": 20, "vocab": 50304, "sequence": 1024, "positions": 1024},
        512, 1.7, {"fsdp": {"size": 8, "reshard_after_forward": False}, "pp": {"num_micro_batches": 2}},
    ),
    Run(
        "GPT-2 1558M, llm.c", "llm.c, run_gpt2_1558M.sh", "h100", 8,
        GPT2_XL | {"positions": 1024},
        1024, 2.80, {"fsdp": {"size": 8, "reshard_after_forward": False}, "pp": {"num_micro_batches": 8}},
    ),
    Run(
        "Llama-2 7B, MaxText", "JAX-Toolbox, maxtext/README.md", "h100", 8,
        LLAMA | {"layers": 32, "hidden": 4096, "heads": 32, "ffn": 11008, "vocab": 32000, "sequence": 4096},
        16, 0.721, {"fsdp": {"size": 8}},
    ),
    Run(
        "Llama-3.1 8B, torchtitan", "torchtitan, llama3_h100_202412", "h100", 8,
        LLAMA | {"layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8, "ffn": 14336, "vocab": 128256, "sequence": 8192},
        16, 16 * 8192 / 8 / 6667, {"fsdp": {"size": 8}}, gc=16,
    ),
    narayanan(1.7, 24, 2304, 24, 1, 1, 32, 512, 16, 1, 137),
    narayanan(3.6, 32, 3072, 30, 2, 1, 64, 512, 16, 1, 138),
    narayanan(7.5, 32, 4096, 36, 4, 1, 128, 512, 16, 1, 142),
    narayanan(18.4, 48, 6144, 40, 8, 1, 256, 1024, 8, 1, 135),
    narayanan(39.1, 64, 8192, 48, 8, 2, 512, 1536, 4, 1, 138),
    narayanan(76.1, 80, 10240, 60, 8, 4, 1024, 1792, 2, 1, 140),
    narayanan(145.6, 96, 12288, 80, 8, 8, 1536, 2304, 2, 1, 148),
    narayanan(310.1, 128, 16384, 96, 8, 16, 1920, 2160, 1, 1, 155),
    narayanan(529.6, 128, 20480, 105, 8, 35, 2520, 2520, 1, 1, 163),
    narayanan(1008, 160, 25600, 128, 8, 64, 3072, 3072, 1, 1, 163),
    korthikanti(22, 64, 6144, 48, 1, 1, 8, 4, 4, 0.415),
    korthikanti(175, 96, 12288, 96, 8, 3, 64, 64, 1, 0.514),
    korthikanti(530, 128, 20480, 105, 35, 3, 280, 280, 1, 0.560),
    korthikanti(1008, 160, 25600, 128, 64, 1, 512, 512, 1, 0.563),
    Run(
        "BLOOM 176 B", "bigscience, tr11-176B-ml", "a100", 384,
        {"layers": 70, "hidden": 14336, "heads": 112, "vocab": 250880, "sequence": 2048, "flash": False, "dropout": True},
        2048, 105.0,
        {"dp": {"size": 8}, "tp": {"size": 4}, "pp": {"size": 12, "num_micro_batches": 128}},
        gc=True, changes={"inter_node": {"latency": 2e-5, "bandwidth": 6.25e9}},
    ),
    Run(
        "OPT-175B", "Zhang et al. 2022, section 2.4", "a100", 992,
        {"layers": 96, "hidden": 12288, "heads": 96, "vocab": 50272, "sequence": 2048, "positions": 2048, "flash": False, "dropout": True},
        992, megatron_seconds({"layers": 96, "hidden": 12288, "vocab": 50272, "sequence": 2048}, 992, 992, 147),
        {"fsdp": {"size": 124}, "tp": {"size": 8}}, gc=True, compute="fp16",
    ),
    Run(
        "Megatron-LM 175 B at 12,288", "Jiang et al. 2024, table 2", "a100", 12288,
        MEGATRON | {"layers": 96, "hidden": 12288, "heads": 128, "vocab": 64000, "flash": True, "dropout": False, "causal": False},
        6144, 0, {"dp": {"size": 192}, "tp": {"size": 8}, "pp": {"size": 8, "num_micro_batches": 32, "schedule": "interleaved", "split_points": [f"layers.{2 * n}" for n in range(1, 48)]}},
    ),
    mpt("3b", SIZES["3b"], 2048, 10, 6, 8, "h100", 30586),
    Run(
        "Megatron-LM 1.2 B", "Shoeybi et al. 2019", "v100", 1,
        MEGATRON | {"layers": 40, "hidden": 1536, "heads": 16, "sequence": 1024, "positions": 1024},
        8, megatron_seconds({"layers": 40, "hidden": 1536, "vocab": 51200, "sequence": 1024}, 8, 1, 39), {}, gc=True, compute="fp16",
    ),
    Run(
        "Megatron-LM 8.3 B", "Shoeybi et al. 2019", "v100", 512,
        MEGATRON | {"layers": 72, "hidden": 3072, "heads": 32, "sequence": 1024, "positions": 1024},
        512, megatron_seconds({"layers": 72, "hidden": 3072, "vocab": 51200, "sequence": 1024}, 512, 512, 15.1e3 / 512), {"dp": {"size": 64}, "tp": {"size": 8}}, gc=True, compute="fp16",
    ),
]
RUNS[-3].compute = "fp8"
m = RUNS[-4]
m.seconds = 3 * transformer(**m.model).flops * m.batch / m.devices / 312e12 / .412


if __name__ == "__main__":
    for r in RUNS:
        p = r.predicted(); q = r.published_mfu()
        e = {k: round(v / p.seconds, 3) for k, v in p.exposed.items() if v}
        print(f"{r.name:34} {r.cluster:5} {r.devices:5} {q:.3f} {p.mfu:.3f} {p.mfu/q-1:+.0%}  {p.peak_memory/1e9:6.1f} GB c {p.compute/p.seconds:.2f} bub {p.bubble/p.seconds:.3f} opt {p.optimizer/p.seconds:.3f} {e}")

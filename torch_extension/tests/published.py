"""Runs whose speed is published, with what they were: models, machines, strategies.

`table` predicts each with its own strategy. docs/strategies.md has it, and says what is not as it
was: where a source is silent, and what `Config` has no name for.
"""

from dataclasses import dataclass, field

from torchacc.auto import Cluster, Prediction, predict, transformer
from torchacc.config import Config

# Attention by kernels that keep its matrix of scores, and dropout.
MEGATRON = {"vocab": 51200, "sequence": 2048, "positions": 2048, "flash": False, "dropout": True}
LLAMA = {"gated": True, "bias": False, "tied": False}
# Layers, hidden, heads.
MPT = {
    "125M": (12, 768, 12),
    "1B": (24, 2048, 16),
    "3B": (32, 2560, 20),
    "7B": (32, 4096, 32),
    "13B": (40, 5120, 40),
    "70B": (80, 8192, 64),
}
GPT2 = {"124M": (12, 768, 12), "774M": (36, 1280, 20), "1558M": (48, 1600, 25)}


@dataclass
class Run:
    name: str
    source: str
    cluster: str
    devices: int
    # Arguments of `transformer`.
    model: dict
    # Sequences, and seconds, of a step.
    batch: int
    seconds: float
    dist: dict
    memory: dict = field(default_factory=dict)
    precision: str = "bf16"
    inter_node: dict | None = None
    # Known to be more than a fifth off.
    is_outside: bool = False

    def predicted(self) -> Prediction:
        per_node = min(self.devices, 8)
        machine = {"nodes": self.devices // per_node, "devices_per_node": per_node}
        if self.inter_node is not None:
            machine["inter_node"] = self.inter_node
        config = {"compute": {self.precision: True}, "memory": self.memory, "dist": self.dist}
        cluster = Cluster.load(self.cluster, **machine)
        model = transformer(**self.model)
        return predict(model, cluster, Config.from_dict(config), self.batch)

    def mfu(self) -> float:
        """As published, in the convention of `Prediction.mfu`, whatever the source's is."""
        flops = 3 * transformer(**self.model).flops * self.batch
        peak = Cluster.load(self.cluster).peak(self.precision)
        return flops / self.seconds / self.devices / peak


def shape(layers, hidden, heads, **others):
    return {"layers": layers, "hidden": hidden, "heads": heads} | others


def megatron_seconds(model, batch, devices, teraflops, *, passes=4):
    """Of a step, by the formula of Narayanan et al. (2021), section 5: layers are computed again,
    and that counts (`passes` of 3: it does not)."""
    sequence, hidden = model["sequence"], model["hidden"]
    products = 24 * batch * sequence * model["layers"] * hidden**2
    layers = passes * products * (1 + sequence / (6 * hidden))
    head = 6 * batch * sequence * hidden * model["vocab"]
    return (layers + head) / (devices * teraflops * 1e12)


def mpt(name, sequence, micro, accumulated, devices, cluster, tokens, **others):
    """A row of llm-foundry's table: `tokens` a second of each device."""
    batch = micro * accumulated * devices
    return Run(
        f"MPT {name}, {sequence} tokens",
        "llm-foundry",
        cluster,
        devices,
        shape(*MPT[name], vocab=50368, sequence=sequence, positions=sequence),
        batch,
        batch * sequence / devices / tokens,
        {"fsdp": {"size": devices}, "pp": {"num_micro_batches": accumulated}},
        **others,
    )


def llm_c(name, accumulated, batch, cluster, seconds):
    return Run(
        f"GPT-2 {name}",
        "llm.c",
        cluster,
        8,
        shape(*GPT2[name], vocab=50304, sequence=1024, positions=1024),
        batch,
        seconds,
        {
            "fsdp": {"size": 8, "reshard_after_forward": False},
            "pp": {"num_micro_batches": accumulated},
        },
    )


def megatron(name, source, sizes, tp, pp, devices, batch, micro, *, stages=1, rate=0.0, mfu=0.0):
    """A row with `rate`, TFLOP/s of a device that count what is computed again, or with the MFU of
    kernels that keep no scores, of which nothing is."""
    layers, hidden, heads = sizes
    model = shape(layers, hidden, heads, **MEGATRON)
    if mfu:
        model |= {"flash": True, "causal": False}
    seconds = megatron_seconds(model, batch, devices, rate or mfu * 312, passes=4 if rate else 3)
    copies = devices // tp // pp
    cuts = [f"layers.{layers * n // (pp * stages)}" for n in range(1, pp * stages)]
    pipeline = {
        "size": pp,
        "num_micro_batches": batch // copies // micro,
        "schedule": "interleaved" if stages > 1 else "1f1b",
        "split_points": cuts,
    }
    dist = {"dp": {"size": copies}, "tp": {"size": tp}, "pp": pipeline}
    memory = {"gc": bool(rate)}
    return Run(name, source, "a100", devices, model, batch, seconds, dist, memory, precision="fp16")


def korthikanti(name, sizes, pp, devices, batch, micro, mfu, stages=1):
    source = "Korthikanti et al. 2022"
    return megatron(
        f"GPT {name}", source, sizes, 8, pp, devices, batch, micro, stages=stages, mfu=mfu
    )


def narayanan(name, sizes, tp, pp, devices, batch, micro, rate):
    source = "Narayanan et al. 2021"
    return megatron(f"GPT {name}", source, sizes, tp, pp, devices, batch, micro, rate=rate)


def smith(devices, rate, *, is_outside=False):
    name, source, sizes = "MT-NLG 530B", "Smith et al. 2022", (105, 20480, 128)
    run = megatron(name, source, sizes, 8, 35, devices, 1920, 1, rate=rate)
    run.is_outside = is_outside
    return run


def shoeybi(name, source, sizes, tp, devices, batch, rate, **others):
    model = shape(*sizes, **MEGATRON | {"sequence": 1024, "positions": 1024})
    seconds = megatron_seconds(model, batch, devices, rate)
    dist = {"dp": {"size": devices // tp}, "tp": {"size": tp}}
    return Run(
        f"GPT {name}",
        source,
        "v100",
        devices,
        model,
        batch,
        seconds,
        dist,
        {"gc": True},
        precision="fp16",
        **others,
    )


def jiang(name, mfu, *, is_outside=False):
    run = megatron(
        name, "Jiang et al. 2024", (96, 12288, 128), 8, 8, 12288, 6144, 1, stages=6, mfu=mfu
    )
    run.model |= {"vocab": 64000}
    run.seconds = megatron_seconds(run.model, 6144, 12288, mfu * 312, passes=3)
    run.is_outside = is_outside
    return run


def llama3(devices, tokens):
    model = shape(32, 4096, 32, kv_heads=8, ffn=14336, vocab=128256, sequence=8192)
    return Run(
        "Llama-3.1 8B",
        "torchtitan",
        "h100",
        devices,
        LLAMA | model,
        2 * devices,
        2 * 8192 / tokens,
        {"fsdp": {"size": devices}},
        {"gc": True, "gc_cnt": 16},
    )


BLOOM = shape(70, 14336, 112, **MEGATRON | {"vocab": 250880, "positions": 0})
OPT = shape(96, 12288, 96, **MEGATRON | {"vocab": 50272, "positions": 2050})
GC = {"memory": {"gc": True}}

RUNS = [
    mpt("125M", 1024, 64, 2, 8, "a100", 156468),
    mpt("1B", 2048, 14, 4, 8, "a100", 20513),
    mpt("3B", 2048, 10, 2, 8, "a100", 10811),
    mpt("7B", 2048, 6, 2, 8, "a100", 4641),
    mpt("7B", 8192, 8, 2, 8, "a100", 3206, **GC),
    mpt("13B", 2048, 2, 3, 8, "a100", 2262),
    mpt("70B", 2048, 8, 4, 64, "a100", 410, **GC),
    mpt("1B", 2048, 14, 1, 8, "h100", 45455),
    mpt("3B", 1024, 20, 6, 8, "h100", 27046),
    mpt("7B", 2048, 6, 1, 8, "h100", 10643),
    mpt("7B", 8192, 8, 2, 8, "h100", 6935, **GC),
    mpt("13B", 2048, 2, 1, 64, "h100", 4800),
    mpt("70B", 2048, 8, 4, 64, "h100", 1039, **GC),
    mpt("3B", 2048, 10, 6, 8, "h100", 30586, precision="fp8", is_outside=True),
    llm_c("124M", 1, 512, "a100", 0.300),
    llm_c("774M", 2, 512, "a100", 1.7),
    llm_c("124M", 1, 512, "h100", 0.140),
    llm_c("1558M", 8, 1024, "h100", 2.80),
    Run(
        "Llama-2 7B",
        "MaxText",
        "h100",
        8,
        LLAMA | shape(32, 4096, 32, ffn=11008, vocab=32000, sequence=4096),
        16,
        0.721,
        {"fsdp": {"size": 8}},
    ),
    llama3(8, 6667),
    llama3(128, 6514),
    shoeybi("1.2B", "Megatron-LM 1.0, 2020", (40, 1536, 16), 1, 1, 8, 62.4),
    shoeybi("1.2B", "Shoeybi et al. 2019", (40, 1536, 16), 1, 1, 8, 39, is_outside=True),
    shoeybi("8.3B", "Shoeybi et al. 2019", (72, 3072, 32), 8, 512, 512, 15100 / 512),
    narayanan("1.7B", (24, 2304, 24), 1, 1, 32, 512, 16, 137),
    narayanan("18.4B", (40, 6144, 48), 8, 1, 256, 1024, 8, 135),
    narayanan("145.6B", (80, 12288, 96), 8, 8, 1536, 2304, 2, 148),
    narayanan("1008B", (128, 25600, 160), 8, 64, 3072, 3072, 1, 163),
    smith(2240, 126),
    smith(3360, 113, is_outside=True),
    korthikanti("22B", (48, 6144, 64), 1, 8, 4, 4, 0.415),
    korthikanti("175B", (96, 12288, 96), 8, 64, 64, 1, 0.514, stages=3),
    korthikanti("530B", (105, 20480, 128), 35, 280, 280, 1, 0.560, stages=3),
    korthikanti("1008B", (128, 25600, 160), 64, 512, 512, 1, 0.563),
    jiang("175B, Megatron-LM", 0.412),
    jiang("175B, MegaScale", 0.552, is_outside=True),
    Run(
        "BLOOM 176B",
        "bigscience, tr11-176B-ml",
        "a100",
        384,
        BLOOM,
        2048,
        105.0,
        {
            "fsdp": {"size": 8, "reshard_after_forward": False},
            "tp": {"size": 4},
            "pp": {"size": 12, "num_micro_batches": 128},
        },
        {"gc": True},
        # Four adapters of 100 Gb/s a node.
        inter_node={"latency": 2e-5, "bandwidth": 6.25e9},
    ),
    Run(
        "OPT-175B",
        "Zhang et al. 2022",
        "a100",
        992,
        OPT,
        992,
        megatron_seconds(OPT, 992, 992, 147),
        {"fsdp": {"size": 124}, "tp": {"size": 8}},
        {"gc": True},
        precision="fp16",
    ),
]


def table() -> str:
    """Published and predicted, in Markdown."""
    lines = [
        "| model | source | devices | strategy | published MFU | predicted | off by |",
        "|---|---|---|---|---|---|---|",
    ]
    for run in RUNS:
        mfu, published = run.predicted().mfu, run.mfu()
        sizes = {axis: run.dist[axis]["size"] for axis in run.dist if "size" in run.dist[axis]}
        strategy = " × ".join(f"{axis} {size}" for axis, size in sizes.items() if size > 1)
        off = f"{mfu / published - 1:+.0%}"
        if run.is_outside:
            off = f"**{off}**"
        fields = run.name, run.source, f"{run.devices} {run.cluster.upper()}", strategy or "-"
        lines.append(f"| {' | '.join(fields)} | {published:.1%} | {mfu:.1%} | {off} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())

"""How long it takes to compile a training step, by its number of layers, with ranks and without.

`python benches/trace/planning.py [LAYERS ...]`: the Llama of benches/distributed/simulated.py, each
layer recomputed, alone and as one of 64 ranks that shard it (FSDP2), whose collectives run one by
one or on lanes. On the backend null: lowering, passes and planning are all that it compiles.
Milliseconds of the second step, which is the one that repeats; medians of ROUNDS processes.
"""

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROUNDS = 3
WIDTH, BATCH, LENGTH = 256, 2, 256
# Ranks, and whether there are lanes.
WAYS = {"alone": (1, "1"), "FSDP2, one by one": (64, "0"), "FSDP2, on lanes": (64, "1")}


def measure(ranks: int, layers: int) -> None:
    """Prints milliseconds to compile, and steps of the plan."""
    sys.path.insert(0, str(HERE.parent / "distributed"))
    import simulated
    import torchacc
    from torchacc.auto.simulate import world

    with world(ranks):
        step = simulated.training(layers, WIDTH, BATCH, LENGTH, 0, recomputed=True)
        step(0)
        torchacc.sync()
        torchacc.reset_metrics()
        step(1)
        torchacc.sync()
    plan = torchacc.last_program().partition("# plan")[2]
    print(json.dumps([torchacc.metrics()["compile_ns"] / 1e6, plan.count("\n") - 1]))


def process(ranks: int, lanes: str, layers: int) -> list[float]:
    command = [sys.executable, __file__, "--worker", str(ranks), str(layers)]
    own = {"TORCHACC_BACKEND": "null", "TORCHACC_CACHE_DIR": "off", "TORCHACC_LANES": lanes}
    return json.loads(subprocess.check_output(command, env=os.environ | own))


def main(counts: list[int]) -> None:
    print(f"{'layers':>6}  {'':20}{'steps':>7}{'compile':>10}{'a layer':>9}")
    for layers in counts:
        for name, (ranks, lanes) in WAYS.items():
            rounds = [process(ranks, lanes, layers) for _ in range(ROUNDS)]
            took, steps = (statistics.median(column) for column in zip(*rounds, strict=True))
            row = f"{layers:6}  {name:20}{steps:7.0f}{took:7.0f} ms{took / layers:6.1f} ms"
            print(row, flush=True)


if __name__ == "__main__":
    if "--worker" in sys.argv:
        measure(*map(int, sys.argv[2:]))
    else:
        main([int(count) for count in sys.argv[1:]] or [4, 12, 48])

"""How much of the time in collectives is hidden behind kernels, on a slow network.

    make bench-overlap                     four processes; SPEED=megabytes a second of their links
    make bench-overlap RANKS=2 LAYERS=12
    make bench-overlap ENGINES="ddp fsdp2"

Each engine of torch_extension/tests/engines is trained three times: with the network as fast as the
machine, and on slow links with collectives one by one (TORCHACC_LANES=0) and on lanes. Medians of
the time of a step. *Hidden* is the part of the time that the slow network adds which lanes take
away again; *exposed* what the launch thread waited for lanes. The losses must have the same bits.
*Simulated* is what `torchacc.auto.simulate` makes of the plans of both, with products, copies and
links as the ranks measure them together, and the time in which Python records.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
USUAL = ["ddp", "fsdp2", "sequence_parallel"]
WARM = 6


def measure(names, steps, layers, width):
    """In a rank: for each engine the medians of a step, and its losses."""
    import torch
    import torch.distributed as dist
    import torchacc
    from engines import ENGINES, MODELS
    from engines.data_parallel import parallel
    from engines.models import trained
    from torchacc.auto import Cluster
    from torchacc.auto.collectives import Group
    from torchacc.auto.simulate import simulate

    torch.set_num_threads(1)
    dist.init_process_group()

    def ddp(device, build):
        """As many buckets as a model of the usual size has with PyTorch's 25 MB."""
        return trained(parallel(device, build, bucket_cap_mb=2), device)

    class Sized(MODELS["llama"]):
        def __init__(self, layers=layers):
            super().__init__(layers=layers, width=width)

    cluster = Cluster.local_cpu(dist.get_world_size(), device="acc", together=True)
    group = Group(dist.get_world_size(), 1)
    made = {}
    for name in names:
        step = {**ENGINES, "ddp": ddp}[name]("acc", Sized)
        samples, losses = [], []
        for number in range(WARM + steps):
            dist.barrier()
            torchacc.reset_metrics()
            began = time.perf_counter()
            loss = step(number)
            recorded = time.perf_counter() - began
            losses.append(loss.item())
            torchacc.sync()
            took, metrics = time.perf_counter() - began, torchacc.metrics()
            if number >= WARM:
                assert metrics["compiles"] == 0
                counts = ("collective_ns", "collective_exposed_ns", "overlapped_collectives")
                counted = (metrics[count] for count in counts)
                samples.append([took * 1e3, *counted, recorded * 1e3])
        medians = [statistics.median(column) for column in zip(*samples, strict=True)]
        *medians, recording = medians
        simulated = simulate(torchacc.last_program(), cluster, {"all": group})
        made[name] = {
            "medians": medians,
            "losses": losses,
            "peak": metrics["peak_bytes"],
            "simulated": 1e3 * simulated.seconds + recording,
        }
    dist.barrier()
    if dist.get_rank() == 0:
        Path(os.environ["OVERLAP_RESULT"]).write_text(json.dumps(made))
    dist.destroy_process_group()


def run(args, lanes, speed, library):
    """What rank 0 measured."""
    with tempfile.NamedTemporaryFile() as result:
        environment = {**os.environ, "TORCHACC_LANES": str(lanes), "OVERLAP_RESULT": result.name}
        environment.update({"OMP_NUM_THREADS": "1", "TORCHACC_NUM_THREADS": "1"})
        if speed:
            environment.update({"LD_PRELOAD": library, "SLOW_LINK_MBPS": str(speed)})
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        command += ["--nproc-per-node", str(args.ranks), str(HERE / "overlap.py"), *args.engines]
        command += ["--worker", "--steps", str(args.steps)]
        command += ["--layers", str(args.layers), "--width", str(args.width)]
        subprocess.run(command, env=environment, check=True)
        return json.loads(Path(result.name).read_text())


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("engines", nargs="*", default=USUAL)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--speed", type=float, default=100.0, help="megabytes a second")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        return measure(args.engines, args.steps, args.layers, args.width)
    with tempfile.TemporaryDirectory() as folder:
        library = f"{folder}/slow_link.so"
        source = HERE / "slow_link.c"
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
        fast = run(args, 1, None, library)
        serial = run(args, 0, args.speed, library)
        lanes = run(args, 1, args.speed, library)
    print(f"{args.ranks} processes; milliseconds a step; links of {args.speed} MB/s")
    print(f"{'':20} {'fast':>8} {'serial':>8} {'lanes':>8} {'network':>8} {'hidden':>7}", end="")
    print(f" {'in collectives':>15} {'exposed':>8} {'peak':>6}", end="")
    print(f" {'simulated: serial':>18} {'lanes':>8}")
    for name in args.engines:
        assert lanes[name]["losses"] == serial[name]["losses"], f"{name}: other losses"
        times = [of[name]["medians"][0] for of in (fast, serial, lanes)]
        added = times[1] - times[0]
        _, inside, exposed, _ = lanes[name]["medians"]
        print(
            f"{name:20} {times[0]:8.1f} {times[1]:8.1f} {times[2]:8.1f} {added / times[1]:8.0%}"
            f" {(times[1] - times[2]) / added:7.0%} {inside / 1e6:15.1f} {exposed / 1e6:8.1f}"
            f" {lanes[name]['peak'] / serial[name]['peak']:6.2f}"
            f" {serial[name]['simulated']:18.1f} {lanes[name]['simulated']:8.1f}"
        )


if __name__ == "__main__":
    main()

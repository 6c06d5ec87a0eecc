"""The command `torchacc`: runs scripts in several processes, plans strategies, checks, explains and
reports.

    torchacc run -n 4 train.py ...          in 4 processes, by torchrun, whose options go before the
                                            script, too
    torchacc plan model.py --cluster a100 --nodes 128 --batch 1024
    torchacc check [config.yaml] [-n 8]     what is installed, and if a configuration is right
    torchacc explain train.py ...           runs it, then says what was compiled and why
    torchacc report train.py ...            runs it, then writes report.html: where the time went

`python -m torchacc` is the same.
"""

import argparse
import os
import runpy
import sys
from pathlib import Path

import torch

import torchacc
from torchacc.config import Config, StrategyConfig


def main(arguments: list[str] | None = None) -> None:
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["run"] and given[1:] not in (["-h"], ["--help"]):
        run(given[1:])
        return
    parser = argparse.ArgumentParser(
        prog="torchacc", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="command")
    for add in (_run, _plan, _check, _explain, _report):
        add(commands)
    options = parser.parse_args(given)
    options.command(options)


def _run(commands) -> None:
    # For the help alone: what is torchrun's and what the script's, only the order says.
    parser = commands.add_parser("run", help="a script in several processes")
    parser.add_argument("-n", type=int, default=1, help="processes on this machine")
    parser.add_argument("rest", nargs="*", help="torchrun's options, script and its arguments")


def run(arguments: list[str]) -> None:
    from torch.distributed.run import main as torchrun

    count, rest = "1", arguments
    if rest[:1] == ["-n"]:
        count, rest = "".join(rest[1:2]), rest[2:]
    if not count.isdigit() or not rest:
        raise SystemExit("usage: torchacc run [-n PROCESSES] [torchrun's options] script ...")
    begin = next((at for at, one in enumerate(rest) if one == "-m" or Path(one).is_file()), 0)
    elsewhere = ("--rdzv", "--master", "--standalone", "--nnodes")
    is_alone = not any(one.startswith(elsewhere) for one in rest[:begin])
    torchrun(["--standalone"] * is_alone + ["--nproc-per-node", count, *rest])


def _plan(commands) -> None:
    parser = commands.add_parser("plan", help="the fastest strategy for a model on a cluster")
    parser.add_argument("script", type=Path, help="defines model(), and inputs() for a module")
    parser.add_argument("--cluster", required=True, help="v100, a100, h100, or a file")
    parser.add_argument("--nodes", type=int, help="instead of the cluster's own number")
    parser.add_argument("--batch", type=int, required=True, help="sequences of a step")
    parser.add_argument(
        "--config", default="auto", help="a file of a Config, whose strategy.mode says what is open"
    )
    parser.add_argument("--bf16", action="store_true", help="of 'auto'")
    parser.add_argument("--save", type=Path, help="the Config that is found, as YAML or JSON")
    parser.add_argument("--pictures", type=Path, help="a folder for memory.png, pipeline.png")
    parser.set_defaults(command=plan)


def plan(options) -> None:
    from torchacc.auto import Cluster
    from torchacc.auto import plan as search

    defined = runpy.run_path(str(options.script))
    if "model" not in defined:
        raise SystemExit(f"torchacc plan: {options.script} defines no model()")
    cluster = Cluster.load(options.cluster, **({"nodes": options.nodes} if options.nodes else {}))
    if options.config == "auto":
        config = Config(strategy=StrategyConfig("auto"))
        config.compute.bf16 = options.bf16
    else:
        config = Config.from_file(options.config)
    with torch.device("meta"):
        model = defined["model"]()
        inputs = defined["inputs"]() if "inputs" in defined else None
    found = search(model, cluster, batch=options.batch, inputs=inputs, config=config)
    print(found.table(), found.explain(), sep="\n\n")
    if options.save:
        is_json = options.save.suffix == ".json"
        options.save.write_text(found.config.to_json() if is_json else found.config.to_yaml())
        print(f"configuration: {options.save}")
    if options.pictures:
        from torchacc.auto.pictures import memory, pipeline

        options.pictures.mkdir(parents=True, exist_ok=True)
        for name, draw in (("memory.png", memory), ("pipeline.png", pipeline)):
            if draw(found, options.pictures / name):
                print(f"picture: {options.pictures / name}")


def _check(commands) -> None:
    parser = commands.add_parser("check", help="what is installed, and a configuration")
    parser.add_argument("config", nargs="?", help="a file of a Config")
    parser.add_argument("-n", type=int, default=1, help="processes that it is for")
    parser.set_defaults(command=check)


def check(options) -> None:
    x = torch.arange(4.0, device="acc", requires_grad=True)
    (x * x).sum().backward()
    if x.grad.tolist() != [0, 2, 4, 6]:
        raise SystemExit(f"torchacc check: a gradient is {x.grad.tolist()}")
    place = Path(torchacc.__file__).parent
    print(f"torch {torch.__version__}, torchacc {torchacc.__version__} at {place}")
    print(f"acc computes on {torch.acc.get_device_name()}, {os.cpu_count()} processors")
    for name in ("transformers", "accelerate", "peft", "trl", "lightning"):
        try:
            module = __import__(name)
        except ImportError:
            continue
        print(f"{name} {module.__version__}")
    if options.config:
        try:
            config = Config.from_file(options.config)
            sizes = config.mesh(options.n)
        except (ValueError, OSError) as error:
            raise SystemExit(f"torchacc check: {options.config}: {error}") from error
        print(" x ".join(f"{axis} {size}" for axis, size in sizes.items()), "is right")


def _explain(commands) -> None:
    parser = commands.add_parser("explain", help="what a script compiles, and why")
    parser.add_argument("rest", nargs=argparse.REMAINDER, help="script and its arguments")
    parser.set_defaults(command=explain)


def explain(options) -> None:
    try:
        _run_script("explain", options.rest)
        torchacc.sync()
    finally:
        sys.stdout.flush()
        print(torchacc.explain())


def _report(commands) -> None:
    parser = commands.add_parser("report", help="a page that shows a script's run")
    parser.add_argument("-o", "--out", type=Path, default="report.html", help="the page")
    parser.add_argument("rest", nargs=argparse.REMAINDER, help="script and its arguments")
    parser.set_defaults(command=report)


def report(options) -> None:
    from torchacc._report import whole_run

    with whole_run(options.out, options.rest):
        _run_script("report", options.rest)


def _run_script(command: str, rest: list[str]) -> None:
    """Runs a script as if it had been started with its arguments alone."""
    if not rest:
        raise SystemExit(f"torchacc {command}: which script?")
    sys.argv = rest
    sys.path[0] = os.path.dirname(os.path.abspath(rest[0]))
    runpy.run_path(rest[0], run_name="__main__")


if __name__ == "__main__":
    main()

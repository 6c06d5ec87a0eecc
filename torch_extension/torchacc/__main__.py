"""The command `torchacc`: runs scripts in several processes, plans, checks, explains, reports and
converts.

    torchacc run -n 4 train.py ...          in 4 processes, by torchrun, whose options go before the
                                            script, too
    torchacc plan model.py --cluster a100 --nodes 128 --batch 1024
    torchacc check [-n 8]                   what is installed, and if devices and links are slow or
                                            wrong; in 8 processes here, or in those of torchrun
    torchacc check config.yaml [-n 8]       if a configuration is right
    torchacc compare runs/a runs/b          where two runs that were recorded part
    torchacc explain train.py ...           runs it, then says what was compiled and why
    torchacc report train.py ...            runs it, then writes report.html: where the time went
    torchacc convert in out --to megatron   a checkpoint to another format or layout
    torchacc consolidate --ckpt_dir shards  what ranks saved, in one piece; reshard: in others

`python -m torchacc` is the same.
"""

import argparse
import contextlib
import os
import runpy
import sys
from pathlib import Path

import torch

import torchacc
from torchacc.config import Config, StrategyConfig

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "f64": torch.float64}
UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9}


def main(arguments: list[str] | None = None) -> None:
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["run"] and given[1:] not in (["-h"], ["--help"]):
        run(given[1:])
        return
    parser = argparse.ArgumentParser(
        prog="torchacc", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="command")
    for add in (_run, _plan, _check, _compare, _explain, _report, _convert, _consolidate, _reshard):
        add(commands)
    options = parser.parse_args(given)
    options.command(options)


def _run(commands) -> None:
    # For the help only: torchrun's arguments and the script's are told apart by their order alone.
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
    with _ending_as_ranks():
        torchrun(["--standalone"] * is_alone + ["--nproc-per-node", count, *rest])


@contextlib.contextmanager
def _ending_as_ranks():
    """Ends with the exit code of the rank that was the reason, where one fails."""
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    from torchacc.health.exits import of_processes

    try:
        yield
    except ChildFailedError as error:
        print(error, file=sys.stderr)
        raise SystemExit(of_processes([one.exitcode for one in error.failures.values()])) from None


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


def plan(options: argparse.Namespace) -> None:
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
    parser = commands.add_parser("check", help="what is installed, devices and links, a Config")
    parser.add_argument("config", nargs="?", help="a file of a Config, instead of the devices")
    parser.add_argument("-n", type=int, help="processes: to start, or that the Config is for")
    text = "of the median's time, from which a device is slow (1.75)"
    parser.add_argument("--factor", type=float, default=1.75, help=text)
    parser.set_defaults(command=check)


def check(options: argparse.Namespace) -> None:
    if int(os.environ.get("RANK", "0")) == 0:
        _check_installed()
    if options.config:
        try:
            config = Config.from_file(options.config)
            sizes = config.mesh(options.n or 1)
        except (ValueError, OSError) as error:
            raise SystemExit(f"torchacc check: {options.config}: {error}") from error
        print(" x ".join(f"{axis} {size}" for axis, size in sizes.items()), "is right")
        return
    from torchacc.health import checking, exits

    processes = options.n or max(1, torch.cuda.device_count())
    if "RANK" in os.environ:
        report = checking.check_ranks(options.factor)
    elif processes > 1:
        with _ending_as_ranks():
            report = checking.launch(processes, options.factor)
    else:
        report = checking.check(factor=options.factor)
    if int(os.environ.get("RANK", "0")) == 0:
        print(report)
    if report.findings:
        raise SystemExit(exits.DEVICE)


def _check_installed() -> None:
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


def _compare(commands) -> None:
    parser = commands.add_parser("compare", help="where two runs that were recorded part")
    parser.add_argument("first", help="a folder that torchacc.health.Recorder wrote")
    parser.add_argument("second", help="another one")
    parser.add_argument("--rtol", type=float, default=1e-3, help="of the largest magnitude (1e-3)")
    parser.add_argument("--atol", type=float, default=1e-6, help="beside that (1e-6)")
    parser.set_defaults(command=compare)


def compare(options: argparse.Namespace) -> None:
    from torchacc.health import compare_runs

    try:
        tolerances = {"rtol": options.rtol, "atol": options.atol}
        difference = compare_runs(options.first, options.second, **tolerances)
    except (ValueError, OSError) as error:
        raise SystemExit(f"torchacc compare: {error}") from error
    print(difference or "no difference")
    raise SystemExit(int(difference is not None))


def _explain(commands) -> None:
    parser = commands.add_parser("explain", help="what a script compiles, and why")
    parser.add_argument("rest", nargs=argparse.REMAINDER, help="script and its arguments")
    parser.set_defaults(command=explain)


def explain(options: argparse.Namespace) -> None:
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


def report(options: argparse.Namespace) -> None:
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


def _convert(commands) -> None:
    parser = commands.add_parser("convert", help="a checkpoint to another format or layout")
    parser.add_argument("source", type=Path, help="a folder, or a safetensors file")
    parser.add_argument("target", type=Path, help="a folder that is not there")
    parser.add_argument(
        "--to", required=True, choices=["safetensors", "dcp", "checkpoint", "megatron"]
    )
    parser.add_argument("--dtype", choices=sorted(DTYPES), help="of the model's floats")
    parser.add_argument("--key", help="which part of a DCP's state is the model")
    parser.add_argument("--files", type=int, default=1, help="of DCP, each with some rows of all")
    parser.add_argument(
        "--shard-size", type=_bytes, default=5 << 30, help="of safetensors, as 5GB or 200MB"
    )
    parser.add_argument("--tp", type=int, default=1, help="Megatron's tensor parallel ranks")
    parser.add_argument("--pp", type=int, default=1, help="Megatron's pipeline stages")
    parser.add_argument("--heads", type=int, help="of attention, where no config.json says it")
    parser.add_argument("--vocab-size", type=int, help="of Megatron's source, without padding")
    parser.add_argument(
        "--vocab-multiple", type=int, default=128, help="times tp: what Megatron's is padded to"
    )
    parser.add_argument("--step", type=int, help="of the training that the target is of")
    parser.add_argument("--progress", action="store_true", help="say how long it still takes")
    parser.set_defaults(command=convert)


def convert(options: argparse.Namespace) -> None:
    named = vars(options)
    for name in ("command", "source", "target", "to", "dtype", "progress"):
        named = {key: value for key, value in named.items() if key != name}
    dtype = DTYPES.get(options.dtype)
    _converted("convert", options, options.source, options.target, options.to, dtype=dtype, **named)


def _converted(command: str, options, *arguments, **named) -> None:
    from torchacc import convert, set_progress

    if options.progress:
        set_progress(True)
    function = convert.convert if command == "convert" else convert.consolidate
    try:
        function(*arguments, **named)
    except (convert.ConversionError, OSError) as error:
        raise SystemExit(f"torchacc {command}: {error}") from error


def _consolidate(commands) -> None:
    parser = commands.add_parser("consolidate", help="what ranks have saved as one state dict")
    _add_ranks_files(parser)
    parser.add_argument("--model_save_name_pattern", default="model_consolidated.pth")
    parser.add_argument("--optimizer_save_name_pattern", default="optimizer_consolidated.pth")
    parser.set_defaults(command=consolidate, reshard_num=1)


def _reshard(commands) -> None:
    parser = commands.add_parser("reshard", help="what ranks have saved as DCP of other parts")
    _add_ranks_files(parser)
    parser.add_argument("--reshard_num", type=int, required=True, help="parts")
    parser.set_defaults(command=consolidate)


def _add_ranks_files(parser) -> None:
    """With the names of TorchAcc's `consolidate_and_reshard_fsdp_ckpts`."""
    parser.add_argument("--ckpt_dir", type=Path, required=True, help="of the ranks' files, or DCP")
    parser.add_argument("--ckpt_type", choices=["all", "model", "optimizer"], default="all")
    parser.add_argument("--model_ckpt_name_pattern", default="rank-*-of-*-model.pth")
    parser.add_argument("--optimizer_ckpt_name_pattern", default="rank-*-of-*-optimizer.pth")
    parser.add_argument(
        "--save_dir", type=Path, help="a new folder; in ckpt_dir if it is not given"
    )
    parser.add_argument("--progress", action="store_true", help="say how long it still takes")


def consolidate(options: argparse.Namespace) -> None:
    is_one = options.reshard_num == 1
    command = "consolidate" if is_one else "reshard"
    inside = "consolidated" if is_one else f"resharded_{options.reshard_num}"
    named = {}
    if hasattr(options, "model_save_name_pattern"):
        named["model_name"] = options.model_save_name_pattern
        named["optimizer_name"] = options.optimizer_save_name_pattern
    _converted(
        command,
        options,
        options.ckpt_dir,
        options.save_dir or options.ckpt_dir / inside,
        parts=options.reshard_num,
        kind=options.ckpt_type,
        model_pattern=options.model_ckpt_name_pattern,
        optimizer_pattern=options.optimizer_ckpt_name_pattern,
        **named,
    )


def _bytes(text: str) -> int:
    number, unit = text[:-2], UNITS.get(text[-2:].upper())
    if unit is None or not number.isdigit() or int(number) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no size as 5GB or 200MB")
    return int(number) * unit


if __name__ == "__main__":
    main()

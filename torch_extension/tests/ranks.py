"""Runs a function of a module in several processes at once, each a rank of one process group.

`run` starts them all: forks of a process that has imported everything, or, where the environment
forbids that, `python -m ranks MODULE FUNCTION [ARGUMENT...]`.
"""

import datetime
import importlib
import json
import os
import subprocess
import sys
import traceback
from pathlib import Path

import forked

# Said before what a function returns.
MARK = "returned "
BACKENDS = "cpu:gloo,acc:acc"


def run(name, size, *arguments, timeout=300, backend=BACKENDS, seconds=60, fails=(), **variables):
    """What `MODULE.FUNCTION` returns on each rank, by way of JSON; of ranks in `fails`, which may
    end as they like, what they wrote.

    `seconds`: how long a collective may take. `backend`: "" for the one that is chosen, "none" for
    functions that make the group themselves.
    """
    store, processes = start(name, size, *arguments, backend=backend, seconds=seconds, **variables)
    written = [""] * size
    late = []
    try:
        # Those that go wrong last: one that is stopped does not end by itself.
        for rank in sorted(range(size), key=lambda rank: rank in fails):
            if rank in fails:
                processes[rank].kill()
            written[rank], _ = processes[rank].communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        late = [rank for rank, process in enumerate(processes) if process.poll() is None]
        for rank in late:
            processes[rank].kill()
        written = [process.communicate()[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    # Why one waits may be what another one says.
    assert not late, "\n".join([f"ranks {late} were not done in {timeout} s", *written])
    made = []
    for rank, (process, text) in enumerate(zip(processes, written, strict=True)):
        if rank in fails:
            made.append(text)
            continue
        lines = [line for line in text.splitlines() if line.startswith(MARK)]
        # What went wrong first may be another rank's.
        assert process.returncode == 0, "\n".join(written)
        assert "] Warning: " not in text, text
        made.append(json.loads(lines[-1].removeprefix(MARK)))
    return made


def start(name, size, *arguments, backend=BACKENDS, seconds=60, **variables):
    """The store and the processes of `run`, which has the arguments described."""
    store = hosted_store()
    module, function = name.split(".")
    arguments = [module, function, *map(str, arguments)]
    environment = {
        **os.environ,
        "MASTER_ADDR": store.host,
        "MASTER_PORT": str(store.port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "WORLD_SIZE": str(size),
        "OMP_NUM_THREADS": "1",
        "TORCHACC_NUM_THREADS": "1",
        "RANKS_BACKEND": backend,
        "RANKS_SECONDS": str(seconds),
        "PYTHONPATH": os.pathsep.join(
            [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
        ),
        **variables,
    }
    made = []
    for rank in range(size):
        own = environment | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        made.append(forked.start("ranks", arguments, own) or _started(arguments, own))
    return store, made


def _started(arguments, environment):
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "ranks", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def call(*names):
    """What became of each `MODULE.FUNCTION`, by name: one failure does not hide the others."""
    made = {}
    for name in names:
        module, function = name.split(".")
        try:
            made[function] = getattr(importlib.import_module(module), function)()
        except Exception:
            made[function] = traceback.format_exc()
    return made


def called(size, calls, **options):
    """What `call` returns on each rank for these functions."""
    names = [f"{one.__module__}.{one.__name__}" for one in calls]
    return run("ranks.call", size, *names, timeout=300, **options)


def hosted_store():
    """A store that outlives the ranks, as torchrun's does: the first rank may be done before the
    others have asked where it is, and would take a store of its own with it."""
    from torch.distributed import TCPStore

    return TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)


def meet():
    """Waits for the other ranks: of a group that waits for seconds only none may come later."""
    from torch.distributed import TCPStore

    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = TCPStore(*place, is_master=False, timeout=datetime.timedelta(seconds=60))
    store.set(f"here/{rank}", "")
    store.wait([f"here/{other}" for other in range(size)])


def main(module, function, *arguments):
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    backend = os.environ["RANKS_BACKEND"] or None
    timeout = datetime.timedelta(seconds=float(os.environ["RANKS_SECONDS"]))
    if backend != "none":
        meet()
        dist.init_process_group(backend, timeout=timeout)
    made = getattr(importlib.import_module(module), function)(*arguments)
    print(MARK + json.dumps(made), flush=True)
    if dist.is_initialized():
        dist.destroy_process_group()
    # Processes that have used gloo sometimes end by "terminate called without an active exception"
    # in PyTorch 2.11, with and without torchacc, when its threads are taken down at the exit.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])

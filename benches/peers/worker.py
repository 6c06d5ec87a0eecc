"""What every worker does: answer the driver's lines, one JSON object each."""

import json
import os
import resource
import sys
import time

# The driver's pipe; whatever a library prints goes to stderr instead.
_pipe = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def resident_mb() -> float:
    """Resident memory of this process now."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def send(**answer):
    _pipe.write(json.dumps(answer) + "\n")
    _pipe.flush()


def serve(versions: dict, make, memory=None):
    """Answers until the driver says "end". On a GPU `memory()` is what counts its memory, as
    `torch.cuda` does; without it the growth of the process's resident memory is the peak.

    `make()` builds what is measured and returns (amount, batch, step, finish). `amount` says what
    one step costs at least, {"gigabytes"} or {"gigaflops"}, or nothing. `batch(n)` gives the data
    of step n and its checksum; this is not timed. `step(data)` runs one whole step and returns a
    function that gives its loss as a float; `finish()` waits for its end.
    """
    try:
        answer(versions, make, memory)
    except Exception as error:
        send(error=f"{type(error).__name__}: {error}")
        raise


def answer(versions: dict, make, memory):
    before, highest = resident_mb(), 0.0
    amount, batch, step, finish = make()
    counter = memory() if memory else None
    send(versions=versions, amount=amount)
    for number, line in enumerate(sys.stdin):
        if line.strip() == "end":
            resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            send(peak_mb=highest if counter else resident - before)
            return
        data, checksum = batch(number)
        if counter:
            # When the clock starts, the last results are gone and nothing is on its way there.
            loss = None
            finish()
            counter.reset_peak_memory_stats()
        start = time.perf_counter()
        loss = step(data)
        host = time.perf_counter() - start
        finish()
        seconds = time.perf_counter() - start
        if counter:
            # Before the loss is made, which takes memory, too.
            highest = max(highest, counter.max_memory_allocated() / 2**20)
        send(seconds=seconds, host=host, loss=loss(), data=checksum)

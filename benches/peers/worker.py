"""What every worker does: answer the driver's lines, one JSON object each."""

import json
import os
import resource
import sys
import time

# The work "gpt": a decoder of 10.6 M parameters and its embeddings, AdamW, tied input and output.
GPT = {
    "layers": 6,
    "width": 384,
    "heads": 6,
    "context": 256,
    "batch": 8,
    "vocabulary": 8192,
    "lr": 3e-4,
    "betas": (0.9, 0.95),
    "weight_decay": 0.1,
}

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


def serve(versions: dict, make_step):
    """Answers until the driver says "end". `make_step()` builds the model and returns a function
    that runs one whole step, waits for it and returns its loss as a float."""
    before = resident_mb()
    step = make_step()
    send(versions=versions)
    for line in sys.stdin:
        if line.strip() == "end":
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            send(peak_mb=peak - before)
            return
        start = time.perf_counter()
        loss = step()
        send(seconds=time.perf_counter() - start, loss=loss)

"""PyTorch's engines for several processes, each as a training that runs on any device.

An engine is a function of a device and a class of models; it gives another one, of the number of a
step, that trains one step and gives its loss.
"""

import torchacc

from engines import data_parallel, pipelines, sharded, tensor_parallel
from engines.counted import CollectiveBytes
from engines.models import MODELS, adamw, batch_of, global_batch_of, loss_of, model_of

MODULES = [data_parallel, sharded, tensor_parallel, pipelines]
ENGINES = {
    name: engine
    for module in MODULES
    for name, engine in vars(module).items()
    if name in module.ENGINES
}


def train(model, steps, *names):
    """For each engine its losses on the CPU and on acc, and what the steps of acc took."""
    made = {}
    for name in names:
        expected = ENGINES[name]("cpu", MODELS[model])
        cpu, sent = [], []
        for number in range(int(steps)):
            with CollectiveBytes() as counted:
                cpu.append(expected(number).item())
            sent.append(counted.bytes)
        step = ENGINES[name]("acc", MODELS[model])
        ran = [counts_of(step, number) for number in range(int(steps))]
        acc = [loss.item() for loss, _ in ran]
        made[name] = {"cpu": cpu, "acc": acc, "sent": sent, "counts": [counts for _, counts in ran]}
    return made


def counts_of(step, number):
    """The loss of a step of acc, unread, and what the step took."""
    torchacc.reset_metrics()
    loss = step(number)
    cuts = torchacc.metrics()["cuts"]
    torchacc.sync()
    metrics = torchacc.metrics()
    kept = ("compiles", "host_calls", "immediate_runs", "collectives", "collective_bytes")
    kept += ("engine_runs", "engine_compiles")
    return loss, {"cuts": cuts, **{name: metrics[name] for name in kept}}


def one_process(model, steps):
    """The losses of plain PyTorch: of all ranks' batches together, and of the one that all have."""
    made = {}
    for kind, batch in (("global", global_batch_of), ("same", lambda n: batch_of(n, "cpu", True))):
        whole = model_of(MODELS[model], "cpu")
        optimizer = adamw(whole.parameters())
        made[kind] = []
        for number in range(int(steps)):
            tokens, targets = batch(number)
            loss = loss_of(whole(tokens), targets)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            made[kind].append(loss.item())
    return made

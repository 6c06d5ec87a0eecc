"""Processes that measure models; one that crashes or hangs costs its model only."""

import multiprocessing
import os
from concurrent.futures import ThreadPoolExecutor

# Without a sign of life for so many seconds a model has hung.
PATIENCE = 60


class Workers:
    """`run(names)` is a future of figures for each name."""

    def __init__(self, count):
        self.threads = ThreadPoolExecutor(count)
        self.idle = [Worker() for _ in range(count)]

    def run(self, names) -> dict:
        return {name: self.threads.submit(self._measure, name) for name in names}

    def _measure(self, name) -> dict:
        worker = self.idle.pop()
        try:
            return worker.measure(name)
        finally:
            self.idle.append(worker)

    def stop(self):
        self.threads.shutdown(cancel_futures=True)
        for worker in self.idle:
            worker.stop()


class Worker:
    """A process that is started when there is something to do."""

    process = None

    def measure(self, name) -> dict:
        if self.process is None:
            context = multiprocessing.get_context("spawn")
            self.pipe, other = context.Pipe()
            self.process = context.Process(target=_serve, args=(other,), daemon=True)
            self.process.start()
            other.close()
        self.pipe.send(name)
        try:
            while self.pipe.poll(PATIENCE):
                answer = self.pipe.recv()
                if answer is not None:
                    return answer
            error = f"hung: nothing happened for {PATIENCE} s"
        except EOFError:
            self.process.join()
            error = f"crashed: exit status {self.process.exitcode}"
        self.stop()
        return {"error": error}

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.process = None


def _serve(pipe):
    """Answers a name with figures, and sends None now and then while it is busy."""
    import measure
    import models
    import torch

    torch.set_num_threads(1)
    os.environ["TORCHACC_NUM_THREADS"] = "1"
    while True:
        program = models.PROGRAMS[pipe.recv()]
        pipe.send(measure.measure(program.make, lambda: pipe.send(None)))

"""Processes that measure models; one that crashes or hangs costs its model only."""

import multiprocessing
import os
from concurrent.futures import ThreadPoolExecutor

# Without a sign of life for so many seconds a model has hung.
PATIENCE = 60


class Workers:
    """`run(names)` is a future of figures for each name: one model after the other, each on one
    thread and then its times on two, as `two_threads`."""

    def __init__(self):
        self.queue = ThreadPoolExecutor(1)
        self.workers = [Worker(1), Worker(2)]

    def run(self, names) -> dict:
        return {name: self.queue.submit(self._measure, name) for name in names}

    def _measure(self, name) -> dict:
        one, two = (worker.measure(name) for worker in self.workers)
        return one | {"two_threads": two}

    def stop(self):
        self.queue.shutdown(cancel_futures=True)
        for worker in self.workers:
            worker.stop()


class Worker:
    """A process that is started when there is something to do, and computes on so many threads."""

    process = None

    def __init__(self, threads):
        self.threads = threads

    def measure(self, name) -> dict:
        if self.process is None:
            context = multiprocessing.get_context("spawn")
            self.pipe, other = context.Pipe()
            arguments = (other, self.threads)
            self.process = context.Process(target=_serve, args=arguments, daemon=True)
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


def _serve(pipe, threads):
    """Answers a name with figures, and sends None now and then while it is busy."""
    os.environ["OMP_NUM_THREADS"] = os.environ["TORCHACC_NUM_THREADS"] = str(threads)
    import measure
    import models
    import torch

    torch.set_num_threads(threads)
    asked = measure.measure if threads == 1 else measure.times
    while True:
        program = models.PROGRAMS[pipe.recv()]
        pipe.send(asked(program.make, lambda: pipe.send(None)))

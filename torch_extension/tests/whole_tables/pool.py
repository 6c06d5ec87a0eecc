"""Processes that run tests; one that crashes or hangs costs its test only."""

import multiprocessing
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor

# Seconds that a test may take; the longest ones take a tenth of that.
PATIENCE = 180
# Tests of a process; what it keeps of each adds up.
TESTS = 1000


class Pool:
    def __init__(self, count):
        self.threads = ThreadPoolExecutor(count)
        self.idle = [Worker() for _ in range(count)]

    def run(self, names):
        """Each test, a topic and a name, with its outcome, in order."""
        futures = [(name, self.threads.submit(self._run, name)) for name in names]
        for name, future in futures:
            yield name, future.result()

    def _run(self, name):
        worker = self.idle.pop()
        try:
            return worker.run(name)
        finally:
            self.idle.append(worker)

    def stop(self):
        self.threads.shutdown(cancel_futures=True)
        for worker in self.idle:
            worker.stop()


class Worker:
    """A process that is started when there is something to do."""

    process, count = None, 0

    def run(self, name):
        if self.count == TESTS:
            self.stop()
        self.count += 1
        if self.process is None:
            context = multiprocessing.get_context("spawn")
            self.pipe, other = context.Pipe()
            self.process = context.Process(target=_serve, args=(other,), daemon=True)
            self.process.start()
            other.close()
            self.pipe.recv()
        self.pipe.send(name)
        try:
            if self.pipe.poll(PATIENCE):
                return self.pipe.recv()
            outcome = "failed", f"hung: more than {PATIENCE} s"
        except EOFError:
            self.process.join()
            outcome = "failed", f"crashed: exit status {self.process.exitcode}"
        self.stop()
        return outcome

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.process, self.count = None, 0


def _serve(pipe):
    from .topics import TOPICS, listed

    pipe.send(None)
    known = {topic: listed(topic) for topic in TOPICS}
    while True:
        topic, name = pipe.recv()
        pipe.send(outcome(topic, known[topic][name]))


def outcome(topic, test):
    """`passed` with the calls that the CPU takes, `skipped` without one, `failed` with why."""
    from .compare import Differs
    from .topics import TOPICS

    try:
        calls = TOPICS[topic].check(*test)
    except Differs as difference:
        return "failed", str(difference)
    except Exception as error:
        # What the table itself or the CPU's side of a test cannot do.
        place = traceback.extract_tb(sys.exception().__traceback__)[-1]
        return "error", f"{type(error).__name__}: {str(error)[:160]} ({place.name}:{place.lineno})"
    return ("passed", calls) if calls else ("skipped", 0)

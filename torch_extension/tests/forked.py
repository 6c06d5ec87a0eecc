"""Ranks that begin with everything imported: one process imports it, and each rank is a fork of it.

Importing PyTorch, its engines and the models takes longer than what most tests do with them.
`python -m forked` is the process that is forked. It has used no device and has no second thread.
"""

import contextlib
import functools
import importlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time

IMPORTED = (
    "torch.distributed.fsdp",
    "torch.distributed.tensor.parallel",
    "torch.distributed.pipelining",
    "torch.distributed.checkpoint",
    "torchacc",
    "accelerated",
    "divided",
    "group_calls",
    "checkpointed",
)
# Read while these are imported, or by libraries when they are loaded.
READ_EARLY = {
    "TORCHACC_AUTOLOAD",
    "TORCHACC_DEVICES",
    "TORCHACC_EVENTS",
    "TORCHACC_EXPLAIN",
    "TORCHACC_FORCE_HOST",
    "TORCHACC_HOST_OPS",
    "TORCHACC_METRICS",
    "TORCHACC_PROGRESS",
}
OURS = ("TORCHACC_", "RANKS_", "ENGINES_", "TORCHELASTIC_", "MASTER_", "PYTEST_")
RANKS = {"RANK", "LOCAL_RANK", "WORLD_SIZE"}


def start(arguments, environment):
    """A process of `ranks.main(*arguments)` in this environment. None where what was imported
    already may depend on it."""
    parent = _parent(json.dumps(_early(environment)))
    return parent.start(arguments, environment) if parent is not None else None


def _early(environment):
    """What imports may depend on."""
    late = {name for name in environment if name.startswith(OURS) or name in RANKS} - READ_EARLY
    return {name: environment[name] for name in sorted(environment) if name not in late}


@functools.cache
def _parent(early):
    """The first environment has one; others, which are few, import for themselves."""
    return Parent(json.loads(early)) if not _parent.cache_info().currsize else None


class Parent:
    """The process that is forked, as others see it."""

    def __init__(self, environment):
        self.socket, other = socket.socketpair()
        with other:
            self.process = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", "forked", str(other.fileno())],
                env=environment,
                pass_fds=[other.fileno()],
                stdin=subprocess.DEVNULL,
            )

    def start(self, arguments, environment):
        output, written = os.pipe()
        status, told = os.pipe()
        message = json.dumps([list(map(str, arguments)), environment]).encode()
        try:
            socket.send_fds(self.socket, [len(message).to_bytes(4, "little")], [written, told])
            self.socket.sendall(message)
            pid = int.from_bytes(self.socket.recv(4, socket.MSG_WAITALL), "little")
        finally:
            os.close(written)
            os.close(told)
        return Process(pid, output, status)


class Process:
    """What tests need of `subprocess.Popen`, for a process that is another one's child."""

    def __init__(self, pid, output, status):
        self.pid = pid
        self.returncode = None
        self._output, self._status = output, status
        self._written = b""

    def poll(self):
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(timeout=0)
        return self.returncode

    def wait(self, timeout=None):
        if self.returncode is None:
            self._until(self._status, timeout)
            told = os.read(self._status, 4)
            os.close(self._status)
            self.returncode = int.from_bytes(told, "little", signed=True)
        return self.returncode

    def communicate(self, timeout=None):
        end = None if timeout is None else time.monotonic() + timeout
        while self._output is not None:
            self._until(self._output, None if end is None else max(0, end - time.monotonic()))
            piece = os.read(self._output, 1 << 16)
            self._written += piece
            if not piece:
                os.close(self._output)
                self._output = None
        self.wait(None if end is None else max(0, end - time.monotonic()))
        return self._written.decode(errors="replace"), None

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def _until(self, descriptor, timeout):
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            if not selector.select(timeout):
                raise subprocess.TimeoutExpired(["ranks", str(self.pid)], timeout)


def serve(descriptor):
    """Forks for each message; returns in the child, with the arguments of `ranks.main`."""
    requests = socket.socket(fileno=descriptor)
    wakeup, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    told_by = {}
    with selectors.DefaultSelector() as selector:
        selector.register(requests, selectors.EVENT_READ)
        selector.register(wakeup, selectors.EVENT_READ)
        while True:
            ready = {key.fd for key, _ in selector.select()}
            if wakeup in ready:
                os.read(wakeup, 64)
                _tell_ends(told_by)
            if descriptor not in ready:
                continue
            request = _receive(requests)
            if request is None:
                os._exit(0)
            (arguments, environment), written, told = request
            child = os.fork()
            if child == 0:
                break
            told_by[child] = told
            os.close(written)
            requests.sendall(child.to_bytes(4, "little"))
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for open_one in (wakeup, wake, told, *told_by.values()):
        os.close(open_one)
    requests.close()
    os.dup2(written, 1)
    os.dup2(written, 2)
    os.close(written)
    os.environ.clear()
    os.environ.update(environment)
    return arguments


def _receive(requests):
    length, descriptors, _, _ = socket.recv_fds(requests, 4, 2)
    if not length:
        return None
    message = requests.recv(int.from_bytes(length, "little"), socket.MSG_WAITALL)
    return json.loads(message), *descriptors


def _tell_ends(told_by):
    while told_by:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        told = told_by.pop(pid)
        with contextlib.suppress(BrokenPipeError):
            os.write(told, os.waitstatus_to_exitcode(status).to_bytes(4, "little", signed=True))
        os.close(told)


if __name__ == "__main__":
    for module in IMPORTED:
        importlib.import_module(module)
    import ranks

    ranks.main(*serve(int(sys.argv[1])))

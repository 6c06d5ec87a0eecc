"""Processes that begin with everything imported: one imports it, and each of the others is a fork.

Importing PyTorch, its engines and the models takes longer than what most tests do with them. This
file as a program is the process that is forked. It has used no device and has no second thread.
"""

import contextlib
import importlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
import types

# By what is to be run: `ranks.main(*arguments)`, or the program that is the only argument.
IMPORTED = {
    "ranks": (
        "torch.distributed.fsdp",
        "torch.distributed.tensor.parallel",
        "torch.distributed.pipelining",
        "torch.distributed.checkpoint",
        "torchacc",
        "accelerated",
        "divided",
        "group_calls",
        "checkpointed",
        "ranks",
    ),
    "program": ("torch",),
}
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


def start(kind, arguments, environment, *, stderr=None):
    """A process of this kind in this environment; what it says goes to one pipe, or with `stderr`
    to two. None where what was imported already may depend on the environment."""
    early = _early(environment)
    if kind == "program" and early != _early(os.environ):
        return None
    parent = _parent(kind, json.dumps(early))
    if parent is None:
        return None
    return parent.start(arguments, environment, stderr == subprocess.PIPE)


def _early(environment):
    """What imports may depend on."""
    late = {name for name in environment if name.startswith(OURS) or name in RANKS} - READ_EARLY
    return {name: environment[name] for name in sorted(environment) if name not in late}


_parents = {}


def _parent(kind, early):
    """The first environment has one; others, which are few, import for themselves."""
    environment, parent = _parents.get(kind, (early, None))
    if environment != early:
        return None
    if parent is None:
        _parents[kind] = environment, Parent(kind, json.loads(early))
    return _parents[kind][1]


class Parent:
    """The process that is forked, as others see it."""

    def __init__(self, kind, environment):
        self.socket, other = socket.socketpair()
        ignored = ("-W", "ignore") if kind == "ranks" else ()
        with other:
            self.process = subprocess.Popen(
                [sys.executable, *ignored, __file__, kind, str(other.fileno())],
                env=environment,
                pass_fds=[other.fileno()],
                stdin=subprocess.DEVNULL,
            )

    def start(self, arguments, environment, has_stderr):
        pipes = [os.pipe() for _ in range(3 if has_stderr else 2)]
        (status, told), *outputs = pipes
        message = json.dumps([list(map(str, arguments)), environment]).encode()
        written = [write for _, write in outputs]
        try:
            length = len(message).to_bytes(4, "little")
            socket.send_fds(self.socket, [length], [told, written[0], written[-1]])
            self.socket.sendall(message)
            pid = int.from_bytes(self.socket.recv(4, socket.MSG_WAITALL), "little")
        finally:
            for descriptor in (told, *written):
                os.close(descriptor)
        return Process(pid, [read for read, _ in outputs], status)


class Process:
    """What tests need of `subprocess.Popen`, for a process that is another one's child."""

    def __init__(self, pid, outputs, status):
        self.pid = pid
        self.returncode = None
        self._status = status
        self._outputs, self._open = {output: b"" for output in outputs}, set(outputs)

    def poll(self):
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(timeout=0)
        return self.returncode

    def wait(self, timeout=None):
        if self.returncode is None:
            self._until([self._status], timeout)
            told = os.read(self._status, 4)
            os.close(self._status)
            self.returncode = int.from_bytes(told, "little", signed=True)
        return self.returncode

    def communicate(self, timeout=None):
        end = None if timeout is None else time.monotonic() + timeout
        while self._open:
            for output in self._until(self._open, None if end is None else end - time.monotonic()):
                piece = os.read(output, 1 << 16)
                self._outputs[output] += piece
                if not piece:
                    os.close(output)
                    self._open.remove(output)
        self.wait(None if end is None else end - time.monotonic())
        stdout, *stderr = (said.decode(errors="replace") for said in self._outputs.values())
        return stdout, stderr[0] if stderr else None

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def _until(self, descriptors, timeout):
        """Those of which there is something to read."""
        with selectors.DefaultSelector() as selector:
            for descriptor in descriptors:
                selector.register(descriptor, selectors.EVENT_READ)
            ready = selector.select(None if timeout is None else max(0, timeout))
        if not ready:
            raise subprocess.TimeoutExpired(["forked", str(self.pid)], timeout)
        return [key.fd for key, _ in ready]


def serve(descriptor):
    """Forks for each message; returns in the child, with its arguments."""
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
            (arguments, environment), told, stdout, stderr = request
            child = os.fork()
            if child == 0:
                break
            told_by[child] = told
            os.close(stdout)
            os.close(stderr)
            requests.sendall(child.to_bytes(4, "little"))
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for open_one in (wakeup, wake, told, *told_by.values()):
        os.close(open_one)
    requests.close()
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    os.close(stdout)
    os.close(stderr)
    os.environ.clear()
    os.environ.update(environment)
    return arguments


def _receive(requests):
    length, descriptors, _, _ = socket.recv_fds(requests, 4, 3)
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


def main(kind, descriptor):
    for module in IMPORTED[kind]:
        importlib.import_module(module)
    arguments = serve(int(descriptor))
    if kind == "ranks":
        sys.modules["ranks"].main(*arguments)
    # As `python -c`.
    sys.argv, sys.path[0] = ["-c"], ""
    sys.modules["__main__"] = module = types.ModuleType("__main__")
    (code,) = arguments
    exec(compile(code, "<string>", "exec"), vars(module))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Threads, libraries and forks of a process that uses the device."""

import pytest
import torch
from support import DEVICE, run_python
from torch.utils.data import DataLoader, Dataset


class Squares(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.full((2,), float(index)) ** 2


def test_loader_workers():
    torch.ones(1, device=DEVICE).cpu()
    loader = DataLoader(Squares(), batch_size=2, num_workers=2, pin_memory=True)
    total = torch.zeros((), device=DEVICE)
    for batch in loader:
        assert batch.is_pinned()
        total += batch.to(DEVICE, non_blocking=True).sum()
    assert total.item() == 2 * sum(i * i for i in range(8))


IN_CHILD = """
import os, sys, torch, torchacc
kept = torch.ones(2, device="acc")
kept.cpu()
read, write = os.pipe()
if os.fork() == 0:
    try:
        {use}
        message = "worked"
    except BaseException as error:
        message = f"{{type(error).__name__}}: {{error}}"
    os.write(write, message.encode())
    os._exit(0)
os.wait()
print(os.read(read, 4096).decode())
"""


def test_new_tensor_in_a_forked_child():
    result = run_python(IN_CHILD.format(use="torch.ones(2, device='acc').cpu()"))
    assert result.stdout.startswith("RuntimeError"), result
    assert "fork" in result.stdout


def test_inherited_tensor_in_a_forked_child():
    result = run_python(IN_CHILD.format(use="(kept + 1).cpu()"))
    assert result.stdout.startswith("RuntimeError"), result
    assert "fork" in result.stdout


def test_child_of_a_process_that_never_used_the_device():
    code = IN_CHILD.format(use="assert torch.ones(2, device='acc').sum().item() == 2")
    code = code.replace('kept = torch.ones(2, device="acc")\nkept.cpu()\n', "")
    assert run_python(code).stdout.strip() == "worked"


def test_process_ends_with_work_pending():
    code = (
        "import torch; x = torch.ones(99, 99, device='acc'); [x @ x for _ in range(50)]; y = x + 1"
    )
    result = run_python(code)
    assert result.returncode == 0, result.stderr


COUNT_THREADS = """
import os, time, torch
torch.set_num_threads({wanted})
(torch.ones(8, 8, device="acc") @ torch.ones(8, 8, device="acc")).cpu()

def count():
    tasks = [open(f"/proc/self/task/{{t}}/comm").read() for t in os.listdir("/proc/self/task")]
    return 1 + sum(name.startswith("torchacc-cpu") for name in tasks)  # and the one that launches

# A thread names itself when it first runs; then there would be time for those that are too many.
until = time.monotonic() + 60
while count() < {got} and time.monotonic() < until:
    time.sleep(0.01)
time.sleep(0.5)
print(count())
"""


@pytest.mark.parametrize(
    "wanted, environment, got",
    [(1, {}, 1), (3, {}, 3), (3, {"TORCHACC_NUM_THREADS": "2"}, 2)],
)
def test_number_of_threads(wanted, environment, got):
    result = run_python(COUNT_THREADS.format(wanted=wanted, got=got), **environment)
    assert result.stdout.strip() == str(got), result


MULTIPLY = """
import torch
x, y = torch.ones(2, 3, device="acc"), torch.ones(3, 1, device="acc")
print((x @ y).tolist())
"""


def test_without_onednn():
    result = run_python(MULTIPLY, TORCHACC_ONEDNN="off")
    assert result.stdout.strip() == "[[3.0], [3.0]]", result


@pytest.mark.parametrize(
    "file, why",
    [
        ("/nowhere/libdnnl.so", "neither a file nor"),
        (__file__, "oneDNN at"),
    ],
)
def test_an_onednn_that_is_none(file, why):
    result = run_python(MULTIPLY, TORCHACC_ONEDNN=file)
    assert result.returncode != 0
    assert why in result.stderr, result
    assert file in result.stderr, result

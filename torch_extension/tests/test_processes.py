"""Threads, libraries and forks of a process that uses the device."""

import multiprocessing
from multiprocessing.reduction import ForkingPickler

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


class OnDevice(Squares):
    def __getitem__(self, index):
        return super().__getitem__(index).to(DEVICE)


def test_loader_workers_that_return_device_tensors():
    loader = DataLoader(OnDevice(), batch_size=4, num_workers=1, multiprocessing_context="spawn")
    batches = list(loader)
    assert all(batch.device.type == DEVICE for batch in batches)
    assert torch.cat(batches)[:, 0].tolist() == [float(i * i) for i in range(8)]


def send_back(queue, end, linear, leaf):
    """What was given to a process, and tensors of its own."""
    table = torch.arange(100_000.0, device=DEVICE).view(100, 1000)
    leaf.requires_grad_(not leaf.requires_grad)
    queue.put((linear, leaf, table[1, 2:4], table[:3, :2].t()))
    queue.put(
        (torch.zeros(0, 3, device=DEVICE), torch.ones(2, dtype=torch.bfloat16, device=DEVICE))
    )
    queue.put(torch.nested.nested_tensor([torch.ones(2)], layout=torch.jagged, device=DEVICE))
    end.wait()


def test_device_tensors_between_processes():
    spawn = multiprocessing.get_context("spawn")
    queue, end = spawn.Queue(), spawn.Event()
    linear = torch.nn.Linear(2, 2).to(DEVICE)
    linear.tied = linear.weight
    leaf = torch.arange(3.0, device=DEVICE, requires_grad=True)
    process = spawn.Process(target=send_back, args=(queue, end, linear, leaf))
    process.start()
    other, unlike, *views = queue.get(timeout=300)
    nothing, halves = queue.get(timeout=300)
    nested = queue.get(timeout=300)
    end.set()
    process.join()
    assert isinstance(other.weight, torch.nn.Parameter)
    assert other.weight is other.tied
    assert other.weight.device == linear.weight.device
    assert torch.equal(other.weight.cpu(), linear.weight.cpu())
    assert (leaf.requires_grad, unlike.requires_grad) == (True, False)
    assert [view.tolist() for view in views] == [
        [1002.0, 1003.0],
        [[0.0, 1000.0, 2000.0], [1.0, 1001.0, 2001.0]],
    ]
    assert (nothing.shape, nothing.device.type) == ((0, 3), DEVICE)
    assert (halves.dtype, halves.tolist()) == (torch.bfloat16, [1.0, 1.0])
    assert nested.values().tolist() == [1.0, 1.0]


def test_of_a_storage_only_what_is_sent_is_copied():
    table = torch.arange(100_000.0, device=DEVICE)
    assert len(ForkingPickler.dumps(table[2:4])) < 2000


def test_conjugated_and_negated_tensors_are_sent_as_they_are_seen():
    x = torch.tensor([1 + 2j, 3 - 4j]).to(DEVICE)
    for sent in (x.conj(), x._neg_view(), x.conj()._neg_view(), x.conj().imag):
        received = ForkingPickler.loads(ForkingPickler.dumps(sent))
        assert received.tolist() == sent.tolist()
        assert received.device == x.device


def test_what_has_a_history_is_not_sent():
    with pytest.raises(RuntimeError, match="non-leaf tensor which requires_grad"):
        ForkingPickler.dumps(torch.ones(2, device=DEVICE, requires_grad=True) * 2)


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

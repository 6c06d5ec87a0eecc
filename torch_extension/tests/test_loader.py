"""AsyncLoader: what batches become, when they come, and what becomes of the thread."""

import collections
import dataclasses
import gc
import subprocess
import sys
import threading
import time
import traceback

import pytest
import torch
import torch.nn as nn
import torchacc
from support import DEVICE
from torch.nn.utils.rnn import pack_sequence
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler
from torchacc import AsyncLoader

Pair = collections.namedtuple("Pair", ["x", "y"])


@dataclasses.dataclass
class Record:
    x: torch.Tensor
    name: str


class Numbers(Dataset):
    def __len__(self):
        return 20

    def __getitem__(self, index):
        return torch.tensor([index, index + 100])


class Fails(IterableDataset):
    def __iter__(self):
        yield torch.ones(1)
        yield torch.ones(1)
        raise LookupError("the third sample is missing")


def threads():
    return {thread for thread in threading.enumerate() if thread.name.endswith("(_feed)")}


@pytest.fixture(autouse=True)
def no_thread_is_left():
    before = threads()
    yield
    gc.collect()
    # One that has put the end there is about to end.
    for thread in threads() - before:
        thread.join(60)
    assert threads() <= before


def test_trees_of_tensors_are_moved():
    packed = pack_sequence([torch.ones(3), torch.ones(2)])
    batch = {
        "list": [torch.ones(2), 3],
        "tuple": (torch.zeros(1),),
        "pair": Pair(torch.ones(1), "text"),
        "record": Record(torch.ones(3), "name"),
        "ordered": collections.OrderedDict(a=torch.ones(1)),
        "user": collections.UserDict(a=torch.ones(1)),
        "packed": packed,
        "none": None,
    }
    (made,) = AsyncLoader([batch], DEVICE)
    moved = [made["list"][0], made["tuple"][0], made["pair"].x, made["record"].x]
    moved += [made["ordered"]["a"], made["user"]["a"], made["packed"].data]
    assert {tensor.device.type for tensor in moved} == {DEVICE}
    assert isinstance(made["pair"], Pair)
    assert isinstance(made["ordered"], collections.OrderedDict)
    assert isinstance(made["user"], collections.UserDict)
    assert (made["list"][1], made["pair"].y, made["record"].name) == (3, "text", "name")
    assert made["packed"].batch_sizes.device.type == "cpu"
    assert made["none"] is None
    # The program's own are what they were.
    assert batch["record"].x.device.type == "cpu"
    assert batch["user"]["a"].device.type == "cpu"


def batch_of(length):
    return {
        "input_ids": torch.ones(2, length, dtype=torch.long),
        "attention_mask": torch.ones(2, length, dtype=torch.bool),
        "labels": torch.ones(2, length, dtype=torch.long),
        "weights": torch.ones(2, length),
    }


def test_buckets_pad_known_keys_alone():
    loader = AsyncLoader([batch_of(n) for n in (3, 8, 9)], DEVICE, buckets=[16, 8])
    short, exact, long = loader
    for made, length, bucket in ((short, 3, 8), (exact, 8, 8), (long, 9, 16)):
        for key, value in torchacc.loader.PAD_VALUES.items():
            assert made[key].shape == (2, bucket)
            assert made[key].dtype == batch_of(1)[key].dtype
            assert (made[key][:, :length] == 1).all()
            assert (made[key][:, length:] == value).all()
        assert made["weights"].shape == (2, length)


def test_steps_up_to_a_length_are_buckets():
    lengths = [AsyncLoader([], max_length=n, num_buckets=b)._padding.lengths for n, b in
               ((100, 4), (10, 3), (3, 8), (7, 1))]  # fmt: skip
    assert lengths == [[25, 50, 75, 100], [4, 7, 10], [1, 2, 3], [7]]
    # As many as there are where their number is not given.
    assert AsyncLoader([], max_length=64)._padding.lengths == [8, 16, 24, 32, 40, 48, 56, 64]


def test_any_dimension_is_padded():
    batch = {"image": torch.ones(1, 3, 5), "labels": torch.ones(4)}
    (made,) = AsyncLoader(
        [batch], DEVICE, buckets=[8], pad_value_dict={"image": 0.5}, pad_dims={"image": 1}
    )
    assert made["image"].shape == (1, 8, 5)
    assert (made["image"][:, 3:] == 0.5).all()
    assert made["labels"].shape == (4,)


def test_a_dimension_that_is_the_batch_is_not_padded():
    batch = ({"input_ids": torch.ones(2, 3), "labels": torch.ones(2)}, torch.ones(2))
    ((made, beside),) = AsyncLoader([batch], DEVICE, buckets=[8])
    assert (made["input_ids"].shape, made["labels"].shape, beside.shape) == ((2, 8), (2,), (2,))
    options = {"buckets": [8], "pad_dims": {"labels": 0}}
    ((made, _),) = AsyncLoader([batch], DEVICE, **options)
    assert (made["input_ids"].shape, made["labels"].shape) == ((2, 8), (8,))


def test_what_is_too_long_makes_no_bucket():
    loader = AsyncLoader([batch_of(n) for n in (20, 30, 5)], DEVICE, buckets=[8, 16])
    with pytest.warns(UserWarning, match="input_ids is 20 long, and the longest bucket 16") as said:
        made = [batch["input_ids"].size(1) for batch in loader]
    assert made == [20, 30, 8]
    assert len(said) == 1
    assert loader._padding.lengths == [8, 16]


@pytest.mark.parametrize(
    "options",
    [{"buckets": []}, {"buckets": [0, 4]}, {"max_length": 0}, {"depth": 0}]
    + [{"max_length": 8, "num_buckets": 0}],
)
def test_what_are_no_buckets_is_said(options):
    with pytest.raises(ValueError, match="AsyncLoader: "):
        AsyncLoader([], DEVICE, **options)


def test_a_batch_of_several_processes_is_shared():
    batch = {"x": torch.arange(10).view(5, 2), "y": torch.arange(5), "scale": torch.ones(3)}
    parts = [next(iter(AsyncLoader([batch], DEVICE, part=(at, 2)))) for at in range(2)]
    for name in ("x", "y"):
        assert [len(part[name]) for part in parts] == [3, 2]
        assert torch.equal(torch.cat([part[name].cpu() for part in parts]), batch[name])
    assert all(torch.equal(part["scale"].cpu(), batch["scale"]) for part in parts)
    # Mappings of other kinds, as tokenizers of Hugging Face make them.
    (made,) = AsyncLoader([collections.UserDict(batch)], DEVICE, part=(1, 2))
    assert made["y"].tolist() == [3, 4]
    with pytest.raises(ValueError, match="a batch of 5 rows has no 6 parts"):
        next(iter(AsyncLoader([batch], DEVICE, part=(0, 6))))
    with pytest.raises(
        ValueError, match=r"part is \(2, 2\): it must be which, from 0, of how many"
    ):
        AsyncLoader([], DEVICE, part=(2, 2))


def test_the_last_batch_is_what_it_is():
    sizes = [len(batch) for batch in AsyncLoader(DataLoader(Numbers(), batch_size=8), DEVICE)]
    assert sizes == [8, 8, 4]


@pytest.mark.parametrize("workers", [0, 2])
def test_errors_are_raised_where_the_batch_is_asked_for(workers):
    batches = iter(AsyncLoader(DataLoader(Fails(), num_workers=min(workers, 1)), DEVICE))
    assert next(batches).shape == (1, 1)
    next(batches)
    with pytest.raises(LookupError, match="the third sample is missing") as raised:
        next(batches)
    if not workers:
        frames = [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]
        assert "__iter__" in frames
    with pytest.raises(StopIteration):
        next(batches)


def test_no_more_is_fetched_than_said():
    fetched = []

    def source():
        for number in range(20):
            fetched.append(number)
            yield torch.tensor(number)

    class Counted:
        def __iter__(self):
            return source()

    batches = iter(AsyncLoader(Counted(), DEVICE, depth=3))
    next(batches)
    until = time.monotonic() + 60
    while len(fetched) < 5:
        assert time.monotonic() < until
        time.sleep(0.001)
    time.sleep(0.3)  # for one too many
    # Three that wait, and one for which there is no room.
    assert len(fetched) == 5
    assert [int(batch) for batch in batches] == list(range(1, 20))


def test_an_epoch_that_is_left_ends():
    loader = AsyncLoader(DataLoader(Numbers(), batch_size=2), DEVICE)
    for batch in loader:
        assert batch[0, 0] == 0
        break
    first = iter(loader)
    next(first)
    again = iter(loader)
    assert next(again)[0, 0] == 0
    # The first is over: it would have taken batches from the second.
    assert list(first) == []
    assert len(list(again)) == 9
    next(iter(loader))
    loader.close()


def test_who_waits_for_a_batch_is_told_that_the_epoch_is_over():
    class Endless:
        def __iter__(self):
            yield torch.ones(1)
            asked.set()
            goes_on.wait(60)

    asked, goes_on = threading.Event(), threading.Event()
    loader = AsyncLoader(Endless(), DEVICE)
    batches = iter(loader)
    next(batches)
    got = []
    waiting = threading.Thread(target=lambda: got.extend(batches))
    waiting.start()
    assert asked.wait(60)
    closing = threading.Thread(target=loader.close)
    closing.start()
    goes_on.set()
    for thread in (closing, waiting):
        thread.join(60)
        assert not thread.is_alive()
    assert got == []


@pytest.mark.parametrize(
    "end", ["pass", "del batches, loader", "sys.exit(3)", "1 / 0", "os._exit(0)"]
)
def test_a_program_ends_in_whatever_order(end):
    code = f"""
import os, sys, torch, torchacc
from torch.utils.data import DataLoader
loader = torchacc.AsyncLoader(DataLoader(torch.arange(1000.), batch_size=2, num_workers=1), "acc")
batches = iter(loader)
print(next(batches).tolist(), flush=True)
{end}
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True,
                          text=True, timeout=300)  # fmt: skip
    assert done.stdout == "[0.0, 1.0]\n"
    assert done.returncode == {"sys.exit(3)": 3, "1 / 0": 1}.get(end, 0), done.stderr
    assert "Fatal" not in done.stderr


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("own", [False, True])
def test_a_training_goes_on_where_it_was(workers, own):
    def loader():
        generator = torch.Generator().manual_seed(5) if own else None
        data = DataLoader(
            Numbers(), batch_size=3, shuffle=True, num_workers=workers, generator=generator
        )
        return AsyncLoader(data, DEVICE)

    def firsts(batches):
        return [batch[:, 0].tolist() for batch in batches]

    torch.manual_seed(1)
    one = loader()
    firsts(one)
    batches = iter(one)
    before = firsts(next(batches) for _ in range(2))
    # One more has been fetched: it does not count.
    state = one.state_dict()
    rest = firsts(batches)
    assert sorted(sum(before + rest, [])) == list(range(20))
    torch.manual_seed(2)
    other = loader()
    other.load_state_dict(state)
    assert other.state_dict().keys() == state.keys()
    assert firsts(other) == rest
    assert other.state_dict()["epochs"] == 2
    # What was over is followed by a new epoch.
    third = loader()
    third.load_state_dict(other.state_dict())
    assert len(firsts(third)) == 7
    assert third.state_dict()["epochs"] == 3
    with pytest.raises(KeyError):
        third.load_state_dict({"step": 1})


ORDERS = {
    "persistent": lambda: {"shuffle": True, "num_workers": 1, "persistent_workers": True},
    "persistent, own": lambda: {
        "shuffle": True,
        "num_workers": 1,
        "persistent_workers": True,
        "generator": torch.Generator().manual_seed(5),
    },
    "sampler": lambda: {
        "sampler": RandomSampler(Numbers(), generator=torch.Generator().manual_seed(5))
    },
    "own": lambda: {"shuffle": True, "generator": torch.Generator().manual_seed(5)},
}


@pytest.mark.parametrize("order", ORDERS)
def test_an_order_is_that_of_the_state_in_any_epoch(order):
    def loader():
        return AsyncLoader(DataLoader(Numbers(), batch_size=4, **ORDERS[order]()), DEVICE)

    def firsts(batches):
        return [batch[:, 0].tolist() for batch in batches]

    torch.manual_seed(1)
    one = loader()
    firsts(one)
    between = one.state_dict()
    batches = iter(one)
    head = firsts(next(batches) for _ in range(2))
    state = one.state_dict()
    rest = firsts(batches)
    torch.manual_seed(7)
    other = loader()
    other.load_state_dict(state)
    random = torch.get_rng_state()
    assert firsts(other) == rest
    # The program's random numbers are its own.
    assert torch.equal(torch.get_rng_state(), random)
    orders = firsts(other), firsts(other)
    assert orders[0] != orders[1]
    if "own" in order or order == "sampler":
        # Orders do not begin anew where an epoch is the first of a process.
        third = loader()
        third.load_state_dict(between)
        assert firsts(third) == head + rest


def test_an_epoch_that_is_closed_is_not_over():
    loader = AsyncLoader(DataLoader(Numbers(), batch_size=5), DEVICE)
    seen = []
    for batch in loader:
        seen.append(batch[0, 0].item())
        if len(seen) == 2:
            loader.close()
    assert seen == [0, 5]
    state = loader.state_dict()
    assert (state["batches"], state["is_over"]) == (2, False)
    loader.load_state_dict(state)
    assert [batch[0, 0].item() for batch in loader] == [10, 15]


def test_what_it_is_not_asked_for_is_the_loaders():
    data = DataLoader(Numbers(), batch_size=3)
    loader = AsyncLoader(data, DEVICE)
    assert (loader.dataset, loader.batch_size, len(loader)) == (data.dataset, 3, 7)
    with pytest.raises(AttributeError, match="DataLoader"):
        _ = loader.missing


def test_training_with_it_is_one_program():
    data = [{"x": torch.randn(4, 8), "y": torch.randn(4, 1)} for _ in range(12)]
    model = nn.Linear(8, 1).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses, counts = [], []
    for number, batch in enumerate(AsyncLoader(data, DEVICE)):
        if number >= 3:
            torchacc.sync()
            torchacc.reset_metrics()
        loss = nn.functional.mse_loss(model(batch["x"]), batch["y"])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
        if number >= 3:
            metrics = torchacc.metrics()
            counts.append((metrics["compiles"], metrics["cuts"], metrics["host_calls"]))
    assert set(counts) == {(0, 1, 0)}
    assert len(losses) == 12

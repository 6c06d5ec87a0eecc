"""Shifts of integers by any number of bits are those of the CPU, in the program."""

import operator

import pytest
import torch
import torchacc
from support import DEVICE

DTYPES = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
CALLS = {
    "<<": operator.lshift,
    ">>": operator.rshift,
    "<<=": operator.ilshift,
    ">>=": operator.irshift,
    "bitwise_left_shift": torch.bitwise_left_shift,
    "bitwise_right_shift": torch.bitwise_right_shift,
    "in place": lambda a, b: a.bitwise_left_shift_(b),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_shifts(name, dtype):
    info = torch.iinfo(dtype)
    numbers = torch.tensor([0, 1, 5, info.max, info.min, info.max // 3, info.min // 3], dtype=dtype)
    amounts = [0, 1, 3, info.bits - 1, info.bits, info.bits + 1]
    amounts += [] if dtype == torch.uint8 else [-1, -info.bits]
    x = numbers.repeat_interleave(len(amounts))
    by = torch.tensor(amounts, dtype=dtype).repeat(len(numbers))
    before = torchacc.metrics()
    found = [CALLS[name](x.to(DEVICE), by.to(DEVICE)).cpu()]
    found += [CALLS[name](numbers.to(DEVICE), amount).cpu() for amount in (0, 2, info.bits, 2)]
    after = torchacc.metrics()
    expected = [CALLS[name](x.clone(), by)]
    expected += [CALLS[name](numbers.clone(), amount) for amount in (0, 2, info.bits, 2)]
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype
        assert torch.equal(a, b)
    for counter in ("host_calls", "immediate_runs"):
        assert after[counter] == before[counter]


def test_types_are_promoted():
    a, b = torch.tensor([1, 2, 100], dtype=torch.uint8), torch.tensor([9, 1, -1])
    for x, y in ((a, b), (b, a), (a.int(), a), (torch.tensor([True, False, True]), 2)):
        on = [one.to(DEVICE) if isinstance(one, torch.Tensor) else one for one in (x, y)]
        found = on[0] << on[1]
        assert found.dtype == (x << y).dtype
        assert torch.equal(found.cpu(), x << y)
    with pytest.raises(NotImplementedError, match="not implemented for 'Float'"):
        torch.ones(2, device=DEVICE) << 1

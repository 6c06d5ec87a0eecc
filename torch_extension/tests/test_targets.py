"""Class targets and indices of every integer type, as on the CPU, forward and backward."""

import pytest
import torch
import torch.nn.functional as F
from support import DEVICE, check, forget_errors

TYPES = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]

LOSSES = {
    "cross_entropy": lambda x, t: F.cross_entropy(x, t),
    "cross_entropy of no class": lambda x, t: F.cross_entropy(x, t, ignore_index=1),
    "smoothed": lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1),
    "weighted": lambda x, t: F.nll_loss(x, t, weight=torch.ones(3, device=x.device) * 2),
    "one by one": lambda x, t: F.nll_loss(x, t, reduction="none").sum(),
    "of images": lambda x, t: F.nll_loss(x.view(2, 3, 2, 1), t.view(2, 2, 1)),
    "multi_margin_loss": lambda x, t: F.multi_margin_loss(x, t),
    "embedding": lambda x, t: F.embedding(t, x).square().sum(),
    "gather": lambda x, t: x.gather(1, t.view(4, 1)).sum(),
    "an index": lambda x, t: x[t].square().sum(),
    "index_select": lambda x, t: x.index_select(0, t).square().sum(),
    "index_add": lambda x, t: x.index_add(0, t, x * 2).square().sum(),
    "scatter": lambda x, t: x.scatter(1, t.view(4, 1), 5.0).square().sum(),
}


def attempt(loss, dtype, device):
    x = torch.linspace(-1, 1, 12).view(4, 3).to(device).requires_grad_()
    target = torch.tensor([2, 0, 1, 2]).to(dtype).to(device)
    try:
        value = loss(x, target)
        value.backward()
        return (value.detach().cpu(), x.grad.cpu()), None
    except Exception as error:
        forget_errors()
        return None, type(error)


@pytest.mark.filterwarnings("ignore:indexing with dtype torch.uint8")
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", LOSSES)
def test_every_integer_type(name, dtype):
    expected, refused = attempt(LOSSES[name], dtype, "cpu")
    actual, refused_there = attempt(LOSSES[name], dtype, DEVICE)
    assert refused_there == refused
    if refused is None:
        torch.testing.assert_close(actual, expected)


def test_one_sample_without_a_batch_may_have_its_target_in_a_list():
    scores = torch.tensor([1.0, 2.0, 0.5])
    for target in (torch.tensor(1), torch.tensor([1])):
        for reduction in ("mean", "sum", "none"):
            check(lambda x, y, how=reduction: F.cross_entropy(x, y, reduction=how), scores, target)

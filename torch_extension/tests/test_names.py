"""Names of dimensions: what PyTorch's kernels for the CPU say of them."""

import pytest
import torch
from support import DEVICE

pytestmark = [
    pytest.mark.filterwarnings("ignore:Named tensors"),
    pytest.mark.skipif(not hasattr(torch.Tensor, "refine_names"), reason="PyTorch has none"),
]

CALLS = {
    "a sum with a number": lambda x: x + 1,
    "a sum": lambda x: x + x,
    "broadcast": lambda x: x * x.sum("C").align_as(x),
    "a reduction": lambda x: x.sum("C"),
    "logsumexp": lambda x: x.logsumexp("C"),
    "in place": lambda x: x.mul_(2),
    "a product": lambda x: x @ x.transpose("N", "C").rename("C", "D"),
    "softmax": lambda x: x.softmax("C"),
    "rearranged": lambda x: x.transpose("N", "C"),
    "one of the results": lambda x: x.max("C").values,
    "a cast": lambda x: x.double(),
}


@pytest.mark.parametrize("name", CALLS)
def test_results_have_their_names(name):
    x = torch.arange(6.0).view(2, 3).refine_names("N", "C")
    actual, expected = CALLS[name](x.to(DEVICE)), CALLS[name](x)
    assert actual.names == expected.names
    torch.testing.assert_close(actual.rename(None).cpu(), expected.rename(None))


def test_names_that_do_not_match():
    x = torch.zeros(2, 3, names=("N", "C"), device=DEVICE)
    with pytest.raises(RuntimeError, match="do not match"):
        x + torch.zeros(2, 3, names=("N", "D"), device=DEVICE)

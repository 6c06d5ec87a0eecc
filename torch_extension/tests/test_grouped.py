"""Products of groups of rows and of terms, as layers of experts have them: in the program."""

import pytest
import torch
import torch.nn.functional as F
import torchacc
from support import DEVICE

# What the result is like where the operands are of these sizes.
FORMS = {
    "rows": ((40, 16), (4, 16, 24)),
    "columns": ((4, 24, 16), (16, 40)),
    "terms": ((16, 40), (40, 24)),
    "batches": ((4, 8, 16), (4, 16, 24)),
}
GROUPS = [[8, 24, 24, 40], [0, 0, 40, 40], [1, 2, 39, 40], [40, 40, 40, 40]]


def computed(device, operands, ends):
    leaves = [x.to(device, copy=True).requires_grad_() for x in operands]
    offs = None if ends is None else torch.tensor(ends, dtype=torch.int32).to(device)
    y = F.grouped_mm(*leaves, offs=offs)
    (y * y.detach().float().sin()).sum().backward()
    return [x.detach().cpu() for x in (y, leaves[0].grad, leaves[1].grad)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("form", FORMS)
def test_products_and_gradients_are_the_cpus_and_compile_once(form, dtype):
    operands = [torch.randn(sizes, dtype=dtype) for sizes in FORMS[form]]
    every = [None] if form == "batches" else GROUPS
    tolerance = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}[dtype]
    before = torchacc.metrics()
    for ends in every:
        for ours, cpus in zip(
            computed(DEVICE, operands, ends), computed("cpu", operands, ends), strict=True
        ):
            torch.testing.assert_close(ours, cpus, rtol=tolerance, atol=10 * tolerance)
            assert ours.stride() == cpus.stride()
    after = torchacc.metrics()
    assert after["host_calls"] == before["host_calls"], torchacc.host_calls()
    # One program for the product and what follows it, whatever the groups.
    assert after["compiles"] - before["compiles"] <= 1


def test_rows_of_no_group_are_zero():
    x, weights = torch.randn(16, 8).to(DEVICE), torch.randn(2, 8, 8).to(DEVICE)
    y = F.grouped_mm(x, weights, offs=torch.tensor([3, 9], dtype=torch.int32).to(DEVICE)).cpu()
    assert not y[9:].any()
    assert y[:9].any(-1).all()


def test_a_layer_of_experts_serves_any_number_of_tokens():
    """Tokens are sorted by their expert, as `transformers` does."""
    experts = torch.randn(4, 16, 16)
    router = torch.randn(16, 4)

    def layer(x, experts, router):
        scores, chosen = (x @ router).softmax(-1).topk(2)
        order = chosen.flatten().argsort(stable=True)
        ends = torch.histc(chosen.flatten().float(), 4, 0, 3).cumsum(0).to(torch.int32)
        y = F.grouped_mm(x[order // 2], experts, offs=ends)
        y = y * scores.flatten()[order, None]
        return torch.zeros_like(x).index_add(0, order // 2, y)

    ours = [experts.to(DEVICE), router.to(DEVICE)]
    for count in (8, 12, 20, 28, 36):
        layer(torch.randn(count, 16).to(DEVICE), *ours).cpu()
    compiles = torchacc.metrics()["compiles"]
    for count in (40, 9, 33, 17, 25):
        x = torch.randn(count, 16)
        torch.testing.assert_close(layer(x.to(DEVICE), *ours).cpu(), layer(x, experts, router))
    assert torchacc.metrics()["compiles"] == compiles


@pytest.mark.parametrize(
    "change",
    [
        lambda a, b, offs: (a, b, None),
        lambda a, b, offs: (a, b, offs.long()),
        lambda a, b, offs: (a, b, offs[None]),
        lambda a, b, offs: (a, b, offs[:2]),
        lambda a, b, offs: (a[:, :8], b, offs),
        lambda a, b, offs: (a[0], b, offs),
        lambda a, b, offs: (b.mT, b, offs),
        lambda a, b, offs: (a.int(), b.int(), offs),
    ],
)
def test_refusals_are_the_cpus(change):
    operands = (torch.randn(8, 16), torch.randn(3, 16, 8), torch.tensor([2, 5, 8]).int())

    def refusal(device):
        a, b, offs = change(*(x.to(device) for x in operands))
        with pytest.raises(RuntimeError) as caught:
            torch._grouped_mm(a, b, offs=offs)
        return str(caught.value).split(",")[0].split(":")[0]

    assert refusal(DEVICE).startswith(refusal("cpu"))

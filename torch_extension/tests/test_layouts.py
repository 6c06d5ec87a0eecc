"""What is not dense is refused, with what to use instead."""

import pytest
import torch
from support import DEVICE

INDICES = torch.tensor([[0, 1], [1, 0]])


def embedded():
    table = torch.nn.Embedding(10, 4, sparse=True).to(DEVICE)
    table(torch.tensor([1, 2], device=DEVICE)).sum().backward()


def gathered():
    x = torch.ones(5, 4, device=DEVICE, requires_grad=True)
    at = torch.zeros(2, 4, dtype=torch.long, device=DEVICE)
    torch.gather(x, 0, at, sparse_grad=True).sum().backward()


REFUSED = {
    "acc device has no sparse tensors. Use dense gradients (nn.Embedding and torch.gather": [
        embedded,
        gathered,
        lambda: torch.sparse_coo_tensor(INDICES, torch.ones(2), (2, 2), device=DEVICE),
        lambda: torch.sparse_coo_tensor(INDICES, torch.ones(2), (2, 2)).to(DEVICE),
        lambda: torch.eye(3, device=DEVICE).to_sparse(),
        lambda: torch.eye(3, device=DEVICE).to_sparse_csr(),
        lambda: torch.eye(3).to_sparse_csr().to(DEVICE) @ torch.ones(3, device=DEVICE),
    ],
    "acc device has no nested tensors of layout torch.strided. Use layout=torch.jagged": [
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], device=DEVICE).unbind(),
    ],
    "acc device has no quantized tensors. Use torchacc.fp8": [
        lambda: torch.quantize_per_tensor(torch.eye(3), 0.1, 0, torch.qint8).to(DEVICE),
        lambda: torch.quantize_per_tensor(torch.eye(3, device=DEVICE), 0.1, 0, torch.qint8),
    ],
}


@pytest.mark.parametrize(
    ("said", "call"), [(said, call) for said, calls in REFUSED.items() for call in calls]
)
def test_what_is_not_dense_is_refused_with_advice(said, call):
    with pytest.raises(NotImplementedError) as error:
        call()
    assert said in str(error.value)


def test_jagged_tensors_are_there():
    parts = [torch.ones(2), torch.ones(3)]
    made = torch.nested.nested_tensor(parts, device=DEVICE, layout=torch.jagged)
    assert torch.equal((made * 2).values().cpu(), torch.full((5,), 2.0))

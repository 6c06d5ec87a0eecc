"""Writes the goldens of PyTorch/XLA, as `goldens.py` does those of JAX.

    pip install torch==2.9.0 torch_xla==2.9.0 numpy
    python tests/stablehlo/goldens_torch_xla.py

Inputs are in the order in which PyTorch/XLA finds them.
"""

import numpy as np
import torch
import torch_xla
import torch_xla.core.xla_model as xm
from golden_files import FOLDER, line
from torch import nn
from torch.nn import functional
from torch_xla.stablehlo import exported_program_to_stablehlo


def write(name, text, inputs, results):
    (FOLDER / f"{name}.mlir").write_text(text)
    lines = [("in", one) for one in inputs] + [("out", one) for one in results]
    arrays = ((kind, np.asarray(one.detach().cpu())) for kind, one in lines)
    (FOLDER / f"{name}.txt").write_text("".join(line(kind, array) for kind, array in arrays))


def step(name, model, x, targets, optimizer):
    """A training step as the lazy tensors record it: the loss and all of the state that is new."""
    device = torch_xla.device()
    model, x, targets = model.to(device), x.to(device), targets.to(device)
    optimizer = optimizer(model.parameters())

    def train():
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x), targets)
        loss.backward()
        optimizer.step()
        return loss.detach()

    # The optimizer makes its state.
    train()
    torch_xla.sync(wait=True)
    loss = train()
    moments = [moment for state in optimizer.state.values() for moment in state.values()]
    state = [*model.parameters(), *model.buffers(), *moments]
    results = [loss, *(one.detach() for one in state if one.device.type == "xla")]
    text = xm.get_stablehlo(results)
    _, inputs = torch_xla._XLAC._get_tensors_xla_device_data_node(results)
    inputs = [one.cpu() for one in inputs]
    torch_xla.sync(wait=True)
    write(name, text, inputs, results)


def exported(name, model, *args):
    """A program of `torch.export`, of which the reference is PyTorch's own."""
    program = exported_program_to_stablehlo(torch.export.export(model.eval(), args))
    bundle = program._bundle

    def found(place):
        match place.type_.name:
            case "INPUT_ARG":
                return args[place.position]
            case "PARAMETER":
                return torch.as_tensor(bundle.state_dict[place.name])
        return torch.as_tensor(bundle.additional_constants[place.position])

    inputs = [found(place) for place in bundle.stablehlo_funcs[0].meta.input_locations]
    results = model(*args)
    results = results if isinstance(results, (list, tuple)) else [results]
    write(name, program.get_stablehlo_text(), inputs, results)


class Words(nn.Module):
    """An encoder layer over words."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(7, 8)
        self.layer = nn.TransformerEncoderLayer(
            8, 2, 12, dropout=0.0, activation="gelu", batch_first=True
        )

    def forward(self, words):
        return self.layer(self.embedding(words))


class Several(nn.Module):
    """What has words of its own in XLA."""

    def forward(self, x, square, index):
        values, places = torch.sort(x, descending=True)
        chosen, where = torch.topk(x, 2)
        spd = square @ square.mT + torch.eye(3)
        values_of, vectors = torch.linalg.eigh(spd)
        return [
            *(values, places, chosen, where, x.argmax(-1), x.cumsum(1)),
            *(x[index], x.gather(1, index.unsqueeze(0).expand(3, 3))),
            x.index_add(0, index, torch.ones(3, 4)),
            functional.interpolate(x[None, None], size=(5, 7), mode="bilinear"),
            *(torch.linalg.inv(square), values_of, (vectors * values_of) @ vectors.mT),
            torch.linalg.svd(square)[1],
        ]


def main():
    torch.manual_seed(0)
    net = nn.Sequential(
        *(nn.Conv2d(2, 3, 3, bias=False), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(12, 6), nn.GELU(), nn.LayerNorm(6), nn.Linear(6, 4)),
    )
    images, classes = torch.randn(3, 2, 6, 6), torch.tensor([1, 0, 3])
    step("torch_xla_step", net, images, classes, lambda p: torch.optim.AdamW(p, lr=1e-2))
    exported("torch_xla_words", Words(), torch.tensor([[1, 0, 5], [6, 2, 2]]))
    square, index = torch.randn(3, 3) + 2 * torch.eye(3), torch.tensor([2, 0, 2])
    exported("torch_xla_several", Several(), torch.randn(3, 4), square, index)


if __name__ == "__main__":
    main()

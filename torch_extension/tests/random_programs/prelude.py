"""Names that programs use. It stands in front of every program that is printed."""

import sys

import torch
import torch.nn.functional as F  # noqa: F401
import torchacc

f64, f32, f16, bf16 = torch.float64, torch.float32, torch.float16, torch.bfloat16
i64, i32, i16, i8, u8 = torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8
b1 = torch.bool
ROUNDED = dict(f64=f64, f32=f32, f16=f16, bf16=bf16, i64=i64, i32=i32, i16=i16, i8=i8, u8=u8, b1=b1)
device = sys.argv[1] if len(sys.argv) > 1 else "acc"


def data(seed, shape, dtype, kind="small"):
    """The same numbers for the same arguments on every device."""
    draw = torch.Generator().manual_seed(seed)
    if kind == "small":
        numbers = torch.randint(-4, 5, shape, generator=draw)
    elif kind == "large":
        numbers = torch.randint(-300, 301, shape, generator=draw)
    elif kind == "normal":
        numbers = torch.randn(shape, generator=draw, dtype=ROUNDED["f32"])
    elif kind == "positive":
        numbers = torch.rand(shape, generator=draw, dtype=ROUNDED["f32"]) * 3.75 + 0.25
    elif kind == "special":
        few = torch.tensor([0.0, -0.0, 1.0, -2.5, float("nan"), float("inf"), -float("inf")])
        numbers = few[torch.randint(7, shape, generator=draw)].clone()
    return numbers.to(ROUNDED[dtype]).to(device, globals()[dtype])


class Copy:
    """Of a tensor, to the host, made while the program goes on."""

    def __init__(self, x):
        self.tensor, self.copies = torch.empty(x.shape, dtype=x.dtype), None
        if device == "acc":
            self.copies = torch.classes.acc.HostCopies([x.detach()], [self.tensor])
        else:
            self.tensor.copy_(x.detach())

    def made(self):
        if self.copies is not None:
            self.copies.wait()
        return self.tensor

    def __repr__(self):
        return repr(self.made())


def mark_step():
    if device == "acc":
        torchacc.mark_step()


def sync():
    if device == "acc":
        torchacc.sync()

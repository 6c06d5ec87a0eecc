"""Single operations, forward and backward, on enough data that a step's overhead does not matter.

Each function named in `works.KERNELS` takes the device, the dtype and what compiles a function, if
anything does. It returns a function that runs the kernel once and gives its results, and what this
costs at least: {"gigabytes"} to be read and written when every tensor is touched once forward and
once backward, or {"gigaflops"}.
"""

import math
import os

import torch
import torch.nn as nn
import torch.nn.functional as F

# As `compare.py --gpu` says.
ON_GPU = "PEERS_ON_GPU" in os.environ
# How much more than a processor a GPU is given, so that a step takes it as long.
SCALE = 32 if ON_GPU else 1
# Of the input of a kernel that is bound by memory.
INPUT_BYTES = SCALE * 64 * 2**20
# Numbers that are drawn for a GPU's tensors, and repeated; it divides the sizes of larger ones.
PIECE = 2**22


def drawn(*sizes, dtype, device):
    """Normal numbers, the same for all peers."""
    count = math.prod(sizes)
    if not ON_GPU or count <= PIECE:
        return torch.randn(*sizes, dtype=dtype).to(device)
    # A CPU takes minutes to draw what fills a GPU.
    return torch.randn(PIECE).to(dtype).to(device).repeat(count // PIECE).view(sizes)


def gradients(function, inputs, slope, device, compiler):
    """A function that gives `function(*inputs)` and its gradients, where the result's gradient is
    `slope`. Inputs and slope are moved to the device."""
    inputs = [x.to(device).requires_grad_() for x in inputs]
    slope = slope.to(device)
    function = compiler(function) if compiler else function

    def run():
        y = function(*inputs)
        return [y.detach(), *torch.autograd.grad(y, inputs, slope)]

    return run


def over_rows(function, width, passes, device, dtype, compiler, parameters=()):
    """`function(x, *parameters)` over x and its result of INPUT_BYTES, [rows, width]; forward and
    backward together go over `passes` such tensors."""
    rows = INPUT_BYTES // (width * dtype.itemsize)
    x, slope = (drawn(rows, width, dtype=dtype, device=device) for _ in range(2))
    run = gradients(function, (x, *parameters), slope, device, compiler)
    return run, {"gigabytes": passes * INPUT_BYTES / 1e9}


def negate(device, dtype, compiler):
    """What reads and writes as fast as the machine can."""
    x = drawn(INPUT_BYTES // dtype.itemsize, dtype=dtype, device=device)
    function = compiler(torch.neg) if compiler else torch.neg
    return lambda: [function(x)], {"gigabytes": 2 * INPUT_BYTES / 1e9}


def matmul(device, dtype, compiler, size=8192):
    """What multiplies as fast as the machine can; forward only."""
    a, b = (drawn(size, size, dtype=dtype, device=device) for _ in range(2))
    function = compiler(torch.matmul) if compiler else torch.matmul
    return lambda: [function(a, b)], {"gigaflops": 2 * size**3 / 1e9}


def layer_norm(device, dtype, compiler, width=1024):
    weight, bias = torch.ones(width, dtype=dtype), torch.zeros(width, dtype=dtype)

    def function(x, weight, bias):
        return F.layer_norm(x, (width,), weight, bias)

    return over_rows(function, width, 5, device, dtype, compiler, (weight, bias))


def rms_norm(device, dtype, compiler, width=1024):
    weight = torch.ones(width, dtype=dtype)

    def function(x, weight):
        return F.rms_norm(x, (width,), weight)

    return over_rows(function, width, 5, device, dtype, compiler, (weight,))


def softmax(device, dtype, compiler, width=1024):
    return over_rows(lambda x: x.softmax(-1), width, 5, device, dtype, compiler)


def cross_entropy(device, dtype, compiler, vocabulary=32768):
    rows = INPUT_BYTES // (vocabulary * dtype.itemsize)
    logits = drawn(rows, vocabulary, dtype=dtype, device=device)
    targets = torch.randint(vocabulary, (rows,)).to(device)

    def function(logits):
        return F.cross_entropy(logits, targets)

    run = gradients(function, (logits,), torch.ones((), dtype=dtype), device, compiler)
    return run, {"gigabytes": 3 * INPUT_BYTES / 1e9}


def gelu_mlp(device, dtype, compiler, rows=2048 * SCALE, width=512, hidden=2048):
    """Two linear layers with GELU between them."""
    x, slope = (drawn(rows, width, dtype=dtype, device=device) for _ in range(2))
    up = torch.randn(hidden, width, dtype=dtype) / math.sqrt(width)
    down = torch.randn(width, hidden, dtype=dtype) / math.sqrt(hidden)
    biases = torch.zeros(hidden, dtype=dtype), torch.zeros(width, dtype=dtype)

    def function(x, up, down, up_bias, down_bias):
        return F.linear(F.gelu(F.linear(x, up, up_bias)), down, down_bias)

    run = gradients(function, (x, up, down, *biases), slope, device, compiler)
    return run, {"gigaflops": 3 * 2 * 2 * rows * width * hidden / 1e9}


def attention(device, dtype, compiler, batch=4 * SCALE, heads=8, time=1024, width=64):
    """Causal; half of the scores are never needed."""
    sizes = batch, heads, time, width
    q, k, v, slope = (drawn(*sizes, dtype=dtype, device=device) for _ in range(4))

    def function(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    run = gradients(function, (q, k, v), slope, device, compiler)
    # Two products forward, five backward.
    return run, {"gigaflops": 7 * 2 * batch * heads * time * time * width / 2 / 1e9}


def adamw(device, dtype, compiler, tensors=16, size=640 * 1024 * SCALE):
    """One step over `tensors` tensors: 10.5 M parameters, 336 M on a GPU."""

    def new():
        return drawn(size, dtype=dtype, device=device)

    parameters = [nn.Parameter(new()) for _ in range(tensors)]
    for parameter in parameters:
        parameter.grad = new()
    # torch.compile makes its own kernel of the loop; it cannot look into the fused one.
    optimizer = torch.optim.AdamW(parameters, lr=1e-4, fused=compiler is None)
    step = compiler(optimizer.step) if compiler else optimizer.step

    def run():
        step()
        return [parameter.detach() for parameter in parameters]

    # Parameter, gradient and both moments are read; all but the gradient are written.
    return run, {"gigabytes": 7 * tensors * size * dtype.itemsize / 1e9}

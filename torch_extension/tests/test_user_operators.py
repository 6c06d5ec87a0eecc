"""Operators that users define with torch.library: kernels in Python, for one device or for all.

Each test holds on the CPU backend; test_native.py runs them on the CUDA backend of debug builds,
too, where a user's kernel for the device that PyTorch shares the memory with is what has to run.
"""

import pytest
import torch
import torchacc
from support import DEVICE, ON_DEVICE, check

LIBRARY = torch.library.Library("test_user", "DEF")
#: The types of the devices that the kernels were called with.
seen = []


def define(schema, kernel, *keys, fake=None, tags=()):
    """An operator with `kernel` for each of the dispatch keys."""
    name = schema.split("(")[0]
    LIBRARY.define(schema, tags=tags)
    for key in keys:
        LIBRARY.impl(name, kernel, key)
    if fake is not None:
        torch.library.register_fake(f"test_user::{name}", fake, lib=LIBRARY)
    return getattr(torch.ops.test_user, name)


@torch.library.custom_op("test_user::scaled_sine", mutates_args=(), device_types="cpu")
def scaled_sine(x: torch.Tensor, scale: float, mask: torch.Tensor | None = None) -> torch.Tensor:
    seen.append(x.device.type)
    assert torch.from_numpy(x.numpy()).data_ptr() == x.data_ptr()
    y = torch.sin(x) * scale
    return y if mask is None else y * mask


@scaled_sine.register_fake
def _(x, scale, mask=None):
    return torch.empty_like(x)


def _keep(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])
    ctx.scale = inputs[1]


def _backward(ctx, gradient):
    (x,) = ctx.saved_tensors
    return gradient * torch.cos(x) * ctx.scale, None, None


scaled_sine.register_autograd(_backward, setup_context=_keep)


@torch.library.custom_op(
    "test_user::accumulate_", mutates_args=("total", "counts"), device_types="cpu"
)
def accumulate_(total: torch.Tensor, parts: list[torch.Tensor], counts: torch.Tensor) -> None:
    seen.append(total.device.type)
    for part in parts:
        total += part
        counts += 1


@torch.library.custom_op("test_user::halves", mutates_args=(), device_types="cpu")
def halves(x: torch.Tensor) -> list[torch.Tensor]:
    return [part.clone() for part in x.split(x.shape[0] // 2)]


@torch.library.custom_op("test_user::positive", mutates_args=(), device_types="cpu")
def positive(x: torch.Tensor) -> tuple[torch.Tensor, int]:
    """How long the result is, no fake kernel could tell."""
    seen.append(x.device.type)
    return x[x > 0], int((x > 0).sum())


@torch.library.custom_op("test_user::gelu_like", mutates_args=())
def gelu_like(x: torch.Tensor) -> torch.Tensor:
    seen.append(x.device.type)
    return x * torch.sigmoid(1.702 * x)


@pytest.fixture(autouse=True)
def forget():
    seen.clear()
    torchacc.sync()
    torchacc.reset_metrics()


def test_kernels_in_python_run_where_the_memory_is():
    torch.manual_seed(0)
    x = torch.randn(5, 4)
    check(lambda x: scaled_sine((x * 2).t(), 3.0) + 1, x)
    check(lambda x, mask: scaled_sine(x, 2.0, mask), x, (x > 0).float())
    assert seen == ["cpu"] * 4
    metrics = torchacc.metrics()
    assert metrics["immediate_runs"] == 2
    assert metrics["immediate_copies"] == (0 if ON_DEVICE else 3)


def test_gradients():
    torch.manual_seed(0)

    def work(x, w):
        loss = (scaled_sine(x @ w, 0.5) ** 2).sum()
        return torch.autograd.grad(loss, [x, w])

    check(work, torch.randn(4, 3, requires_grad=True), torch.randn(3, 5, requires_grad=True))


def test_arguments_that_are_written():
    def work(total, parts, counts):
        accumulate_(total, [parts, parts * 2], counts[1:])
        return total * 2

    check(work, torch.ones(3, 2), torch.rand(3, 2), torch.zeros(3, dtype=torch.int64))


def test_lists_and_lengths_that_depend_on_values():
    check(lambda x: [part + 1 for part in halves(x)], torch.rand(6, 2))
    check(positive, torch.tensor([1.0, -2.0, 3.0]))


def test_a_kernel_for_one_device_only():
    def kernel(x, index):
        seen.append(x.device.type)
        return x.index_select(0, index)

    for_cpu = define("pick(Tensor x, Tensor index) -> Tensor", kernel, "CPU")
    check(for_cpu, torch.rand(4, 2), torch.tensor([3, 0]))
    for_gpu = define("pick_cuda(Tensor x, Tensor index) -> Tensor", kernel, "CUDA")
    with pytest.raises(NotImplementedError, match="test_user::pick_cuda"):
        for_gpu(torch.rand(4, 2, device=DEVICE), torch.tensor([3, 0], device=DEVICE))


def test_a_kernel_for_acc_itself():
    def kernel(x):
        seen.append(x.device.type)
        return x * 2 + 1

    operator = define("affine(Tensor x) -> Tensor", kernel, "CPU", "PrivateUse1")
    check(operator, torch.rand(3))
    assert seen == ["cpu", DEVICE]
    assert torchacc.metrics()["immediate_runs"] == 0


def test_operators_made_of_others_are_recorded():
    operator = define(
        "gated(Tensor x) -> Tensor",
        lambda x: torch.sigmoid(x) * x,
        "CompositeImplicitAutograd",
    )
    check(lambda x: torch.autograd.grad(operator(x).sum(), x), torch.rand(3, requires_grad=True))
    check(lambda x: gelu_like(x) + 1, torch.rand(3))
    assert seen == ["cpu", DEVICE]
    metrics = torchacc.metrics()
    assert (metrics["immediate_runs"], metrics["host_calls"]) == (0, 0)


def test_random_numbers_follow_the_seed():
    def kernel(x):
        return x + torch.rand(x.shape, device=x.device)

    operator = define(
        "jitter(Tensor x) -> Tensor", kernel, "CPU", tags=(torch.Tag.nondeterministic_seeded,)
    )
    x = torch.zeros(100, device=DEVICE)

    def drawn():
        torch.acc.manual_seed(7)
        return operator(x).cpu()

    # Acc's seed, which checkpoints of activations put back; PyTorch's own generators stay.
    before = torch.get_rng_state()
    assert torch.equal(drawn(), drawn())
    assert not torch.equal(drawn(), operator(x).cpu())
    assert torch.equal(torch.get_rng_state(), before)


def test_what_a_kernel_says_is_wrong_reaches_the_caller():
    def kernel(x):
        raise ValueError(f"cannot take {tuple(x.shape)}")

    operator = define("picky(Tensor x) -> Tensor", kernel, "CPU", fake=torch.empty_like)
    with pytest.raises(ValueError, match=r"cannot take \(2, 3\)"):
        operator(torch.zeros(2, 3, device=DEVICE))


def test_an_operator_that_is_recorded_whole_is_its_kernel_for_the_cpu(compiled_operators):
    torch.ops.acc.record_whole("test_effects::sum_up")

    def work(x, sums):
        result = torch.ops.test_effects.sum_up(x * 2, sums[1:])
        return result + 1, sums

    check(work, torch.arange(5.0), torch.zeros(6))
    metrics = torchacc.metrics()
    assert metrics["immediate_runs"] == 0
    assert metrics["host_calls"] == 1
    assert metrics["recorded_ops"] < 10


def test_what_has_no_kernel_for_the_cpu_is_not_recorded_whole():
    with pytest.raises(RuntimeError, match="test_user::gelu_like has no kernel for the CPU"):
        torch.ops.acc.record_whole("test_user::gelu_like")
    with pytest.raises(RuntimeError, match="test_user::nothing"):
        torch.ops.acc.record_whole("test_user::nothing")

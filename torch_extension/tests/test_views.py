"""Views alias, in-place writes are seen through every view: each program runs on acc and CPU."""

import pytest
import torch
import torchacc
from support import DEVICE, check, host_calls


def write_column(x):
    x[:, 1] += 1
    return x.sum()


def write_transposed(x):
    x.t().mul_(3)
    return x * 2


def write_row(x):
    x[1] = 7
    return x[1] + x[0]


def write_strided(x):
    x[:, ::2].fill_(5)
    return x[:, ::2]


def write_as_strided(x):
    view = x.as_strided((2, 2), (4, 2), 1)
    view.sub_(2)
    return view


def write_flat(x):
    x.view(-1)[3:5].zero_()
    return x.view(-1)[2:6]


def write_after_read(x):
    old = x + 0
    view = x[1]
    x.add_(10)
    return old, view


def write_through_two_views(x):
    a, b = x[0], x[:, 0]
    a.add_(1)
    b.mul_(2)
    return a, b


def write_chunk(x):
    for i, part in enumerate(x.chunk(2, dim=1)):
        part.add_(i)
    return x.unbind(0)


def write_diagonal(x):
    x.diagonal().fill_(9)
    return x.flip(0)


def write_overlapping_copy(x):
    x[:, 1:].copy_(x[:, :-1].clone())
    return x


def write_expanded_source(x):
    x.copy_(x[0].expand_as(x))
    return x


def write_masked(x):
    x[x > 3] = -1
    x.masked_fill_(x < 0, 2)
    return x


def write_indexed(x):
    x[torch.tensor([0, 2], device=x.device)] = 5
    x.index_add_(0, torch.tensor([1, 1], device=x.device), torch.ones(2, 4, device=x.device))
    return x[[2, 0]]


def write_scattered(x):
    index = torch.tensor([[0, 1, 2, 0]], device=x.device)
    x.scatter_(0, index, 8.0)
    x.scatter_add_(0, index, torch.ones(1, 4, device=x.device))
    return x.gather(0, index)


def write_out(x):
    torch.add(x[0], 1, out=x[1])
    return x


def write_other_dtype(x):
    view = x.view(torch.int32)
    view += 1
    return view


def unsqueeze_in_place(x):
    y = x.clone().unsqueeze_(0).transpose_(1, 2)
    y.add_(1)
    return y, y.squeeze_(0).contiguous()


def real_view_of_complex(x):
    z = torch.complex(x, x + 1)
    torch.view_as_real(z)[..., 0].add_(1)
    return z.real, z.conj().imag, (z.conj() * z).real, torch.fft.fft(z).abs()


PROGRAMS = [
    write_column,
    write_transposed,
    write_row,
    write_strided,
    write_as_strided,
    write_flat,
    write_after_read,
    write_through_two_views,
    write_chunk,
    write_diagonal,
    write_overlapping_copy,
    write_expanded_source,
    write_masked,
    write_indexed,
    write_scattered,
    write_out,
    write_other_dtype,
    unsqueeze_in_place,
    real_view_of_complex,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_program(program):
    check(program, torch.arange(12.0).view(3, 4))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_program_on_a_view(program):
    """The same on a tensor that is itself an inner box of a larger storage."""

    def inside(base):
        return program(base[1:4, 2:6]) if program not in SHAPE_OF_STORAGE else base.sum()

    check(inside, torch.arange(40.0).view(5, 8))


# These address the storage by what a dense [3, 4] tensor looks like.
SHAPE_OF_STORAGE = {write_flat, write_as_strided}


def test_views_share_version_and_base():
    x = torch.zeros(3, 4, device=DEVICE)
    view = x[1]
    assert view._base is x
    view.add_(1)
    assert x._version == 1
    assert x.sum().item() == 4


def test_addresses_are_unique_and_follow_offsets():
    a, b = torch.ones(3, device=DEVICE), torch.ones(3, device=DEVICE)
    assert a.data_ptr() not in (0, b.data_ptr())
    assert a[1:].data_ptr() == a.data_ptr() + 4
    assert a.untyped_storage().data_ptr() == a.data_ptr()


def test_set_shares_a_storage():
    a = torch.arange(6.0, device=DEVICE)
    b = torch.empty(0, device=DEVICE)
    b.set_(a.untyped_storage(), 1, (2, 2), (2, 1))
    b.add_(10)
    assert a.tolist() == [0, 11, 12, 13, 14, 5]


def test_resize_keeps_the_common_part():
    x = torch.arange(3.0, device=DEVICE)
    x.resize_(5)
    assert x[:3].tolist() == [0, 1, 2]


def test_storage_resize_to_nothing_and_back():
    x = torch.arange(5.0, device=DEVICE)
    x.untyped_storage().resize_(0)
    assert x.untyped_storage().size() == 0
    x.untyped_storage().resize_(20)
    x.fill_(2)
    assert x.sum().item() == 10


def test_out_resizes():
    out = torch.empty(0, device=DEVICE)
    torch.add(torch.ones(3, device=DEVICE), 1, out=out)
    assert out.tolist() == [2, 2, 2]
    torch.mm(
        torch.ones(2, 3, device=DEVICE), torch.ones(3, 2, device=DEVICE), out=out.resize_(2, 2)
    )
    assert out.sum().item() == 12


LAID = {
    "add": lambda x, out: torch.add(x, 1, out=out),
    "cat": lambda x, out: torch.cat([x, x], 1, out=out),
    "sort": lambda x, out: torch.sort(x, 1, out=(out, x.new_empty(0, dtype=torch.long)))[0],
    "cumsum": lambda x, out: torch.cumsum(x, 1, out=out),
}


@pytest.mark.parametrize("name", LAID)
def test_an_out_without_elements_is_laid_out_as_on_the_cpu(name):
    base = torch.arange(120.0).view(2, 3, 4, 5)
    for order in ((0, 2, 3, 1), (3, 1, 0, 2), (1, 0, 2, 3)):

        def run(device, order=order):
            out = torch.empty(0, device=device)
            x = base.to(device).permute(order)
            assert LAID[name](x, out) is out
            return out

        ours, expected = run(DEVICE), run("cpu")
        assert ours.stride() == expected.stride()
        assert torch.equal(ours.cpu(), expected)


def test_an_out_that_is_the_operand_and_gets_other_sizes():
    def run(device):
        x = torch.arange(9.0, device=device).view(3, 3)
        return torch.amax(x, 0, out=x), x

    result, x = run(DEVICE)
    assert result is x
    assert x.shape == run("cpu")[1].shape


def test_a_meta_kernel_that_leaves_out_without_elements():
    # Of two types, smooth_l1_loss_backward's says that.
    def run(device):
        half = torch.tensor([2.0, 1.0, 0.5], dtype=torch.float16, device=device)
        out = half.new_empty(0)
        return torch.ops.aten.smooth_l1_loss_backward.grad_input(
            half.new_ones((), dtype=torch.float32), half, half.float() * 0, 1, 1.0, grad_input=out
        )

    assert torch.equal(run(DEVICE).cpu(), run("cpu"))


def test_data_is_exchangeable():
    x = torch.ones(3, device=DEVICE)
    x.data = torch.zeros(2, device=DEVICE)
    assert x.tolist() == [0, 0]
    parameter = torch.nn.Parameter(torch.ones(2))
    parameter.data = parameter.data.to(DEVICE)
    assert parameter.is_acc


def test_write_to_expanded_is_refused():
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        torch.ones(1, device=DEVICE).expand(3).add_(1)


def test_write_of_what_is_there_to_expanded():
    """As PyTorch: nothing is copied, so nothing is refused."""

    def written(x):
        repeated = x.expand(2, 1)
        repeated[..., 0] = repeated[1,]
        return repeated

    check(written, torch.ones(1))


def test_channels_last_layout():
    def convolve(x):
        x = x.to(memory_format=torch.channels_last)
        assert (x * 2 + 1).is_contiguous(memory_format=torch.channels_last)
        return torch.nn.functional.conv2d(x, torch.ones(4, 3, 3, 3, device=x.device))

    check(convolve, torch.randn(2, 3, 5, 5), rtol=1e-4, atol=1e-5)


def test_shapes_that_depend_on_values():
    def read(x):
        return [
            x.nonzero(),
            x[x > 0],
            torch.unique(x),
            torch.where(x > 0)[0],
            x.masked_select(x > 0),
            torch.bincount(x.long()),
            torch.repeat_interleave(x, x.long()),
        ]

    check(read, torch.tensor([0.0, 1, 0, 2, 2]))


def shown_twice(x):
    return x[:1].expand(3, 3)


# What one element gets that is written in several places.
WRITTEN_TWICE = {
    "index_put_": lambda x: x.index_put_((x.new_tensor([0, 2]).long(),), x.new_tensor([5, 6, 7])),
    "adding": lambda x: x.index_put_(
        (x.new_tensor([0, 1]).long(), x.new_tensor([1, 1]).long()), x.new_ones(2), accumulate=True
    ),
    "a mask": lambda x: x.__setitem__(x.new_tensor([1, 0, 0]).bool(), x.new_tensor([5, 6, 7])),
    "masked_fill_": lambda x: x.masked_fill_(x.new_tensor([[1], [0], [0]]).bool(), 9),
    "fill_": lambda x: x.fill_(4),
    "zero_": lambda x: x.zero_(),
    "index_fill_": lambda x: x.index_fill_(0, x.new_tensor([1]).long(), 3),
    "tril_": lambda x: x.tril_(),
}


@pytest.mark.filterwarnings("ignore:Use of")
@pytest.mark.parametrize("name", WRITTEN_TWICE)
def test_writes_to_elements_that_are_shown_twice(name):
    def write(x):
        WRITTEN_TWICE[name](shown_twice(x))
        return x * 1

    check(write, torch.arange(1.0, 10.0).view(3, 3))


def test_ranges_into_views_of_other_shapes():
    fills = [
        lambda out: torch.arange(0, 4, out=out),
        lambda out: torch.linspace(0, 4, 4, out=out),
        lambda out: torch.logspace(0, 3, 4, out=out),
        lambda out: torch.range(0, 6, 2, out=out),
        lambda out: torch.ops.aten.range.out_(1, 4, out=out),
    ]
    for fill in fills:
        check(lambda x, fill=fill: (fill(x.narrow(1, 1, 2)), x * 1), torch.zeros(2, 4))
        check(lambda x, fill=fill: (fill(x), x * 1), torch.zeros(2, 2))
        check(lambda x, fill=fill: (fill(x), x * 1), torch.zeros(0))
        check(lambda x, fill=fill: (fill(x[::2]), x * 1), torch.zeros(8))


WINDOWS = [
    ((9,), 0, 3, 2),
    ((2, 10, 3), 1, 4, 1),
    ((2, 10, 3), -2, 4, 6),
    ((2, 3, 8), -1, 8, 3),
    ((3, 0, 4), 2, 2, 1),
    ((5, 2), 0, 1, 2),
    ((4, 5), 1, 0, 2),
    ((), 0, 1, 1),
    ((), -1, 1, 7),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.complex64])
@pytest.mark.parametrize(("shape", "dim", "size", "step"), WINDOWS)
def test_gradients_of_windows(shape, dim, size, step, dtype):
    torch.manual_seed(0)

    def gradients(x, dy):
        x, dy = x.detach().requires_grad_(), dy.detach().requires_grad_()
        y = x.unfold(dim, size, step)
        (dx,) = torch.autograd.grad(y, x, dy.transpose(0, -1), create_graph=True)
        return dx, *torch.autograd.grad((dx * dx).abs().sum(), dy)

    before = host_calls()
    x = torch.randn(shape).to(dtype)
    dy = torch.randn_like(x.unfold(dim, size, step).transpose(0, -1))
    close = {"rtol": 2e-3, "atol": 1e-2} if dtype == torch.float16 else {}
    check(gradients, x, dy, **close)
    assert host_calls() == before


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool, torch.bfloat16])
def test_windows_of_any_type_add_up(dtype):
    before = host_calls()
    dy = torch.arange(24).view(2, 4, 3).to(dtype)
    check(lambda dy: torch.ops.aten.unfold_backward(dy, [2, 9], 1, 3, 2), dy)
    assert host_calls() == before


def test_windows_that_do_not_fit_are_refused():
    dy = torch.ones(2, 4, 3, device=DEVICE)
    for sizes, size in (([2, 9], 2), ([3, 9], 3), ([2, 2], 3)):
        with pytest.raises(RuntimeError, match="unfold_backward"):
            torch.ops.aten.unfold_backward(dy, sizes, 1, size, 2)
    for step, size in ((0, 3), (-1, 3), (2, -1)):
        with pytest.raises((RuntimeError, ValueError), match="must be >"):
            torch.ops.aten.unfold_backward(dy, [2, 9], 1, size, step)


def test_a_signal_of_its_spectrum_and_its_gradient():
    torch.manual_seed(0)

    def loss(x):
        x = x.detach().requires_grad_()
        window = torch.hann_window(16, device=x.device)
        spectrum = torch.stft(x, 16, 4, window=window, return_complex=True)
        y = torch.istft(spectrum, 16, 4, window=window)
        (y * y).sum().backward()
        return y, x.grad

    loss(torch.randn(2, 64, device=DEVICE))
    before = torchacc.metrics()["host_calls"]
    check(loss, torch.randn(2, 64), atol=1e-5)
    assert torchacc.metrics()["host_calls"] == before


WRITES = {
    "index_fill_": lambda y: y.index_fill_(0, torch.tensor([0], device=y.device), 9.0),
    "index_put_": lambda y: y.index_put_((torch.tensor([0], device=y.device),), y.new_tensor(9.0)),
    "mask": lambda y: y.__setitem__(y.new_tensor([1, 0, 0, 0]).bool(), 9.0),
    "masked_fill_": lambda y: y.masked_fill_(y.new_tensor([[1], [0], [0], [0]]).bool(), 9.0),
    "scatter_": lambda y: y.scatter_(
        0, torch.zeros(1, 3, dtype=torch.long, device=y.device), y.new_full((1, 3), 9)
    ),
    "index_add_": lambda y: y.index_add_(
        0, torch.tensor([0], device=y.device), y.new_ones(1, 3) * 2
    ),
    "a row": lambda y: y[1].fill_(9.0),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_part_of_a_view_that_overlaps_itself_is_written(name):
    def run(x):
        WRITES[name](x.unfold(0, 3, 1))
        WRITES[name](x.as_strided((4, 3), (1, 1)))
        return x * 2

    check(run, torch.arange(6.0))


def test_a_copy_to_no_elements_is_of_sizes_that_fit():
    for target in (torch.empty(0, 3, device=DEVICE), torch.empty(0, 3)):
        with pytest.raises(RuntimeError):
            target.copy_(torch.ones(2, 3, device=DEVICE))
        target.copy_(torch.ones(1, 3, device=DEVICE))

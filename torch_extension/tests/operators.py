"""PyTorch's operator table (op_db): calls of its rows, a sample of them, and what is known of rows.

A name stands for all its variants.
"""

import itertools

import pytest
import torch
from support import DEVICE, to_device
from torch.testing._internal import common_utils
from torch.utils._pytree import tree_map

# For each sample PyTorch looks through the stack for the `unittest` test that asks for it, which
# takes longer than most calls; there is none.
common_utils.extract_test_fn = lambda: None

SAMPLE = set(
    """
abs add addbmm addcdiv addcmul addmm addmv all amax amin aminmax any arange argmax argmin as_strided
asin atan2 baddbmm bernoulli bitwise_and bitwise_left_shift bitwise_not bmm bool broadcast_to
bucketize cat ceil cdist cholesky chunk clamp clamp_min clone complex conj constant_pad_nd
contiguous copysign cos cummax cumprod cumsum diag diagonal diagonal_scatter diff div dot einsum eq
erf exp expand expm1 eye fft.rfft fill flatten flip float floor floor_divide fmod full_like gather
ge gradient gt hstack imag index_add index_copy index_fill index_put index_reduce index_select inner
isclose isfinite isnan kthvalue le ldexp lerp linalg.cross linalg.det linalg.eigh linalg.inv
linalg.norm linalg.qr linalg.solve linalg.svd linalg.vector_norm linspace log log1p log2 log_softmax
logaddexp logcumsumexp logical_and logical_not logit logsumexp long lt masked_fill masked_scatter
masked_select matmul max maximum mean median meshgrid min minimum mm movedim mul multinomial mv
narrow native_layer_norm ne neg new_zeros nn.functional.adaptive_avg_pool2d
nn.functional.adaptive_max_pool2d nn.functional.avg_pool2d nn.functional.batch_norm
nn.functional.binary_cross_entropy_with_logits nn.functional.conv1d nn.functional.conv2d
nn.functional.conv_transpose2d nn.functional.cosine_similarity nn.functional.cross_entropy
nn.functional.dropout nn.functional.elu nn.functional.embedding nn.functional.embedding_bag
nn.functional.gelu nn.functional.glu nn.functional.group_norm nn.functional.hardswish
nn.functional.huber_loss nn.functional.instance_norm nn.functional.interpolate nn.functional.kl_div
nn.functional.layer_norm nn.functional.leaky_relu nn.functional.linear nn.functional.logsigmoid
nn.functional.max_pool2d nn.functional.mish nn.functional.mse_loss nn.functional.nll_loss
nn.functional.normalize nn.functional.one_hot nn.functional.pad nn.functional.pixel_shuffle
nn.functional.prelu nn.functional.relu nn.functional.rms_norm
nn.functional.scaled_dot_product_attention nn.functional.silu nn.functional.smooth_l1_loss
nn.functional.softplus nn.functional.unfold nonzero norm normal ones_like outer permute polar pow
prod put quantile rand_like randint reciprocal remainder renorm repeat repeat_interleave reshape
resize_ roll round rsqrt rsub scatter scatter_add scatter_reduce select select_scatter sgn sigmoid
sign sin slice slice_scatter softmax sort split sqrt square squeeze stack std std_mean sub sum t
take take_along_dim tan tanh tensordot tile to topk torch._scaled_mm trace transpose tril triu
triu_indices true_divide unbind unflatten unfold unique unsqueeze var var_mean view view_as_complex
where xlogy zero_ zeros_like
""".split()
)

# Drawn numbers differ between devices: only shapes and dtypes are compared.
RANDOM = {
    "bernoulli",
    "cauchy",
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "exponential",
    "geometric",
    "log_normal",
    "multinomial",
    "new_empty",
    "new_empty_strided",
    "nn.functional.alpha_dropout",
    "nn.functional.dropout",
    "nn.functional.dropout2d",
    "nn.functional.dropout3d",
    "nn.functional.feature_alpha_dropout",
    "nn.functional.fractional_max_pool2d",
    "nn.functional.fractional_max_pool3d",
    "nn.functional.multi_head_attention_forward",
    "nn.functional.rrelu",
    "normal",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "uniform",
}

# What differs from the CPU and why. A row here that passes fails the test: the table stays true.
EXPECTED_FAILURES = {
    "_native_batch_norm_legit": "in evaluation PyTorch's CPU kernel alone returns no statistics",
    "native_batch_norm": "in evaluation PyTorch's CPU kernel alone returns no statistics",
    "sparse.mm:reduce": "no sparse layout on acc",
    "sparse.sampled_addmm": "no sparse layout on acc",
    "tensor_split": "PyTorch wants the tensor of sections on the CPU, whatever the device",
    "to_sparse": "no sparse layout on acc",
}

MAX_SAMPLES = 3


def name_of(op):
    return f"{op.name}:{op.variant_test_name}" if op.variant_test_name else op.name


def dtype_of(op):
    supported = op.supported_dtypes("cpu")
    return torch.float32 if torch.float32 in supported else sorted(supported, key=str)[0]


def samples(op):
    """A few of the row's sample inputs, spread over the first dozen, that the CPU accepts."""
    dtype = dtype_of(op)
    differentiable = op.supports_autograd and dtype.is_floating_point
    generated = op.sample_inputs("cpu", dtype, requires_grad=differentiable)
    accepted = 0
    for sample in itertools.islice(generated, 0, 12, 12 // MAX_SAMPLES):
        torch.manual_seed(0)
        try:
            expected = op(sample.input, *sample.args, **sample.kwargs)
        except Exception:
            continue
        accepted += 1
        yield sample, expected
    if not accepted:
        pytest.skip("no sample that the CPU accepts")


def move(tree):
    """`tree` on acc, the names of devices in it too."""

    def rename(leaf):
        is_cpu = isinstance(leaf, str | torch.device) and str(leaf) == "cpu"
        return torch.device(DEVICE) if is_cpu else leaf

    return tree_map(rename, to_device(tree))


def comparable(leaf):
    return isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided

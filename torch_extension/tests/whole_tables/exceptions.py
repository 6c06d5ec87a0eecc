"""What differs from the CPU, by the reason. Each pattern is of whole tests: `topic: row dtype`.

A reason of which no test fails any more is reported.
"""

EXCEPTIONS = {
    "acc has no sparse tensors, and says so": [
        r".*: (sparse\.sampled_addmm|sparse\.mm:reduce|to_sparse) .*",
    ],
    "statistics of normalised halves are f32, as on CUDA; in evaluation there are some": [
        r".*: (native_layer_norm|native_batch_norm|_native_batch_norm_legit"
        r"|_batch_norm_with_update) .*",
    ],
    "which of equal elements is found is not defined": [
        r"out=: (kthvalue|topk) int64",
    ],
    "where two elements go to one place, which of them stays is not defined": [
        r"forward-mode derivatives: nn\.functional\.max_unpool2d float64",
    ],
    "an `out=` of another type is taken where there is nothing to write": [
        r"out=: lu_solve .*",
        r"out=: linalg\.(ldl_factor|ldl_solve|slogdet|lu_factor|lu_solve) .*",
    ],
    "what rounds to 0 before a ReLU has no gradient: 0.0008 in f64, 0.0012 on the CPU": [
        r"modules: nn_TransformerDecoderLayer bfloat16",
    ],
    "PyTorch's CPU kernel has no number where the exponential is none of the type; acc has": [
        r"reference inputs: sigmoid complex64",
    ],
    "PyTorch's CPU kernel reads a negative view as if it were none; acc is right": [
        r"negative views: nn\.functional\.max_pool1d float64",
    ],
    "more than 2^24 categories are taken; of those that sum to 0 it says that": [
        r"what operators refuse: multinomial .*",
    ],
    "an index out of range is an IndexError whatever the operator; here the CPU's is a"
    " RuntimeError": [
        r"what operators refuse: (gather|scatter|scatter_add) .*",
    ],
    "no gradients of gradients through fused attention, as on CUDA"
    " (`sdpa_kernel(SDPBackend.MATH)` has them)": [
        r"gradients of gradients: nn\.functional\.scaled_dot_product_attention float64",
    ],
    "scores of several hundred round by 2e-5 in f32, and their exponentials by as much; the CPU's"
    " happen to be nearer to f64": [
        r"gradients: nn\.functional\.scaled_dot_product_attention float32",
    ],
    "beyond the largest f16 infinite here, where halves of halves are NaN on the CPU": [
        r"gradients: __rpow__ float16",
    ],
    "the CPU multiplies by an `alpha` of 1 + 0i, which makes NaN of what is infinite": [
        r"reference inputs: (__radd__|__rsub__|rsub) complex64",
    ],
    "complex powers with infinite or very large parts": [
        r"reference inputs: (pow|__rpow__|float_power) complex64",
    ],
}

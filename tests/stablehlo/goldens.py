"""Writes the goldens: programs as JAX prints them, with the numbers that JAX computes.

    pip install jax
    python tests/stablehlo/goldens.py

For each function below `goldens/<name>.mlir` is its module and `goldens/<name>.txt` its arrays, one
a line: `in` or `out`, the element type, the sizes, the bytes in hexadecimal. `losses` are those of
ten steps of a training, whose results are the loss and what takes the place of the first inputs.
"""

import jax
import jax.numpy as jnp
import numpy as np
from golden_files import FOLDER, RANDOM, line, normal
from golden_matrices import calls, matrices, singular_values
from golden_steps import gpt_step, llama_step, resnet_step
from jax import export, lax
from jax.interpreters import mlir
from jaxlib.mlir import ir


def golden(f, *args, form="", static=()):
    jitted = jax.jit(f, static_argnums=static, keep_unused=True)
    lowered = jitted.lower(*args)
    if form == "generic":
        text = lowered.compiler_ir("stablehlo").operation.get_asm(print_generic_op_form=True)
    elif form in ("exported", "tpu"):
        # Constants of regions stand outside. For a TPU nothing calls LAPACK.
        exported = export.export(jitted, platforms=[form] if form == "tpu" else None)(*args)
        with mlir.make_ir_context():
            text = str(ir.Module.parse(exported.mlir_module()))
    else:
        text = lowered.as_text()
    leaves = jax.tree.leaves([a for i, a in enumerate(args) if i not in static])
    results = jax.tree.leaves(jax.jit(f, static_argnums=static)(*args))
    name = "_".join(filter(None, [f.__name__, form]))
    (FOLDER / f"{name}.mlir").write_text(text)
    lines = [line("in", a) for a in leaves] + [line("out", a) for a in results]
    (FOLDER / f"{name}.txt").write_text("".join(lines))


def losses(step, *args):
    """The line of a golden that is a training's step."""
    leaves, tree = jax.tree.flatten(args)
    compiled, found = jax.jit(step), []
    for _ in range(10):
        loss, *new = jax.tree.leaves(compiled(*jax.tree.unflatten(tree, leaves)))
        found.append(loss)
        leaves[: len(new)] = new
    with (FOLDER / f"{step.__name__}.txt").open("a") as file:
        file.write(line("losses", np.stack(found)))


def mlp(params, x):
    for w, b in params[:-1]:
        x = jax.nn.relu(x @ w + b)
    w, b = params[-1]
    return jax.nn.log_softmax(x @ w + b)


def mlp_grad(params, x, labels):
    def loss(params):
        picked = jnp.take_along_axis(mlp(params, x), labels[:, None], axis=1)
        return -picked.mean()

    return jax.value_and_grad(loss)(params)


def conv_net(params, x):
    def loss(params):
        y = lax.conv_general_dilated(x, params[0], (1, 1), "SAME")
        y = jax.nn.relu(y)
        y = lax.reduce_window(y, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
        y = lax.conv_general_dilated(y, params[1], (2, 2), "SAME", feature_group_count=2)
        y = lax.reduce_window(y, 0.0, lax.add, (1, 1, 2, 2), (1, 1, 1, 1), "SAME")
        return (y.reshape(y.shape[0], -1) @ params[2]).sum(), y

    return jax.value_and_grad(loss, has_aux=True)(params)


def conv_dims(x, w, y):
    """Other orders of dimensions, strides, dilations and padding that is cut."""
    nhwc = lax.conv_general_dilated(
        x, w, (2, 1), [(1, 2), (-1, 0)], (1, 2), (2, 1), ("NHWC", "HWIO", "NHWC")
    )
    transposed = lax.conv_transpose(
        x, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    grouped = lax.conv_general_dilated(
        y, y, (1,), [(3, 3)], batch_group_count=2, dimension_numbers=("NCH", "OIH", "NCH")
    )
    return nhwc, transposed, grouped


def lstm(params, xs):
    def cell(carry, x):
        h, c = carry
        i, f, g, o = jnp.split(x @ params["w"] + h @ params["u"] + params["b"], 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zero = jnp.zeros((xs.shape[1], params["u"].shape[0]))
    return lax.scan(cell, (zero, zero), xs)


def lstm_grad(params, xs):
    return jax.grad(lambda params: (lstm(params, xs)[1] ** 2).sum())(params)


def dropout(key, x):
    keep = jax.random.bernoulli(key, 0.7, x.shape)
    return jnp.where(keep, x / 0.7, 0.0)


def random_numbers(key):
    a, b, c, d = jax.random.split(key, 4)
    return (
        jax.random.bits(a, (3, 5)),
        jax.random.uniform(b, (7,)),
        jax.random.normal(c, (2, 4)),
        jax.random.randint(d, (6,), 0, 100),
    )


def sampling(key, logits):
    scaled = logits / 0.8
    best, _ = lax.top_k(scaled, 4)
    cut = jnp.where(scaled < best[:, -1:], -jnp.inf, scaled)
    return jax.nn.softmax(cut), jax.random.categorical(key, cut), jnp.argmax(logits, -1)


def decode(params, keys, values, position, token):
    """One token with a cache of keys and values."""
    x = params["embed"][token]
    q, k, v = jnp.split(x @ params["qkv"], 3, axis=-1)
    keys = lax.dynamic_update_slice(keys, k[:, None], (0, position, 0))
    values = lax.dynamic_update_slice(values, v[:, None], (0, position, 0))
    scores = jnp.einsum("nd,ntd->nt", q, keys)
    scores = jnp.where(jnp.arange(keys.shape[1]) <= position, scores, -jnp.inf)
    y = jnp.einsum("nt,ntd->nd", jax.nn.softmax(scores), values)
    window = lax.dynamic_slice(keys, (0, position, 0), (keys.shape[0], 2, keys.shape[2]))
    return (x + y @ params["out"]) @ params["embed"].T, keys, values, window


def sorting(x, n):
    order = jnp.lexsort((x[0], n[0]))
    return (
        jnp.sort(x, axis=0),
        jnp.argsort(x, axis=1),
        jnp.argsort(-n, axis=1),
        jnp.sort(n.astype(jnp.uint32), axis=1, descending=True),
        order,
        jnp.argmax(x, 1),
        jnp.argmin(x, 0),
        jnp.argmax(n),
        jnp.median(x, axis=1),
    )


def random_bits(key):
    """As with `jax_default_prng_impl="rbg"`, which large trainings choose, and by name."""
    typed = jax.random.wrap_key_data(key, impl="rbg")
    algorithms = (lax.RandomAlgorithm.RNG_PHILOX, lax.RandomAlgorithm.RNG_THREE_FRY)
    named = [
        lax.rng_bit_generator(key, shape, np.uint32, algorithm=algorithm)
        for algorithm in algorithms
        for shape in ((), (7,), (2, 3), (3, 5), (3, 1, 4))
    ]
    narrow = [lax.rng_bit_generator(key, (5,), dtype) for dtype in (np.uint8, np.uint16)]
    first, second = jax.random.split(typed)
    return (
        named,
        narrow,
        jax.random.uniform(first, (3, 5)),
        jax.random.bernoulli(second, 0.25, (4, 3)),
        jax.random.key_data(second),
    )


def running(x):
    return (
        jnp.cumsum(x, 1),
        lax.cumsum(x, 1, reverse=True),
        lax.cummax(x, 0),
        jnp.cumprod(x, 1),
        lax.cumlogsumexp(x, 1),
        lax.reduce_window(
            x, 0.0, lax.add, (1, 3), (1, 2), [(0, 0), (2, 1)], window_dilation=(1, 2)
        ),
        lax.reduce_window(x, jnp.inf, lax.min, (2, 2), (1, 1), "SAME"),
    )


def indexing(x, i, j, u):
    return (
        x[i],
        x[:, j],
        x[i, j],
        x[i[:, None], j[None, :], 1:3],
        x.at[i].add(u),
        x.at[i, j].set(u[:, 0]),
        x.at[:, 1].mul(2.0),
        x.at[i].max(u),
        jnp.take_along_axis(x, i[None, :, None], axis=1),
        jax.vmap(lambda row, k: lax.dynamic_slice(row, (k, 0), (2, 2)))(x, i[:3]),
        jnp.take(x, jnp.array([7, -9, 1]), axis=0, mode="fill"),
        lax.dynamic_index_in_dim(x, j[1], 1),
        jnp.roll(x, 1, axis=2),
    )


def special(x):
    inside = 0.9 * jnp.tanh(x)
    s = jax.scipy.special
    return (
        s.erf(x),
        s.erfc(x),
        s.erfinv(inside),
        s.gammaln(x),
        s.digamma(x),
        jnp.sinh(x),
        jnp.cosh(x),
        jnp.tan(x),
        jnp.arcsin(inside),
        jnp.arccos(inside),
        jnp.arctan(x),
        jnp.arcsinh(x),
        jnp.arccosh(1 + jnp.abs(x)),
        jnp.arctanh(inside),
        jnp.cbrt(x),
        jnp.sign(x),
        jnp.round(x),
        x // 0.3,
        x % 0.3,
        jnp.exp2(x),
        jnp.logaddexp(x, -x),
        jnp.hypot(x, 2.0),
        jnp.nextafter(x, 0.0),
        jnp.clip(x, -0.5, 0.5),
        jax.nn.silu(x),
        jax.nn.gelu(x, approximate=False),
    )


def integers(n, m):
    u = n.astype(jnp.uint32)
    return (
        n // m,
        n % m,
        n << 3,
        n >> 2,
        u >> 5,
        u // 7,
        u % 7,
        n**2,
        lax.population_count(n),
        lax.clz(n),
        n & m,
        n | m,
        n ^ m,
        ~n,
        u.astype(jnp.float32),
        (u > 10),
        jnp.minimum(u, 100),
        lax.shift_left(n, m),
        lax.shift_right_logical(n, m),
        lax.shift_right_arithmetic(n, m),
        n.astype(jnp.int8),
        lax.bitcast_convert_type(n, jnp.uint8),
    )


def shapes(x):
    return (
        x[::-1],
        x[:, 1:5:2],
        jnp.pad(x, ((1, 2), (0, 1)), constant_values=3.0),
        lax.pad(x, 1.5, ((-1, 2, 1), (2, -3, 2))),
        jnp.concatenate([x, x * 2], 1),
        jnp.stack([x, -x], 1),
        jnp.repeat(x, 2, axis=0),
        jnp.tile(x, (2, 1)),
        jnp.diag(x[:3, :3]),
        jnp.tril(x),
        jnp.flip(x, (0, 1)),
        jnp.linspace(0, 1, 5) + x[0, :5],
        jnp.einsum("ij,kj->ikj", x, x),
        x.T.reshape(2, -1),
        jnp.any(x > 0, 0),
        jnp.all(x < 9, 1),
        jnp.prod(x, 0),
        x.max(),
        x.min(0),
        jnp.where(x.sum() > 0, x, 0),
        x.astype(jnp.bfloat16),
        x.astype(jnp.bfloat16) @ x.T.astype(jnp.bfloat16),
        jnp.dot(
            x.astype(jnp.bfloat16), x.T.astype(jnp.bfloat16), preferred_element_type=jnp.float32
        ),
        jnp.array(np.arange(40).reshape(5, 8) % 7)[:, 1:3],
    )


def branches(x, k):
    y = lax.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, x)
    z = lax.switch(k, [jnp.sin, jnp.cos, lambda x: x], x)
    return y, z, lax.fori_loop(0, 4, lambda i, c: c * 0.5 + i, x)


def fourier(x):
    y = jnp.fft.rfft(x)
    return jnp.abs(y), jnp.fft.irfft(y * 2, n=x.shape[-1]), jnp.fft.fft(x).imag


def loops(x, n, start, table):
    """As many rounds as data says, one loop in another, and constants that both see."""
    weights = jnp.asarray(WEIGHTS)

    def is_far(state):
        guess, _, rounds = state
        return (jnp.abs(guess * guess - x).max() > 1e-5) & (rounds < 50)

    def newton(state):
        guess, _, rounds = state
        return 0.5 * (guess + x / guess), guess, rounds + 1

    def collatz(i, total):
        def halve(state):
            value, steps = state
            return jnp.where(value % 2 == 0, value // 2, 3 * value + 1), steps + 1

        _, steps = lax.while_loop(lambda state: state[0] != 1, halve, (start + i, 0))
        return total + steps * table[i % table.shape[0]]

    def mixed(i, y):
        return jnp.tanh(y @ weights) + i.astype(jnp.float32) / n

    return (
        lax.while_loop(is_far, newton, (jnp.ones_like(x), x, 0)),
        lax.fori_loop(0, n, collatz, 0),
        lax.fori_loop(0, n, mixed, jnp.ones((2, 20))),
        lax.while_loop(lambda i: i < n, lambda i: i * 2, n),
    )


def loop_types(n, z, flags, halves, words, bytes_):
    """A state of every kind of element, and one without elements."""

    def step(i, state):
        z, flags, halves, words, bytes_, nothing = state
        return (
            z * (0.9 + 0.1j) + 1,
            ~flags,
            halves * jnp.bfloat16(1.01) + 1,
            (words << 1) ^ jnp.uint32(0x5BD1E995),
            bytes_.at[i % 4].add(jnp.int8(3)),
            nothing,
        )

    return lax.fori_loop(0, n, step, (z, flags, halves, words, bytes_, jnp.zeros((0, 3))))


def long_scan(w, x):
    """More rounds than are worth writing out, and the gradient, which goes back over them."""

    def loss(w):
        def step(state, drive):
            state = jnp.tanh(state @ w + drive)
            return state, state.sum()

        last, sums = lax.scan(step, jnp.zeros((2, w.shape[0])), x)
        return last.sum() + jnp.mean(sums**2), sums[::100]

    (value, sums), gradient = jax.value_and_grad(loss, has_aux=True)(w)
    return value, sums, gradient


WEIGHTS = np.linspace(-0.3, 0.3, 400, dtype=np.float32).reshape(20, 20)


def main():
    FOLDER.mkdir(exist_ok=True)
    layers = [(normal(5, 8), normal(8)), (normal(8, 8), normal(8)), (normal(8, 3), normal(3))]
    golden(mlp, layers, normal(4, 5))
    labels = np.array([0, 2, 1, 1], np.int32)
    golden(mlp_grad, layers, normal(4, 5), labels)
    golden(mlp_grad, layers, normal(4, 5), labels, form="generic")
    d, vocabulary = 4, 7
    params = {
        "embed": normal(vocabulary, d),
        "position": normal(6, d),
        "norm1": normal(d) + 1,
        "norm2": normal(d) + 1,
        "qkv": normal(d, 3 * d),
        "out": normal(d, d),
        "up": normal(d, 2 * d),
        "down": normal(2 * d, d),
    }
    zeros = jax.tree.map(np.zeros_like, params)
    tokens = RANDOM.integers(0, vocabulary, (2, 6)).astype(np.int32)
    state = params, zeros, zeros, np.float32(0), tokens
    golden(gpt_step, *state)
    losses(gpt_step, *state)
    filters = [normal(4, 2, 3, 3), normal(6, 2, 3, 3), normal(6 * 2 * 2, 2)]
    golden(conv_net, filters, normal(2, 2, 8, 8))
    golden(conv_dims, normal(2, 5, 6, 3), normal(3, 2, 3, 4), normal(4, 2, 6))
    cell = {"w": normal(3, 16), "u": normal(4, 16), "b": normal(16)}
    golden(lstm, cell, normal(5, 2, 3))
    golden(lstm_grad, cell, normal(5, 2, 3))
    key = jax.random.PRNGKey(42)
    golden(dropout, key, normal(4, 6))
    golden(random_numbers, key)
    golden(sampling, key, normal(3, 9, scale=2))
    small = {"embed": normal(6, 4), "qkv": normal(4, 12), "out": normal(4, 4)}
    state = normal(2, 5, 4), normal(2, 5, 4), np.int32(2), np.array([1, 4], np.int32)
    golden(decode, small, *state)
    x = normal(4, 6)
    x[0, 1], x[1, 2], x[1, 3], x[2, 2] = np.nan, 0.0, -0.0, np.inf
    n = RANDOM.integers(-3, 4, (4, 6)).astype(np.int32)
    golden(sorting, x, n)
    golden(sorting, x, n, form="exported")
    # A counter that is about to begin anew.
    golden(random_bits, np.array([1, 2, 2**32 - 2, 2**32 - 1], np.uint32))
    golden(running, normal(3, 5))
    i, j = np.array([2, 0, 2], np.int32), np.array([1, -1, 3], np.int32)
    golden(indexing, normal(3, 4, 5), i, j, normal(3, 4, 5))
    golden(special, np.concatenate([normal(9, scale=2), np.float32([0.5, -2.5, 0.25, 3, 12.5])]))
    n = np.array([5, -7, 0, 123456789, -2147483648], np.int32)
    golden(integers, n, np.array([3, 2, 7, 31, 5], np.int32))
    golden(shapes, normal(4, 8))
    golden(branches, normal(3), np.int32(1))
    golden(fourier, normal(2, 8))
    table = RANDOM.integers(0, 9, 4).astype(np.int32)
    golden(loops, np.abs(normal(3)) + 0.5, np.int32(9), np.int32(6), table)
    z = (normal(3) + 1j * normal(3)).astype(np.complex64)
    words = np.array([1, 2**31], np.uint32)
    halves = jnp.asarray(normal(4), jnp.bfloat16)
    golden(
        loop_types, np.int32(13), z, np.array([True, False]), halves, words, np.zeros(4, np.int8)
    )
    drives = np.sin(np.arange(700 * 6, dtype=np.float32)).reshape(700, 2, 3)
    golden(long_scan, normal(3, 3), drives)
    for form in ("", "tpu"):
        golden(matrices, normal(2, 5, 5), normal(2, 5, 3), form=form)
    golden(calls, normal(5, 4), (normal(3) + 1j * normal(3)).astype(np.complex64))
    golden(singular_values, normal(5, 4), form="tpu")
    sizes = {"embed": (11, 8), "q": (8, 8), "k": (8, 4), "v": (8, 4), "o": (8, 8)}
    sizes |= {"gate": (8, 12), "up": (8, 12), "down": (12, 8)}
    params = {name: normal(*size) for name, size in sizes.items()}
    params |= {f"norm{n}": normal(8) + 1 for n in (1, 2, 3)}
    zeros = jax.tree.map(np.zeros_like, params)
    tokens = RANDOM.integers(0, 11, (2, 7)).astype(np.int32)
    state = params, zeros, zeros, np.float32(0), tokens
    golden(llama_step, *state)
    losses(llama_step, *state)
    filters = {"stem": (4, 2, 3, 3), "conv1": (4, 4, 3, 3), "out1": (4, 4, 3, 3)}
    filters |= {"conv2": (6, 4, 3, 3), "out2": (6, 6, 3, 3), "shortcut": (6, 4, 1, 1)}
    params = {name: normal(*size, scale=0.3) for name, size in filters.items()}
    ones = {"stem_norm": 4, "norm1": 4, "norm2": 6}
    params |= {name: [np.ones(n, np.float32), normal(n)] for name, n in ones.items()}
    params["head"] = normal(6, 3)
    statistics = [[np.zeros(n, np.float32), np.ones(n, np.float32)] for n in ones.values()]
    momenta = jax.tree.map(np.zeros_like, params)
    labels = np.array([0, 2, 1, 2], np.int32)
    state = params, statistics, momenta, normal(4, 2, 8, 8), labels
    golden(resnet_step, *state)
    losses(resnet_step, *state)


if __name__ == "__main__":
    main()

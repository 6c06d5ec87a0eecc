"""The works on JAX: `worker_jax.py jax|jax-plugin gpt|module f32|bf16`, AdamW by hand.

bf16 means what autocast means to PyTorch: f32 weights and normalisations, bf16 matrix products.
"""

import math
import sys
from functools import partial

import jax
import jax.numpy as jnp
import module
import numpy as np
import works
from worker import serve

GPT = works.WORKS["gpt"]["model"] | works.TRAINING


def initial_parameters(random):
    """The weights, as nested dicts of f32 arrays; the output layer is the token embedding."""
    width = GPT["width"]

    def linear(rows, columns, std=0.02):
        return {
            "weight": random.normal(0, std, (rows, columns)).astype(np.float32),
            "bias": np.zeros(columns, np.float32),
        }

    def norm():
        return {"scale": np.ones(width, np.float32), "bias": np.zeros(width, np.float32)}

    small = 0.02 / math.sqrt(2 * GPT["layers"])
    blocks = [
        {
            "norm1": norm(),
            "qkv": linear(width, 3 * width),
            "project": linear(width, width, small),
            "norm2": norm(),
            "up": linear(width, 4 * width),
            "down": linear(4 * width, width, small),
        }
        for _ in range(GPT["layers"])
    ]
    return {
        "token": random.normal(0, 0.02, (GPT["vocabulary"], width)).astype(np.float32),
        "position": random.normal(0, 0.02, (GPT["context"], width)).astype(np.float32),
        "blocks": blocks,
        "norm": norm(),
    }


def normalise(x, p):
    x = x.astype(jnp.float32)
    centred = x - x.mean(-1, keepdims=True)
    return (
        centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * p["scale"]
        + p["bias"]
    )


def product(x, p, compute):
    return x.astype(compute) @ p["weight"].astype(compute) + p["bias"].astype(compute)


def forward(parameters, tokens, targets, compute):
    """The mean loss of tokens and targets int32 [batch, time]."""
    batch, time = tokens.shape
    heads, width = GPT["heads"], GPT["width"]
    x = parameters["token"][tokens] + parameters["position"][:time]
    for block in parameters["blocks"]:
        qkv = product(normalise(x, block["norm1"]), block["qkv"], compute)
        q, k, v = (
            part.reshape(batch, time, heads, width // heads) for part in jnp.split(qkv, 3, axis=-1)
        )
        y = jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(batch, time, width)
        x = x + product(y, block["project"], compute)
        hidden = product(normalise(x, block["norm2"]), block["up"], compute)
        x = x + product(jax.nn.gelu(hidden, approximate=False), block["down"], compute)
    x = normalise(x, parameters["norm"]).astype(compute)
    logits = (x @ parameters["token"].astype(compute).T).astype(jnp.float32)
    chosen = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    return (jax.nn.logsumexp(logits, axis=-1) - chosen).mean()


def adamw(p, gradient, m, v, count):
    beta1, beta2 = GPT["betas"]
    m = beta1 * m + (1 - beta1) * gradient
    v = beta2 * v + (1 - beta2) * gradient**2
    update = (m / (1 - beta1**count)) / (jnp.sqrt(v / (1 - beta2**count)) + 1e-8)
    return p * (1 - GPT["lr"] * GPT["weight_decay"]) - GPT["lr"] * update, m, v


def gpt_step(dtype):
    """What `serve` wants for a training step."""
    compute = jnp.bfloat16 if dtype == "bf16" else jnp.float32
    random = np.random.default_rng(0)
    parameters = jax.tree.map(jnp.asarray, initial_parameters(random))
    zeros = jax.tree.map(jnp.zeros_like, parameters)
    state = [parameters, zeros, jax.tree.map(jnp.copy, zeros), jnp.float32(0)]

    def update(parameters, m, v, count, tokens, targets):
        loss, gradients = jax.value_and_grad(forward)(parameters, tokens, targets, compute)
        count = count + 1
        structure = jax.tree.structure(parameters)
        leaves = (jax.tree.leaves(tree) for tree in (parameters, gradients, m, v))
        updated = [adamw(*four, count) for four in zip(*leaves, strict=True)]
        parts = (jax.tree.unflatten(structure, part) for part in zip(*updated, strict=True))
        return (*parts, count, loss)

    compiled = jax.jit(update, donate_argnums=(0, 1, 2))

    def batch(number):
        drawn = works.batch("gpt", number)
        arrays = [np.frombuffer(numbers, np.int64).reshape(sizes) for numbers, sizes in drawn]
        return [array.astype(np.int32) for array in arrays], works.checksum(drawn)

    def step(tensors):
        *state[:], loss = compiled(*state, *tensors)
        return lambda: float(loss)

    return {}, batch, step, lambda: jax.block_until_ready(state)


def module_step():
    """The same for the step of examples/stablehlo/gpt.py, which draws its batches itself."""
    sys.path.insert(0, str(module.EXAMPLE.parent))
    import gpt

    *state, text = map(partial(jax.tree.map, jnp.asarray), gpt.inputs(module.TEXT))
    compiled = jax.jit(gpt.step, donate_argnums=tuple(range(len(state))))

    def step(_):
        loss, *state[:] = compiled(*state, text)
        return lambda: float(loss)

    return {}, lambda number: (None, 0), step, lambda: jax.block_until_ready(state)


def on_plugin():
    """Makes the plugin's the device that JAX computes on."""
    from jax._src import xla_bridge

    xla_bridge.register_plugin(
        "plugin", library_path=module.plugin(), options={"cpu_device_count": 1}
    )
    jax.config.update("jax_platforms", "plugin,cpu")


if __name__ == "__main__":
    peer, work, dtype = sys.argv[1:]
    if work not in ("gpt", "module"):
        sys.exit(f"{work} is not written for JAX, only gpt and module are")
    if peer == "jax-plugin":
        on_plugin()
    make = module_step if work == "module" else partial(gpt_step, dtype)
    serve({"jax": jax.__version__}, make)

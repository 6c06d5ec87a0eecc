"""A GPT's training step in JAX, exported for a program that has neither JAX nor Python.

    pip install jax safetensors
    python examples/stablehlo/gpt.py TEXT FOLDER

writes `step.mlir` and `inputs.safetensors` to the folder. The step takes weights, the state of
AdamW, its count, a key for random numbers and the text; it draws a batch of the text, and returns
the loss and what all these but the text are afterwards. examples/c/train_module.c trains it.
"""

import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import save_file

BATCH, TIME, WIDTH, HEADS, LAYERS = 8, 64, 128, 4, 2


def initial(random):
    def normal(*sizes):
        return (0.02 * random.standard_normal(sizes)).astype(np.float32)

    def layer():
        return {
            "norm1": np.ones(WIDTH, np.float32),
            "norm2": np.ones(WIDTH, np.float32),
            "qkv": normal(WIDTH, 3 * WIDTH),
            "out": normal(WIDTH, WIDTH),
            "up": normal(WIDTH, 4 * WIDTH),
            "down": normal(4 * WIDTH, WIDTH),
        }

    layers = jax.tree.map(lambda *all: np.stack(all), *[layer() for _ in range(LAYERS)])
    return {"embed": normal(256, WIDTH), "place": normal(TIME, WIDTH), "layers": layers}


def normalised(x, scale):
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * scale


def block(x, layer):
    q, k, v = jnp.split(normalised(x, layer["norm1"]) @ layer["qkv"], 3, -1)
    q, k, v = (y.reshape(BATCH, TIME, HEADS, -1).swapaxes(1, 2) for y in (q, k, v))
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(WIDTH // HEADS)
    scores = jnp.where(jnp.tril(jnp.ones((TIME, TIME), bool)), scores, -jnp.inf)
    y = (jax.nn.softmax(scores) @ v).swapaxes(1, 2).reshape(x.shape)
    x = x + y @ layer["out"]
    return x + jax.nn.gelu(normalised(x, layer["norm2"]) @ layer["up"]) @ layer["down"], None


def loss_of(weights, tokens):
    x = weights["embed"][tokens[:, :-1]] + weights["place"]
    x, _ = jax.lax.scan(block, x, weights["layers"])
    logits = jax.nn.log_softmax(x @ weights["embed"].T)
    return -jnp.take_along_axis(logits, tokens[:, 1:, None], -1).mean()


def step(weights, first, second, count, key, text):
    key, drawn = jax.random.split(key)
    starts = jax.random.randint(drawn, (BATCH, 1), 0, text.shape[0] - TIME)
    tokens = text[starts + jnp.arange(TIME + 1)].astype(jnp.int32)
    loss, gradients = jax.value_and_grad(loss_of)(weights, tokens)
    count = count + 1
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
    second = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, second, gradients)

    def update(w, m, v):
        m, v = m / (1 - 0.9**count), v / (1 - 0.99**count)
        return w - 1e-3 * (m / (jnp.sqrt(v) + 1e-8) + 0.01 * w)

    return loss, jax.tree.map(update, weights, first, second), first, second, count, key


def inputs(file):
    """What the first step takes, to learn the text in a file."""
    text = np.frombuffer(pathlib.Path(file).read_bytes(), np.uint8)
    weights = initial(np.random.default_rng(0))
    zeros = jax.tree.map(np.zeros_like, weights)
    return weights, zeros, zeros, np.float32(0), np.asarray(jax.random.PRNGKey(0)), text


def main():
    first = inputs(sys.argv[1])
    folder = pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    # Every input is an argument, used or not.
    lowered = jax.jit(step, keep_unused=True).lower(*first)
    (folder / "step.mlir").write_text(lowered.as_text())
    leaves = [np.asarray(one, order="C") for one in jax.tree.leaves(first)]
    save_file({str(n): one for n, one in enumerate(leaves)}, folder / "inputs.safetensors")
    print(f"wrote {folder}/step.mlir and {folder}/inputs.safetensors")


if __name__ == "__main__":
    main()

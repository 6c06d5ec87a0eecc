"""Training steps of the goldens of JAX: the loss comes first, then the new state, which takes the
place of the first inputs.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def layer_norm(x, scale):
    mean = x.mean(-1, keepdims=True)
    var = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(var + 1e-5) * scale


def gpt(params, tokens):
    x = params["embed"][tokens] + params["position"][: tokens.shape[1]]
    n, t, d = x.shape
    heads = 2
    h = layer_norm(x, params["norm1"])
    q, k, v = jnp.split(h @ params["qkv"], 3, axis=-1)
    q, k, v = (a.reshape(n, t, heads, d // heads).transpose(0, 2, 1, 3) for a in (q, k, v))
    scores = jnp.einsum("nhtd,nhsd->nhts", q, k) / np.sqrt(d // heads)
    scores = jnp.where(jnp.tril(jnp.ones((t, t), bool)), scores, -1e9)
    y = jnp.einsum("nhts,nhsd->nhtd", jax.nn.softmax(scores), v)
    x = x + y.transpose(0, 2, 1, 3).reshape(n, t, d) @ params["out"]
    x = x + jax.nn.gelu(layer_norm(x, params["norm2"]) @ params["up"]) @ params["down"]
    return x @ params["embed"].T


def gpt_step(params, first, second, step, tokens):
    """A step of AdamW."""

    def loss(params):
        logits = jax.nn.log_softmax(gpt(params, tokens[:, :-1]))
        return -jnp.take_along_axis(logits, tokens[:, 1:, None], axis=-1).mean()

    value, grads = jax.value_and_grad(loss)(params)
    step = step + 1
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, grads)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, grads)

    def update(p, m, v):
        m, v = m / (1 - 0.9**step), v / (1 - 0.999**step)
        return p - 1e-3 * (m / (jnp.sqrt(v) + 1e-8) + 0.01 * p)

    return value, jax.tree.map(update, params, first, second), first, second, step


def llama_step(params, m, v, count, tokens):
    """RMSNorm, rotary positions, two heads of keys for four of queries, SwiGLU, and AdamW."""
    width, heads, pairs = 8, 4, 1
    length = tokens.shape[1] - 1
    angles = jnp.arange(length)[:, None] * 10_000.0 ** (-jnp.arange(pairs) / pairs)
    cos, sin = jnp.cos(angles)[:, None], jnp.sin(angles)[:, None]

    def norm(x, scale):
        return x * lax.rsqrt(jnp.mean(x**2, -1, keepdims=True) + 1e-5) * scale

    def rotated(x):
        a, b = jnp.split(x, 2, axis=-1)
        return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], -1)

    def loss_of(p):
        x = p["embed"][tokens[:, :-1]]
        y = norm(x, p["norm1"])
        q = rotated((y @ p["q"]).reshape(*y.shape[:2], heads, 2 * pairs))
        k = rotated((y @ p["k"]).reshape(*y.shape[:2], 2, 2 * pairs))
        value = (y @ p["v"]).reshape(k.shape)
        k, value = (jnp.repeat(one, 2, axis=2) for one in (k, value))
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(2 * pairs)
        mask = jnp.tril(jnp.ones((length, length), bool))
        weights = jax.nn.softmax(jnp.where(mask, scores, -1e30))
        x = x + jnp.einsum("bhqk,bkhd->bqhd", weights, value).reshape(*y.shape[:2], width) @ p["o"]
        y = norm(x, p["norm2"])
        x = x + (jax.nn.silu(y @ p["gate"]) * (y @ p["up"])) @ p["down"]
        logits = norm(x, p["norm3"]) @ p["embed"].T
        chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[:, 1:, None], -1)
        return -chosen.mean()

    loss, grads = jax.value_and_grad(loss_of)(params)
    count = count + 1
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, grads)
    v = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, v, grads)

    def updated(p, m, v):
        step = (m / (1 - 0.9**count)) / (jnp.sqrt(v / (1 - 0.99**count)) + 1e-3)
        return p - 0.02 * (step + 0.1 * p)

    return loss, jax.tree.map(updated, params, m, v), m, v, count


def resnet_step(params, running, momenta, x, labels):
    """Blocks with a shortcut, one of them narrowed by a stride; batch norm with running statistics;
    SGD with momentum."""

    def conv(x, w, stride=1):
        return lax.conv_general_dilated(x, w, (stride, stride), "SAME")

    def norm(x, p, old):
        mean, var = x.mean((0, 2, 3)), x.var((0, 2, 3))
        new = [0.9 * o + 0.1 * n for o, n in zip(old, (mean, var), strict=True)]
        scale = p[0] * lax.rsqrt(var + 1e-3)
        return (x - mean[:, None, None]) * scale[:, None, None] + p[1][:, None, None], new

    def loss_of(p):
        y, new = norm(conv(x, p["stem"]), p["stem_norm"], running[0])
        statistics = [new]
        for n, stride in ((1, 1), (2, 2)):
            z, new = norm(conv(jax.nn.relu(y), p[f"conv{n}"], stride), p[f"norm{n}"], running[n])
            statistics.append(new)
            shortcut = y if stride == 1 else conv(y, p["shortcut"], stride)
            y = shortcut + conv(jax.nn.relu(z), p[f"out{n}"])
        logits = jax.nn.relu(y).mean((2, 3)) @ p["head"]
        chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], -1)
        return -chosen.mean(), statistics

    (loss, running), grads = jax.value_and_grad(loss_of, has_aux=True)(params)
    momenta = jax.tree.map(lambda m, g: 0.9 * m + g, momenta, grads)
    params = jax.tree.map(lambda p, m: p - 0.05 * m, params, momenta)
    return loss, params, running, momenta

"""Writes the goldens of TensorFlow, as `goldens.py` does those of JAX.

    pip install tensorflow-cpu
    python tests/stablehlo/goldens_tensorflow.py

Both are training steps with a gradient tape: the loss comes first, then the new state, which takes
the place of the first inputs. `losses` are those of ten steps.
"""

import os
import pathlib

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf
from golden_files import FOLDER, line, normal


def golden(step, state, data):
    compiled = tf.function(
        lambda *args: step(args[: len(state)], *args[len(state) :]), jit_compile=True
    )
    inputs = [tf.constant(one) for one in [*state, *data]]
    text = compiled.experimental_get_compiler_ir(*inputs)(stage="stablehlo")
    # Where it is installed.
    text = text.replace(f"{pathlib.Path(tf.__file__).parents[1]}/", "")
    (FOLDER / f"{step.__name__}.mlir").write_text(text)
    results = compiled(*inputs)
    lines = [line("in", one) for one in inputs] + [line("out", one) for one in results]
    losses = []
    for _ in range(10):
        loss, *new = compiled(*inputs)
        losses.append(loss.numpy())
        inputs[: len(new)] = new
    lines.append(line("losses", np.stack(losses)))
    (FOLDER / f"{step.__name__}.txt").write_text("".join(lines))


def tensorflow_mlp(state, x, labels):
    """Two layers, dropout with a mask that comes with the data, and SGD with momentum."""
    weights, momenta = state[:4], state[4:]
    with tf.GradientTape() as tape:
        tape.watch(weights)
        hidden = tf.nn.gelu(x @ weights[0] + weights[1])
        logits = hidden @ weights[2] + weights[3]
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        loss = tf.reduce_mean(losses)
    gradients = tape.gradient(loss, weights)
    momenta = [0.9 * m + g for m, g in zip(momenta, gradients, strict=True)]
    weights = [w - 0.1 * m for w, m in zip(weights, momenta, strict=True)]
    return [loss, *weights, *momenta]


def tensorflow_conv_net(state, x, labels):
    """Convolutions with batch normalisation and pooling, and Adam."""
    weights, first, second, count = state[:6], state[6:12], state[12:18], state[18]
    with tf.GradientTape() as tape:
        tape.watch(weights)
        y = tf.nn.conv2d(x, weights[0], strides=1, padding="SAME")
        y, _, _ = tf.compat.v1.nn.fused_batch_norm(y, weights[1], weights[2])
        y = tf.nn.max_pool2d(tf.nn.relu(y), 2, 2, "VALID")
        y = tf.nn.depthwise_conv2d(y, weights[3], [1, 1, 1, 1], "SAME")
        y = tf.nn.avg_pool2d(tf.nn.silu(y), 3, 2, "SAME")
        y = tf.reduce_mean(y, [1, 2])
        logits = y @ weights[4] + weights[5]
        loss = tf.reduce_mean(
            tf.nn.softmax_cross_entropy_with_logits(tf.one_hot(labels, 3), logits)
        )
    gradients = tape.gradient(loss, weights)
    count = count + 1
    first = [0.9 * m + 0.1 * g for m, g in zip(first, gradients, strict=True)]
    second = [0.999 * v + 0.001 * tf.square(g) for v, g in zip(second, gradients, strict=True)]
    rate = 0.01 * tf.sqrt(1 - tf.pow(0.999, count)) / (1 - tf.pow(0.9, count))
    updates = [rate * m / (tf.sqrt(v) + 1e-7) for m, v in zip(first, second, strict=True)]
    weights = [w - update for w, update in zip(weights, updates, strict=True)]
    return [loss, *weights, *first, *second, count]


def main():
    FOLDER.mkdir(exist_ok=True)
    weights = [normal(5, 8), normal(8), normal(8, 3), normal(3)]
    zeros = [np.zeros_like(w) for w in weights]
    labels = np.array([0, 2, 1, 1], np.int32)
    golden(tensorflow_mlp, weights + zeros, [normal(4, 5), labels])
    weights = [
        normal(3, 3, 2, 4),
        normal(4) + 1,
        normal(4),
        normal(3, 3, 4, 1),
        normal(4, 3),
        normal(3),
    ]
    zeros = [np.zeros_like(w) for w in weights]
    state = [*weights, *zeros, *zeros, np.float32(0)]
    golden(tensorflow_conv_net, state, [normal(4, 8, 8, 2), labels])


if __name__ == "__main__":
    main()

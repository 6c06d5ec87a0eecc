"""A training step in TensorFlow, exported for a program that has neither TensorFlow nor Python.

    pip install tensorflow-cpu safetensors
    python examples/stablehlo/tensorflow_text.py TEXT FOLDER

writes `step.mlir` and `inputs.safetensors` to the folder. The network guesses a byte from the eight
before it. The step takes weights, the state of Adam, its count and the text; it draws a batch of
the text by the count, and returns the loss and what all these but the text are afterwards.
examples/c/train_module.c trains it.
"""

import os
import pathlib
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf
from safetensors.numpy import save_file

BATCH, CONTEXT, WIDTH, HIDDEN = 64, 8, 32, 256


def initial(random):
    sizes = [(256, WIDTH), (CONTEXT * WIDTH, HIDDEN), (HIDDEN,), (HIDDEN, 256), (256,)]
    return [(0.1 * random.standard_normal(size)).astype(np.float32) for size in sizes]


def loss_of(weights, windows):
    embed, up, up_bias, down, down_bias = weights
    x = tf.reshape(tf.gather(embed, windows[:, :-1]), (BATCH, CONTEXT * WIDTH))
    logits = tf.nn.gelu(x @ up + up_bias) @ down + down_bias
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(windows[:, -1], logits)
    return tf.reduce_mean(losses)


def step(weights, first, second, count, text):
    seed = tf.stack([count, 0])
    starts = tf.random.stateless_uniform((BATCH, 1), seed, 0, len(text) - CONTEXT, tf.int32)
    windows = tf.cast(tf.gather(text, starts + tf.range(CONTEXT + 1)), tf.int32)
    with tf.GradientTape() as tape:
        tape.watch(weights)
        loss = loss_of(weights, windows)
    gradients = [tf.convert_to_tensor(one) for one in tape.gradient(loss, weights)]
    count = count + 1
    steps = tf.cast(count, tf.float32)
    first = [0.9 * m + 0.1 * g for m, g in zip(first, gradients, strict=True)]
    second = [0.99 * v + 0.01 * g * g for v, g in zip(second, gradients, strict=True)]
    moments = [
        (m / (1 - 0.9**steps), v / (1 - 0.99**steps)) for m, v in zip(first, second, strict=True)
    ]
    weights = [
        w - 2e-3 * m / (tf.sqrt(v) + 1e-8) for w, (m, v) in zip(weights, moments, strict=True)
    ]
    return [loss, *weights, *first, *second, count]


def main():
    text = np.frombuffer(pathlib.Path(sys.argv[1]).read_bytes(), np.uint8)
    folder = pathlib.Path(sys.argv[2])
    weights = initial(np.random.default_rng(0))
    zeros = [np.zeros_like(one) for one in weights]
    inputs = [*weights, *zeros, *zeros, np.int32(0), text]
    n = len(weights)

    def flat(*args):
        state = args[:n], args[n : 2 * n], args[2 * n : 3 * n]
        return step(*(list(one) for one in state), *args[3 * n :])

    compiled = tf.function(flat, jit_compile=True)
    lowered = compiled.experimental_get_compiler_ir(*(tf.constant(one) for one in inputs))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "step.mlir").write_text(lowered(stage="stablehlo"))
    save_file(
        {str(n): np.asarray(one) for n, one in enumerate(inputs)}, folder / "inputs.safetensors"
    )
    print(f"wrote {folder}/step.mlir and {folder}/inputs.safetensors")


if __name__ == "__main__":
    main()

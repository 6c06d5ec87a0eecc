"""What the goldens of JAX and of TensorFlow have in common: their folder, and a line of arrays."""

import pathlib

import numpy as np

FOLDER = pathlib.Path(__file__).parent / "goldens"
RANDOM = np.random.default_rng(0)


def normal(*sizes, scale=0.5):
    return (RANDOM.standard_normal(sizes) * scale).astype(np.float32)


def line(kind, array):
    array = np.asarray(array)
    name = {"bool": "i1", "bfloat16": "bf16", "complex64": "c64"}.get(array.dtype.name)
    name = name or array.dtype.name.replace("uint", "ui").replace("int", "i").replace("float", "f")
    sizes = "x".join(map(str, array.shape)) or "-"
    return f"{kind} {name} {sizes} {array.tobytes().hex()}\n"

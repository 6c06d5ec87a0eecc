"""The works, for every framework: the sizes of their models, and their data.

Plain Python, so that every framework gets the same numbers and none has to be there.
"""

import zlib
from array import array
from random import Random

# For every work the arguments of its model (`models`), and the kind and sizes of its batches.
WORKS = {
    "gpt": {
        "model": {"layers": 6, "width": 384, "heads": 6, "context": 256, "vocabulary": 8192},
        "data": {"kind": "text", "batch": 8, "time": 256, "vocabulary": 8192},
    },
    "llama": {
        "model": {
            "layers": 6,
            "width": 384,
            "heads": 6,
            "groups": 2,
            "context": 256,
            "vocabulary": 8192,
        },
        "data": {"kind": "text", "batch": 4, "time": 256, "vocabulary": 8192},
    },
    "bert": {
        "model": {"layers": 6, "width": 384, "heads": 6, "context": 128, "vocabulary": 8192},
        "data": {"kind": "masked text", "batch": 8, "time": 128, "vocabulary": 8192},
    },
    "vit": {
        "model": {"layers": 6, "width": 384, "heads": 6, "image": 96, "patch": 8, "classes": 100},
        "data": {"kind": "images", "batch": 8, "sizes": (3, 96, 96), "classes": 100},
    },
    "resnet18": {
        "model": {"stages": (64, 128, 256, 512), "blocks": (2, 2, 2, 2), "classes": 100},
        "data": {"kind": "images", "batch": 16, "sizes": (3, 64, 64), "classes": 100},
    },
    "mlp": {
        "model": {"widths": (784, 2048, 2048, 2048, 10)},
        "data": {"kind": "images", "batch": 512, "sizes": (784,), "classes": 10},
    },
    "lstm": {
        "model": {"layers": 2, "width": 384, "vocabulary": 96},
        "data": {"kind": "text", "batch": 32, "time": 64, "vocabulary": 96},
    },
}

# Those that only a GPU trains in reasonable time: GPT-2 of 124M and of 1.5B parameters, a Llama of
# 1.1B, ViT-L/16 and ResNet-50. "gigabytes" is about what eager takes at most, in bf16: 16 bytes for
# each parameter, what is saved for the way back, and the scores. Images take longer to draw than to
# train on, so that so many "batches" come again and again.
WORKS |= {
    "gpt2": {
        "model": {"layers": 12, "width": 768, "heads": 12, "context": 1024, "vocabulary": 50304},
        "data": {"kind": "text", "batch": 16, "time": 1024, "vocabulary": 50257},
        "gigabytes": 16,
    },
    "gpt2-xl": {
        "model": {"layers": 48, "width": 1600, "heads": 25, "context": 1024, "vocabulary": 50304},
        "data": {"kind": "text", "batch": 8, "time": 1024, "vocabulary": 50257},
        "gigabytes": 56,
    },
    "llama-1b": {
        "model": {
            "layers": 22,
            "width": 2048,
            "heads": 32,
            "groups": 4,
            "context": 2048,
            "vocabulary": 32000,
        },
        "data": {"kind": "text", "batch": 4, "time": 2048, "vocabulary": 32000},
        "gigabytes": 38,
    },
    "vit-l": {
        "model": {
            "layers": 24,
            "width": 1024,
            "heads": 16,
            "image": 224,
            "patch": 16,
            "classes": 1000,
        },
        "data": {"kind": "images", "batch": 64, "sizes": (3, 224, 224), "classes": 1000},
        "batches": 4,
        "gigabytes": 18,
    },
    "resnet50": {
        "model": {
            "stages": (64, 128, 256, 512),
            "blocks": (3, 4, 6, 3),
            "classes": 1000,
            "bottleneck": True,
        },
        "data": {"kind": "images", "batch": 128, "sizes": (3, 224, 224), "classes": 1000},
        "batches": 4,
        "gigabytes": 8,
    },
}

# The functions of `kernels.py`.
KERNELS = (
    "layer_norm",
    "rms_norm",
    "softmax",
    "gelu_mlp",
    "cross_entropy",
    "adamw",
    "attention",
)
# What the others are measured by on a GPU, so it is among them there.
CEILINGS = ("negate", "matmul")

# AdamW, of all works.
TRAINING = {"lr": 3e-4, "betas": (0.9, 0.95), "weight_decay": 0.1}

# The target that a masked language model is not asked for; PyTorch's default.
IGNORED = -100
# What a byte of an image stands for.
PIXELS = [byte / 128 - 1 for byte in range(256)]
# Stands in bert's inputs for a token to be found, and for nothing, beyond the end of a text.
MASK, PADDING = 1, 0
# The first token of bert's texts that is neither.
FIRST = 2


def batch(work: str, step: int) -> list[tuple[array, tuple[int, ...]]]:
    """The numbers (i64 "q", f32 "f") and sizes of the tensors that the model of `work` takes at
    `step`: small numbers are more frequent than large ones, so that there is something to learn."""
    return draw(Random(f"{work} {step}"), **WORKS[work]["data"])


def amount(work: str) -> dict[str, int]:
    """{"tokens"} of a batch of text, {"images"} of one of images."""
    data = WORKS[work]["data"]
    if "time" in data:
        return {"tokens": data["batch"] * data["time"]}
    return {"images": data["batch"]}


def draw(random: Random, kind: str, **sizes) -> list[tuple[array, tuple[int, ...]]]:
    """A batch of one kind; `sizes` are those of its function here."""
    return {"text": text, "masked text": masked_text, "images": images}[kind](random, **sizes)


def checksum(tensors: list[tuple[array, tuple[int, ...]]]) -> int:
    """Tells whether two peers trained on the same batch."""
    total = 0
    for numbers, sizes in tensors:
        total = zlib.crc32(repr(sizes).encode(), zlib.crc32(numbers.tobytes(), total))
    return total


def below(random: Random, limit: int) -> int:
    """An integer in [0, limit), more often a small one."""
    return int(random.random() * random.random() * limit)


def text(random: Random, batch: int, time: int, vocabulary: int):
    """Tokens and the tokens that follow, i64 [batch, time] each."""
    rows = [[below(random, vocabulary) for _ in range(time + 1)] for _ in range(batch)]
    inputs, targets = array("q"), array("q")
    for row in rows:
        inputs.extend(row[:-1])
        targets.extend(row[1:])
    return [(inputs, (batch, time)), (targets, (batch, time))]


def masked_text(random: Random, batch: int, time: int, vocabulary: int):
    """Tokens, lengths, targets: i64 [batch, time], [batch], [batch, time]. Texts of half to the
    whole length; 15 % of their tokens are replaced and are the targets."""
    inputs, lengths, targets = array("q"), array("q"), array("q")
    for _ in range(batch):
        lengths.append(random.randint(time // 2, time))
        for position in range(time):
            if position >= lengths[-1]:
                inputs.append(PADDING)
                targets.append(IGNORED)
                continue
            token = FIRST + below(random, vocabulary - FIRST)
            hidden = random.random() < 0.15
            inputs.append(MASK if hidden else token)
            targets.append(token if hidden else IGNORED)
    return [(inputs, (batch, time)), (lengths, (batch,)), (targets, (batch, time))]


def images(random: Random, batch: int, sizes: tuple[int, ...], classes: int):
    """Pixels f32 [batch, *sizes] in [-1, 1) and labels i64 [batch]."""
    count = batch
    for size in sizes:
        count *= size
    pixels = array("f", map(PIXELS.__getitem__, random.randbytes(count)))
    labels = array("q", [below(random, classes) for _ in range(batch)])
    return [(pixels, (batch, *sizes)), (labels, (batch,))]

"""A byte-level language model trained from Python by ctypes alone: train.py FILE [STEPS]

The next byte from the 16 before it: an embedding, two layers, cross entropy, AdamW. numpy holds the
data; there is no PyTorch.
"""

import sys
from pathlib import Path

import numpy as np
from binding import Context, Number

CONTEXT, BATCH, WIDTH, HIDDEN = 16, 64, 32, 256
SHAPES = [(256, WIDTH), (CONTEXT * WIDTH, HIDDEN), (HIDDEN,), (HIDDEN, 256), (256,)]
EVERY = 50


class Trainer:
    def __init__(self, text):
        self.text = np.frombuffer(text, np.uint8).astype("i8")
        self.acc, self.random = Context(), np.random.default_rng(1)
        self.params = [self.acc.tensor(self.start(*sizes)) for sizes in SHAPES]
        self.means, self.squares = (
            [self.acc.zeros(*sizes, dtype="f4") for sizes in SHAPES] for _ in range(2)
        )

    def start(self, inputs, *outputs):
        """Random numbers of variance 1 / inputs for a matrix, zeros for a bias."""
        if not outputs:
            return np.zeros(inputs, "f4")
        return (self.random.normal(size=(inputs, *outputs)) / np.sqrt(inputs)).astype("f4")

    def loss(self, inputs, targets):
        """Records the loss of a batch."""
        op = self.acc.apply
        embedding, weight1, bias1, weight2, bias2 = self.params
        rows = op("aten::embedding", embedding, self.acc.tensor(inputs), -1, False, False)
        flat = op("reshape", rows, [BATCH, CONTEXT * WIDTH])
        hidden = op("aten::relu", op("aten::addmm", bias1, flat, weight1, 1, 1))
        logits = op("aten::addmm", bias2, hidden, weight2, 1, 1)
        logs = op("aten::_log_softmax", logits, 1, False)
        return op("aten::nll_loss_forward", logs, self.acc.tensor(targets), None, 1, -100, outs=2)[
            0
        ]

    def step(self, number):
        """Records a step; what it made is gone at its end, but for the loss."""
        starts = self.random.integers(0, len(self.text) - CONTEXT, BATCH)
        windows = self.text[starts[:, None] + np.arange(CONTEXT + 1)]
        loss = self.loss(windows[:, :-1], windows[:, -1])
        grads = self.acc.grad(loss, self.params)
        rate = 3e-3 * min(1.0, number / 20)
        numbers = [Number(float(n)) for n in (number, rate, 0.9, 0.99, 0.01, 1e-8)]
        outs = self.params + self.means + self.squares
        lists = (self.params, grads, self.means, self.squares)
        self.acc.apply_into("torchacc::adamw", *lists, *numbers, outs=outs)
        return loss


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__.splitlines()[0])
    trainer = Trainer(Path(sys.argv[1]).read_bytes())
    losses = []
    for number in range(1, int(sys.argv[2] if len(sys.argv) > 2 else 300) + 1):
        loss = trainer.step(number)
        trainer.acc.cut()
        losses.append(float(loss.numpy()))
        if number % EVERY == 0:
            print(f"step {number}: loss {np.mean(losses[-EVERY:]):.3f}")
    counts = trainer.acc.metrics()
    known, recorded = counts["replayed_ops"], counts["recorded_ops"]
    print(f"{counts['compiles']} programs compiled, {known} of {recorded} operations known")


if __name__ == "__main__":
    main()

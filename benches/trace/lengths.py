"""Training a GPT with a new length at every step, against steps of lengths that are known.

`python benches/trace/lengths.py [STEPS]` prints how many programs were compiled, how far the losses
are from eager's, and the rate in tokens a second: with random lengths, with the same lengths a
second time (nothing is new), and with one length in between.
"""

import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "peers"))

import torch
import torchacc
from models import MODELS
from works import TRAINING

SHORTEST, LONGEST, BATCH, VOCABULARY = 16, 1024, 4, 2048
MODEL = {"layers": 4, "width": 128, "heads": 4, "context": LONGEST, "vocabulary": VOCABULARY}


class Trainer:
    def __init__(self, device):
        torch.manual_seed(0)
        self.device = device
        self.model = MODELS["gpt"](**MODEL).to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), fused=True, **TRAINING)

    def step(self, number, length):
        """The loss of one step, on the device."""
        generator = torch.Generator().manual_seed(number)
        text = torch.randint(VOCABULARY, (BATCH, length + 1), generator=generator)
        text = text.to(self.device)
        loss = self.model(text[:, :-1].contiguous(), text[:, 1:].contiguous())
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def rate(self, lengths):
        """Tokens a second over steps of these lengths."""
        start = time.perf_counter()
        for number, length in enumerate(lengths):
            self.step(number, length)
        if self.device == "acc":
            torchacc.sync()
        return BATCH * sum(lengths) / (time.perf_counter() - start)


def main(steps):
    draw = random.Random(0)
    lengths = [draw.randint(SHORTEST, LONGEST) for _ in range(steps)]
    acc, eager = Trainer("acc"), Trainer("cpu")
    compared = min(steps, 100)
    apart = 0.0
    for number, length in enumerate(lengths[:compared]):
        if number == 2:
            torchacc.sync()
            torchacc.reset_metrics()
        ours, theirs = acc.step(number, length).item(), eager.step(number, length).item()
        apart = max(apart, abs(ours - theirs))
    new = acc.rate(lengths[compared:] or lengths)
    counters = torchacc.metrics()
    known = acc.rate(lengths[-200:])
    again = acc.rate(lengths[-200:])
    middle = acc.rate([(SHORTEST + LONGEST) // 2] * 50)
    by_eager = eager.rate(lengths[-100:])
    print(f"{steps} lengths in {SHORTEST}..{LONGEST}, after the first two:")
    print(f"  {counters['compiles']} compiled, {counters['carried_over']} carried over")
    print(f"  losses of {compared} steps within {apart:.1e} of eager's")
    print(f"tokens a second: new lengths {new:.0f}, known ones {again:.0f} ({known:.0f} before)")
    print(f"  one length {middle:.0f}; eager, new lengths {by_eager:.0f}")


main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)

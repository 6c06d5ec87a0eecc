"""Training a GPT with a new length at every step, against steps of lengths that are known.

`python benches/trace/lengths.py [STEPS]` prints how many programs were compiled, how far the losses
are from eager's, and the rate in tokens a second: with random lengths, with the same lengths a
second time (nothing is new), and with one length in between, by turns.
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
# Steps of one kind in a row.
BLOCK = 20
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

    def seconds(self, lengths):
        """The time that steps of these lengths take."""
        start = time.perf_counter()
        for number, length in enumerate(lengths):
            self.step(number, length)
        if self.device == "acc":
            torchacc.sync()
        return time.perf_counter() - start


def main(steps):
    torchacc.set_backend("cpu")
    draw = random.Random(0)
    lengths = [draw.randint(SHORTEST, LONGEST) for _ in range(steps)]
    acc, eager = Trainer("acc"), Trainer("cpu")
    compared = min(steps // 2, 100)
    apart = 0.0
    for number, length in enumerate(lengths[:compared]):
        if number == 2:
            torchacc.sync()
            torchacc.reset_metrics()
        ours, theirs = acc.step(number, length).item(), eager.step(number, length).item()
        apart = max(apart, abs(ours - theirs))
    # By turns, so that what else the machine does touches all alike.
    new, known, fixed, tokens = 0.0, 0.0, 0.0, 0
    for at in range(compared, steps, BLOCK):
        block = lengths[at : at + BLOCK]
        new += acc.seconds(block)
        known += acc.seconds(block)
        fixed += acc.seconds([(SHORTEST + LONGEST) // 2] * len(block))
        tokens += BATCH * sum(block)
    counters = torchacc.metrics()
    print(f"{steps} lengths in {SHORTEST}..{LONGEST}, after the first two:")
    print(f"  {counters['compiles']} compiled, {counters['carried_over']} instantiated")
    print(f"  losses of {compared} steps within {apart:.1e} of eager's")
    middle = BATCH * (SHORTEST + LONGEST) // 2 * (steps - compared)
    print(f"tokens a second: new lengths {tokens / new:.0f}, known ones {tokens / known:.0f},")
    print(f"  always the same one {middle / fixed:.0f}")


main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)

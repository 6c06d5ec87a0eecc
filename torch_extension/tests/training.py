"""A model that is trained on the CPU and on acc at once, and what the runtime did meanwhile."""

import torch
import torchacc
from support import DEVICE, GPT, assert_same, token_batch, twins


class Training:
    """A model, its optimizer and the same on the CPU. Every step compares the losses."""

    def __init__(self, build=GPT, optimizer=torch.optim.SGD, **options):
        self.models = twins(build)
        options = {"lr": 1e-2, **options}
        self.optimizers = [optimizer(model.parameters(), **options) for model in self.models]
        self.count = 0

    def each(self, work):
        """What `work(model, optimizer, device)` gives on the CPU and on acc."""
        devices = ("cpu", DEVICE)
        return [work(*one) for one in zip(self.models, self.optimizers, devices, strict=True)]

    def step(self, accumulate=1, read=False, batch=8):
        self.count += 1

        def work(model, optimizer, device):
            for index in range(accumulate):
                loss = model(*(t.to(device) for t in token_batch(self.count + index, batch)))
                if read:
                    loss.item()
                if index + 1 < accumulate:
                    loss.backward()
            update(loss, optimizer)
            return loss

        cpu, acc = self.each(work)
        assert_same(acc, cpu, rtol=1e-4, atol=1e-5)

    def evaluate(self):
        def work(model, _, device):
            model.eval()
            with torch.no_grad():
                loss = model(*(t.to(device) for t in token_batch(0)))
            model.train()
            return loss

        cpu, acc = self.each(work)
        assert_same(acc, cpu, rtol=1e-4, atol=1e-5)


def update(loss, optimizer):
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def counts(work):
    """Operations recorded in full and programs compiled by `work`."""
    torchacc.sync()
    torchacc.reset_metrics()
    work()
    torchacc.sync()
    metrics = torchacc.metrics()
    assert metrics["recorded_ops"] > 0
    return metrics["recorded_ops"] - metrics["replayed_ops"], metrics["compiles"]


def settle(work, rounds=4):
    for _ in range(rounds):
        work()

"""Trains a GPT on the Python standard library's own source, byte by byte, then lets it write.

    python examples/train_gpt.py                    on the device acc
    python examples/train_gpt.py --device cpu       the same on eager PyTorch
    python examples/train_gpt.py --compare          acc and eager: losses, and their speed
    python examples/train_gpt.py --resume           go on from the last checkpoint

Nothing here is written for acc except the habit that pays on every asynchronous device: the loop
reads losses every LOG_EVERY steps, not every step.
"""

import argparse
import math
import sysconfig
import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
from tqdm import tqdm

LOG_EVERY = 10
VOCABULARY = 256
SEED = 1


class Attention(nn.Module):
    """Causal self-attention over x [batch, time, width]."""

    def __init__(self, width: int, heads: int, dropout: float):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.qkv = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)

    def forward(self, x):
        batch, time_, width = x.shape
        q, k, v = (
            part.view(batch, time_, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(x).split(width, dim=2)
        )
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=dropout)
        return self.project(y.transpose(1, 2).reshape(batch, time_, width))


class Block(nn.Module):
    """One pre-norm transformer layer."""

    def __init__(self, width: int, heads: int, dropout: float):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, dropout)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.dropout(self.mlp(self.norm2(x)))


class GPT(nn.Module):
    """Tokens int64 [batch, time] to logits [batch, time, VOCABULARY]; input and output tied."""

    def __init__(self, layers: int, width: int, heads: int, context: int, dropout: float):
        super().__init__()
        self.token = nn.Embedding(VOCABULARY, width)
        self.position = nn.Embedding(context, width)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block(width, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY, bias=False)
        self.apply(self._initialise)
        for block in self.blocks:  # keeps the residual stream's variance independent of depth
            for linear in (block.attention.project, block.mlp[2]):
                nn.init.normal_(linear.weight, std=0.02 / math.sqrt(2 * layers))
        self.head.weight = self.token.weight

    @staticmethod
    def _initialise(module):
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)
            if getattr(module, "bias", None) is not None:
                nn.init.zeros_(module.bias)

    def forward(self, tokens):
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.dropout(self.token(tokens) + self.position(positions))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Text:
    """Every .py file of the standard library but its tests, as one row of bytes; 2 % validates."""

    def __init__(self, context: int, batch: int):
        root = Path(sysconfig.get_paths()["stdlib"])
        skip = {"site-packages", "dist-packages", "test", "tests", "idle_test"}
        files = sorted(p for p in root.rglob("*.py") if skip.isdisjoint(p.relative_to(root).parts))
        # A fixed shuffle, so that validation is not just the packages late in the alphabet.
        order = torch.randperm(len(files), generator=torch.Generator().manual_seed(SEED))
        data = b"\n".join(files[i].read_bytes() for i in order)
        tokens = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        cut = int(0.98 * len(tokens))
        self.train, self.validation = tokens[:cut], tokens[cut:]
        self.context, self.batch = context, batch

    def batch_at(self, split: torch.Tensor, seed: int):
        """Inputs and targets int64 [batch, context], a function of `seed` alone: so a resumed run
        reads what an uninterrupted one would have."""
        generator = torch.Generator().manual_seed(seed)
        starts = torch.randint(len(split) - self.context, (self.batch, 1), generator=generator)
        window = split[starts + torch.arange(self.context + 1)].long()
        return window[:, :-1].contiguous(), window[:, 1:].contiguous()


@dataclass
class Log:
    """What a run has seen. Losses are nats per byte; validation holds (step, loss)."""

    losses: list[float] = field(default_factory=list)
    validation: list[tuple[int, float]] = field(default_factory=list)
    seconds: float = 0.0  # training only: without the first LOG_EVERY steps, validation, saving
    timed_steps: int = 0


class Trainer:
    """One model on one device, its optimizer, and where it is in the run."""

    def __init__(self, args, device: str):
        self.args, self.device = args, device
        self.folder = Path(args.out) / device
        self.folder.mkdir(parents=True, exist_ok=True)
        self.text = Text(args.context, args.batch)
        torch.manual_seed(SEED)
        self.model = GPT(args.layers, args.width, args.heads, args.context, args.dropout)
        self.model.to(device)
        decay = [p for p in self.model.parameters() if p.dim() >= 2]
        rest = [p for p in self.model.parameters() if p.dim() < 2]
        self.optimizer = torch.optim.AdamW(
            [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}],
            lr=args.lr,
            betas=(0.9, 0.95),
            fused=True,
        )
        self.log = Log()

    def learning_rate(self, step: int) -> float:
        """Linear warm-up, then a cosine down to a tenth."""
        warmup = max(1, self.args.steps // 20)
        if step < warmup:
            return self.args.lr * (step + 1) / warmup
        progress = (step - warmup) / max(1, self.args.steps - warmup)
        return self.args.lr * (0.55 + 0.45 * math.cos(math.pi * progress))

    def autocast(self):
        if self.args.dtype == "f32":
            return nullcontext()
        return torch.autocast(self.device, dtype=torch.bfloat16)

    def loss(self, split: torch.Tensor, seed: int) -> torch.Tensor:
        inputs, targets = (t.to(self.device) for t in self.text.batch_at(split, seed))
        with self.autocast():
            logits = self.model(inputs)
            return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def step(self, step: int) -> torch.Tensor:
        """One update. Returns its loss, still on the device."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate(step)
        loss = self.loss(self.text.train, seed=step)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.detach()

    @torch.no_grad()
    def validate(self, batches: int = 8) -> float:
        self.model.eval()
        losses = [self.loss(self.text.validation, seed=-1 - i).item() for i in range(batches)]
        self.model.train()
        return sum(losses) / batches

    def train(self, last: int):
        """Trains up to step `last`, validating, logging and saving on the way."""
        args, log = self.args, self.log
        parameters = sum(p.numel() for p in self.model.parameters())
        print(f"{self.device}: {parameters / 1e6:.1f} M parameters, {args.dtype}, ", end="")
        print(f"{args.batch}×{args.context} bytes a step, {last - len(log.losses)} steps")
        first = len(log.losses)
        pending, began = [], time.perf_counter()
        with tqdm(total=args.steps, initial=first, unit="step", dynamic_ncols=True) as bar:
            for step in range(first, last):
                pending.append(self.step(step))
                bar.update()
                done = step + 1
                if done % LOG_EVERY and done != last:
                    continue
                log.losses += [loss.item() for loss in pending]
                elapsed = time.perf_counter() - began
                speed = len(pending) * args.batch * args.context / elapsed
                if done - first > LOG_EVERY:
                    log.seconds += elapsed
                    log.timed_steps += len(pending)
                bar.set_postfix(loss=f"{log.losses[-1]:.3f}", tokens_per_s=f"{speed:.0f}")
                pending = []
                if done % args.validate_every == 0 or done == last:
                    log.validation.append((done, self.validate()))
                    bar.write(f"step {done}: validation loss {log.validation[-1][1]:.4f}")
                    self.save()
                began = time.perf_counter()

    def save(self):
        """Writes everything a resumed run needs to go on with the same losses."""
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "rng": torch.get_rng_state(),
            "log": vars(self.log),
        }
        if self.device != "cpu":
            state["device_rng"] = torch.get_device_module(self.device).get_rng_state()
        path = self.folder / "checkpoint.pt"
        temporary = path.with_suffix(".tmp")
        torch.save(state, temporary)
        temporary.replace(path)  # a stop while saving leaves the old checkpoint whole

    def resume(self):
        """Continues from the last checkpoint; raises FileNotFoundError when there is none."""
        state = torch.load(self.folder / "checkpoint.pt", map_location="cpu")
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.log = Log(**state["log"])
        torch.set_rng_state(state["rng"])
        if self.device != "cpu":
            torch.get_device_module(self.device).set_rng_state(state["device_rng"])

    @torch.no_grad()
    def sample(self, length: int, temperature: float = 0.8) -> str:
        """`length` bytes that the model writes after a piece of the validation text.

        The window keeps its size: every byte is the same program, compiled once.
        """
        self.model.eval()
        window = self.text.batch_at(self.text.validation, seed=SEED)[0][:1].to(self.device)
        written = bytearray()
        for _ in range(length):
            with self.autocast():
                logits = self.model(window)[:, -1].float()
            # The largest of logits plus Gumbel noise is a draw from their softmax.
            noise = -torch.log(-torch.log(torch.rand_like(logits)))
            token = (logits / temperature + noise).argmax(-1, keepdim=True)
            window = torch.cat([window[:, 1:], token], dim=1)
            written.append(int(token.item()))
        self.model.train()
        return written.decode("utf-8", errors="replace")


def picture(logs: dict[str, Log], path: Path):
    """Saves the loss curves of the runs in `logs`."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 5))
    for device, log in logs.items():
        axes.plot(range(1, len(log.losses) + 1), log.losses, linewidth=0.8, label=f"{device} train")
        if log.validation:
            axes.plot(*zip(*log.validation, strict=True), "o-", label=f"{device} validation")
    axes.set_xlabel("step")
    axes.set_ylabel("loss (nats per byte)")
    axes.legend()
    figure.savefig(path, dpi=120)
    print(f"loss curve: {path}")


def run(args, device: str) -> Trainer:
    """One whole training run."""
    trainer = Trainer(args, device)
    if args.resume:
        trainer.resume()
    trainer.train(min(args.steps, args.stop_at or args.steps))
    log = trainer.log
    if log.timed_steps:
        speed = log.timed_steps * args.batch * args.context / log.seconds
        print(
            f"{device}: {1000 * log.seconds / log.timed_steps:.0f} ms a step, {speed:.0f} tokens/s"
        )
    return trainer


def compare(args):
    """The same run on acc and on eager PyTorch, on the GPU if that is what acc computes on."""
    native, other = torch.acc.memory.native_device(), "cpu"
    if native and torch.cuda.is_available():
        torch.cuda.set_device(native)
        other = "cuda"
    logs = {device: run(args, device).log for device in ("acc", other)}
    acc, eager = logs["acc"], logs[other]
    print(f"{'step':>6} {'acc':>10} {other:>10} {'relative difference':>20}")
    for step in range(0, len(acc.losses), max(1, len(acc.losses) // 20)):
        a, e = acc.losses[step], eager.losses[step]
        print(f"{step + 1:6} {a:10.5f} {e:10.5f} {abs(a - e) / e:20.1e}")
    if acc.timed_steps and eager.timed_steps:
        ratio = (eager.seconds / eager.timed_steps) / (acc.seconds / acc.timed_steps)
        print(f"acc runs a step {ratio:.2f} times as fast as eager PyTorch")
    picture(logs, Path(args.out) / "compare.png")


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="acc")
    parser.add_argument("--steps", type=int, default=160, help="length of the learning schedule")
    parser.add_argument("--stop-at", type=int, help="stop early, with a checkpoint")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument(
        "--compare", action="store_true", help="acc and eager PyTorch; without dropout"
    )
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--context", type=int, default=256)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--heads", type=int, default=6)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--validate-every", type=int, default=100)
    parser.add_argument("--sample", type=int, default=400, help="bytes to write at the end")
    parser.add_argument("--out", default="runs/gpt")
    return parser.parse_args()


def main():
    args = arguments()
    if args.compare:
        args.dropout = 0.0  # each device draws its own random numbers
        compare(args)
        return
    trainer = run(args, args.device)
    picture({args.device: trainer.log}, trainer.folder / "loss.png")
    if args.sample:
        print("-" * 30, "the model writes", "-" * 30)
        print(trainer.sample(args.sample))


if __name__ == "__main__":
    main()

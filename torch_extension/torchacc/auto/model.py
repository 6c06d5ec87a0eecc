"""What is known of a model before it runs: parameters, FLOPs and activations, block by block.

From a transformer's shape (`transformer`) or by a dry run of any module (`torchacc.auto.dry_run`).
All figures are of one sequence (one element of a batch), forward.
"""

import functools
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Amount:
    """Of something, the part that each rank of tensor parallel has whole, and what they share."""

    whole: float = 0
    split: float = 0

    @property
    def total(self) -> float:
        return self.whole + self.split

    def on(self, ranks: int) -> float:
        """Of one rank of so many."""
        return self.whole + self.split / ranks

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(self.whole + other.whole, self.split + other.split)

    def __mul__(self, factor: float) -> "Amount":
        return Amount(self.whole * factor, self.split * factor)


@dataclass(frozen=True)
class Block:
    """A part of a model that pipelines do not cut."""

    name: str
    parameters: Amount = Amount()
    # FLOPs of matrix products, and of attention: over all rows and columns, which is the convention
    # of MFU, and over those that a causal kernel computes.
    matmul: Amount = Amount()
    attention: float = 0
    attention_computed: float = 0
    # Numbers in the precision of the computation: kept for the backward pass, in the largest
    # gradient of one of them, in the result.
    saved: Amount = Amount()
    largest: Amount = Amount()
    output: float = 0
    # All-reduces of the result by tensor parallelism, forward and backward.
    reduces: int = 0
    # Operations recorded by the forward pass.
    operations: int = 0


@dataclass(frozen=True)
class Model:
    """What comes before the repeated blocks, these, and what comes after them."""

    name: str
    first: Block
    blocks: tuple[Block, ...]
    last: Block
    # Tokens per sequence.
    sequence: int
    # None if nothing is known of heads: then neither tensor nor sequence parallelism applies.
    heads: int | None = None
    kv_heads: int | None = None
    # Parameters that `first` and `last` share.
    tied: int = 0
    # Sizes besides heads that tensor parallelism must divide, and their names.
    split_sizes: dict[str, int] = field(default_factory=dict, hash=False)

    @property
    def parts(self) -> tuple[Block, ...]:
        return (self.first, *self.blocks, self.last)

    @property
    def parameters(self) -> int:
        """Numbers of all parameters, tied ones once."""
        return round(sum(part.parameters.total for part in self.parts)) - self.tied

    @property
    def kv_share(self) -> float:
        """Keys or values of a token by its queries."""
        return (self.kv_heads or 1) / (self.heads or 1)

    @functools.cached_property
    def flops(self) -> float:
        """Of a sequence, forward: 2 for each weight that a token meets, and 4 s² h for attention
        (Chowdhery et al., "PaLM", 2022, appendix B)."""
        return sum(part.matmul.total + part.attention for part in self.parts)


def transformer(
    layers: int,
    hidden: int,
    heads: int,
    vocab: int,
    sequence: int,
    *,
    kv_heads: int | None = None,
    ffn: int | None = None,
    gated: bool = False,
    bias: bool = True,
    tied: bool = True,
    positions: int = 0,
    causal: bool = True,
    flash: bool = True,
    dropout: bool = False,
    name: str = "transformer",
) -> Model:
    """A decoder of so many layers of attention and an MLP of `ffn` (4 `hidden`) numbers.

    `gated`: the MLP has three matrices (SwiGLU). `bias`: linear layers and norms have one. `tied`:
    the head's weight is the embedding's. `positions`: so many are learned. `flash`: attention keeps
    no matrix of scores (Dao et al., 2022). Activations are those of Korthikanti et al., "Reducing
    Activation Recomputation in Large Transformer Models" (2022), table 2, less what kernels with
    `flash` and without dropout do not keep. Names of blocks are "layers.0" and so on. Raises
    ValueError for sizes that do not fit.
    """
    kv_heads, ffn = kv_heads or heads, ffn or 4 * hidden
    sizes = {"layers": layers, "hidden": hidden, "heads": heads, "vocab": vocab}
    for label, size in (sizes | {"sequence": sequence, "kv_heads": kv_heads}).items():
        if size < 1:
            raise ValueError(f"transformer: {label} is {size!r}: it must be at least 1")
    if hidden % heads != 0:
        raise ValueError(f"transformer: heads is {heads}: it must divide hidden, {hidden}")
    if heads % kv_heads != 0:
        raise ValueError(f"transformer: kv_heads is {kv_heads}: it must divide heads, {heads}")
    keys = 2 * hidden // heads * kv_heads  # and values
    ups = 2 if gated else 1
    weights = hidden * (2 * hidden + keys) + (ups + 1) * hidden * ffn
    norm = 2 * hidden if bias else hidden
    split_bias, whole_bias = (hidden + keys + ups * ffn, 2 * hidden) if bias else (0, 0)
    attention = 4 * sequence**2 * hidden
    # Inputs and results of both norms; queries, keys, values and attention's result; of the MLP the
    # input and output of the activation, and the factor of its output.
    whole = sequence * 4 * hidden
    split = sequence * (2 * hidden + keys + (2 * ups) * ffn)
    if dropout:
        whole += sequence * hidden  # two masks of bytes
    if flash:
        split += 2 * heads * sequence  # logarithms of sums, f32
    else:
        split += heads * sequence**2 * (2.5 if dropout else 1)
    largest = max(sequence * ffn, 0 if flash else heads * sequence**2)
    block = {
        "parameters": Amount(2 * norm + whole_bias, weights + split_bias),
        "matmul": Amount(0, 2 * sequence * weights),
        "attention": attention,
        "attention_computed": attention / 2 if causal and flash else attention,
        "saved": Amount(whole, split),
        "largest": Amount(0, largest),
        "output": sequence * hidden,
        "reduces": 4,
    }
    table = vocab * hidden
    first = Block(
        "embedding",
        parameters=Amount(positions * hidden, table),
        output=sequence * hidden,
        reduces=1,
    )
    # Logits, and as f32 their softmax, which their gradient follows.
    last = Block(
        "head",
        parameters=Amount(norm, table),
        matmul=Amount(0, 2 * sequence * table),
        saved=Amount(2 * sequence * hidden, 3 * sequence * vocab),
        largest=Amount(0, 2 * sequence * vocab),
        reduces=1,
    )
    return Model(
        name,
        first,
        tuple(Block(f"layers.{index}", **block) for index in range(layers)),
        last,
        sequence,
        heads,
        kv_heads,
        tied=table if tied else 0,
        split_sizes={"ffn": ffn},
    )

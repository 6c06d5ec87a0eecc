"""Strategies that are found: how a model is best trained on a cluster, predicted, and tried where
the devices are at hand (`strategy.trials`).

`plan` looks at every combination of data, sharded, tensor, sequence and pipeline parallelism, by a
model of what each costs (`predict`), and gives a `torchacc.Config`. docs/strategies.md has the
formulas, and what they predict of published runs.
"""

from torchacc.auto._choose import choose
from torchacc.auto.cluster import Cluster, Link
from torchacc.auto.cost import Memory, Prediction, predict
from torchacc.auto.dry_run import measure
from torchacc.auto.model import Amount, Block, Model, transformer
from torchacc.auto.report import Considered, Plan
from torchacc.auto.search import plan

__all__ = [
    "Amount",
    "Block",
    "Cluster",
    "Considered",
    "Link",
    "Memory",
    "Model",
    "Plan",
    "Prediction",
    "choose",
    "measure",
    "plan",
    "predict",
    "transformer",
]

"""Pictures of a plan: what each rank's memory holds, and what its pipeline does when."""

import dataclasses
from pathlib import Path
from unittest import mock

from torchacc.auto.report import Plan
from torchacc.config import PPConfig
from torchacc.parallel.pipeline import SCHEDULES, SINGLE


def memory(plan: Plan, path: Path) -> bool:
    """Bars of the ranks of each pipeline stage, in GB, below what a device has."""
    plt = _pyplot()
    of_stages = plan.prediction.memory
    figure, axes = plt.subplots(figsize=(max(4, 0.5 * len(of_stages) + 2), 4))
    ranks = range(len(of_stages))
    bottoms = [0.0 for _ in ranks]
    for field in dataclasses.fields(of_stages[0]):
        sizes = [getattr(one, field.name) / 1e9 for one in of_stages]
        axes.bar(ranks, sizes, bottom=bottoms, label=field.name)
        bottoms = [low + size for low, size in zip(bottoms, sizes, strict=True)]
    axes.axhline(plan.limit / 1e9, color="black", linestyle="--", label="a device has")
    axes.set_xlabel("rank of the pipeline")
    axes.set_ylabel("GB")
    axes.set_xticks(ranks)
    axes.legend()
    figure.savefig(path, dpi=120, bbox_inches="tight")
    plt.close(figure)
    return True


def pipeline(plan: Plan, path: Path) -> bool:
    """The order of its actions, as PyTorch draws it; False where there is no pipeline."""
    from torch.distributed.pipelining import _schedule_visualizer as visualizer

    pp = plan.config.dist.pp
    if pp.size == 1:
        return False
    _pyplot()
    order = _actions(pp)
    visualizer.visualize_schedule(visualizer.add_schedule_op_spacing(order), str(path))
    return True


def _actions(pp: PPConfig) -> list[list]:
    """Of each rank, in its order. Of stages a schedule wants to know how many there are."""
    from torch.distributed.pipelining import PipelineStage, schedules

    stages = max((len(pp.split_points) + 1) // pp.size, 1)
    stage = mock.create_autospec(PipelineStage, instance=True)
    stage.group_rank, stage.group_size, stage.num_stages = 0, pp.size, pp.size * stages
    stage.submod = None
    # More would be unreadable.
    parts = min(pp.num_micro_batches, 4 * pp.size)
    kind = getattr(schedules, SCHEDULES[pp.schedule])
    schedule = kind(stage if pp.schedule in SINGLE else [stage] * stages, parts)
    return [
        [one for one in schedule.pipeline_order[rank] if one is not None and one.is_compute_op]
        for rank in range(pp.size)
    ]


def _pyplot():
    try:
        import matplotlib
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("pictures are drawn by matplotlib: pip install it") from error
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt

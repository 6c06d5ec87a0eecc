"""torch.utils.benchmark, tested with PyTorch 2.11: every run of a timed statement is a step.

What nobody keeps is not computed on acc, and a timed statement keeps nothing: `a @ b` would take
the time that it takes to write it down. So the results of the statement's expressions are kept
until a cut ends the run. What the statement drops inside, a training step drops too.

`Timer.timeit` and what is built on it (`blocked_autorange`, `adaptive_autorange`) do that for
statements that record on acc, where the timer is the one that synchronizes. Python's own `timeit`
does not: keep the results, and call `torchacc.cut()` after each run.
"""

import ast
import functools
import timeit
from types import ModuleType

from torchacc import adapters
from torchacc._metrics import metrics
from torchacc.step import cut

_KEPT, _END = "_torchacc_kept", "_torchacc_end_of_run"


class StepTimer:
    """Times the statement of another timer, in steps if it records on acc."""

    def __init__(self, plain: timeit.Timer, stmt: str, setup: str):
        self.plain = plain
        kept: list = []

        def end_of_run():
            cut()
            kept.clear()

        names = {**plain.inner.__globals__, _KEPT: kept, _END: end_of_run}
        self.steps = timeit.Timer(_as_step(stmt), setup, plain.timer, globals=names)
        self.records: bool | None = None

    def timeit(self, number: int) -> float:
        if self.records is None and number > 0:
            before = metrics()["recorded_ops"]
            self.plain.timeit(1)
            self.records = metrics()["recorded_ops"] != before
        return (self.steps if self.records else self.plain).timeit(number)


class _Keep(ast.NodeTransformer):
    """Makes expressions that are statements results that are kept."""

    def visit_Expr(self, node):
        keep = ast.Attribute(ast.Name(_KEPT, ast.Load()), "append", ast.Load())
        return ast.Expr(ast.Call(keep, [node.value], []))

    def _leave(self, node):
        return node

    # Their statements run in calls.
    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _leave


def _as_step(stmt: str) -> str:
    tree = ast.fix_missing_locations(_Keep().visit(ast.parse(stmt)))
    return f"{ast.unparse(tree)}\n{_END}()"


def _mend_timer(module: ModuleType) -> None:
    def time_steps(original):
        @functools.wraps(original)
        def init(self, *args, **kwargs):
            original(self, *args, **kwargs)
            plain = self._timer
            if type(plain) is timeit.Timer and plain.timer is module.timer:
                self._timer = StepTimer(plain, self._task_spec.stmt, self._task_spec.setup)

        return init

    adapters.mend(module, "Timer.__init__", time_steps, "it times recording, not computing, on acc")


MENDS = {"torch.utils.benchmark.utils.timer": _mend_timer}

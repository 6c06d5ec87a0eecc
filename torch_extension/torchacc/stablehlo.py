"""StableHLO: programs of other systems as functions of tensors on acc, and ours for them.

`jax.jit(f).lower(*arguments).as_text()`, torch_xla and TensorFlow print modules of it.
"""

import contextlib
import os
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.nn as nn
from torch.utils._pytree import tree_leaves, tree_map_only

from torchacc._explain import cut_text, explanation
from torchacc.step import one_program

# The magic number of MLIR bytecode, which its version and producer follow:
# https://mlir.llvm.org/docs/BytecodeFormat/
_BYTECODE = b"ML\xefR"
# The producer of portable artifacts: https://openxla.org/stablehlo/bytecode
_PORTABLE = b"StableHLO_v"


class Module:
    """A module of StableHLO: its function `main`, or its only public one.

    Calling it records its operations like any others: they fuse with what is around them, and are
    compiled once. `source` is text in either of StableHLO's forms (also as bytes), or MLIR's
    bytecode (a portable artifact, such as `jax.export` makes), which takes JAX to read. Calls are
    inlined, and loops of a few rounds unrolled; others compile their rounds once, however many
    there are.

    Raises ValueError for what is no module, or has something that is not supported, with line and
    column (of the text that is made of bytecode); ImportError for bytecode without who reads it.
    """

    def __init__(self, source: str | bytes):
        text = source if isinstance(source, str) else _text_of(source)
        try:
            self._graph = torch.classes.acc.Graph(text)
        except RuntimeError as error:
            raise ValueError(f"StableHLO: {error}") from None

    @classmethod
    def _of(cls, graph: Any) -> "Module":
        made = cls.__new__(cls)
        made._graph = graph
        return made

    def __call__(
        self, *inputs: torch.Tensor, out: Sequence[torch.Tensor | None] | None = None
    ) -> tuple[torch.Tensor, ...]:
        """The module's results for its inputs, on acc, of the types and sizes that it says. There
        are no gradients but those that the module computes.

        `out`: for each result the tensor that it is written to, or None for a new one. They may be
        inputs, whose memory a step then overwrites instead of taking as much again:
        `loss, *_ = step(x, *state, out=[None, *state])`.

        Raises RuntimeError for inputs of another number, device, type or size, and for tensors in
        `out` that are not of the results' or share memory; nothing is written then.
        """
        count = self._graph.results()
        into = [None] * count if out is None else [None if t is None else t.detach() for t in out]
        new = iter(self._graph.call([_plain(one) for one in inputs], into))
        return tuple(next(new) if one is None else one for one in out or into)

    def on_openxla(
        self, *inputs: torch.Tensor, plugin: str | os.PathLike | None = None
    ) -> tuple[torch.Tensor, ...]:
        """The results as OpenXLA computes them: by the plugin of the PJRT C API in the file
        `plugin`, or by that of `TORCHACC_OPENXLA`. Compiled at the first call, and run at once.
        They are those of a call, but for rounding, and subnormal numbers may be zero.

        Raises RuntimeError as a call, for what StableHLO has no operation for, and for a plugin
        that is not named, is not there, is of another API, or fails.
        """
        given = [_plain(one) for one in inputs]
        return tuple(self._graph.run_on_openxla(given, os.fspath(plugin or "")))

    def text(self) -> str:
        """The module as it is understood, as StableHLO in its generic form: one function, in which
        calls are inlined and short loops unrolled."""
        return self._graph.stablehlo()

    def save(self, path: str | os.PathLike, version: str | None = None) -> None:
        """Writes `text()` into a file, for `load` and for other systems; with a `version` of
        StableHLO ("1.9.0") a portable artifact, which all that know this or a later version read,
        and which takes JAX to write.

        Raises OSError for a file that cannot be written; ValueError for a version that is none,
        or too old for the module; ImportError without who writes artifacts.
        """
        text = self.text()
        if version is None:
            Path(path).write_bytes(text.encode())
            return
        try:
            artifact = _artifact_of(text, version)
        except ImportError:
            raise
        except Exception as error:
            raise ValueError(f"StableHLO, version {version!r}: {error}") from None
        Path(path).write_bytes(artifact)


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """What it holds, without what autograd and conjugates say of it."""
    return tensor.detach().resolve_conj().resolve_neg()


def load(path: str | os.PathLike) -> Module:
    """The module in a file of StableHLO, text or bytecode.

    Raises OSError for a file that cannot be read; ValueError and ImportError as `Module`.
    """
    try:
        return Module(Path(path).read_bytes())
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from None
    except ImportError as error:
        raise ImportError(f"{os.fspath(path)}: {error}") from None


def _mlir(what: str) -> tuple[ModuleType, ModuleType, Callable[[], Any]]:
    """MLIR in Python, its StableHLO, and what makes a context that knows the dialects: of JAX, or
    as StableHLO itself is built."""
    with contextlib.suppress(ImportError):
        from jax.interpreters.mlir import make_ir_context
        from jaxlib.mlir import ir
        from jaxlib.mlir.dialects import stablehlo

        return ir, stablehlo, make_ir_context
    with contextlib.suppress(ImportError):
        from mlir import ir
        from mlir.dialects import stablehlo

        return ir, stablehlo, ir.Context
    raise ImportError(f"StableHLO: {what} by the Python package of JAX: pip install jax")


def _artifact_of(text: str, version: str) -> bytes:
    _, dialect, _ = _mlir("a portable artifact is written")
    with contextlib.suppress(ImportError, AttributeError):
        # Artifacts have no CHLO. The function that `jax.export` calls expresses it in StableHLO,
        # the dialect's own does not.
        from jaxlib import _jax

        return _jax.mlir.serialize_portable_artifact(text, version)
    return dialect.serialize_portable_artifact_str(text.encode(), version)


def _text_of(bytecode: bytes) -> str:
    if not bytecode.startswith(_BYTECODE):
        return bytecode.decode()
    ir, dialect, context_of = _mlir("bytecode is read")
    try:
        with context_of() as context:
            if bytecode.startswith(_PORTABLE, len(_BYTECODE) + 1):
                return str(dialect.deserialize_portable_artifact(context, bytecode))
            dialect.register_dialect(context)
            return str(ir.Module.parse(bytecode))
    except Exception as error:
        raise ValueError(f"StableHLO: bytecode that cannot be read: {error}") from None


def export(function: Callable[..., Any], *arguments: Any, state: Any = ()) -> Module:
    """What `function(*arguments)` computes on acc, as a module; of a training step, say, with its
    backward pass and its optimizer.

    The module's inputs are the tensors in `arguments`, then those of `state`: what the function
    reads beside them and changes in place. Its results are the tensors that the function returns,
    then what those of `state` hold in the end. `state` is a tensor, an `nn.Module` (its
    parameters, then its buffers), an optimizer (its parameters, their state one by one, then what
    its groups have), a generator of random numbers (that of dropout is
    `torch.acc.default_generators[0]`), or lists, tuples and dicts of such: `tensors_of` gives them.
    Whatever else the function reads, tensors and numbers, is constant in the module.

    Nothing is computed: the function is called twice, and what both record must be the same;
    after it the tensors of `state`, their gradients (which are None when it begins) and the
    states of random number generators are what they were.

    Raises ValueError for tensors that are not on acc or not all of their memory, and for a
    function that changes others (which stay changed), reads what it computes, has operators that
    run on the CPU or send something to other processes, makes new state (an optimizer in its first
    step), or does not compute the same each time: with random numbers of generators that are not in
    `state`, or with numbers that Python counts.
    """
    kept, generators = _parts(state)
    given = [one for one in tree_leaves(arguments) if isinstance(one, torch.Tensor)]
    for number, one in enumerate([*given, *kept, *generators]):
        if one.device.type != "acc":
            raise ValueError(
                f"StableHLO: input {number} of {function} is on {one.device}, and not on acc; the "
                "count of an optimizer's steps is if it is `capturable`, its `lr` as a tensor there"
            )
    arguments = tree_map_only(torch.Tensor, _fresh, arguments)
    graphs = []
    with torch.random.fork_rng(device_type="acc"):
        for _ in range(2):
            with _unchanged(state, kept, generators):
                graphs.append(_captured(function, arguments, state, kept, generators))
    texts = [graph.stablehlo() for graph in graphs]
    if texts[0] != texts[1]:
        lines = zip_longest(*(text.splitlines() for text in texts), fillvalue="")
        first, second = next((a, b) for a, b in lines if a != b)
        raise ValueError(
            f"StableHLO: {function} does not compute the same each time:\n{first[:200]}\n"
            f"{second[:200]}\nRandom numbers, and numbers that change from call to call (a "
            "learning rate, a count of steps), would be constants of the module. Have a generator "
            "in `state`, as torch.acc.default_generators[0]; make numbers tensors of `state` or "
            "arguments (optimizers: `capturable=True`, `lr=torch.tensor(...)`)"
        )
    return Module._of(graphs[1])


def tensors_of(state: Any) -> list[torch.Tensor]:
    """The tensors of a `state` of `export`, in the order in which they are a module's inputs, each
    once; then of each generator seed and offset, i64[2], as they are now. A generator goes on from
    such a tensor by `generator.set_state(tensor.cpu().view(torch.uint8))`.

    Raises TypeError for anything else.
    """
    kept, generators = _parts(state)
    numbers = (one.get_state().view(torch.int64).to(one.device) for one in generators)
    return [*kept, *numbers]


def _parts(state: Any) -> tuple[list[torch.Tensor], list[torch.Generator]]:
    """The tensors, and the generators of random numbers, each once."""
    kept, generators = {}, {}
    for one in _all_parts(state):
        (kept if isinstance(one, torch.Tensor) else generators).setdefault(id(one), one)
    return list(kept.values()), list(generators.values())


def _all_parts(state: Any) -> Iterator[torch.Tensor | torch.Generator]:
    for one in tree_leaves(state):
        if isinstance(one, torch.Tensor | torch.Generator):
            yield one
        elif isinstance(one, nn.Module):
            yield from one.parameters()
            yield from one.buffers()
        elif isinstance(one, torch.optim.Optimizer):
            parameters = [each for group in one.param_groups for each in group["params"]]
            of_groups = ({**group, "params": None} for group in one.param_groups)
            found = tree_leaves(
                [parameters, [one.state.get(each) for each in parameters], *of_groups]
            )
            yield from (value for value in found if isinstance(value, torch.Tensor))
        else:
            raise TypeError(f"state: {type(one).__name__} has no tensors that are known of")


def _fresh(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor with memory of its own."""
    made = tensor.detach().clone(memory_format=torch.contiguous_format)
    return made.requires_grad_(tensor.requires_grad)


def _captured(
    function: Callable,
    arguments: tuple,
    state: Any,
    kept: list[torch.Tensor],
    generators: list[torch.Generator],
) -> Any:
    """The graph of one call."""
    inputs = [one for one in tree_leaves(arguments) if isinstance(one, torch.Tensor)]
    before = {}
    try:
        number = torch.ops.acc.capture_begin()
        before = _cuts()
        drawn = [_seed_and_offset(one) for one in generators]
        with one_program():
            results = [one for one in tree_leaves(function(*arguments)) if one is not None]
        if [id(one) for one in _parts(state)[0]] != [id(one) for one in kept]:
            raise ValueError(
                f"StableHLO: {function} makes or replaces tensors of its state, as an optimizer "
                "does in its first step: call it once before"
            )
        for one in results:
            if not isinstance(one, torch.Tensor):
                raise ValueError(f"StableHLO: {function} returns {type(one).__name__}: no tensor")
        draws = []
        for generator, (seed, begin) in zip(generators, drawn, strict=True):
            now, end = _seed_and_offset(generator)
            if now != seed:
                raise ValueError(f"StableHLO: {function} sets the seed of a generator in `state`")
            draws += [seed, begin, end]
        return torch.classes.acc.Graph.capture(number, inputs + kept, results + kept, draws)
    except RuntimeError as error:
        text = f"StableHLO: {function}: {error}"
        if "was cut" in text:
            new = [why for why, count in _cuts().items() if count > before.get(why, 0)]
            text = ": ".join([text, "; ".join(new)]) if new else text
        raise ValueError(text) from error


def _cuts() -> dict[str, int]:
    """How often traces were cut, by why and where."""
    counts = Counter()
    for row in explanation()["cuts"]:
        counts[cut_text(row)] += row["count"]
    return counts


def _seed_and_offset(generator: torch.Generator) -> list[int]:
    return generator.get_state().view(torch.int64).tolist()


@contextlib.contextmanager
def _unchanged(
    state: Any, kept: list[torch.Tensor], generators: list[torch.Generator]
) -> Iterator[None]:
    """Whatever is done to what `state` has, afterwards it is what it was. Meanwhile each generator
    has a seed that nobody else has: what is drawn with it is drawn from there."""
    states = [one.get_state() for one in generators]
    saved, gradients = [one.detach().clone() for one in kept], [one.grad for one in kept]
    optimizers = [one for one in tree_leaves(state) if isinstance(one, torch.optim.Optimizer)]
    known = [set(one.state) for one in optimizers]
    for one in kept:
        one.grad = None
    try:
        for one in generators:
            one.manual_seed(secrets.randbits(63))
        yield
    finally:
        for one, was in zip(generators, states, strict=True):
            one.set_state(was)
        with torch.no_grad():
            for one, was, gradient in zip(kept, saved, gradients, strict=True):
                one.copy_(was)
                one.grad = gradient
        for optimizer, had in zip(optimizers, known, strict=True):
            for parameter in optimizer.state.keys() - had:
                del optimizer.state[parameter]

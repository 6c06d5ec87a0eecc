"""`Config`: how a model is trained, in dataclasses with the names of Alibaba's TorchAcc.

A field that is wrong is named by its path, with its value and what is allowed: "dist.tp.size is 0".
Nothing here looks at the machine: sizes are checked against a world when that is known
(`Config.mesh`), and what was asked for stays as it was asked for.
"""

import dataclasses
import difflib
import json
import math
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

# Axes of a mesh, from those between distant devices to those between near ones.
AXES = ("dp", "fsdp", "pp", "sp", "tp")
# CPython 3.10 has no typing.Self.
_S = TypeVar("_S", bound="_Section")


class _Section:
    """Part of a configuration. A field's annotation says which type it has; `_problems` what else
    must hold."""

    def __post_init__(self) -> None:
        for name, hint in typing.get_type_hints(type(self)).items():
            setattr(self, name, _normal(getattr(self, name), hint))

    def validate(self, path: str = "") -> None:
        """Raises ValueError for the first field that is not what it may be."""
        hints = typing.get_type_hints(type(self))
        for name in vars(self):
            if name not in hints:
                raise ValueError(f"config: {_unknown(name, path, hints)}")
        for name, hint in hints.items():
            value, where = getattr(self, name), f"{path}{name}"
            if not _is_a(value, hint):
                raise ValueError(f"config: {where} is {value!r}: it must be {_text_of(hint)}")
            if isinstance(value, _Section):
                value.validate(f"{where}.")
        for name, problem in self._problems():
            raise ValueError(f"config: {path}{name} is {getattr(self, name)!r}: {problem}")

    def _problems(self) -> Iterator[tuple[str, str]]:
        """Fields, and what is wrong with them, of values whose types are right."""
        return iter(())

    def to_dict(self) -> dict[str, Any]:
        """Plain values; sets are sorted lists. `from_dict` takes them back."""
        return {f.name: _plain(getattr(self, f.name)) for f in dataclasses.fields(self)}

    @classmethod
    def from_dict(cls: type[_S], values: Mapping[str, Any], path: str = "") -> _S:
        """What `values` say, and the defaults for what they do not. Raises ValueError for a name
        that there is not, and for values that are wrong."""
        hints = typing.get_type_hints(cls)
        made = {}
        for name, value in values.items():
            if name not in hints:
                raise ValueError(f"config: {_unknown(name, path, hints)}")
            hint = hints[name]
            is_section = isinstance(hint, type) and issubclass(hint, _Section)
            if is_section and isinstance(value, Mapping):
                value = hint.from_dict(value, f"{path}{name}.")
            made[name] = value
        section = cls(**made)
        section.validate(path)
        return section


def _unknown(name: Any, path: str, known: Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(str(name), known, 1)
    advice = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
    return f"there is no {path}{name}: {advice}"


def _normal(value: Any, hint: Any) -> Any:
    """Collections as the kind that the hint says, so that any will do."""
    for option in _options(hint):
        if typing.get_origin(option) is set and isinstance(value, list | tuple | frozenset):
            return set(value)
        if typing.get_origin(option) is list and isinstance(value, tuple):
            return list(value)
    return value


def _options(hint: Any) -> tuple[Any, ...]:
    is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    return typing.get_args(hint) if is_union else (hint,)


def _is_a(value: Any, hint: Any) -> bool:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return True
    if origin in (typing.Union, types.UnionType):
        return any(_is_a(value, option) for option in inner)
    if origin is Literal:
        return value in inner
    if origin in (list, set):
        return isinstance(value, origin) and all(_is_a(one, inner[0]) for one in value)
    if origin is dict:
        return isinstance(value, dict) and all(
            _is_a(key, inner[0]) and _is_a(one, inner[1]) for key, one in value.items()
        )
    if hint in (int, float):
        # True is no number here, and an integer may stand for a float.
        is_number = isinstance(value, int if hint is int else int | float)
        return is_number and not isinstance(value, bool)
    return isinstance(value, hint)


def _text_of(hint: Any) -> str:
    if typing.get_origin(hint) is Literal:
        return " or ".join(repr(one) for one in typing.get_args(hint))
    options = _options(hint)
    if len(options) > 1:
        return " or ".join(_text_of(option) for option in options)
    if hint is type(None):
        return "None"
    return str(hint) if typing.get_origin(hint) else hint.__name__


def _plain(value: Any) -> Any:
    if isinstance(value, _Section):
        return value.to_dict()
    if isinstance(value, set):
        return sorted(value)
    return dict(value) if isinstance(value, dict) else value


def _is_positive(size: int | None) -> bool:
    return size is None or size >= 1


@dataclass
class ComputeConfig(_Section):
    """In which precision, and by which kernels."""

    # Parameters stay in f32; the computation is in f16, with a `GradScaler`, ...
    fp16: bool = False
    # ... or bf16, ...
    bf16: bool = False
    # ... and, besides, products of linear layers in 8-bit floats.
    fp8: bool = False
    # `F.scaled_dot_product_attention` is the device's own in any case: no effect.
    acc_scaled_dot_attn: bool = False
    # Models are not patched either: their programs are optimized as they are recorded.
    disable_kernel_patches: bool = False

    def _problems(self):
        if self.fp16 and self.bf16:
            yield "fp16", "so is bf16; choose one"


@dataclass
class MemoryConfig(_Section):
    """What is done to need less of it."""

    # Recomputes the activations of some layers in the backward pass: of layers of the classes with
    # these names, by default of the model's repeated blocks, ...
    gc: bool = False
    gc_cls: set[str] | None = None
    # ... and of this many of them, by default of all.
    gc_cnt: int | None = None
    # Recomputes as many layers as a step needs to fit the device's memory, ...
    auto: bool = False
    # ... or this many bytes, with or without `auto`.
    budget: int | None = None
    # Keeps the activations of all layers but the last in the host's memory.
    offload: bool = False

    @property
    def is_limited(self) -> bool:
        return self.auto or self.budget is not None

    def _problems(self):
        for name in ("gc_cls", "gc_cnt"):
            if getattr(self, name) is not None and not self.gc:
                yield name, "it says nothing without gc=True"
        if self.gc_cnt is not None and self.gc_cnt < 0:
            yield "gc_cnt", "it must be at least 0"
        if self.budget is not None and self.budget < 1:
            yield "budget", "it must be at least 1 byte"


@dataclass
class DataLoaderConfig(_Section):
    """As of `torchacc.AsyncLoader`."""

    # Lengths to which batches are padded, or the number of equal steps up to the longest.
    buckets: list[int] | None = None
    max_length: int | None = None
    num_buckets: int | None = None
    # Padding values by key; other keys are left alone.
    pad_value_dict: dict[str, int | float] | None = None

    def _problems(self):
        if self.buckets is not None and (not self.buckets or min(self.buckets) < 1):
            yield "buckets", "it must have lengths of at least 1"
        for name in ("max_length", "num_buckets"):
            value = getattr(self, name)
            if value is not None and value < 1:
                yield name, "it must be at least 1"
        if self.num_buckets is not None and self.max_length is None:
            yield "num_buckets", "it says nothing without max_length"
        if self.buckets is not None and self.max_length is not None:
            yield "max_length", "buckets say which lengths there are; leave one out"


class _Parallel(_Section):
    def _problems(self):
        if not _is_positive(self.size):
            yield "size", "it must be at least 1"


@dataclass
class DPConfig(_Parallel):
    """Data parallel: copies of the model, each with its part of a batch."""

    # The rest of the world by default.
    size: int | None = None


@dataclass
class TPConfig(_Parallel):
    """Tensor parallel: parts of each layer's matrices."""

    size: int = 1
    # Styles by patterns of module names ("layers.*.mlp.up": "colwise"), instead of the model's own
    # plan.
    plan: dict[str, str] | None = None


@dataclass
class PPConfig(_Parallel):
    """Pipeline parallel: some of the layers, and parts of a batch one after the other."""

    size: int = 1
    num_micro_batches: int = 1
    # Names of the modules with which stages after the first begin. By default all stages have equal
    # numbers of layers.
    split_points: list[str] = field(default_factory=list)
    schedule: Literal["gpipe", "1f1b", "interleaved", "zero-bubble"] = "1f1b"
    # Names of the arguments that are split into parts; all by default.
    input_names: list[str] | None = None
    # Whether every rank gets the loss, not only those of the last stage.
    broadcast_loss: bool = True

    def _problems(self):
        yield from super()._problems()
        if self.num_micro_batches < 1:
            yield "num_micro_batches", "it must be at least 1"
        if self.split_points and (len(self.split_points) + 1) % self.size != 0:
            yield (
                "split_points",
                f"they make {len(self.split_points) + 1} stages, which are to be those of"
                f" {self.size} ranks, as many on each",
            )
        is_single = self.schedule in ("gpipe", "1f1b")
        if is_single and self.split_points and len(self.split_points) + 1 != self.size:
            yield (
                "split_points",
                f"they make {len(self.split_points) + 1} stages, and with schedule"
                f" {self.schedule!r} each of {self.size} ranks has one",
            )
        if len(set(self.split_points)) != len(self.split_points):
            yield "split_points", "one is there twice"


@dataclass
class FSDPConfig(_Parallel):
    """Fully sharded data parallel: a part of all parameters, gathered while they are needed."""

    size: int = 1
    # Names of the classes whose parameters are gathered together; by default the model's repeated
    # blocks.
    wrap_layer_cls: set[str] | None = None
    # No effect, as FSDP2 shards each parameter separately. Accepted for programs that set it.
    flatten_parameters: bool = True
    # Starts with the parameters and buffers of the first rank.
    sync_module_states: bool = False
    # Drops parameters after the forward pass, and gathers them again in the backward pass.
    reshard_after_forward: bool = True
    # Keeps parameters, gradients and the optimizer's state in the host's memory.
    cpu_offload: bool = False


@dataclass
class SPConfig(_Parallel):
    """Sequence (context) parallel: a part of each sequence."""

    size: int = 1
    # Exchanges heads for rows ("ulysses"), sends keys and values round a ring ("ring"), or both
    # ("2d"): `ulysses_size` ranks exchange, and rings run between such groups.
    mode: Literal["ulysses", "ring", "2d"] = "ulysses"
    ulysses_size: int | None = None

    def _problems(self):
        yield from super()._problems()
        if (self.ulysses_size is not None) != (self.mode == "2d"):
            yield "ulysses_size", "mode='2d' has one, other modes have none"
        elif self.ulysses_size is not None and (
            self.ulysses_size < 1 or self.size % self.ulysses_size != 0
        ):
            yield "ulysses_size", f"it must divide size, {self.size}"


@dataclass
class DistConfig(_Section):
    """How many processes do what."""

    dp: DPConfig = field(default_factory=DPConfig)
    tp: TPConfig = field(default_factory=TPConfig)
    pp: PPConfig = field(default_factory=PPConfig)
    fsdp: FSDPConfig = field(default_factory=FSDPConfig)
    sp: SPConfig = field(default_factory=SPConfig)
    # Kinds of parallelism, from those between distant ranks to those between neighbours.
    topology: list[str] = field(default_factory=lambda: [*AXES])

    def _problems(self):
        if not set(self.topology) <= {*AXES} or len({*self.topology}) != len(self.topology):
            yield "topology", f"it must be {', '.join(AXES)} in some order, each once"
        for axis in set(AXES) - set(self.topology):
            if (getattr(self, axis).size or 1) > 1:
                yield "topology", f"{axis} is not in it, and {axis}.size is more than 1"


@dataclass
class StrategyConfig(_Section):
    """Who chooses: the program all ("manual"), some ("semi": what differs from the defaults is
    fixed), or nothing ("auto")."""

    mode: Literal["manual", "semi", "auto"] = "manual"
    # Seconds that the search may take, including its trials.
    time_limit: float = 60.0
    # Number of the best strategies that are run for a few steps, of which the fastest is taken;
    # without trials the one predicted to be fastest is.
    trials: int = 0
    # A file that describes the machines, or the name of one that comes with the package.
    cluster: str | None = None

    def _problems(self):
        if not 0 < self.time_limit < math.inf:
            yield "time_limit", "it must be a number of seconds more than 0"
        if self.trials < 0:
            yield "trials", "it must be at least 0"


@dataclass
class Config(_Section):
    """All of it. The defaults train on one process as plain PyTorch does.

    >>> config = Config(dist=DistConfig(fsdp=FSDPConfig(size=4)))
    >>> config.compute.bf16 = True
    >>> config.mesh(8)
    {'dp': 2, 'fsdp': 4, 'pp': 1, 'sp': 1, 'tp': 1}
    """

    # The device acc ("lazy"), or PyTorch's own kernels ("eager").
    backend: Literal["lazy", "eager"] = "lazy"
    compute: ComputeConfig = field(default_factory=ComputeConfig)
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    dataloader: DataLoaderConfig = field(default_factory=DataLoaderConfig)
    dist: DistConfig = field(default_factory=DistConfig)
    strategy: StrategyConfig = field(default_factory=StrategyConfig)

    def is_lazy_backend(self) -> bool:
        return self.backend == "lazy"

    def is_eager_backend(self) -> bool:
        return self.backend == "eager"

    def mesh(self, world_size: int) -> dict[str, int]:
        """The size of each kind of parallelism, in the order of the topology, of so many processes.
        Changes nothing. Raises ValueError where they do not make up the world."""
        self.validate()
        dist = self.dist
        order = [*dist.topology, *(axis for axis in AXES if axis not in dist.topology)]
        given = {axis: getattr(dist, axis).size for axis in order}
        if given["dp"] is None:
            others = math.prod(size for size in given.values() if size is not None)
            given["dp"] = max(world_size // others, 1)
        if math.prod(given.values()) != world_size:
            sizes = " x ".join(f"{axis} {size}" for axis, size in given.items())
            raise ValueError(
                f"config: dist: {sizes} = {math.prod(given.values())} processes, and there are"
                f" {world_size}"
            )
        return given

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2)

    @classmethod
    def from_json(cls, text: str) -> "Config":
        """Raises ValueError for what is no JSON, too."""
        return cls.from_dict(_mapping(json.loads(text)))

    def to_yaml(self) -> str:
        return _yaml().safe_dump(self.to_dict(), sort_keys=False)

    @classmethod
    def from_yaml(cls, text: str) -> "Config":
        """Raises ValueError for what is no YAML, too."""
        yaml = _yaml()
        try:
            values = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ValueError(f"config: {error}") from error
        return cls.from_dict(_mapping({} if values is None else values))

    @classmethod
    def from_file(cls, path: str | Path) -> "Config":
        """Of JSON, if the name ends so, else YAML."""
        path = Path(path)
        read = cls.from_json if path.suffix == ".json" else cls.from_yaml
        return read(path.read_text())


def _mapping(values: Any) -> Mapping[str, Any]:
    if not isinstance(values, Mapping):
        raise ValueError(f"config: fields and their values are wanted, not {values!r}")
    return values


def _yaml():
    try:
        import yaml
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "a Config is read from YAML by PyYAML: pip install pyyaml, or use JSON"
        ) from error
    return yaml

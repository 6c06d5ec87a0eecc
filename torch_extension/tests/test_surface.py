"""torch.acc has what torch.cuda has, and PyTorch's own interfaces to a device mean it."""

import gc
import importlib
import inspect
import io
import types

import pytest
import torch
import torchacc
from support import DEVICE
from torchacc._absent import ABSENT, ABSENT_PRIVATE

# Imported by torch.cuda for itself, or about numbers of CUDA's architectures.
NOT_OF_CUDA = {
    "Any",
    "Callable",
    "DEVICE_REQUIREMENT",
    "DEVICE_REQUIREMENT_POST_JETSON_SBSA_UNIFICATION",
    "Device",
    "Enum",
    "NewType",
    "Optional",
    "PYTORCH_RELEASES_CODE_CC",
    "TYPE_CHECKING",
    "Union",
    "auto",
    "cache",
    "cast",
    "classproperty",
    "glob",
    "importlib",
    "lru_cache",
    "os",
    "platform",
    "pynvml",
    "threading",
    "torch",
    "traceback",
    "warnings",
}
# What PyTorch 2.15 has and 2.11 has not.
NEWER = {
    "caching_allocator_disabled",
    "current_solver_handle",
    "export_dot",
    "export_graph_data",
    "graph_annotations",
}
# Of torch.acc alone.
OWN = {"get_amp_supported_dtype"}
# Whose attributes have their own table in PyTorch.
SUBMODULES = ("memory", "random", "amp")


def public(module):
    names = {name for name in dir(module) if not name.startswith("_")}
    return names | set(getattr(module, "__all__", ()))


def parameters(function):
    return [(p.name, p.default, p.kind) for p in inspect.signature(function).parameters.values()]


def test_every_name_of_cuda_is_there_or_absent_for_a_reason():
    names = public(torch.cuda) - NOT_OF_CUDA
    present = set(torch.acc.__all__)
    assert names - present - ABSENT.keys() == set(), "new: give torch.acc them, or say why not"
    assert present & ABSENT.keys() == set()
    assert ABSENT.keys() - names <= NEWER
    assert ABSENT_PRIVATE.keys() <= set(dir(torch.cuda.memory))
    assert present - names == OWN


@pytest.mark.parametrize("name", sorted(ABSENT | ABSENT_PRIVATE))
def test_what_is_absent_says_why(name):
    assert not hasattr(torch.acc, name)
    for module in ("torch.acc", "torch.acc.memory"):
        with pytest.raises(AttributeError, match=f"{module} has no {name}: "):
            getattr(importlib.import_module(module), name)


def test_other_names_are_no_attributes():
    for module in (torch.acc, torch.acc.memory):
        with pytest.raises(AttributeError, match="module 'torch.acc.*' has no attribute 'nonsen"):
            module.nonsense  # noqa: B018


@pytest.mark.parametrize("name", sorted(torch.acc.__all__))
def test_arguments_are_those_of_cuda(name):
    ours, theirs = getattr(torch.acc, name), getattr(torch.cuda, name, None)
    if name in OWN or isinstance(ours, types.ModuleType) or not callable(ours):
        return
    if issubclass(type(theirs), type) and issubclass(theirs, BaseException):
        assert ours is theirs
        return
    expected = [(n, DEVICE if d == "cuda" else d, kind) for n, d, kind in parameters(theirs)]
    assert parameters(ours) == expected


@pytest.mark.parametrize("name", SUBMODULES)
def test_submodules_have_what_those_of_cuda_have(name):
    module = importlib.import_module(f"torch.acc.{name}")
    assert module is getattr(torch.acc, name)
    theirs = getattr(torch.cuda, name)
    names = set(getattr(theirs, "__all__", ())) - {"amp_definitely_not_available"}
    assert names - ABSENT.keys() <= set(module.__all__)
    assert set(module.__all__) <= public(module)


def test_streams_is_a_submodule():
    import torch.acc.streams as streams

    assert streams.Event is torch.acc.Event


def test_private_names_are_exported_nowhere():
    assert not [name for name in torch.acc.__all__ if name.startswith("_")]
    assert sorted(torch.acc.__all__, key=str) == torch.acc.__all__


# ---- memory


def test_memory_counters_are_the_runtimes():
    x = torch.ones(1 << 18, device=DEVICE)
    torch.acc.synchronize()
    stats = torch.acc.memory_stats()
    assert stats == torch.accelerator.memory_stats()
    assert stats["allocated_bytes.all.current"] == torchacc.metrics()["live_bytes"]
    nested = torch.acc.memory_stats_as_nested_dict()
    assert nested["allocated_bytes"]["all"]["current"] == torch.acc.memory_allocated()
    for name in ("memory_allocated", "max_memory_allocated", "memory_reserved"):
        assert getattr(torch.accelerator, name)() == getattr(torch.acc, name)() >= x.nbytes
    with pytest.warns(FutureWarning, match="use torch.acc.memory_reserved"):
        assert torch.acc.memory_cached() == torch.acc.memory_reserved()
    with pytest.warns(FutureWarning, match="use torch.acc.max_memory_reserved"):
        assert torch.acc.max_memory_cached() == torch.acc.max_memory_reserved()


def test_accumulated_counters_count_storages():
    torch.acc.reset_accumulated_memory_stats()
    x = torch.ones(1 << 10, device=DEVICE)
    del x
    stats = torch.acc.memory_stats()
    assert stats["requested_bytes.all.allocated"] >= 4 << 10
    assert stats["requested_bytes.all.freed"] >= 4 << 10
    torch.acc.reset_accumulated_memory_stats()
    assert torch.acc.memory_stats()["requested_bytes.all.freed"] == 0
    # What CUDA's allocator counts and this one does not.
    assert stats["segment.all.allocated"] == stats["reserved_bytes.all.allocated"] == 0


def test_old_names_reset_the_peak():
    for reset in (torch.acc.reset_max_memory_allocated, torch.acc.reset_max_memory_cached):
        x = torch.ones(1 << 20, device=DEVICE)
        torch.acc.synchronize()
        del x
        gc.collect()
        torch.acc.synchronize()
        torch.acc.empty_cache()
        assert torch.acc.max_memory_allocated() >= 4 << 20
        with pytest.warns(FutureWarning, match="use torch.acc.reset_peak_memory_stats"):
            reset()
        assert torch.acc.max_memory_allocated() == torch.acc.memory_allocated()


def test_a_snapshot_adds_up():
    x = torch.ones(1 << 18, device=DEVICE)
    y = x + 1
    torch.acc.synchronize()
    (segment,) = torch.acc.memory_snapshot()
    assert segment["total_size"] == torch.acc.memory_reserved()
    assert segment["allocated_size"] == torch.acc.memory_allocated() >= x.nbytes + y.nbytes
    assert sum(block["size"] for block in segment["blocks"]) == segment["total_size"]


def test_a_summary_is_for_people():
    x = torch.ones(3 << 20, device=DEVICE)
    torch.acc.synchronize()
    text = torch.acc.memory_summary()
    for word in ("acc:0", "Allocated memory", "Reserved memory", "Storages", "MiB"):
        assert word in text
    assert "Storages" not in torch.acc.memory_summary(abbreviated=True)
    del x


def test_free_memory_is_what_programs_can_get():
    free, total = torch.acc.mem_get_info()
    other_free, other_total = torch.accelerator.get_memory_info()
    assert total == other_total
    assert abs(free - other_free) < 1 << 30
    assert 0 < torch.acc.device_memory_used() < total


def test_the_host_has_no_gpus_numbers():
    x = torch.ones(2, device=DEVICE)
    torch.acc.ipc_collect()
    assert torch.acc.memory.native_device() is None
    assert torch.acc.get_per_process_memory_fraction() == 1.0
    assert torch.acc.is_tf32_supported() is False
    for name in ("utilization", "temperature", "power_draw", "clock_rate", "memory_usage"):
        with pytest.raises(RuntimeError, match="computes on the host here"):
            getattr(torch.acc, name)()
    with pytest.raises(RuntimeError, match="computes on the host here"):
        torch.acc.set_per_process_memory_fraction(0.5)
    with pytest.raises(RuntimeError, match="computes on the host here"):
        torch.acc.list_gpu_processes()
    assert x.sum().item() == 2


def test_a_gpus_numbers_are_cudas(monkeypatch):
    gpu = torch.device("cuda", 1)
    monkeypatch.setattr(torchacc.memory, "native_device", lambda: gpu)
    for name in ("utilization", "temperature", "power_draw", "clock_rate", "memory_usage"):
        monkeypatch.setattr(torch.cuda, name, lambda device, name=name: (name, device))
        assert getattr(torch.acc, name)() == (name, gpu)
    set_to = []
    monkeypatch.setattr(
        torch.cuda, "set_per_process_memory_fraction", lambda *args: set_to.append(args)
    )
    torch.acc.set_per_process_memory_fraction(0.5)
    assert set_to == [(0.5, gpu)]


# ---- devices


def test_properties_tell_what_the_device_is():
    properties = torch.acc.get_device_properties()
    assert properties.name == torch.acc.get_device_name()
    assert properties.total_memory == torch.acc.mem_get_info()[1]
    assert (properties.major, properties.minor) == torch.acc.get_device_capability()
    assert properties.multi_processor_count >= 1
    assert torch.acc.can_device_access_peer(0, 0)
    assert torch.acc.has_half is True


def test_the_devices_types_are_those_that_tensors_can_have():
    dtypes = {value for value in vars(torch).values() if isinstance(value, torch.dtype)}
    listed = torch.accelerator.get_device_capability(DEVICE)["supported_dtypes"]
    made = set()
    for dtype in dtypes:
        try:
            torch.empty(2, dtype=dtype, device=DEVICE)
        except (RuntimeError, NotImplementedError):
            continue
        made.add(dtype)
    assert listed == made


def test_device_of_a_tensor_is_current_inside():
    with torch.acc.device_of(torch.ones(2, device=DEVICE)):
        assert torch.acc.current_device() == 0
    with torch.acc.device_of(torch.ones(2)):
        assert torch.acc.current_device() == 0


def test_the_accelerator_is_acc():
    accelerator = torch.accelerator
    assert accelerator.current_accelerator(check_available=True) == torch.device(DEVICE)
    with accelerator.device_index(0):
        assert accelerator.current_device_index() == 0
    accelerator.set_device_index("acc:0")
    accelerator.set_stream(torch.acc.default_stream())
    assert accelerator.current_stream() == torch.acc.current_stream()
    for name in ("max_memory_reserved", "memory_reserved", "max_memory_allocated"):
        assert getattr(accelerator, name)(DEVICE) == getattr(torch.acc, name)()
    accelerator.reset_peak_memory_stats(0)
    accelerator.reset_accumulated_memory_stats()
    accelerator.empty_cache()
    accelerator.synchronize()
    # A new version's function is to be looked at. These two are of 2.15.
    assert set(accelerator.__all__) - {"Graph", "empty_host_cache"} == {
        "current_accelerator",
        "current_device_idx",
        "current_device_index",
        "current_stream",
        "device_count",
        "device_index",
        "empty_cache",
        "get_device_capability",
        "get_memory_info",
        "is_available",
        "max_memory_allocated",
        "max_memory_reserved",
        "memory_allocated",
        "memory_reserved",
        "memory_stats",
        "reset_accumulated_memory_stats",
        "reset_peak_memory_stats",
        "set_device_idx",
        "set_device_index",
        "set_stream",
        "synchronize",
    }


def test_the_default_device():
    torch.set_default_device(DEVICE)
    try:
        assert torch.rand(2).is_acc
        assert torch.nn.Linear(2, 2).weight.is_acc
    finally:
        torch.set_default_device(None)
    assert not torch.rand(2).is_acc


# ---- random numbers


def test_default_generators_draw_what_tensors_get():
    (generator,) = torch.acc.default_generators
    assert generator.device == torch.device("acc:0")
    generator.manual_seed(11)
    assert torch.acc.initial_seed() == 11
    first = torch.rand(4, device=DEVICE)
    torch.acc.manual_seed(11)
    again = torch.rand(4, device=DEVICE, generator=generator)
    assert torch.equal(first, again)
    assert len(torch.acc.default_generators) == torch.acc.device_count()


def test_a_generator_of_the_device():
    generator = torch.Generator(device=DEVICE).manual_seed(5)
    state = generator.get_state()
    first = torch.rand(3, device=DEVICE, generator=generator)
    generator.set_state(state)
    assert torch.equal(first, torch.rand(3, device=DEVICE, generator=generator))
    assert torch.equal(generator.clone_state().get_state(), generator.get_state())


def test_fork_rng_gives_the_state_back():
    torch.acc.manual_seed(3)
    state = torch.acc.get_rng_state()
    with torch.random.fork_rng(device_type=DEVICE):
        torch.acc.manual_seed(4)
        torch.rand(8, device=DEVICE)
    assert torch.equal(torch.acc.get_rng_state(), state)
    torch.acc.set_rng_state_all(iter([state]))


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints_replay_random_numbers(reentrant):
    def gradient(checkpoint):
        torch.acc.manual_seed(9)
        x = torch.ones(64, device=DEVICE, requires_grad=True)

        def layer(x):
            return torch.nn.functional.dropout(x * 3, 0.5)

        y = checkpoint(layer, x)
        torch.rand(8, device=DEVICE)
        y.sum().backward()
        return x.grad

    def checkpoint(function, x):
        return torch.utils.checkpoint.checkpoint(function, x, use_reentrant=reentrant)

    assert torch.equal(gradient(checkpoint), gradient(lambda function, x: function(x)))


def test_forward_and_backward_of_functions_keep_the_autocast_state():
    class Product(torch.autograd.Function):
        @staticmethod
        @torch.acc.amp.custom_fwd(cast_inputs=torch.float32)
        def forward(ctx, x):
            assert not torch.is_autocast_enabled(DEVICE)
            return x * 2

        @staticmethod
        @torch.acc.amp.custom_bwd
        def backward(ctx, gradient):
            return gradient * 2

    x = torch.ones(3, device=DEVICE, requires_grad=True)
    with torch.acc.amp.autocast():
        y = Product.apply(x.half())
    assert y.dtype == torch.float32
    y.sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


# ---- streams


def test_streams_take_cudas_arguments():
    stream = torch.acc.Stream(DEVICE, -1)
    assert isinstance(stream, torch.acc.Stream)
    assert isinstance(stream, torch.Stream)
    other = torch.acc.Stream(
        stream_id=stream.stream_id, device_index=0, device_type=stream.device_type
    )
    assert other == stream
    with torch.acc.stream(stream) as inside:
        assert inside is None
        assert torch.acc.current_stream() == stream
    with torch.acc.StreamContext(None):
        assert torch.acc.current_stream() == torch.acc.default_stream()
    torch.acc.set_stream(None)
    torch.acc.set_stream(stream)
    assert torch.acc.current_stream() == stream != torch.acc.default_stream()
    torch.acc.set_stream(torch.acc.default_stream())


def test_events_take_cudas_arguments():
    event = torch.acc.Event(True, False)
    assert isinstance(event, torch.acc.Event)
    assert not isinstance(3, torch.acc.Event)
    assert isinstance(torch.acc.current_stream().record_event(event), torch.acc.Event)
    event.wait()
    event.synchronize()
    assert event.query()
    with pytest.raises(NotImplementedError, match="stay in their process"):
        torch.acc.Event(interprocess=True)


# ---- tensors, storages, files


def test_tensors_and_storages_move():
    x = torch.arange(4.0)
    assert x.acc().is_acc
    assert not x.is_acc
    assert x.acc(non_blocking=True).untyped_storage().is_acc
    storage = x.untyped_storage().acc()
    assert storage.device == torch.device("acc:0")
    assert storage.cpu().tolist() == x.untyped_storage().tolist()
    assert x.storage().acc().is_acc
    assert torch.nn.utils.rnn.pack_sequence([torch.ones(2)]).acc().is_acc


def test_pinned_memory_is_of_the_host():
    pinned = torch.arange(3.0).pin_memory()
    assert pinned.is_pinned()
    assert torch.empty(3, pin_memory=True).is_pinned()
    assert torch.ones(2).untyped_storage().pin_memory(DEVICE).is_pinned(DEVICE)
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        pinned.to(DEVICE).pin_memory()
    x = pinned.to(DEVICE, non_blocking=True)
    x.record_stream(torch.acc.Stream())
    assert x.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "location", [DEVICE, "acc:0", torch.device(DEVICE), {"cpu": DEVICE}, lambda s, _: s.acc()]
)
def test_files_are_loaded_to_the_device(location):
    file = io.BytesIO()
    torch.save({"x": torch.arange(3.0)}, file)
    file.seek(0)
    x = torch.load(file, map_location=location)["x"]
    assert x.is_acc
    assert x.tolist() == [0, 1, 2]
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    assert torch.load(file).is_acc
    file.seek(0)
    assert not torch.load(file, map_location="cpu").is_acc

"""Config: what it takes, what it refuses and in which words, and its texts."""

import dataclasses
import re

import pytest
from torchacc import config as configs
from torchacc.config import (
    ComputeConfig,
    Config,
    DataLoaderConfig,
    DistConfig,
    DPConfig,
    FSDPConfig,
    MemoryConfig,
    PPConfig,
    SPConfig,
    StrategyConfig,
    TPConfig,
)

# What is wrong, and what is said.
REFUSED = [
    ({"backend": "xla"}, "backend is 'xla': it must be 'lazy' or 'eager'"),
    ({"compute": {"bf16": 1}}, "compute.bf16 is 1: it must be bool"),
    ({"compute": {"bf16": True, "fp16": True}}, "compute.fp16 is True: so is bf16; choose one"),
    ({"memory": {"gc_cls": ["Block"]}}, "memory.gc_cls is {'Block'}: it says nothing without"),
    ({"memory": {"gc": True, "gc_cnt": -1}}, "memory.gc_cnt is -1: it must be at least 0"),
    ({"memory": {"budget": 0}}, "memory.budget is 0: it must be at least 1 byte"),
    ({"dataloader": {"buckets": []}}, "dataloader.buckets is []: it must have lengths"),
    (
        {"dataloader": {"buckets": [8, "16"]}},
        "dataloader.buckets is [8, '16']: it must be list[int]",
    ),
    ({"dataloader": {"num_buckets": 4}}, "dataloader.num_buckets is 4: it says nothing without"),
    ({"dataloader": {"buckets": [8], "max_length": 8}}, "dataloader.max_length is 8: buckets say"),
    ({"dist": {"dp": {"size": 0}}}, "dist.dp.size is 0: it must be at least 1"),
    ({"dist": {"tp": {"size": True}}}, "dist.tp.size is True: it must be int"),
    ({"dist": {"tp": 2}}, "dist.tp is 2: it must be TPConfig"),
    ({"dist": {"fsdp": {"size": None}}}, "dist.fsdp.size is None: it must be int"),
    ({"dist": {"pp": {"size": 2, "split_points": ["a", "b"]}}}, "they make 3 stages"),
    ({"dist": {"pp": {"schedule": "2f2b"}}}, "dist.pp.schedule is '2f2b': it must be 'gpipe' or"),
    ({"dist": {"sp": {"size": 4, "mode": "2d"}}}, "dist.sp.ulysses_size is None: mode='2d' has"),
    ({"dist": {"sp": {"size": 4, "mode": "2d", "ulysses_size": 3}}}, "it must divide size, 4"),
    ({"dist": {"topology": ["dp", "dp"]}}, "dist.topology is ['dp', 'dp']: it must be dp, fsdp"),
    ({"dist": {"topology": ["dp"], "sp": {"size": 2}}}, "sp is not in it"),
    ({"strategy": {"time_limit": 0}}, "strategy.time_limit is 0: it must be a number of seconds"),
    ({"dist": {"tpp": {}}}, "there is no dist.tpp: did you mean tp?"),
    ({"world": 8}, "there is no world: there are backend, compute, memory, dataloader, dist"),
]


@pytest.mark.parametrize(("values", "said"), REFUSED, ids=lambda x: str(x)[:40])
def test_an_error_names_field_value_and_what_is_allowed(values, said):
    with pytest.raises(ValueError, match="config: .*" + re.escape(said)):
        Config.from_dict(values)


def full():
    return Config(
        backend="eager",
        compute=ComputeConfig(bf16=True, fp8=True),
        memory=MemoryConfig(gc=True, gc_cls={"Block", "Attention"}, gc_cnt=3, auto=True, budget=9),
        dataloader=DataLoaderConfig(max_length=64, num_buckets=4, pad_value_dict={"x": 0.5}),
        dist=DistConfig(
            dp=DPConfig(2),
            tp=TPConfig(2, plan={"up": "colwise"}),
            pp=PPConfig(2, num_micro_batches=4, split_points=["b"], schedule="interleaved"),
            fsdp=FSDPConfig(2, wrap_layer_cls={"Block"}, cpu_offload=True),
            sp=SPConfig(4, mode="2d", ulysses_size=2),
            topology=["pp", "dp", "fsdp", "tp", "sp"],
        ),
        strategy=StrategyConfig(mode="semi", time_limit=5, cluster="a100"),
    )


def test_texts_give_it_back():
    for config in (Config(), full()):
        assert Config.from_dict(config.to_dict()) == config
        assert Config.from_json(config.to_json()) == config
        assert Config.from_yaml(config.to_yaml()) == config
        config.validate()
    # Every section says something else than by default.
    defaults, values = Config().to_dict(), full().to_dict()
    assert all(value != defaults[name] for name, value in values.items())


def test_files_are_read_by_their_name(tmp_path):
    for name, text in (("c.json", full().to_json()), ("c.yaml", full().to_yaml())):
        (tmp_path / name).write_text(text)
        assert Config.from_file(tmp_path / name) == full()
    (tmp_path / "empty.yml").write_text("# nothing\n")
    assert Config.from_file(tmp_path / "empty.yml") == Config()


@pytest.mark.parametrize("text", ["[1, 2]", "dist: [", "'a text'"])
def test_what_is_no_config_is_said(text):
    with pytest.raises(ValueError, match=r"config: |expected"):
        Config.from_yaml(text)
    with pytest.raises(ValueError, match=r"config: |Expecting"):
        Config.from_json(text)


def test_any_collection_of_names_will_do():
    config = Config.from_dict({"memory": {"gc": True, "gc_cls": ("A", "B")}})
    assert config.memory.gc_cls == {"A", "B"}
    assert Config.from_dict({"dataloader": {"buckets": (8, 16)}}).dataloader.buckets == [8, 16]
    # A name is not a collection of letters.
    with pytest.raises(ValueError, match="gc_cls is 'Block': it must be set"):
        Config.from_dict({"memory": {"gc": True, "gc_cls": "Block"}})


def test_sizes_make_up_the_world():
    config = Config(dist=DistConfig(tp=TPConfig(2), fsdp=FSDPConfig(2)))
    assert config.mesh(8) == {"dp": 2, "fsdp": 2, "pp": 1, "sp": 1, "tp": 2}
    # It was asked, not told: another world has another size.
    assert config.mesh(4)["dp"] == 1
    assert config.dist.dp.size is None
    for world in (6, 2):
        sizes = f"dp 1 x fsdp 2 x pp 1 x sp 1 x tp 2 = 4 processes, and there are {world}"
        with pytest.raises(ValueError, match=sizes):
            config.mesh(world)
    # All kinds count, sequences too.
    config.dist.sp.size = 3
    config.dist.dp.size = 1
    assert config.mesh(12) == {"dp": 1, "fsdp": 2, "pp": 1, "sp": 3, "tp": 2}
    config.dist.topology = ["tp", "sp", "fsdp"]
    assert [*config.mesh(12)] == ["tp", "sp", "fsdp", "dp", "pp"]


def test_configurations_share_nothing():
    one, other = Config(), Config()
    one.dist.tp.size = 4
    one.dist.pp.split_points.append("a")
    one.dist.topology.reverse()
    assert other == Config()


def test_what_is_set_later_is_checked_when_it_is_used():
    config = Config()
    config.dist.tp.size = "two"
    with pytest.raises(ValueError, match="dist.tp.size is 'two': it must be int"):
        config.mesh(1)
    config.dist.tp.size = 1
    config.dist.tp.sise = 2  # a name that there is not
    with pytest.raises(ValueError, match="there is no dist.tp.sise: did you mean size"):
        config.validate()


def test_every_section_is_documented():
    sections = [one for one in vars(configs).values() if dataclasses.is_dataclass(one)]
    assert len(sections) == 11
    for section in sections:
        assert section.__doc__
        assert not section.__doc__.startswith(f"{section.__name__}(")

"""Checkpoints of several ranks: in any layout, of ranks and machines that come and go."""

import shutil

import checkpointed
import pytest
import ranks
from documented import scripts


@pytest.fixture(autouse=True)
def snapshots(tmp_path, monkeypatch):
    """A folder of its own for what would be in /dev/shm."""
    folder = tmp_path / "snapshots"
    folder.mkdir()
    monkeypatch.setenv("TORCHACC_SNAPSHOTS", str(folder))


def run(name, size, *arguments):
    return ranks.run(f"checkpointed.{name}", size, *arguments, backend="acc")


def test_any_layout_is_restored_in_any_other(tmp_path):
    made = run("layouts", 2, tmp_path)
    assert [wrong for wrong, *_ in made] == [[], []]
    _, values, losses = made[0]
    checkpointed.plain(tmp_path, values, losses)


def test_values_and_random_states_are_each_ranks_own(tmp_path):
    made = run("own_values", 2, tmp_path / "folder")
    for rank, (mine, shared, is_repeated, errors) in enumerate(made):
        assert (mine, shared, is_repeated) == (f"rank {rank}", [4.0] * 3, True)
        assert len(errors) == 1
    assert "rank 1: " in made[0][3][0]
    assert "pickle" in made[1][3][0]
    # A rank that there was not begins as rank 0 was, with random numbers of its own.
    assert run("restored_values", 3, tmp_path / "folder") == [
        ["rank 0", False],
        ["rank 1", False],
        ["rank 0", True],
    ]
    assert checkpointed.restored_values(tmp_path / "folder") == ("rank 0", False)


def test_some_ranks_save(tmp_path):
    made = run("of_a_group", 3, tmp_path / "folder")
    assert made == [None, *([[0.0, 1.0, 2.0, 3.0], rank] for rank in (1, 2))]


def test_a_disk_that_is_full_for_one_rank(tmp_path):
    for said, steps in run("full_disk", 2, tmp_path / "folder"):
        assert len(said) == 1
        assert "File too large" in said[0]
        assert steps == [1, 3]


def test_a_machine_that_is_gone(tmp_path):
    """Another takes its place, and gets what its neighbour has. Then all are gone."""
    folder, hosts = tmp_path / "folder", tmp_path / "hosts"
    first = run("on_hosts", 3, folder, hosts, "a", "b", "c")
    assert [begin for begin, *_ in first] == [0, 0, 0]
    shutil.rmtree(hosts / "b")
    second = run("on_hosts", 3, folder, hosts, "d", "c", "a")
    for begin, values, _ in second:
        assert begin == 3
        assert values == first[0][2]
    shutil.rmtree(hosts)
    for begin, values, _ in run("on_hosts", 2, folder, hosts, "a", "b"):
        assert begin == 3
        assert values == first[0][2]


def test_stages_of_a_pipeline(tmp_path):
    for expected, made in run("pipeline", 2, tmp_path / "folder"):
        assert made == expected
    alone = checkpointed.pipeline(tmp_path / "folder")
    assert alone == pytest.approx(expected, rel=1e-5)


def test_the_scripts_of_the_page_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stores = [ranks.hosted_store() for _ in scripts("checkpoints.md")]
    ports = [store.port for store in stores]
    made = ranks.run("documented.run", 2, "checkpoints.md", *ports, backend="none")
    assert made == [len(ports)] * 2

"""Collectives run beside kernels: the same bits as one after the other, in time's order or not."""

import os

import overlap
import pytest
import ranks

FIRST = int(os.environ.get("TORCHACC_FUZZ_SEED", "0"))


@pytest.fixture(scope="module")
def trained():
    return {on: ranks.run("overlap.train", 2, TORCHACC_LANES=on) for on in ("0", "1")}


@pytest.mark.parametrize("name", overlap.NAMES)
def test_lanes_change_no_bit(trained, name):
    for alone, on_lanes in zip(trained["0"], trained["1"], strict=True):
        alone, on_lanes = alone[name], on_lanes[name]
        assert on_lanes["losses"] == alone["losses"]
        assert alone["overlapped_collectives"] == 0
        assert 0 < on_lanes["overlapped_collectives"] <= on_lanes["collectives"]
        assert on_lanes["collectives"] == alone["collectives"]
        assert alone["compiles"] == on_lanes["compiles"] == 0


def test_a_limit_changes_no_bit_of_what_is_gathered():
    for rank in ranks.run("overlap.within_a_limit", 2):
        whole, limited = rank["made"]
        assert limited["losses"] == whole["losses"]
        assert limited["recomputed"] > whole["recomputed"] == 0
        assert limited["taken"] <= rank["limit"] < whole["taken"]


def test_only_what_is_sharded_is_gathered_again():
    for made in ranks.run("overlap.gathered_again", 2):
        # Two layers and the rest, which stays.
        assert made["fsdp2"] == [0, 3, 2]
        assert made["fsdp1"] == [0, 1, 0]
        assert made["own"] == [2, 0, 0]


def test_products_run_in_the_parts_of_their_collectives():
    whole, alone, on_lanes = (
        ranks.run("overlap.parts", 2, TORCHACC_SPLIT=split, TORCHACC_LANES=lanes)
        for split, lanes in (("0", "1"), ("1", "0"), ("1", "1"))
    )
    for one, serial, made in zip(whole, alone, on_lanes, strict=True):
        for name in ("tp", "sequence_parallel"):
            assert made[name]["losses"] == serial[name]["losses"]
            assert made[name]["losses"] == pytest.approx(one[name]["losses"], rel=1e-5)
            assert made[name]["collectives"] > 2 * one[name]["collectives"]
            assert made[name]["matmuls"] > 1.8 * one[name]["matmuls"]
            assert made[name]["compiles"] == 0
        assert max(made["errors"]) < 8
        assert made["errors"] == serial["errors"]
        # Of what is gathered, scattered and reduced, where a program was compiled.
        for number, products in enumerate((1, 1, 2)):
            count, counts = (
                [count[number] for count in of["counts"] if count[number] is not None]
                for of in (one, made)
            )
            assert set(count) == {products}
            assert sum(n > products for n in counts) > len(counts) / 2, counts
        # Three programs of eleven lengths: two of each are compiled at most, as without parts.
        assert made["compiles"] <= one["compiles"] <= 6


def test_parts_of_no_number_are_refused():
    for said in ranks.run("overlap.refused", 2, TORCHACC_SPLIT="4M"):
        assert said == {"error": 'TORCHACC_SPLIT is "4M": it is to be the least bytes of a part of'}


def test_groups_that_need_each_other_end():
    alone, on_lanes = (ranks.run("overlap.groups", 2, TORCHACC_LANES=on) for on in ("0", "1"))
    assert alone == on_lanes


def test_a_profile_has_lanes(tmp_path):
    for threads in ranks.run("overlap.timeline", 2, OVERLAP_FOLDER=str(tmp_path)):
        assert any(thread.startswith("lane of ") for thread in threads), threads


def test_the_flight_recorder_says_what_hid_a_collective():
    for made in ranks.run("overlap.hidden", 2):
        reduced = [row for row in made["rows"] if "all_reduce" in row["name"]][-1]
        assert reduced["hidden_by"] >= 20
        assert 0 <= reduced["exposed_ns"] <= reduced["took_ns"]
        for site in ("site", "first_site", "last_site"):
            assert "overlap.py" in reduced[site]
        said = f"of it exposed, {reduced['hidden_by']} steps beside it ({reduced['first_site']} to"
        assert said in made["text"]


def test_an_error_on_a_lane_is_told_where_its_result_is_read():
    for made in ranks.run("overlap.failing", 2, seconds=3600):
        assert "the ranks of the group do not do the same" in made["error"]
        assert "overlap.py" in made["error"]
        assert made["beside"] == 300 * 300


@pytest.mark.parametrize("size", [2, 3])
def test_what_goes_together_has_the_bits_of_what_goes_alone(size):
    for seed in range(FIRST, FIRST + 2):
        ways = {
            way: ranks.run("overlap.in_a_row", size, seed, 40, **environment)
            for way, environment in {
                "merged": {},
                "one by one": {"TORCHACC_MERGE": "0"},
                "in the program's order": {"TORCHACC_LANES": "0"},
            }.items()
        }
        for way, all_made in ways.items():
            for made, merged in zip(all_made, ways["merged"], strict=True):
                assert made["wrong"] == [], (way, seed)
                assert made["bits"] == merged["bits"], (way, seed)
                assert made["collectives"] == merged["collectives"]
                is_merged = made["merged_collectives"] > 0
                assert is_merged if way == "merged" else made["merged_collectives"] == 0


def test_new_groups_may_begin_at_once():
    for sums in ranks.run("overlap.new_groups", 2):
        assert sums == [2 * 3 * 6] * 15


@pytest.mark.parametrize("size", [2, 3])
def test_random_programs_of_collectives(size):
    for made in ranks.run("overlap.random_programs", size, FIRST, 12):
        assert made["wrong"] == []
        assert made["overlapped"] > 0
        assert made["has gathers of its own"]

"""Plans gone through with the figures of a cluster, whose collectives nobody does."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import run_python
from torchacc.auto import Cluster
from torchacc.auto.collectives import Group, all_gather
from torchacc.auto.simulate import simulate, steps_of

GATHER = 'host<"torchacc::all_gather", (bf16[4096], i32[1]), <tensor, 0, scalar(int,0), tensor>>'
MORE = "{ r3 = add r0 r1; r4 = cast<bf16> r3; r4 }"
PLAN = f"""# graph
return %1

# plan
arena 65536 (bound 65536)
out0: i32[1]
0: @0:bf16[4096], @49152:i32[1] = {GATHER}(in0:bf16[1024], s0:i64[], in1:i32[1]) done before 2
1: @8192:f32[64,64] = matmul(in2:f32[64,32], in3:f32[32,64])
2: @32768:bf16[64,64] = map(@0:bf16[64,64], @8192:f32[64,64], s2:f64[64,64]{{0,0}}) {MORE}
3: @0:bf16[4096], out0:i32[1] = {GATHER}(in0:bf16[1024], s0:i64[], @49152:i32[1])
"""
SCRIPT = Path(__file__).parents[2] / "benches" / "distributed" / "simulated.py"


@pytest.fixture(scope="module")
def cluster():
    return Cluster.load("a100", nodes=2)


def test_a_plan_is_read_as_it_is_written():
    steps, arena = steps_of(PLAN)
    assert arena == 65536
    assert [step.name for step in steps] == [
        "torchacc::all_gather",
        "matmul",
        "map",
        "torchacc::all_gather",
    ]
    assert [step.done for step in steps] == [2, None, None, None]
    assert steps[1].flops == 2 * 64 * 32 * 64
    assert steps[2].flops == 2 * 64 * 64
    # A scalar is no memory.
    assert steps[2].bytes == 64 * 64 * (2 + 4 + 2)
    assert [operand.sizes for operand in steps[0].writes] == [(4096,), (1,)]


def test_collectives_go_on_beside_kernels(cluster):
    group = Group(8, 2)
    made = simulate(PLAN, cluster, {"all": group})
    one = all_gather(8192, group, cluster)
    kernels = [end - begin for _, lane, begin, end in made.spans if lane is None]
    assert made.communication == pytest.approx(2 * one)
    assert made.compute == pytest.approx(sum(kernels))
    # The first one is beside the product, the second one beside nothing.
    assert made.exposed == pytest.approx(2 * one - kernels[0])
    assert made.seconds == pytest.approx(made.compute + made.exposed)
    assert made.exposed_part == pytest.approx(made.exposed / made.seconds)
    by_itself = simulate(PLAN.replace(" done before 2", ""), cluster, {"all": group})
    assert by_itself.exposed == pytest.approx(2 * one)


def test_copies_to_the_host_and_back_go_on_beside_kernels(cluster):
    copy = "map({}) {{ r0 }}"
    plan = f"""# plan
arena 65536 (bound 65536), host 16384
0: host@0:f32[64,64] = {copy.format("@0:f32[64,64]")} done before 2
1: @8192:f32[64,64] = matmul(in2:f32[64,32], in3:f32[32,64])
2: @0:f32[64,64] = {copy.format("host@0:f32[64,64]")} done before 4
3: @16384:f32[64,64] = map(@8192:f32[64,64]) {{ r1 = exp r0; r1 }}
4: @0:f32[64,64] = {copy.format("host@0:f32[64,64]")}
"""
    made = simulate(plan, cluster, {})
    one = 64 * 64 * 4 / cluster.host_bandwidth
    lanes = [lane for _, lane, _, _ in made.spans]
    assert lanes == ["to the host", None, "from the host", None, None]
    assert made.communication == pytest.approx(2 * one)
    kernels = [end - begin for _, lane, begin, end in made.spans if lane is None]
    # What is on no lane is a kernel that goes over the link.
    assert kernels[2] == pytest.approx(one)
    assert made.exposed == pytest.approx(2 * one - kernels[0] - kernels[1])


def test_results_may_come_from_the_host_or_lie_there():
    plan = """# plan
arena 65536 (bound 65536), host 16384
out0: f32[64,64]
out1: f32[64,64] on host
out10: f32[64,64]
0: out0:f32[64,64] = map(host@0:f32[64,64]) { r0 } done before 4
1: out1:f32[64,64] = map(in0:f32[64,64]) { r0 } done before 4
2: out10:f32[64,64] = map(in1:f32[64,64]) { r0 } done before 4
3: @0:f32[64,64] = map(in2:f32[64,64]) { r0 }
"""
    ways = [step.copies for step in steps_of(plan)[0]]
    assert ways == ["from the host", "to the host", "from the host", None]


def test_communicators_of_equal_groups_share_a_link(cluster):
    def plan(communicators):
        gather = "{0}: @{0}:bf16[4096], out{0}:i32[1] = {1}(in0:bf16[1024], s0:i64[], in{0}:i32[1])"
        lines = [gather.format(n, GATHER) + " done before 9" for n in range(1, communicators + 1)]
        return "\n".join(["# plan", "arena 65536 (bound 65536)", *lines])

    group, other = Group(8, 2), Group(16, 1)
    one = all_gather(8192, group, cluster)
    shared = simulate(plan(2), cluster, {"gathers": group, "all": group})
    assert [lane for _, lane, _, _ in shared.spans] == ["gathers", "all"]
    assert shared.seconds == pytest.approx(2 * one)
    apart = simulate(plan(2), cluster, {"gathers": group, "all": other})
    assert apart.seconds == pytest.approx(max(one, all_gather(8192, other, cluster)))
    assert simulate(plan(3), cluster, {"any": group}).seconds == pytest.approx(3 * one)
    with pytest.raises(ValueError, match="more communicators than gathers, all"):
        simulate(plan(3), cluster, {"gathers": group, "all": other})


@pytest.mark.parametrize("name", ["conv", "fft", 'host<"aten::linalg_eigh", (f32[64])>'])
def test_what_is_not_estimated_is_refused(cluster, name):
    plan = PLAN.replace("matmul(", f"{name}(")
    with pytest.raises(ValueError, match="whose time is not estimated"):
        simulate(plan, cluster, {"all": Group(8, 2)})


def test_a_timeline_is_written_for_perfetto(cluster, tmp_path):
    made = simulate(PLAN, cluster, {"all": Group(8, 2)})
    made.write_timeline(tmp_path / "timeline.json")
    events = json.loads((tmp_path / "timeline.json").read_text())["traceEvents"]
    names = [event["args"]["name"] for event in events if event["ph"] == "M"]
    assert names == ["kernels", "all"]
    assert [event["tid"] for event in events if event["ph"] == "X"] == [1, 0, 0, 1]


def run(lanes, *options):
    """What the bench says of a small model on 16 ranks, of which there is one."""
    small = ["--layers", "3", "--batch", "1", "--length", "512", "--nodes", "2", "--width", "512"]
    environment = {**os.environ, "TORCHACC_BACKEND": "null", "TORCHACC_LANES": lanes}
    # The CPU's kernels would compute at the model's sizes.
    environment["TORCHACC_VERIFY_SHAPES"] = "0"
    made = subprocess.run(
        [sys.executable, "-W", "ignore", str(SCRIPT), *small, *options],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return float(made.stdout.split("exposed ")[1].split("%")[0])


def test_lanes_hide_what_a_rank_of_a_job_that_is_not_there_sends():
    assert run("1") < 0.9 * run("0")


def test_a_world_is_of_the_backend_that_computes_nothing():
    code = "from torchacc.auto.simulate import world\nwith world(4): pass"
    made = run_python(code, TORCHACC_BACKEND="cpu")
    assert 'numbers would be wrong: torchacc.set_backend("null")' in made.stderr

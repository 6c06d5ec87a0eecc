"""One process: events and who gets them, exit codes, numbers that are none, runs that part, and the
command."""

import json
import math
import os
import random
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import planted
import pytest
import torch
import torch.distributed as dist
import torch.nn as nn
import torchacc
import torchacc.__main__ as command
from support import output, run_python
from torchacc import event_log, health
from torchacc.checkpoint import Checkpointer
from torchacc.health import Alarm, Recorder, Watch, compare_runs, exit_code, exits

SHORT = """
import torch, torchacc
from torchacc.health import Watch
weight = torch.ones(3, device="acc", requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
for _ in range(3):
    weight.square().sum().backward()
    optimizer.step()
torchacc.sync()
"""


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


# ---- events


def test_events_of_a_training(tmp_path):
    path = tmp_path / "{rank}.jsonl"
    output(SHORT, TORCHACC_EVENTS=str(path), RANK="3", TORCHELASTIC_RESTART_COUNT="2")
    events = lines_of(tmp_path / "3.jsonl")
    names = [one["name"].removeprefix("torchacc.") for one in events]
    assert names[:2] == ["restart", "init"]
    assert names.count("step") == 3
    compiles = [one for one in events if one["name"] == "torchacc.compile"]
    assert compiles[0]["site"].startswith("<string>:")
    assert compiles[0]["seconds"] > 0
    assert all(one["rank"] == 3 and one["restart"] == 2 for one in events)
    assert [one["time"] for one in events] == sorted(one["time"] for one in events)
    assert [one["step"] for one in events if one["name"] == "torchacc.step"] == [1, 2, 3]


@pytest.mark.parametrize("is_whole", [False, True])
def test_steps_that_are_compiled_are_told(is_whole, monkeypatch):
    monkeypatch.setattr(event_log.steps, "clock", None)  # an optimizer of another test
    weight = nn.Parameter(torch.ones(3, device="acc"))
    optimizer = torch.optim.AdamW([weight], lr=0.1)

    def step():
        weight.grad = weight.detach() * 2
        optimizer.step()

    step = torch.compile(step) if is_whole else step
    optimizer.step = optimizer.step if is_whole else torch.compile(optimizer.step)
    got = []
    with health.events(got.append):
        for at in range(6):
            step()
            assert len([one for one in got if one["name"] == "torchacc.step"]) == at + 1
    steps = [one["step"] for one in got if one["name"] == "torchacc.step"]
    assert steps == [*range(steps[0], steps[0] + 6)]


def test_of_several_optimizers_one_is_the_clock():
    steps = event_log._Steps()

    def counts(*optimizers):
        made = []
        for one in optimizers:
            before = steps.count
            steps.end(one)
            made.append(steps.count - before)
        return made

    assert counts(1, 2, 1, 3, 2, 1) == [1, 0, 1, 0, 0, 1]
    # Another takes the place of one that is gone.
    assert counts(2, 3, 2, 2, 3, 1, 2) == [0, 0, 1, 1, 0, 0, 1]


def test_saves_and_loads_are_spans(tmp_path):
    got = []
    model = nn.Linear(2, 2).to("acc")
    # Of whose state PyTorch makes a step, which is none of the training.
    state = {"model": model, "optimizer": torch.optim.AdamW(model.parameters())}
    with health.events(got.append), Checkpointer(tmp_path) as checkpointer:
        assert checkpointer.restore(state) is None
        checkpointer.save(state, 7)
        checkpointer.wait()
    got = [one for one in got if one["name"] not in ("torchacc.init", "torchacc.compile")]
    # The saver may be quicker than what follows in this process.
    (saved,) = (one for one in got if one["name"] == "torchacc.saved")
    assert (saved["kind"], saved["step"]) == ("instant", 7)
    assert got.index(saved) > 2
    got.remove(saved)
    kinds = [(one["name"].removeprefix("torchacc."), one["kind"]) for one in got]
    assert kinds == [("load", "begin"), ("load", "end"), ("save", "begin"), ("save", "end")]
    assert [one.get("step") for one in got] == [None, None, 7, 7]
    assert got[0]["span"] == got[1]["span"] != got[2]["span"]


def test_who_has_waited_for_a_save_was_told_of_it(tmp_path):
    told = []

    def slow(event):
        if event["name"] == "torchacc.saved":
            time.sleep(0.2)
        told.append(event["name"])

    with health.events(slow), Checkpointer(tmp_path) as checkpointer:
        checkpointer.save({"value": 1}, 1)
        checkpointer.wait()
        assert told[-1] == "torchacc.saved"


def test_an_end_says_what_ended_it(tmp_path):
    with health.events(tmp_path / "log") as stream:
        with pytest.raises(ValueError, match="too late"), health.span("mine", part=1):
            raise ValueError("too late")
        health.event("loss", value=math.nan)
    health.event("after")
    stream.close()
    begin, end, loss = lines_of(tmp_path / "log")
    assert (begin["kind"], begin["part"]) == ("begin", 1)
    assert (end["kind"], end["error"]) == ("end", "ValueError: too late")
    assert end["seconds"] >= 0
    assert loss["value"] == "nan", "JSON has no NaN"


def test_ranks_may_share_a_file(tmp_path):
    code = "from torchacc import health; health.events({!r})\n"
    code += "for at in range(2000): health.event('e', at=at, pad='x' * 50)"
    run = [sys.executable, "-c", code.format(str(tmp_path / "log"))]
    for process in [subprocess.Popen(run) for _ in range(2)]:
        assert process.wait(timeout=120) == 0
    assert sorted(one["at"] for one in lines_of(tmp_path / "log")) == sorted([*range(2000)] * 2)


def test_threads_may_tell_and_end_while_another_is_telling():
    told = output("""
import threading, time
from torchacc import event_log, health

told, begun = [], threading.Event()

def slow(event):
    begun.set()
    time.sleep(0.2)  # others may have the interpreter
    told.append(event["name"])

def tell(name):
    begun.clear()
    threading.Thread(target=health.event, args=(name,)).start()
    begun.wait()

with health.events(slow):
    tell("first")
    health.event("second")
    tell("third")
print(told)
""")
    assert told == "['first', 'second', 'third']"


def test_what_cannot_be_written_is_dropped_with_a_warning():
    def full(event):
        raise OSError("no room")

    with health.events(full):
        with pytest.warns(UserWarning, match="an event was not written: OSError: no room"):
            health.event("one")
        health.event("two")  # warned once


# ---- Prometheus


def get(server, path="/metrics"):
    url = f"http://{server.host}:{server.port}{path}"
    return urllib.request.urlopen(url, timeout=20).read().decode()


def values(text):
    """By name and labels, of what is no comment."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_prometheus_reads_counters_and_events():
    with health.serve_metrics(0) as server:
        assert server.host == "127.0.0.1"
        with health.span("save"):
            health.event('a "strange"\nname')
        text = get(server)
        got = values(text)
        assert got["torchacc_cuts"] == torchacc.metrics()["cuts"]
        assert got['torchacc_events_total{name="save",kind="end"}'] == 1
        assert got[r'torchacc_events_total{name="a \"strange\"\nname",kind="instant"}'] == 1
        assert 0 <= got['torchacc_event_seconds_total{name="save"}'] < 60
        assert "# HELP torchacc_cuts Traces closed" in text
        with pytest.raises(urllib.error.HTTPError, match="404"):
            get(server, "/../etc/passwd")
    with pytest.raises(urllib.error.URLError):
        get(server)


def test_prometheus_is_off_unless_asked_for_and_then_on_the_loopback():
    # Ours, so that nobody else listens there: who listens may share it with who does not.
    with socket.socket() as ours:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        ours.bind(("127.0.0.1", 0))
        port = ours.getsockname()[1]
        code = SHORT + "\nprint(sorted(line.split()[1] for line in open('/proc/self/net/tcp')"
        code += f" if line.split()[3] == '0A' and line.split()[1].endswith(':{port:04X}')))"
        assert output(code) == "[]"
        # LOCAL_RANK says how many ports further.
        said = output(code, TORCHACC_METRICS=str(port - 1), LOCAL_RANK="1")
    assert said == f"['0100007F:{port:04X}']"
    failed = run_python(SHORT, TORCHACC_METRICS="http")
    assert "TORCHACC_METRICS=http is no port" in failed.stderr


# ---- exit codes


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KeyError("x"), 70),
        (torch.OutOfMemoryError("much"), 70),
        (RuntimeError("shapes differ"), 70),
        (Alarm("non-finite", 1, 0, "x"), 65),
        (torch.AcceleratorError("ECC", 1), 69),
        (RuntimeError("all_reduce: Connection closed by peer [10.0.0.1]:4"), 75),
        (dist.DistNetworkError("gone"), 75),
        (TimeoutError(), 75),
        (SystemExit(3), 3),
        (SystemExit("said"), 1),
        (SystemExit(), 0),
        (KeyboardInterrupt(), 130),
    ],
)
def test_errors_have_codes(error, code):
    assert exit_code(error) == code


def test_the_reason_of_an_error_decides():
    error = ValueError("a step failed")
    error.__cause__ = RuntimeError("a collective failed")
    error.__cause__.__context__ = ConnectionResetError("a rank went")
    assert exit_code(error) == 75


@pytest.mark.parametrize(
    ("codes", "code"),
    [
        ([75, 75], 75),
        ([75, 70], 70),
        ([70, 69, 75], 69),
        ([-9], 75),
        ([-11, -15], 70),
        ([3, 75], 3),
    ],
)
def test_a_job_ends_with_the_code_of_the_reason(codes, code):
    assert exits.of_processes(codes) == code


@pytest.mark.parametrize(
    ("error", "code"), [("ConnectionError('x')", 75), ("ValueError('x')", 70), ("SystemExit(4)", 4)]
)
def test_a_process_that_is_watched_ends_with_its_code(error, code, tmp_path):
    program = SHORT + f"\nwith Watch(timeout=None):\n    raise {error}"
    done = run_python(program, TORCHACC_EVENTS=str(tmp_path / "log"))
    assert done.returncode == code
    assert "Traceback" in done.stderr or error == "SystemExit(4)"
    told = [one for one in lines_of(tmp_path / "log") if one["name"] == "torchacc.error"]
    assert [one["code"] for one in told] == [code]


def test_run_ends_with_the_code_of_its_ranks(tmp_path):
    script = tmp_path / "fails.py"
    script.write_text(SHORT + "\nwith Watch(timeout=None):\n    raise ConnectionError('x')")
    with pytest.raises(SystemExit) as ended:
        command.main(["run", "-n", "1", "--max-restarts", "0", str(script)])
    assert ended.value.code == exits.AGAIN


# ---- numbers


def alarms_of(steps, spoil=None, at=None, **options):
    model, got = planted.Model().to("acc"), []

    def before(step, model):
        model.middle.spoil = spoil if step == at else None

    with Watch(model, alarm=got.append, timeout=None, **options) as watch:
        planted.train(steps, watch, before, model)
    return got


def test_what_is_well_alarms_nobody():
    assert alarms_of(40) == []


def test_the_first_module_without_a_number_is_named():
    (alarm,) = alarms_of(6, "NaN", 3)
    assert (alarm.kind, alarm.step, alarm.rank) == ("non-finite", 3, 0)
    line = next(
        number
        for number, text in enumerate(Path(planted.__file__).read_text().splitlines(), 1)
        if "x = self.middle(x)" in text
    )
    assert f"the output of middle ({planted.__file__}:{line}) has NaN" in str(alarm)
    assert "the output of first (" in str(alarm)


def test_the_first_gradient_without_a_number_is_named():
    (alarm,) = alarms_of(6, "gradient", 2)
    assert alarm.step == 2
    assert "the gradient of the output of first (" in str(alarm)


def test_a_loss_without_a_number_is_said():
    got = []
    with Watch(alarm=got.append, timeout=None) as watch:
        for step in range(5):
            watch.step(torch.tensor(math.inf if step == 2 else 1.0, device="acc"))
    (alarm,) = got
    assert (alarm.step, alarm.kind) == (2, "non-finite")
    assert "the loss is inf" in str(alarm)


def test_an_infinity_that_is_meant_alarms_nobody():
    class Masked(nn.Module):
        def forward(self, x):
            return x.masked_fill(x > 0, -math.inf)

    model = nn.Sequential(Masked(), nn.Softmax(-1)).to("acc")
    got = []
    with Watch(model, alarm=got.append, timeout=None) as watch:
        for step in range(4):
            x = torch.tensor([[-1.0, 2.0, -3.0]]) * (math.nan if step == 3 else 1)
            watch.step(model(x.to("acc").requires_grad_()).sum())
    assert [one.step for one in got] == [3]
    assert "the input of the model" in str(got[0])


@pytest.mark.parametrize(("jump", "found"), [(6.0, True), (0.2, False)])
def test_a_loss_that_jumps_is_said(jump, found):
    got = []
    with Watch(alarm=got.append, timeout=None) as watch:
        for step in range(40):
            noise = math.sin(37.0 * step) / 10
            loss = 5.0 - step / 40 + noise + (jump if step == 30 else 0)
            watch.step(torch.tensor(loss, device="acc"))
    assert [(one.kind, one.step) for one in got] == ([("loss spike", 30)] if found else [])


def test_alarms_are_raised_if_asked_for():
    watch = Watch(alarm="raise", timeout=None)
    watch.step(torch.tensor(1.0, device="acc"))
    watch.step(torch.tensor(math.nan, device="acc"))
    with pytest.raises(Alarm, match="step 1, rank 0: non-finite") as caught:
        watch.close()
    assert exit_code(caught.value) == exits.NUMBERS


def test_watching_reads_nothing_while_a_step_is_recorded():
    model = planted.Model().to("acc")
    with Watch(model, timeout=None) as watch:
        planted.train(3, watch, model=model)
        torchacc.sync()
        torchacc.reset_metrics()
        planted.train(10, watch, model=model)
        torchacc.sync()
        assert torchacc.metrics()["read_cuts"] == 0
        assert torchacc.host_calls() == []


def test_a_process_that_hangs_says_where(tmp_path):
    code = (
        SHORT
        + f"""
import time
def sleeps():
    time.sleep(100)
with Watch(timeout=2, interval=0.2, exit=True, folder={str(tmp_path)!r}):
    sleeps()
"""
    )
    done = run_python(code)
    assert done.returncode == exits.AGAIN, done.stderr
    said = re.search(r"rank 0: hang: nothing has happened on rank 0 for (\d+) s", done.stderr)
    assert int(said[1]) >= 2
    assert "in sleeps" in (tmp_path / "rank_0.txt").read_text()


@pytest.mark.parametrize(
    "wrong", [{"alarm": "shout"}, {"spike": 0}, {"timeout": -1}, {"lag": 1}, {"interval": 0}]
)
def test_options_of_a_watch_are_checked(wrong):
    with pytest.raises(ValueError, match=f"Watch: {next(iter(wrong))} is"):
        Watch(**wrong)


# ---- two runs


def record(folder, device="acc", change=0.0, steps=3):
    torch.manual_seed(0)
    model = planted.Model().to(device)
    with Recorder(model, folder) as recorder:
        for step in range(steps):
            if step == 1:
                with torch.no_grad():
                    model.last.weight[0, 3] += change
            model.zero_grad()
            x = torch.linspace(-1, 1, 32).view(4, 8).to(device) * (step + 1)
            model(x).square().mean().backward()
            recorder.step()
    return folder


def test_runs_that_are_the_same_have_the_same_bits(tmp_path):
    first, second = record(tmp_path / "a"), record(tmp_path / "b")
    assert compare_runs(first, second, rtol=0, atol=0) is None
    assert compare_runs(first, record(tmp_path / "c", "cpu")) is None
    lines = lines_of(first / "rank_0.jsonl")
    wanted = ["input of the model", *(f"output of {one}" for one in ("first", "middle", "last"))]
    assert [one["name"] for one in lines[:4]] == wanted
    assert lines[4]["name"] == "gradient of the output of last"


def test_where_runs_part_is_named(tmp_path, capsys):
    first, second = record(tmp_path / "a"), record(tmp_path / "b", change=0.1)
    found = compare_runs(first, second)
    assert (found.step, found.rank, found.tensor) == (1, 0, "output of last")
    assert found.site.startswith(planted.__file__)
    with pytest.raises(SystemExit) as ended:
        command.main(["compare", str(first), str(second)])
    assert ended.value.code == 1
    assert "step 1, rank 0, output of last (" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        command.main(["compare", str(first), str(second), "--rtol", "10"])
    assert ended.value.code == 0


def test_one_bit_that_no_sample_has_is_a_difference(tmp_path):
    class Table(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(1000, device="acc"))

        def forward(self):
            return self.weight * 1

    for name, value in (("a", 1.0), ("b", 1.0 + 2**-23)):
        table = Table()
        with torch.no_grad():
            table.weight[517] = value
        with Recorder(table, tmp_path / name) as recorder:
            table()
            recorder.step()
    found = compare_runs(tmp_path / "a", tmp_path / "b", rtol=0, atol=0)
    assert (found.tensor, found.text) == ("output of the model", "other bits")
    assert compare_runs(tmp_path / "a", tmp_path / "b") is None


def test_runs_of_other_lengths_and_none_at_all(tmp_path):
    first, second = record(tmp_path / "a"), record(tmp_path / "b", steps=2)
    found = compare_runs(first, second)
    assert (found.step, found.text) == (2, "only the first run has it")
    with pytest.raises(FileNotFoundError, match="has no rank_"):
        compare_runs(first, tmp_path / "none")
    (second / "rank_1.jsonl").write_text("")
    with pytest.raises(ValueError, match="has 1 ranks, .* 2"):
        compare_runs(first, second)


# ---- the check


def test_check_of_one_process_finds_a_wrong_product(monkeypatch, capsys):
    command.main(["check", "-n", "1"])
    assert "nothing is slow or wrong" in capsys.readouterr().out
    random.seed(0)
    flip = planted.OneFlip(1)
    monkeypatch.setattr(health.checking, "multiply", flip)
    with pytest.raises(SystemExit) as ended:
        command.main(["check", "-n", "1"])
    assert ended.value.code == exits.DEVICE
    assert "rank 0 is wrong: a product of torch.float32 has 1 wrong elements" in (
        capsys.readouterr().out
    )


def test_check_starts_processes():
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TORCHACC_NUM_THREADS": "1"}
    # What else this machine does may make one of them slow, as `check` means it.
    run = [sys.executable, "-W", "ignore", "-m", "torchacc", "check", "-n", "2", "--factor", "1e6"]
    done = subprocess.run(run, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "rank 1 on" in done.stdout
    assert "nothing is slow or wrong" in done.stdout


def test_what_is_timed_is_what_was_computed():
    """Not what was recorded before, and not the recording. By a clock that kernels move."""
    x = torch.rand(8, 8, device="acc")
    before = x @ x
    taken, made = health.checking._timed(
        lambda: [x @ (x + at) for at in range(4)], lambda: torchacc.metrics()["kernels"]
    )
    kernels = torchacc.metrics()["kernels"]
    torchacc.sync()
    assert torchacc.metrics()["kernels"] == kernels
    assert taken >= len(made) == 4
    again, _ = health.checking._timed(list, lambda: torchacc.metrics()["kernels"])
    assert (again, before.shape) == (0, (8, 8))


def measured(products, links=()):
    """What ranks said of rounds: products by rank, exchanges by two ranks, on two machines."""
    said = [{"host": f"host {rank // 3}", "products": one, "links": {}, "wrong": []}
            for rank, one in enumerate(products)]  # fmt: skip
    for (one, other), taken in dict(links).items():
        said[one]["links"][other] = said[other]["links"][one] = taken
    return health.checking._Measured(said)


def test_what_is_slow_is_so_by_the_factor():
    def found(*products, **links):
        return [one.ranks for one in measured(products, **links).slow(1.75)]

    usual = [1.0, 1.0, 1.1]
    assert found(usual, usual, [1.7, 1.7, 1.7]) == []
    assert found(usual, [1.8, 1.8, 9.0], usual) == [(1,)]
    # Of three rounds one was disturbed, or one was not.
    assert found(usual, [1.0, 1.0, 9.0], usual) == []
    assert found(usual, [1.0, 1.9, 1.9]) == [(1,)]
    assert found([9.0]) == []

    # The shortest exchange counts, by the slower of the two; those of a slow rank are left out.
    within = {(0, 1): [1.0, 9.0], (0, 2): [1.0], (1, 2): [2.9, 9.0]}
    assert found(usual, usual, usual, links=within) == []
    within[1, 2] = [3.1, 9.0]
    assert found(usual, usual, usual, links=within) == [(1, 2)]
    assert found(usual, usual, [2.0], links=within) == [(2,)]
    # Between machines all is slower.
    between = {(0, 3): [8.0], (1, 3): [9.0], (2, 3): [25.0]}
    assert found(usual, usual, usual, usual, links=between) == []
    assert found(usual, usual, usual, usual, links=between | {(2, 3): [28.0]}) == [(2, 3)]


def test_every_pair_of_ranks_meets_once():
    for size in range(2, 17):
        rounds = [*health.checking._pairings(size)]
        pairs = [tuple(sorted(pair)) for one in rounds for pair in one.items()]
        assert all(one[other] == rank for one in rounds for rank, other in one.items())
        assert sorted(set(pairs)) == [(a, b) for a in range(size) for b in range(a + 1, size)]
        assert len(pairs) == size * (size - 1)
    assert len([*health.checking._pairings(1000)]) == 16

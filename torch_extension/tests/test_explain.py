"""`torchacc.explain` names the line and the reason of every compile, CPU fallback and cut."""

import inspect
import json
import sys
import threading
import warnings
from pathlib import Path

import pytest
import torch
import torchacc
from support import DEVICE, output, run_python
from torchacc._advice import advice


def here() -> str:
    """ "file:line" of the caller's next line."""
    frame = inspect.currentframe().f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno + 1}"


def changes():
    """The changes that recompiles since the last reset were due to, oldest first."""
    torchacc.sync()
    compiles = torchacc.explanation()["compiles"]
    return [compile["change"] for compile in compiles if compile["why"] == "changed"]


def planted(function, first, second):
    """What changed when `function` ran with `second` after it had run with `first`."""
    torchacc.sync()
    function(first).cpu()
    torchacc.reset_metrics()
    function(second).cpu()
    found = changes()
    assert torchacc.metrics()["recompiles"] == len(found) == 1, torchacc.explain()
    return found[0]


def test_a_new_length():
    line = None

    def work(length):
        nonlocal line
        x = torch.ones(length).to(DEVICE)
        line = here()
        return torch.trunc(x).neg()

    change = planted(work, 5, 6)
    assert (change["aspect"], change["argument"]) == ("shape", 0)
    assert (change["old"], change["new"]) == ("[5]", "[6]")
    assert change["operator"] == "aten::trunc"
    assert change["site"] == change["old_site"] == line
    assert line in torchacc.explain()


def test_another_dtype():
    line = None

    def work(dtype):
        nonlocal line
        x = torch.ones(7, dtype=dtype).to(DEVICE)
        line = here()
        return torch.ceil(x).abs()

    change = planted(work, torch.float32, torch.float64)
    assert (change["aspect"], change["old"], change["new"]) == ("dtype", "f32", "f64")
    assert change["site"] == line


def test_a_static_argument():
    line = None

    def work(dim):
        nonlocal line
        x = torch.ones(4, 4).to(DEVICE).floor()
        line = here()
        return x.cumsum(dim)

    change = planted(work, 0, 1)
    assert (change["aspect"], change["argument"]) == ("attribute", 1)
    assert (change["old"], change["new"]) == ("0", "1")
    assert change["site"] == line
    assert "aten::cumsum was 1, before 0 (dim)" in torchacc.explain()


def test_another_branch():
    lines = {}

    def work(flag):
        x = torch.ones(3, 5).to(DEVICE).erf()
        if flag:
            lines[flag] = here()
            return x.exp().neg()
        lines[flag] = here()
        return x.sin().neg()

    change = planted(work, True, False)
    assert change["aspect"] == "operator"
    assert (change["old"], change["new"]) == ("aten::exp", "aten::sin")
    assert (change["site"], change["old_site"]) == (lines[False], lines[True])


def test_other_tensors_outlive_the_cut():
    line, kept = None, []

    def work(keep):
        nonlocal line
        x = torch.ones(2, 9).to(DEVICE)
        line = here()
        middle = x.expm1()
        if keep:
            kept.append(middle)
        result = middle.neg()
        del middle
        return result

    change = planted(work, False, True)
    assert (change["aspect"], change["operator"]) == ("outputs", "aten::expm1")
    assert (change["old"], change["new"]) == ("dropped before the cut", "kept")
    assert change["site"] == line


def test_replays_add_nothing():
    x = torch.ones(3, 11, device=DEVICE)

    def step():
        y = (x * 2).sinh()
        torchacc.mark_step()
        return y.sum().item()

    for _ in range(3):
        step()
    torchacc.sync()
    torchacc.reset_metrics()
    for _ in range(5):
        line = here()
        step()
    data = torchacc.explanation()
    assert data["compiles"] == []
    counts = {row["cause"]: row["count"] for row in data["cuts"]}
    assert counts == {"asked": 5, "read": 5}
    (read,) = (row for row in data["cuts"] if row["cause"] == "read")
    assert "the result of aten::sum" in read["value"]
    assert "test_explain.py:" in read["site"]
    assert line not in read["site"], "the read is in `step`, not where it was called"


def test_reads_of_one_line_are_one_whatever_their_shapes():
    torchacc.sync()
    torchacc.reset_metrics()
    for size in (3, 4, 5):
        line = here()
        torch.ones(size, 13, device=DEVICE).asinh().cpu()
    report = torchacc.explain()
    assert (
        f"  3 x the host read the result of aten::asinh (operation 1), f32[3 shapes] of {line}"
        in report
    )
    assert "ran at once" not in report
    torch.ones(3, device=DEVICE).nonzero()
    assert "  (1 more operations ran at once, outside of programs" in torchacc.explain()


def test_host_calls_have_count_time_and_line():
    torchacc.sync()
    torchacc.reset_metrics()
    for _ in range(3):
        x = torch.full((7, 7), 2.5).to(DEVICE)
        line = here()
        torch.linalg.det(x).cpu()
    rows = [row for row in torchacc.explanation()["host_calls"] if row["site"] == line]
    assert sum(row["count"] for row in rows) >= 3
    assert all(row["time_ns"] > 0 for row in rows)
    assert len({row["name"] for row in rows}) == len(rows), "one row for an operator on a line"
    assert f"x {rows[0]['name']}" in torchacc.explain()


def test_the_limit_warns_once():
    def work(rank):
        return torch.ones((2,) * rank).to(DEVICE).tan().cpu()

    torchacc.sync()
    torchacc.reset_metrics()
    torchacc.set_recompile_limit(3)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for rank in range(10):
                work(rank)
    finally:
        torchacc.set_recompile_limit(8)
    texts = [str(w.message) for w in caught if "recompiles" in str(w.message)]
    assert len(texts) == 1, texts
    source, first = inspect.getsourcelines(work)
    assert f"{__file__}:{first + 1}: " in texts[0]
    assert "shape of argument 0 of aten::tan" in texts[0]
    assert "pad or bucket" in texts[0]


def test_cuts_warn_too():
    def work(rank):
        x = torch.ones((2,) * rank).to(DEVICE).acosh()
        torchacc.sync()
        return x

    torchacc.sync()
    torchacc.reset_metrics()
    torchacc.set_recompile_limit(1)
    try:
        with pytest.warns(UserWarning, match="this line made the program compile again 2 times"):
            kept = [work(rank) for rank in range(4)]
    finally:
        torchacc.set_recompile_limit(8)
    assert len(kept) == 4


def test_strict_raises_and_loses_nothing():
    def work(rank):
        return torch.full((2,) * rank, 4.0).to(DEVICE).rsqrt()

    torchacc.sync()
    torchacc.reset_metrics()
    torchacc.set_recompile_limit(2)
    torchacc.set_strict()
    try:
        for rank in (1, 2, 3):
            assert work(rank).cpu().eq(0.5).all()
        for rank in (4, 5):
            y = work(rank)
            with pytest.raises(RuntimeError, match="(?s)of aten::rsqrt.*test_explain.py:"):
                y.cpu()
            assert y.cpu().eq(0.5).all()
    finally:
        torchacc.set_strict(recompiles=False)
        torchacc.set_recompile_limit(8)
    assert work(6).cpu().eq(0.5).all()


def test_strict_cpu_fallbacks():
    torchacc.sync()
    torchacc.set_strict(recompiles=False, host_calls=True)
    try:
        determinant = torch.linalg.det(torch.eye(4, device=DEVICE))
        with pytest.raises(RuntimeError, match="strict mode forbids"):
            determinant.cpu()
        assert determinant.item() == 1
    finally:
        torchacc.set_strict(recompiles=False)
    assert torch.linalg.det(torch.eye(4, device=DEVICE)).item() == 1


def advised(function):
    """What is said to be changed in what `function` does, and all lines of the report."""
    torchacc.sync()
    torchacc.reset_metrics()
    function()
    torchacc.sync()
    lines = torchacc.explain().splitlines()
    return lines[lines.index("what to change") + 1 :] if "what to change" in lines else []


def test_advice_is_at_the_line():
    lines = {}

    def reads():
        x = torch.ones(5).to(DEVICE)
        for _ in range(4):
            lines["number"] = here()
            (x * 2).sum().item()
            lines["mask"] = here()
            x[x > 0]
            lines["branch"] = here()
            assert (x > 0).all()
            lines["wait"] = here()
            (x + 1, torchacc.sync())

    said = dict(zip(*2 * [iter(advised(reads))], strict=True))
    expected = {
        "number": "torchacc.future",
        "mask": "multiply by the mask",
        "branch": "torch.where",
    }
    for name, change in expected.items():
        text = f"  {lines[name]}: the host read a value 4 times and waited for it"
        assert change in said[text]


def test_recompiles_and_fallbacks_are_advised_on():
    line = None

    def work():
        nonlocal line
        for rank in range(1, 5):
            x = torch.ones((3,) * rank).to(DEVICE)
            line = here()
            x.atanh().sum().item()
        for _ in range(20):
            torch.linalg.det(torch.rand(64, 64).to(DEVICE)).cpu()

    text = "\n".join(advised(work))
    assert f"  {line}: compiled again 3 times; the last time shape of argument 0" in text
    assert "keep the number of dimensions" in text
    assert "aten::_linalg_det has no native form" in text


def test_each_cause_has_its_advice(monkeypatch):
    def row(**fields):
        return {"site": "train.py:3", "count": 12, "time_ns": 5, "took_ns": 5, **fields}

    def said(metrics=None, **explanation):
        nothing = {"compiles": [], "host_calls": [], "cuts": []}
        counters = dict.fromkeys(torchacc.metrics(), 0) | (metrics or {})
        return [(one.site, one.change) for one in advice(nothing | explanation, counters)]

    ((site, change),) = said(cuts=[row(cause="limit")])
    assert (site, "mark_step" in change) == ("train.py:3", True)
    ((site, change),) = said(cuts=[row(cause="sync")])
    assert (site, "Leave it out" in change) == ("train.py:3", True)
    ((_, change),) = said(compiles=[row(why="again")])
    assert "TORCHACC_BUCKETS" in change
    assert said(cuts=[row(cause="asked")]) == []
    # Of the whole run, once it is longer than its start.
    asked = row(cause="asked")
    for counter, word in {
        "wall_python_ns": "fused=True",
        "wall_compile_ns": "TORCHACC_CACHE_DIR",
        "wall_idle_ns": "AsyncLoader",
        "shape_function_ns": "bucket",
        "collective_exposed_ns": "bucket_cap_mb",
    }.items():
        metrics = {"wall_ns": 100, counter: 90}
        ((_, change),) = said(metrics, cuts=[asked])
        assert word in change
        assert said(metrics, cuts=[asked | {"count": 3}]) == []
    # What shape functions take is neither the program's own time in Python nor idle.
    for elsewhere in ("wall_python_ns", "wall_idle_ns"):
        metrics = {"wall_ns": 100, elsewhere: 90, "shape_function_ns": 80}
        ((_, change),) = said(metrics, cuts=[asked])
        assert "bucket" in change
    calls = [row(name="aten::x")]
    assert said(host_calls=calls)[0][0] == "train.py:3"
    assert said({"wall_ns": 10_000}, host_calls=calls) == []
    monkeypatch.setenv("TORCHACC_FORCE_HOST", "1")
    assert said(host_calls=calls) == [("", "Unset TORCHACC_FORCE_HOST.")]


def test_what_is_as_it_should_be_is_not_advised_on():
    x = torch.ones(256, 256).to(DEVICE)

    def work():
        y = x
        for _ in range(5):
            y = (y @ x).softmax(1)
            torchacc.mark_step()

    assert advised(work) == []


def test_threads_share_one_report():
    def work(size):
        torch.ones(size).to(DEVICE).log2().cpu()

    torchacc.sync()
    work(60)
    torchacc.reset_metrics()
    threads = [threading.Thread(target=work, args=(size,)) for size in (61, 62, 63)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Threads that record at once may share a trace, and a cut of one closes what another began.
    assert torchacc.metrics()["compiles"] == len(torchacc.explanation()["compiles"]) > 0
    assert any("test_explain.py:" in change["site"] for change in changes())


def test_the_report_is_bounded():
    torchacc.sync()
    torchacc.reset_metrics()
    torchacc.set_recompile_limit(1000)
    try:
        for number in range(128, 218):
            x = torch.ones(3).to(DEVICE)
            for digit in f"{number:b}":
                x = x.asinh() if digit == "1" else x.neg()
            x.cpu()
    finally:
        torchacc.set_recompile_limit(8)
    data = torchacc.explanation()
    assert (len(data["compiles"]), data["compiles"][-1]["why"]) == (64, "changed")
    assert f"{data['earlier_compiles'] + 64} compiles" in torchacc.explain()


SCRIPT = """
import sys, torch
for length in (3, 4):
    x = torch.ones(length).to("acc")
    print("sum", x.sinh().sum().item() > 0, sys.argv[1:])
"""


def test_lines_are_found_without_the_compiler(tmp_path):
    """PyTorch would import its compiler, for seconds, to say which line a stack is on."""
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, torch, torchacc\n"
        "y = torch.ones(4, device='acc').sum()\n"
        "torchacc.cut()\n"
        "print('torch._inductor' in sys.modules, 'program.py:3' in str(torchacc.explain()))\n"
        "print(torch._inductor.__name__)\n"
    )
    printed = output(f"import runpy; runpy.run_path({str(program)!r})")
    assert printed.split() == ["False", "True", "torch._inductor"]


def test_lines_that_are_in_no_file_are_named():
    """Of `python -c`, and of what is typed; what a program generates is its own affair."""
    names = ["<string>", "<stdin>", "<console>", "<python-input-7>", "<ipython-input-1-ab>"]
    code = "import torch, torchacc\n"
    for number, name in enumerate([*names, "<generated>"]):
        more = ".exp()" * number  # another program
        step = f"\n\ny = torch.ones(4, device='acc').softmax(0){more}; torchacc.cut()"
        code += f"exec(compile({step!r}, {name!r}, 'exec'))\n"
    said = output(code + "print(torchacc.explain())")
    assert [name for name in names if f"{name}:3" not in said] == []
    assert "<generated>" not in said


def test_the_command(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = f"""
import runpy, sys
sys.argv = ["torchacc", "explain", {str(script)!r}, "an", "argument"]
runpy.run_module("torchacc", run_name="__main__", alter_sys=True)
"""
    result = run_python(command)
    assert result.returncode == 0, result.stderr
    assert "sum True ['an', 'argument']" in result.stdout
    assert "2 compiles" in result.stdout
    assert f"{script}:5" in result.stdout
    assert "shape of argument 0 of aten::sinh was [4], before [3] (self)" in result.stdout


def test_at_exit(tmp_path):
    script = 'import torch; print(torch.ones(3, device="acc").sum().item())'
    result = run_python(script, TORCHACC_EXPLAIN="1")
    assert "1 compiles" in result.stderr
    assert result.stdout == "3.0\n"
    assert "compiles" not in run_python(script).stderr


def test_unused_device_has_an_empty_report():
    result = run_python("import torchacc; print(torchacc.explain())")
    assert result.stdout == "0 compiles\n0 CPU fallbacks\n0 cuts\n", result.stderr


PRODUCTS = """
import json, torch, torchacc
x = torch.randn(600, 700, device="acc")
torch.relu(x @ x.T).sum().item()
print(json.dumps([torchacc.explanation()["products"], torchacc.explain()]))
"""


def products(folder, **environment):
    result = run_python(PRODUCTS, TORCHACC_CACHE_DIR=str(folder), **environment)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_what_multiplies_matrices_is_measured_once(tmp_path):
    """Unless nothing that is measured may decide, or there is no folder to keep it in."""
    rows, text = products(tmp_path)
    if not (Path(sys.prefix) / "lib" / "libdnnl.so.3").exists():
        pytest.skip("without oneDNN there is nothing to choose from")
    assert rows
    assert all(row["by"] in ("torchacc", "oneDNN", "matrixmultiply") for row in rows)
    assert all(f"multiplied by {row['by']}" in text and row["blocks"] in text for row in rows)
    files = {file: file.read_bytes() for file in (tmp_path / "products").glob("*.program")}
    assert len(files) == len(rows)
    assert products(tmp_path)[0] == rows
    assert {file: file.read_bytes() for file in files} == files
    assert products(tmp_path, TORCHACC_DETERMINISTIC="1")[0] == []
    assert products("off")[0] == []

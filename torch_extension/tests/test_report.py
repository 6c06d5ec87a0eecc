"""The page of a run: what it says, against other counters; how it reads, in a browser."""

import json

import pytest
import torch
import torchacc
from support import DEVICE, run_python
from torchacc._report import run as runs
from torchacc._report import timeline as timelines
from torchacc._report.page import document
from web import CHROMIUM, Browser, Page

STEPS, READS, FALLBACKS = 6, 4, 3
SCRIPT = """
import sys
import torch
import torchacc
w = torch.full((33, 33), 1 / 33).to("acc")
kept = []
for step in range(6):
    w = torch.mm(w, w)
    if step < 3:
        kept.append(torch.linalg.det(w))
    torchacc.cut()
    if step < 4 and w.sum() > 1e9:
        print("never")
print("sum", round(w.sum().item()), sys.argv[1:])
"""
LINES = {line.strip(): at for at, line in enumerate(SCRIPT.splitlines(), 1)}


def line_of(text):
    return f":{LINES[text]}"


def shell(*arguments, **environment):
    result = run_python(
        f"import sys; sys.argv = {['torchacc', *map(str, arguments)]!r}\n"
        "import runpy; runpy.run_module('torchacc', run_name='__main__', alter_sys=True)",
        **environment,
    )
    return result


@pytest.fixture(scope="module")
def script_page(tmp_path_factory):
    """The path of a script's page, and what the page has."""
    folder = tmp_path_factory.mktemp("report")
    (folder / "script.py").write_text(SCRIPT)
    path = folder / "page.html"
    result = shell("report", "-o", path, folder / "script.py", "--name", "<b>")
    assert result.returncode == 0, result.stderr
    assert result.stdout == "sum 33 ['--name', '<b>']\n"
    assert str(path) in result.stderr
    return path, Page(path.read_text())


def test_a_script_runs_as_it_is_and_its_page_counts(script_page):
    _, page = script_page
    assert page.texts["h1"] == ["torchacc: script.py --name <b>"]
    facts = page.facts()
    assert facts["steps"] == str(STEPS)
    counters = {row[0]: int(row[1]) for row in page.table("torchacc.metrics()")}
    assert facts["programs compiled"] == str(counters["compiles"])

    # What the program does is known: six products, three determinants, four comparisons.
    kernels = page.table("By operator, kernel, type and line")
    products = [row for row in kernels if row[0].startswith("aten::mm")]
    assert [(row[5], int(row[3])) for row in products] == [("f32[33,33]", STEPS)]
    assert products[0][4].endswith(line_of("w = torch.mm(w, w)"))
    all_steps = sum(int(row[3]) for row in kernels)
    assert all_steps == counters["kernels"]

    (fallback,) = page.table(f"{counters['host_calls']} calls of PyTorch's CPU kernels")
    assert fallback[0] == "aten::_linalg_det"
    assert int(fallback[2]) == counters["host_calls"] == FALLBACKS
    assert line_of("kept.append(torch.linalg.det(w))") in fallback[3]
    assert "kept.append(torch.linalg.det(w))" in fallback[3]

    cuts = page.table(f"{counters['cuts']} times")
    asked = [row for row in cuts if row[0].startswith("the program cut")]
    assert [int(row[1]) for row in asked] == [STEPS]
    assert asked[0][2].endswith("torchacc.cut()")
    reads = [row for row in cuts if "the host read" in row[0]]
    assert sum(int(row[1]) for row in reads) == counters["read_cuts"] == READS + 1


def test_the_parts_of_the_time_are_the_whole(script_page):
    _, page = script_page
    rows = page.table("Each moment is in one row")
    shares = [float(row[1].removesuffix(" %")) for row in rows]
    assert sum(shares) == pytest.approx(100, abs=2)
    assert [row[0] for row in rows if row[0] == "kernels"] == ["kernels"]


def test_what_to_change_is_said_at_its_line(script_page):
    _, page = script_page
    text = " | ".join(page.texts["li"])
    assert "The host read a value 4 times" in text
    assert "torch.where" in text
    assert line_of("if step < 4 and w.sum() > 1e9:") in text


def test_the_largest_tensor_is_named_with_its_line(tmp_path):
    path = tmp_path / "page.html"
    with torchacc.report(path):
        x = torch.ones(1000, 3, device=DEVICE)
        y = (x @ torch.ones(3, 2000, device=DEVICE)).softmax(1)
        assert round(y.sum().item()) == 1000
    page = Page(path.read_text())
    largest = page.table("The largest tensors")[0]
    assert largest[0] == "f32[1000,2000]"
    assert largest[1] == "7.63 MiB"
    assert "test_report.py:" in largest[3]
    assert "torch.ones(3, 2000, device=DEVICE)" in largest[3]
    sums = {row[0]: row[1] for row in page.table("What it takes")}
    assert sums["inputs: parameters, optimizer state, the batch"] == "0 B"


def test_the_page_is_as_the_runtime_counts():
    torchacc.sync()
    torchacc.reset_metrics()
    x = torch.ones(64, 64, device=DEVICE)
    for _ in range(3):
        x = x @ x
        torchacc.cut()
    torchacc.sync()
    report = json.loads(torch.ops.acc.memory_report())
    assert report["input_bytes"] == 64 * 64 * 4
    run = runs.collect("this", None, "")
    assert run.steps == 3
    parts, counters = run.parts(), torchacc.metrics()
    assert sum(parts.values()) == pytest.approx(run.metrics["wall_ns"], rel=0.02)
    assert run.metrics["compiles"] == counters["compiles"] == len(run.explanation["compiles"])
    text = document(run)
    assert "There is none: it is kept inside" in text


def hostile(name):
    """A function that records an operation on a line of a file of this name."""
    space = {}
    exec(compile("def work(x):\n    return x.cosh().exp()", name, "exec"), space)
    return space["work"]


NAMES = [
    "x</script><script>hacked = 1</script>.py",
    "'\"><img src=x onerror='hacked = 1'>.py",
    "x</style></title><svg onload=hacked=1>.py",
    "line\nfeed\x1b[31m.py",
    "&lt;b&gt; ü \u202e.py",
]


def write_hostile(path):
    def fails():
        with torchacc.report(path):
            # Another number of dimensions for each: the lines of a known program are not asked for.
            for at, name in enumerate(NAMES, 1):
                hostile(name)(torch.ones((2,) * at).to(DEVICE)).sum().item()
            raise ValueError("</script><script>hacked = 1</script>")

    with pytest.raises(ValueError, match="hacked"):
        fails()


def test_names_are_never_markup(tmp_path):
    path = tmp_path / "page.html"
    write_hostile(path)
    text = path.read_text()
    page = Page(text)
    assert len(page.all("script")) == 1
    assert page.all("img") == []
    assert not any(key.startswith("on") for _, one in page.elements for key in one)
    assert "\x1b" not in text
    shown = {one["title"] for one in page.all("code") if "title" in one}
    for name in NAMES:
        assert f"{name}:2".replace("\x1b", "\N{REPLACEMENT CHARACTER}") in shown
    assert any(one.startswith("ValueError: </script>") for one in page.texts["p"])


def test_nothing_is_loaded(script_page):
    path, page = script_page
    for name, attributes in page.elements:
        assert not {"src", "srcset", "data", "action"} & attributes.keys(), name
        assert attributes.get("href", "#").startswith("#")
    policy = next(one["content"] for one in page.all("meta") if "http-equiv" in one)
    assert policy.startswith("default-src 'none'")
    assert "url(" not in path.read_text()
    assert "@import" not in path.read_text()


def test_the_structure_is_for_everybody(script_page):
    _, page = script_page
    assert [one["lang"] for one in page.all("html")] == ["en"]
    assert len(page.texts["h1"]) == 1
    ids = [one["id"] for _, one in page.elements if "id" in one]
    assert len(set(ids)) == len(ids)
    links = {one["href"].removeprefix("#") for one in page.all("a")}
    assert links == set(ids), "every section is linked to, and no other"
    assert all(one["aria-labelledby"] in ids for one in page.all("section"))
    # Behind each chart is a table of its section; every mark says what it is.
    assert len(page.texts["figcaption"]) >= 4
    assert all(one["aria-label"] for one in page.all("svg"))
    marks = page.all("rect")
    assert len(page.texts["title"]) == len(marks) + 1
    assert all(page.texts["title"])
    assert [one["tabindex"] for one in marks].count("0") == len(page.all("svg"))
    assert all(one["scope"] in ("col", "row") for one in page.all("th"))
    assert len(page.texts["caption"]) == len(page.all("table"))


def test_an_unused_device_has_a_page(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import torch; print(torch.ones(2).sum().item())")
    result = shell("report", "-o", tmp_path / "page.html", script)
    assert (result.returncode, result.stdout) == (0, "2.0\n"), result.stderr
    page = Page((tmp_path / "page.html").read_text())
    assert page.facts()["computed on"] == "nothing: it was not used"
    assert "The device was not used." in page.texts["p"]
    assert "Nothing stands out." in page.texts["p"]
    code = f"import torchacc; torchacc.report({str(tmp_path / 'other.html')!r})"
    assert run_python(code).returncode == 0
    assert "The device was not used." in Page((tmp_path / "other.html").read_text()).texts["p"]


@pytest.mark.parametrize(
    ("end", "code", "said"),
    [
        ("sys.exit(7)", 7, "SystemExit: 7"),
        ("sys.exit()", 0, None),
        ("raise KeyError('gone')", 1, "KeyError: 'gone'"),
        ("torch.ones(3, device='acc') @ torch.ones(4, device='acc')", 1, "RuntimeError: "),
    ],
)
def test_a_script_that_fails_keeps_its_code_and_has_a_page(tmp_path, end, code, said):
    script = tmp_path / "script.py"
    script.write_text(f"import sys, torch\ntorch.ones(3, device='acc').exp().sum().item()\n{end}\n")
    result = shell("report", "-o", tmp_path / "page.html", script)
    assert result.returncode == code, result.stderr
    assert result.stderr.count("Traceback") == int("Error" in end or "acc" in end)
    page = Page((tmp_path / "page.html").read_text())
    assert page.table("By operator, kernel, type and line")
    ends = [one for one in page.texts["p"] if said and one.startswith(said)]
    assert len(ends) == (said is not None)
    assert ("How it ended" in page.texts["h2"]) == (said is not None)


def test_what_failed_on_the_device_is_in_the_page(tmp_path):
    path = tmp_path / "page.html"
    report = torchacc.report(path)
    report.__enter__()
    kept = torch.nn.functional.embedding(
        torch.tensor([7], device=DEVICE), torch.ones(3, 2, device=DEVICE)
    )
    with pytest.raises(IndexError):
        report.__exit__(None, None, None)
    assert kept.shape == (1, 2)
    page = Page(path.read_text())
    assert any("aten::embedding" in one for one in page.texts["p"])


def test_a_path_that_cannot_be_written_is_refused_before_anything_runs(tmp_path):
    ran = []
    with pytest.raises(FileNotFoundError), torchacc.report(tmp_path / "nowhere" / "page.html"):
        ran.append(1)
    script = tmp_path / "script.py"
    script.write_text("print('ran')")
    result = shell("report", "-o", tmp_path / "nowhere" / "page.html", script)
    assert (ran, result.stdout) == ([], "")
    assert "FileNotFoundError" in result.stderr


def test_each_rank_has_a_page(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import torch; print(torch.ones(2, device='acc').sum().item())")
    result = shell("report", "-o", tmp_path / "page.html", script, WORLD_SIZE="2", RANK="1")
    assert result.returncode == 0, result.stderr
    assert [path.name for path in tmp_path.glob("*.html")] == ["page-1.html"]


def event(name, category, begin, took, **arguments):
    fields = {"name": name, "cat": category, "ph": "X", "ts": begin, "dur": took}
    return {**fields, "pid": 1, "tid": 1, "args": arguments}


def test_a_large_run_makes_a_small_page():
    events = [{"name": "thread_name", "ph": "M", "pid": 1, "tid": 1, "args": {"name": "launch"}}]
    for step in range(200):
        begin = step * 1000.0
        for at in range(300):
            site = f"/home/user/project/{'long_' * 20}{at % 97}.py:{at}"
            details = {"kernel": "map", "writes": [f"f32[{at},{step % 7}]"], "site": site}
            events.append(event(f"aten::op{at % 50}", "kernel", begin + at * 3, 2.5, **details))
        events.append(event("record", "trace", begin, 1000, operations=300, full_cut=True))
    head = {"displayTimeUnit": "ms", "otherData": {"lost_events": 12345}}
    timeline = timelines.parse(json.dumps({**head, "traceEvents": events}))
    assert len(timeline.spans) == 200 * 301
    assert len(timeline.steps()) == 199
    text = document(runs.collect("large", timeline, ""))
    assert len(text) < 400_000
    page = Page(text)
    assert "12345 events before the last ones were not kept." in page.texts["p"]
    # What is not listed is summed up.
    for begin in ("60000 kernels", "By operator, kernel, type and line"):
        rows = page.table(begin)
        assert sum(int(row[3]) for row in rows) == 200 * 300
        assert "more" in rows[-1][0]


def test_times_of_lines_are_those_of_their_kernels():
    spans = [
        timelines.Span("a", "kernel", 0, 5, "t", "x.py:1", "map", 10, "f32[1]"),
        timelines.Span("b", "kernel", 5, 6, "t", "x.py:1", "map", 1, "f32[1]"),
        timelines.Span("a", "kernel", 6, 9, "t", "x.py:2", "map", 2, "f32[2]"),
    ]
    lines = timelines.by_line(spans)
    assert [(row.site, row.name, row.count, row.took, row.nbytes) for row in lines] == [
        ("x.py:1", "a, b", 2, 6, 11),
        ("x.py:2", "a", 1, 3, 2),
    ]
    assert [(row.name, row.took) for row in timelines.by_kernel(spans)] == [
        ("a", 5),
        ("a", 3),
        ("b", 1),
    ]


@pytest.fixture(params=[390, 1280], ids="{} px".format)
def width(request):
    return request.param


@pytest.fixture(params=["light", "dark"])
def browser(tmp_path, width, request):
    if CHROMIUM is None:
        pytest.skip("no Chromium")
    opened = Browser(tmp_path / "profile", width, request.param)
    yield opened
    opened.close()


CONTRAST = """
(() => {
  const light = (text) => {
    const parts = text.match(/[\\d.]+/g).slice(0, 3).map((one) => {
      const part = one / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const back = (element) => {
    const color = getComputedStyle(element).backgroundColor;
    return color.startsWith("rgba(0, 0, 0, 0") ? back(element.parentElement) : color;
  };
  let least = 21;
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((one) => one.nodeType == 3 && one.data.trim());
    if (!own || element.closest("svg, script")) continue;
    const both = [getComputedStyle(element).color, back(element)].map(light);
    least = Math.min(least, (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05));
  }
  return least;
})()
"""


def test_a_browser_shows_it(browser, width, script_page):
    path, page = script_page
    browser.go(path)
    assert browser.value("innerWidth") == width
    assert browser.value("document.documentElement.scrollWidth") <= width
    captions = "[...document.querySelectorAll('caption')].map(c => c.getBoundingClientRect().right)"
    assert max(browser.value(captions)) <= width
    # WCAG's ratio for text.
    assert browser.value(CONTRAST) >= 4.5
    marks = browser.value(
        "[...document.querySelectorAll('rect')].map(r => r.getBoundingClientRect().width)"
    )
    assert len(marks) == len(page.all("rect"))
    assert min(marks) > 0
    requested = [one["request"]["url"] for one in browser.said("Network.requestWillBeSent")]
    assert requested == [path.as_uri()]
    assert browser.said("Log.entryAdded") == browser.said("Runtime.exceptionThrown") == []


def test_the_keyboard_reaches_every_mark(browser, script_page):
    path, _ = script_page
    browser.go(path)
    for _ in range(200):
        browser.press("Tab")
        if browser.value("document.activeElement.tagName") == "rect":
            break
    else:
        pytest.fail("no mark can be reached")
    chart = "document.activeElement.closest('figure').querySelectorAll('rect')"
    count = browser.value(f"{chart}.length")
    assert count > 2
    focused = f"[...{chart}].indexOf(document.activeElement)"
    seen = []
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft", "End", "ArrowRight", "Home"):
        browser.press(key)
        seen.append(browser.value(focused))
        text = browser.value("document.activeElement.querySelector('title').textContent")
        said = "document.activeElement.closest('figure').querySelector('.said').textContent"
        assert browser.value(said) == text
    assert seen == [1, 2, 1, count - 1, count - 1, 0]
    tree = browser.ask("Accessibility.getFullAXTree")["nodes"]
    roles = {}
    for node in tree:
        if not node.get("ignored"):
            name = node.get("name", {}).get("value", "")
            roles.setdefault(node["role"]["value"], []).append(name)
    assert len(roles["image"]) == len(Page(path.read_text()).all("rect"))
    for role in ("image", "table", "region", "heading", "navigation", "link"):
        assert roles[role], role
        assert all(roles[role]), role


def test_a_browser_runs_nothing_of_what_names_say(browser, tmp_path):
    path = tmp_path / "page.html"
    write_hostile(path)
    browser.go(path)
    assert browser.value("typeof hacked") == "undefined"
    assert browser.value("document.images.length + document.scripts.length") == 1
    assert len(browser.said("Network.requestWillBeSent")) == 1

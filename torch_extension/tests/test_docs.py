"""The documents: their links lead somewhere, their programs run, and every option has an entry."""

import os
import re
import subprocess
from pathlib import Path

import pytest
import torch
import torchacc
from documented import scripts
from support import run_python

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Pages whose programs are tests of their own: of several processes, or of libraries.
ELSEWHERE = {"checkpoints.md", "distributed.md", "libraries.md", "strategies.md"}
SOURCES = [
    *(ROOT / "src").rglob("*.rs"),
    *(ROOT / "torch_extension/csrc").rglob("*.cpp"),
    *(ROOT / "torch_extension/torchacc").rglob("*.py"),
]
# Of the build and of tests.
NO_OPTIONS = {"TORCHACC_SOURCES", "TORCHACC_TEST_GPU", "TORCHACC_TEST_WRITER_FOLDER"}


def name_of(page):
    return str(page.relative_to(ROOT))


def anchors(page):
    """Of a page's headings, as they are linked to."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if target.startswith("http"):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


def runs(page):
    """Whether its programs are run here, one after the other."""
    elsewhere = page.name in ELSEWHERE or page.parent.name == "parallel"
    return "```python\n" in page.read_text() and not elsewhere


@pytest.mark.parametrize("page", filter(runs, PAGES), ids=name_of)
def test_programs_run(page, tmp_path):
    environment = {"TORCHACC_BACKEND": "cpu", "TORCHACC_CACHE_DIR": "off"}
    code = f"import os; os.chdir({str(tmp_path)!r})\n" + "".join(scripts(page))
    done = run_python(code, **environment)
    assert done.returncode == 0, done.stderr


def test_the_c_program_runs(tmp_path):
    page = (ROOT / "docs/embedding.md").read_text()
    (program,) = re.findall(r"^```c\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    (tmp_path / "program.c").write_text(program)
    library = ROOT / "torch_extension/torchacc/lib"
    command = [os.environ.get("CC", "cc"), "program.c", "-o", "program", f"-I{ROOT / 'include'}"]
    command += [str(library / "libtorchacc.so.1"), f"-Wl,-rpath,{library}"]
    subprocess.run(command, cwd=tmp_path, check=True)
    environment = os.environ | {"TORCHACC_BACKEND": "cpu"}
    done = subprocess.run([tmp_path / "program"], env=environment, capture_output=True, text=True)
    assert done.stdout == "2 4 6\n", done.stderr


def test_every_option_has_an_entry_and_every_entry_an_option():
    read = {
        name
        for file in SOURCES
        for name in re.findall(r'"(TORCHACC_[A-Z_0-9]+)"', file.read_text())
    }
    lines = (ROOT / "docs/options.md").read_text().splitlines()
    rows = [line.split("|")[1] for line in lines if line.startswith("| `")]
    told = {name for row in rows for name in re.findall(r"TORCHACC_[A-Z_0-9]+", row)}
    assert read - NO_OPTIONS == told


def test_what_others_names_are_here_is_there():
    lines = (ROOT / "docs/migration.md").read_text().splitlines()
    ours = " ".join(line.split("|")[2] for line in lines if line.startswith("| "))
    names = set(re.findall(r"`(torch(?:acc|\.acc)(?:\.\w+)+)", ours)) - {"torch.acc.NAME"}
    assert len(names) > 10
    for name in names:
        found = {"torch": torch, "torchacc": torchacc}[name.split(".")[0]]
        for part in name.split(".")[1:]:
            found = getattr(found, part)

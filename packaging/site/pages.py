"""The pages that are made of other files: the README, the map of the code, references of Python,
the operators and the C ABI."""

import ast
import json
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
# Modules that a program names, behind the names of the package itself.
MODULES = """
checkpoint convert health config auto fp8 optim amp streams memory random
distributed parallel loader elastic dynamo stablehlo
""".split()


def on_files(files, config):
    """mkdocs' event: adds the pages."""
    made = {
        "index.md": at_home("README.md"),
        "architecture.md": at_home("ARCHITECTURE.md"),
        "python.md": python(),
        "operators.md": operators(),
        "c.md": header(),
    }
    for name, text in made.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown, **_):
    """mkdocs' event: pages of docs/ link to the map of the code beside their folder."""
    return markdown.replace("](../ARCHITECTURE.md", "](architecture.md")


def at_home(name) -> str:
    """A page of the root folder, whose links begin with docs/."""
    return (ROOT / name).read_text().replace("](docs/", "](")


def python() -> str:
    """The reference of the package: its public names, and its modules."""
    package = ROOT / "torch_extension/torchacc"
    lines = ["# Python", "", "## torchacc", ""]
    for name in public_names(package / "__init__.py"):
        if not (package / f"{name}.py").exists() and not (package / name).is_dir():
            lines += [f"::: torchacc.{name}", ""]
    for name in MODULES:
        lines += [f"## torchacc.{name}", "", f"::: torchacc.{name}", ""]
        lines += ["    options:", "      show_root_heading: false", ""]
    return "\n".join(lines)


def public_names(file) -> list[str]:
    """What a module's `__all__` lists."""
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "__all__":
            return ast.literal_eval(node.value)
    raise ValueError(f"{file} has no __all__")


def operators() -> str:
    """A table of all operators that have a row, with their overloads."""
    overloads = {}
    for line in (ROOT / "src/aten/signatures.jsonl").read_text().splitlines():
        form = json.loads(line)
        overloads.setdefault(form["operator"], []).append(form["overload"] or "default")
    lines = [
        "# Operators",
        "",
        f"{len(overloads)} operators are native: lowered to the library's own primitives, fused "
        "and planned. All others of PyTorch are CPU fallbacks. In C `torchacc_op_signature` tells "
        "the arguments of each.",
        "",
        "| operator | overloads |",
        "|---|---|",
        *(f"| `{name}` | {', '.join(forms)} |" for name, forms in sorted(overloads.items())),
    ]
    return "\n".join(lines)


# A comment and what it is about: the lines up to the next comment.
DECLARED = re.compile(r"^/\*\n(.*?)\n \*/\n(.*?)(?=\n\n/\*|\n#endif|\n#ifdef|\Z)", re.S | re.M)
KINDS = {
    "Functions": r"^[\w* ]+?\b(torchacc_\w+)\(",
    "Types": r"^typedef\b.*?(torchacc_\w+)(?:;|\)\(|\s*\{)",
    "Constants": r"^#define (TORCHACC_\w+)",
}


def header() -> str:
    """include/torchacc.h: its rules, and every function, type and constant with its comment."""
    text = (ROOT / "include/torchacc.h").read_text()
    rules = re.match(r"/\*(.*?)\*/", text, re.S)[1]
    rules = re.sub(r"^ \* ?", "", rules, flags=re.M)
    rules = rules.replace("\n  - ", "\n- ").replace("Rules\n", "\n")
    lines = ["# The C ABI", "", "[Embedding](embedding.md) has examples.", "", rules.strip()]
    found = {kind: {} for kind in KINDS}
    told = set()
    for comment, code in DECLARED.findall(text):
        names = {kind: re.search(pattern, code, re.M) for kind, pattern in KINDS.items()}
        kind = next((kind for kind, name in names.items() if name), None)
        if kind:
            about = re.sub(r"^ ", "", comment, flags=re.M)
            found[kind][names[kind][1]] = (about, code.strip())
            told.update(re.findall(r"\w+", code))
    for pattern in KINDS.values():
        missing = set(re.findall(pattern, text, re.M)) - told - {"TORCHACC_H"}
        if missing:
            raise ValueError(f"without a comment in the header: {sorted(missing)}")
    for kind, entries in found.items():
        lines += ["", f"## {kind}"]
        for name, (about, code) in sorted(entries.items()):
            lines += ["", f"### {name}", "", "```c", code, "```", "", about]
    return "\n".join(lines)

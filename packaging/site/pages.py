"""The pages that are made of other files: the README, the map of the code, references of Python,
the operators and the C ABI."""

import ast
import json
import re
import textwrap
from pathlib import Path

from cpp import declarations
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
        "cpp.md": cpp_header(),
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


SECTION = re.compile(r"^/\* ---- (.*) ---- \*/$", re.M)
# A comment and what it is about: the lines up to an empty one.
DECLARED = re.compile(r"^/\*\s(.*?)\s\*/\n(.+?)(?=\n\n|\Z)", re.S | re.M)
# The name in a function, in a type, in a constant.
NAMES = re.compile(
    r"^(?:[a-z][\w* ]*?\b(torchacc_\w+)\("
    r"|typedef\b.*?(\w+)(?:;|\)\(|\s*\{)"
    r"|#define (TORCHACC_\w+))",
    re.M,
)


def header() -> str:
    """include/torchacc.h: its rules, and in its order every function, type and constant with its
    comment."""
    text = (ROOT / "include/torchacc.h").read_text()
    opening = re.sub(r"^ \* ?", "", re.match(r"/\*(.*?)\*/", text, re.S)[1], flags=re.M)
    about, rest = opening.split("Example: ")
    example, rules = rest.split("Rules\n")
    title, program, more = example.strip().split("\n\n")
    lines = ["# The C ABI", "", about.strip(), "", f"## {title}", "", "```c"]
    lines += [textwrap.dedent(program), "```", "", more, "[Embedding](embedding.md) has others."]
    lines += ["", "## Rules", "", textwrap.dedent(rules).strip()]
    _, *sections = SECTION.split(text)
    for heading, section in zip(sections[::2], sections[1::2], strict=True):
        lines += ["", f"## {heading}"]
        told = set()
        for comment, code in DECLARED.findall(section):
            about = re.sub(r"^ ", "", comment, flags=re.M)
            name = next(filter(None, NAMES.search(code).groups()))
            lines += ["", f"### {name}", "", "```c", code.strip(), "```", "", about]
            told.update(re.findall(r"\w+", code))
        names = {next(filter(None, found)) for found in NAMES.findall(section)}
        if names - told:
            raise ValueError(f"without a comment in the header: {sorted(names - told)}")
    return "\n".join(lines)


def cpp_header() -> str:
    """include/torchacc.hpp: what each of its sections declares, with the comments."""
    text = (ROOT / "include/torchacc.hpp").read_text()
    opening, *sections = re.split(r"^// ---- (.*)$", text, flags=re.M)
    about = re.findall(r"^// ?(.*)$", opening, re.M)
    about = re.sub(r"^  (?=\S)", "    ", "\n".join(about), flags=re.M)
    lines = ["# C++", "", about]
    for heading, section in zip(sections[::2], sections[1::2], strict=True):
        declared = declarations(section.split("\n}  // namespace torchacc\n")[0])
        lines += ["", f"## {heading[0].upper()}{heading[1:]}", "", "```cpp", declared, "```"]
    return "\n".join(lines)

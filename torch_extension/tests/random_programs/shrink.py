"""Makes a failing program smaller for as long as it keeps failing in the same way."""

import ast
import re
import time
from dataclasses import replace


def shrink(program, fails, seconds=60.0):
    """The smallest program found for which `fails` holds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        smaller = next(
            (p for p in _candidates(program) if time.monotonic() > end or fails(p)), None
        )
        if smaller is None or time.monotonic() > end:
            return program
        program = smaller
    return program


def _candidates(program):
    yield from _fewer_lines(program)
    yield from _simpler_lines(program)


def _fewer_lines(program):
    if program.repeats > 1:
        for repeats in {1, 2, program.repeats - 1} - {program.repeats}:
            yield replace(program, repeats=repeats)
    else:
        yield from _joined(program)
    for part in ("body", "setup"):
        lines = getattr(program, part)
        size = len(lines)
        while size:
            for start in range(len(lines) - size, -1, -1):
                yield replace(program, **{part: lines[:start] + lines[start + size :]})
            size //= 2


def _joined(program):
    """Without a loop there is one part."""
    if program.setup:
        yield replace(program, setup=(), body=program.setup + program.body)


def _simpler_lines(program):
    for number in sorted(_numbers(program), reverse=True):
        for less in sorted({1, 2, number // 2, number - 1}):
            if 0 < less < number:
                yield _with_number(program, number, less)
    for part in ("body", "setup"):
        lines = getattr(program, part)
        for n, line in enumerate(lines):
            for simpler in _simpler(line):
                yield replace(program, **{part: (*lines[:n], simpler, *lines[n + 1 :])})


def _numbers(program):
    nodes = (node for line in program.setup + program.body for node in ast.walk(ast.parse(line)))
    return {n.value for n in nodes if isinstance(n, ast.Constant) and type(n.value) is int}


class _Renumber(ast.NodeTransformer):
    def __init__(self, old, new):
        self.old, self.new = old, new

    def visit_Constant(self, node):
        same = type(node.value) is int and node.value == self.old
        return ast.Constant(self.new) if same else node


def _with_number(program, old, new):
    """Everywhere: sizes that must agree shrink together."""

    def renumbered(lines):
        return tuple(ast.unparse(_Renumber(old, new).visit(ast.parse(line))) for line in lines)

    return replace(program, setup=renumbered(program.setup), body=renumbered(program.body))


class _Edit(ast.NodeTransformer):
    """Replaces one node of a tree, counted in the order of the visit, by another."""

    def __init__(self, at, make):
        self.at, self.make, self.count = at, make, 0

    def visit(self, node):
        self.count += 1
        if self.count == self.at:
            return self.make(node)
        return self.generic_visit(node)


def _simpler(line):
    """The line with one expression in it replaced by a part of it, or by something smaller."""
    count = sum(1 for _ in ast.walk(ast.parse(line)))
    seen = {line}
    for at in range(1, count + 1):
        for n in range(12):
            made = []

            def make(node, n=n, made=made):
                options = _options(node)
                made.append(n < len(options))
                return options[n] if made[-1] else node

            tree = _Edit(at, make).visit(ast.parse(line))
            if not made or not made[0]:
                break
            try:
                text = ast.unparse(ast.fix_missing_locations(tree))
                ast.parse(text)
            except Exception:
                continue
            if text not in seen and len(text) <= len(line) and not _reads_its_result(text):
                seen.add(text)
                yield text


def _reads_its_result(line):
    """What that gives is nobody's promise."""
    target = re.search(r"out=(\w+)", line)
    return bool(target) and len(re.findall(rf"\b{target[1]}\b", line)) > 1


def _options(node):
    if isinstance(node, ast.With):
        return node.body
    if isinstance(node, ast.Call):
        inner = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        fewer = [
            ast.Call(node.func, node.args, [k for k in node.keywords if k is not keyword])
            for keyword in node.keywords
        ]
        without = [ast.Call(node.func, node.args[:-1], node.keywords)] if node.args else []
        return [*inner, *node.args, *fewer, *without]
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.UnaryOp):
        return [node.operand]
    if isinstance(node, ast.Compare):
        return [node.left, *node.comparators]
    if isinstance(node, ast.Subscript):
        return [node.value]
    if isinstance(node, ast.Tuple | ast.List):
        kind = type(node)
        n = len(node.elts)
        return [kind(node.elts[:i] + node.elts[i + 1 :], node.ctx) for i in range(n)]
    if isinstance(node, ast.Constant):
        return _smaller_constants(node.value)
    return []


def _smaller_constants(value):
    if type(value) is int:
        smaller = {1, 2, abs(value) // 2, abs(value) - 1}
        # Not 0: PyTorch's own kernels end the process for some sizes of 0.
        return [ast.Constant(n) for n in sorted(smaller) if 0 < n < abs(value)]
    if type(value) is float and value not in (1.0, 2.0):
        return [ast.Constant(1.0), ast.Constant(2.0)]
    if value in ("f64", "f16", "bf16", "i16", "i8", "u8"):
        return [ast.Constant("f32"), ast.Constant("i64")]
    return []

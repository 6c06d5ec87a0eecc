"""Draws a program."""

import re
import warnings

import torch

# Statements register themselves.
from . import host, indexing, shapes  # noqa: F401
from .arithmetic import binary
from .draw import FLOATS, MOST_ELEMENTS, STATEMENTS, Draw
from .known import drawn, known
from .program import VARIABLE, Program
from .run import perform, tensors
from .shadows import OF_VALUES, UNIMPLEMENTED
from .training import backward, layer, make_optimizer

WEIGHTS = [weight for weight, _ in STATEMENTS]
MAKERS = [maker for _, maker in STATEMENTS]
# Of lines that raise, so many stay.
REFUSED = 0.12
# Of programs, so many begin with parameters.
TRAINING = 0.4
# Of assignments, so many are to a variable that is there.
REUSED = 0.06


def generate(seed):
    """The program of a seed."""
    d = Draw(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(d.rng.randint(1, 4)):
            d.fresh()
        if d.chance(TRAINING):
            _parameters(d)
        _extend(d, d.rng.randint(0, 6))
        setup, d.lines = tuple(d.lines), []
        _extend(d, d.rng.randint(3, 16))
    return Program(setup, tuple(d.lines), d.choice((1, 1, 1, 2, 3, 4)))


def _parameters(d):
    """Some leaves, an optimizer for them, and results that depend on them."""
    for _ in range(d.rng.randint(1, 3)):
        d.say(f"{d.fresh(dtype=d.choice(FLOATS), kind='normal')}.requires_grad_()")
    for maker in (make_optimizer, layer, binary, backward):
        line = maker(d)
        if line and drawn(line):
            d.say(line)


def _extend(d, count):
    wanted = len(d.lines) + count
    for _ in range(4 * count):
        if len(d.lines) >= wanted:
            break
        (maker,) = d.rng.choices(MAKERS, WEIGHTS)
        before = len(d.lines)
        line = maker(d)
        _drop_unused_data(d, before, line or "")
        if line is None:
            continue
        if " = " in line and d.chance(REUSED):
            line = f"{d.choice(d.where())} = {line.split(' = ', 1)[1]}" if line[0] == "t" else line
        if _reads_what_it_writes(d, line) or not drawn(line):
            continue
        error = perform(line, d.names)
        if error is None:
            d.lines.append(line)
        elif "out=" in line:
            break  # PyTorch resizes or writes some out= tensors before it refuses the call
        elif _worth_keeping(d, error):
            d.lines.append(line)
        _forget_what_is_large(d)


def _drop_unused_data(d, before, line):
    """Of what a statement drew for all its variants, only its own variant's data stays."""
    used, kept = set(VARIABLE.findall(line)), []
    for data in reversed(d.lines[before:]):
        if data.split(" = ")[0] in used:
            kept.insert(0, data)
            used |= set(VARIABLE.findall(data))
        else:
            d.names.pop(data.split(" = ")[0], None)
    d.lines[before:] = kept


def _reads_what_it_writes(d, line):
    """Whether the order of reading and writing decides what a line gives."""
    names = VARIABLE.findall(line)
    if not re.search(r"\w_\(|\] = |[-+*]= ", line) or not names or names[0] not in d.names:
        return False
    if "] = " in line:
        # What is computed of the tensor itself is another tensor.
        names = [names[0], *(name for name in names if name != names[0])]
    target, *others = (d.names[name] for name in names if name in d.names)
    if not isinstance(target, torch.Tensor):
        return False
    storage = target.untyped_storage()._cdata
    shared = [
        t for t in others if isinstance(t, torch.Tensor) and t.untyped_storage()._cdata == storage
    ]
    whole = re.match(rf"(with torch.no_grad\(\): )?{names[0]}(\.\w+_\(| [-+*]= ){names[0]}\b", line)
    return bool(shared) and not (whole and all(t is target for t in shared))


def _worth_keeping(d, error):
    message = str(error)
    if isinstance(error, NameError | SyntaxError) or any(t in message for t in UNIMPLEMENTED):
        return False
    if known("value errors") and any(text in message for text in OF_VALUES):
        return False
    return d.chance(REFUSED)


def _forget_what_is_large(d):
    """Ends a tensor whose values nobody wants to compare, by a line of the program."""
    for name, t in tensors(d.names).items():
        if isinstance(t, torch.Tensor) and t.numel() > MOST_ELEMENTS:
            d.say(f"{name} = {name}.reshape(-1)[:{MOST_ELEMENTS // 10}].detach().clone()")

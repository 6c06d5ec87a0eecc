"""A random program as plain data: lines of Python over the names of `prelude.py`."""

import re
from dataclasses import dataclass
from pathlib import Path

PRELUDE = (Path(__file__).parent / "prelude.py").read_text()
# Tensors on the device, tensors on the host, values that were read, optimizers.
VARIABLE = re.compile(r"\b[thro]\d+\b")


@dataclass(frozen=True)
class Program:
    """`setup` runs once, then `body` as often as `repeats` says, as steps of a training do."""

    setup: tuple[str, ...]
    body: tuple[str, ...]
    repeats: int = 1

    def steps(self):
        """Every line that runs, in order, with its place: its turn and its number."""
        yield from (((-1, n), line) for n, line in enumerate(self.setup))
        for turn in range(self.repeats):
            yield from (((turn, n), line) for n, line in enumerate(self.body))

    def before(self, place):
        """What of the program comes before a place."""
        turn, n = place
        if turn < 0:
            return Program(self.setup[:n], (), 1)
        if turn == 0:
            return Program(self.setup, self.body[:n], 1)
        return Program(self.setup, self.body, turn)


def script(program, errors):
    """The program as a file to run: `python FILE acc` and `python FILE cpu` print the same."""
    expected = {}
    for (turn, n), error in errors.items():
        expected.setdefault((turn >= 0, n), error)

    def lines(part, inside, indent):
        for n, line in enumerate(part):
            error = expected.get((inside, n))
            if error:
                # In every turn, or in some.
                yield f"{indent}try:  # {error}"
                yield f"{indent}    {line}"
                yield f"{indent}    sync()"
                yield f"{indent}except Exception as error:"
                yield f"{indent}    print(type(error).__name__)"
            else:
                yield indent + line

    text = [PRELUDE, ""]
    text += lines(program.setup, False, "")
    if program.repeats > 1:
        text += [f"for _ in range({program.repeats}):", *lines(program.body, True, "    ")]
    else:
        text += lines(program.body, True, "")
    text.append(
        "print({name: value for name, value in globals().items() if name[1:].isdigit()"
        ' and name[0] in "thro"})'
    )
    return "\n".join(text) + "\n"

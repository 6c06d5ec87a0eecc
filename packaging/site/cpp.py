"""What a C++ header declares: its text without bodies, initializers and private parts."""

import re

DETAIL = re.compile(r"^namespace detail \{.*?^\}  // namespace detail$", re.M | re.S)
PRIVATE = re.compile(r"\n+ private:.*?^\};", re.M | re.S)
# Of a constructor, what follows its parameters.
INITIALIZERS = re.compile(r"\)( noexcept)?\s+: .*", re.S)
TEXT = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])'|//[^\n]*")


def declarations(code: str) -> str:
    """The declarations of formatted code, with their comments."""
    code = PRIVATE.sub("\n};", DETAIL.sub("", code))
    found, start, at, depth = [], 0, 0, 0
    while at < len(code):
        sign = code[at]
        if (skipped := TEXT.match(code, at)) is not None:
            at = skipped.end()
            continue
        depth += (sign == "(") - (sign == ")")
        statement = re.sub(r"//.*", "", code[start:at])
        if sign == ";" and depth == 0:
            found.append(code[start : at + 1])
            start = at + 1
        elif sign == "{" and depth == 0 and "(" in statement and code[at - 1] == " ":
            found.append(INITIALIZERS.sub(r")\1", code[start:at].rstrip()) + ";")
            start = at = closing(code, at)
            continue
        elif sign in "{}" and depth == 0 and "(" not in statement:
            found.append(code[start : at + 1])
            start = at + 1
        at += 1
    return re.sub(r"\n{3,}", "\n\n", "".join(found) + code[start:]).strip()


def closing(code: str, at: int) -> int:
    """Behind the brace that closes the one there."""
    depth = 0
    while True:
        if (skipped := TEXT.match(code, at)) is not None:
            at = skipped.end()
            continue
        depth += (code[at] == "{") - (code[at] == "}")
        at += 1
        if depth == 0:
            return at

"""Values of records and sums: JSON in one spelling, so that equal values have equal codes.

A record is an array, ``[1,[2,null]]``, and nil is ``null``. A value of a sum type is an object of its branch,
``{"Cons":[1,{"Nil":[]}]}``. Columns hold these texts, so they join, sort into checkpoints and leave to files as every
text does; packing and unpacking takes time in proportion to the length of the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np

NIL: Final = "null"
"""The text of nil."""
MAX_DEPTH: Final = 100_000
"""Deepest nesting of records that is read, in levels."""
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},]')
_PRINTED = re.compile(
    r'\{"(\w+)":\[\]\}|\{"(\w+)":\[|"(?:[^"\\]|\\.)*"|\[|\]\}?|,|[^\[\]{},"]+',
)
_NUMBER = re.compile(r"[-+]?(?:0x[0-9a-fA-F]+|0b[01]+|[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)")


def pack(branch: str, letters: str, values: Sequence[Any]) -> str:
    r"""Return the text of a record, or of a value of a sum type if `branch` is not empty.

    Parameters
    ----------
    letters
        The types of the values; see `gpu_wcoj.query.souffle.functors`. Records among them are texts of this form.

    Examples
    --------
    >>> pack("", "nsr", (1, 'say "a"', "null")), pack("Leaf", "f", (2.0,))
    ('[1,"say \\"a\\"",null]', '{"Leaf":[2.0]}')
    """
    parts = ",".join(_part(letter, value) for letter, value in zip(letters, values, strict=True))
    return f'{{"{branch}":[{parts}]}}' if branch else f"[{parts}]"


def _part(letter: str, value: Any) -> str:
    if letter == "r":
        return str(value)
    if letter == "s":
        return json.dumps(value, ensure_ascii=False)
    if letter in "fg":
        value = float(value) + 0.0  # so that -0.0 is 0.0
        return str(float(str(np.float32(value)))) if letter == "g" else repr(value)
    return str(value)


@lru_cache(maxsize=1024)
def _items(text: str, arity: int) -> tuple[str, ...]:
    """Return the texts of the items of a value, without a search of the last one."""
    start, end = 1, len(text) - 1
    if text.startswith("{"):
        start, end = text.index("[") + 1, len(text) - 2
    items: list[str] = []
    depth = 0
    for token in _TOKEN.finditer(text, start, end):
        if len(items) == arity - 1:
            break
        sign = token[0]
        if sign in ("[", "{"):
            depth += 1
        elif sign in ("]", "}"):
            depth -= 1
        elif sign == "," and depth == 0:
            items.append(text[start : token.start()])
            start = token.end()
    return (*items, text[start:end])


def unpack(value: str, branch: str, index: int, arity: int, letter: str) -> Any:
    """Return an item of a record or of a branch; None if the value is nil or of another branch.

    Examples
    --------
    >>> unpack("[1,[2,null]]", "", 1, 2, "r"), unpack('{"Cons":[1,{"Nil":[]}]}', "Cons", 0, 2, "n")
    ('[2,null]', 1)
    >>> unpack("null", "", 0, 2, "n"), unpack('{"Nil":[]}', "Cons", 0, 2, "n")
    (None, None)
    """
    if not is_branch(value, branch):
        return None
    item = _items(value, arity)[index]
    if letter == "r":
        return item
    if letter == "s":
        return json.loads(item)
    return float(item) if letter in "fg" else int(item)


def is_branch(value: str, branch: str) -> bool:
    """Return whether a value is of a branch; for an empty branch, whether it is not nil."""
    return value.startswith(f'{{"{branch}":' if branch else "[")


def format_record(text: str) -> str:
    """Return a value as Soufflé prints it.

    Examples
    --------
    >>> format_record('[1,["a b",null]]'), format_record('{"Cons":[1,{"Nil":[]}]}'), format_record("null")
    ('[1, [a b, nil]]', '$Cons(1, $Nil)', 'nil')
    """
    pieces: list[str] = []
    for token in _PRINTED.finditer(text):
        sign = token[0]
        if token[1]:
            pieces.append(f"${token[1]}")
        elif token[2]:
            pieces.append(f"${token[2]}(")
        elif sign.startswith('"'):
            pieces.append(str(json.loads(sign)))
        else:
            pieces.append({"]}": ")", ",": ", ", NIL: "nil"}.get(sign, sign))
    return "".join(pieces)


Fields = Mapping[str, Mapping[str, Sequence[str]]]
"""Per record type its branches, with an empty name for that of a record, and the type of each field: a letter or the
name of another of these types."""


def stored(text: str, name: str, types: str) -> str:
    """Return the stored text of a value written as JSON or as Soufflé prints it.

    Parameters
    ----------
    name, types
        The type of the value, and all types that it is made of: `Fields` as JSON.

    Raises
    ------
    ValueError
        If the text is not a value of the type.

    Examples
    --------
    >>> types = '{"List": {"": ["n", "List"]}}'
    >>> stored("[1, [2, nil]]", "List", types), stored("[1, [2, null]]", "List", types)
    ('[1,[2,null]]', '[1,[2,null]]')
    """
    reader = _Reader(text, json.loads(types))
    value = reader.value(name)
    reader.end()
    return value


class _Reader:
    """A reader of one value of declared type."""

    def __init__(self, text: str, types: Fields) -> None:
        self.text, self.types, self.position = text, types, 0

    def value(self, name: str) -> str:
        """Read a value; nested ones wait on a stack, so that long lists need no recursion."""
        done: list[tuple[str, Iterator[str], list[str], str]] = []
        kind = name
        while True:
            text = self._leaf(kind) if kind not in self.types else self._begin_value(kind, done)
            while text is not None:
                if not done:
                    return text
                branch, kinds, parts, closing = done[-1]
                parts.append(text)
                following = next(kinds, None)
                if following is not None:
                    self._expect(",")
                    kind = following
                    break
                for sign in closing:
                    self._expect(sign)
                _ = done.pop()
                text = self._joined(branch, parts)
            else:
                kind = next(done[-1][1])

    @staticmethod
    def _joined(branch: str, parts: Sequence[str]) -> str:
        return f'{{"{branch}":[{",".join(parts)}]}}' if branch else f"[{','.join(parts)}]"

    def _begin_value(self, kind: str, done: list[tuple[str, Iterator[str], list[str], str]]) -> str | None:
        """Read the beginning of a record or branch; return its text if it has no items."""
        if len(done) > MAX_DEPTH:
            raise ValueError(f"it nests more than {MAX_DEPTH:,} deep")
        branches = self.types[kind]
        if "" in branches:
            for word in ("nil", NIL):
                if self._skip(word):
                    return NIL
            self._expect("[")
            branch, closing = "", "]"
        elif self._skip("{"):
            branch = json.loads(self._match(r'"(?:[^"\\]|\\.)*"', "the name of a branch"))
            self._expect(":")
            self._expect("[")
            closing = "]}"
        else:
            self._expect("$")
            branch = self._match(r"\w+", "the name of a branch")
            closing = ")" if branches.get(branch) or self._next() == "(" else ""
            if closing:
                self._expect("(")
        if branch not in branches:
            raise ValueError(f"'{branch}' is not a branch of '{kind}', which has {', '.join(branches)}")
        if branches[branch]:
            done.append((branch, iter(branches[branch]), [], closing))
            return None
        for sign in closing:
            self._expect(sign)
        return self._joined(branch, ())

    def _leaf(self, letter: str) -> str:
        if letter == "s":
            if self._next() == '"':
                return json.dumps(json.loads(self._match(r'"(?:[^"\\]|\\.)*"', "a text")), ensure_ascii=False)
            return json.dumps(self._match(r"[^,\])]*", "a text").strip(), ensure_ascii=False)
        number = self._match(_NUMBER.pattern, "a number")
        if letter in "fg":
            return _part(letter, float(number))
        sign, digits = ("-", number[1:]) if number.startswith("-") else ("", number.removeprefix("+"))
        value = int(digits, {"0x": 16, "0b": 2}.get(digits[:2], 10))
        if letter == "u" and sign:
            raise ValueError(f"{number} is negative")
        return f"{sign}{value}" if value else "0"

    def _next(self) -> str:
        while self.position < len(self.text) and self.text[self.position].isspace():
            self.position += 1
        return self.text[self.position : self.position + 1]

    def _skip(self, word: str) -> bool:
        _ = self._next()
        is_there = self.text.startswith(word, self.position)
        self.position += len(word) * is_there
        return is_there

    def _expect(self, sign: str) -> None:
        if not self._skip(sign):
            raise ValueError(f"expected '{sign}' at character {self.position}")

    def _match(self, pattern: str, what: str) -> str:
        _ = self._next()
        match = re.compile(pattern).match(self.text, self.position)
        if match is None:
            raise ValueError(f"expected {what} at character {self.position}")
        self.position = match.end()
        return match[0]

    def end(self) -> None:
        """Raise if text is left."""
        if self._next():
            raise ValueError(f"expected the end at character {self.position}")

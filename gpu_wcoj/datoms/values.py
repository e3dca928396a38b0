"""The types of values: which Python values are of which type, and the int64 codes that stand for them."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np

from gpu_wcoj.column import Column, float_codes, without_zero_signs
from gpu_wcoj.dictionary import Dictionary
from gpu_wcoj.errors import TypeMismatchError
from gpu_wcoj.rows import as_python
from gpu_wcoj.schema import DataType
from gpu_wcoj.zset.algebra import python_values

TYPES = {
    "long": DataType("int64"),
    "ref": DataType("int64"),
    "double": DataType("double"),
    "boolean": DataType("bool"),
    "string": DataType("string"),
    "keyword": DataType("string"),
    "instant": DataType("timestamp[us, tz=UTC]"),
    "uuid": DataType("string"),
    "bytes": DataType("binary"),
}
"""The types of values and the columns that hold them; ``:db.type/long`` is spelled ``long``."""

TAKES = {
    "long": "an integer from -2^63 to 2^63-1",
    "ref": "an entity id from 0 to 2^63-1, a temporary id, or a lookup reference [attribute, value]",
    "double": "a float",
    "boolean": "True or False",
    "string": "a text",
    "keyword": "a keyword, such as ':red'",
    "instant": "a datetime with a time zone",
    "uuid": "a uuid.UUID",
    "bytes": "bytes",
}
"""What values of each type are in Python."""

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)


@dataclass(frozen=True)
class Keyword:
    """A keyword as EDN spells it, ``:red``; a text that begins with a colon is none where types are told apart.

    Examples
    --------
    >>> print(Keyword(":color/red"))
    :color/red
    """

    text: str

    def __str__(self) -> str:
        return self.text


class Text(str):
    """A string of EDN, where keywords are spelled otherwise: it is a text, also if it begins with a colon."""

    __slots__ = ()


@dataclass(frozen=True)
class Texts:
    """The dictionaries that text and bytes of one database are codes of."""

    string: Dictionary
    binary: Dictionary

    @classmethod
    def empty(cls) -> Texts:
        """Without values."""
        return cls(Dictionary("string"), Dictionary("binary"))

    def of(self, kind: str) -> Dictionary | None:
        """What the codes of a type are positions in; None if they are none."""
        if kind == "bytes":
            return self.binary
        return self.string if kind in ("string", "keyword", "uuid") else None

    @property
    def sizes(self) -> tuple[int, int]:
        """How many values they hold; see `truncate`."""
        return len(self.string), len(self.binary)

    def truncate(self, sizes: tuple[int, int]) -> None:
        """Forget what has come since they had these sizes."""
        self.string.truncate(sizes[0])
        self.binary.truncate(sizes[1])

    def column(self, kind: str, codes: Any) -> Column:
        """Codes of a type as a column."""
        return Column(TYPES[kind], codes, None, self.of(kind))

    def values(self, kind: str, codes: Any) -> list[Any]:
        """The values behind codes, as Python has them; keywords are texts with their colon, UUIDs texts.

        Examples
        --------
        >>> texts = Texts.empty()
        >>> texts.values("keyword", np.array([code_of("keyword", ":red", texts)]))
        [':red']
        """
        if not len(codes):
            return []
        dictionary = self.of(kind)
        if dictionary is not None:
            return dictionary.values_of(np.asarray(codes))
        return python_values(self.column(kind, np.asarray(codes, np.int64)))


def type_of(value: Any) -> str | None:
    """The type of a value whose attribute has none yet; None if no type has it.

    Examples
    --------
    >>> type_of(1), type_of(True), type_of("a"), type_of(Keyword(":a")), type_of(None)
    ('long', 'boolean', 'string', 'keyword', None)
    """
    kinds = {
        bool: "boolean",
        int: "long",
        float: "double",
        str: "string",
        Keyword: "keyword",
        bytes: "bytes",
        dt.datetime: "instant",
        UUID: "uuid",
        Text: "string",
    }
    return kinds.get(type(as_python(value)))


def code_of(kind: str, value: Any, texts: Texts) -> int:
    """The code of a value of this type; text and bytes that are missing are added. Nothing is coerced.

    Raises
    ------
    TypeMismatchError
        If the value is of another type; the message is what was expected.

    Examples
    --------
    >>> code_of("boolean", True, Texts.empty())
    1
    """
    value = as_python(value)
    of = type(value)  # no subclass: of an enumeration or another library's time, only a part would be kept
    taken: int | None = None
    if kind in ("long", "ref"):
        if of is int and (0 if kind == "ref" else -(2**63)) <= value < 2**63:
            taken = value
    elif kind == "double":
        if of is float:
            taken = int(without_zero_signs(float_codes(np.array([value])))[0])  # equal values are one datom
    elif kind == "boolean":
        if of is bool:
            taken = int(value)
    elif kind == "string":
        if of in (str, Text):
            taken = texts.string.encode_one(str(value))
    elif kind == "keyword":
        if of is Keyword or (of is str and value[:1] == ":" and len(value) > 1):
            taken = texts.string.encode_one(str(value))
    elif kind == "instant":
        if of is dt.datetime and value.utcoffset() is not None:
            taken = (value - _EPOCH) // _MICROSECOND
    elif kind == "uuid":
        if of is UUID:
            taken = texts.string.encode_one(str(value))
    elif of is bytes:
        taken = texts.binary.encode_one(value)
    if taken is None:
        raise TypeMismatchError(TAKES[kind])
    return taken


def shown(value: Any) -> str:
    """A value and its type, for a message.

    Examples
    --------
    >>> shown("a"), shown(Keyword(":a"))
    ("'a' of type 'str'", ":a of type 'keyword'")
    """
    if isinstance(value, Keyword):
        return f"{value.text:.80} of type 'keyword'"
    kind = "str" if type(value) is Text else type(value).__name__
    return f"{value!r:.80} of type '{kind}'"

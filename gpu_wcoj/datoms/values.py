"""Types of values, their Python types, and their int64 codes."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np

from gpu_wcoj.data.column import Column, float_codes, without_zero_signs
from gpu_wcoj.data.rows import as_python
from gpu_wcoj.data.schema import DataType
from gpu_wcoj.dictionary import Dictionary
from gpu_wcoj.errors import TypeMismatchError
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
"""The types of values, and their column types; ``long`` is ``:db.type/long``."""

ACCEPTED = {
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
"""The accepted Python values of each type, in words."""

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)


@dataclass(frozen=True)
class Keyword:
    """A keyword of EDN, ``:red``, where it must differ from a text with a leading colon.

    Examples
    --------
    >>> print(Keyword(":color/red"))
    :color/red
    """

    text: str

    def __str__(self) -> str:
        return self.text


class Text(str):
    """A string of EDN: a text even if it begins with a colon."""

    __slots__ = ()


@dataclass(frozen=True)
class Texts:
    """The dictionaries of the texts and bytes of a database."""

    string: Dictionary
    binary: Dictionary

    @classmethod
    def empty(cls) -> Texts:
        """Create empty dictionaries."""
        return cls(Dictionary("string"), Dictionary("binary"))

    def dictionary_of(self, kind: str) -> Dictionary | None:
        """Return the dictionary of a type, or None if its codes are not dictionary codes."""
        if kind == "bytes":
            return self.binary
        return self.string if kind in ("string", "keyword", "uuid") else None

    @property
    def sizes(self) -> tuple[int, int]:
        """The numbers of values; see `truncate`."""
        return len(self.string), len(self.binary)

    def truncate(self, sizes: tuple[int, int]) -> None:
        """Remove the values added since the dictionaries had these sizes."""
        self.string.truncate(sizes[0])
        self.binary.truncate(sizes[1])

    def column(self, kind: str, codes: Any) -> Column:
        """Return codes of a type as a column."""
        return Column(TYPES[kind], codes, None, self.dictionary_of(kind))

    def values(self, kind: str, codes: Any) -> list[Any]:
        """Decode codes to Python values; keywords (with their colon) and UUIDs are texts.

        Examples
        --------
        >>> texts = Texts.empty()
        >>> texts.values("keyword", np.array([code_of("keyword", ":red", texts)]))
        [':red']
        """
        if not len(codes):
            return []
        dictionary = self.dictionary_of(kind)
        if dictionary is not None:
            return dictionary.values_of(np.asarray(codes))
        return python_values(self.column(kind, np.asarray(codes, np.int64)))


def type_of(value: Any) -> str | None:
    """Return the type of a value of an untyped attribute; None if no type fits.

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
    """Return the code of a value without coercion; new texts and bytes are added.

    Raises
    ------
    TypeMismatchError
        If the value has another type; the message is the expected value.

    Examples
    --------
    >>> code_of("boolean", True, Texts.empty())
    1
    """
    value = as_python(value)
    data_type = type(value)  # not subclasses: of an enumeration or another library's time, a part would be lost
    code: int | None = None
    if kind in ("long", "ref"):
        if data_type is int and (0 if kind == "ref" else -(2**63)) <= value < 2**63:
            code = value
    elif kind == "double":
        if data_type is float:
            code = int(without_zero_signs(float_codes(np.array([value])))[0])  # equal values are the same datom
    elif kind == "boolean":
        if data_type is bool:
            code = int(value)
    elif kind == "string":
        if data_type in (str, Text):
            code = texts.string.encode_one(str(value))
    elif kind == "keyword":
        if data_type is Keyword or (data_type is str and value[:1] == ":" and len(value) > 1):
            code = texts.string.encode_one(str(value))
    elif kind == "instant":
        if data_type is dt.datetime and value.utcoffset() is not None:
            code = (value - _EPOCH) // _MICROSECOND
    elif kind == "uuid":
        if data_type is UUID:
            code = texts.string.encode_one(str(value))
    elif data_type is bytes:
        code = texts.binary.encode_one(value)
    if code is None:
        raise TypeMismatchError(ACCEPTED[kind])
    return code


def describe(value: Any) -> str:
    """Format a value and its type for a message.

    Examples
    --------
    >>> describe("a"), describe(Keyword(":a"))
    ("'a' of type 'str'", ":a of type 'keyword'")
    """
    if isinstance(value, Keyword):
        return f"{value.text:.80} of type 'keyword'"
    kind = "str" if type(value) is Text else type(value).__name__
    return f"{value!r:.80} of type '{kind}'"

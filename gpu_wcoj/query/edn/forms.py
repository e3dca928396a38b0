"""Data model of EDN, and its conversion from and to plain Python data."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from gpu_wcoj.query.ir import Span

Kind = Literal[
    "nil", "bool", "int", "float", "string", "char", "keyword", "symbol", "inst", "uuid", "list", "vector", "map", "set"
]

COLLECTIONS = ("list", "vector", "map", "set")
OPENING = {"list": "(", "vector": "[", "map": "{", "set": "#{"}
CLOSING = {"list": ")", "vector": "]", "map": "}", "set": "}"}
MAX_PRINTED = 60
"""Length at which a form is cut off in messages, in characters."""


class Symbol(str):
    """A symbol of EDN in Python data, where a plain string is a text or a keyword."""

    __slots__ = ()


@dataclass(frozen=True)
class Form:
    """A form: an EDN value with its place in the text.

    Attributes
    ----------
    kind
        The kind of the form.
    value
        The Python value of nil, bool, int, float, string and char; the text of a keyword (with its colon) or symbol;
        a `datetime` with time zone for an inst; a `uuid.UUID`; the forms of a collection, keys and values of a map
        alternating.
    span
        Its place in the text; ignored in comparisons.
    depth
        Nesting depth of collections; 0 for a scalar.
    """

    kind: Kind
    value: Any
    span: Span = field(default=Span(), compare=False)
    depth: int = field(default=0, compare=False, repr=False)

    def __str__(self) -> str:
        """Return the form as EDN text, cut off after `MAX_PRINTED` characters."""
        pieces: list[str] = []
        waiting: list[Form | str] = [self]
        length = 0
        while waiting and length <= MAX_PRINTED:
            item = waiting.pop()
            if isinstance(item, Form) and item.kind in COLLECTIONS:
                inner: list[Form | str] = [OPENING[item.kind]]
                for index, element in enumerate(item.value):
                    inner += [" ", element] if index else [element]
                waiting += reversed([*inner, CLOSING[item.kind]])
                continue
            text = item if isinstance(item, str) else _format_scalar(item)
            pieces.append(text)
            length += len(text)
        printed = "".join(pieces)
        return printed if len(printed) <= MAX_PRINTED and not waiting else f"{printed[:MAX_PRINTED]}..."

    @property
    def is_sequence(self) -> bool:
        """True for a list or a vector."""
        return self.kind in ("list", "vector")

    def is_symbol(self, *names: str) -> bool:
        """Return whether the form is a symbol in `names`."""
        return self.kind == "symbol" and self.value in names

    @property
    def is_variable(self) -> bool:
        """True for a symbol such as ``?x``."""
        return self.kind == "symbol" and self.value.startswith("?") and len(self.value) > 1

    @property
    def is_blank(self) -> bool:
        """True for ``_``."""
        return self.is_symbol("_")

    @property
    def is_source(self) -> bool:
        """True for a symbol such as ``$`` or ``$edges``."""
        return self.kind == "symbol" and self.value.startswith("$")


_ESCAPED = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def _escape(char: str) -> str:
    return _ESCAPED.get(char, char)


def _format_scalar(form: Form) -> str:
    value = form.value
    if form.kind == "nil":
        return "nil"
    if form.kind == "bool":
        return "true" if value else "false"
    if form.kind == "string":
        escaped = "".join(map(_escape, value))
        return f'"{escaped}"'
    if form.kind == "char":
        return f"\\{value}"
    if form.kind == "inst":
        return f'#inst "{value.astimezone(UTC).isoformat()}"'
    if form.kind == "uuid":
        return f'#uuid "{value}"'
    return str(value)


def to_python(form: Form) -> Any:
    """Convert a form to Python data.

    Keywords become strings with their colon, lists and vectors lists, sets frozensets.

    Examples
    --------
    >>> from gpu_wcoj.query.edn.reader import read
    >>> to_python(read('{:name "Ada", :tags #{1 2}, :at [nil true]}'))
    {':name': 'Ada', ':tags': frozenset({1, 2}), ':at': [None, True]}
    """
    if form.kind == "symbol":
        return Symbol(form.value)
    if form.is_sequence:
        return [to_python(item) for item in form.value]
    if form.kind == "set":
        return frozenset(_hashable(to_python(item)) for item in form.value)
    if form.kind == "map":
        pairs = zip(form.value[::2], form.value[1::2], strict=True)
        return {_hashable(to_python(key)): to_python(value) for key, value in pairs}
    return form.value


def _hashable(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_hashable, value))
    if isinstance(value, dict):
        return tuple((key, _hashable(item)) for key, item in value.items())
    return value


def to_form(data: Any, depth: int = 0) -> Form:
    """Convert Python data to a form; the inverse of `to_python`, for generated queries.

    Strings that begin with a colon are keywords, and those that begin with ``?``, ``$`` or ``%``, or that are ``_``,
    ``.`` or ``...``, are symbols, as is the first string of a tuple: ``("<", "?a", 5)``. Lists are vectors, tuples
    are lists.

    Raises
    ------
    ValueError
        If the data cannot be represented in EDN; the message names its type.

    Examples
    --------
    >>> print(to_form([":find", "?e", ":where", ["?e", ":age", "?a"], [("<", "?a", 30)]]))
    [:find ?e :where [?e :age ?a] [(< ?a 30)]]
    """
    if depth > 100:
        raise ValueError("it nests deeper than 100 levels")
    if isinstance(data, Form):
        return data
    if data is None:
        return Form("nil", None)
    for kind, type_ in (("bool", bool), ("int", int), ("float", float), ("symbol", Symbol)):
        if isinstance(data, type_):
            return Form(kind, data)  # type: ignore[arg-type]  # the kinds of the tuple above
    if isinstance(data, str):
        return _text_form(data)
    if isinstance(data, datetime):
        if data.tzinfo is None:
            raise ValueError(f"{data.isoformat()} has no time zone")
        return Form("inst", data)
    if isinstance(data, uuid.UUID):
        return Form("uuid", data)
    if isinstance(data, dict):
        items = [to_form(item, depth + 1) for pair in data.items() for item in pair]
        return _collection_of_forms("map", items)
    if isinstance(data, (set, frozenset)):
        return _collection_of_forms("set", [to_form(item, depth + 1) for item in data])
    if isinstance(data, tuple):
        items = [to_form(item, depth + 1) for item in data]
        if items and isinstance(data[0], str) and items[0].kind == "string":
            items[0] = Form("symbol", data[0])
        return _collection_of_forms("list", items)
    if isinstance(data, list):
        return _collection_of_forms("vector", [to_form(item, depth + 1) for item in data])
    raise ValueError(f"a value of type '{type(data).__name__}' cannot be represented in EDN: {data!r:.80}")


def _collection_of_forms(kind: Kind, items: list[Form]) -> Form:
    return Form(kind, tuple(items), depth=1 + max((item.depth for item in items), default=0))


def _text_form(text: str) -> Form:
    if text.startswith(":") and len(text) > 1:
        return Form("keyword", text)
    is_symbol = text in ("_", ".", "...") or (text[:1] in ("?", "$", "%") and not any(map(str.isspace, text)))
    return Form("symbol" if is_symbol else "string", text)

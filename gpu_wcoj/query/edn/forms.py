"""What EDN text consists of, and the same as plain data of Python."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from gpu_wcoj.query.terms import Span

Kind = Literal[
    "nil", "bool", "int", "float", "string", "char", "keyword", "symbol", "inst", "uuid", "list", "vector", "map", "set"
]

COLLECTIONS = ("list", "vector", "map", "set")
OPENING = {"list": "(", "vector": "[", "map": "{", "set": "#{"}
CLOSING = {"list": ")", "vector": "]", "map": "}", "set": "}"}
SHOWN = 60


class Symbol(str):
    """A symbol of EDN among Python's data, where a string is a text or a keyword."""

    __slots__ = ()


@dataclass(frozen=True)
class Form:
    """One piece of EDN.

    Attributes
    ----------
    kind
        What it is.
    value
        Of nil, bool, int, float, string and char Python's value; the text of a keyword (with its colon) or symbol; a
        `datetime` with time zone of an inst, a `uuid.UUID`; of collections the forms inside, of a map keys and values
        in turn.
    span
        Where it stands; no part of what is compared.
    depth
        How deep collections stand within each other; 0 if it is none.
    """

    kind: Kind
    value: Any
    span: Span = field(default=Span(), compare=False)
    depth: int = field(default=0, compare=False, repr=False)

    def __str__(self) -> str:
        """The form as EDN, cut off where it is long."""
        pieces: list[str] = []
        waiting: list[Form | str] = [self]
        length = 0
        while waiting and length <= SHOWN:
            one = waiting.pop()
            if isinstance(one, Form) and one.kind in COLLECTIONS:
                inner: list[Form | str] = [OPENING[one.kind]]
                for number, item in enumerate(one.value):
                    inner += [" ", item] if number else [item]
                waiting += reversed([*inner, CLOSING[one.kind]])
                continue
            text = one if isinstance(one, str) else _spelled(one)
            pieces.append(text)
            length += len(text)
        shown = "".join(pieces)
        return shown if len(shown) <= SHOWN and not waiting else f"{shown[:SHOWN]}..."

    @property
    def is_sequence(self) -> bool:
        """Whether it is a list or a vector."""
        return self.kind in ("list", "vector")

    def is_symbol(self, *names: str) -> bool:
        """Whether it is one of some symbols."""
        return self.kind == "symbol" and self.value in names

    @property
    def is_variable(self) -> bool:
        """Whether it is a symbol such as ``?x``."""
        return self.kind == "symbol" and self.value.startswith("?") and len(self.value) > 1

    @property
    def is_blank(self) -> bool:
        """Whether it is ``_``."""
        return self.is_symbol("_")

    @property
    def is_source(self) -> bool:
        """Whether it is a symbol such as ``$`` or ``$edges``."""
        return self.kind == "symbol" and self.value.startswith("$")


_ESCAPED = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def _escaped(char: str) -> str:
    return _ESCAPED.get(char, char)


def _spelled(form: Form) -> str:
    value = form.value
    if form.kind == "nil":
        return "nil"
    if form.kind == "bool":
        return "true" if value else "false"
    if form.kind == "string":
        escaped = "".join(map(_escaped, value))
        return f'"{escaped}"'
    if form.kind == "char":
        return f"\\{value}"
    if form.kind == "inst":
        return f'#inst "{value.astimezone(UTC).isoformat()}"'
    if form.kind == "uuid":
        return f'#uuid "{value}"'
    return str(value)


def plain(form: Form) -> Any:
    """A form as Python's data: keywords are strings with their colon, lists and vectors lists, sets frozensets.

    Examples
    --------
    >>> from gpu_wcoj.query.edn.reader import read
    >>> plain(read('{:name "Ada", :tags #{1 2}, :at [nil true]}'))
    {':name': 'Ada', ':tags': frozenset({1, 2}), ':at': [None, True]}
    """
    if form.kind == "symbol":
        return Symbol(form.value)
    if form.is_sequence:
        return [plain(one) for one in form.value]
    if form.kind == "set":
        return frozenset(_hashable(plain(one)) for one in form.value)
    if form.kind == "map":
        pairs = zip(form.value[::2], form.value[1::2], strict=True)
        return {_hashable(plain(key)): plain(value) for key, value in pairs}
    return form.value


def _hashable(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_hashable, value))
    if isinstance(value, dict):
        return tuple((key, _hashable(one)) for key, one in value.items())
    return value


def form_of(data: Any, depth: int = 0) -> Form:
    """Python's data as a form: the way back from `plain`, for queries that a program puts together.

    Strings that begin with a colon are keywords, and those that begin with ``?``, ``$`` or ``%``, or that are ``_``,
    ``.`` or ``...``, are symbols, as is the first string of a tuple: ``("<", "?a", 5)``. Lists are vectors, tuples
    are lists.

    Raises
    ------
    ValueError
        If data has no place in EDN; with what it is.

    Examples
    --------
    >>> print(form_of([":find", "?e", ":where", ["?e", ":age", "?a"], [("<", "?a", 30)]]))
    [:find ?e :where [?e :age ?a] [(< ?a 30)]]
    """
    if depth > 100:
        raise ValueError("it nests more than 100 deep")
    if isinstance(data, Form):
        return data
    if data is None:
        return Form("nil", None)
    for kind, type_ in (("bool", bool), ("int", int), ("float", float), ("symbol", Symbol)):
        if isinstance(data, type_):
            return Form(kind, data)  # type: ignore[arg-type]  # one of the four words
    if isinstance(data, str):
        return _of_text(data)
    if isinstance(data, datetime):
        if data.tzinfo is None:
            raise ValueError(f"{data.isoformat()} has no time zone")
        return Form("inst", data)
    if isinstance(data, uuid.UUID):
        return Form("uuid", data)
    if isinstance(data, dict):
        items = [form_of(one, depth + 1) for pair in data.items() for one in pair]
        return _collection("map", items)
    if isinstance(data, (set, frozenset)):
        return _collection("set", [form_of(one, depth + 1) for one in data])
    if isinstance(data, tuple):
        items = [form_of(one, depth + 1) for one in data]
        if items and isinstance(data[0], str) and items[0].kind == "string":
            items[0] = Form("symbol", data[0])
        return _collection("list", items)
    if isinstance(data, list):
        return _collection("vector", [form_of(one, depth + 1) for one in data])
    raise ValueError(f"a value of type '{type(data).__name__}' has no place in EDN: {data!r:.80}")


def _collection(kind: Kind, items: list[Form]) -> Form:
    return Form(kind, tuple(items), depth=1 + max((one.depth for one in items), default=0))


def _of_text(text: str) -> Form:
    if text.startswith(":") and len(text) > 1:
        return Form("keyword", text)
    is_symbol = text in ("_", ".", "...") or (text[:1] in ("?", "$", "%") and not any(map(str.isspace, text)))
    return Form("symbol" if is_symbol else "string", text)

"""What ``?x``, ``[?x ?y]``, ``[?x ...]`` and ``[[?x ?y]]`` bind, in ``:in`` and behind ``ground``."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from gpu_wcoj.query.edn.clauses import Blank, Clause, Const, Function, Rows, Text, Var
from gpu_wcoj.query.edn.forms import Form
from gpu_wcoj.query.edn.sources import TEXT
from gpu_wcoj.query.terms import Span
from gpu_wcoj.rows import as_python

if TYPE_CHECKING:
    from gpu_wcoj.query.edn.where import Clauses


def bound(reader: Clauses, text: Text, binding: Form, value: Form, is_data: bool = False) -> Iterator[Clause]:
    """The clauses by which a binding takes a value apart.

    Parameters
    ----------
    is_data
        Whether the value comes from Python, where keywords are texts, too.
    """
    if binding.kind != "vector":
        yield from _scalar(text, binding, value, is_data)
        return
    items = binding.value
    if not items:
        raise text.error("this binding is empty", binding.span)
    if len(items) == 2 and items[1].is_symbol("..."):
        if items[0].kind == "vector":
            items = (items[0],)
        else:
            singles = [(one,) for one in _elements(text, binding, value, "a collection")]
            yield _rows(reader, text, binding, (items[0],), singles, is_data)
            return
    if len(items) == 1 and items[0].kind == "vector":
        columns = items[0].value
        rows = []
        for one in _elements(text, binding, value, "a relation, a collection of tuples"):
            rows.append(tuple(_elements(text, binding, one, "a relation, a collection of tuples", ordered=True)))
            if len(rows[-1]) != len(columns):
                what = f"'{items[0]}' binds {len(columns)} values, and '{one}' has {len(rows[-1])}"
                raise text.error(what, binding.span)
        if not columns:
            raise text.error("this binding is empty", binding.span)
        yield _rows(reader, text, binding, columns, rows, is_data)
        return
    values = _elements(text, binding, value, "a tuple", ordered=True)
    if len(values) < len(items):
        raise text.error(f"'{binding}' binds {len(items)} values, and '{value}' has {len(values)}", binding.span)
    for one, inner in zip(items, values, strict=False):
        if one.kind == "vector":
            raise text.unsupported("bindings within tuples are not supported; bind variables", one.span)
        yield from _scalar(text, one, inner, is_data)


def _scalar(text: Text, binding: Form, value: Form, is_data: bool) -> Iterator[Clause]:
    if binding.is_blank:
        return
    if not binding.is_variable:
        what = f"expected a binding such as ?x, [?x ?y], [?x ...] or [[?x ?y]], and found '{binding}'"
        raise text.error(what, binding.span)
    yield Function(
        "identity", (_constant(text, binding, value, is_data),), Var(binding.value, span=binding.span), binding.span
    )


def _constant(text: Text, binding: Form, value: Form, is_data: bool) -> Const:
    from gpu_wcoj.query.edn.where import constant

    if value.kind in ("vector", "list", "map", "set", "nil", "char", "symbol"):
        raise text.error(f"'{binding}' binds one value, and '{value}' is none", binding.span)
    found = constant(text, value)
    return replace(found, type=TEXT) if is_data and found.type == "string" else found


def _elements(text: Text, binding: Form, value: Form, what: str, ordered: bool = False) -> Sequence[Form]:
    if value.kind == "map" and not ordered:
        pairs = zip(value.value[::2], value.value[1::2], strict=True)
        return [Form("vector", pair, value.span) for pair in pairs]
    if value.kind not in (("list", "vector") if ordered else ("list", "vector", "set")):
        raise text.error(f"'{binding}' binds {what}, and '{value}' is none", binding.span)
    return value.value  # type: ignore[no-any-return]  # forms, as it is a collection


def _rows(
    reader: Clauses, text: Text, binding: Form, columns: Sequence[Form], rows: Sequence[Sequence[Form]], is_data: bool
) -> Rows:
    terms: list[Var | Blank] = []
    for one in columns:
        if not one.is_variable and not one.is_blank:
            raise text.error(f"expected a variable or '_' in a binding, and found '{one}'", one.span)
        terms.append(Var(one.value, span=one.span) if one.is_variable else Blank(one.span))
    types: list[str | None] = [None] * len(columns)
    found = []
    for row in rows:
        constants = [_constant(text, binding, one, is_data) for one in row]
        for number, value in enumerate(constants):
            known = types[number] = types[number] or value.type
            if known != value.type:
                what = f"'{columns[number]}' would bind values of type {known} and of type {value.type}, as {value}"
                raise text.error(what, binding.span)
        found.append(tuple(_held(one) for one in constants))
    return Rows(reader.rows(found), tuple(terms), tuple(types), binding.span)


def _held(constant: Const) -> Any:
    """What an input's row holds."""
    if constant.type == "instant":
        return datetime.fromisoformat(str(constant.value))
    return constant.value


def data_form(data: Any, depth: int = 0) -> Form:
    """An argument as a form: its strings are texts, whatever they look like.

    Raises
    ------
    ValueError
        If it has no place in a query; with what it is.
    """
    if isinstance(data, Form):
        return data
    if depth > 3:
        raise ValueError("it nests too deep for a binding")
    if data is None:
        raise ValueError("None is no value; leave such rows out")
    data = as_python(data)
    of = type(data)  # no subclass: of an enumeration or another library's time, only a part would be taken
    if of is bool:
        return Form("bool", data)
    if of is int:
        if not -(2**63) <= data < 2**63:
            raise ValueError(f"integer {data} is outside int64, -2^63 to 2^63-1")
        return Form("int", data)
    if of is float:
        if not math.isfinite(data):
            raise ValueError(f"{data} is no finite number")
        return Form("float", data)
    if of is str:
        if any(0xD800 <= ord(one) < 0xE000 for one in data):
            raise ValueError(f"{data!r:.80} has half a surrogate pair in it")
        return Form("string", data)
    if of is datetime:
        if data.utcoffset() is None:
            raise ValueError(f"{data.isoformat()} has no time zone")
        return Form("inst", data.astimezone(UTC))
    if isinstance(data, uuid.UUID):
        return Form("uuid", data)
    if isinstance(data, Mapping):
        items = [data_form(one, depth + 1) for pair in data.items() for one in pair]
        return Form("map", tuple(items), Span())
    if isinstance(data, (set, frozenset)):
        return Form("set", tuple(data_form(one, depth + 1) for one in data), Span())
    if isinstance(data, (list, tuple)):
        return Form("vector", tuple(data_form(one, depth + 1) for one in data), Span())
    raise ValueError(f"a value of type '{type(data).__name__}' has no place in a query: {data!r:.80}")

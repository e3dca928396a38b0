"""Bindings ``?x``, ``[?x ?y]``, ``[?x ...]`` and ``[[?x ?y]]`` of ``:in`` and ``ground``."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from gpu_wcoj.data.rows import as_python
from gpu_wcoj.query.edn.ast import Blank, Clause, Const, Function, Rows, Text, Var
from gpu_wcoj.query.edn.forms import Form
from gpu_wcoj.query.edn.sources import TEXT
from gpu_wcoj.query.ir import Span

if TYPE_CHECKING:
    from gpu_wcoj.query.edn.parse import ClauseReader


def bind(reader: ClauseReader, text: Text, binding: Form, value: Form, is_data: bool = False) -> Iterator[Clause]:
    """Yield the clauses by which a binding destructures a value.

    Parameters
    ----------
    is_data
        True if the value comes from Python, where a keyword is a text.
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
            singles = [(element,) for element in _elements(text, binding, value, "a collection")]
            yield _rows(reader, text, binding, (items[0],), singles, is_data)
            return
    if len(items) == 1 and items[0].kind == "vector":
        columns = items[0].value
        rows = []
        for element in _elements(text, binding, value, "a relation, a collection of tuples"):
            rows.append(tuple(_elements(text, binding, element, "a relation, a collection of tuples", ordered=True)))
            if len(rows[-1]) != len(columns):
                what = f"'{items[0]}' binds {len(columns)} values, but '{element}' has {len(rows[-1])}"
                raise text.error(what, binding.span)
        if not columns:
            raise text.error("this binding is empty", binding.span)
        yield _rows(reader, text, binding, columns, rows, is_data)
        return
    values = _elements(text, binding, value, "a tuple", ordered=True)
    if len(values) < len(items):
        raise text.error(f"'{binding}' binds {len(items)} values, but '{value}' has {len(values)}", binding.span)
    for item, element in zip(items, values, strict=False):
        if item.kind == "vector":
            raise text.unsupported("bindings within tuples are not supported; bind variables", item.span)
        yield from _scalar(text, item, element, is_data)


def _scalar(text: Text, binding: Form, value: Form, is_data: bool) -> Iterator[Clause]:
    if binding.is_blank:
        return
    if not binding.is_variable:
        what = f"expected a binding such as ?x, [?x ?y], [?x ...] or [[?x ?y]], got '{binding}'"
        raise text.error(what, binding.span)
    yield Function(
        "identity", (_constant(text, binding, value, is_data),), Var(binding.value, span=binding.span), binding.span
    )


def _constant(text: Text, binding: Form, value: Form, is_data: bool) -> Const:
    from gpu_wcoj.query.edn.parse import constant

    if value.kind in ("vector", "list", "map", "set", "nil", "char", "symbol"):
        raise text.error(f"'{binding}' binds a single value: got '{value}'", binding.span)
    const = constant(text, value)
    return replace(const, type=TEXT) if is_data and const.type == "string" else const


def _elements(text: Text, binding: Form, value: Form, what: str, ordered: bool = False) -> Sequence[Form]:
    if value.kind == "map" and not ordered:
        pairs = zip(value.value[::2], value.value[1::2], strict=True)
        return [Form("vector", pair, value.span) for pair in pairs]
    if value.kind not in (("list", "vector") if ordered else ("list", "vector", "set")):
        raise text.error(f"'{binding}' binds {what}: got '{value}'", binding.span)
    return value.value  # type: ignore[no-any-return]  # forms, as it is a collection


def _rows(
    reader: ClauseReader,
    text: Text,
    binding: Form,
    columns: Sequence[Form],
    rows: Sequence[Sequence[Form]],
    is_data: bool,
) -> Rows:
    terms: list[Var | Blank] = []
    for column in columns:
        if not column.is_variable and not column.is_blank:
            raise text.error(f"expected a variable or '_' in a binding, got '{column}'", column.span)
        terms.append(Var(column.value, span=column.span) if column.is_variable else Blank(column.span))
    types: list[str | None] = [None] * len(columns)
    input_rows = []
    for row in rows:
        constants = [_constant(text, binding, element, is_data) for element in row]
        for column_index, value in enumerate(constants):
            type_ = types[column_index] = types[column_index] or value.type
            if type_ != value.type:
                what = (
                    f"'{columns[column_index]}' would bind values of type {type_} and of type {value.type}, as {value}"
                )
                raise text.error(what, binding.span)
        input_rows.append(tuple(_row_value(const) for const in constants))
    return Rows(reader.add_rows(input_rows), tuple(terms), tuple(types), binding.span)


def _row_value(constant: Const) -> Any:
    """Return the value that a constant has in a row of an input."""
    if constant.type == "instant":
        return datetime.fromisoformat(str(constant.value))
    return constant.value


def data_form(data: Any, depth: int = 0) -> Form:
    """Convert an argument to a form; strings are always texts.

    Raises
    ------
    ValueError
        If the value cannot be used in a query; the message names its type.
    """
    if isinstance(data, Form):
        return data
    if depth > 3:
        raise ValueError("it nests deeper than a binding can (3 levels)")
    if data is None:
        raise ValueError("None is not a value; remove such rows")
    data = as_python(data)
    data_type = type(data)  # not subclasses: of an enumeration or another library's time, a part would be lost
    if data_type is bool:
        return Form("bool", data)
    if data_type is int:
        if not -(2**63) <= data < 2**63:
            raise ValueError(f"integer {data} is outside int64, -2^63 to 2^63-1")
        return Form("int", data)
    if data_type is float:
        if not math.isfinite(data):
            raise ValueError(f"{data} is not a finite number")
        return Form("float", data)
    if data_type is str:
        if any(0xD800 <= ord(char) < 0xE000 for char in data):
            raise ValueError(f"{data!r:.80} contains an unpaired surrogate")
        return Form("string", data)
    if data_type is datetime:
        if data.utcoffset() is None:
            raise ValueError(f"{data.isoformat()} has no time zone")
        return Form("inst", data.astimezone(UTC))
    if isinstance(data, uuid.UUID):
        return Form("uuid", data)
    if isinstance(data, Mapping):
        items = [data_form(item, depth + 1) for pair in data.items() for item in pair]
        return Form("map", tuple(items), Span())
    if isinstance(data, (set, frozenset)):
        return Form("set", tuple(data_form(item, depth + 1) for item in data), Span())
    if isinstance(data, (list, tuple)):
        return Form("vector", tuple(data_form(item, depth + 1) for item in data), Span())
    raise ValueError(f"a value of type '{type(data).__name__}' cannot be used in a query: {data!r:.80}")

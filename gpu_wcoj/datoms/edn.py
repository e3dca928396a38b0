"""Transactions and schemas in EDN, as Python data with distinct keywords and texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpu_wcoj.datoms.values import Keyword, Text
from gpu_wcoj.errors import EdnSyntaxError, pointed
from gpu_wcoj.query.edn.forms import Form
from gpu_wcoj.query.edn.reader import read

_NO_VALUE = {"symbol": "a symbol", "char": "a character"}


def read_forms(text: str, source: str = "<text>") -> tuple[list[Any], Callable[[int, str], str]]:
    """Read the forms of a transaction; return them and a function that points at a form.

    Raises
    ------
    EdnSyntaxError
        If the text cannot be read or is not a list of forms.

    Examples
    --------
    >>> read_forms('[[:db/add 1 :color :red] {:db/id 2, :name "Ann"}]')[0][1]
    {Keyword(text=':db/id'): 2, Keyword(text=':name'): 'Ann'}
    """
    form = read(text, source=source)
    if not form.is_sequence:
        what = f'a transaction is a vector of forms, [[:db/add 1 :person/name "Ann"]], got a {form.kind}'
        raise EdnSyntaxError(what, text, form.span.line, form.span.column, form.span.width, source)

    def point_at(place: int, what: str) -> str:
        span = form.value[place].span
        return pointed(what, text, span.line, span.column, span.width, source)

    return [_data(item, text, source) for item in form.value], point_at


def read_schema_text(text: str, source: str = "<text>") -> Any:
    """Read the EDN text of a schema as input of `read_schema`.

    Examples
    --------
    >>> read_schema_text("{:g/to {:db/valueType :db.type/ref}}")
    {Keyword(text=':g/to'): {Keyword(text=':db/valueType'): Keyword(text=':db.type/ref')}}
    """
    return _data(read(text, source=source), text, source)


def _data(form: Form, text: str, source: str) -> Any:
    if form.kind == "keyword":
        return Keyword(form.value)
    if form.kind == "string":
        return Text(form.value)
    if form.kind in ("list", "vector", "set"):  # Python sets treat 1 and True as equal
        return [_data(item, text, source) for item in form.value]
    if form.kind == "map":
        for key in form.value[::2]:
            if key.kind != "keyword":
                raise _error(f"expected a keyword for the key of a map, got {key.kind} '{key}'", key, text, source)
        pairs = zip(form.value[::2], form.value[1::2], strict=True)
        return {Keyword(key.value): _data(value, text, source) for key, value in pairs}
    if form.kind in _NO_VALUE:
        raise _error(f"{_NO_VALUE[form.kind]} cannot be the value of a datom", form, text, source)
    return form.value


def _error(what: str, form: Form, text: str, source: str) -> EdnSyntaxError:
    return EdnSyntaxError(what, text, form.span.line, form.span.column, form.span.width, source)

"""Transactions and schemas in EDN, as Python's data with keywords told apart from texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpu_wcoj.datoms.values import Keyword, Text
from gpu_wcoj.errors import EdnSyntaxError, pointed
from gpu_wcoj.query.edn.forms import Form
from gpu_wcoj.query.edn.reader import read

_NO_VALUE = {"symbol": "a symbol", "char": "a character"}


def forms_of(text: str, source: str = "<text>") -> tuple[list[Any], Callable[[int, str], str]]:
    """The forms of a transaction, and what marks one of them in the text.

    Raises
    ------
    EdnSyntaxError
        If the text cannot be read or is no list of forms.

    Examples
    --------
    >>> forms_of('[[:db/add 1 :color :red] {:db/id 2, :name "Ann"}]')[0][1]
    {Keyword(text=':db/id'): 2, Keyword(text=':name'): 'Ann'}
    """
    form = read(text, source=source)
    if not form.is_sequence:
        what = f'a transaction is a vector of forms, [[:db/add 1 :person/name "Ann"]], and this is a {form.kind}'
        raise EdnSyntaxError(what, text, form.span.line, form.span.column, form.span.width, source)

    def at(place: int, what: str) -> str:
        span = form.value[place].span
        return pointed(what, text, span.line, span.column, span.width, source)

    return [_data(one, text, source) for one in form.value], at


def schema_of(text: str, source: str = "<text>") -> Any:
    """A schema as `read_schema` takes it.

    Examples
    --------
    >>> schema_of("{:g/to {:db/valueType :db.type/ref}}")
    {Keyword(text=':g/to'): {Keyword(text=':db/valueType'): Keyword(text=':db.type/ref')}}
    """
    return _data(read(text, source=source), text, source)


def _data(form: Form, text: str, source: str) -> Any:
    if form.kind == "keyword":
        return Keyword(form.value)
    if form.kind == "string":
        return Text(form.value)
    if form.kind in ("list", "vector", "set"):  # Python would take 1 and true for one element of a set
        return [_data(one, text, source) for one in form.value]
    if form.kind == "map":
        for key in form.value[::2]:
            if key.kind != "keyword":
                raise _wrong(
                    f"expected a keyword for the key of a map, and found {key.kind} '{key}'", key, text, source
                )
        pairs = zip(form.value[::2], form.value[1::2], strict=True)
        return {Keyword(key.value): _data(value, text, source) for key, value in pairs}
    if form.kind in _NO_VALUE:
        raise _wrong(f"{_NO_VALUE[form.kind]} is no value of a datom", form, text, source)
    return form.value


def _wrong(what: str, form: Form, text: str, source: str) -> EdnSyntaxError:
    return EdnSyntaxError(what, text, form.span.line, form.span.column, form.span.width, source)

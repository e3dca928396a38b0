"""Serialization of rules: Datalog text if it can spell them, else JSON."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from decimal import Decimal
from typing import Any, Final

from gpu_wcoj.query.datalog import parse
from gpu_wcoj.query.ir import Aggregate, Atom, Call, Comparison, Constant, Variable
from gpu_wcoj.query.printer import as_datalog
from gpu_wcoj.query.rules import Computed, Declaration, Directive, Extreme, Facts, Grouping, Rule, Rules

_KIND = "kind"
_CLASSES: Final[dict[str, type[Any]]] = {
    piece_class.__name__: piece_class
    for piece_class in (
        Aggregate, Atom, Call, Comparison, Computed, Constant, Declaration, Directive, Extreme, Facts, Grouping, Rule,
        Rules, Variable,
    )
}  # fmt: skip
_LEFT_OUT = ("span", "text")
_OWN_KIND = "own_kind"
"""JSON key of a dataclass field that is itself named ``kind``; `_KIND` holds the class name."""


def serialize(rules: Rules) -> str:
    """Return a text of `rules` for `deserialize`: their source text if they have one.

    Examples
    --------
    >>> x = Variable("x")
    >>> text = serialize(Rules((Rule(Atom("h", (x,)), (Atom("once#1", (x,)),)),)))
    >>> print(deserialize(text))
    h(x) :- once#1(x).
    """
    if rules.text:
        return rules.text
    text = str(rules)
    is_plain = not (rules.groupings or rules.extremes or rules.facts) and _is_spelled(rules)
    is_datalog = is_plain and as_datalog(rules) == text
    return text if is_datalog else json.dumps(_plain(rules), ensure_ascii=True)


def _is_spelled(rules: Rules) -> bool:
    """Return whether a text can express the declarations: types in a text are binding."""
    return all(declaration.is_binding or not any(declaration.types) for declaration in rules.declarations)


def deserialize(text: str) -> Rules:
    """Return the rules of a text made by `serialize`."""
    if not text.startswith("{"):  # no Datalog text begins with it
        return parse(text)
    rules: Rules = _read(json.loads(text))
    return rules


def _plain(piece: Any) -> Any:
    if is_dataclass(piece):
        record = {_KIND: type(piece).__name__}
        return record | {
            _OWN_KIND if field.name == _KIND else field.name: _plain(getattr(piece, field.name))
            for field in fields(piece)
            if field.name not in _LEFT_OUT
        }
    if isinstance(piece, tuple):
        return [_plain(item) for item in piece]
    return {_KIND: "Decimal", "value": str(piece)} if isinstance(piece, Decimal) else piece


def _read(piece: Any) -> Any:
    if isinstance(piece, list):
        return tuple(_read(item) for item in piece)
    if not isinstance(piece, dict):
        return piece
    kind = piece[_KIND]
    if kind == "Decimal":
        return Decimal(piece["value"])
    arguments = {name: _read(value) for name, value in piece.items() if name != _KIND}
    if _OWN_KIND in arguments:
        arguments[_KIND] = arguments.pop(_OWN_KIND)
    return _CLASSES[kind](**arguments)

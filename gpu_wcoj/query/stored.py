"""Rules as a text that makes them again: Datalog where that can spell them, else JSON."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from decimal import Decimal
from typing import Any, Final

from gpu_wcoj.query.datalog import parse
from gpu_wcoj.query.printed import as_datalog
from gpu_wcoj.query.rules import Computed, Declaration, Directive, Extreme, Facts, Grouping, Rule, Rules
from gpu_wcoj.query.terms import Aggregate, Atom, Call, Comparison, Constant, Variable

_KIND = "kind"
_CLASSES: Final[dict[str, type[Any]]] = {
    one.__name__: one
    for one in (
        Aggregate, Atom, Call, Comparison, Computed, Constant, Declaration, Directive, Extreme, Facts, Grouping, Rule,
        Rules, Variable,
    )
}  # fmt: skip
_LEFT_OUT = ("span", "text")
_OWN_KIND = "own_kind"
"""The field ``kind`` of a piece that has one, beside which `_KIND` says what piece it is."""


def stored(rules: Rules) -> str:
    """A text of `rules` for `made_again`; their own where they have one.

    Examples
    --------
    >>> x = Variable("x")
    >>> text = stored(Rules((Rule(Atom("h", (x,)), (Atom("once#1", (x,)),)),)))
    >>> print(made_again(text))
    h(x) :- once#1(x).
    """
    if rules.text:
        return rules.text
    text = str(rules)
    is_plain = not (rules.groupings or rules.extremes or rules.facts) and _is_spelled(rules)
    is_datalog = is_plain and as_datalog(rules) == text
    return text if is_datalog else json.dumps(_plain(rules), ensure_ascii=True)


def _is_spelled(rules: Rules) -> bool:
    """Whether the text of the declarations means them: types in a text bind."""
    return all(one.is_binding or not any(one.types) for one in rules.declarations)


def made_again(text: str) -> Rules:
    """The rules of a text of `stored`."""
    if not text.startswith("{"):  # with which no text in Datalog begins
        return parse(text)
    found: Rules = _read(json.loads(text))
    return found


def _plain(piece: Any) -> Any:
    if is_dataclass(piece):
        found = {_KIND: type(piece).__name__}
        return found | {
            _OWN_KIND if one.name == _KIND else one.name: _plain(getattr(piece, one.name))
            for one in fields(piece)
            if one.name not in _LEFT_OUT
        }
    if isinstance(piece, tuple):
        return [_plain(one) for one in piece]
    return {_KIND: "Decimal", "value": str(piece)} if isinstance(piece, Decimal) else piece


def _read(piece: Any) -> Any:
    if isinstance(piece, list):
        return tuple(_read(one) for one in piece)
    if not isinstance(piece, dict):
        return piece
    kind = piece[_KIND]
    if kind == "Decimal":
        return Decimal(piece["value"])
    given = {name: _read(value) for name, value in piece.items() if name != _KIND}
    if _OWN_KIND in given:
        given[_KIND] = given.pop(_OWN_KIND)
    return _CLASSES[kind](**given)

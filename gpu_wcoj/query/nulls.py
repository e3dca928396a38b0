"""Checks of null and null-safe variables in rules.

Null is the absence of a value: it takes part in no calculation and no comparison, except in null-aware functions and
their arguments. A rule can test for null in an atom (``r(x, null)``) or of a variable (``x = null``, ``x != null``),
and a head can hold null. For a null-safe variable, ``x?``, null equals null: rows with null join each other, and a
negated atom can match them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gpu_wcoj.errors import UnsupportedError
from gpu_wcoj.query.ir import NULL, Aggregate, Call, Comparison, Expression, Span, Variable, variables_of
from gpu_wcoj.query.rules import Rule
from gpu_wcoj.query.safety import applied, inner_aggregates, standing

_Point = Callable[[str, Span], str]


def check_nulls(rule: Rule, point: _Point) -> None:
    """Raise for null or a null-safe variable in a place that needs a value.

    Parameters
    ----------
    point
        Returns a message with the place that it points at.

    Raises
    ------
    UnsupportedError
        If it is an operand of a calculation, an aggregate or a comparison; if a calculated value is tested for null;
        or if a variable occurs both with and without its ``?``.
    """
    _check_spelled(rule, point)
    for _, call in applied(rule.head):
        for value in call.arguments:
            _check_value(value, f"'{call}' aggregates it", call.span if call.span.line else rule.head.span, point)
    _check_body(rule, point)


def _check_spelled(rule: Rule, point: _Point) -> None:
    names = dict.fromkeys(variable.name for body in _bodies(rule) for variable in standing(body))
    for name in names:
        if name.endswith("?") and name[:-1] in names:
            what = f"'{name[:-1]}' stands here with and without '?'; write it one way in all of a rule"
            raise UnsupportedError(point(what, rule.head.span))


def _bodies(body: Rule | Aggregate) -> Iterator[Rule | Aggregate]:
    yield body
    for aggregate in inner_aggregates(body):
        yield from _bodies(aggregate)


def _check_body(body: Rule | Aggregate, point: _Point) -> None:
    bound = {term for atom in body.atoms for term in atom.terms if isinstance(term, Variable)}
    placed_terms = [(term, atom.span) for atom in (*body.atoms, *body.negated) for term in atom.terms]
    if isinstance(body, Rule):
        placed_terms += [(term, body.head.span) for term in body.head.terms]
    elif body.value is not None:
        _check_value(body.value, f"'{body.op}' aggregates it", body.span, point)
    for term, span in placed_terms:
        _check_calls(term, span, point)
    for comparison in body.comparisons:
        _check_comparison(comparison, bound, isinstance(body, Aggregate), point)
    for aggregate in inner_aggregates(body):
        _check_body(aggregate, point)


def _check_calls(expression: Expression, span: Span, point: _Point) -> None:
    """Check the calculations in an expression."""
    if not isinstance(expression, Call) or expression.takes_nulls:
        return
    span = expression.span if expression.span.line else span
    for argument in expression.arguments:
        _check_value(argument, f"'{expression}' calculates with it", span, point)


def _check_value(expression: Expression, why: str, span: Span, point: _Point) -> None:
    """Check that an expression cannot be null."""
    if expression == NULL:
        raise UnsupportedError(point(f"null has no value, and {why}; leave it out", span))
    for variable in variables_of([expression]):
        if variable.is_null_safe:
            what = f"'{variable}' may be null, and {why}; write '{variable.name[:-1]}' for the rows that have a value"
            raise UnsupportedError(point(what, span))
    _check_calls(expression, span, point)


def _check_comparison(comparison: Comparison, bound: set[Variable], is_within: bool, point: _Point) -> None:
    op, span = comparison.op, comparison.span
    if not comparison.is_null_test:
        for side in (comparison.left, comparison.right):
            if isinstance(side, Variable) and side.is_null_safe:
                what = f"'{side}' may be null, and cannot be compared: write '{side.name[:-1]}' for rows with a value"
                raise UnsupportedError(point(f"{what}, or '{side} = null'", span))
            _check_calls(side, span, point)
        return
    tested = comparison.right if comparison.left == NULL else comparison.left
    text = f"'{comparison}'"
    if op not in ("=", "!="):
        raise UnsupportedError(point(f"{text}: null has no order; = and != ask for it", span))
    if not isinstance(tested, (Variable, Call, Aggregate)):
        raise UnsupportedError(point(f"{text} asks a constant for null; leave it out", span))
    _check_calls(tested, span, point)
    if op == "!=" or tested in bound or (isinstance(tested, Call) and tested.takes_nulls):
        return
    if isinstance(tested, Variable) and is_within:
        what = f"{text} asks for null of what the braces do not bind; ask outside of them"
    elif isinstance(tested, Variable):
        what = f"{text} asks for null of what no relation binds, which has a value; ask what it is made of"
    else:
        what = f"{text} asks for null of what is calculated, which has a value; ask the variables that it is made of"
    raise UnsupportedError(point(what, span))

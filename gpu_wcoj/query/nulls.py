"""What null and null-safe variables can do in a rule, and what not.

Null is no value: nothing is calculated with it, and it compares with nothing; only null-aware functions take it, and
what stands in their arguments. It can be asked for, in an atom
(``r(x, null)``) or of a variable (``x = null``, ``x != null``), and a head can hold it. For a null-safe variable,
``x?``, it equals itself: rows without a value join each other, and are what a negated atom can hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gpu_wcoj.errors import UnsupportedError
from gpu_wcoj.query.binding import applied, inner_aggregates, standing
from gpu_wcoj.query.rules import Rule
from gpu_wcoj.query.terms import NULL, Aggregate, Call, Comparison, Expression, Span, Variable, variables_of

_At = Callable[[str, Span], str]


def check_nulls(rule: Rule, at: _At) -> None:
    """Raise for null, or a null-safe variable, where a value is needed.

    Parameters
    ----------
    at
        Puts a message and a place together.

    Raises
    ------
    UnsupportedError
        If something is calculated, aggregated or compared with it; if null is asked of what is calculated; or if a
        variable stands both with and without its ``?``.
    """
    _check_spelled(rule, at)
    for _, call in applied(rule.head):
        for value in call.arguments:
            _check_value(value, f"'{call}' aggregates it", call.span if call.span.line else rule.head.span, at)
    _check_body(rule, at)


def _check_spelled(rule: Rule, at: _At) -> None:
    names = dict.fromkeys(variable.name for body in _bodies(rule) for variable in standing(body))
    for name in names:
        if name.endswith("?") and name[:-1] in names:
            what = f"'{name[:-1]}' stands here with and without '?'; write it one way in all of a rule"
            raise UnsupportedError(at(what, rule.head.span))


def _bodies(body: Rule | Aggregate) -> Iterator[Rule | Aggregate]:
    yield body
    for aggregate in inner_aggregates(body):
        yield from _bodies(aggregate)


def _check_body(body: Rule | Aggregate, at: _At) -> None:
    bound = {term for atom in body.atoms for term in atom.terms if isinstance(term, Variable)}
    placed_terms = [(term, atom.span) for atom in (*body.atoms, *body.negated) for term in atom.terms]
    if isinstance(body, Rule):
        placed_terms += [(term, body.head.span) for term in body.head.terms]
    elif body.value is not None:
        _check_value(body.value, f"'{body.op}' aggregates it", body.span, at)
    for term, span in placed_terms:
        _check_calls(term, span, at)
    for comparison in body.comparisons:
        _check_comparison(comparison, bound, isinstance(body, Aggregate), at)
    for aggregate in inner_aggregates(body):
        _check_body(aggregate, at)


def _check_calls(expression: Expression, span: Span, at: _At) -> None:
    """Check what is calculated in an expression."""
    if not isinstance(expression, Call) or expression.takes_nulls:
        return
    span = expression.span if expression.span.line else span
    for argument in expression.arguments:
        _check_value(argument, f"'{expression}' calculates with it", span, at)


def _check_value(expression: Expression, why: str, span: Span, at: _At) -> None:
    """Check that an expression has a value wherever it stands."""
    if expression == NULL:
        raise UnsupportedError(at(f"null is no value, and {why}; leave it out", span))
    for variable in variables_of([expression]):
        if variable.is_null_safe:
            what = f"'{variable}' may be null, and {why}; write '{variable.name[:-1]}' for the rows that have a value"
            raise UnsupportedError(at(what, span))
    _check_calls(expression, span, at)


def _check_comparison(comparison: Comparison, bound: set[Variable], is_within: bool, at: _At) -> None:
    op, span = comparison.op, comparison.span
    if not comparison.is_null_test:
        for side in (comparison.left, comparison.right):
            if isinstance(side, Variable) and side.is_null_safe:
                what = f"'{side}' may be null, and cannot be compared: write '{side.name[:-1]}' for rows with a value"
                raise UnsupportedError(at(f"{what}, or '{side} = null'", span))
            _check_calls(side, span, at)
        return
    tested = comparison.right if comparison.left == NULL else comparison.left
    text = f"'{comparison}'"
    if op not in ("=", "!="):
        raise UnsupportedError(at(f"{text}: null has no order; = and != ask for it", span))
    if not isinstance(tested, (Variable, Call, Aggregate)):
        raise UnsupportedError(at(f"{text} asks a constant for null; leave it out", span))
    _check_calls(tested, span, at)
    if op == "!=" or tested in bound or (isinstance(tested, Call) and tested.takes_nulls):
        return
    if isinstance(tested, Variable) and is_within:
        what = f"{text} asks for null of what the braces do not bind; ask outside of them"
    elif isinstance(tested, Variable):
        what = f"{text} asks for null of what no relation binds, which has a value; ask what it is made of"
    else:
        what = f"{text} asks for null of what is calculated, which has a value; ask the variables that it is made of"
    raise UnsupportedError(at(what, span))

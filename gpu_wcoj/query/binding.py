"""What binds the variables of a rule: its relations, and equality with what is bound or calculated from it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from gpu_wcoj.query.rules import Rule
from gpu_wcoj.query.terms import (
    AGGREGATES,
    Aggregate,
    Atom,
    Call,
    Comparison,
    Expression,
    Variable,
    aggregates_of,
    variables_of,
)


def bound_variables(
    body: Rule | Aggregate, outside: Collection[Variable] = (), given: Iterable[Variable] = ()
) -> set[Variable]:
    """The variables that the relations of a body bind, or equality with what can be worked out from bound ones.

    Parameters
    ----------
    body
        A rule, or the braces of an aggregate.
    outside
        What stands outside of the braces of the body's aggregates; see `standing`.
    given
        What is bound already.

    Examples
    --------
    >>> from gpu_wcoj.query.terms import Constant
    >>> x, y, z = map(Variable, "xyz")
    >>> equal = (Comparison("=", z, Call("+", (y, x))), Comparison("=", y, Constant(5)))
    >>> rule = Rule(Atom("h", (x, y)), (Atom("r", (x,)),), equal)
    >>> sorted(map(str, bound_variables(rule)))
    ['x', 'y', 'z']
    """
    bound = {term for atom in body.atoms for term in atom.terms if isinstance(term, Variable)}
    bound.update(given)
    waiting: dict[Variable, list[tuple[Variable, set[Variable]]]] = {}
    ready: list[Variable] = []
    for variable, expression in definitions(body.comparisons):
        missing = needed(expression, outside) - bound
        if variable in bound:
            continue
        if not missing:
            ready.append(variable)
        for dependency in missing:
            waiting.setdefault(dependency, []).append((variable, missing))
    while ready:
        new = ready.pop()
        bound.add(new)
        for variable, missing in waiting.pop(new, ()):
            missing.discard(new)
            if not missing and variable not in bound:
                ready.append(variable)
    return bound


def definitions(comparisons: Iterable[Comparison]) -> Iterator[tuple[Variable, Expression]]:
    """(variable, expression) of each equality that may bind the variable."""
    for comparison in comparisons:
        if comparison.op == "=" and not comparison.is_null_test:
            for side, opposite in ((comparison.left, comparison.right), (comparison.right, comparison.left)):
                if isinstance(side, Variable):
                    yield side, opposite


def needed(expression: Expression, outside: Collection[Variable]) -> set[Variable]:
    """The variables that must be bound before an expression can be worked out: also the keys of its aggregates."""
    keys = (key for aggregate in aggregates_of([expression]) for key in keys_of(aggregate, outside))
    return {*variables_of([expression]), *keys}


def keys_of(aggregate: Aggregate, outside: Collection[Variable]) -> tuple[Variable, ...]:
    """The variables of an aggregate that also stand outside of its braces, in the order in which they first stand."""
    return tuple(variable for variable in within(aggregate) if variable in outside)


def within(aggregate: Aggregate) -> tuple[Variable, ...]:
    """All variables in the braces of an aggregate, also in those of aggregates inside."""
    variables = dict.fromkeys(standing(aggregate))
    for inner in inner_aggregates(aggregate):
        variables.update(dict.fromkeys(within(inner)))
    return tuple(variables)


def standing(body: Rule | Aggregate) -> tuple[Variable, ...]:
    """The variables of a rule that stand outside of all braces; of an aggregate, outside of those of inner ones."""
    return variables_of(expressions(body))


def inner_aggregates(body: Rule | Aggregate) -> tuple[Aggregate, ...]:
    """The aggregates of a rule or in the braces of an aggregate; not those within these."""
    return tuple(aggregates_of(expressions(body)))


def expressions(body: Rule | Aggregate) -> Sequence[Expression]:
    """All that stands in a rule, its head included, or in the braces of an aggregate, its value included."""
    parts: list[Expression] = []
    if isinstance(body, Rule):
        parts += body.head.terms
        for computed in body.computed:
            parts += [computed.variable, computed.call]
    elif body.value is not None:
        parts.append(body.value)
    for atom in (*body.atoms, *body.negated):
        parts += atom.terms
    for comparison in body.comparisons:
        parts += [comparison.left, comparison.right]
    return parts


def applied(head: Atom) -> list[tuple[int, Call]]:
    """The aggregates that a head applies to its body, with their columns.

    Examples
    --------
    >>> [(column, str(call)) for column, call in applied(Atom("total", (Variable("x"), Call("sum", (Variable("v"),)))))]
    [(1, 'sum(v)')]
    """
    return [
        (column, term) for column, term in enumerate(head.terms) if isinstance(term, Call) and term.op in AGGREGATES
    ]

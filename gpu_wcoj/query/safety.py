"""Range restriction: which variables of a rule its relations and equalities bind."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from gpu_wcoj.query.ir import (
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
from gpu_wcoj.query.rules import Rule


def bound_variables(
    body: Rule | Aggregate, outside: Collection[Variable] = (), already_bound: Iterable[Variable] = ()
) -> set[Variable]:
    """Return the variables that a body binds, by relations or by equality.

    Parameters
    ----------
    body
        A rule, or the braces of an aggregate.
    outside
        The variables outside of the braces of the body's aggregates; see `standing`.
    already_bound
        Variables that are bound before the body is read.

    Examples
    --------
    >>> from gpu_wcoj.query.ir import Constant
    >>> x, y, z = map(Variable, "xyz")
    >>> equal = (Comparison("=", z, Call("+", (y, x))), Comparison("=", y, Constant(5)))
    >>> rule = Rule(Atom("h", (x, y)), (Atom("r", (x,)),), equal)
    >>> sorted(map(str, bound_variables(rule)))
    ['x', 'y', 'z']
    """
    bound = {term for atom in body.atoms for term in atom.terms if isinstance(term, Variable)}
    bound.update(already_bound)
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
    """Yield (variable, expression) for each equality that may bind the variable."""
    for comparison in comparisons:
        if comparison.op == "=" and not comparison.is_null_test:
            for side, opposite in ((comparison.left, comparison.right), (comparison.right, comparison.left)):
                if isinstance(side, Variable):
                    yield side, opposite


def needed(expression: Expression, outside: Collection[Variable]) -> set[Variable]:
    """Return the variables that an expression needs bound, the keys of its aggregates included."""
    keys = (key for aggregate in aggregates_of([expression]) for key in keys_of(aggregate, outside))
    return {*variables_of([expression]), *keys}


def keys_of(aggregate: Aggregate, outside: Collection[Variable]) -> tuple[Variable, ...]:
    """Return the variables of an aggregate that also occur outside of its braces."""
    return tuple(variable for variable in within(aggregate) if variable in outside)


def within(aggregate: Aggregate) -> tuple[Variable, ...]:
    """Return all variables in the braces of an aggregate, those of nested aggregates included."""
    variables = dict.fromkeys(standing(aggregate))
    for inner in inner_aggregates(aggregate):
        variables.update(dict.fromkeys(within(inner)))
    return tuple(variables)


def standing(body: Rule | Aggregate) -> tuple[Variable, ...]:
    """Return the variables of a rule or aggregate outside of the braces of inner aggregates."""
    return variables_of(expressions(body))


def inner_aggregates(body: Rule | Aggregate) -> tuple[Aggregate, ...]:
    """Return the aggregates directly in a rule or aggregate, without nested ones."""
    return tuple(aggregates_of(expressions(body)))


def expressions(body: Rule | Aggregate) -> Sequence[Expression]:
    """Return all expressions of a rule with its head, or of an aggregate with its value."""
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
    """Return the aggregates that a head applies to its body, as (column, call).

    Examples
    --------
    >>> [(column, str(call)) for column, call in applied(Atom("total", (Variable("x"), Call("sum", (Variable("v"),)))))]
    [(1, 'sum(v)')]
    """
    return [
        (column, term) for column, term in enumerate(head.terms) if isinstance(term, Call) and term.op in AGGREGATES
    ]

"""Range restriction and nulls: variables that a rule binds, and those that may be null."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from gpu_wcoj.errors import UnsupportedError
from gpu_wcoj.query.ir import (
    AGGREGATES,
    NULL,
    Aggregate,
    Atom,
    Call,
    Comparison,
    Constant,
    Expression,
    Rule,
    Rules,
    Span,
    Variable,
    aggregates_of,
    variables_of,
)

Piece = TypeVar("Piece", bound=Rule | Atom | Comparison | Expression)


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


def occurrences(piece: Rule | Expression) -> Iterator[Variable]:
    """Yield a variable for each of its occurrences, the braces of aggregates included."""
    if isinstance(piece, Variable):
        yield piece
    elif not isinstance(piece, Constant):
        for part in piece.arguments if isinstance(piece, Call) else expressions(piece):
            yield from occurrences(part)


def rewritten(
    piece: Piece, variable: Callable[[Variable], Expression], read: Callable[[Atom], Atom] = lambda atom: atom
) -> Piece:
    """Return a rule or a part of one with other variables, and other atoms in bodies.

    Examples
    --------
    >>> from gpu_wcoj.query.datalog import parse
    >>> (rule,) = parse("p(x, n) :- e(x, y), n = sum z : { e(y, z), z > x }.").rules
    >>> print(rewritten(rule, lambda variable: Variable(variable.name * 2)))
    p(xx, nn) :- e(xx, yy), nn = sum zz : { e(yy, zz), zz > xx }.
    """

    def part(inner: Any) -> Any:
        return rewritten(inner, variable, read)

    def parts(inner: Iterable[Any]) -> tuple[Any, ...]:
        return tuple(map(part, inner))

    old: Any = piece
    changed: Any = piece
    if isinstance(old, Variable):
        changed = variable(old)
    elif isinstance(old, Call):
        changed = replace(old, arguments=parts(old.arguments))
    elif isinstance(old, Atom):
        changed = replace(old, terms=parts(old.terms))
    elif isinstance(old, Comparison):
        changed = replace(old, left=part(old.left), right=part(old.right))
    elif isinstance(old, (Rule, Aggregate)):
        atoms, negated = parts(map(read, old.atoms)), parts(map(read, old.negated))
        changed = replace(old, atoms=atoms, comparisons=parts(old.comparisons), negated=negated)
        if isinstance(changed, Rule):
            changed = replace(changed, head=part(changed.head))
        elif changed.value is not None:
            changed = replace(changed, value=part(changed.value))
    return changed  # type: ignore[no-any-return]  # of the type of the piece; a variable may become a term


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


# Checks of null and null-safe variables in rules.
#
# Null is the absence of a value: it takes part in no calculation and no comparison, except in null-aware functions and
# their arguments. A rule can test for null in an atom (``r(x, null)``) or of a variable (``x = null``, ``x != null``),
# and a head can hold null. For a null-safe variable, ``x?``, null equals null: rows with null join each other, and a
# negated atom can match them.


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


# User-facing names of internal helper relations, which have a ``#`` in their names.


_ROW_HELPERS = ("in", "facts", "set", "cut")
"""Names after the ``#`` of helpers that hold rows of a single relation."""


def served_relation(rules: Rules, relation: str) -> str | None:
    """Return the relation of the text that a relation or helper serves, or None.

    A helper serves the only relation of the text that reads it, directly or through other helpers.

    Parameters
    ----------
    rules
        The program in core form.

    Examples
    --------
    >>> from gpu_wcoj.query.desugar import desugar
    >>> from gpu_wcoj.query.datalog import parse
    >>> rules = desugar(parse("h(x, n) :- r(x, _), n = min v : { r(x, v) }."))
    >>> served_relation(rules, "r"), served_relation(rules, "rule#1"), served_relation(rules, "r#in")
    ('r', 'h', 'r')
    """
    name, helper = relation.partition("#")[::2]
    if not helper or relation in rules.outputs:
        return relation
    if name and helper.rstrip("0123456789") in _ROW_HELPERS:
        return name
    readers: dict[str, list[str]] = {}
    for rule in rules.rules:
        for atom in rule.read:
            readers.setdefault(atom.relation, []).append(rule.head.relation)
    for without_rules in rules.helpers:
        readers.setdefault(without_rules.source, []).append(without_rules.relation)
    heads: set[str] = set()
    pending, seen = [relation], {relation}
    while pending:
        for head in readers.get(pending.pop(), ()):
            if "#" not in head or head in rules.outputs:
                heads.add(head)
            elif head not in seen:
                seen.add(head)
                pending.append(head)
    return heads.pop() if len(heads) == 1 else None


def describe_place(rules: Rules, relation: str, preposition: str) -> str:
    """Return a phrase for a relation in a message: its name, or the purpose of a helper.

    Examples
    --------
    >>> from gpu_wcoj.query.desugar import desugar
    >>> from gpu_wcoj.query.datalog import parse
    >>> rules = desugar(parse("h(x, n) :- r(x, _), n = min v : { r(x, v) }."))
    >>> describe_place(rules, "h", "of"), describe_place(rules, "agg#1", "of")
    ("of 'h'", "for 'h'")
    """
    name = served_relation(rules, relation)
    if name is None:
        return "in the query"
    is_helper = name != relation and not relation.startswith(f"{name}#")
    return f"for '{name}'" if is_helper else f"{preposition} '{name}'"


def describe_aggregate(relation: str, op: str) -> str:
    """Return the user-facing operation of a grouping; helpers that count only remove duplicates.

    Examples
    --------
    >>> describe_aggregate("h", "count"), describe_aggregate("count#2", "count"), describe_aggregate("once#2", "count")
    ('count', 'count', 'distinct rows')
    """
    name, helper = relation.partition("#")[::2]
    return op if not helper or name in (op, "agg", "avg") else "distinct rows"


def describe_column(rules: Rules, relation: str, column: int, name: str | None = None) -> str:
    """Return the user-facing name of a column or calculated variable.

    A calculated variable has the relation name ``number#variable``.

    Parameters
    ----------
    name
        The name of the column.

    Examples
    --------
    >>> from gpu_wcoj.query.desugar import desugar
    >>> from gpu_wcoj.query.datalog import parse
    >>> rules = desugar(parse("h(x, n) :- r(x, _), n = min v : { r(x, v) }."))
    >>> describe_column(rules, "r#in", 0), describe_column(rules, "agg#1", 1), describe_column(rules, "0#x", 0)
    ("relation 'r', column 0", "the min for 'h'", "the calculated 'x'")
    """
    prefix, calculated = relation.partition("#")[::2]
    if prefix.isdecimal():
        calls = {Variable(computed.variable.name): computed.call for computed in rules.rules[int(prefix)].computed}
        is_written = not calculated.startswith("#") or Variable(calculated) not in calls
        return f"the calculated '{calculated if is_written else _with_calls(Variable(calculated), calls)}'"
    served_name = served_relation(rules, relation)
    if served_name == prefix != relation:
        column = _narrowed_column(rules, relation, column)
    if served_name in (relation, prefix):
        return f"relation '{served_name}', column {column if name is None else name}"
    results = {(grouping.relation, grouping.keys): grouping.op for grouping in rules.groupings}
    op = results.get((relation, column))
    return f"{'a value' if op is None else f'the {op}'} {describe_place(rules, relation, 'of')}"


def _with_calls(expression: Expression, calls: Mapping[Variable, Call]) -> Expression:
    """Return an expression with calculations in place of the variables of core form."""
    if isinstance(expression, Variable) and expression.name.startswith("#") and expression in calls:
        expression = calls[expression]
    if not isinstance(expression, Call):
        return expression
    return replace(expression, arguments=tuple(_with_calls(part, calls) for part in expression.arguments))


def _narrowed_column(rules: Rules, relation: str, column: int) -> int:
    """Return the column of a relation for one of the helper that holds some of them."""
    for rule in rules.rules:
        if rule.head.relation == relation and len(rule.atoms) == 1 and rule.head.terms[column] in rule.atoms[0].terms:
            return rule.atoms[0].terms.index(rule.head.terms[column])
    return column

"""Nullable variables of a rule, by the null columns of its relations.

A variable that occurs once in a body, or is null-safe and occurs only in nullable columns, is copied with its flag. Any
other variable has a value. The result of a null-aware call may be null and is copied with its flag, unless its value is
needed: then rows in which it is null are dropped. A variable that a rule requires to be null becomes a constant; a rule
that requires null of a column without null, or of a variable with a value, derives nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gpu_wcoj.planner.equalities import Resolve, resolver
from gpu_wcoj.query.ir import NULL, Atom, Call, Expression, Term, Variable
from gpu_wcoj.query.rules import Rule

Nullable = Mapping[str, Sequence[bool]]
"""Per relation, one mask of the columns that may hold null."""


@dataclass(frozen=True)
class Nulls:
    """Nullable variables of a rule.

    Attributes
    ----------
    asked
        The variables that are null in every row: null replaces them.
    flags
        Per variable that may be null, by name, the variable of its flag.
    dropped
        Per result of a null-aware call whose value is needed, the variable of its flag, which has to be 0.
    """

    asked: frozenset[Variable]
    flags: Mapping[str, str]
    dropped: Mapping[str, str] = field(default_factory=dict)

    def term(self, term: Term) -> Term:
        """Return NULL for a variable that is required to be null, else the term."""
        return NULL if term in self.asked else term


def nulls_of(
    rule: Rule,
    resolve: Resolve,
    nullable: Nullable,
    kept_column: int | None = None,
    requirement: Mapping[Variable, bool] | None = None,
) -> Nulls | None:
    """Return the nullable variables of a rule; None if it requires a null that never occurs.

    Parameters
    ----------
    kept_column
        The column of the head that has a value in every row.
    requirement
        Variables that have to be null or not null, in addition to the null tests of the rule.

    Examples
    --------
    >>> from gpu_wcoj.query.datalog import parse
    >>> rule = parse("h(x, y?, z) :- r(x, y?, z), s(y?, z).").rules[0]
    >>> nulls_of(rule, lambda term: term, {"r": (True, True, True), "s": (True, True)}).flags
    {'x': 'x?', 'y?': 'y??'}
    >>> nulls_of(rule, lambda term: term, {"r": (True, True, True), "s": (False, False)}).flags
    {'x': 'x?'}
    """
    calls = [computed for computed in rule.computed if computed.call.takes_nulls]
    if not (requirement or calls or rule.says_null or any(any(nullable[atom.relation]) for atom in rule.atoms)):
        return Nulls(frozenset(), {})
    places = _places(rule, resolve)
    strict, single = _uses(rule, resolve, kept_column)
    null: set[Variable] = set()
    valued: set[Variable] = set()
    for term, is_null in _tests(rule, requirement or {}):
        tested = resolve(term)
        if isinstance(tested, Variable) and tested in places:
            (null if is_null else valued).add(tested)
        elif is_null:
            return None
    for variable in null:
        if variable in valued or variable in strict or not (variable.is_null_safe or variable in single):
            return None
    is_asked = frozenset(null)
    for atom in rule.atoms:
        for column, argument in enumerate(atom.terms):
            term = resolve(argument)
            if (term == NULL or term in is_asked) and not nullable[atom.relation][column]:
                return None
    if kept_column is not None and resolve(rule.head.terms[kept_column]) in (NULL, *is_asked):
        return None
    taken = {place_variable.name for place_variable in places}
    flags: dict[str, str] = {}
    for variable, columns in places.items():
        carries = variable not in null | valued | strict and (variable.is_null_safe or variable in single)
        if carries and all(nullable[relation][column] for relation, column in columns):
            flag = f"{variable.name}?"
            while flag in taken:
                flag += "?"
            taken.add(flag)
            flags[variable.name] = flag
    needed = (
        strict | {resolve(term) for atom in (*rule.atoms, *rule.negated) for term in atom.terms} if calls else strict
    )
    dropped: dict[str, str] = {}
    for call in calls:
        tested = resolve(call.variable)
        null_names = {*flags, *(asked_variable.name for asked_variable in is_asked)}
        if isinstance(tested, Variable) and may_be_null(call.call, resolve, null_names):
            (dropped if tested in needed else flags)[tested.name] = f"{tested.name}?"
    return Nulls(is_asked, flags, dropped)


def may_be_null(expression: Expression, resolve: Resolve, names: Collection[str]) -> bool:
    """Return whether an expression can be null where the variables of these names can."""
    if not isinstance(expression, Call):
        term = resolve(expression)
        return term == NULL or (isinstance(term, Variable) and term.name in names)
    if expression.op in ("isnull", "istrue"):
        return False
    parts = expression.arguments
    if expression.op == "case":
        if len(parts) % 2 == 0:
            return True
        parts = (*parts[1::2], parts[-1])
    return any(may_be_null(part, resolve, names) for part in parts)


def cases(rule: Rule, nullable: Nullable, kept_column: int | None = None) -> list[dict[Variable, bool]]:
    """Return the null requirements of each body of a rule; mostly one empty requirement.

    There are several if a variable that may be null occurs in a negated atom, in a column without null: no row of that
    atom is null there, whatever its other columns hold.

    Examples
    --------
    >>> from gpu_wcoj.query.datalog import parse
    >>> rule = parse("h(x?) :- r(x?), !s(x?).").rules[0]
    >>> for case in cases(rule, {"r": (True,), "s": (False,)}):
    ...     print({str(variable): is_null for variable, is_null in case.items()})
    {'x?': False}
    {'x?': True}
    """
    resolve = resolver(rule) if rule.negated else None
    if resolve is None:
        return [{}]
    waiting: list[dict[Variable, bool]] = [{}]
    decided = []
    while waiting:
        requirement = waiting.pop()
        nulls = nulls_of(rule, resolve, nullable, kept_column, requirement)
        undecided = None if nulls is None else _undecided(rule, resolve, nullable, nulls)
        if undecided is None:
            decided.append(requirement)
        else:
            waiting += [{**requirement, undecided: True}, {**requirement, undecided: False}]
    return decided


def _undecided(rule: Rule, resolve: Resolve, nullable: Nullable, nulls: Nulls) -> Variable | None:
    """Return a nullable variable in a column without null of a negated atom, or None."""
    for atom in rule.negated:
        if never_holds(atom, lambda term: nulls.term(resolve(term)), nullable):
            continue
        for column, argument in enumerate(atom.terms):
            term = resolve(argument)
            if isinstance(term, Variable) and term.name in nulls.flags and not nullable[atom.relation][column]:
                return term
    return None


def never_holds(atom: Atom, resolve: Resolve, nullable: Nullable) -> bool:
    """Return True if an atom requires null in a column without null."""
    return any(resolve(term) == NULL and not nullable[atom.relation][column] for column, term in enumerate(atom.terms))


def null_columns(rule: Rule, resolve: Resolve, nullable: Nullable, kept_column: int | None) -> list[int]:
    """Return the columns of the head that a rule may set to null."""
    nulls = nulls_of(rule, resolve, nullable, kept_column)
    if nulls is None:
        return []
    terms = [nulls.term(resolve(term)) for term in rule.head.terms]
    return [
        column
        for column, term in enumerate(terms)
        if term == NULL or (isinstance(term, Variable) and term.name in nulls.flags)
    ]


def _places(rule: Rule, resolve: Resolve) -> dict[Variable, list[tuple[str, int]]]:
    """Return, per variable of positive atoms, the columns it occurs in."""
    places: dict[Variable, list[tuple[str, int]]] = {}
    for atom in rule.atoms:
        for column, argument in enumerate(atom.terms):
            term = resolve(argument)
            if isinstance(term, Variable):
                places.setdefault(term, []).append((atom.relation, column))
    return places


def _uses(rule: Rule, resolve: Resolve, kept_column: int | None) -> tuple[set[Variable], set[Variable]]:
    """Return the variables whose values are needed, and those that occur once in the body."""
    valued: list[Expression] = []
    for computed in rule.computed:
        valued += [] if computed.call.takes_nulls else computed.call.arguments
    valued += [
        term
        for comparison in rule.comparisons
        if not comparison.is_null_test
        for term in (comparison.left, comparison.right)
    ]
    if kept_column is not None:
        valued.append(rule.head.terms[kept_column])
    strict = {term for term in map(resolve, valued) if isinstance(term, Variable)}
    count: dict[Variable, int] = {}
    for argument in (term for atom in (*rule.atoms, *rule.negated) for term in atom.terms):
        term = resolve(argument)
        if isinstance(term, Variable):
            count[term] = count.get(term, 0) + 1
    return strict, {variable for variable, uses in count.items() if uses == 1 and variable not in strict}


def _tests(rule: Rule, requirement: Mapping[Variable, bool]) -> Iterator[tuple[Expression, bool]]:
    """Yield what is tested for null, and the required result."""
    for comparison in rule.comparisons:
        if comparison.is_null_test:
            yield (comparison.right if comparison.left == NULL else comparison.left), comparison.op == "="
    yield from requirement.items()

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
from gpu_wcoj.query.rules import Rule
from gpu_wcoj.query.terms import NULL, Atom, Call, Expression, Term, Variable

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
    kept: int | None = None,
    asked: Mapping[Variable, bool] | None = None,
) -> Nulls | None:
    """Return the nullable variables of a rule; None if it requires a null that never occurs.

    Parameters
    ----------
    kept
        The column of the head that has a value in every row.
    asked
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
    calls = [one for one in rule.computed if one.call.takes_nulls]
    if not (asked or calls or rule.says_null or any(any(nullable[atom.relation]) for atom in rule.atoms)):
        return Nulls(frozenset(), {})
    places = _places(rule, resolve)
    strict, single = _uses(rule, resolve, kept)
    null: set[Variable] = set()
    valued: set[Variable] = set()
    for term, is_null in _tests(rule, asked or {}):
        found = resolve(term)
        if isinstance(found, Variable) and found in places:
            (null if is_null else valued).add(found)
        elif is_null:
            return None
    for one in null:
        if one in valued or one in strict or not (one.is_null_safe or one in single):
            return None
    is_asked = frozenset(null)
    for atom in rule.atoms:
        for column, given in enumerate(atom.terms):
            term = resolve(given)
            if (term == NULL or term in is_asked) and not nullable[atom.relation][column]:
                return None
    if kept is not None and resolve(rule.head.terms[kept]) in (NULL, *is_asked):
        return None
    taken = {one.name for one in places}
    flags: dict[str, str] = {}
    for one, columns in places.items():
        carries = one not in null | valued | strict and (one.is_null_safe or one in single)
        if carries and all(nullable[relation][column] for relation, column in columns):
            flag = f"{one.name}?"
            while flag in taken:
                flag += "?"
            taken.add(flag)
            flags[one.name] = flag
    needed = (
        strict | {resolve(term) for atom in (*rule.atoms, *rule.negated) for term in atom.terms} if calls else strict
    )
    dropped: dict[str, str] = {}
    for call in calls:
        found = resolve(call.variable)
        known = {*flags, *(one.name for one in is_asked)}
        if isinstance(found, Variable) and may_be_null(call.call, resolve, known):
            (dropped if found in needed else flags)[found.name] = f"{found.name}?"
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
    return any(may_be_null(one, resolve, names) for one in parts)


def cases(rule: Rule, nullable: Nullable, kept: int | None = None) -> list[dict[Variable, bool]]:
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
    found = []
    while waiting:
        asked = waiting.pop()
        nulls = nulls_of(rule, resolve, nullable, kept, asked)
        at = None if nulls is None else _undecided(rule, resolve, nullable, nulls)
        if at is None:
            found.append(asked)
        else:
            waiting += [{**asked, at: True}, {**asked, at: False}]
    return found


def _undecided(rule: Rule, resolve: Resolve, nullable: Nullable, nulls: Nulls) -> Variable | None:
    """Return a nullable variable in a column without null of a negated atom, or None."""
    for atom in rule.negated:
        if never_holds(atom, lambda term: nulls.term(resolve(term)), nullable):
            continue
        for column, given in enumerate(atom.terms):
            term = resolve(given)
            if isinstance(term, Variable) and term.name in nulls.flags and not nullable[atom.relation][column]:
                return term
    return None


def never_holds(atom: Atom, resolve: Resolve, nullable: Nullable) -> bool:
    """Return True if an atom requires null in a column without null."""
    return any(resolve(term) == NULL and not nullable[atom.relation][column] for column, term in enumerate(atom.terms))


def null_columns(rule: Rule, resolve: Resolve, nullable: Nullable, kept: int | None) -> list[int]:
    """Return the columns of the head that a rule may set to null."""
    nulls = nulls_of(rule, resolve, nullable, kept)
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
        for column, given in enumerate(atom.terms):
            term = resolve(given)
            if isinstance(term, Variable):
                places.setdefault(term, []).append((atom.relation, column))
    return places


def _uses(rule: Rule, resolve: Resolve, kept: int | None) -> tuple[set[Variable], set[Variable]]:
    """Return the variables whose values are needed, and those that occur once in the body."""
    valued: list[Expression] = []
    for one in rule.computed:
        valued += [] if one.call.takes_nulls else one.call.arguments
    valued += [term for one in rule.comparisons if not one.is_null_test for term in (one.left, one.right)]
    if kept is not None:
        valued.append(rule.head.terms[kept])
    strict = {term for term in map(resolve, valued) if isinstance(term, Variable)}
    count: dict[Variable, int] = {}
    for given in (term for atom in (*rule.atoms, *rule.negated) for term in atom.terms):
        term = resolve(given)
        if isinstance(term, Variable):
            count[term] = count.get(term, 0) + 1
    return strict, {one for one, uses in count.items() if uses == 1 and one not in strict}


def _tests(rule: Rule, asked: Mapping[Variable, bool]) -> Iterator[tuple[Expression, bool]]:
    """Yield what is tested for null, and the required result."""
    for one in rule.comparisons:
        if one.is_null_test:
            yield (one.right if one.left == NULL else one.left), one.op == "="
    yield from asked.items()

"""What full Datalog means: strata in order, each by trying its rules on everything until nothing comes of it any more.

Slow, and meant to be obvious. Rules are those of `tests.reference.program_text`.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from tests.reference.changes import Row, ZSet
from tests.reference.functions import BeyondError, UndefinedError, aggregated, called
from tests.reference.program_text import (
    Aggregate,
    Atom,
    Call,
    Literal,
    Name,
    Rule,
    Term,
    Test,
    Written,
    aggregates,
    atoms,
    names,
    names_inside,
    parts,
)

OPERATORS: dict[str, Callable[[object, object], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
Binding = dict[Name, object]
Facts = Mapping[str, Mapping[Row, int]]


class NoEndError(Exception):
    """A recursion has not ended within the iterations allowed."""


class NotStratifiedError(Exception):
    """A relation depends on itself by negation or aggregation."""


def fixpoint(program: Written, given: Facts, bag: bool = False, limit: int = 1000) -> dict[str, ZSet]:
    """Every head over what is `given` (for inputs, and for heads that are inputs too), as {head: {row: weight}}.

    In a set every weight is 1. In a bag weights of a body's atoms multiply and those of all ways to derive a row add;
    a loop reads the rows of positive weight as a set, and its heads are sets. A negated atom holds where the weights of
    the rows that match it add up to more than 0.
    """
    known: dict[str, ZSet] = {name: dict(given.get(name, {})) for name in (*program.inputs, *program.heads)}
    for stratum in strata(program):
        rules = [rule for rule in program.rules if rule.head.relation in stratum]
        recursive = any(atom.relation in stratum for rule in rules for atom in atoms(rule.body))
        if recursive:
            known.update(_loop(rules, stratum, known, given, bag, limit))
        else:
            (head,) = stratum
            known[head] = _once(rules, known, given.get(head, {}), bag)
    return {head: known[head] for head in program.heads}


def strata(program: Written) -> list[tuple[str, ...]]:
    """The heads in groups that depend on each other, each group behind those that it reads."""
    reads = {head: set[str]() for head in program.heads}
    for rule in program.rules:
        reads[rule.head.relation] |= {atom.relation for atom in atoms(rule.body)} & reads.keys()
    reach = {head: set(own) for head, own in reads.items()}
    for middle in reads:
        for own in reach.values():
            if middle in own:
                own |= reach[middle]
    found: list[tuple[str, ...]] = []
    waiting = list(reads)
    while waiting:
        done = {head for group in found for head in group}
        for head in waiting:
            group = tuple(
                other for other in waiting if other == head or (other in reach[head] and head in reach[other])
            )
            if all(reach[other] <= done | set(group) for other in group):
                break
        found.append(group)
        waiting = [head for head in waiting if head not in group]
    for rule in program.rules:
        (group,) = (group for group in found if rule.head.relation in group)
        for literal in rule.body:
            inner = [atom for one in aggregates(literal) for atom in atoms(one.body)]
            negated = [literal] if isinstance(literal, Atom) and not literal.positive else []
            for atom in (*inner, *negated):
                if atom.relation in group:
                    raise NotStratifiedError(f"{rule.head.relation} depends on {atom.relation}")
    return found


def _once(rules: Sequence[Rule], known: Facts, given: Mapping[Row, int], bag: bool) -> ZSet:
    """A head that does not depend on itself."""
    if any(rule.aggregates for rule in rules):
        assert not given
        return _grouped(rules, known, bag)
    total: ZSet = defaultdict(int, given)
    for rule in rules:
        for row, weight in _rows(rule, known, bag):
            total[row] += weight
    if bag:
        return {row: weight for row, weight in total.items() if weight}
    return {row: 1 for row, weight in total.items() if weight > 0}


def _loop(
    rules: Sequence[Rule], stratum: Sequence[str], known: Facts, given: Facts, bag: bool, limit: int
) -> dict[str, ZSet]:
    """Heads that depend on each other: sets, and for least and greatest values one row a group."""
    extremes = {rule.head.relation: _extreme(rule) for rule in rules if rule.aggregates}
    state: dict[str, ZSet] = {name: {} for name in stratum}
    for _ in range(limit):
        derived = {name: {row for row, weight in given.get(name, {}).items() if weight > 0} for name in stratum}
        for rule in rules:
            derived[rule.head.relation] |= {row for row, _ in _rows(rule, {**known, **state}, bag, once=True)}
        after = {name: dict.fromkeys(derived[name] | state[name].keys(), 1) for name in stratum}
        for name, (column, op) in extremes.items():
            after[name] = dict.fromkeys(_best(after[name], column, op), 1)
        if after == state:
            return state
        state = after
    raise NoEndError(f"{', '.join(stratum)}: no end after {limit} iterations")


def _extreme(rule: Rule) -> tuple[int, str]:
    """(column, op) of a head that keeps the least or the greatest value."""
    ((column, op),) = ((i, term.op) for i, term in enumerate(rule.head.terms) if isinstance(term, Aggregate))
    if op not in ("min", "max"):
        raise NotStratifiedError(f"{rule.head.relation} depends on itself by {op}")
    return column, op


def _best(rows: Iterable[Row], column: int, op: str) -> list[Row]:
    groups: dict[Row, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row[:column] + row[column + 1 :]].append(row)
    choose = min if op == "min" else max
    return [choose(own, key=lambda row: row[column]) for own in groups.values()]


def _grouped(rules: Sequence[Rule], known: Facts, bag: bool) -> ZSet:
    """A head that aggregates: per key, over every way to satisfy the bodies of its rules."""
    groups: dict[tuple[Row, int, str], list[tuple[object, int]]] = defaultdict(list)
    for rule in rules:
        ((column, aggregate),) = ((i, term) for i, term in enumerate(rule.head.terms) if isinstance(term, Aggregate))
        others = [term for term in rule.head.terms if term is not aggregate]
        called = {name for term in others if isinstance(term, Call) for name in names(term)}
        for binding, weight in satisfied(rule.body, {}, known, bag, never_null=called | _calculated(aggregate.value)):
            key = tuple(value(term, binding) for term in others)
            own = None if aggregate.value is None else value(aggregate.value, binding)
            if own is not None or aggregate.op == "count":
                groups[key, column, aggregate.op].append((own, weight))
    found: ZSet = {}
    for (key, column, op), values in groups.items():
        answer = aggregated(op, values)
        if answer is not None and any(weight for _, weight in values):
            found[(*key[:column], answer, *key[column:])] = 1
    return found


def _rows(rule: Rule, known: Facts, bag: bool, once: bool = False) -> Iterator[tuple[Row, int]]:
    """(head row, weight) for every way to satisfy the body; with `once`, by rows of positive weight only."""
    terms = [term.value if isinstance(term, Aggregate) else term for term in rule.head.terms]
    places = [term for term in rule.head.terms if not isinstance(term, Name)]
    never_null = {name for term in places for name in names(term.value if isinstance(term, Aggregate) else term)}
    for binding, weight in satisfied(rule.body, {}, known, bag, once, never_null):
        yield tuple(value(term, binding) for term in terms), weight


def satisfied(
    body: Sequence[Literal],
    binding: Binding,
    known: Facts,
    bag: bool,
    once: bool = False,
    never_null: set[Name] | None = None,
) -> Iterator[tuple[Binding, int]]:
    """(binding, weight) for every way to satisfy a body, given what is bound already."""
    steps, joined = _planned(body, frozenset(binding))
    joined = joined | set(binding) | (never_null or set())
    held = _held(body, binding)
    indexes: dict[int, dict[Row, list[tuple[Row, int]]]] = {}

    def follow(number: int, binding: Binding, weight: int) -> Iterator[tuple[Binding, int]]:
        if number == len(steps):
            if LACKING in binding:
                raise UndefinedError(f"{binding}")
            yield binding, weight
            return
        literal, keys = steps[number]
        if not isinstance(literal, Atom):
            for extended in _tested(literal, binding, known, bag, held):
                yield from follow(number + 1, extended, weight)
            return
        if number not in indexes:
            index = indexes[number] = defaultdict(list)
            for row, own in known[literal.relation].items():
                if once and own <= 0 and literal.positive:
                    continue
                index[tuple(row[i] for i in keys)].append((row, own))
        try:
            matching = indexes[number].get(tuple(value(literal.terms[i], binding) for i in keys), [])
        except UndefinedError:
            if not literal.positive:
                yield from follow(number + 1, {**binding, LACKING: True}, weight)
                return
            matching = [pair for rows in indexes[number].values() for pair in rows]
        matches = (
            (found, own) for row, own in matching if (found := _matched(literal, row, binding, joined)) is not None
        )
        if literal.positive:
            for found, own in matches:
                yield from follow(number + 1, found, weight * (own if bag else 1))
        elif sum(own for _, own in matches) <= 0:
            yield from follow(number + 1, binding, weight)

    yield from follow(0, binding, 1)


Steps = list[tuple[Literal, list[int]]]
_PLANS: dict[tuple[int, frozenset[Name]], tuple[Sequence[Literal], Steps, set[Name]]] = {}
"""By a body's identity and what is bound: the body, which keeps its identity its own, and what `_planned` returns."""


def _planned(body: Sequence[Literal], bound: frozenset[Name]) -> tuple[Steps, set[Name]]:
    """The steps of a body and the names that its atoms join, remembered, as they are the same at every tick."""
    if (id(body), bound) not in _PLANS:
        if len(_PLANS) == 1000:
            _PLANS.clear()
        apart = list(_apart(body))
        _PLANS[id(body), bound] = body, _ordered(apart, set(bound)), _joined(apart)
    return _PLANS[id(body), bound][1:]


def _apart(body: Sequence[Literal]) -> Iterator[Literal]:
    """The body with what is calculated in positive atoms as equalities, so that an atom may bind what it calculates."""
    for number, literal in enumerate(body):
        if not isinstance(literal, Atom) or not literal.positive:
            yield literal
            continue
        row: list[Term] = []
        for column, term in enumerate(literal.terms):
            if isinstance(term, Call):
                own = Name(f"_{number},{column}")
                yield Test("=", own, term)
                row.append(own)
            else:
                row.append(term)
        yield Atom(literal.relation, tuple(row))


def _ordered(body: Sequence[Literal], bound: set[Name]) -> Steps:
    """The literals in an order in which each can be looked at, and of atoms the columns that are known by then."""
    order: Steps = []
    waiting = list(body)
    while waiting:
        literal = next((one for one in waiting if _ready(one, bound, body)), None)
        assert literal is not None, f"unsafe: {waiting}"
        waiting.remove(literal)
        keys = []
        if isinstance(literal, Atom):
            keys = [i for i, term in enumerate(literal.terms) if names(term) <= bound]
        order.append((literal, keys))
        if not (isinstance(literal, Atom) and not literal.positive):
            bound = bound | {part for part in parts(literal) if isinstance(part, Name)}
    return order


def _ready(literal: Literal, bound: set[Name], body: Sequence[Literal]) -> bool:
    if isinstance(literal, Atom):
        if literal.positive:
            return True
        return {name for term in literal.terms for name in names(term) if not name.name.startswith("_")} <= bound
    outside = {name for one in body for part in parts(one) for name in names(part)}
    needed = {name for one in aggregates(literal) for name in names_inside(one) & outside}
    sides = [names(literal.left) - bound, names(literal.right) - bound]
    if not needed <= bound:
        return False
    if literal.op == "=" and (isinstance(literal.left, Name) or isinstance(literal.right, Name)):
        free = [side for side in sides if side]
        held = {
            name for one in body if isinstance(one, Atom) and one.positive for term in one.terms for name in names(term)
        }
        if any(side & held for side in free):  # an atom binds it, and what is calculated is compared with that
            return False
        return not free or (
            len(free) == 1 and any(isinstance(t, Name) and {t} == free[0] for t in (literal.left, literal.right))
        )
    return not sides[0] and not sides[1]


def _held(body: Sequence[Literal], binding: Binding) -> set[Name]:
    """The variables whose values are bound before, in positive atoms, or in the text: all others are calculated."""
    held = {*binding, *(term for one in body if isinstance(one, Atom) and one.positive for term in one.terms)}
    equal = [(one.left, one.right) for one in body if isinstance(one, Test) and one.op == "="]
    for _ in equal:
        for left, right in (*equal, *((right, left) for left, right in equal)):
            if isinstance(left, Name) and (right in held if isinstance(right, Name) else _is_constant(right)):
                held.add(left)
    return {term for term in held if isinstance(term, Name)}


def _is_constant(term: Term) -> bool:
    return not isinstance(term, (Name, Call, Aggregate))


def _tested(test: Test, binding: Binding, known: Facts, bag: bool, held: set[Name]) -> Iterator[Binding]:
    """`binding`, with what an equality binds, if the comparison holds.

    A number outside int64 equals no value that a relation holds; whether it equals a calculated one is refused.
    """
    if test.left == test.right and isinstance(test.left, Name) and test.op in ("!=", "<", ">"):
        return  # whatever its value, and whether or not it has one
    answers: dict[int, object] = {}
    for one in aggregates(test):
        shared = {name: own for name, own in binding.items() if name in names_inside(one)}
        atoms = [literal for literal in one.body if isinstance(literal, Atom) and literal.positive]
        held = {term for atom in atoms for term in atom.terms if isinstance(term, Name)}
        lost = next((own for name, own in shared.items() if isinstance(own, UndefinedError) and name not in held), None)
        if lost is not None:  # of keys without a value nothing can be asked, unless the braces have it in an atom
            answers[id(one)] = UndefinedError(str(lost))
            continue
        try:
            values = [
                (None if one.value is None else value(one.value, found), weight)
                for found, weight in satisfied(one.body, shared, known, bag, never_null=_calculated(one.value))
            ]
        except UndefinedError as error:  # nor of braces that lack one
            answers[id(one)] = UndefinedError(str(error))
            continue
        if one.op != "count":
            values = [(own, weight) for own, weight in values if own is not None]
        answer = aggregated(one.op, values)
        if answer is None:
            return
        answers[id(one)] = answer
    sides: list[object] = []
    for term in (test.left, test.right):
        free = isinstance(term, Name) and term not in binding
        try:
            sides.append(UNBOUND if free else value(term, binding, answers))
        except UndefinedError as error:
            sides.append(error)
    left, right = sides
    missing = next((side for side in sides if isinstance(side, UndefinedError)), None)
    if missing is not None and UNBOUND not in sides:
        stored = any(side in held if isinstance(side, Name) else _is_constant(side) for side in (test.left, test.right))
        if test.op != "=" or not isinstance(missing, BeyondError) or not stored:
            yield {**binding, LACKING: True}
    elif left is UNBOUND or right is UNBOUND:
        name = test.left if left is UNBOUND else test.right
        assert isinstance(name, Name)
        yield {**binding, name: right if left is UNBOUND else left} | ({LACKING: True} if missing else {})
    elif OPERATORS[test.op](left, right):
        yield binding


UNBOUND = object()
LACKING = Name("a value is lacking")
"""Bound where one is."""


def _joined(body: Sequence[Literal]) -> set[Name]:
    """The variables that stand twice in a body, or in a comparison; and so must have a value."""
    places: list[Name] = []
    for literal in body:
        for term in parts(literal):
            places += names(term) if not isinstance(literal, Test) else [*names(term)] * 2
        for one in aggregates(literal):
            places += names_inside(one)
    return {name for name in places if places.count(name) > 1}


def _calculated(term: Term | None) -> set[Name]:
    """The variables that a value is calculated from."""
    return names(term) if isinstance(term, Call) else set()


def _matched(atom: Atom, row: Row, binding: Binding, joined: set[Name]) -> Binding | None:
    """`binding` with what `row` says, or None where the two disagree."""
    found = dict(binding)
    for column, (term, own) in enumerate(zip(atom.terms, row, strict=True)):
        if own is None and (not isinstance(term, Name) or term in joined or term in atom.terms[:column]):
            return None
        known = found.setdefault(term, own) if isinstance(term, Name) else value(term, found)
        if isinstance(known, BeyondError) or (known != own and not isinstance(known, UndefinedError)):
            return None
    return found


def value(term: Term, binding: Binding, answers: Mapping[int, object] | None = None) -> object:
    """What a term says; UndefinedError where it says nothing."""
    if isinstance(term, Name):
        known = binding[term]
        if isinstance(known, UndefinedError):
            raise UndefinedError(str(known))
        return known
    if isinstance(term, Aggregate):
        assert answers is not None
        answer = answers[id(term)]
        if isinstance(answer, UndefinedError):
            raise UndefinedError(str(answer))
        return answer
    if not isinstance(term, Call):
        return term
    try:
        arguments = [value(argument, binding, answers) for argument in term.arguments]
    except BeyondError as error:
        raise UndefinedError(str(error)) from None
    return called(term.op, arguments)

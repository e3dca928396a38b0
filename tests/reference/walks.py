"""Small ticks over dictionaries {row: weight}, by loops: slow, and meant to be seen to be right.

A tick's changed rows have stamps. A path of the delta rule starts from each changed row of its first atom. Its other
atoms see the rows before the tick and the changed rows with a smaller stamp; atoms that are seen after the tick see the
changed row itself, too.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gpu_wcoj.join.plan import AtomUse, Condition, DeltaPath, DeltaQuery
from gpu_wcoj.trace.arrangement import ArrangementKey
from tests.reference.kernels import Row

Binding = dict[str, int]
Weights = Mapping[Row, int]

FIRST_INSERT = 2**40
"""Stamp of a tick's first inserted row; in sets, deleted rows have smaller ones."""
LARGEST_WEIGHT = 2**61
"""Magnitude from which a weight is refused."""
COMPARE = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Change:
    """A changed row of a relation: its weight, the weight before the tick, and its stamp."""

    row: Row
    weight: int
    before: int
    stamp: int


@dataclass
class Relations:
    """Relations before a tick, and the tick's changed rows so far.

    Attributes
    ----------
    before
        Per relation its rows, each with a weight that is not 0.
    deleted, inserted
        The stamps of the next changed rows.
    """

    before: Mapping[str, Weights]
    weighted: bool
    changes: dict[str, list[Change]] = field(default_factory=dict)
    deleted: int = 0
    inserted: int = FIRST_INSERT

    def receive(self, name: str, operations: Sequence[tuple[Row, int]], mode: str, capacity: int) -> int:
        """Make rows the changes of a relation; return their number, -1 if they or a weight are too large.

        The mode is ``set`` for operations of which the last on a row wins, ``bag`` for weights to add, ``is`` for rows
        that change as they are.
        """
        self.changes[name] = []
        if len(operations) > capacity:
            return -1
        there, weights = self.before[name], dict[Row, int]()
        for row, weight in operations:
            if weight == 0:
                continue
            if mode == "bag" and abs(weight) >= LARGEST_WEIGHT // capacity:
                return -1
            weights[row] = weights.get(row, 0) + weight if mode == "bag" else weight
        ordered = sorted(weights)
        if mode != "bag":
            ordered.sort(key=lambda row: weights[row] > 0)
        for row in ordered:
            weight, before = weights[row], there.get(row, 0) if mode != "is" else 0
            if mode == "bag" and weight and abs(before) >= LARGEST_WEIGHT:
                return -1
            if weight == 0 or (mode == "set" and (weight > 0) == (before != 0)):
                continue
            if mode == "set":
                weight = 1 if weight > 0 else -1
            self.changes[name].append(Change(row, weight, before, self._stamp(weight)))
        return len(self.changes[name])

    def _stamp(self, weight: int) -> int:
        if weight < 0 and not self.weighted:
            self.deleted += 1
            return self.deleted - 1
        self.inserted += 1
        return self.inserted - 1

    def presence(self, name: str) -> list[tuple[Row, int]]:
        """Return the rows whose weight becomes positive, or no longer is."""
        presence = [
            (change.row, (change.before + change.weight > 0) - (change.before > 0)) for change in self.changes[name]
        ]
        return [(row, weight) for row, weight in presence if weight]

    def seen(self, name: str, limit: int) -> dict[Row, int]:
        """Return the rows of a relation with the changes whose stamps are below a limit."""
        rows = Counter(self.before[name])
        for change in self.changes.get(name, ()):
            if change.stamp < limit:
                rows[change.row] += change.weight
        return {row: weight for row, weight in rows.items() if weight}

    def after(self) -> dict[str, dict[Row, int]]:
        """Return all relations after the tick."""
        return {name: self.seen(name, 2 * FIRST_INSERT) for name in self.before}


def passes_filter(key: ArrangementKey, row: Row) -> bool:
    """Return whether a row is in a filtered arrangement."""
    return (
        all(row[column] == code for column, code in key.constants)
        and all(row[left] == row[right] for left, right in key.equal)
        and all(COMPARE[op](row[left], code if right is None else row[right]) for left, op, right, code in key.compared)
    )


def arranged(key: ArrangementKey, rows: Weights) -> dict[Row, int]:
    """Return the rows of an arrangement, in its order of columns."""
    return {
        tuple(row[column] for column in key.order): weight
        for row, weight in sorted(rows.items())
        if passes_filter(key, row)
    }


def bind(use: AtomUse, row: Row) -> Binding | None:
    """Return the variables of an atom that a row binds; None if it is no row of the atom."""
    if not passes_filter(use.key, row):
        return None
    binding: Binding = {}
    for column, variable in zip(use.key.order, use.variables, strict=True):
        if binding.setdefault(variable, row[column]) != row[column]:
            return None
    return binding


def bindings(relations: Relations, path: DeltaPath, change: Change) -> Iterator[tuple[Binding, int]]:
    """Yield the bindings that a changed row of a path's first atom takes part in, with their weights."""
    seed_weight = change.weight
    if path.is_negated:
        is_there, was_there = change.before + change.weight > 0, change.before > 0
        seed_weight = was_there - is_there if relations.weighted else -change.weight
    start = bind(path.seed, change.row)
    found = [] if start is None or seed_weight == 0 else [(start, seed_weight)]
    for use in path.other_atoms:
        rows = relations.seen(use.key.relation, change.stamp + path.sees_after(use)) if found else {}
        atoms = [(atom, row_weight) for row, row_weight in rows.items() if (atom := bind(use, row)) is not None]
        found = [
            ({**binding, **atom}, weight * row_weight)
            for binding, weight in found
            for atom, row_weight in atoms
            if all(binding.get(name, value) == value for name, value in atom.items())
        ]
    yield from ((binding, weight) for binding, weight in found if _passes(relations, path, change, binding))


def _passes(relations: Relations, path: DeltaPath, change: Change, binding: Binding) -> bool:
    """Return whether a binding passes the comparisons and the negated atoms of a path."""

    def value(term: str | int) -> int:
        return binding[term] if isinstance(term, str) else term

    steps = [check for step in path.steps for check in (*step.conditions, *step.checks)]
    for check in (*path.seed_conditions, *path.seed_checks, *steps):
        if isinstance(check, Condition) and not COMPARE[check.op](binding[check.variable], value(check.operand)):
            return False
    for absent in path.absent:
        row = tuple(map(value, absent.terms))
        seen = relations.seen(absent.use.key.relation, change.stamp + path.sees_after(absent.use))
        if arranged(absent.use.key, seen).get(row, 0) > 0:
            return False
    return True


@dataclass
class Walked:
    """The result of a walk, in exact integers.

    Attributes
    ----------
    totals
        The sums of weights: of deleted and of inserted rows of sets; of all rows of bags, and 0.
    rows
        Per row of the head, the sum of the weights of its bindings; sums of 0 are left out.
    magnitude
        The sum of the magnitudes of all bindings' weights.
    """

    totals: list[int]
    rows: dict[Row, int]
    magnitude: int


def walk(query: DeltaQuery, relations: Relations) -> Walked:
    """Walk all paths of a query from all changed rows."""
    totals, rows, magnitude = [0, 0], Counter[Row](), 0
    for path in query.paths:
        for change in relations.changes.get(path.seed.key.relation, ()):
            for binding, weight in bindings(relations, path, change):
                totals[not relations.weighted and change.weight > 0] += weight
                rows[tuple(binding[term] if isinstance(term, str) else term for term in query.head)] += weight
                magnitude += abs(weight)
    return Walked(totals, {row: weight for row, weight in rows.items() if weight}, magnitude)


def answer(query: DeltaQuery, relations: Mapping[str, Weights], weighted: bool) -> dict[Row, int]:
    """Return the rows of a query's head over relations, computed from its first positive atom's path."""
    path = next(path for path in query.paths if not path.is_negated)
    state = Relations(relations, weighted)
    found = Counter[Row]()
    for row, weight in relations[path.seed.key.relation].items():
        for binding, product in bindings(state, path, Change(row, weight, 0, 0)):
            found[tuple(binding[term] if isinstance(term, str) else term for term in query.head)] += product
    return {row: weight for row, weight in found.items() if weight}


def merge(memtable: Weights, changes: Sequence[Change]) -> dict[Row, int]:
    """Return the rows of a memtable after a tick, those of weight 0 left out."""
    merged = Counter(memtable)
    for change in changes:
        merged[change.row] += change.weight
    return {row: weight for row, weight in sorted(merged.items()) if weight}

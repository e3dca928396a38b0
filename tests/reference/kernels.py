"""The kernels over lists of rows and dictionaries {row: weight}: slow, and meant to be seen to be right."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

Row = tuple[int, ...]
Batch = Mapping[Row, int]
"""One batch of a relation: its rows, each with a weight that is not 0."""
Survivor = tuple[int, int, tuple[int, ...]]
"""A value, its weight, and where it stands in the batches of the atoms that go on."""


def wrap(number: int) -> int:
    """The int64 that equals `number` modulo 2^64."""
    return (number + 2**63) % 2**64 - 2**63


def sort_order(rows: Sequence[Row]) -> list[int]:
    """Positions of the rows in sorted order, equal rows as they came."""
    return sorted(range(len(rows)), key=lambda i: rows[i])


def run_starts(rows: Sequence[Row]) -> list[int]:
    """Positions of rows that differ from the one before."""
    return [i for i in range(len(rows)) if i == 0 or rows[i] != rows[i - 1]]


def consolidate(rows: Sequence[Row], weights: Sequence[int]) -> dict[Row, int]:
    """Sorted rows with the sum of their weights; none of weight 0."""
    total = dict.fromkeys(sorted(set(rows)), 0)
    for row, weight in zip(rows, weights, strict=True):
        total[row] = wrap(total[row] + weight)
    return {row: weight for row, weight in total.items() if weight}


def segment_sums(values: Sequence[int], starts: Sequence[int]) -> list[int]:
    """The sum of each run of values; OverflowError names the first one outside int64."""
    sums = [sum(values[begin:end]) for begin, end in pairwise([*starts, len(values)])]
    for run, total in enumerate(sums):
        if total != wrap(total):
            raise OverflowError(f"the sum of run {run} of {len(sums)} is outside int64")
    return sums


def exclusive_sum(counts: Sequence[int]) -> list[int]:
    """The sum before each count, and of all."""
    return [wrap(sum(counts[:i])) for i in range(len(counts) + 1)]


def hash_row(row: Row) -> int:
    """The hash of one row: codes are mixed in one after the other, modulo 2^64."""
    h = 0
    for code in row:
        h = ((h ^ code % 2**64) + 0x9E3779B97F4A7C15) % 2**64
        h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        h = (h ^ h >> 27) * 0x94D049BB133111EB % 2**64
        h ^= h >> 31
    return h


def prefixes(rows: Sequence[Row] | Batch, depth: int) -> list[Row]:
    """The distinct prefixes of that many columns, sorted; the place of each is its position in the trie's level."""
    return sorted({row[:depth] for row in rows})


def levels(rows: Sequence[Row] | Batch, depth: int) -> tuple[list[list[int]], list[list[int]]]:
    """Values and offsets of the trie of rows of `depth` columns."""
    nodes = [prefixes(rows, level + 1) for level in range(depth)]
    values = [[node[-1] for node in level] for level in nodes]
    offsets = []
    for upper, lower in pairwise(nodes):
        sizes = [sum(child[:-1] == node for child in lower) for node in upper]
        offsets.append([sum(sizes[:i]) for i in range(len(sizes) + 1)])
    return values, offsets


def item_size(values: Sequence[int]) -> int:
    """Bytes that a level takes for each of these values."""
    return 4 if values and min(values) >= -(2**31) and max(values) < 2**31 else 8


def merged(left: Batch, right: Batch) -> dict[Row, int]:
    """The sum of two batches."""
    rows = [*left, *right]
    return consolidate(rows, [*left.values(), *right.values()])


def position(batch: Batch, prefix: Row) -> int:
    """Where a prefix stands in its level of the batch's trie; -1 if it is absent."""
    nodes = prefixes(batch, len(prefix))
    return nodes.index(prefix) if prefix in nodes else -1


def count_children(batch: Batch, wanted: Sequence[Row]) -> int:
    """How many nodes stand below these prefixes, all of one length."""
    if not wanted:
        return 0
    nodes = prefixes(batch, len(wanted[0]) + 1)
    return sum(node[:-1] == prefix for prefix in wanted for node in nodes)


def narrowest(widths: Sequence[Sequence[int]]) -> int:
    """The first choice of those whose smallest atom is smallest, from each choice's atoms' numbers of values."""
    least = [min(own, default=2**63 - 1) for own in widths]
    return least.index(min(least))


def below(batches: Sequence[Batch], prefix: Row) -> set[int]:
    """The values that some batch has right below a prefix."""
    return {node[-1] for batch in batches for node in prefixes(batch, len(prefix) + 1) if node[:-1] == prefix}


def fresh_values(
    batches: Sequence[Batch], groups: Sequence[Sequence[Row]], known: Sequence[Batch], known_groups: Sequence[Row]
) -> list[list[int]]:
    """Per group of prefixes, the values below any of them that no known batch has below the group's own prefix."""
    return [
        sorted({value for prefix in group for value in below(batches, prefix)} - below(known, own))
        for group, own in zip(groups, known_groups, strict=True)
    ]


@dataclass(frozen=True)
class Atom:
    """One extender: its batches, which columns of the prefixes its first levels are bound to, whether it ends."""

    batches: tuple[Batch, ...]
    bound: tuple[int, ...]
    ends: bool


class Extender:
    """What one atom knows of each value below each binding of its first levels."""

    def __init__(self, atom: Atom) -> None:
        self.atom = atom
        self.children: list[dict[Row, dict[int, tuple[int, int]]]] = []
        for batch in atom.batches:
            known: dict[Row, dict[int, tuple[int, int]]] = {}
            for place, node in enumerate(prefixes(batch, len(atom.bound) + 1)):
                weight = batch[node] if atom.ends else 1
                known.setdefault(node[:-1], {})[node[-1]] = place, weight
            self.children.append(known)

    def below(self, prefix: Row) -> list[dict[int, tuple[int, int]]]:
        """Per batch {value: (position, weight)}."""
        key = tuple(prefix[column] for column in self.atom.bound)
        return [known.get(key, {}) for known in self.children]

    def width(self, prefix: Row) -> int:
        """How many values it would propose, batches added up."""
        return sum(map(len, self.below(prefix)))

    def look_up(self, below: Sequence[dict[int, tuple[int, int]]], value: int) -> tuple[bool, int, tuple[int, ...]]:
        """Whether it holds the value below a prefix, with what weight, and where its batches hold it if it goes on."""
        held = [batch.get(value, (-1, 0)) for batch in below]
        if self.atom.ends:
            weight = wrap(sum(weight for _, weight in held))
            return weight != 0, weight, ()
        places = tuple(place for place, _ in held)
        return any(place >= 0 for place in places), 1, places


def extend(
    extenders: Sequence[Extender], prefix: Row, least: int, most: int, excluded: Sequence[int]
) -> list[Survivor]:
    """The values that all atoms hold, ascending."""
    below = [extender.below(prefix) for extender in extenders]
    values = {value for batch in below[0] for value in batch}
    survivors = []
    for value in sorted(values - set(excluded)):
        weight, places = 1, ()
        for extender, batches in zip(extenders, below, strict=True):
            is_held, factor, found = extender.look_up(batches, value)
            if not is_held:
                break
            weight, places = wrap(weight * factor), places + found
        else:
            if least <= value <= most:
                survivors.append((value, weight, places))
    return survivors


# Walks of loops, over the levels' values and offsets as lists.


@dataclass(frozen=True)
class Walked:
    """What one run of walks is given; see `gpu_wcoj.kernels.protocol.Walks`."""

    operations: Sequence[int]
    values: Sequence[Sequence[int]]
    offsets: Sequence[Sequence[int] | None]
    weights: Sequence[Sequence[int] | None]
    registers: Sequence[int]
    starts: Sequence[Sequence[int]]

    def emitted(self, start: int, row: Row) -> list[Row]:
        """The target and the columns of every row that a walk emits for a row."""
        return self._from(start, row, dict(enumerate(self.registers)), {-1: 0})

    def _from(self, at: int, row: Row, registers: dict[int, int], places: dict[int, int]) -> list[Row]:
        operation, following, _, *fields = self.operations[at : at + 1000]

        def go_on() -> list[Row]:
            return self._from(following, row, registers, places)

        if operation == 0:  # LOAD
            for place, register in zip(
                fields[1 : 1 + 2 * fields[0] : 2], fields[2 : 2 + 2 * fields[0] : 2], strict=True
            ):
                registers = {**registers, register: row[place]}
            return go_on()
        if operation == 1:  # BIND
            register, _, _, n_bounds, n_atoms, bounds_at = fields[:6]
            atoms, atom = [], at + 9
            for _ in range(n_atoms):
                atoms.append(atom)
                atom += 2 + 3 * self.operations[atom]
            bounds = self.operations[bounds_at : bounds_at + 2 * n_bounds]
            rows = []
            for value in sorted({value for atom in atoms for value in self._below(atom, places)}):
                moved: dict[int, int] | None = places
                for atom in atoms:
                    moved = moved and self._moved(atom, value, moved)
                tests = zip(bounds[::2], bounds[1::2], strict=True)
                if moved and all(COMPARED[op](value, registers[operand]) for op, operand in tests):
                    rows += self._from(following, row, {**registers, register: value}, moved)
            return rows
        if operation == 2:  # SEEK
            found = self._moved(at + 5, registers[fields[0]], places)
            return self._from(following, row, registers, found) if found else []
        if operation == 3:  # COPY
            registers = {**registers, fields[0]: registers[fields[1]]}
            return go_on()
        if operation == 4:  # COMPARE
            return go_on() if COMPARED[fields[0]](registers[fields[1]], registers[fields[2]]) else []
        if operation == 5:  # CALCULATE
            result = calculated("+-*/%a"[fields[1]], registers[fields[2]], registers[fields[3]])
            if result is None or result != wrap(result):
                if fields[4] != 2:
                    return []
                result = wrap(result) if result is not None else 0 if fields[1] == 4 else registers[fields[2]]
            registers = {**registers, fields[0]: result}
            return go_on()
        if operation == 6:  # ABSENT
            n_terms, n_batches, *terms = fields[: 2 + fields[0]]
            first = at + 5 + n_terms
            total = 0
            for batch in range(n_batches):
                node: int | None = 0
                for level, term in enumerate(terms):
                    number = self.operations[first + batch * n_terms + level]
                    node = None if node is None else self._find(number, node, registers[term])
                    if node is not None and level == n_terms - 1:
                        total += self._weight(number, node)
            return [] if total > 0 else go_on()
        return [(fields[0], *(registers[register] for register in fields[2 : 2 + fields[1]]))]

    def _find(self, level: int, node: int, value: int) -> int | None:
        """Where a value stands below a node of the level above."""
        offsets = self.offsets[level]
        begin, end = (0, len(self.values[level])) if offsets is None else (offsets[node], offsets[node + 1])
        return next((i for i in range(begin, end) if self.values[level][i] == value), None)

    def _weight(self, level: int, place: int) -> int:
        weights = self.weights[level]
        return 1 if weights is None else weights[place]

    def _slots(self, atom: int) -> list[tuple[int, int, int]]:
        described = self.operations[atom + 2 : atom + 2 + 3 * self.operations[atom]]
        return list(zip(described[::3], described[1::3], described[2::3], strict=True))

    def _below(self, atom: int, places: Mapping[int, int]) -> set[int]:
        """The values of an atom's batches below the places where they stand."""
        values: set[int] = set()
        for level, above, _ in self._slots(atom):
            offsets = self.offsets[level]
            if above >= 0 and places[above] < 0:
                continue
            node = places[above]
            begin, end = (0, len(self.values[level])) if offsets is None else (offsets[node], offsets[node + 1])
            values.update(self.values[level][begin:end])
        return values

    def _moved(self, atom: int, value: int, places: dict[int, int]) -> dict[int, int] | None:
        """The places after an atom has moved to a value; None if it does not hold it."""
        moved, total = dict(places), 0
        for level, above, own in self._slots(atom):
            node = places[above]
            place = self._find(level, node, value) if node >= 0 else None
            moved[own] = -1 if place is None else place
            if place is not None:
                total += self._weight(level, place) if self.operations[atom + 1] else 1
        return moved if total else None


def calculated(operator: str, left: int, right: int) -> int | None:
    """The exact result of an operator on integers, towards 0 for quotients; None if it is undefined."""
    if operator in "/%":
        if right == 0:
            return None
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return quotient if operator == "/" else left - quotient * right
    results = {"+": left + right, "-": left - right, "*": left * right, "a": abs(left)}
    return results[operator]


COMPARED: list[Callable[[int, int], bool]] = [
    operator.lt, operator.le, operator.eq, operator.ne, operator.ge, operator.gt
]  # fmt: skip
"""Comparisons by their number."""


def fixpoint(walked: Walked, orders: Sequence[int], first: Sequence[Row]) -> dict[tuple[Row, int], None]:
    """All rows of a loop with their ranks, from those of rank 0; a better value of a group is one more row."""
    rows = dict.fromkeys((row, 0) for row in first)
    best: dict[Row, int] = {}
    known, last, rank = set(first), list(first), 0
    for row in first:
        best[row[:-1]] = row[-1]
    while last:
        rank += 1
        derived = {new for row in last for start in walked.starts[row[0]] for new in walked.emitted(start, row)}
        last = []
        for row in sorted(derived, key=lambda row: (row[:-1], orders[row[0]] * row[-1])):
            order = orders[row[0]]
            if order and row[:-1] in best and order * row[-1] >= order * best[row[:-1]]:
                continue
            if row not in known:
                last.append(row)
                known.add(row)
                best[row[:-1]] = row[-1]
        rows.update(dict.fromkeys((row, rank) for row in last))
    return rows

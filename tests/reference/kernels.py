"""The kernels over lists of rows and dictionaries {row: weight}: slow, and meant to be seen to be right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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

    def look_up(self, prefix: Row, value: int) -> tuple[bool, int, tuple[int, ...]]:
        """Whether it holds the value, with what weight, and where its batches hold it if it goes on."""
        held = [batch.get(value, (-1, 0)) for batch in self.below(prefix)]
        if self.atom.ends:
            weight = wrap(sum(weight for _, weight in held))
            return weight != 0, weight, ()
        places = tuple(place for place, _ in held)
        return any(place >= 0 for place in places), 1, places


def extend(
    extenders: Sequence[Extender], prefix: Row, least: int, most: int, excluded: Sequence[int]
) -> list[Survivor]:
    """The values that all atoms hold, ascending."""
    values = {value for batch in extenders[0].below(prefix) for value in batch}
    survivors = []
    for value in sorted(values - set(excluded)):
        answers = [extender.look_up(prefix, value) for extender in extenders]
        if least <= value <= most and all(held for held, _, _ in answers):
            weight = 1
            for _, factor, _ in answers:
                weight = wrap(weight * factor)
            survivors.append((value, weight, tuple(place for _, _, places in answers for place in places)))
    return survivors

"""Inputs for kernels: rows, weights, and whole questions to extenders."""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.kernels.protocol import N_WORK, Int64Array
from gpu_wcoj.zset.index import IndexedZSet
from tests.reference import kernels as reference
from tests.reference.kernels import Atom, Batch, Row

LEAST, MOST = -(2**63), 2**63 - 1
EDGES = sorted(
    {sign * 2**bits + by for sign in (-1, 1) for bits in (31, 32) for by in (-1, 0, 1)} | {LEAST, -1, 0, 1, MOST}
)
"""Where values leave int32, uint32 and int64."""
SIZES = [0, 1, 2, 5, 31, 32, 33]
LARGE_SIZES = [1023, 1024, 1025]
DOMAINS: dict[str, Sequence[int]] = {
    "one": [7],
    "few": range(4),
    "negative": range(-20, 12),
    "narrow and wide": [-(2**31) - 1, -(2**31), -1, 0, 1, 2**31 - 1, 2**31],
    "extreme": [LEAST, LEAST + 1, -1, 0, 1, MOST - 1, MOST],
    "spread": range(-(2**62), 2**62, 2**58),
    "around 2^63": [*range(LEAST, LEAST + 40), *range(MOST - 40, MOST)],
    "edges": EDGES,
    "one half alike": [
        high * 2**32 + low for high in (-(2**31), -1, 0, 1, 2**31 - 1) for low in (0, 1, 7, 2**31 - 1, 2**31, 2**32 - 1)
    ],
}
"""What kernels get for values; `random_batch` also draws from the part of a domain that int32 holds."""
WEIGHTS: dict[str, Sequence[int]] = {
    "one": [1],
    "few": [-2, -1, 1, 2],
    "cancelling": [-1, 1],
    "extreme": [LEAST, MOST, -1, 1, 2**62],
}


def columns_of(rows: Sequence[Row], arity: int) -> list[Int64Array]:
    return [np.array([row[i] for row in rows], np.int64) for i in range(arity)]


def moved(columns: Sequence[Int64Array], backend: Backend) -> list[Int64Array]:
    """The columns where the backend computes."""
    return [backend.asarray(column) for column in columns]


def random_rows(rng: random.Random, size: int, domains: Sequence[Sequence[int]]) -> list[Row]:
    return [tuple(rng.choice(domain) for domain in domains) for _ in range(size)]


def narrow(domain: Sequence[int]) -> Sequence[int]:
    """The values of a domain that are stored in four bytes; all of it where none is."""
    return [value for value in domain if -(2**31) <= value < 2**31] or domain


def random_batch(rng: random.Random, size: int, domains: Sequence[Sequence[int]], weights: Sequence[int]) -> Batch:
    """Rows with weights; every third batch has narrow values, so that it meets wide ones of the same low half."""
    if rng.random() < 0.3:
        domains = [narrow(domain) for domain in domains]
    rows = random_rows(rng, size, domains)
    return reference.consolidate(rows, [rng.choice(weights) for _ in rows])


def places_in_marks(values: Int64Array, n_places: int) -> Int64Array:
    """Where a hash table of marks with that many places would have values, if all were free."""
    hashes = values.view(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        hashes = (hashes ^ (hashes >> np.uint64(shift))) * np.uint64(factor)
    hashes ^= hashes >> np.uint64(31)
    high, low = hashes >> np.uint64(32), hashes & np.uint64(2**32 - 1)
    n = np.uint64(n_places)
    return ((high * n + (low * n >> np.uint64(32))) >> np.uint64(32)).astype(np.int64)


@functools.cache
def marked_alike() -> tuple[list[int], list[int]]:
    """Values of int32 that fill a table of marks, and others that are sought where they stand and are not there.

    Each of the others differs from one of the first in a bit of its lower half, or has its lower half and another
    upper one.
    """
    rng = np.random.default_rng(3)
    n, held, others = 12 * 32, [], []
    for bit in range(32):
        drawn = np.unique(rng.integers(-(2**31), 2**31, 30_000))
        changed = (drawn ^ (1 << bit)).astype(np.uint32).view(np.int32).astype(np.int64)
        meet = np.flatnonzero(places_in_marks(drawn, 2 * n) == places_in_marks(changed, 2 * n))[:12]
        held += drawn[meet].tolist()
        others += changed[meet].tolist()
    assert len(set(held)) == n
    for value in held[::6]:
        far = value + (np.arange(-2000, 2000) << 32)
        place = places_in_marks(np.array([value]), 2 * n)
        others += [other for other in far[places_in_marks(far, 2 * n) == place].tolist() if other != value][:2]
    return held, others


def trie(batch: Batch, depth: int, backend: Backend) -> IndexedZSet:
    rows = sorted(batch)
    weights = np.array([batch[row] for row in rows], np.int64)
    unit = all(weight == 1 for weight in batch.values())
    columns = moved(columns_of(rows, depth), backend)
    return IndexedZSet.from_sorted(columns, None if unit else backend.asarray(weights), backend)


@dataclass
class Case:
    """A question to extenders: atoms, prefixes, and what is allowed.

    Attributes
    ----------
    rest
        Per atom, how many more levels it has below the variable.
    sought
        The one value that each prefix asks for, in the place of bounds.
    """

    atoms: list[Atom]
    rest: list[int]
    prefixes: list[Row]
    shared: list[bool]
    weights: list[int] | None = None
    bounds: list[tuple[int, int]] | None = None
    excluded: list[list[int]] = field(default_factory=list)
    sought: list[int] | None = None

    def __post_init__(self) -> None:
        if self.sought is not None:
            self.bounds = [(value, value) for value in self.sought]

    def expected(self) -> list[tuple[int, int, int, tuple[int, ...]]]:
        """(prefix, value, weight without the prefix's own, positions) of all survivors."""
        extenders = [reference.Extender(atom) for atom in self.atoms]
        survivors = []
        for p, prefix in enumerate(self.prefixes):
            least, most = self.bounds[p] if self.bounds is not None else (LEAST, MOST)
            found = reference.extend(extenders, prefix, least, most, [column[p] for column in self.excluded])
            survivors.extend((p, *survivor) for survivor in found)
        return survivors

    def sum_of_minima(self) -> int:
        """Smallest counts, bounds left aside, summed over the prefixes."""
        extenders = [reference.Extender(atom) for atom in self.atoms]
        return sum(min(extender.width(prefix) for extender in extenders) for prefix in self.prefixes)


class Question:
    """A `Case` as arrays of one backend; what it answers with is NumPy's."""

    def __init__(self, case: Case, backend: Backend) -> None:
        self.case = case
        self.backend = backend
        self.kernels = backend.kernels
        n = len(case.prefixes)
        columns = np.array(columns_of(case.prefixes, len(case.prefixes[0]) if n else 3), np.int64)
        self.tries, records, column_of = [], [], []
        levels, first, rows, out_rows = [], [0], [], []
        self.n_out_rows = 0
        for atom, rest in zip(case.atoms, case.rest, strict=True):
            depth = len(atom.bound)
            for batch in atom.batches:
                index = trie(batch, depth + 1 + rest, backend)
                self.tries.append(index)
                levels.append(index.levels[depth])
                rows.append(len(records) if depth else -1)
                if depth:
                    records.append([level.record for level in index.levels[:depth]])
                    column_of.append(list(atom.bound))
                out_rows.append(-1 if atom.ends else self.n_out_rows)
                self.n_out_rows += not atom.ends
            first.append(len(levels))
        self.positions = self.kernels.locate(records, column_of, backend.asarray(columns))
        last = [atom.ends for atom in case.atoms]
        is_sought = case.sought is not None
        self.extension = self.kernels.prepare(levels, first, last, case.shared, rows, out_rows, is_sought)
        bounds = case.bounds or []
        excluded = np.array(case.excluded, np.int64).reshape(len(case.excluded), n)
        self.lower = backend.asarray(np.array([least for least, _ in bounds], np.int64))
        self.upper = self.lower if is_sought else backend.asarray(np.array([most for _, most in bounds], np.int64))
        self.excluded = backend.asarray(excluded)
        self.weights = None if case.weights is None else backend.asarray(np.array(case.weights, np.int64))
        self.counters = backend.asarray(np.zeros(N_WORK, np.int64))

    @property
    def work(self) -> Int64Array:
        """The work done so far."""
        return self.backend.to_host(self.counters)

    def count(self, begin: int = 0, end: int | None = None) -> Int64Array:
        end = len(self.case.prefixes) if end is None else end
        counts = self.kernels.count_common(
            self.extension, self.positions, begin, end, self.lower, self.upper, self.excluded, self.counters
        )
        return self.backend.to_host(counts)

    def fill(
        self, capacity: int, weighted: bool = True, begin: int = 0
    ) -> Iterator[tuple[Int64Array, Int64Array, Int64Array | None, Int64Array]]:
        """The pieces that calls with this capacity return, until all is done."""
        end = len(self.case.prefixes)
        resume = np.array([begin, 0, 0], np.int64)
        while resume[0] < end:
            before = resume.copy()
            piece = self.kernels.fill_common(
                self.extension, self.positions, resume, end, self.lower, self.upper, self.excluded,
                self.weights if weighted else None, weighted, capacity, self.n_out_rows, self.counters,
            )  # fmt: skip
            assert len(piece[0]) <= capacity
            assert resume.tolist() != before.tolist()
            if resume[0] < end:
                assert len(piece[0]) > 0
            parent, value, weight, positions = piece
            host = self.backend.to_host
            yield host(parent), host(value), None if weight is None else host(weight), host(positions)

    def filled(self, capacity: int, weighted: bool = True) -> list[tuple[int, int, int, tuple[int, ...]]]:
        """All survivors, in the order of their prefixes and, for each, of their values."""
        survivors = []
        parents: list[int] = []
        for parent, value, weight, positions in self.fill(capacity, weighted):
            assert parent.dtype == value.dtype == positions.dtype == np.int64
            assert positions.shape == (self.n_out_rows, len(parent))
            assert (weight is not None) == weighted
            weights = [1] * len(parent) if weight is None else weight.tolist()
            assert weight is None or weight.dtype == np.int64
            parents.extend(parent.tolist())
            places = zip(*positions.tolist(), strict=True) if self.n_out_rows else [()] * len(parent)
            survivors.extend(zip(parent.tolist(), value.tolist(), weights, places, strict=True))
        assert parents == sorted(parents)
        return sorted(survivors)


def random_case(seed: object) -> Case:
    """A question of any shape: one to four atoms, up to three batches each, every kind of value and weight."""
    rng = random.Random(str(seed))
    n_columns = rng.randint(1, 3)
    keys = DOMAINS[rng.choice(["one", "few", "few", "negative", "extreme"])]
    domain = DOMAINS[rng.choice(list(DOMAINS))]
    atoms, rest = [], []
    for _ in range(rng.randint(1, 4)):
        bound = tuple(rng.sample(range(n_columns), rng.randint(0, min(2, n_columns))))
        deeper = rng.choice([0, 0, 0, 1, 2])
        weights = WEIGHTS[rng.choice(list(WEIGHTS))]
        domains = [*[keys] * len(bound), domain, *[DOMAINS["few"]] * deeper]
        size = rng.choice([*SIZES, 100, 300]) if rng.random() < 0.9 else rng.choice(LARGE_SIZES)
        batches = [
            random_batch(rng, rng.choice([size, size, 3, 0]), domains, weights) for _ in range(rng.choice([1, 1, 2, 3]))
        ]
        atoms.append(Atom(tuple(batches), bound, deeper == 0))
        rest.append(deeper)
    prefixes = random_rows(rng, rng.choice([1, 2, 31, 33, 80]), [keys] * n_columns)
    if rng.random() < 0.8:
        prefixes.sort()
    flags = rng.choice(["right", "right", "none", "all", "random"])
    shared = [
        {"right": n_columns - 1 not in atom.bound, "none": False, "all": True, "random": rng.random() < 0.5}[flags]
        for atom in atoms
    ]
    case = Case(atoms, rest, prefixes, shared)
    if rng.random() < 0.5:
        case.weights = [rng.choice(WEIGHTS["few"]) for _ in prefixes]
    if rng.random() < 0.4:
        limits = [LEAST, MOST, *domain]
        case.bounds = [(rng.choice(limits), rng.choice(limits)) for _ in prefixes]
    if rng.random() < 0.3:
        case.excluded = [[rng.choice(domain) for _ in prefixes] for _ in range(rng.randint(1, 2))]
    return case

"""Generic join: bind one variable at a time for a whole table of prefixes, piece by piece.

Every atom that holds the variable takes part. The work of a step is at most a constant times the sum over prefixes of
the smallest count, times a logarithm (Ngo, Porat, Ré, Rudra, "Worst-case optimal join algorithms", 2018,
doi:10.1145/3180143). A step's output is cut into pieces of `chunk_rows` rows, also inside one prefix, and a piece goes
to the last step before the next one starts, so memory is bounded by one piece a step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.join.conditions import bounds_of, passes
from gpu_wcoj.join.path import AtomUse, Condition, Step
from gpu_wcoj.join.prefixes import Layout, Prefixes
from gpu_wcoj.kernels.protocol import N_WORK, SURVIVORS, Int64Array
from gpu_wcoj.zset.index import IndexedZSet

CHUNK_ROWS = 1 << 17
"""Rows of one piece, unless the user says otherwise."""

Ranks = Callable[[str], Int64Array]
"""Per family of text, the rank of every code in text order."""


@dataclass(frozen=True, eq=False)
class Extension:
    """One step prepared for one layout: what the kernels take, and the layout after it."""

    kernel: object
    layout: Layout
    n_new_rows: int
    kept_rows: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class ExtensionShape:
    """What of an `Extension` depends on numbers of batches only, so that it outlives the tick."""

    slots: tuple[list[int], list[bool], list[bool], list[int], list[int]]
    layout: Layout
    n_new_rows: int
    kept_rows: tuple[int, ...]


Shapes = dict[tuple[Layout, str, str, tuple[int, ...]], ExtensionShape]


@dataclass(eq=False)
class GenericJoin:
    """Extends prefixes through atoms, each a list of batches.

    Attributes
    ----------
    uses
        The atoms, by number.
    batches
        Per atom, the batches of the state that it sees.
    weighted
        Whether weights are carried; without, all rows have weight 1 and only rows whose sum is not 0 exist.
    needed
        Variables whose values are kept.
    shapes
        Extensions' shapes, kept from tick to tick.
    work
        Per variable, what the kernels counted; see `gpu_wcoj.kernels.protocol`.
    """

    uses: dict[int, AtomUse]
    batches: dict[int, tuple[IndexedZSet, ...]]
    weighted: bool
    needed: frozenset[str]
    backend: Backend
    chunk_rows: int = CHUNK_ROWS
    ranks: Ranks | None = None
    shapes: Shapes = field(default_factory=dict)
    work: dict[str, Int64Array] = field(default_factory=dict)
    _extensions: dict[tuple[Layout, str, str], Extension] = field(default_factory=dict)

    def extension(self, layout: Layout, step: Step, newest: str) -> Extension:
        """Prepare a step for prefixes of this layout whose variable bound last is `newest`; cached."""
        cached = self._extensions.get((layout, step.variable, newest))
        if cached is not None:
            return cached
        depth = dict(layout)
        counts = tuple(len(self.batches[atom]) for atom in self.batches)
        shape = self.shapes.get((layout, step.variable, newest, counts))
        if shape is None:
            shape = self.shapes[layout, step.variable, newest, counts] = self._shape(layout, step, newest)
        levels = [batch.levels[depth.get(atom, 0)] for atom in step.atoms for batch in self.batches[atom]]
        kernel = self.backend.kernels.prepare(levels, *shape.slots)
        made = Extension(kernel, shape.layout, shape.n_new_rows, shape.kept_rows)
        self._extensions[layout, step.variable, newest] = made
        return made

    def _shape(self, layout: Layout, step: Step, newest: str) -> ExtensionShape:
        depth = dict(layout)
        first_row: dict[int, int] = {}
        n_rows = 0
        for atom, _ in layout:
            first_row[atom] = n_rows
            n_rows += len(self.batches[atom])
        rows: list[int] = []
        out_rows: list[int] = []
        first, last, shared = [0], [], []
        new_layout: list[tuple[int, int]] = []
        n_new_rows = 0
        for atom in step.atoms:
            use, bound = self.uses[atom], depth.get(atom, 0)
            ends = bound + 1 == len(use.variables)
            n_batches = len(self.batches[atom])
            rows.extend(first_row[atom] + number if bound else -1 for number in range(n_batches))
            out_rows.extend(-1 if ends else n_new_rows + number for number in range(n_batches))
            first.append(len(rows))
            last.append(ends)
            shared.append(newest not in use.variables[:bound])
            if not ends:
                new_layout.append((atom, bound + 1))
                n_new_rows += n_batches
        kept_rows: list[int] = []
        for atom, bound in layout:
            if atom not in step.atoms:
                new_layout.append((atom, bound))
                kept_rows.extend(range(first_row[atom], first_row[atom] + len(self.batches[atom])))
        return ExtensionShape((first, last, shared, rows, out_rows), tuple(new_layout), n_new_rows, tuple(kept_rows))

    def widths(self, prefixes: Prefixes, step: Step) -> Int64Array:
        """Per prefix, the smallest count over the step's atoms: a bound on the values that it would bind."""
        smallest = np.full(len(prefixes), np.iinfo(np.int64).max)
        at = 0
        for atom, bound in prefixes.layout:
            batches = self.batches[atom]
            if atom in step.atoms:
                own = np.zeros(len(prefixes), np.int64)
                for batch, position in zip(batches, prefixes.positions[at : at + len(batches)], strict=True):
                    offsets = batch.offsets[bound - 1]
                    own += np.where(position >= 0, offsets[position + 1] - offsets[position], 0)
                smallest = np.minimum(smallest, own)
            at += len(batches)
        return smallest

    def extend(self, prefixes: Prefixes, step: Step) -> Iterator[tuple[Int64Array, Prefixes]]:
        """Bind one variable; yield pieces, each with the parent of every row."""
        extension = self.extension(prefixes.layout, step, prefixes.order[-1])
        lower, upper, excluded = bounds_of(step, prefixes.values, len(prefixes))
        work = self._work(step)
        resume = np.zeros(3, np.int64)
        capacity = min(self.chunk_rows, max(4096, 32 * len(prefixes)))
        while resume[0] < len(prefixes):
            parent, value, weights, found = self.backend.kernels.fill_common(
                extension.kernel, prefixes.positions, resume, len(prefixes), lower, upper, excluded,
                prefixes.weights, self.weighted, capacity, extension.n_new_rows, work,
            )  # fmt: skip
            if len(parent) == 0:
                continue
            capacity = self.chunk_rows
            positions = found
            if extension.kept_rows:
                positions = np.empty((len(found) + len(extension.kept_rows), len(parent)), np.int64)
                positions[: len(found)] = found
                for at, row in enumerate(extension.kept_rows, len(found)):
                    np.take(prefixes.positions[row], parent, out=positions[at])
            values = {name: column[parent] for name, column in prefixes.values.items()}
            if step.variable in self.needed:
                values[step.variable] = value
            piece = Prefixes((*prefixes.order, step.variable), values, weights, extension.layout, positions)
            textual = [condition for condition in step.conditions if condition.textual]
            if textual:
                kept = np.flatnonzero(passes(textual, {**values, step.variable: value}, self.ranks))
                parent, piece = parent[kept], piece.take(kept)
            yield parent, piece

    def pieces(self, prefixes: Prefixes, steps: Sequence[Step]) -> Iterator[Prefixes]:
        """Bind all variables of `steps`, depth first; yield what is bound to the last, piece by piece."""
        if len(prefixes) == 0:
            return
        if not steps:
            yield prefixes
            return
        for _, piece in self.extend(prefixes, steps[0]):
            yield from self.pieces(piece, steps[1:])

    def count(self, prefixes: Prefixes, steps: Sequence[Step]) -> Int64Array:
        """Per prefix, the sum of the weights of all ways to bind `steps`; own weights left out.

        Exact while products of weights fit int64; counts that do not are returned as Python integers.

        Parts of the remaining variables that share no atom and no condition are counted apart and multiplied.
        """
        if not steps:
            return np.ones(len(prefixes), np.int64)
        if len(prefixes) == 0:
            return np.zeros(0, np.int64)
        parts = independent(tuple(steps)) if len(steps) > 1 else (steps,)
        if len(parts) > 1:
            product = self._count_part(prefixes, parts[0])
            for part in parts[1:]:
                product = times(product, self._count_part(prefixes, part))
            return product
        bare = prefixes if prefixes.weights is None else _without_weights(prefixes)
        if len(steps) == 1 and not any(condition.textual for condition in steps[0].conditions):
            return self._count_last(bare, steps[0])
        counts = np.zeros(len(prefixes), np.int64)
        for parent, piece in self.extend(bare, steps[0]):
            inner = self.count(piece, steps[1:])
            if piece.weights is not None:
                inner = times(inner, piece.weights)
            if len(parent):
                if inner.dtype != object and largest(inner) * len(inner) + largest(counts) >= 1 << 63:
                    inner = inner.astype(object)
                if inner.dtype == object:
                    counts = counts.astype(object)
                starts = np.concatenate([np.zeros(1, np.intp), np.flatnonzero(parent[1:] != parent[:-1]) + 1])
                counts[parent[starts]] += np.add.reduceat(inner, starts)
        return counts

    def _count_last(self, prefixes: Prefixes, step: Step) -> Int64Array:
        extension = self.extension(prefixes.layout, step, prefixes.order[-1])
        lower, upper, excluded = bounds_of(step, prefixes.values, len(prefixes))
        return self.backend.kernels.count_common(
            extension.kernel, prefixes.positions, 0, len(prefixes), lower, upper, excluded, self._work(step)
        )

    def _count_part(self, prefixes: Prefixes, steps: Sequence[Step]) -> Int64Array:
        """Count one independent part, once for each run of prefixes that look alike to it."""
        atoms = {atom for step in steps for atom in step.atoms}
        rows: list[int] = []
        at = 0
        for atom, _ in prefixes.layout:
            if atom in atoms:
                rows.extend(range(at, at + len(self.batches[atom])))
            at += len(self.batches[atom])
        seen = [prefixes.positions[row] for row in rows]
        asked = {condition.other for step in steps for condition in step.conditions}
        seen.extend(prefixes.values[name] for name in prefixes.values if name in asked)
        starts = self.backend.kernels.run_starts(seen) if seen else np.zeros(1, np.intp)
        if len(starts) == len(prefixes):
            return self.count(prefixes, steps)
        counts = self.count(prefixes.take(starts), steps)
        return np.repeat(counts, np.diff(np.append(starts, len(prefixes))))

    def _work(self, step: Step) -> Int64Array:
        return self.work.setdefault(step.variable, np.zeros(N_WORK, np.int64))

    @property
    def survivors(self) -> int:
        """Rows that the steps so far have let through, all variables together."""
        return sum(int(counted[SURVIVORS]) for counted in self.work.values())


def largest(values: Int64Array) -> int:
    """Largest magnitude; 0 for none."""
    return max(int(values.max()), -int(values.min())) if len(values) else 0


def times(left: Int64Array, right: Int64Array) -> Int64Array:
    """Elementwise product, as Python integers where int64 might not hold it."""
    if left.dtype != object and right.dtype != object and largest(left) * largest(right) < 1 << 63:
        return left * right
    product: Int64Array = left.astype(object) * right.astype(object)
    return product


def _without_weights(prefixes: Prefixes) -> Prefixes:
    return Prefixes(prefixes.order, prefixes.values, None, prefixes.layout, prefixes.positions)


@lru_cache(maxsize=1024)
def independent(steps: tuple[Step, ...]) -> tuple[tuple[Step, ...], ...]:
    """Split steps into parts that share no atom and no condition, each in the given order."""
    group = list(range(len(steps)))
    place = {step.variable: number for number, step in enumerate(steps)}
    links: list[tuple[int, int]] = []
    for i, step in enumerate(steps):
        links.extend((i, j) for j in range(i) if set(step.atoms) & set(steps[j].atoms))
        links.extend((i, place[str(other)]) for other in _others(step.conditions) if other in place)
    for i, j in links:
        old, new = max(group[i], group[j]), min(group[i], group[j])
        group = [new if own == old else own for own in group]
    parts = (tuple(step for step, own in zip(steps, group, strict=True) if own == one) for one in sorted(set(group)))
    return tuple(parts)


def _others(conditions: Sequence[Condition]) -> list[str]:
    return [condition.other for condition in conditions if isinstance(condition.other, str)]

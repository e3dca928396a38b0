"""Generic join: bind one variable at a time for a table of prefixes, piece by piece.

Every atom that holds the variable takes part. The work of a step is at most a constant times the sum over prefixes of
the smallest count, times a logarithm (Ngo, Porat, Ré, Rudra, "Worst-case optimal join algorithms", 2018,
doi:10.1145/3180143). A step's output is cut into pieces of `chunk_rows` rows, also inside one prefix, and a piece goes
to the last step before the next one starts, so memory is bounded by one piece a step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.join.alike import group_prefixes
from gpu_wcoj.join.checks import filter_piece
from gpu_wcoj.join.conditions import condition_mask, find_bounds
from gpu_wcoj.join.last import count_last_step
from gpu_wcoj.join.magnitudes import largest_magnitudes, multiply_exactly, to_python
from gpu_wcoj.join.memory import CHUNK_ROWS, run_within_memory
from gpu_wcoj.join.plan import AtomUse, Step, split_independent
from gpu_wcoj.join.prefixes import Layout, Prefixes
from gpu_wcoj.join.shapes import Shapes, shape_of
from gpu_wcoj.kernels.protocol import N_WORK, PROBES, SURVIVORS, Choice, Int64Array
from gpu_wcoj.zset.arrays import positions
from gpu_wcoj.zset.index import IndexedZSet

if TYPE_CHECKING:
    from gpu_wcoj.dictionary import Dictionary
    from gpu_wcoj.join.meter import Meter

MAX_SURVIVORS = 1 << 62
"""Upper limit of counted survivors: they include sums of weights, which may exceed int64."""

Bounds = tuple[Int64Array, Int64Array, Int64Array]
"""The result of `find_bounds`."""

Ranks = Callable[[str], Int64Array]
"""Maps a family of text to the rank of every code in text order."""


@dataclass(frozen=True, eq=False)
class Extension:
    """One step prepared for one layout: the kernels' argument, and the layout after the step.

    `brings_weights` says whether a prefix without weight may get one.
    """

    kernel: object
    layout: Layout
    n_new_rows: int
    kept_rows: tuple[int, ...]
    brings_weights: bool


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
        Whether weights are carried; otherwise all rows have weight 1 and only rows whose sum is not 0 exist.
    needed
        Variables whose values are kept.
    max_weight
        Upper bound of the products of one weight of each atom and of a seed; None if there is none.
    shapes
        Shapes of extensions, cached between ticks.
    work
        Per step, by name, what the kernels counted; see `gpu_wcoj.kernels.protocol`.
    negated
        Per negated atom, the batches of the state that it sees.
    failed
        Truth values, on the host or the device, that tell whether a calculation failed for some row.
    dictionary
        The texts that are calculated with.
    meter
        Collects the join's measurements, if it is measured.
    """

    uses: dict[int, AtomUse]
    batches: dict[int, tuple[IndexedZSet, ...]]
    weighted: bool
    needed: frozenset[str]
    backend: Backend
    chunk_rows: int = CHUNK_ROWS
    ranks: Ranks | None = None
    max_weight: int | None = None
    shapes: Shapes = field(default_factory=dict)
    work: dict[str, Int64Array] = field(default_factory=dict)
    negated: dict[int, tuple[IndexedZSet, ...]] = field(default_factory=dict)
    failed: list[Any] = field(default_factory=list)
    dictionary: Dictionary | None = None
    meter: Meter | None = None
    _extensions: dict[tuple[Layout, str, str], Extension] = field(default_factory=dict)

    def extension(self, prefixes: Prefixes, step: Step) -> Extension:
        """Prepare a step for prefixes of this layout; cached.

        Atoms share ranges between prefixes if they lack the newest of the bound variables that the step's atoms hold.
        """
        layout, newest = prefixes.layout, self._newest_variable(prefixes, step)
        cached = self._extensions.get((layout, step.name, newest))
        if cached is not None:
            return cached
        depth = dict(layout)
        n_batches = {atom: len(atom_batches) for atom, atom_batches in self.batches.items()}
        counts = tuple(n_batches.values())
        shape = self.shapes.get((layout, step.name, newest, counts))
        if shape is None:
            shape = self.shapes[layout, step.name, newest, counts] = shape_of(
                layout, step, newest, self.uses, n_batches
            )
        levels = [batch.levels[depth.get(atom, 0)] for atom in step.atoms for batch in self.batches[atom]]
        kernel = self.backend.kernels.prepare(levels, *shape.slots, step.is_lookup)
        finished = [self.batches[atom] for atom, ends in zip(step.atoms, shape.slots[1], strict=True) if ends]
        brings = self.weighted and any(
            len(atom_batches) != 1 or atom_batches[0].weights is not None for atom_batches in finished
        )
        made = Extension(kernel, shape.layout, shape.n_new_rows, shape.kept_rows, brings)
        self._extensions[layout, step.name, newest] = made
        return made

    def _newest_variable(self, prefixes: Prefixes, step: Step) -> str:
        """Return the variable bound last among those that the step's atoms hold; of all, if none."""
        depth = dict(prefixes.layout)
        for name in reversed(prefixes.order):
            if any(name in self.uses[atom].variables[: depth.get(atom, 0)] for atom in step.atoms):
                return name
        return prefixes.order[-1]

    def choice(self, prefixes: Prefixes, step: Step) -> Choice:
        """Return the step's argument of `Kernels.narrowest`."""
        atoms = []
        offset = 0
        for atom, bound in prefixes.layout:
            batches = self.batches[atom]
            if atom in step.atoms:
                atoms.append([(row, batch.offsets[bound - 1]) for row, batch in enumerate(batches, offset)])
            offset += len(batches)
        return prefixes.positions, atoms

    def extend(self, prefixes: Prefixes, step: Step) -> Iterator[tuple[Int64Array, Prefixes]]:
        """Bind one variable; yield pieces, each with the parent of every row."""
        n = len(prefixes)
        bounds = find_bounds(step, prefixes.values, n, self.backend)
        resume = np.zeros(3, np.int64)
        capacity = min(self.chunk_rows, max(4096, 32 * n))
        while resume[0] < n:
            if self.backend.device is None:
                parent, piece = self._piece(prefixes, step, bounds, resume, n, capacity)
            else:
                parent, piece = self._piece_on_device(prefixes, step, bounds, resume, capacity)
            if len(parent) == 0:
                continue
            capacity = self.chunk_rows
            if not step.is_plain:
                textual = [condition for condition in step.conditions if condition.textual]
                if textual:
                    (passing,) = positions(
                        self.backend, condition_mask(textual, piece.values, self.ranks, self.backend.xp)
                    )
                    parent, piece = parent[passing], piece.gather(passing, self.backend.xp)
                if step.checks:
                    piece, rows = filter_piece(step.checks, piece, self)
                    parent = parent if rows is None else parent[rows]
            yield parent, piece

    def _piece_on_device(
        self, prefixes: Prefixes, step: Step, bounds: Bounds, resume: Int64Array, capacity: int
    ) -> tuple[Int64Array, Prefixes]:
        """Call `_piece` with fewer rows, from now on, if the device runs out of memory."""
        start, n = resume.copy(), len(prefixes)
        max_rows = max(capacity, n - int(start[0]))

        def run(rows: int) -> tuple[Int64Array, Prefixes]:
            resume[:] = start
            if rows < max_rows:
                self.chunk_rows = min(self.chunk_rows, rows)
            return self._piece(prefixes, step, bounds, resume, min(n, int(start[0]) + rows), min(capacity, rows))

        return run_within_memory(self.backend, max_rows, run, f"binding {step.variable}")

    def _piece(
        self, prefixes: Prefixes, step: Step, bounds: Bounds, resume: Int64Array, end: int, capacity: int
    ) -> tuple[Int64Array, Prefixes]:
        """Return the next rows of `extend`, from prefixes before `end`; `resume` advances.

        At most `capacity` rows are returned.
        """
        extension = self.extension(prefixes, step)
        xp = self.backend.xp
        weighted = self.weighted and (extension.brings_weights or prefixes.weights is not None)
        begin, work = int(resume[0]), self.work_of(step) if not step.is_lookup else xp.zeros(N_WORK, np.int64)
        parent, value, weights, new_rows = self.backend.kernels.fill_common(
            extension.kernel, prefixes.positions, resume, end, *bounds,
            prefixes.weights, weighted, capacity, extension.n_new_rows, work,
        )  # fmt: skip
        if step.is_lookup:
            self.record_searches(step, int(resume[0]) - begin, work)
        if len(parent) == 0:
            return parent, prefixes
        stand = new_rows
        if extension.kept_rows:
            if self.backend.device is None:
                stand = np.empty((len(new_rows) + len(extension.kept_rows), len(parent)), np.int64)
                stand[: len(new_rows)] = new_rows
                for out_row, row in enumerate(extension.kept_rows, len(new_rows)):
                    np.take(prefixes.positions[row], parent, out=stand[out_row])
            else:
                kept_rows = xp.stack([prefixes.positions[row][parent] for row in extension.kept_rows])
                stand = xp.concatenate([new_rows, kept_rows])
        values = {name: column[parent] for name, column in prefixes.values.items()}
        order = prefixes.order
        if not step.is_lookup:
            order = (*order, step.variable)
            if step.variable in self.needed:
                values[step.variable] = value
        return parent, Prefixes(order, values, weights, extension.layout, stand)

    def pieces(self, prefixes: Prefixes, steps: Sequence[Step]) -> Iterator[Prefixes]:
        """Bind all variables of `steps`, depth first; yield the results in pieces."""
        if len(prefixes) == 0:
            return
        if not steps:
            yield prefixes
            return
        for _, piece in self.extend(prefixes, steps[0]):
            yield from self.pieces(piece, steps[1:])

    def count(self, prefixes: Prefixes, steps: Sequence[Step]) -> Int64Array:
        """Return per prefix the sum of the weights of all bindings of `steps`.

        The prefixes' own weights are left out. Exact while products of weights fit int64; larger counts are returned as
        Python integers, on the host.

        Parts of the remaining variables that share no atom and no condition are counted separately and multiplied.
        """
        return self.count_bounded(prefixes, steps)[0]

    def count_bounded(self, prefixes: Prefixes, steps: Sequence[Step]) -> tuple[Int64Array, int | None]:
        """Return `count` and a bound of the counts' magnitudes; None if only the counts tell it.

        A bound that follows from the state avoids waiting for a device.
        """
        if not steps:
            return self.backend.xp.ones(len(prefixes), np.int64), 1
        if len(prefixes) == 0:
            return self.backend.xp.zeros(0, np.int64), 0
        # A lookup comes before independent parts: the prefixes that it drops are not counted.
        is_whole = len(steps) == 1 or steps[0].is_lookup
        parts = (steps,) if is_whole else split_independent(tuple(steps))
        product, bound = self._count_part(prefixes, parts[0])
        for part in parts[1:]:
            factor, factor_bound = self._count_part(prefixes, part)
            bound = None if bound is None or factor_bound is None else bound * factor_bound
            product = multiply_exactly(product, factor, self.backend, bound)
        return product, bound

    def _count_part(self, prefixes: Prefixes, steps: Sequence[Step]) -> tuple[Int64Array, int | None]:
        """Count one independent part, once for each group of prefixes that are equal for it."""
        bare = prefixes if prefixes.weights is None else _without_weights(prefixes)
        chosen, group = group_prefixes(bare, steps, self)
        counts, bound = self._count_connected(chosen, steps)
        if group is None:
            return counts, bound
        if counts.dtype == object:
            return counts[self.backend.to_host(group)], bound
        spread = counts[group]
        xp, work = self.backend.xp, self.work_of(steps[-1])
        before, after = (xp.abs(column.astype(np.float64)).sum() for column in (counts, spread))
        work[SURVIVORS] = xp.minimum(work[SURVIVORS] + (after - before), MAX_SURVIVORS).astype(np.int64)
        return spread, bound

    def _count_connected(self, prefixes: Prefixes, steps: Sequence[Step]) -> tuple[Int64Array, int | None]:
        """Count connected steps, for prefixes without weights."""
        if len(steps) == 1:
            last_counts = self._count_last(prefixes, steps[0])
            if last_counts is not None:
                return last_counts
        counts: Int64Array = self.backend.xp.zeros(len(prefixes), np.int64)
        max_count: int | None = 0
        for parent, piece in self.extend(prefixes, steps[0]):
            if len(parent) == 0:
                continue
            inner, bound = self.count_bounded(piece, steps[1:])
            if piece.weights is not None:
                bound = None if bound is None or self.max_weight is None else bound * self.max_weight
                inner = multiply_exactly(inner, piece.weights, self.backend, bound)
            max_count = None if max_count is None or bound is None else max_count + bound * len(parent)
            counts = self.add_by_parent(counts, parent, inner, max_count)
        return counts, max_count

    def add_by_parent(
        self, counts: Int64Array, parent: Int64Array, inner: Int64Array, max_count: int | None
    ) -> Int64Array:
        """Add the sum of `inner` over equal parents to `counts`.

        If int64 is too small, the result is Python integers on the host. `max_count` bounds all counts' magnitude, if
        there is a bound.
        """
        backend = self.backend
        if inner.dtype != object and counts.dtype != object and (max_count is None or max_count >= 1 << 63):
            max_inner, all_before = largest_magnitudes(backend, inner, counts)
            if max_inner * len(inner) + all_before >= 1 << 63:
                inner = to_python(backend, inner)
        if inner.dtype == object or counts.dtype == object:
            counts, inner, parent = to_python(backend, counts), to_python(backend, inner), backend.to_host(parent)
            starts = np.concatenate([np.zeros(1, np.intp), np.flatnonzero(parent[1:] != parent[:-1]) + 1])
            counts[parent[starts]] += np.add.reduceat(inner, starts)
        elif backend.device is None:
            ends = np.concatenate([np.flatnonzero(parent[1:] != parent[:-1]), np.full(1, len(parent) - 1)])
            sums = np.cumsum(inner)[ends]
            counts[parent[ends]] += sums
            counts[parent[ends[1:]]] -= sums[:-1]
        else:
            starts = backend.xp.searchsorted(parent, backend.xp.arange(len(counts) + 1))
            before = backend.kernels.exclusive_sum(inner)[starts]
            counts += before[1:] - before[:-1]
        return counts

    def _count_last(self, prefixes: Prefixes, step: Step) -> tuple[Int64Array, int | None] | None:
        """Return the counts of a last step and their bound; None if its values must be listed."""
        return count_last_step(prefixes, step, self)

    def record_searches(self, step: Step, n: int, work: Int64Array) -> None:
        """Record the work of looking up `n` prefixes: one search each, and none of the proposals."""
        total = self.work_of(step)
        total[PROBES:] += work[PROBES:]
        total[PROBES] += n

    def work_of(self, step: Step) -> Int64Array:
        """Return the kernels' counters of a step."""
        work = self.work.get(step.name)
        if work is None:
            work = self.work[step.name] = self.backend.xp.zeros(N_WORK, np.int64)
        return work


def _without_weights(prefixes: Prefixes) -> Prefixes:
    return Prefixes(prefixes.order, prefixes.values, None, prefixes.layout, prefixes.positions)

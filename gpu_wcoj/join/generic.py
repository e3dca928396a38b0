"""Generic join: bind one variable at a time for a table of prefixes, piece by piece.

Every atom that holds the variable takes part. The work of a step is at most a constant times the sum over prefixes of
the smallest count, times a logarithm (Ngo, Porat, Ré, Rudra, "Worst-case optimal join algorithms", 2018,
doi:10.1145/3180143). A step's output is cut into pieces of `chunk_rows` rows, also inside one prefix, and a piece goes
to the last step before the next one starts, so memory is bounded by one piece a step.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import log, prod
from typing import Any

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.budget import Budget, reserve
from gpu_wcoj.data.column import Dictionary
from gpu_wcoj.functions import Calculation, evaluate_calculation
from gpu_wcoj.join.plan import Absent, AtomUse, Check, Condition, Step, split_independent
from gpu_wcoj.join.prefixes import (
    CHUNK_ROWS,
    Gauge,
    Layout,
    Meter,
    Prefixes,
    Shapes,
    condition_mask,
    exact_dot,
    find_bounds,
    largest_magnitudes,
    multiply_exactly,
    now,
    run_within_memory,
    shape_of,
    to_python,
    weights_of_rows,
)
from gpu_wcoj.kernels.protocol import N_WORK, PROBES, SURVIVORS, Choice, IndexArray, Int64Array
from gpu_wcoj.zset.arrays import BoolArray, numbers, positions, stacked
from gpu_wcoj.zset.index import IndexedZSet

# Checks of a step after its variables are bound: calculations, conditions, negated atoms.


def apply_checks(
    checks: Sequence[Check], values: dict[str, Int64Array], n: int, join: GenericJoin, alive: BoolArray | None = None
) -> BoolArray:
    """Return a mask of the rows among `n` that pass the checks.

    Calculated variables are added to `values`. A row for which a calculation fails is dropped, and `join.failed`
    records whether it was alive. Whether this is an error is decided later: a later step may drop the row, or its head
    may have no state.
    """
    backend = join.backend
    xp = backend.xp
    mask: BoolArray = xp.ones(n, np.bool_) if alive is None else alive

    def column(term: str | int) -> Int64Array:
        if isinstance(term, str):
            return values[term]
        constant: Int64Array = xp.full(n, term, np.int64)
        return constant

    for check in checks:
        if isinstance(check, Condition):
            mask = mask & condition_mask([check], values, join.ranks, xp)
        elif isinstance(check, Calculation):
            arguments = [column(term) for term in check.arguments]
            values[check.variable], failed = evaluate_calculation(
                check, arguments, mask, backend, join.dictionary, join.ranks
            )
            if failed is not None and (check.drops or not check.is_inverse):
                if not check.drops:
                    join.failed.append((failed & mask).any())
                mask = mask & ~failed
        else:
            mask = mask & ~presence_mask(check, [column(term) for term in check.terms], join)
    return mask


def presence_mask(check: Absent, columns: Sequence[Int64Array], join: GenericJoin) -> BoolArray:
    """Return a mask of the rows that the negated atom's relation contains."""
    batches = join.negated[check.use.atom]
    if not batches:
        nothing: BoolArray = join.backend.xp.zeros(len(columns[0]), np.bool_)
        return nothing
    mask: BoolArray = weights_of_rows(batches, range(len(columns)), stacked(join.backend, columns), join.backend) > 0
    return mask


def filter_piece(checks: Sequence[Check], piece: Prefixes, join: GenericJoin) -> tuple[Prefixes, Int64Array | None]:
    """Apply checks to a piece; return what remains and its rows in the piece, None for all."""
    values = dict(piece.values)
    alive = apply_checks(checks, values, len(piece), join)
    needed = {name: column for name, column in values.items() if name in join.needed}
    piece = Prefixes(piece.order, needed, piece.weights, piece.layout, piece.positions)
    (rows,) = positions(join.backend, alive)
    if len(rows) == len(piece):
        return piece, None
    return piece.gather(rows, join.backend.xp), rows


# The last step of a count: sums of weights over ranges, without listing values if possible.


MIN_RANGE_PREFIXES = 32
"""Prefixes below which values are proposed one by one: that is one kernel call."""

Counted = tuple[Int64Array, int | None]
"""Counts, and a bound of their magnitude, if there is one."""


def can_count_last_step(step: Step, n: int) -> bool:
    """Return whether `count_last_step` has a result for `n` prefixes."""
    return step.is_plain or _subtracted_atom(step, n) is not None


def _subtracted_atom(step: Step, n: int) -> Absent | None:
    """Return the negated atom to subtract from the values of a last step, its only check.

    Its arrangement has to end with the step's variable, and to begin with other variables; otherwise None.
    """
    if n < MIN_RANGE_PREFIXES or len(step.checks) != 1 or any(condition.textual for condition in step.conditions):
        return None
    (absent,) = step.checks
    if (
        not isinstance(absent, Absent)
        or len(absent.terms) < 2
        or not all(isinstance(term, str) for term in absent.terms)
    ):
        return None
    *prefix, last_term = absent.terms
    return absent if last_term == step.variable and last_term not in prefix else None


def count_last_step(prefixes: Prefixes, step: Step, join: GenericJoin) -> Counted | None:
    """Return the counts of a last step as `GenericJoin.count_bounded` does.

    The result is None if its values have to be listed. They have to if the sum of their weights may leave int64:
    kernels add modulo 2^64.
    """
    if join.weighted and join.max_weight is not None and join.max_weight > 1:
        n_values = min(sum(map(len, join.batches[atom])) for atom in step.atoms)
        if n_values * join.max_weight >= 1 << 63:
            return None
    if not step.is_plain:
        absent = _subtracted_atom(step, len(prefixes))
        return None if absent is None else _count_without(prefixes, step, absent, join)
    if len(prefixes) >= MIN_RANGE_PREFIXES and len(step.atoms) == 1 and not step.is_lookup:
        (atom,) = step.atoms
        ends = dict(prefixes.layout).get(atom, 0) + 1 == len(join.uses[atom].variables)
        measures = join.backend.kernels.measures_ranges and all(batch.weights is None for batch in join.batches[atom])
        if ends and not measures and all(condition.op == "!=" for condition in step.conditions):
            return _sum_ranges(prefixes, step, join), None
    return _count_proposed(prefixes, step, join)


def _count_proposed(prefixes: Prefixes, step: Step, join: GenericJoin) -> Counted:
    """Return the sums of the weights of the values that all atoms hold."""
    backend = join.backend
    extension = join.extension(prefixes, step)
    bounds = find_bounds(step, prefixes.values, len(prefixes), backend)
    n = len(prefixes)
    work = join.work_of(step)
    if step.is_lookup:
        work = backend.xp.zeros(N_WORK, np.int64)

    def run(begin: int, end: int) -> Int64Array:
        sums = backend.kernels.count_common(extension.kernel, prefixes.positions, begin, end, *bounds, work)
        if step.is_lookup:
            join.record_searches(step, end - begin, work)
            work[:] = 0
        return sums

    if backend.device is None:
        return run(0, n), None

    def in_blocks(rows: int) -> Int64Array:
        blocks = [run(begin, min(n, begin + rows)) for begin in range(0, n, rows)]
        counts: Int64Array = blocks[0] if len(blocks) == 1 else backend.xp.concatenate(blocks)
        return counts

    depth = dict(prefixes.layout)
    values = min(sum(len(batch.values[depth.get(atom, 0)]) for batch in join.batches[atom]) for atom in step.atoms)
    bound = None if join.max_weight is None else values * join.max_weight
    return run_within_memory(backend, n, in_blocks, f"counting {step.variable}"), bound


def _sum_ranges(prefixes: Prefixes, step: Step, join: GenericJoin) -> Int64Array:
    """Return the sum of the weights of each prefix's range, less those of excluded values.

    Sums are taken modulo 2^64.
    """
    xp, n = join.backend.xp, len(prefixes)
    total: Int64Array = xp.zeros(n, np.int64)
    n_values: Int64Array = xp.zeros(n, np.int64)
    (atom,) = step.atoms
    offset = 0
    for layout_atom, _ in prefixes.layout:
        if layout_atom == atom:
            break
        offset += len(join.batches[layout_atom])
    reached = atom in dict(prefixes.layout)
    for row, batch in enumerate(join.batches[atom], offset):
        if not reached:
            total += batch.weight_before[-1]
            n_values += len(batch)
            continue
        is_present, node = prefixes.positions[row] >= 0, xp.maximum(prefixes.positions[row], 0)
        begin, end = batch.offsets[-1][node], batch.offsets[-1][node + 1]
        sums = end - begin if batch.weights is None else batch.weight_before[end] - batch.weight_before[begin]
        total += xp.where(is_present, sums, 0)
        if join.weighted:
            n_values += xp.where(is_present, end - begin, 0)
    work = join.work_of(step)
    work[SURVIVORS] += (n_values if join.weighted else total).sum()  # sums of weights may cancel, or leave int64
    if step.conditions:
        _, _, excluded = find_bounds(step, prefixes.values, n, join.backend)
        extension = join.extension(prefixes, step)
        for row_index in range(excluded.shape[0]):
            value, before = excluded[row_index], xp.ascontiguousarray(excluded[:row_index])
            search_work = xp.zeros(N_WORK, np.int64)
            total -= join.backend.kernels.count_common(
                extension.kernel, prefixes.positions, 0, n, value, value, before, search_work
            )
            join.record_searches(step, n, search_work)
    return total


def _count_without(prefixes: Prefixes, step: Step, absent: Absent, join: GenericJoin) -> Counted | None:
    """Count all values of the step, less those that the negated atom holds as well.

    For the latter the negated atom's arrangement takes part as one more atom. Negation depends on the presence of a row
    and not on its weight, so a virtual level, which is none of its variables, is added below.
    """
    prefix = absent.terms[:-1]
    plain = replace(step, checks=())
    counts = count_last_step(prefixes, plain, join)
    if counts is None:
        return None
    total, bound = counts
    negated_atom, batches = absent.use.atom, join.negated[absent.use.atom]
    if not batches:
        return total, bound
    backend, xp = join.backend, join.backend.xp
    columns = stacked(backend, [prefixes.values[name] for name in prefix if isinstance(name, str)])
    records = [batch.records[: len(prefix)] for batch in batches]
    located = backend.kernels.locate(records, [range(len(prefix))] * len(batches), columns)
    with_it = replace(prefixes, layout=(*prefixes.layout, (negated_atom, len(prefix))))
    with_it = replace(with_it, positions=xp.ascontiguousarray(xp.concatenate([prefixes.positions, located])))
    also = replace(
        join, uses={**join.uses, negated_atom: AtomUse(negated_atom, absent.use.key, (*absent.use.variables, ""))},
        batches={**join.batches, negated_atom: batches}, meter=None,
    )  # fmt: skip
    common = replace(plain, atoms=(*step.atoms, negated_atom))
    if not any(batch.n_negative for batch in batches):
        return total - _count_proposed(with_it, common, also)[0], bound
    taken: Int64Array = xp.zeros(len(prefixes), np.int64)
    for parent, piece in also.extend(with_it, common):
        is_present = presence_mask(absent, [piece.values[name] for name in absent.terms if isinstance(name, str)], join)
        weights = xp.where(is_present, 1 if piece.weights is None else piece.weights, 0)
        taken = join.add_by_parent(taken, parent, weights, 0)
    return total - taken, bound


# Prefixes that are equal for the remaining steps are grouped, and counted once a group.
#
# The remaining steps depend on a prefix through its positions in the atoms that they extend, and through the values
# that their conditions and checks read. Variables that no remaining step depends on are eliminated: prefixes that
# differ only in eliminated variables form one group. With sums in place of rows this is variable elimination (Abo
# Khamis, Ngo, Rudra, "FAQ: Questions Asked Frequently", 2016, doi:10.1145/2902251.2902280).


SORT_FROM = 4096
"""Prefixes from which on they are sorted in order to group them."""

MIN_REDUCTION = 2
"""Least ratio of prefixes to distinct combinations of positions at which they are sorted."""

SORT_WIDE_FROM, WIDE_PREFIX = 64, 32
"""Prefixes from which on they are compared in any case, if each proposes as many values: many may be of one hub."""

MAX_MERGED_FRACTION = 0.7
"""Fraction of distinct prefixes up to which these are compared, and merged if several steps follow."""

SORT_EQUAL_FROM, EQUAL_PREFIX = 16, 8
"""Prefixes from which on they are sorted if each proposes as many values, and half of them are equal."""


def live_variables(steps: Sequence[Step], prefixes: Prefixes, join: GenericJoin) -> set[str]:
    """Return the variables that steps read, and those that their atoms have bound before."""
    depth = dict(prefixes.layout)
    seen = set[str]()
    for step in steps:
        seen |= step.read_variables
        for atom in step.atoms:
            seen.update(join.uses[atom].variables[: depth.get(atom, 0)])
    return seen


def has_eliminated_variables(prefixes: Prefixes, steps: Sequence[Step], join: GenericJoin) -> tuple[bool, bool]:
    """Return whether the steps eliminate the variable bound last, and any bound variable."""
    if len(prefixes.order) == 0:
        return False, False
    seen = live_variables(steps, prefixes, join)
    return prefixes.order[-1] not in seen, not seen.issuperset(prefixes.order)


def group_key(prefixes: Prefixes, steps: Sequence[Step], join: GenericJoin) -> tuple[list[Int64Array], int | None]:
    """Return the columns by which steps tell prefixes apart, and a bound of their distinct rows.

    A position in an atom tells the values of the variables above it, too. The bound is None if other values are among
    the columns.
    """
    atoms = {atom for step in steps for atom in step.atoms}
    columns: list[Int64Array] = []
    located: set[str] = set()
    # By the variables that a position tells: the fewest positions of the atoms that have all of these values.
    places: dict[frozenset[str], int] = {}
    offset = 0
    for atom, depth in prefixes.layout:
        batches = join.batches[atom]
        if atom in atoms:
            told = frozenset(join.uses[atom].variables[:depth])
            located |= told
            columns.extend(prefixes.positions[row] for row in range(offset, offset + len(batches)))
            n_places = 1 + sum(len(batch.values[depth - 1]) for batch in batches)
            places[told] = min(n_places, places.get(told, n_places))
        offset += len(batches)
    read = frozenset[str]().union(
        *(step.read_variables for step in steps), *({step.variable} for step in steps if step.is_lookup)
    )
    values = [prefixes.values[name] for name in prefixes.values if name in read - located]
    return [*columns, *values], None if values else prod(places.values())


def group_prefixes(prefixes: Prefixes, steps: Sequence[Step], join: GenericJoin) -> tuple[Prefixes, IndexArray | None]:
    """Group prefixes equal for `steps`; return one prefix a group and each prefix's group.

    The second result is None if every prefix is a group. If the variable bound last is eliminated, groups are runs of
    prefixes. Otherwise prefixes are sorted, if the steps are expensive and there are many more prefixes than
    distinct ones, or if they propose many values.
    """
    n, backend = len(prefixes), join.backend
    newest, any_one = has_eliminated_variables(prefixes, steps, join) if n > 1 else (False, False)
    if not any_one:
        return prefixes, None
    group: IndexArray | None = None
    if newest:
        look, _ = group_key(prefixes, steps, join)
        if not look:
            return prefixes.gather(backend.xp.zeros(1, np.int64), backend.xp), backend.xp.zeros(n, np.int64)
        starts = backend.kernels.run_starts(look)
        if len(starts) < n:
            prefixes, group = prefixes.gather(starts, backend.xp), run_indices(starts, n, backend)
    if len(prefixes) < SORT_EQUAL_FROM or (len(steps) == 1 and len(steps[0].atoms) == 1 and not steps[0].checks):
        return prefixes, group
    look, places = group_key(prefixes, steps, join)
    if places is None or len(prefixes) < min(SORT_WIDE_FROM, MIN_REDUCTION * places):
        return prefixes, group
    is_reduced = len(prefixes) >= MIN_REDUCTION * places
    is_few = len(prefixes) < SORT_FROM or not is_reduced
    if is_few and not _propose_many(prefixes, steps[0], join, EQUAL_PREFIX):
        return prefixes, group
    if not is_reduced:
        is_wide = _propose_many(prefixes, steps[0], join, WIDE_PREFIX)
        max_distinct = MAX_MERGED_FRACTION if is_wide else 1 / MIN_REDUCTION
        if estimate_distinct(look, backend) > len(prefixes) * max_distinct:
            return prefixes, group
    firsts, indices = group_rows(look, backend)
    return prefixes.gather(firsts, backend.xp), indices if group is None else indices[group]


def group_rows(columns: Sequence[Int64Array], backend: Backend) -> tuple[IndexArray, Int64Array]:
    """Return the first row of each group of equal rows, and the group of each row. O(n log n)."""
    n, order = len(columns[0]), backend.kernels.lexsort(columns)
    starts = backend.kernels.run_starts([column[order] for column in columns])
    group: Int64Array = backend.xp.empty(n, np.int64)
    group[order] = run_indices(starts, n, backend)
    return order[starts], group


def estimate_distinct(columns: Sequence[Int64Array], backend: Backend) -> float:
    """Estimate the number of distinct rows, by the empty slots of a hash table.

    Waits once for a device.
    """
    size = 1 << (2 * len(columns[0]) - 1).bit_length()
    table = backend.xp.zeros(size, np.bool_)
    table[(backend.kernels.hash_rows(columns) & np.uint64(size - 1)).astype(np.int64)] = True
    (taken,) = numbers(backend, table.sum())
    return -size * log(max(1 - taken / size, 1 / size))


def _propose_many(prefixes: Prefixes, step: Step, join: GenericJoin, n_values: int) -> bool:
    """Return whether prefixes propose more than `n_values` each, by a sample; False on a device."""
    if step.is_lookup or join.backend.device is not None:
        return False
    return bool(estimate_values(join, prefixes, step) > n_values * len(prefixes))


def run_indices(starts: IndexArray, n: int, backend: Backend) -> IndexArray:
    """Return the index of the run that holds each of `n` rows."""
    if backend.device is None:
        return np.repeat(np.arange(len(starts)), np.diff(np.append(starts, n)))
    run: IndexArray = backend.xp.searchsorted(starts, backend.xp.arange(n), side="right") - 1
    return run


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
    budget
        The limits of the tick, if it has any.
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
    budget: Budget | None = None
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
        return prefixes.order[-1] if prefixes.order else ""

    def position_rows(self, layout: Layout) -> dict[int, range]:
        """Return per atom of a layout the rows of positions that hold its batches."""
        rows, begin = {}, 0
        for atom, _ in layout:
            rows[atom] = range(begin, begin + len(self.batches[atom]))
            begin = rows[atom].stop
        return rows

    def widths(self, prefixes: Prefixes, atom: int, bounds: tuple[Int64Array, Int64Array] | None = None) -> Int64Array:
        """Return the number of values an atom proposes for each prefix, within inclusive bounds."""
        lower, upper = bounds or (self.backend.xp.empty(0, np.int64),) * 2
        depth = dict(prefixes.layout).get(atom, 0)
        levels = [batch.levels[depth] for batch in self.batches[atom]]
        rows = self.position_rows(prefixes.layout).get(atom, range(len(levels)))
        return self.backend.kernels.widths(levels, rows, prefixes.positions, lower, upper)

    def choice(self, prefixes: Prefixes, step: Step) -> Choice:
        """Return the step's argument of `Kernels.narrowest`."""
        rows = self.position_rows(prefixes.layout)
        atoms = [
            [(row, batch.offsets[bound - 1]) for row, batch in zip(rows[atom], self.batches[atom], strict=True)]
            for atom, bound in prefixes.layout
            if atom in step.atoms
        ]
        return prefixes.positions, atoms

    def extend(self, prefixes: Prefixes, step: Step) -> Iterator[tuple[Int64Array, Prefixes]]:
        """Bind one variable; yield pieces, each with the parent of every row."""
        n = len(prefixes)
        bounds = find_bounds(step, prefixes.values, n, self.backend)
        resume = np.zeros(3, np.int64)
        capacity = min(self.chunk_rows, max(4096, 32 * n))
        while resume[0] < n:
            self.begin_piece()
            if self.backend.device is None:
                reserve(0, f"the join up to '{step.variable}'")
                end = self.end_of_piece(prefixes, step, int(resume[0]))
                parent, piece = self._piece(prefixes, step, bounds, resume, end, capacity)
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

    def end_of_piece(self, prefixes: Prefixes, step: Step, begin: int) -> int:  # noqa: ARG002  # for subclasses
        """Return the end of the prefixes that the next piece of a step may look at."""
        return len(prefixes)

    def begin_piece(self) -> None:
        """Raise if no further piece may be made."""
        if self.budget is not None:
            self.budget.check_time()

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

    def count_bounded(self, prefixes: Prefixes, steps: Sequence[Step]) -> tuple[Int64Array, int | None]:
        """Return per prefix the sum of the weights of all bindings of `steps`, and a bound of them.

        The prefixes' own weights are left out. Exact while products of weights fit int64; larger counts are returned as
        Python integers, on the host. The bound is of their magnitudes, or None if only the counts tell it; one that
        follows from the state avoids waiting for a device.

        Parts of the remaining variables that share no atom and no condition are counted separately and multiplied. On
        the host, prefixes whose count of one part is zero are left out of the next, unless values are calculated.
        """
        if not steps:
            return self.backend.xp.ones(len(prefixes), np.int64), 1
        if len(prefixes) == 0:
            return self.backend.xp.zeros(0, np.int64), 0
        # A lookup comes before independent parts: the prefixes that it drops are not counted.
        is_whole = len(steps) == 1 or steps[0].is_lookup
        parts = (steps,) if is_whole else split_independent(tuple(steps))
        product, bound = self._count_part(prefixes, parts[0])
        n_prefixes, left = len(prefixes), None
        # Weights may add up to zero, and a calculation that fails is refused whatever the sum is.
        drops = self.backend.device is None and not any(step.calculated for step in steps)
        for part in parts[1:]:
            nonzero = np.flatnonzero(product) if drops else None
            if nonzero is not None and len(nonzero) < len(product):
                left = nonzero if left is None else left[nonzero]
                prefixes, product = prefixes.gather(nonzero, self.backend.xp), product[nonzero]
            if len(prefixes) == 0:
                break
            factor, factor_bound = self._count_part(prefixes, part)
            bound = None if bound is None or factor_bound is None else bound * factor_bound
            product = multiply_exactly(product, factor, self.backend, bound)
        if left is None:
            return product, bound
        counts: Int64Array = np.zeros(n_prefixes, product.dtype)
        counts[left] = product
        return counts, bound

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


# Estimates of the number of values of a step, by a sample of range widths.


N_SAMPLED = 1024
"""Prefixes in the sample, evenly spaced."""


def estimate_values(join: GenericJoin, prefixes: Prefixes, step: Step) -> Any:
    """Estimate the number of values of a step over all prefixes, by narrowest atoms; an array."""
    xp = join.backend.xp
    rows = xp.arange(0, len(prefixes), max(1, len(prefixes) // N_SAMPLED))
    sample = prefixes.gather(rows, xp)
    lower, upper, _ = find_bounds(step, sample.values, len(rows), join.backend)
    min_widths = xp.full(len(rows), np.iinfo(np.int64).max, np.int64)
    for atom in step.atoms:
        min_widths = xp.minimum(min_widths, join.widths(sample, atom, (lower, upper)))
    return min_widths.sum() * (len(prefixes) / len(rows))


# Counts of the last two steps if both have the same values: ordered or distinct pairs.
#
# The pairs are counted by a formula and not listed.


def compare_twins(first: Step, second: Step) -> str | None:
    """Return the comparison of two steps that have the same values otherwise; else None.

    Examples
    --------
    >>> from gpu_wcoj.join.plan import Condition
    >>> link = Condition("d", "<", "c")
    >>> compare_twins(Step("c", (0, 1)), Step("d", (2, 3), (link,)))
    '<'
    >>> compare_twins(Step("c", (0,), (Condition("c", "!=", "a"),)), Step("d", (1,), (link,))) is None
    True
    >>> compare_twins(Step("c", (0,)), Step("d", (0,), (link,))) is None
    True
    """
    if first.checks or second.checks or first.is_lookup or second.is_lookup or len(first.atoms) != len(second.atoms):
        return None
    if set(first.atoms).intersection(second.atoms):
        return None
    links = [condition for condition in second.conditions if condition.operand == first.variable]
    if len(links) != 1 or links[0].textual or links[0].op not in ("<", ">", "!="):
        return None
    first_conditions = {(condition.op, condition.operand, condition.textual) for condition in first.conditions}
    second_conditions = {
        (condition.op, condition.operand, condition.textual) for condition in second.conditions if condition != links[0]
    }
    return links[0].op if first_conditions == second_conditions and first.is_plain else None


def count_twin_pairs(join: GenericJoin, prefixes: Prefixes, first: Step, second: Step) -> int | None:
    """Return the sum over prefixes of weights times bindings of both steps, for sets.

    The result is None if the steps are not twins.
    """
    link = compare_twins(first, second)
    if link is None or _sources(join, prefixes, first) != _sources(join, prefixes, second):
        return None
    backend = join.backend
    values, _ = join.count_bounded(prefixes, (first,))
    max_values = largest_magnitudes(backend, values)[0]
    heaviest = 1 if prefixes.weights is None else max(1, largest_magnitudes(backend, prefixes.weights)[0])
    if max_values * max_values * heaviest * len(prefixes) >= 1 << 62:
        return None
    pairs = values * (values - 1)
    return exact_dot(pairs, prefixes.weights, backend) // (1 if link == "!=" else 2)


def _sources(join: GenericJoin, prefixes: Prefixes, step: Step) -> set[tuple[object, ...]]:
    """Return the sources of a step's values: arrangement, bound variables and batches an atom."""
    depth = dict(prefixes.layout)
    sources: set[tuple[object, ...]] = set()
    for atom in step.atoms:
        use, bound = join.uses[atom], depth.get(atom, 0)
        sources.add((use.key, use.variables[:bound], tuple(map(id, join.batches[atom]))))
    return sources


# Excluded values of a last step, counted separately by inclusion and exclusion.
#
# The count of all bindings less the count of those with the excluded value. The steps then do not read the excluded
# value any more, and prefixes that differ only in it form one group: if two parts of a body share a few variables and
# must differ in others, each part is counted once for every binding of what they share.


_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "!=": "!=", "=": "="}


@dataclass(frozen=True)
class Split:
    """Steps whose last one excludes a value, as a difference of two counts.

    Attributes
    ----------
    unrestricted
        The steps without the condition.
    condition
        The condition.
    pinned
        The steps with the last variable equal to the excluded value.
    filters
        Conditions that the excluded value has to satisfy beforehand.
    """

    unrestricted: tuple[Step, ...]
    condition: Condition
    pinned: tuple[Step, ...]
    filters: tuple[Condition, ...]

    @property
    def value(self) -> str:
        """The variable whose value is excluded."""
        assert isinstance(self.condition.operand, str)
        return self.condition.operand

    def uses(self, uses: Mapping[int, AtomUse]) -> dict[int, AtomUse]:
        """Return the atoms with the excluded variable in place of the last one."""
        renamed = {self.condition.variable: self.value}
        return {
            atom: use._replace(variables=tuple(renamed.get(name, name) for name in use.variables))
            for atom, use in uses.items()
        }


def split(steps: tuple[Step, ...], bound: Container[str]) -> Split | None:
    """Split off a value that the last step excludes, if several atoms hold that step's variable.

    Examples
    --------
    >>> steps = Step("c", (0,)), Step("d", (0, 1), (Condition("d", "!=", "b"), Condition("d", ">", "c")))
    >>> found = split(steps, "ab")
    >>> [str(one) for one in found.unrestricted[-1].conditions], [step.name for step in found.pinned]
    (['d > c'], ['b@1', 'c', 'b@0'])
    >>> [str(one) for one in found.pinned[1].conditions]
    ['c < b']
    """
    last_step, inner = steps[-1], steps[:-1]
    if not inner or len(last_step.atoms) < 2 or last_step.is_lookup or last_step.checks:
        return None
    if any(condition.textual for condition in last_step.conditions) or any(step.is_lookup for step in inner):
        return None
    excluded = next(
        (condition for condition in last_step.conditions if condition.op == "!=" and str(condition.operand) in bound),
        None,
    )
    if excluded is None or not isinstance(excluded.operand, str):
        return None
    remaining = tuple(condition for condition in last_step.conditions if condition is not excluded)
    inner_variables = {step.variable for step in inner}
    filters = tuple(
        replace(condition, variable=excluded.operand)
        for condition in remaining
        if condition.operand not in inner_variables
    )
    ends = {atom: index for index, step in enumerate(inner) for atom in step.atoms}
    sought = [(ends.get(atom, -1), Step(excluded.operand, (atom,), is_lookup=True)) for atom in last_step.atoms]
    pinned = [step for end, step in sought if end < 0]
    for step_index, step in enumerate(inner):
        turned = tuple(
            Condition(step.variable, _TURNED[condition.op], excluded.operand)
            for condition in remaining
            if condition.operand == step.variable
        )
        pinned.append(replace(step, conditions=(*step.conditions, *turned)))
        pinned.extend(lookup for end, lookup in sought if end == step_index)
    return Split((*inner, replace(last_step, conditions=remaining)), excluded, tuple(pinned), filters)


def strip_exclusions(steps: tuple[Step, ...], bound: Container[str]) -> tuple[Step, ...]:
    """Return the steps without all conditions that `split` removes, one after the other."""
    while (parts := split(steps, bound)) is not None:
        steps = parts.unrestricted
    return steps


# A generic join that measures its steps.


@dataclass(eq=False)
class MeasuredJoin(GenericJoin):
    """A `GenericJoin` that adds measurements of its steps to its meter."""

    def extend(self, prefixes: Prefixes, step: Step) -> Iterator[tuple[Int64Array, Prefixes]]:
        """Bind one variable as `GenericJoin.extend`; time between two pieces is not counted."""
        gauge = self._gauge(step)
        gauge.prefixes += len(prefixes)
        pieces = super().extend(prefixes, step)
        while True:
            start = now(self.backend)
            extended = next(pieces, None)
            gauge.seconds += now(self.backend) - start
            if extended is None:
                return
            gauge.rows += len(extended[1])
            gauge.nbytes += bytes_of(extended[1])
            yield extended

    def _count_last(self, prefixes: Prefixes, step: Step) -> tuple[Int64Array, int | None] | None:
        start = now(self.backend)
        counts = super()._count_last(prefixes, step)
        if counts is not None:
            gauge = self._gauge(step)
            gauge.prefixes += len(prefixes)
            gauge.seconds += now(self.backend) - start
        return counts

    def _gauge(self, step: Step) -> Gauge:
        return Gauge() if self.meter is None else self.meter.gauge(step.name)


def time_pieces(pieces: Iterator[Prefixes], gauge: Gauge, n_prefixes: int, backend: Backend) -> Iterator[Prefixes]:
    """Yield pieces made from `n_prefixes` prefixes, timed without the time between two pieces."""
    gauge.prefixes += n_prefixes
    while True:
        start = now(backend)
        piece = next(pieces, None)
        gauge.seconds += now(backend) - start
        if piece is None:
            return
        gauge.rows += len(piece)
        gauge.nbytes += bytes_of(piece)
        yield piece


def with_meter(join: GenericJoin, meter: Meter) -> MeasuredJoin:
    """Return the join with its measurements added to `meter`."""
    return MeasuredJoin(**{**vars(join), "meter": meter})


def bytes_of(prefixes: Prefixes) -> int:
    """Return the bytes of a table of prefixes."""
    columns = [*prefixes.values.values(), prefixes.positions]
    columns += [] if prefixes.weights is None else [prefixes.weights]
    return sum(int(column.nbytes) for column in columns)

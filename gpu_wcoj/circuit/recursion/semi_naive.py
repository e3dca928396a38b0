"""New rows of a set-valued head: distinct derivations of one phase minus stored rows.

Most bindings that a recursive rule derives were derived before. If the last variable of a path comes from one atom,
it is therefore not bound row by row: prefixes are grouped by the head's other columns, and a kernel returns the values
that are new to each group. Groups are runs if the seeds are sorted by those columns; if later steps bind some of
them, the prefixes of each piece are sorted. Other paths list their rows in pieces. The rows of several pieces, paths
and rules are merged whenever their number has doubled, so memory follows the number of new rows.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Any, TypeVar

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.circuit.recursion.plan import LoopPlan, RuleJoin, without_rank
from gpu_wcoj.circuit.recursion.relation import RankedIndex, ValueOrder
from gpu_wcoj.circuit.recursion.walks import WalkTable, seeded_path
from gpu_wcoj.costs import ITERATION, LOOP_OPERATION, STORED_ROW
from gpu_wcoj.join.delta import (
    BLOCKS_PER_THREAD,
    FEW_SEEDS,
    MAX_BLOCK_SEEDS,
    MIN_BLOCK_SEEDS,
    SPLIT_FROM,
    IncrementalGenericJoin,
)
from gpu_wcoj.join.generic import GenericJoin
from gpu_wcoj.join.plan import AtomUse, DeltaPath, DeltaQuery
from gpu_wcoj.join.prefixes import Prefixes, now, run_within_memory
from gpu_wcoj.join.relation import THREADED_ROWS
from gpu_wcoj.join.seeds import Seeds, bind_seeds
from gpu_wcoj.join.settings import Execution, in_order
from gpu_wcoj.kernels.protocol import FIXPOINT, N_WORK, PAUSED, Fixpoint, Int64Array, Level
from gpu_wcoj.trace.arrangement import Arrangement, ArrangementKey, PhaseRows
from gpu_wcoj.trace.spine import MergePolicy, Spine
from gpu_wcoj.zset.arrays import joined_columns, positions, stacked
from gpu_wcoj.zset.index import IndexedZSet

PORTION = 1 << 22
"""Rows that gather before duplicates are dropped."""

StoredRows = Mapping[tuple[int, ...], Sequence[IndexedZSet]]
"""The stored rows in one or more orders of the head's columns, as batches of weight 1.

Levels beyond the head's width are not read."""

Columns = list[Int64Array]


def find_new_rows(joins: Sequence[IncrementalGenericJoin], phase: int, known: StoredRows) -> Columns:
    """Return the distinct rows that a head's rules derive in a phase and that are not stored.

    Sorted, one array a column. For sets.

    Parameters
    ----------
    joins
        One join per rule.
    known
        The stored rows in the order of the head's columns, and optionally in others: a path whose last variable is the
        last column of an order finds a group's stored values together there.
    """
    backend = joins[0].execution.backend
    gathered: list[Columns] = []
    n_rows = n_distinct = 0
    for join in joins:
        for columns in _derive(join, phase, known):
            if len(columns[0]) == 0:
                continue
            gathered.append(columns)
            n_rows += len(columns[0])
            if n_rows > PORTION + 2 * n_distinct:
                gathered = [_distinct_rows(gathered, backend)]
                n_rows = n_distinct = len(gathered[0][0])
    if not gathered:
        return [backend.xp.empty(0, np.int64) for _ in joins[0].query.head]
    return _distinct_rows(gathered, backend)


def _derive(join: IncrementalGenericJoin, phase: int, stored: StoredRows) -> Iterator[Columns]:
    """Yield the rows of one rule that are not stored; rows may repeat across pieces."""
    plain = []
    for path_index, path in enumerate(join.query.paths):
        generic = join.generic_join(path_index, phase)
        if generic is None:
            continue
        tail = Tail.from_last_step(path, join.query.head, stored, generic)
        if tail is None or tail.is_unordered:
            tail = Tail.from_seeds(join, path_index, phase, stored) or tail
        n_seeds = join.pending(path_index, phase).n_rows
        if tail is None or (path.is_single and n_seeds <= FEW_SEEDS):
            plain.append(path_index)
        else:
            yield from _derive_by_groups(join, path_index, phase, generic, tail, stored)
    backend = join.execution.backend
    gathered: list[Columns] = []
    n_rows = 0
    for piece in join.join(phase, plain) if plain else ():
        columns = list(piece.columns)
        if not isinstance(piece.weights, int):
            (present,) = positions(backend, backend.asarray(piece.weights != 0))
            columns = [column[present] for column in columns]
        gathered.append(columns)
        n_rows += len(columns[0])
        if n_rows > PORTION:
            yield _drop_stored(_distinct_rows(gathered, backend), stored, backend)
            gathered, n_rows = [], 0
    if gathered:
        yield _drop_stored(_distinct_rows(gathered, backend), stored, backend)


@dataclass(frozen=True, eq=False)
class Tail:
    """The last variable of a path, if a kernel can bind it for groups of prefixes.

    Attributes
    ----------
    atom
        The only atom of the path's last step, which binds the variable; None if the seeds do.
    seeds
        The change that starts the path, if its last column is the variable: no other atom holds that variable, so rows
        that differ only in it have the same bindings, and are processed together.
    variable
        The variable; it is in one column of the head.
    order
        The order in which stored rows are searched: its last column is the variable's.
    is_unordered
        Whether no stored rows have such an order; then stored rows are dropped afterwards.
    group
        The other variables of the head, in that order, without repeats.
    """

    atom: int | None
    seeds: IndexedZSet | None
    variable: str
    order: tuple[int, ...]
    is_unordered: bool
    group: tuple[str, ...]

    @classmethod
    def from_last_step(
        cls, path: DeltaPath, head: Sequence[str | int], stored: StoredRows, generic: GenericJoin
    ) -> Tail | None:
        """Return the tail for the path's last step; None if that needs more than one atom's ranges."""
        if not path.steps or len(path.steps[-1].atoms) != 1 or path.is_negated or path.calculations:
            return None
        if path.steps[-1].conditions or path.steps[-1].checks or path.steps[-1].is_lookup:
            return None
        variable, (atom,) = path.steps[-1].variable, path.steps[-1].atoms
        if generic.weighted or list(head).count(variable) != 1 or generic.uses[atom].variables[-1] != variable:
            return None
        if any(batch.weights is not None for batch in generic.batches[atom]):
            return None
        return cls._create(atom, None, variable, head, stored)

    @classmethod
    def from_seeds(cls, join: IncrementalGenericJoin, path_index: int, phase: int, stored: StoredRows) -> Tail | None:
        """Return the tail for the last column of the path's seeds.

        The result is None if an atom or check depends on the column, or no order of the stored rows ends with it.
        """
        path, head = join.query.paths[path_index], join.query.head
        if join.execution.weighted or join.execution.share is not None or path.is_negated or path.calculations:
            return None
        if path.seed_conditions or path.seed_checks:
            return None
        read = path.compared.union(*(use.variables for use in path.other_atoms))
        for order_index, use in enumerate(path.seeds):
            variable = use.variables[-1]
            if len(use.variables) > 1 and variable not in read and list(head).count(variable) == 1:
                tail = cls._create(None, join.pending(path_index, phase, order_index), variable, head, stored)
                if not tail.is_unordered:
                    return tail
        return None

    @classmethod
    def _create(
        cls, atom: int | None, seeds: IndexedZSet | None, variable: str, head: Sequence[str | int], stored: StoredRows
    ) -> Tail:
        column = list(head).index(variable)
        suited = [order for order in stored if order[-1] == column]
        other_columns = tuple(range(column)) + tuple(range(column + 1, len(head)))
        order = suited[0] if suited else (*other_columns, column)
        names = [head[column_index] for column_index in order[:-1]]
        group = tuple(dict.fromkeys(name for name in names if isinstance(name, str)))
        return cls(atom, seeds, variable, order, not suited, group)


def _derive_by_groups(
    join: IncrementalGenericJoin, path_index: int, phase: int, generic: GenericJoin, tail: Tail, stored: StoredRows
) -> Iterator[Columns]:
    """Yield the rows of one path that are not stored."""
    backend, threads = join.execution.backend, join.execution.threads
    path = join.query.paths[path_index]
    seeds = _sort_seeds(join, path_index, phase, generic, tail)
    join.seeds += len(seeds)

    def block(block_join: GenericJoin, part: Seeds) -> Iterator[Columns]:
        prefixes = bind_seeds(path, part, block_join)
        if block_join.meter is not None:
            block_join.meter.prefixes += len(prefixes)
        for piece in block_join.pieces(prefixes, path.steps if tail.seeds is not None else path.steps[:-1]):
            columns = _find_new_values(join, block_join, piece, tail, stored)
            yield _drop_stored(columns, stored, backend) if tail.is_unordered else columns
        join.finished.append((path_index, block_join.work))

    n = len(seeds)
    if n == 0:
        return
    if backend.device is not None:
        yield from _run_in_parts(backend, seeds, join.execution.piece_rows, lambda part: block(generic, part))
        return
    n_blocks = max(1, -(-n // MAX_BLOCK_SEEDS))
    if threads > 1 and n >= SPLIT_FROM:
        n_blocks = max(n_blocks, min(threads * BLOCKS_PER_THREAD, n // MIN_BLOCK_SEEDS))
    edges = _block_edges(seeds, path.seed.variables, tail, n_blocks)

    def run(index: int) -> Iterator[Columns]:
        block_join = join.generic_join(path_index, phase) if index else generic
        assert block_join is not None
        return block(block_join, seeds if len(edges) == 2 else seeds.part(edges[index], edges[index + 1]))

    if threads == 1 or n < SPLIT_FROM:
        for block_index in range(len(edges) - 1):
            yield from run(block_index)
    else:
        yield from in_order(run, len(edges) - 1, threads)


def _block_edges(seeds: Seeds, names: Sequence[str], tail: Tail, n_blocks: int) -> list[int]:
    """Return the edges of blocks of seeds, at changes of the first variable of a group."""
    edges = np.linspace(0, len(seeds), n_blocks + 1).astype(int)
    if seeds.order[0] in tail.group:
        values = seeds.matrix[names.index(seeds.order[0])]
        edges[1:-1] = np.searchsorted(values, values[edges[1:-1]])
    return sorted(set(edges.tolist()))


def _run_in_parts(backend: Backend, seeds: Seeds, rows: int, run: Any) -> Iterator[Columns]:
    """Run over the seeds on a device, with fewer seeds at a time if memory runs out."""
    begin = 0
    while begin < len(seeds):

        def part(n_seeds: int, begin: int = begin) -> tuple[int, list[Columns]]:
            return n_seeds, list(run(seeds.part(begin, min(len(seeds), begin + n_seeds), backend.xp)))

        rows, pieces = run_within_memory(backend, rows, part, "finding what is new")
        yield from pieces
        begin += rows


def _sort_seeds(join: IncrementalGenericJoin, path_index: int, phase: int, generic: GenericJoin, tail: Tail) -> Seeds:
    """Return the path's seeds, sorted by the variables of the group that they bind."""
    path, backend = join.query.paths[path_index], join.execution.backend
    names = path.seed.variables
    first = [name for name in tail.group if name in names]
    if tail.seeds is not None:
        seeds = _drop_last_column(path, tail.seeds, tail.variable, backend)
        if generic.meter is not None:
            generic.meter.changes += tail.seeds.n_rows
    else:
        orders = [use.variables for use in path.seeds if set(use.variables[: len(first)]) == set(first)]
        seeds = join.seeds_of(path_index, phase, generic, (orders or [names])[0][0])
    if set(seeds.order[: len(first)]) == set(first):
        return seeds
    order = (*first, *(name for name in names if name not in first))
    rows = [names.index(name) for name in order]
    columns = backend.kernels.distinct_rows([seeds.matrix[row] for row in rows])
    return Seeds(order, stacked(backend, [columns[rows.index(row)] for row in range(len(names))]), None)


def _drop_last_column(path: DeltaPath, change: IndexedZSet, variable: str, backend: Backend) -> Seeds:
    """Return the distinct rows of a change without their last column.

    Their position in the change takes the column's place.
    """
    (order,) = [use.variables for use in path.seeds if use.variables[-1] == variable][:1]
    columns, _ = change.as_zset_view(change.depth - 1)
    by_name = dict(zip(order, [*columns, backend.xp.arange(len(columns[0]), dtype=np.int64)], strict=True))
    return Seeds(order, stacked(backend, [by_name[name] for name in path.seed.variables]), None)


def _find_new_values(
    join: IncrementalGenericJoin, generic: GenericJoin, prefixes: Prefixes, tail: Tail, stored: StoredRows
) -> Columns:
    """Return the head's rows with the values that are new to each group of these prefixes."""
    if generic.meter is None:
        return _find_unmeasured(join, generic, prefixes, tail, stored)
    gauge = generic.meter.gauge(tail.variable)
    gauge.prefixes += len(prefixes)
    start = now(generic.backend)
    columns = _find_unmeasured(join, generic, prefixes, tail, stored)
    gauge.seconds += now(generic.backend) - start
    gauge.rows += len(columns[0])
    gauge.nbytes += sum(int(column.nbytes) for column in columns)
    return columns


def _find_unmeasured(
    join: IncrementalGenericJoin, generic: GenericJoin, prefixes: Prefixes, tail: Tail, stored: StoredRows
) -> Columns:
    backend, head = join.execution.backend, join.query.head
    xp, kernels = backend.xp, backend.kernels
    n, keys = len(prefixes), [prefixes.values[name] for name in tail.group]
    if n and set(prefixes.order[: len(keys)]) != set(tail.group):
        prefixes = prefixes.gather(kernels.lexsort(keys), xp)
        keys = [prefixes.values[name] for name in tail.group]
    first = kernels.run_starts(keys) if keys else xp.zeros(min(n, 1), np.int64)
    n_groups = len(first)
    group = {name: column[first] for name, column in zip(tail.group, keys, strict=True)}
    starts = xp.concatenate([first, xp.full(1, n, np.int64)])
    levels, stand = _proposed_levels(prefixes, generic, tail)
    known_batches = () if tail.is_unordered else [batch for batch in stored[tail.order] if len(batch)]
    known_at = xp.zeros((len(known_batches), n_groups), np.int64)
    if known_batches and len(tail.order) > 1:
        terms = [group[term] if isinstance(term, str) else xp.full(n_groups, term, np.int64)
                  for term in (head[column] for column in tail.order[:-1])]  # fmt: skip
        records = [batch.records[: len(terms)] for batch in known_batches]
        known_at = kernels.locate(records, [range(len(terms))] * len(records), stacked(backend, terms))
    offsets, values = kernels.fresh_values(
        levels, stand, starts,
        [batch.levels[len(head) - 1] for batch in known_batches], known_at, _work_of(generic, tail.variable, xp),
    )  # fmt: skip
    sizes = offsets[1:] - offsets[:-1]
    columns: dict[str, Int64Array] = {name: xp.repeat(column, sizes) for name, column in group.items()}
    columns[tail.variable] = values
    return [columns[term] if isinstance(term, str) else xp.full(len(values), term, np.int64) for term in head]


def _proposed_levels(prefixes: Prefixes, generic: GenericJoin, tail: Tail) -> tuple[list[Level], Int64Array]:
    """Return the levels that hold the last variable, and the prefixes' positions above them."""
    if tail.seeds is not None:
        return [tail.seeds.levels[-1]], prefixes.values[tail.variable].reshape(1, -1)
    assert tail.atom is not None
    batches = generic.batches[tail.atom]
    levels = [batch.levels[len(generic.uses[tail.atom].variables) - 1] for batch in batches]
    offset = 0
    for atom, _ in prefixes.layout:
        if atom == tail.atom:
            return levels, prefixes.positions[offset : offset + len(batches)]
        offset += len(generic.batches[atom])
    nowhere: Int64Array = generic.backend.xp.zeros((len(batches), len(prefixes)), np.int64)  # unused at the top level
    return levels, nowhere


def _work_of(generic: GenericJoin, variable: str, xp: Any) -> Int64Array:
    return generic.work.setdefault(variable, xp.zeros(N_WORK, np.int64))


def _distinct_rows(parts: list[Columns], backend: Backend) -> Columns:
    """Return the distinct rows of all parts, sorted; clears `parts`."""
    columns = joined_columns(parts, backend.xp)
    parts.clear()
    return backend.kernels.distinct_rows(columns)


def _drop_stored(columns: Columns, stored: StoredRows, backend: Backend) -> Columns:
    """Return the rows that are not stored."""
    order = min(stored)
    for batch in stored[order]:
        if len(columns[0]) == 0:
            break
        (new,) = positions(backend, batch.locate([columns[column] for column in order]) < 0)
        if len(new) < len(columns[0]):
            columns = [column[new] for column in columns]
    return columns


# Semi-naive evaluation of an empty loop, which joins the new rows of each iteration.


_T = TypeVar("_T")

POLICY = MergePolicy(ratio=4, most_batches=4, instalment=inf)
"""Merge policy of the probed arrangements: every iteration adds a batch, and most are large. All are of one tick, which
instalments would not shorten."""

FIRST_PART = 4
"""Ratio of `Kernels.walked_rows` to the rows of an iteration up to which a loop begins to run row at a time.

It is also that to the rows so far, per iteration in a row with so few, as all of them are loaded for that."""

WORK_PER_ROW, BUDGET_PER_ROW = 16, 64
"""Candidates and operations per row of `Kernels.walked_rows` at which an iteration is too large to run row at a time,
and after which a call returns, so that interrupts are seen: compiled, after some 0.1 s."""

MIN_BUDGET = 4
"""Candidates and operations of a call at least, so that each call gets on."""

INSERTIONS = 1
"""Index of the phase of a set's tick in which rows are inserted."""


class SemiNaiveRun:
    """Evaluation of a loop from the empty state.

    Parameters
    ----------
    heads
        The loop's relations; their committed state is not read.
    outside
        The arrangements of other relations; the loop reads them with this tick's pending change.
    execution
        With set semantics.

    Attributes
    ----------
    n_rows
        Rows so far.
    """

    def __init__(
        self,
        plan: LoopPlan,
        heads: Mapping[str, RankedIndex],
        outside: Mapping[ArrangementKey, Arrangement],
        execution: Execution,
    ) -> None:
        rules = plan.rules
        self._heads = heads
        self._better = {name: ValueOrder(best, execution) for name, best in plan.best.items()}
        self._execution = execution
        self._backend = execution.backend
        self._spines: dict[ArrangementKey, Spine] = {}
        self._views: dict[ArrangementKey, Arrangement] = {}
        self._read: set[ArrangementKey] = set()
        self._iterations: dict[str, list[tuple[int, IndexedZSet]]] = {name: [] for name in heads}
        for index in heads.values():
            plain = self._plain(index)
            self._spines[plain] = Spine(policy=POLICY)
            self._views[plain] = Arrangement(plain, self._backend)
            self._read.add(plain)
        first = (rule for rule in rules if not _seeds_in(rule.query, heads))
        self._first = [RuleJoin(rule, IncrementalGenericJoin(rule.query, outside, execution)) for rule in first]
        self._walked_rows = walkable_rows(plan, execution)
        self._walked: dict[str, list[tuple[Columns, Int64Array]]] = {name: [] for name in heads}
        self._sizes = dict.fromkeys(heads, 0)
        self._size_limits = plan.size_limits
        self.n_rows = self._n_small = self._n_iterations = 0
        later = [rule for rule in rules if _seeds_in(rule.query, heads)]
        self._probed = {key for rule in later for path in rule.query.paths for key in self._probed_by(path)}
        self._next = [RuleJoin(rule, self._over_views(rule.query, outside)) for rule in later]

    @property
    def joins(self) -> list[RuleJoin]:
        """The joins in use, for reading their work counts."""
        return [*self._first, *self._next]

    @property
    def cost(self) -> int:
        """The cost so far in nanoseconds, by counted work, which is the same in every run."""
        counted = (steps.values() for rule_join in self.joins for steps in rule_join.join.work.values())
        operations = sum(int(work.sum()) for step_work in counted for work in step_work)
        return ITERATION * self._n_iterations + STORED_ROW * self.n_rows + int(LOOP_OPERATION * operations)

    def iterations(self) -> Iterator[int]:
        """Run; yield the number of iterations so far, at least after every one that is not walked."""
        rank = 0
        new_rows = self._first_iteration()
        while new_rows:
            yield rank + 1
            if self._is_worth_walking(new_rows):
                rank, new_rows = yield from self._walk(new_rows, rank)
                if not new_rows:
                    break
            self.n_rows += sum(len(columns[0]) for columns in new_rows.values())
            self._n_iterations += 1
            self._absorb(new_rows, rank)
            if self._is_large_enough(new_rows):
                break
            rank += 1
            new_rows = self._iteration([rule_join for rule_join in self._next if rule_join.has_seeds((INSERTIONS,))])

    def _is_large_enough(self, new_rows: Mapping[str, Columns]) -> bool:
        """Return whether a head has as many rows as its limit, these included."""
        for name, columns in new_rows.items():
            self._sizes[name] += len(columns[0])
        return any(self._sizes[name] >= n_rows for name, n_rows in self._size_limits.items())

    def _is_worth_walking(self, new_rows: Mapping[str, Columns]) -> bool:
        """Return whether the next iterations are cheaper row at a time, all rows so far included."""
        few = self._walked_rows // FIRST_PART
        if sum(len(columns[0]) for columns in new_rows.values()) > few:
            self._n_small = 0
            return False
        self._n_small += 1
        return self.n_rows <= few * self._n_small

    def _walk(
        self, new_rows: Mapping[str, Columns], rank: int
    ) -> Generator[int, None, tuple[int, dict[str, list[Int64Array]]]]:
        """Run iterations row at a time; return the rank of the last one and its rows.

        There are none if nothing is left to derive.
        """
        order = {name: self._plain(index).order for name, index in self._heads.items()}
        table = WalkTable(order)
        for rule_join in self._next:
            path_index = seeded_path(rule_join.rule, self._heads)
            assert path_index is not None
            table.add_walk(rule_join, path_index)
        orders = [0 if (better := self._better.get(name)) is None else -1 if better.best.greatest else 1
                  for name in self._heads]  # fmt: skip
        run = self._backend.kernels.fixpoint(table.table(), orders)
        for head, name in enumerate(self._heads):
            for _, batch in self._iterations[name]:
                run.add(head, batch.columns(), rank - 1)
            for columns, _ in self._walked[name]:
                run.add(head, [columns[column] for column in order[name]], rank - 1)
        for head, name in enumerate(self._heads):
            if name in new_rows:
                run.add(head, [new_rows[name][column] for column in order[name]], rank)
        first, result = run.bounds[0], PAUSED
        while result == PAUSED:
            result = run.run(
                self._execution.iterations, self._walked_rows, WORK_PER_ROW * self._walked_rows,
                max(MIN_BUDGET, int(BUDGET_PER_ROW * self._walked_rows)),
            )  # fmt: skip
            yield run.rank + 1
        begin, end = run.bounds
        extended = end if result == FIXPOINT else begin
        for head, name in enumerate(self._heads):
            columns, ranks = self._rows_of(run, head, order[name], first, extended)
            if len(ranks):
                self._walked[name].append((columns, ranks))
                self.n_rows += len(ranks)
                key = self._plain(self._heads[name])
                if result != FIXPOINT:
                    spine = self._spines[key].insert(self._views[key].index(PhaseRows(columns, 1)))
                    self._spines[key] = self._views[key].spine = spine
        table.report(run, np.bincount(run.rows(first, extended)[0][:, 0], minlength=len(self._heads)).tolist())
        self._n_small = 0
        left = {name: self._rows_of(run, head, order[name], extended, end)[0] for head, name in enumerate(self._heads)}
        return run.rank, {name: columns for name, columns in left.items() if len(columns[0])}

    def _rows_of(
        self, run: Fixpoint, head: int, order: Sequence[int], begin: int, end: int
    ) -> tuple[list[Int64Array], Int64Array]:
        """Return the rows of a head among those of a range, and their ranks.

        They are sorted, in the order of the stored columns.
        """
        rows, ranks = run.rows(begin, end)
        chosen = np.flatnonzero(rows[:, 0] == head)
        columns = [rows[chosen, 1 + order.index(column)] for column in range(len(order))]
        rows_order = self._backend.kernels.lexsort(columns)
        return [column[rows_order] for column in columns], ranks[chosen[rows_order]]

    def _sorted_rows(self, walked: Sequence[tuple[Columns, Int64Array]]) -> PhaseRows | None:
        """Return walked rows with their ranks as last column; None if there are none."""
        if not walked:
            return None
        columns = joined_columns([(*columns, ranks) for columns, ranks in walked], np)
        if len(walked) > 1:
            rows_order = self._backend.kernels.lexsort(columns)
            columns = [column[rows_order] for column in columns]
        return PhaseRows(columns, 1)

    def _first_iteration(self) -> dict[str, list[Int64Array]]:
        """Return the rows of rules that read the outside only, which are their change."""
        for rule_join in self._first:
            rule_join.has_seeds(range(len(self._execution.phases)))
        new_rows = self._iteration([rule_join for rule_join in self._first if not rule_join.join.query.has_negation])
        for rule_join in self._first:
            if rule_join.join.query.has_negation:
                head = rule_join.rule.head
                columns = _gained(rule_join.join, self._heads[head].columns)
                if len(columns[0]):
                    also = new_rows.get(head, [column[:0] for column in columns])
                    together = joined_columns([also, columns], self._backend.xp)
                    new_rows[head] = self._improved(head, self._backend.kernels.distinct_rows(together))
        return new_rows

    def result(self) -> dict[str, dict[ArrangementKey, IndexedZSet]]:
        """Return all rows per relation, in every order of its index."""
        self._views.clear()
        self._spines.clear()
        result: dict[str, dict[ArrangementKey, IndexedZSet]] = {}
        for name, index in self._heads.items():
            parts, walked = self._iterations.pop(name), self._walked.pop(name)
            n_rows = sum(len(batch) for _, batch in parts) + sum(len(ranks) for _, ranks in walked)
            if n_rows:
                below = self._backend.xp.arange(sum(len(batch) for _, batch in parts) + 1, dtype=np.int64)
                arrange = partial(self._arranged, self._plain(index).order, parts, below, self._sorted_rows(walked))
                result[name] = dict(zip(index.arrangements, index.on_each(arrange, n_rows + 1), strict=True))
        return result

    def _arranged(
        self,
        order: Sequence[int],
        parts: Sequence[tuple[int, IndexedZSet]],
        below: Int64Array,
        walked: PhaseRows | None,
        arrangement: Arrangement,
    ) -> IndexedZSet:
        """Build the batch of an arrangement from all rows, in `order`, with their ranks.

        `walked` are further ones.
        """
        if walked is not None:
            batch = arrangement.index(walked)
            return batch.merge(self._arranged(order, parts, below, None, arrangement)) if parts else batch
        key, batches, ranks = arrangement.key, [batch for _, batch in parts], [rank for rank, _ in parts]
        if not key.is_whole:
            rows = IndexedZSet.rearranged(
                batches, [order.index(column) for column in range(len(order))], self._backend, ranks
            )
            return arrangement.index(PhaseRows(rows.columns(), 1))
        return IndexedZSet.rearranged(
            batches, [order.index(column) for column in key.order[:-1]], self._backend, ranks, below
        )

    def _over_views(self, query: DeltaQuery, outside: Mapping[ArrangementKey, Arrangement]) -> IncrementalGenericJoin:
        """Return the join over the loop's rows and the outside after the tick, which is constant."""
        query = replace(query, paths=tuple(self._seeded(path) for path in query.paths))
        for path in query.paths:
            for key in (*(use.key for use in path.seeds), *path.keys):
                if key in self._views:
                    continue
                view = self._views[key] = Arrangement(key, self._backend)
                if key.relation not in self._heads:
                    view.spine = Spine(outside[key].after(INSERTIONS))
            probed = self._probed_by(path)
            if path.seed.key.relation in self._heads:
                self._read.update((path.seed.key, *probed))
                self._spines.update({key: Spine(policy=POLICY) for key in probed})
        return IncrementalGenericJoin(query, self._views, self._execution)

    def _probed_by(self, path: DeltaPath) -> list[ArrangementKey]:
        """Return the keys of the loop's relations that a path probes beside its seeds."""
        if path.seed.key.relation not in self._heads:
            return []
        return [use.key for use in path.other_atoms if use.key.relation in self._heads]

    def _seeded(self, path: DeltaPath) -> DeltaPath:
        """Return the path with seeds in all orders in which new rows are available."""
        index = self._heads.get(path.seed.key.relation)
        if index is None:
            return path
        plain = self._plain(index)
        variable = dict(zip(path.seed.key.order, path.seed.variables, strict=True))
        if not path.seed.key.is_whole or len(variable) != index.columns:
            return path.with_seeds(path.seeds[:1])
        other_keys = [key for key in self._probed if key.selection == plain.selection and key != plain]
        keys = [plain, *sorted(other_keys, key=lambda key: key.order)]
        seeds = (AtomUse(path.seed.atom, key, tuple(variable[column] for column in key.order)) for key in keys)
        return path.with_seeds(tuple(seeds))

    def _iteration(self, rules: Sequence[RuleJoin]) -> dict[str, list[Int64Array]]:
        """Return the rows per relation that these rules derive for the first time."""
        joins: dict[str, list[IncrementalGenericJoin]] = {}
        for rule_join in rules:
            joins.setdefault(rule_join.rule.head, []).append(rule_join.join)
        new_rows: dict[str, list[Int64Array]] = {}
        for name, head_joins in joins.items():
            columns = self._improved(name, find_new_rows(head_joins, INSERTIONS, self._rows_so_far(self._heads[name])))
            if len(columns[0]):
                new_rows[name] = columns
        return new_rows

    def _improved(self, name: str, columns: list[Int64Array]) -> list[Int64Array]:
        """Return the new rows of a relation.

        If it keeps best values, one row per group that improves it.
        """
        better = self._better.get(name)
        if better is None or len(columns[0]) == 0:
            return columns
        backend = self._backend
        *groups, value = [columns[column] for column in self._heads[name].canonical.order[:-1]]
        order = backend.kernels.lexsort([*groups, better.keys(value)])
        groups, value = [column[order] for column in groups], value[order]
        first = backend.kernels.run_starts(groups) if groups else backend.xp.zeros(1, np.int64)
        groups, value = [column[first] for column in groups], value[first]
        plain = self._plain(self._heads[name])
        has, best = better.best_values(self._rows_so_far(self._heads[name])[plain.order], groups, len(first))
        (improved,) = positions(backend, ~has | (better.keys(value) < better.keys(best)))
        by_column = dict(zip(plain.order, (column[improved] for column in (*groups, value)), strict=True))
        return backend.kernels.distinct_rows([by_column[column] for column in range(len(by_column))])

    def _rows_so_far(self, index: RankedIndex) -> dict[tuple[int, ...], list[IndexedZSet]]:
        """Return all rows of a relation so far, in every available order."""
        by_order = {}
        for key, spine in self._spines.items():
            if key.relation == index.name and key.is_whole and len(key.order) == index.columns:
                pending = self._views[key].pending if key in self._views else ()
                by_order[key.order] = [*spine.batches, *(batch for batch in pending if len(batch))]
        return by_order

    def _absorb(self, new_rows: Mapping[str, Sequence[Int64Array]], rank: int) -> None:
        """Merge the rows of the previous iteration into the state.

        Set those of this iteration as pending.
        """
        keys = [key for key, view in self._views.items() if view.pending and key in self._spines]
        n_pending = sum(len(batch) for key in keys for batch in self._views[key].pending)
        for key, spine in zip(keys, self._on_each(self._with_pending, keys, n_pending), strict=True):
            self._spines[key] = self._views[key].spine = spine
        for view in self._views.values():
            for batch in view.pending:
                batch.forget_rows()
            view.pending = ()
        rows = {name: PhaseRows(columns, 1) for name, columns in new_rows.items()}
        read = [key for key in self._read if key.relation in rows]
        n_rows = sum(map(len, rows.values()))
        batches = self._on_each(lambda key: self._views[key].index(rows[key.relation]), read, n_rows)
        for key, batch in zip(read, batches, strict=True):
            self._views[key].pending = (IndexedZSet.empty(batch.depth, self._backend), batch)
            if key == self._plain(self._heads[key.relation]):
                self._iterations[key.relation].append((rank, batch))

    def _with_pending(self, key: ArrangementKey) -> Spine:
        """Return all rows so far in one order."""
        spine = self._spines[key]
        for batch in self._views[key].pending:
            spine = spine.insert(batch)
        return spine

    def _on_each(
        self, function: Callable[[ArrangementKey], _T], keys: Sequence[ArrangementKey], n_rows: int
    ) -> list[_T]:
        """Apply a function to each key, in threads if `n_rows` is large enough."""
        threads = self._execution.threads
        if threads == 1 or self._backend.device is not None or len(keys) < 2 or n_rows < THREADED_ROWS:
            return [function(key) for key in keys]
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(function, keys))

    @staticmethod
    def _plain(index: RankedIndex) -> ArrangementKey:
        """Return the key of the order in which rows are derived."""
        return without_rank(index.canonical)


def walkable_rows(plan: LoopPlan, execution: Execution) -> int:
    """Return `Kernels.walked_rows`, or 0 if the loop or the execution does not allow it."""
    walks = execution.tuning.walk_loops and not (execution.measures or plan.reason_against_walks)
    return execution.backend.kernels.walked_rows if walks else 0


def _seeds_in(query: DeltaQuery, heads: Mapping[str, RankedIndex]) -> bool:
    return any(path.seed.key.relation in heads for path in query.paths)


def _gained(join: IncrementalGenericJoin, width: int) -> list[Int64Array]:
    """Return the distinct rows that a join has after this tick and did not have before."""
    backend = join.execution.backend
    xp = backend.xp
    parts = [
        (*piece.columns, PhaseRows(piece.columns, piece.weights).weight_column(xp))
        for phase in range(len(join.execution.phases))
        for piece in join.join(phase)
    ]
    if not parts:
        return [xp.empty(0, np.int64)] * width
    *columns, weights = joined_columns(parts, xp)
    rows, sums = backend.kernels.consolidate(columns, weights)
    (gained,) = positions(backend, sums > 0)
    return [column[gained] for column in rows]

"""Small ticks: memtables in front of the state, and one call of a kernel a tick.

A tick of a few rows spends its time in objects rather than in rows: a batch per arrangement, a description per level.
Here rows of small ticks are sorted into memtables, one an arrangement, which the walk of a query searches beside the
batches. Once they are full, or something else than a small tick needs the state, all memtables become one batch each.
Every tick also does a part of the merges that large batches need (`gpu_wcoj.trace.spine`).

One call takes the passed rows, walks each rule and writes the new memtables (`WalkKernels.run_tick`). It returns early
for what only this module does: to evaluate an aggregate, to make a buffer longer, or to take rows that do not fit.

A tick chooses as follows. A program with an obstacle never walks (`find_obstacles`). Else a tick walks if it passes few
rows that are read at once, and few values are expected to be looked at (`SmallTicks.check`); the thresholds are those
of `gpu_wcoj.join.settings.Tuning`. A tick that turns out larger while it runs is given up, and runs path by path. The
reason is the text of `UnsuitableTickError`, which the tick's report keeps and `explain` shows.

The memtables are part of the state: `Recent` tells which of two records of every arrangement is valid. A tick merges
its rows into spare memory and writes the other records, so that a tick that fails leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from ctypes import CFUNCTYPE, c_void_p
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from operator import is_
from struct import Struct
from typing import Any, NamedTuple

import numpy as np

from cpu_fallback import walk_records as record
from gpu_wcoj.backend import Backend
from gpu_wcoj.circuit.aggregate import GroupingHead
from gpu_wcoj.circuit.circuit import VALUE_ERRORS, Circuit
from gpu_wcoj.circuit.computed_groups import ComputedGroupsHead
from gpu_wcoj.circuit.first_rows import FirstRowsHead
from gpu_wcoj.circuit.head import AuxiliaryHead, Head, PositiveHead
from gpu_wcoj.circuit.operator import ChangeCount
from gpu_wcoj.costs import STEPWISE_TICK, WALKED_VALUE
from gpu_wcoj.engine.ingest import SmallRows
from gpu_wcoj.join.full_join import Moment
from gpu_wcoj.join.relation import RelationIndex
from gpu_wcoj.join.walk import (
    OPERATORS,
    UnsuitableTickError,
    Walk,
    WalkRecords,
    address_of,
    budget_of_call,
    find_clique,
    find_obstacle,
    matrix,
)
from gpu_wcoj.kernels.protocol import N_WORK, Int64Array
from gpu_wcoj.trace.arrangement import Arrangement, ArrangementKey, PhaseRows
from gpu_wcoj.trace.spine import Spine
from gpu_wcoj.zset.arrays import joined_columns
from gpu_wcoj.zset.index import IndexedZSet

FORGOTTEN = 7 / 8
"""Share of the expected work per row that is left after each tick that it has made a large one."""

GIVEN_UP = 16
"""Expected work of a tick that is given up, in units of the largest work that is admitted. Some 20 ticks like it run
path by path before another one is tried, so what is lost is a few percent."""

MANY_ROWS_DIVISOR = 16
"""Divisor of the thresholds of work for a tick of as many rows as may walk; for fewer rows it falls with their square,
down to 1. Joins that bind one variable for all changed rows at a time share more work the more rows there are. On R-MAT
17, 4-cycles and diamonds that look at 30 M values are walked in 0.6 of their time for 100 rows, and in as long for 512;
on a dense graph, 4-cycles that look at 8 M values take 1.4 times as long for 512 rows."""

TICK_CAPACITY = 4096
"""Changed rows of a relation in a small tick at most; a tick that derives more runs as a large one."""

CLIQUE_ROWS = 4
"""Factor of `Tuning.max_tick_rows` in programs of cliques, which are walked once a row and not once a delta path. On
R-MAT 17 triangles and 4-cliques are as fast path by path at 4,000 rows."""

AGGREGATED_ROWS = 4
"""Divisor of `Tuning.max_tick_rows` in programs with aggregates: a tick makes a batch of the memtable to look groups
up, which takes as long as the walk saves at some 200 rows."""

RANKED_FROM = 1 << 15
"""Rows of a batch from which on its long ranges get ranks if atoms are looked up in it; a smaller one is merged
again soon."""

MIN_MEMTABLE, MEMTABLE_A_ROW = 2048, 64
"""Rows of a memtable at most for ticks of few rows, and more for every row of a tick. Each tick copies the memtables.
20,000 ticks of one edge of R-MAT 17 take three quarters of the time with 2,048 rows instead of 8,192, as much as with
1,024; ticks of 10 edges take the same with all of these."""

AGGREGATED_MEMTABLE = 512
"""Rows of a memtable at most in programs with aggregates, as every tick makes a batch of it."""

ARROW_ARRAY = 10
"""Words of 64 bits of an ArrowArray of Arrow's C data interface."""

ARROW_RELEASE = 8
"""The word of an ArrowArray that is the address of the function that releases it."""

MAX_BATCHES = 14
"""Batches of an arrangement at most."""


class Recent(NamedTuple):
    """The valid records of the memtables, and totals since the last batch.

    Attributes
    ----------
    side
        0 or 1.
    totals, bounds
        Per head, in the circuit's order; see `Head.total` and `Head.weight_bound`.
    n_rows
        Rows of the largest memtable.
    """

    side: int
    totals: tuple[int | None, ...]
    bounds: tuple[int, ...]
    n_rows: int = 0


Totals = tuple[tuple[int | None, ...], tuple[int, ...]]
"""Totals and bounds of the heads after a tick, as in `Recent`."""


class WalkWork(Mapping[int, Mapping[int, Mapping[str, Int64Array]]]):
    """The kernels' counters of the walks of a head: per rule, path and variable; read on demand."""

    def __init__(self, counted: Sequence[tuple[WalkRecords, Int64Array]]) -> None:
        self._counted = counted

    def __getitem__(self, rule: int) -> Mapping[int, Mapping[str, Int64Array]]:
        records, work = self._counted[rule]
        paths: dict[int, dict[str, Int64Array]] = {}
        for node, (path, name) in records.steps.items():
            if name != "seeds":
                steps = paths.setdefault(path, {})
                steps[name] = steps[name] + work[node] if name in steps else work[node].copy()
        return paths

    def __iter__(self) -> Any:
        return iter(range(len(self._counted)))

    def __len__(self) -> int:
        return len(self._counted)


class TickWork(Mapping[str, Any]):
    """The kernels' counters of a tick, by head; read on demand.

    Parameters
    ----------
    rules
        Per head, the number of its rules.
    walks
        Per head that is walked, the records of its walks, and the nodes of each in `work`.
    work
        The counters of all walks.
    done
        The heads that were walked in this tick.
    """

    def __init__(
        self, rules: Mapping[str, int], walks: Mapping[str, list[tuple[WalkRecords, slice]]], work: Int64Array,
        done: Collection[str],
    ) -> None:  # fmt: skip
        self._rules, self._walks, self._work, self._done = rules, walks, work, done

    def __getitem__(self, head: str) -> Any:
        if head in self._done:
            return WalkWork([(records, self._work[nodes]) for records, nodes in self._walks[head]])
        return {rule: {} for rule in range(self._rules[head])}

    def __iter__(self) -> Any:
        return iter(self._rules)

    def __len__(self) -> int:
        return len(self._rules)


@dataclass(eq=False)
class _HeadWalks:
    """A head with the walks of its rules, and the relations that keep its rows."""

    name: str
    position: int
    head: Head
    walks: Callable[[bool], list[Walk]]
    atoms: list[list[int]]
    derivations: int | None
    relation: int | None
    negates: bool
    reads: frozenset[str]
    has_state: bool

    @cached_property
    def counting(self) -> list[Walk]:
        """The walks that add up weights, one a rule."""
        return self.walks(False)

    @cached_property
    def listing(self) -> list[Walk]:
        """The walks that list rows, one a rule."""
        return self.walks(True)

    @property
    def started(self) -> list[list[Walk]]:
        """Per rule, those of its walks that have been made."""
        made = [walks for walks in (vars(self).get("counting"), vars(self).get("listing")) if walks is not None]
        return [list(walks) for walks in zip(*made, strict=True)]


@dataclass(eq=False)
class _Grouping:
    """A head that aggregates.

    Attributes
    ----------
    source
        The place of the arrangement that it reads.
    relation, derivations
        The relations that keep its rows, and the words of its sums.
    """

    name: str
    position: int
    head: GroupingHead
    source: int
    relation: int
    derivations: int | None
    reads: frozenset[str]
    has_state: bool = True


@dataclass(eq=False)
class _Overlay:
    """An arrangement as a head that aggregates sees it in a small tick.

    These are its batches, the last of them the memtable, and this tick's rows.

    What the head passes on to its arrangements is kept in `received`.
    """

    key: ArrangementKey
    batches: tuple[IndexedZSet, ...]
    pending: tuple[IndexedZSet, ...]
    received: Sequence[PhaseRows] = ()

    def accumulated(self) -> tuple[IndexedZSet, ...]:
        """Return the batches of the committed state."""
        return self.batches

    def after(self, phase: int) -> tuple[IndexedZSet, ...]:
        """Return the batches of the state after a phase."""
        return (*self.batches, *(batch for batch in self.pending[: phase + 1] if batch.n_rows))

    def receive_delta(self, phases: Sequence[PhaseRows]) -> None:
        """Keep the change."""
        self.received = phases


class SmallTicks:
    """Memtables of a circuit's relations, and its rules ready to be walked.

    Parameters
    ----------
    circuit
        A circuit on the CPU whose kernels can walk.

    Attributes
    ----------
    obstacles
        Per head that cannot take part, the reason. With one of them, no tick of the program is small.
    tuning
        The thresholds; those of the circuit.
    max_rows
        Passed rows up to which a tick may walk.
    work_per_row
        Values proposed and searched per changed row, a moving average over the small ticks.
    """

    def __init__(self, circuit: Circuit) -> None:
        self.circuit, self.outputs, self.tuning = circuit, frozenset(circuit.outputs), circuit.execution.tuning
        self.kernels, self.backend_name = circuit.backend.kernels, circuit.backend.name
        assert self.kernels.walker is not None
        self.walker = self.kernels.walker
        self.obstacles = find_obstacles(circuit)
        self.max_rows = max_walked_rows(circuit)
        most = self.tuning.max_memtable_rows
        self._max_memtable_rows = min(most, AGGREGATED_MEMTABLE) if _aggregates(circuit) else most
        self.version = 0
        self.stride = 0
        self.slots = np.zeros((1, 1), np.int64)
        self.work_per_row = 0.0
        self._given_up_for = ""
        self._n_rows = self.max_rows
        self._limited_rows = 0
        self._spines: list[Spine] = []
        self._made: dict[int, tuple[IndexedZSet, ...]] = {}
        self._side = 0
        self._is_built = self._is_chosen = False
        self._begun: Recent | None = None  # of empty memtables, if no row has changed anything since
        self._collect: frozenset[str] | None = None

    def check(self, n_rows: int) -> None:
        """Raise `UnsuitableTickError` unless a tick of as many passed rows is a small one."""
        if n_rows > self.max_rows:
            raise UnsuitableTickError(too_many_rows(self.max_rows))
        self._n_rows = n_rows
        work, max_work = n_rows * self.work_per_row, float(self.tuning.max_expected_work)
        if work * MANY_ROWS_DIVISOR > max_work and work > (max_work := max_work / self._work_divisor(n_rows)):
            self.work_per_row *= FORGOTTEN
            if self._given_up_for:
                raise UnsuitableTickError(f"a tick before it was given up, as {self._given_up_for}")
            raise UnsuitableTickError(
                f"it was expected to look at more than {max_work:,.0f} values, by the ticks before it"
            )
        if n_rows > self._limited_rows and self._is_built:
            self._limit_walks(n_rows)
        self._given_up_for = ""

    def _work_divisor(self, n_rows: int) -> float:
        """Return the divisor of the thresholds of work for a tick of as many passed rows."""
        return max(1.0, MANY_ROWS_DIVISOR * (n_rows / max(1, self.max_rows)) ** 2)

    # The records of the state.

    def _build(self) -> None:
        circuit = self.circuit
        self.indices = circuit.indices()
        self.relations = {id(index): number for number, index in enumerate(self.indices)}
        self.arrangements: list[tuple[RelationIndex, ArrangementKey, Arrangement]] = [
            (index, key, arrangement) for index in self.indices for key, arrangement in index.arrangements.items()
        ]
        places = {id(arrangement): place for place, (_, _, arrangement) in enumerate(self.arrangements)}
        n, weighted = len(self.arrangements), circuit.execution.weighted
        self._tables = np.zeros((2, n, record.ARRANGEMENT), np.int64)
        depth = max(max(len(key.order), index.width) for index, key, _ in self.arrangements)
        capacity = max(0, self._max_memtable_rows) + TICK_CAPACITY
        columns = np.zeros((n, depth), np.int64)
        filters: list[tuple[int, int, int, int]] = []
        spans = [0]
        self._memory: dict[int, tuple[Int64Array, Int64Array]] = {}
        for place, (_, key, _) in enumerate(self.arrangements):
            width = len(key.order)
            columns[place, :width] = key.order
            row = self._tables[0, place]
            row[record.A_DEPTH] = width
            for rows, weights, size in (
                (record.A_ROWS, record.A_WEIGHTS, capacity),
                (record.A_SPARE_ROWS, record.A_SPARE_WEIGHTS, capacity),
                (record.A_TICK_ROWS, record.A_TICK_WEIGHTS, TICK_CAPACITY),
                (record.A_TICK_STAMPS, record.A_TICK_BEFORE, TICK_CAPACITY),
            ):
                n_columns = 1 if rows == record.A_TICK_STAMPS else width
                memory = np.empty((n_columns + 1) * size, np.int64)
                row[rows], row[weights] = address_of(memory), address_of(memory[n_columns * size :])
                self._memory[int(row[rows])] = memory[: n_columns * size], memory[n_columns * size :]
            filters.extend(_filters(key))
            spans.append(len(filters))
        self._tables[1] = self._tables[0]
        self._addresses = address_of(self._tables[0]), address_of(self._tables[1])
        first = 0
        relations = np.zeros((len(self.indices), record.RELATION), np.int64)
        self.inputs = {name: self.relations[id(index)] for name, index in circuit.sources.items()}
        inputs = set(self.inputs.values())
        self.rows: list[Int64Array] = []
        self.weights: list[Int64Array] = []
        self.places: list[Int64Array] = []
        self._exports: dict[int, tuple[int, memoryview]] = {}
        self._pack_places: dict[int, Callable[..., None]] = {}
        self.changed: list[tuple[Int64Array, Int64Array]] = []
        atoms = np.zeros((len(self.indices), record.ATOM), np.int64)
        self._cursor_rows = 0
        for number, index in enumerate(self.indices):
            row = relations[number]
            end = first + len(index.arrangements)
            row[record.R_WIDTH], row[record.R_ATOM], row[record.R_FIRST], row[record.R_END] = (
                index.width, number, first, end,
            )  # fmt: skip
            canonical = places[id(index.arrangements[index.canonical])]
            atoms[number] = canonical, 0, self._cursor_rows
            self._cursor_rows += index.width
            first = end
            given, given_weights = np.empty((TICK_CAPACITY, index.width), np.int64), np.empty(TICK_CAPACITY, np.int64)
            changed, extra = np.empty((TICK_CAPACITY, index.width), np.int64), np.empty((3, TICK_CAPACITY), np.int64)
            self.rows.append(given)
            self.weights.append(given_weights)
            self.changed.append((changed, extra))
            row[record.R_ROWS], row[record.R_WEIGHTS] = address_of(given), address_of(given_weights)
            self.places.append(np.zeros(2 * index.width + 2, np.int64))
            if number in inputs:
                row[record.R_PLACES] = address_of(self.places[number])
                arrow = np.zeros(ARROW_ARRAY, np.int64)
                self._exports[number] = address_of(arrow), _view(arrow)
                pack = Struct(f"{len(self.places[number])}q").pack_into
                self._pack_places[number] = partial(pack, _view(self.places[number]).cast("B"), 0)
            row[record.R_CHANGED], row[record.R_CHANGES] = address_of(changed), address_of(extra[0])
            row[record.R_BEFORE], row[record.R_STAMPS] = address_of(extra[1]), address_of(extra[2])
        self._relation_records, self._atoms = relations, atoms
        self._relations: Any = _view(relations)
        self._context = np.zeros(record.CONTEXT, np.int64)
        self._context_address, self._contexts = address_of(self._context), _view(self._context)
        self._keep: dict[int, Any] = {}
        for field, array in {
            record.RELATIONS: relations,
            record.COLUMNS: columns,
            record.FILTERS: matrix(filters, record.FILTER),
            record.FILTER_SPANS: np.array(spans, np.int64),
            record.ORDER: np.zeros(TICK_CAPACITY, np.int64),
            record.SPARE: np.zeros(TICK_CAPACITY, np.int64),
            record.IDENTITY: np.arange(depth, dtype=np.int64),
            record.WORK: np.zeros(N_WORK, np.int64),
        }.items():
            self._place(field, array)
        self._context[record.MAX_DEPTH] = depth
        self._context[record.WEIGHTED] = int(weighted)
        self._context[record.N_ARRANGEMENTS] = n
        self._context[record.N_RELATIONS] = len(self.indices)
        self._plan_heads(places)
        self._plan_tick()
        self._is_built = True

    def _place(self, field: int, array: Any) -> None:
        self._keep[field] = array
        self._context[field] = address_of(array)

    def _plan_heads(self, places: Mapping[int, int]) -> None:
        self.heads: list[_HeadWalks | _Grouping] = []
        self._looked_up: set[int] = set()
        self._n_rules = {name: len(head.joins) for name, head in self.circuit.heads.items()}
        relations = {id(arrangement): self.relations[id(index)] for index, _, arrangement in self.arrangements}
        for position, (name, head) in enumerate(self.circuit.heads.items()):
            if isinstance(head, GroupingHead):
                words = None if head.derivations is None else self.relations[id(head.derivations)]
                target, source = self.relations[id(head.relation)], places[id(head.source)]
                reads = frozenset(head.reads)
                if head.plan.of_derivations:  # their numbers may change where no row comes or goes
                    reads = frozenset(self.circuit.heads[head.plan.source.relation].reads)
                self.heads.append(_Grouping(name, position, head, source, target, words, reads))
                continue
            assert isinstance(head, Head)
            derivations = None if head.derivations is None else self.relations[id(head.derivations)]
            relation = None if head.relation is None else self.relations[id(head.relation)]
            negates = any(join.query.has_negation for join in head.joins)
            walks = partial(self._walks, head, places)
            reads = frozenset(head.reads)
            atoms = [
                [relations[id(join.arrangements[path.seed.key])] for path in join.query.paths if not path.is_negated]
                for join in head.joins
            ]
            self._looked_up.update(
                places[id(join.arrangements[use.key])]
                for join in head.joins
                for path in join.query.paths
                for use in path.other_atoms
            )
            self.heads.append(
                _HeadWalks(name, position, head, walks, atoms, derivations, relation, negates, reads, bool(head.state))
            )

    def _walks(self, head: Head, places: Mapping[int, int], lists_rows: bool) -> list[Walk]:
        """Return the walks of a head, one a rule; they list into the same memory."""
        walks: list[Walk] = []
        for join in head.joins:
            arrangements = {key: places[id(arrangement)] for key, arrangement in join.arrangements.items()}
            records = WalkRecords(join.query, arrangements, lists_rows)
            out = walks[0].out if walks else None
            walks.append(Walk(self.walker, records, self.circuit.execution.weighted, self._max_walk_work(head), out))
        return walks

    def _max_walk_work(self, head: Head) -> int:
        """Return the values at which a walk is given up: listing all rows costs less, if known."""
        size = head.recounting.size(Moment(len(self.circuit.execution.phases)))
        max_work = self.tuning.max_walk_work / self._work_divisor(self._limited_rows)
        return int(min(max_work, (head.costs.max_change(size) + STEPWISE_TICK) / WALKED_VALUE))

    def _limit_walks(self, n_rows: int) -> None:
        """Set the values at which walks are given up, by the rows and by what heads cost now."""
        self._limited_rows, min_work = n_rows, self.tuning.max_walk_work
        for part in self.heads:
            if isinstance(part, _HeadWalks):
                max_work = self._max_walk_work(part.head)
                min_work = min(min_work, max_work)
                for walk in chain.from_iterable(part.started):
                    walk.max_work = max_work
        self._tick_record[record.T_BUDGET] = budget_of_call(min_work)

    def _plan_tick(self) -> None:
        """Make the records of a tick that do not depend on which of its rows are asked for."""
        n_relations, n_heads = len(self.indices), len(self.heads)
        names = {**self.inputs, **{part.name: n_relations + number for number, part in enumerate(self.heads)}}
        reads: list[int] = []
        self._head_records = np.zeros((max(1, n_heads), record.H_RECORD), np.int64)
        for row, part in zip(self._head_records, self.heads, strict=False):
            row[record.H_FIRST_READ] = len(reads)
            reads.extend(names[name] for name in part.reads if name in names)
            row[record.H_END_READ] = len(reads)
            walked = isinstance(part, _HeadWalks)
            for field, relation in (
                (record.H_RELATION, part.relation if walked else None),
                (record.H_DERIVATIONS, part.derivations if walked else None),
            ):
                row[field] = -1 if relation is None else relation
        width = max((part.head.width for part in self.heads if isinstance(part, _HeadWalks)), default=0)
        weighted = self.circuit.execution.weighted
        self._tick_record = np.zeros(record.TICK, np.int64)
        self._inputs = np.zeros(max(1, len(self.inputs)), np.int64)
        self._flags = np.zeros(n_relations + n_heads, np.int64)
        self._tick_arrays: dict[int, Any] = {}
        for field, array in {
            record.T_CONTEXT: self._context,
            record.T_INPUTS: self._inputs,
            record.T_HEADS: self._head_records,
            record.T_FLAGS: self._flags,
            record.T_READS: np.array([*reads, 0], np.int64),
            record.T_SPARE_ROWS: np.empty((width + 1) * TICK_CAPACITY, np.int64),
            record.T_NUMBERS: np.empty(2 * TICK_CAPACITY, np.int64),
        }.items():
            self._place_tick(field, array)
        self._tick_record[record.T_N_HEADS] = n_heads
        self._tick_record[record.T_MODE] = record.AS_BAG if weighted else record.AS_SET
        self._tick_record[record.T_CAPACITY] = TICK_CAPACITY
        self._limit_walks(self._n_rows)
        self._tick_address = address_of(self._tick_record)
        self._tick, self._passed = _view(self._tick_record), _view(self._inputs)
        self._results: Any = _view(self._head_records)
        self._measures: Any = _view(self._head_records.view(np.float64))

    def _place_tick(self, field: int, array: Any) -> None:
        self._tick_arrays[field] = array
        self._tick_record[field] = address_of(array)

    def _choose_walks(self, collect: frozenset[str] | None) -> None:
        """Get ready for ticks that list the rows of these heads; None if none is counted."""
        self._collect = None  # until all is set: an interrupt may come at any line
        self._is_chosen = False
        weighted, records = self.circuit.execution.weighted, self._head_records
        chosen: list[tuple[_HeadWalks | _Grouping, list[Walk]]] = []
        for row, part in zip(records, self.heads, strict=False):
            name = part.name
            walks: list[Walk] = []
            lists = collect is not None and name in collect
            if not (part.has_state or lists or (name in self.outputs and (collect is not None or weighted))):
                row[record.H_KIND] = record.H_SKIPPED
            elif isinstance(part, _Grouping):
                row[record.H_KIND] = record.H_CALLED
            elif lists or part.has_state or part.negates:
                row[record.H_KIND], walks = record.H_LISTED, part.listing
            else:
                row[record.H_KIND], walks = record.H_COUNTED, part.counting
            chosen.append((part, walks))
        walked: list[tuple[int, int, int, int]] = []
        atoms = [0]
        self._walked: list[Walk] = []
        self._work_of: dict[str, list[tuple[WalkRecords, slice]]] = {}
        work = np.zeros((sum(len(walk.work) for _, walks in chosen for walk in walks), N_WORK), np.int64)
        n_nodes = 0
        for row, (part, walks) in zip(records, chosen, strict=False):
            row[record.H_FIRST_WALK] = len(walked)
            for rule, walk in enumerate(walks):
                assert isinstance(part, _HeadWalks)
                first = len(atoms)
                atoms.extend(part.atoms[rule])
                share = np.array([walk.share_of_paths]).view(np.int64)[0]
                walked.append((walk.address, share, first, len(atoms)))
                nodes = slice(n_nodes, n_nodes + len(walk.work))
                n_nodes = nodes.stop
                walk.place_work(work[nodes])
                self._work_of.setdefault(part.name, []).append((walk.records, nodes))
                self._walked.append(walk)
            row[record.H_END_WALK] = len(walked)
        self._work = work
        self._no_work = TickWork(self._n_rules, self._work_of, work, ())
        nothing = ChangeCount(None, None, 0) if weighted else ChangeCount(0, 0, 0)
        kinds = records[:, record.H_KIND].tolist()
        self._unchanged = {
            part.name: nothing for part, kind in zip(self.heads, kinds, strict=False) if kind != record.H_SKIPPED
        }
        self._place_tick(record.T_WALKS, matrix(walked, record.W_RECORD))
        self._place_tick(record.T_ATOMS, np.array(atoms, np.int64))
        self._bound = -1
        self._collect, self._is_chosen = collect, True

    def _has_spines(self) -> bool:
        """Return whether the batches of the circuit are those of the records."""
        spines = [arrangement.spine for _, _, arrangement in self.arrangements]
        return len(spines) == len(self._spines) and all(map(is_, spines, self._spines))

    def follow_spines(self) -> bool:
        """Take over the batches of the circuit; return False if there are too many."""
        if self._has_spines():
            return True
        spines = [arrangement.spine for _, _, arrangement in self.arrangements]
        self._spines = []  # until all is set: an interrupt may come at any line
        fields: list[Any] = []
        most = 0
        for place, (_, _, arrangement) in enumerate(self.arrangements):
            batches = arrangement.spine.batches
            most = max(most, len(batches))
            self._tables[:, place, [record.A_BATCHES, record.A_SLOTS]] = len(batches), len(fields)
            for batch in batches:
                if place in self._looked_up and len(batch) >= RANKED_FROM:
                    self.kernels.prepare(batch.levels, [0], [True, True], [False], [], [])
                fields.extend(level.support[0] for level in batch.levels)
        if most > MAX_BATCHES:
            return False
        self.slots = np.array(fields, np.int64) if fields else np.zeros((1, 1), np.int64)
        self._place(record.SLOTS, self.slots)
        if most + 2 > self.stride:
            stride = most + 4
            atoms = self._atoms.copy()
            atoms[:, record.ATOM_CURSORS] *= stride
            self._place(record.ATOMS, atoms)
            self._place(record.CURSORS, np.zeros((self._cursor_rows * stride, 3), np.int64))
            self._context[record.STRIDE] = stride
            self.stride = stride
        self.version += 1
        self._spines = spines
        return True

    # Ticks.

    def begin(self, recent: Recent | None) -> Recent:
        """Get ready for a tick; return the present memtables.

        Raises
        ------
        UnsuitableTickError
            If an arrangement has too many batches.
        """
        if not self._is_built:
            self._build()
        if recent is None and self._begun is not None and self._has_spines():
            recent = self._begun
        elif recent is None:
            if not self.follow_spines():
                raise UnsuitableTickError(f"an arrangement has more than {MAX_BATCHES} batches")
            self._tables[0, :, [record.A_SIZE, record.A_TICK_SIZE]] = 0
            if self.circuit.execution.weighted:
                largest = self._relation_records.view(np.float64)[:, record.R_LARGEST]
                largest[:] = [sum(batch.largest_weight for batch in index.accumulated()) for index in self.indices]
            heads = self.circuit.heads.values()
            totals = tuple(head.total if isinstance(head, Head) else None for head in heads)
            recent = Recent(0, totals, tuple(head.weight_bound for head in heads))
            self._begun = recent
        side = self._side = recent.side
        self._made = {}
        self.arrangement_address = self._addresses[side]
        self._contexts[record.ARRANGEMENTS] = self.arrangement_address
        self._tick[record.T_TARGET] = self._addresses[1 - side]
        return recent

    def prepare(self) -> None:
        """Run a tick without rows, which allocates memory, makes ranks and loads machine code.

        Raises
        ------
        UnsuitableTickError
            If an arrangement has too many batches.
        """
        self.evaluate(self.begin(None), {}, None)

    def evaluate(
        self, recent: Recent, changes: Mapping[str, SmallRows], collect: frozenset[str] | None
    ) -> tuple[dict[str, ChangeCount], dict[str, list[PhaseRows]], dict[str, int], TickWork, Totals | None]:
        """Compute a tick's changes as `Circuit.evaluate` does; nothing is committed.

        Returns the numbers of changed rows of each head, the rows of those in `collect`, the numbers of rows that have
        changed each input, the kernels' counters, and for `after` the heads' totals; None if no row has changed
        anything.

        Raises
        ------
        UnsuitableTickError
            If the tick derives too many rows, or a weight may leave int64.
        UnreadableRowsError
            If rows of Arrow have nulls.
        """
        if not self._is_chosen or collect != self._collect:
            self._choose_walks(collect)
        if self._bound != self.version:
            for walk in self._walked:
                walk.bind(self)
            self._bound = self.version
        self._called: dict[str, tuple[ChangeCount, list[PhaseRows]]] = {}
        self._listed_whole: dict[str, tuple[list[Int64Array], Int64Array, int]] = {}
        begun, self._begun = self._begun, None
        self._pass_rows(changes)
        n_changed = self._tick[record.T_N_CHANGED]
        if n_changed == 0:
            self._begun = begun
            return dict(self._unchanged), {}, dict.fromkeys(changes, 0), self._no_work, None
        relations, results = self._relations, self._results.tolist()
        weighted = self.circuit.execution.weighted
        changed = {name: relations[self.inputs[name], record.R_N_CHANGED] for name in changes}
        counts: dict[str, ChangeCount] = {}
        rows_by_head: dict[str, list[PhaseRows]] = {}
        totals, bounds, work_done = list(recent.totals), list(recent.bounds), 0.0
        walked: list[str] = []
        for number, part in enumerate(self.heads):
            row, name = results[number], part.name
            result, kind = row[record.H_RESULT], row[record.H_KIND]
            if result != record.H_DONE:
                if kind != record.H_SKIPPED:
                    counts[name] = self._unchanged[name]
                elif result == record.H_STALE:
                    totals[part.position] = None
                continue
            lists = collect is not None and name in collect
            if isinstance(part, _Grouping):
                counts[name], phases = self._called[name]
                if lists:
                    rows_by_head[name] = phases
                continue
            deleted, inserted = row[record.H_DELETED], row[record.H_INSERTED]
            if weighted:
                counts[name], net = ChangeCount(None, None, deleted), deleted
                if part.relation is None:
                    self._add_bound(part, bounds, self._measures[number, record.H_MAGNITUDE])
            else:
                net = inserted - deleted
                counts[name] = ChangeCount(inserted, deleted, net)
            if lists:
                rows_by_head[name] = self._phases(part, row)
            walked.append(name)
            work_done += self._measures[number, record.H_WORK]
            total = totals[part.position]
            totals[part.position] = None if total is None else total + net
        self.work_per_row += (work_done / n_changed - self.work_per_row) / 4
        work = TickWork(self._n_rules, self._work_of, self._work.copy(), walked)
        return counts, rows_by_head, changed, work, (tuple(totals), tuple(bounds))

    def _pass_rows(self, changes: Mapping[str, SmallRows]) -> None:
        """Pass rows to their relations, and run the tick up to its new memtables."""
        tick, relations = self._tick, self._relations
        exported: list[tuple[int, memoryview]] = []
        n_inputs = 0
        try:
            for name, rows in changes.items():
                relation = self.inputs[name]
                if rows.n_rows > TICK_CAPACITY:
                    raise UnsuitableTickError(too_many_rows(TICK_CAPACITY))
                relations[relation, record.R_SIZE] = rows.n_rows
                if rows.places is None:
                    export = self._exports[relation]
                    rows.holder._export_to_c(export[0])
                    exported.append(export)
                    relations[relation, record.R_ARROW] = export[0]
                else:
                    relations[relation, record.R_ARROW] = 0
                    self._pack_places[relation](*rows.places)
                self._passed[n_inputs] = relation
                n_inputs += 1
            tick[record.T_N_INPUTS], tick[record.T_HEAD] = n_inputs, -1
            ended = self.walker.run_tick(self._tick_address)
        finally:
            for export in exported:
                release_arrow(*export)
        if ended == record.UNREADABLE:
            raise UnreadableRowsError
        if ended != record.DONE and tick[record.T_HEAD] < 0:
            raise UnsuitableTickError(_LARGE_WEIGHTS)
        while ended != record.DONE:
            try:
                ended = self._go_on(ended)
            except UnsuitableTickError as error:
                self._given_up_for = str(error)
                walked = sum(walk.work_done * walk.share_of_paths for walk in self._walks_of(tick[record.T_HEAD]))
                wasted = max(walked, GIVEN_UP * self.tuning.max_expected_work / self._work_divisor(self._n_rows))
                self.work_per_row = max(self.work_per_row, wasted / max(1, tick[record.T_N_CHANGED]))
                raise
            except VALUE_ERRORS as error:  # raised again by the tick that runs path by path
                raise UnsuitableTickError(_NO_AGGREGATE) from error

    def _walks_of(self, head_index: int) -> list[Walk]:
        """Return the chosen walks of a head."""
        row = self._head_records[head_index]
        return self._walked[row[record.H_FIRST_WALK] : row[record.H_END_WALK]]

    def _go_on(self, ended: int) -> int:
        """Do what the kernel needs, and let it go on; return why it has ended."""
        tick = self._tick
        head_index = tick[record.T_HEAD]
        if ended == record.LARGE:
            raise UnsuitableTickError(_LARGE_WEIGHTS)
        part = self.heads[head_index]
        if isinstance(part, _Grouping):
            self._called[part.name] = self._aggregate(part)
            self._flags[len(self.indices) + head_index] = any(map(len, self._called[part.name][1]))
            tick[record.T_HEAD] = head_index + 1
        elif ended == record.FULL:
            self._list_whole(part, head_index)
        else:
            walk = self._walked[self._results[head_index, record.H_WALK]]
            if walk.is_over_limit:  # listing all rows may cost more by now
                self._limit_walks(self._n_rows)
            walk.go_on(ended)
        return self.walker.run_tick(self._tick_address)

    def _phases(self, part: _HeadWalks, row: Sequence[int]) -> list[PhaseRows]:
        """Return the changed rows of a head that lists them."""
        n, n_gone = row[record.H_ROWS], row[record.H_DELETED]
        if part.name in self._listed_whole:
            columns, weights, n_gone = self._listed_whole[part.name]
        elif n >= 0:
            found = part.listing[-1].out[:, :n].copy()
            columns, weights = [*found[:-1]], found[-1]
        else:
            target = -1 - n
            columns, weights = self._changed_rows(target)
            if part.relation is None:
                before = self.changed[target][1][1, : len(weights)]
                weights = (before + weights > 0).astype(np.int64) - (before > 0)
                order = np.concatenate([np.flatnonzero(weights < 0), np.flatnonzero(weights > 0)])
                columns, weights = [column[order] for column in columns], weights[order]
        if n_gone in (0, len(weights)) or self.circuit.execution.weighted:
            return [PhaseRows(columns, weights, is_owned=True)]
        return [
            PhaseRows([column[:n_gone] for column in columns], -1),
            PhaseRows([column[n_gone:] for column in columns], 1),
        ]

    def _aggregate(self, grouping: _Grouping) -> tuple[ChangeCount, list[PhaseRows]]:
        """Return the change of a head that aggregates, from this tick's change of its source."""
        head = grouping.head
        overlays: dict[str, Any] = {
            "source": _Overlay(head.source.key, self._batches(grouping.source), self._pending(grouping.source)),
            "relation": self._state_of(grouping.relation),
        }
        if grouping.derivations is not None:
            overlays["derivations"] = self._state_of(grouping.derivations)
        count, phases = replace(head, **overlays).evaluate(collect=True)
        mode = record.AS_BAG if self.circuit.execution.weighted else record.AS_IS
        self._keep_phases(grouping.relation, phases, mode)
        if grouping.derivations is not None:
            self._keep_phases(grouping.derivations, overlays["derivations"].received, record.AS_BAG)
        return count, phases

    def _state_of(self, relation: int) -> _Overlay:
        """Return the rows of a relation as of the beginning of this tick."""
        place = int(self._atoms[relation, record.ATOM_ARRANGEMENT])
        return _Overlay(self.arrangements[place][1], self._batches(place), ())

    def _batches(self, place: int) -> tuple[IndexedZSet, ...]:
        """Return the batches of an arrangement, the memtable among them; made once a tick."""
        if place not in self._made:
            _, key, arrangement = self.arrangements[place]
            row, batches = self._tables[self._side, place], arrangement.spine.batches
            if n := int(row[record.A_SIZE]):
                rows, weights = self._run(row, record.A_ROWS, n, len(key.order))
                batches = (*batches, *_pending_batches(arrangement, rows, weights, counted=True))
            self._made[place] = batches
        return self._made[place]

    def _pending(self, place: int) -> tuple[IndexedZSet, ...]:
        """Return this tick's rows of an arrangement, one batch a phase."""
        index, key, arrangement = self.arrangements[place]
        row = self._tables[self._side, place]
        if (n := int(row[record.A_TICK_SIZE])) == 0:
            return ()
        rows, weights = self._run(row, record.A_TICK_ROWS, n, len(key.order))
        return _pending_batches(arrangement, rows, weights, self._counts_rows(index))

    def _run(self, row: Int64Array, rows_field: int, n: int, depth: int) -> tuple[Int64Array, Int64Array]:
        """Return the rows of a memtable or of a tick, of shape (n, depth), and their weights."""
        rows, weights = self._memory[int(row[rows_field])]
        return rows[: n * depth].reshape(n, depth), weights[:n]

    def _counts_rows(self, index: RelationIndex) -> bool:
        """Return whether the rows of a relation have weights other than one."""
        number = self.relations[id(index)]
        return self.circuit.execution.weighted or any(head.derivations == number for head in self.heads)

    def _list_whole(self, part: _HeadWalks, head_index: int) -> None:
        """List the rows of a head that are too many for the memory of one result."""
        row = self._head_records[head_index]
        begun = int(row[record.H_WALK] - row[record.H_FIRST_WALK])
        magnitude, work = self._measures[head_index, record.H_MAGNITUDE], self._measures[head_index, record.H_WORK]
        full = part.listing[begun]
        pieces = [full.out.copy()]
        full.context[record.OUT_SIZE] = 0
        n_rows = pieces[0].shape[1]
        for walk in part.listing[begun:]:
            for piece in walk.list_rest() if walk is full else walk.run(self):
                pieces.append(piece)
                n_rows += piece.shape[1]
                if part.has_state and n_rows > 4 * TICK_CAPACITY:
                    raise UnsuitableTickError(_TOO_MANY_DERIVED)
            magnitude += float(walk.magnitude[0])
            work += walk.work_done * walk.share_of_paths
        if magnitude >= record.LARGEST_WEIGHT:
            raise UnsuitableTickError(_LARGE_WEIGHTS)
        found = np.concatenate(pieces, axis=1)
        columns, weights = self.kernels.consolidate(list(found[:-1]), found[-1])
        n_gone, n, tick = 0, len(weights), self._tick
        if not self.circuit.execution.weighted:
            n_gone = int(np.count_nonzero(weights < 0))
            if 0 < n_gone < n:
                order = np.argsort(weights > 0, kind="stable")
                columns, weights = [column[order] for column in columns], weights[order]
        self._measures[head_index, record.H_MAGNITUDE], self._measures[head_index, record.H_WORK] = magnitude, work
        if part.has_state:
            if n > TICK_CAPACITY:
                raise UnsuitableTickError(_TOO_MANY_DERIVED)
            for target, column in zip(part.listing[-1].out, [*columns, weights], strict=True):
                target[:n] = column
            tick[record.T_N_ROWS], tick[record.T_N_GONE], tick[record.T_STAGE] = n, n_gone, record.T_LISTED
            return
        self._listed_whole[part.name] = columns, weights, n_gone
        weighted = self.circuit.execution.weighted
        row[record.H_DELETED] = int(weights.sum()) if weighted else n_gone
        row[record.H_INSERTED] = 0 if weighted else n - n_gone
        tick[record.T_HEAD], tick[record.T_STAGE] = head_index + 1, record.T_BEGIN

    def _add_bound(self, walks: _HeadWalks, bounds: list[int], magnitude: float) -> None:
        if magnitude >= record.LARGEST_WEIGHT or bounds[walks.position] + int(magnitude) >= record.LARGEST_WEIGHT:
            raise UnsuitableTickError(_LARGE_WEIGHTS)
        bounds[walks.position] += int(magnitude)

    def _keep_phases(self, relation: int, phases: Sequence[PhaseRows], mode: int) -> None:
        """Make the rows of all phases the change of a relation."""
        if not phases:
            return
        *columns, weights = joined_columns([[*phase.columns, phase.weight_column()] for phase in phases], np)
        n = len(weights)
        if n > TICK_CAPACITY:
            raise UnsuitableTickError(_TOO_MANY_DERIVED)
        rows = self.rows[relation]
        for column, values in enumerate(columns):
            rows[:n, column] = values
        self.weights[relation][:n] = weights
        self._relations[relation, record.R_SIZE] = n
        if self.walker.receive_rows(self._context_address, relation, mode, TICK_CAPACITY) < 0:
            raise UnsuitableTickError(_LARGE_WEIGHTS)

    def _changed_rows(self, relation: int) -> tuple[list[Int64Array], Int64Array]:
        """Return the changed rows of a relation, deleted ones first, and their weights."""
        n = int(self._relation_records[relation, record.R_N_CHANGED])
        changed, extra = self.changed[relation]
        return [changed[:n, column].copy() for column in range(changed.shape[1])], extra[0, :n].copy()

    def take_work(self) -> dict[str, WalkWork]:
        """Return the work of all small ticks since the last call."""
        work = {}
        for walks in self.heads:
            if isinstance(walks, _Grouping):
                continue
            counted = []
            for pair in walks.started:
                for walk in pair:
                    walk.total_work += walk.work
                    walk.work[:] = 0
                walk = max(pair, key=lambda walk: int(walk.total_work.sum()))
                counted.append((walk.records, walk.total_work.copy()))
                for walk in pair:
                    walk.total_work[:] = 0
            work[walks.name] = WalkWork(counted)
        return work

    def after(self, before: Recent, totals: Totals) -> Recent:
        """Return the memtables after the tick, which are beside the present ones."""
        return Recent(1 - before.side, *totals, self._tick[record.T_LARGEST])

    def is_full(self, recent: Recent, n_rows: int) -> bool:
        """Return whether the memtables become batches before the next small tick, of `n_rows`."""
        return recent.n_rows > self._memtable_rows(n_rows)

    def _memtable_rows(self, n_rows: int) -> int:
        """Return the rows of a memtable from which all become batches, for ticks of `n_rows`."""
        return min(self._max_memtable_rows, MIN_MEMTABLE + MEMTABLE_A_ROW * n_rows)

    def work_ahead(self, recent: Recent, n_rows: int) -> bool:
        """Do the part of a tick of `n_rows` in the running merges; the state stays as it is.

        Returns whether a merge is complete.
        """
        is_complete = False
        for spine in self._spines:
            if spine.running:
                spine.work_ahead(recent.n_rows, n_rows, self._memtable_rows(n_rows))
                is_complete = is_complete or any(running.is_complete for running in spine.running)
        return is_complete

    def as_pending(self, recent: Recent, n_rows: int) -> None:
        """Make the rows of all memtables the pending change of the circuit's relations.

        `n_rows` is the number of rows of the tick that does so.
        """
        table = self._tables[recent.side]
        for place, (index, key, arrangement) in enumerate(self.arrangements):
            row = table[place]
            rows, weights = self._run(row, record.A_ROWS, int(row[record.A_SIZE]), len(key.order))
            batches = _pending_batches(arrangement, rows, weights, self._counts_rows(index))
            arrangement.receive_small_ticks(batches, n_rows)
        for part, total, bound in zip(self.heads, recent.totals, recent.bounds, strict=True):
            part.head.begin()
            part.head.pending_bound = bound
            if isinstance(part.head, Head):
                part.head.pending_total = total


def release_arrow(structure: int, array: memoryview) -> None:
    """Release an exported ArrowArray."""
    address = array[ARROW_RELEASE]
    release = _RELEASES.get(address)
    if release is None:
        release = _RELEASES[address] = CFUNCTYPE(None, c_void_p)(address)
    release(structure)


_RELEASES: dict[int, Callable[[int], None]] = {}


def _view(array: Any) -> Any:
    """Return the memory of an array; its elements are read and written in less time."""
    return memoryview(array)


def _aggregates(circuit: Circuit) -> bool:
    """Return whether a head of a circuit aggregates."""
    return any(isinstance(head, GroupingHead) for head in circuit.heads.values())


def max_walked_rows(circuit: Circuit) -> int:
    """Return the passed rows up to which a tick of a circuit may walk."""
    most = circuit.execution.tuning.max_tick_rows
    if _aggregates(circuit):
        return most // AGGREGATED_ROWS
    queries = [join.query for head in circuit.heads.values() for join in head.joins]
    others = [query for query in queries if any(path.steps for path in query.paths)]
    if others and all(find_clique(query) is not None for query in others):
        return most * CLIQUE_ROWS
    return most


def too_many_rows(n_rows: int) -> str:
    """Return the reason against a walk of more rows than a threshold."""
    return f"it has more than {n_rows:,} rows"


class UnreadableRowsError(Exception):
    """Rows of Arrow have nulls."""


_TOO_MANY_DERIVED = f"it derived more than {TICK_CAPACITY:,} rows of a relation that others read"
_NO_AGGREGATE = "an aggregate of its rows has no value"
_LARGE_WEIGHTS = "a weight might have left int64"


def find_obstacles(circuit: Circuit) -> dict[str, str]:
    """Return per head the reason why it cannot take part in small ticks; empty if all can.

    An empty name stands for the program.
    """
    obstacles: dict[str, str] = {}
    if circuit.execution.share is not None:
        obstacles[""] = "the work on each tick is shared between programs"
    elif circuit.demands:
        obstacles[""] = "rows are derived on demand"
    for name, head in circuit.heads.items():
        if isinstance(head, GroupingHead):
            continue
        if type(head) is not Head:
            obstacles[name] = _obstacle_of(head)
            continue
        for join in head.joins:
            if (reason := find_obstacle(join.query)) is not None:
                obstacles[name] = reason
    for index in circuit.indices():
        for key in index.arrangements:
            fixed = {column for column, _ in key.constants} | {right for _, right in key.equal}
            if set(key.order) | fixed != set(range(index.width)):
                obstacles[index.name] = f"{key} has fewer columns than the relation"
    return obstacles


def _obstacle_of(head: object) -> str:
    """Return what keeps a head that is not just a union of rules from being walked."""
    if isinstance(head, AuxiliaryHead):
        return "its rows are kept in place of a join"
    if isinstance(head, ComputedGroupsHead):
        return "DuckDB computes its groups"
    if isinstance(head, FirstRowsHead):
        return "it keeps the first rows of another"
    return "a recursion reads its rows as a set" if isinstance(head, PositiveHead) else "it is recursive"


SHOWN_OBSTACLES = 3
"""Heads with an obstacle that are named to people, in entries."""


def describe_obstacles(obstacles: Mapping[str, str]) -> str:
    """Return the obstacles as text for people; empty if there are none.

    Examples
    --------
    >>> describe_obstacles({"": "rows are derived on demand", "q": "it is recursive"})
    'rows are derived on demand; head q: it is recursive'
    """
    named = [f"head {name}: {reason}" if name else reason for name, reason in obstacles.items()]
    n_more = len(named) - SHOWN_OBSTACLES
    return "; ".join([*named[:SHOWN_OBSTACLES], *([f"and {n_more} more"] if n_more > 0 else [])])


def _filters(key: ArrangementKey) -> list[tuple[int, int, int, int]]:
    """Return the comparisons that the rows of an arrangement pass."""
    compared = [
        (OPERATORS[op], left, -1 if right is None else right, 0 if code is None else code)
        for left, op, right, code in key.compared
    ]
    constants = [(record.EQ, column, -1, code) for column, code in key.constants]
    return [*constants, *((record.EQ, left, right, 0) for left, right in key.equal), *compared]


def _pending_batches(
    arrangement: Arrangement, rows: Int64Array, weights: Int64Array, counted: bool
) -> tuple[IndexedZSet, ...]:
    """Return sorted rows as the batches of a tick: of a set, deleted and inserted rows apart."""
    backend = arrangement.backend
    columns = rows.T.copy()  # the memtable's memory is used again
    if counted:
        return (_batch(columns, weights.copy(), backend),)
    is_deleted = weights < 0
    n_deleted = int(np.count_nonzero(is_deleted))
    if n_deleted == 0:
        return _batch(columns[:, :0], -1, backend), _batch(columns, 1, backend)
    if n_deleted == len(weights):
        return _batch(columns, -1, backend), _batch(columns[:, :0], 1, backend)
    deleted, inserted = np.flatnonzero(is_deleted), np.flatnonzero(~is_deleted)
    return _batch(columns.take(deleted, 1), -1, backend), _batch(columns.take(inserted, 1), 1, backend)


def _batch(columns: Int64Array, weights: Int64Array | int, backend: Backend) -> IndexedZSet:
    """Return sorted rows, a column a row of the matrix, as a batch."""
    if columns.shape[1] == 0:
        return IndexedZSet.empty(len(columns), backend)
    return IndexedZSet.from_sorted(list(columns), weights, backend)

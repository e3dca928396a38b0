"""Programs: rules whose answers are kept up to date, tick by tick."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from gpu_wcoj.backend import Backend, BackendName, select_backend
from gpu_wcoj.circuit.head import ChangeCount
from gpu_wcoj.column import Column
from gpu_wcoj.errors import (
    GpuWcojError,
    MemoryBudgetError,
    SchemaError,
    UnknownRelationError,
    UsageError,
    WeightOverflowError,
)
from gpu_wcoj.incoming import Incoming, read_change
from gpu_wcoj.join.delta import Execution, Piece
from gpu_wcoj.join.generic import CHUNK_ROWS
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.lowering import Lowered, Lowering, stored_columns
from gpu_wcoj.planner.body import Shape
from gpu_wcoj.planner.explain import explain
from gpu_wcoj.planner.lower import Plan
from gpu_wcoj.planner.types import Types, names_of
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.query.terms import Rules
from gpu_wcoj.schema import INT64, DataType
from gpu_wcoj.trace.arrangement import ArrangementKey, PhaseRows
from gpu_wcoj.trace.spine import MergePolicy, Spine
from gpu_wcoj.zset.zset import ZSet

if TYPE_CHECKING:
    from gpu_wcoj.dictionary import Dictionary

__all__ = ["ChangeCount", "Program", "TickReport"]

Work = dict[str, dict[int, dict[int, dict[str, Int64Array]]]]
"""Per head, rule, delta path and variable, what the kernels counted; see `gpu_wcoj.kernels.protocol`."""


@dataclass(frozen=True)
class TickReport:
    """What the last tick did.

    Attributes
    ----------
    tick
        Its number, from 0; -1 before the first.
    seconds
        How long it took, reading of the changes included.
    ignored
        Per input relation, the given rows that changed nothing.
    work
        Per head, rule, delta path and variable, what the kernels counted.
    merged_rows
        Rows that merging batches read.
    """

    tick: int = -1
    seconds: float = 0.0
    ignored: Mapping[str, int] = field(default_factory=dict)
    work: Work = field(default_factory=dict, compare=False)
    merged_rows: int = 0


class Program:
    """Rules over relations; `step` takes changes of the inputs and gives the changes of the answers.

    Parameters
    ----------
    text
        Datalog text, or rules.
    bag
        Exact bag weights (Z-sets as they are) instead of sets: weights of equal rows add, heads keep multiplicities.
    keep
        Heads whose answer is stored between ticks, so that `relation` need not join it afresh.
    outputs
        Heads whose changes `step` returns; by default those that ``.output`` lines name, else those that no other
        rule reads.
    backend
        ``"auto"``, ``"cpu"`` or ``"cuda"``.
    threads
        Threads that share large ticks; by default the processors at hand.
    chunk_rows
        Rows of intermediate results held at a time, per level.
    schema
        Types of input columns by relation, ``{"edge": ["int64", "int64"]}`` or ``{"edge": {"src": "int64", ...}}``;
        else they are those of the first rows.

    Raises
    ------
    DatalogSyntaxError, UnsafeRuleError, ArityError, UnknownRelationError, UnsupportedError, UsageError
        If the text or an option cannot be used.

    Examples
    --------
    >>> program = Program("triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c).")
    >>> program.step({"edge": [(1, 2), (2, 3)]})["triangle"].rows()
    []
    >>> program.step({"edge": [(1, 3)]})["triangle"].rows()
    [((1, 2, 3), 1)]
    >>> program.step({"edge": [((2, 3), -1)]})["triangle"].rows()
    [((1, 2, 3), -1)]
    >>> len(program.relation("triangle"))
    0
    """

    def __init__(
        self,
        text: str | Rules,
        *,
        bag: bool = False,
        keep: Sequence[str] = (),
        outputs: Sequence[str] | None = None,
        backend: BackendName | Backend = "auto",
        threads: int | None = None,
        chunk_rows: int | None = None,
        schema: Mapping[str, Sequence[str] | Mapping[str, str]] | None = None,
        merge_policy: MergePolicy | None = None,
    ) -> None:
        from gpu_wcoj.dictionary import Dictionary

        if not isinstance(text, (str, Rules)):
            raise UsageError(f"a program is text or Rules, and this is of type '{type(text).__name__}': {text!r:.80}.")
        self.rules = parse(text) if isinstance(text, str) else text
        self.bag = bag
        self.inputs = self.rules.inputs
        self.heads = self.rules.heads
        self._arity = {atom.relation: len(atom.terms) for rule in self.rules.rules for atom in (rule.head, *rule.atoms)}
        self.keep = self._known_heads(keep, "keep")
        read = {atom.relation for rule in self.rules.rules for atom in rule.atoms}
        default = self.rules.outputs or tuple(name for name in self.heads if name not in read)
        self.outputs = default if outputs is None else self._known_heads(outputs, "outputs")
        self.backend = select_backend(backend)
        self.threads = _positive("threads", threads, _processors())
        self.chunk_rows = _positive("chunk_rows", chunk_rows, CHUNK_ROWS)
        self.last_tick = TickReport()
        self.dictionaries = (Dictionary("string"), Dictionary("binary"))
        self._names = dict(names_of(self.rules))
        self.declared = {one.relation: one.columns for one in self.rules.declarations}
        self._lowering = Lowering(
            self.rules, self._arity, self.keep, self.outputs, bag, self.dictionaries, self._execution, merge_policy
        )
        self._lowered: Lowered | None = None
        self._evaluated: Lowered | None = None
        self._types = Types(self.rules)
        self._declare(schema or {})

    def __repr__(self) -> str:
        semantics = "bag" if self.bag else "set"
        return f"Program({', '.join(self.outputs)} from {', '.join(self.inputs)}; {semantics}, {self.backend.name})"

    def arity(self, relation: str) -> int:
        """Number of columns of a relation.

        Raises
        ------
        UnknownRelationError
            If the program has no such relation.
        """
        if relation not in self._arity:
            raise UnknownRelationError(relation, self._arity)
        return self._arity[relation]

    def step(self, changes: Mapping[str, Any]) -> dict[str, ZSet]:
        """Take one tick's changes of the inputs; return the changes of the outputs.

        Parameters
        ----------
        changes
            Per input relation, a `ZSet` (no order: the net weight of a row decides) or anything shaped as rows: an
            Arrow table or whatever has ``__arrow_c_stream__``, a dict of columns, a NumPy array, a list of tuples or
            of ``(tuple, weight)``. Rows are taken in order and the last operation on a row wins. A column ``weight``
            beyond the relation's own holds weights: above 0 inserts, below 0 deletes. In bag semantics weights add.

        Returns
        -------
        Per output, a `ZSet`: weight 1 for rows that came, -1 for rows that went; in bag semantics their weights.

        Raises
        ------
        GpuWcojError
            If anything is wrong with the changes. The state is as before, whatever is raised.
        """
        answers: dict[str, ZSet] = {}

        def take(found: Mapping[str, list[PhaseRows]]) -> None:
            for name, phases in found.items():
                answers[name] = self._as_zset(name, phases)

        self._tick(changes, frozenset(self.outputs), None, take)
        return {name: answers[name] if name in answers else self._empty(name) for name in self.outputs}

    def step_counts(self, changes: Mapping[str, Any]) -> dict[str, ChangeCount]:
        """As `step`, but only count: the last level of a join is never enumerated."""
        counts = self._tick(changes, frozenset(), None)
        return {name: counts.get(name, self._no_change()) for name in self.outputs}

    def step_pieces(self, changes: Mapping[str, Any], sink: Callable[[str, ZSet], None]) -> dict[str, ChangeCount]:
        """As `step`, but hand out the changes piece by piece, as ``sink(output, piece)``.

        Where an answer keeps every variable and has one rule, pieces come while the join runs, so memory is bounded
        by the state and one piece a level; elsewhere they come when the tick's answer is consolidated. Pieces of one
        output have no row in common. If `sink` raises, the tick is undone.
        """

        def hand_out(name: str, piece: Piece) -> None:
            sink(name, self._as_zset(name, [PhaseRows(piece.columns, piece.weights)], are_sorted=False))

        def rest(found: Mapping[str, list[PhaseRows]]) -> None:
            for name, phases in found.items():
                for phase in phases:
                    for begin in range(0, len(phase), self.chunk_rows):
                        cut = slice(begin, begin + self.chunk_rows)
                        weights = phase.weights if isinstance(phase.weights, int) else phase.weights[cut]
                        hand_out(name, Piece([column[cut] for column in phase.columns], weights))

        counts = self._tick(changes, frozenset(self.outputs), hand_out, rest)
        return {name: counts.get(name, self._no_change()) for name in self.outputs}

    def load(self, changes: Mapping[str, Any]) -> None:
        """As `step`, but do no more than the state needs: the answers' changes are not even counted.

        To start from a snapshot and follow what changes from there. Answers are complete all the same: `relation`
        joins them from the state.

        Examples
        --------
        >>> program = Program("path(a, b, c) :- edge(a, b), edge(b, c).")
        >>> program.load({"edge": [(1, 2), (2, 3)]})
        >>> program.step({"edge": [(3, 4)]})["path"].rows(), program.count("path")
        ([((2, 3, 4), 1)], 2)
        """
        self._tick(changes, None, None)

    def relation(self, name: str) -> ZSet:
        """All rows of a relation. A head that is neither kept nor read by a rule is joined afresh from the state.

        Raises
        ------
        UnknownRelationError
            If the program has no such relation.
        """
        self.arity(name)
        if self._lowered is None:
            return self._empty(name)
        columns, weights = self._lowered.circuit.whole(name)
        return self._as_zset(name, [PhaseRows(columns, weights)])

    def count(self, name: str) -> int:
        """Number of rows of a relation; in bag semantics the sum of their weights. Not enumerated where it can be."""
        self.arity(name)
        return 0 if self._lowered is None else self._lowered.circuit.total(name)

    def explain(self) -> str:
        """How the program runs: per rule its delta paths, per path each variable with its extenders.

        Examples
        --------
        >>> print(Program("path(a, c) :- edge(a, b), edge(b, c).").explain())
        backend cpu, set semantics
        <BLANKLINE>
        path   (derivations are counted: its rows are distinct)
          path(a, c) :- edge(a, b), edge(b, c).
            delta path 1: change of edge(a, b)
              c: look up edge(b, c) before, by edge[0, 1]
            delta path 2: change of edge(b, c)
              a: look up edge(a, b) after, by edge[1, 0]
        <BLANKLINE>
        arrangements
          edge[0, 1]
          edge[1, 0]
        """
        planned = self._lowered.plan if self._lowered else self._planned()
        return explain(planned, self._column_name, self.backend.name, "bag" if self.bag else "set")

    def compact(self) -> None:
        """Merge every arrangement into one batch; nothing that has cancelled is left. O(state)."""
        if self._lowered is not None:
            for index in self._lowered.circuit.indices():
                index.compact()

    @property
    def state_rows(self) -> dict[str, list[int]]:
        """Per arrangement, for people, the rows of its batches."""
        if self._lowered is None:
            return {}
        return {
            str(key): [len(batch) for batch in arrangement.accumulated()]
            for index in self._lowered.circuit.indices()
            for key, arrangement in index.arrangements.items()
        }

    @property
    def nbytes(self) -> int:
        """Bytes that the state's arrays take; dictionaries not counted."""
        return sum(index.nbytes for index in self._lowered.circuit.indices()) if self._lowered else 0

    # One tick.

    def _tick(
        self,
        changes: Mapping[str, Any],
        collect: frozenset[str] | None,
        sink: Callable[[str, Piece], None] | None,
        rest: Callable[[Mapping[str, list[PhaseRows]]], None] | None = None,
    ) -> dict[str, ChangeCount]:
        """Take a tick; the rows that did not go to `sink` go to `rest` while the tick can still be undone."""
        start = time.perf_counter()
        self._check_relations(changes)
        sizes = [len(dictionary) for dictionary in self.dictionaries]
        before = self._lowered, self._types, self._names, self.last_tick
        lowered = None
        try:
            incoming = {name: self._read(name, data) for name, data in changes.items()}
            if not any(len(rows) for rows in incoming.values()):
                if self._lowered is not None and all(rows.names == () for rows in incoming.values()):
                    incoming = {}
                if not incoming:
                    self.last_tick = TickReport(self.last_tick.tick + 1, time.perf_counter() - start)
                    return {}
            lowered = self._lowering.lowered_for(incoming, self._lowered, self._types, self.declared)
            self._evaluated = lowered
            circuit = lowered.circuit
            circuit.execution.threads = self.threads
            merged_before = _merged_rows((index, index.spines()) for index in circuit.indices())
            stored = {name: stored_columns(name, rows, lowered) for name, rows in incoming.items()}
            counts, found, ignored = circuit.evaluate(stored, collect, sink)
            if rest is not None:
                rest(found)
            prepared = circuit.prepare()
            names = {
                name: rows.names for name, rows in incoming.items() if rows.names and name not in self.declared
            } | self._names
            work = {
                name: {number: join.work for number, join in enumerate(head.joins)}
                for name, head in circuit.heads.items()
            }
            merged = _merged_rows(prepared) - merged_before
            report = TickReport(self.last_tick.tick + 1, time.perf_counter() - start, ignored, work, merged)
            with circuit.installed(prepared):
                self._lowered, self._types, self._names, self.last_tick = lowered, lowered.types, names, report
        except BaseException as error:
            raised: BaseException = self._undone(error)
            self._lowered, self._types, self._names, self.last_tick = before
            if lowered is not None:
                lowered.circuit.discard()
            for dictionary, size in zip(self.dictionaries, sizes, strict=True):
                dictionary.truncate(size)
            if raised is error:
                raise
            raise raised from error
        finally:
            self._evaluated = None
        return counts

    def _undone(self, error: BaseException) -> BaseException:
        """The error as the user shall see it."""
        if isinstance(error, WeightOverflowError) and isinstance(error.row, tuple):
            relation = str(error.relation)
            if relation in self._arity and all(isinstance(code, int) for code in error.row):
                columns = [np.array([code], np.int64) for code in error.row]
                row = self._as_zset(relation, [PhaseRows(columns, 1)]).rows()[0][0]
                return WeightOverflowError(relation, row, error.weight)
        if isinstance(error, MemoryError) and not isinstance(error, GpuWcojError):
            return MemoryBudgetError(
                f"the tick needs more memory than there is ({error}).\n"
                "  The tick was undone; the state is as before. Feed fewer rows a tick, or set a smaller chunk_rows."
            )
        return error

    def _check_relations(self, changes: Mapping[str, Any]) -> None:
        if not isinstance(changes, Mapping):
            raise UsageError(
                f"the changes are a {type(changes).__name__}; a mapping from input relations to rows is allowed."
            )
        for name in changes:
            if name in self.heads:
                raise SchemaError(
                    f"relation '{name}' is defined by rules and takes no rows.\n"
                    f"  The inputs are: {', '.join(self.inputs)}."
                )
            if name not in self.inputs:
                raise UnknownRelationError(name, self.inputs, "inputs")

    def _read(self, name: str, data: Any) -> Incoming:
        if isinstance(data, Incoming):
            return data
        arity = self._arity[name]
        known = self._lowered.kinds if self._lowered else self._types.snapshot()
        types = [known[name, column] for column in range(arity)]
        return read_change(name, data, arity, self.declared.get(name), types, self.dictionaries)

    def _planned(self) -> Plan:
        """The plan before any row has been seen."""
        return self._lowering.plan(self._types, self._lowering.shapes(None, {}, self._types), {})

    def _execution(self) -> Execution:
        def ranks(family: str) -> Int64Array:
            return self.dictionaries[0 if family == "string" else 1].rank()

        return Execution(self.backend, self.bag, self.chunk_rows, self.threads, ranks)

    def _declare(self, schema: Mapping[str, Sequence[str] | Mapping[str, str]]) -> None:
        for one in self.rules.declarations:
            kinds = [None if kind is None else DataType(kind) for kind in one.types]
            self._types.bind(one.relation, kinds, [f"{i} ('{name}')" for i, name in enumerate(one.columns)])
        for name, given in schema.items():
            if name not in self.inputs:
                raise UnknownRelationError(name, self.inputs, "inputs")
            if isinstance(given, Mapping):
                self.declared[name] = self._names[name] = tuple(given)
                given = list(given.values())
            if len(given) != self._arity[name]:
                raise SchemaError(
                    f"the schema gives relation '{name}' {len(given)} columns; the program uses {self._arity[name]}."
                )
            self._types.bind(name, [DataType(str(kind)) for kind in given])

    def _known_heads(self, names: Sequence[str], option: str) -> tuple[str, ...]:
        if isinstance(names, str):
            raise UsageError(f"{option}={names!r} is a text; a list of heads is allowed, as {option}=[{names!r}].")
        for name in names:
            if name not in self.heads:
                raise UnknownRelationError(name, self.heads, "heads")
        return tuple(dict.fromkeys(names))

    # Rows on their way out.

    def _no_change(self) -> ChangeCount:
        return ChangeCount(None, None, 0) if self.bag else ChangeCount(0, 0, 0)

    def _column_name(self, relation: str, column: int) -> str:
        names = self._names.get(relation)
        if names is not None and column < len(names) and relation not in self.heads:
            return names[column]
        return str(column) if column < self._arity[relation] else f"null flag {column - self._arity[relation]}"

    def _names_of(self, name: str) -> tuple[str, ...]:
        return self._names.get(name) or tuple(f"c{i}" for i in range(self._arity[name]))

    def _type_of(self, name: str, column: int) -> DataType:
        view = self._evaluated or self._lowered
        return (self._types if view is None else view.types).of(name, column) or INT64

    def _dictionary_of(self, kind: DataType) -> Dictionary | None:
        if not kind.has_dictionary:
            return None
        return self.dictionaries[0 if kind.family == "string" else 1]

    def _empty(self, name: str) -> ZSet:
        nothing = [np.empty(0, np.int64) for _ in range(self._arity[name])]
        return self._as_zset(name, [PhaseRows(nothing, 1)])

    def _as_zset(self, name: str, phases: Sequence[PhaseRows], are_sorted: bool = True) -> ZSet:
        """Stored columns of distinct rows, sorted within each phase, as a Z-set."""
        arity = self._arity[name]
        filled = [phase for phase in phases if len(phase)] or list(phases[:1])
        n_stored = len(filled[0].columns)
        stored = [np.concatenate([phase.columns[i] for phase in filled]) for i in range(n_stored)]
        weights = np.concatenate([one.weight_column() for one in filled])
        view = self._evaluated or self._lowered
        shape = view.shapes[name] if view is not None else Shape(name, (False,) * arity)
        columns = []
        for column in range(arity):
            kind = self._type_of(name, column)
            flag = shape.flag(column) if n_stored > arity else None
            valid = None if flag is None or not stored[flag].any() else stored[flag] == 0
            columns.append(Column(kind, stored[column], valid, self._dictionary_of(kind)))
        if are_sorted and len(filled) == 1 and n_stored == arity:
            return ZSet(self._names_of(name), tuple(columns), weights)
        return ZSet.from_columns(self._names_of(name), columns, weights)


def _processors() -> int:
    """Processors that this process may use, where the system tells; else all of them."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed is not None else os.cpu_count() or 1


def _positive(option: str, value: object, default: int) -> int:
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise UsageError(f"{option}={value!r} is not allowed; it must be a whole number of at least 1, or None.")
    return int(value)


def _merged_rows(state: Iterable[tuple[object, Mapping[ArrangementKey, Spine]]]) -> int:
    return sum(spine.merged_rows for _, spines in state for spine in spines.values())

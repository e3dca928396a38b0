"""Storing the state of a program as files, and loading it.

Of every relation that has state, only the rows in the relation's own column order are stored; its arrangements are
built again from them. What a tick has changed is one more run; `first_to_merge` decides when runs are merged.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gpu_wcoj.backend import cpu_backend
from gpu_wcoj.checkpoint.canonical import checksum
from gpu_wcoj.checkpoint.folder import Folder, NewFile
from gpu_wcoj.circuit.circuit import Circuit, CircuitState, InputChange
from gpu_wcoj.circuit.head import AuxiliaryHead
from gpu_wcoj.data.column import Dictionary
from gpu_wcoj.data.schema import DataType
from gpu_wcoj.engine.compile import CompiledProgram, Compiler, stored_columns
from gpu_wcoj.engine.options import ProgramOptions
from gpu_wcoj.engine.replicas import Backlog, Journal, Replicas
from gpu_wcoj.engine.state import State, Subject, TickReport, replan_after_load
from gpu_wcoj.errors import CheckpointDamagedError, CheckpointError, CheckpointMismatchError, counted
from gpu_wcoj.join.relation import RelationIndex
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.planner.types import Types
from gpu_wcoj.query.ir import Rules
from gpu_wcoj.query.printer import deserialize, serialize
from gpu_wcoj.trace.arrangement import ArrangementKey
from gpu_wcoj.trace.spine import Spine
from gpu_wcoj.user_functions import Function
from gpu_wcoj.zset.index import IndexedZSet

# Runs on the disk: immutable Parquet files of sorted rows or of dictionary values.
#
# Every page has a checksum, and so has the whole file; the latter is kept by whoever refers to the file.


GROUP_ROWS: Final = 1 << 20
"""Rows of a Parquet row group."""
_BUFFER: Final = 1 << 20
"""Bytes that are gathered before a write."""


@dataclass(frozen=True)
class Run:
    """A file of rows or values.

    Attributes
    ----------
    file
        Its name.
    rows, bytes, sha256
        How many rows it has, its size, and the checksum of all of it.
    first
        Of values of a dictionary, the code of the first one.
    """

    file: str
    rows: int
    bytes: int
    sha256: str
    first: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return vars(self)


class _Checked(io.RawIOBase):
    """A buffered sink for Parquet that computes the checksum."""

    def __init__(self, file: NewFile) -> None:
        super().__init__()
        self.size = 0
        self.hash = hashlib.sha256()
        self._file = file
        self._waiting: list[bytes] = []
        self._n_waiting = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.size

    def write(self, data: Any) -> int:
        piece = bytes(data)
        self.hash.update(piece)
        self.size += len(piece)
        self._waiting.append(piece)
        self._n_waiting += len(piece)
        if self._n_waiting >= _BUFFER:
            self.pour()
        return len(piece)

    def pour(self) -> None:
        """Write the buffered data."""
        waiting, self._waiting, self._n_waiting = b"".join(self._waiting), [], 0
        if waiting:
            self._file.write(waiting)


def write_rows(folder: Folder, name: str, columns: Sequence[Int64Array], weights: Int64Array) -> Run:
    """Write sorted distinct rows of a relation and force the file to the disk.

    Its name need not be on the disk yet.

    Weights are left out where all are 1.
    """
    named = {f"c{i}": column for i, column in enumerate(columns)}
    if not bool((weights == 1).all()):
        named["weight"] = weights
    return _write(folder, name, pa.table({key: pa.array(column) for key, column in named.items()}))


def read_rows(folder: Folder, run: Run, width: int) -> tuple[list[Int64Array], Int64Array]:
    """Return the columns and weights of a run.

    Raises
    ------
    CheckpointDamagedError
        If the file is not there, or is not what was written.
    """
    table = _read(folder, run)
    names = [f"c{i}" for i in range(width)]
    if table.column_names not in (names, [*names, "weight"]) or set(table.schema.types) - {pa.int64()}:
        raise CheckpointDamagedError(folder.shown(run.file), f"does not have {width} columns of int64")
    arrays: list[Int64Array] = [column.to_numpy() for column in table.columns]
    return arrays[:width], arrays[width] if len(arrays) > width else np.ones(run.rows, np.int64)


def write_values(folder: Folder, name: str, values: pa.Array, first: int) -> Run:
    """Write the values of a dictionary from the code `first` on."""
    return _write(folder, name, pa.table({"value": values}), first)


def read_values(folder: Folder, run: Run, kind: Literal["string", "binary"]) -> pa.ChunkedArray:
    """Return the values of a dictionary run; see `read_rows`."""
    table = _read(folder, run)
    expected = pa.schema([("value", pa.large_string() if kind == "string" else pa.large_binary())])
    if not table.schema.equals(expected):
        raise CheckpointDamagedError(folder.shown(run.file), f"does not hold {kind} values")
    return table.column(0)


def _write(folder: Folder, name: str, table: pa.Table, first: int = 0) -> Run:
    file = folder.create(name)
    try:
        sink = _Checked(file)
        numeric = [field.name for field in table.schema if field.type == pa.int64()]
        writer = pq.ParquetWriter(
            pa.PythonFile(sink, mode="w"),
            table.schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=False,
            column_encoding=dict.fromkeys(numeric, "DELTA_BINARY_PACKED") or None,
            write_page_checksum=True,
            write_statistics=False,
        )
        writer.write_table(table, row_group_size=GROUP_ROWS)
        writer.close()
        sink.pour()
        file.sync()
    finally:
        file.close()
    return Run(name, table.num_rows, sink.size, sink.hash.hexdigest(), first)


def checked_bytes(folder: Folder, file: str, sha256: str, size: int | None = None) -> bytes:
    """Return the bytes of a file.

    Raises
    ------
    CheckpointDamagedError
        If it is missing, or has another size or checksum.
    """
    path = folder.shown(file)
    try:
        data = folder.read(file)
    except FileNotFoundError:
        raise CheckpointDamagedError(path, "is missing") from None
    if size is not None and len(data) != size:
        raise CheckpointDamagedError(path, f"has {len(data):,} bytes, and was written with {size:,}")
    if checksum(data) != sha256:
        raise CheckpointDamagedError(path, "does not have the checksum that it was written with")
    return data


def _read(folder: Folder, run: Run) -> pa.Table:
    data, path = checked_bytes(folder, run.file, run.sha256, run.bytes), folder.shown(run.file)
    try:
        table = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True).read(use_threads=False)
    except (OSError, pa.ArrowException) as error:
        raise CheckpointDamagedError(path, f"cannot be read ({error})") from None
    if table.num_rows != run.rows:
        raise CheckpointDamagedError(path, f"has {counted(table.num_rows, 'row')}, and was written with {run.rows:,}")
    return table


# The merge policy of runs on the disk: few runs, and writes in proportion to changes.


MAX_RUNS = 16
"""Default maximum number of runs of one relation."""


def first_to_merge(sizes: Sequence[int], max_runs: int = MAX_RUNS) -> int:
    """Return the first of the runs to merge into one; ``len(sizes) - 1`` for no merge.

    Parameters
    ----------
    sizes
        Rows of the runs, the oldest first; the last is the change that is about to be written.
    max_runs
        More than this are not left; at least 2.

    Notes
    -----
    The oldest run is written again only once the others outgrow it, so a changed row pays for two rows of that at
    most. The others are merged when they are too many: at least half of them, and older ones as long as they are less
    than twice what has been gathered, so that a row is merged about log2(oldest / change) / log2(max_runs / 2) times.

    Examples
    --------
    >>> first_to_merge([1000, 10, 10]), first_to_merge([1000, 600, 600])
    (2, 0)
    >>> first_to_merge([1000, 80, 10, 10, 10], max_runs=4)
    2
    """
    newest = len(sizes) - 1
    if newest > 0 and sum(sizes[1:]) > sizes[0]:
        return 0
    if len(sizes) <= max_runs:
        return newest
    start, total = newest, sizes[newest]
    at_least = max(2, max_runs // 2)
    while start > 1 and (newest - start + 1 < at_least or sizes[start - 1] < 2 * total):
        start -= 1
        total += sizes[start]
    return start


Rows = tuple[Sequence[Int64Array], Int64Array]
"""Columns in the host's memory, and the weight of each row."""


@dataclass(frozen=True)
class StoredRuns:
    """The runs of one relation, whose sum are its rows, or of one dictionary.

    Attributes
    ----------
    content
        Of rows, the sum of weight times hash over all of them, modulo 2^64: whatever the runs, the same for the same
        rows. Of a dictionary, how many values it has.
    """

    runs: tuple[Run, ...] = ()
    content: int = 0

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> StoredRuns:
        """Return the object of a result of `to_json`."""
        return cls(tuple(Run(**run) for run in content["runs"]), int(content["content"]))

    def to_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"runs": [run.to_json() for run in self.runs], "content": self.content}


@dataclass(frozen=True)
class StoredState:
    """The complete state of a program: its files and the small parts beside them.

    Attributes
    ----------
    tick
        Number of the last tick, -1 before the first.
    types
        What inputs have shown of columns' types: relation, column, type.
    names
        What columns are called, by relation.
    nullable
        Which columns of a relation have a stored column of null flags; empty before the first rows.
    bounds
        By head, the largest weight that a row of a bag's answer can have.
    relations, dictionaries
        The runs, by what they hold.
    tells_zeros_apart
        Whether columns may hold -0.0; where it is not said, the state was written when every -0.0 became 0.0.
    pushed_down
        The program after push-down and projection, whose heads hold these rows; empty if these changed nothing.
    """

    tick: int
    types: tuple[tuple[str, int, str], ...]
    names: Mapping[str, tuple[str, ...]]
    nullable: Mapping[str, tuple[bool, ...]]
    bounds: Mapping[str, int]
    relations: Mapping[str, StoredRuns]
    dictionaries: Mapping[str, StoredRuns]
    tells_zeros_apart: bool = True
    pushed_down: str = ""

    @property
    def runs(self) -> list[Run]:
        """All files."""
        return [
            run
            for part in (self.relations, self.dictionaries)
            for stored_runs in part.values()
            for run in stored_runs.runs
        ]

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> StoredState:
        """Return the object of a result of `to_json`."""
        return cls(
            int(content["tick"]),
            tuple((str(relation), int(column), str(kind)) for relation, column, kind in content["types"]),
            {name: tuple(map(str, columns)) for name, columns in content["names"].items()},
            {name: tuple(map(bool, flags)) for name, flags in content["nullable"].items()},
            {name: int(bound) for name, bound in content["bounds"].items()},
            {name: StoredRuns.from_json(runs) for name, runs in content["relations"].items()},
            {name: StoredRuns.from_json(runs) for name, runs in content["dictionaries"].items()},
            bool(content.get("tells_zeros_apart", False)),
            str(content.get("pushed_down", "")),
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "tick": self.tick,
            "types": [list(entry) for entry in self.types],
            "names": {name: list(columns) for name, columns in self.names.items()},
            "nullable": {name: list(flags) for name, flags in self.nullable.items()},
            "bounds": dict(self.bounds),
            "relations": {name: runs.to_json() for name, runs in self.relations.items()},
            "dictionaries": {name: runs.to_json() for name, runs in self.dictionaries.items()},
            "tells_zeros_apart": self.tells_zeros_apart,
            **({"pushed_down": self.pushed_down} if self.pushed_down else {}),
        }


def indices_of(circuit: Circuit) -> dict[str, RelationIndex]:
    """Return the relations with state by a unique name, in the order of `Circuit.indices`."""
    indices = {f"input {name}": index for name, index in circuit.sources.items()}
    for name, head in circuit.heads.items():
        if head.derivations is not None:
            indices[f"derivations {name}"] = head.derivations
        if head.relation is not None:
            indices[f"{'auxiliary' if isinstance(head, AuxiliaryHead) else 'head'} {name}"] = head.relation
    return indices


def _is_stored(name: str) -> bool:
    """Return True if files hold it: auxiliary relations are joined again."""
    return not name.startswith("auxiliary ")


def store(
    subject: Subject,
    before: StoredState | None,
    folder: Folder,
    new_name: Callable[[], str],
    max_runs: int = MAX_RUNS,
) -> StoredState:
    """Write the changes of the journal since `before`, or the complete state without a journal.

    Files of `before` are used again; new ones get a name each. They are on the disk when this returns, their names
    need not be.
    """
    sides = subject.ledger.settle()
    state = subject.ledger.state
    changes = None if before is None else _changes(state)
    relations: dict[str, StoredRuns] = {}
    bounds: dict[str, int] = {}
    nullable: dict[str, tuple[bool, ...]] = {}
    if sides is not None:
        circuit = sides.ahead.circuit
        nullable = {name: shape.nullable for name, shape in sides.primary.lowered.shapes.items()}
        heads = {name: head for name, head in circuit.heads.items() if not isinstance(head, AuxiliaryHead)}
        bounds = {name: head.weight_bound for name, head in heads.items() if head.weight_bound}
        for position, (name, index) in enumerate(indices_of(circuit).items()):
            if not _is_stored(name):
                continue
            runs_before = None if before is None or changes is None else before.relations.get(name)
            if runs_before is None or changes is None:
                relations[name] = _write_whole(index, folder, new_name)
            else:
                change = _summed(changes, position, index)
                relations[name] = _write_change(runs_before, index, change, folder, new_name, max_runs)
    dictionaries: dict[str, StoredRuns] = {}
    for dictionary in subject.dictionaries:
        runs_before = StoredRuns() if before is None else before.dictionaries[dictionary.kind]
        dictionaries[dictionary.kind] = _write_growth(runs_before, dictionary, folder, new_name, max_runs)
    known_types = _types(state, sides)
    types = tuple((relation, column, kind.name) for relation, column, kind in known_types.bound_types())
    return StoredState(
        state.report.tick,
        types,
        dict(state.names),
        nullable,
        bounds,
        relations,
        dictionaries,
        known_types.tells_zeros_apart,
        _pushed_down(subject),
    )


def _pushed_down(subject: Subject) -> str:
    return "" if subject.lowering.written is None else str(subject.lowering.rules)


def _types(state: State, sides: Replicas | None) -> Types:
    return state.types if sides is None else sides.primary.lowered.types


def _changes(state: State) -> Backlog | None:
    """Return the changes in the journal; None if the complete state has to be written."""
    journal, sides = state.journal, state.sides
    if journal is None or (sides is not None and sides.primary.circuit is not journal.circuit):
        return None
    return journal.changes


def _summed(changes: Backlog, position: int, index: RelationIndex) -> Rows:
    """Return the change of one relation over all ticks of the journal, in host memory."""
    batches = [batch for tick in changes.ticks for batch in tick[position]]
    if not batches:
        return [np.empty(0, np.int64)] * index.width, np.empty(0, np.int64)
    places = [index.canonical.order.index(column) for column in range(index.width)]
    parts = []
    for batch in batches:
        columns, to_host = batch.columns(), batch.backend.to_host
        parts.append(([to_host(columns[place]) for place in places], to_host(batch.weight_column())))
    return _consolidated(parts)


def _merged(parts: Sequence[Rows]) -> Rows:
    """Return the sum of runs of sorted distinct rows by merging. O(n) per run that is read.

    Examples
    --------
    >>> one, two = (np.array([1, 3]), np.array([1, 1])), (np.array([2, 3]), np.array([1, -1]))
    >>> [column.tolist() for column in _merged([([rows], weights) for rows, weights in (one, two)])[0]]
    [[1, 2]]
    """
    runs = [part for part in parts if len(part[1])] or list(parts[:1])
    if len(runs) == 1:
        return runs[0]
    backend = cpu_backend()
    tries = [IndexedZSet.from_sorted(columns, weights, backend) for columns, weights in runs]
    while len(tries) > 1:
        newer, older = tries.pop(), tries.pop()
        tries.append(older.merge(newer))
    return tries[0].columns(), tries[0].weight_column()


def _consolidated(parts: Sequence[Rows]) -> Rows:
    columns = [np.concatenate(column) for column in zip(*(columns for columns, _ in parts), strict=True)]
    return cpu_backend().kernels.consolidate(columns, np.concatenate([weights for _, weights in parts]))


def _all_rows(index: RelationIndex) -> Rows:
    columns, weights = index.rows()
    return [index.backend.to_host(column) for column in columns], index.backend.to_host(weights)


def _content(rows: Rows) -> int:
    """See `StoredRuns.content`."""
    columns, weights = rows
    hashes = cpu_backend().kernels.hash_rows([np.ascontiguousarray(column) for column in columns])
    return int((hashes * weights.astype(np.uint64)).sum(dtype=np.uint64))


def _write_whole(index: RelationIndex, folder: Folder, new_name: Callable[[], str]) -> StoredRuns:
    rows = _all_rows(index)
    return StoredRuns((write_rows(folder, new_name(), *rows),) if len(rows[1]) else (), _content(rows))


def _write_change(
    before: StoredRuns, index: RelationIndex, change: Rows, folder: Folder, new_name: Callable[[], str], max_runs: int
) -> StoredRuns:
    if not len(change[1]):
        return before
    content = (before.content + _content(change)) % (1 << 64)
    sizes = [*(run.rows for run in before.runs), len(change[1])]
    start = first_to_merge(sizes, max_runs)
    rows = change
    if start == 0 and before.runs:
        rows = _all_rows(index)
    elif start < len(before.runs):
        rows = _merged([*(read_rows(folder, run, index.width) for run in before.runs[start:]), change])
    run = (write_rows(folder, new_name(), *rows),) if len(rows[1]) else ()
    return StoredRuns((*before.runs[:start], *run), content)


def _write_growth(
    before: StoredRuns, dictionary: Dictionary, folder: Folder, new_name: Callable[[], str], max_runs: int
) -> StoredRuns:
    size, grown = before.content, len(dictionary)
    if grown < size:
        raise CheckpointError(f"the dictionary of {dictionary.kind} values has shrunk from {size:,} to {grown:,}.")
    if grown == size:
        return before
    start = first_to_merge([*(run.rows for run in before.runs), grown - size], max_runs)
    first = before.runs[start].first if start < len(before.runs) else size
    values = dictionary.decode(np.arange(first, grown))
    return StoredRuns((*before.runs[:start], write_values(folder, new_name(), values, first)), grown)


SpinesOf = Callable[[Circuit], "Sequence[Mapping[ArrangementKey, Spine]] | None"]
"""A function that returns the spines of a circuit's relations, in their order; None if it has none that fit."""


def load(
    subject: Subject,
    stored: StoredState,
    folder: Folder,
    version: str,
    spines_of: SpinesOf | None = None,
) -> None:
    """Load the stored state into a program of the same definition that has not ticked yet.

    Parameters
    ----------
    spines_of
        Another source of the rows of the stored state. If it has none for the circuit, the rows are read.

    Raises
    ------
    CheckpointDamagedError
        If a file is missing or is not what was written. The program is as before then.
    CheckpointError
        If the program has ticked.
    """
    ledger, lowering = subject.ledger, subject.lowering
    if ledger.state.report.tick != -1 or ledger.state.sides is not None:
        raise CheckpointError("the program has a state already.\n  Restore into a program that has not ticked yet.")
    types = ledger.state.types.copy()
    if not stored.tells_zeros_apart:
        types.equate_zeros()
    types.bind_again((relation, column, DataType(kind)) for relation, column, kind in stored.types)
    sides = None
    is_same = stored.pushed_down == _pushed_down(subject)
    sizes = [len(dictionary) for dictionary in subject.dictionaries]
    try:
        for dictionary in subject.dictionaries:
            _load_values(dictionary, stored.dictionaries[dictionary.kind], folder)
        if stored.nullable:
            rows = {
                name.split(" ", 1)[1]: sum(run.rows for run in runs.runs)
                for name, runs in stored.relations.items()
                if not name.startswith("derivations")
            }
            lowered = lowering.compile_as(types, stored.nullable, rows)
            spines = None if spines_of is None or not is_same else spines_of(lowered.circuit)
            if spines is not None:
                _install(lowered.circuit, stored, spines)
            elif is_same:
                _load_relations(lowered.circuit, stored, folder)
            else:
                _load_inputs(lowered, lowering, stored, folder)
            types, sides = lowered.types, replan_after_load(Replicas.from_compiled(lowered), lowering)
    except BaseException:
        for dictionary, size in zip(subject.dictionaries, sizes, strict=True):
            dictionary.truncate(min(size, len(dictionary)))
        raise
    circuit = None if sides is None or not is_same else sides.primary.circuit  # without one, all is written again
    journal = Journal(version, circuit)
    ledger.replace_state(State(types, dict(stored.names), TickReport(stored.tick), sides, journal))


def catch_up(
    subject: Subject,
    before: StoredState,
    stored: StoredState,
    folder: Folder,
    version: str,
    spines_of: SpinesOf,
) -> bool:
    """Replace the state of a program, stored as `before`, by another one under the same plan.

    Returns
    -------
    False, and nothing has changed, if there are no spines for the circuit, or columns have other types.

    Raises
    ------
    CheckpointDamagedError
        If values of a dictionary are missing or are not what was written. The program is of no use then.
    """
    sides = subject.ledger.settle()
    state = subject.ledger.state
    if sides is None or sides.twin is not None or stored.pushed_down != _pushed_down(subject):
        return False
    if (before.types, before.nullable) != (stored.types, stored.nullable):
        return False
    circuit = sides.primary.circuit
    spines = spines_of(circuit)
    if spines is None:
        return False
    for dictionary in subject.dictionaries:
        present, wanted = before.dictionaries[dictionary.kind], stored.dictionaries[dictionary.kind]
        if present != wanted or len(dictionary) != present.content:
            is_prefix = len(dictionary) == present.content and wanted.runs[: len(present.runs)] == present.runs
            _load_values(dictionary, wanted, folder, present if is_prefix else StoredRuns())
    _install(circuit, stored, spines)
    replicas = Replicas(replace(sides.primary, circuit_state=circuit.snapshot()))
    journal = Journal(version, circuit)
    report = TickReport(stored.tick)
    subject.ledger.replace_state(State(state.types, dict(stored.names), report, replicas, journal))
    return True


def _install(circuit: Circuit, stored: StoredState, spines: Sequence[Mapping[ArrangementKey, Spine]]) -> None:
    bounds = [stored.bounds.get(name, 0) for name in circuit.heads]
    circuit.install(CircuitState(spines, bounds, [None] * len(bounds)))


def mark_stored(subject: Subject, version: str) -> None:
    """Start the program's journal again: the present state is stored as that version."""
    state = subject.ledger.state
    circuit = None if state.sides is None else state.sides.primary.circuit
    subject.ledger.replace_state(state._replace(journal=Journal(version, circuit)))


def _load_relations(circuit: Circuit, stored: StoredState, folder: Folder) -> None:
    indices = indices_of(circuit)
    if indices.keys() != stored.relations.keys():
        has, needs = sorted(stored.relations), sorted(indices)
        raise CheckpointError(f"the checkpoint has the state of {has}, and the program keeps that of {needs}.")
    for name, index in indices.items():
        rows = _read_relation(name, index, stored.relations[name], folder)
        if rows is not None and len(rows[1]):
            index.load(*rows)
    for name, bound in stored.bounds.items():
        circuit.heads[name].weight_bound = bound


def _load_inputs(lowered: CompiledProgram, lowering: Compiler, stored: StoredState, folder: Folder) -> None:
    """Load the rows of the inputs, and compute the heads: push-down differs."""
    circuit = lowered.circuit
    rows = {}
    for name, index in circuit.sources.items():
        stored_runs = stored.relations.get(f"input {name}", StoredRuns())
        found = _read_relation(f"input {name}", index, stored_runs, folder)
        if found is not None:
            rows[name] = found
    facts = lowering.facts({}, lowered.types)
    changes = {name: InputChange(columns, weights, False) for name, (columns, weights) in rows.items()}
    changes |= {
        name: stored_columns(name, fact, lowered)
        for name, fact in facts.items()
        if f"input {name}" not in stored.relations
    }
    circuit.evaluate(changes, None)
    circuit.install(circuit.prepare())


def _read_relation(name: str, index: RelationIndex, stored_runs: StoredRuns, folder: Folder) -> Rows | None:
    """Return the stored rows of a relation in the memory of its index; None if there are none."""
    if not stored_runs.runs:
        return None
    rows = _merged([read_rows(folder, run, index.width) for run in stored_runs.runs])
    if _content(rows) != stored_runs.content:
        file_names = ", ".join(run.file for run in stored_runs.runs)
        raise CheckpointDamagedError(folder.shown(file_names), f"together are not the rows of '{name}'")
    return [index.backend.asarray(column) for column in rows[0]], index.backend.asarray(rows[1])


def _load_values(
    dictionary: Dictionary, stored_runs: StoredRuns, folder: Folder, present: StoredRuns = StoredRuns()
) -> None:
    """Load the values of a dictionary, which has those of `present`, the first ones of the runs."""
    dictionary.truncate(present.content)
    for run in stored_runs.runs[len(present.runs) :]:
        if run.first != len(dictionary):
            raise CheckpointDamagedError(folder.shown(run.file), f"does not begin at value {len(dictionary):,}")
        codes = dictionary.encode(read_values(folder, run, dictionary.kind))
        if len(dictionary) != run.first + run.rows or bool((np.diff(codes) != 1).any()):
            raise CheckpointDamagedError(folder.shown(run.file), "has a value that was there before")
    if len(dictionary) != stored_runs.content:
        raise CheckpointError(f"the dictionary of {dictionary.kind} values is not whole: {len(dictionary):,} values.")


# The definition of a program in a checkpoint: the parts that give its state a meaning.


@dataclass(frozen=True, eq=False)
class Definition:
    """The definition of a program and the layout of its state.

    Attributes
    ----------
    text
        As it was given, to make the program from again.
    parts
        What is compared, each part with the name that messages give it.
    """

    text: str
    parts: Mapping[str, Any]

    @classmethod
    def from_subject(cls, subject: Subject, layout: str = "one") -> Definition:
        """Return the definition of a program."""
        rules, options = subject.lowering.core, subject.lowering.options
        parts = {
            "program": str(replace(rules, directives=rules.limits)),  # the files to read do not change its meaning
            "semantics": "bag" if options.bag else "set",
            "kept heads": list(options.keep),
            "outputs": list(options.outputs or ()),
            "schema": {name: _plain(columns) for name, columns in (options.schema or {}).items()},
            "layout": layout,
        }
        if rules.functions:
            parts["functions"] = [function.signature for function in rules.functions.values()]
        return cls(serialize(rules), parts)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Definition:
        """Return the definition in the result of `to_json`."""
        return cls(str(content["text"]), dict(content["parts"]))

    def to_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"text": self.text, "parts": dict(self.parts)}

    def rules(self, functions: Iterable[Function]) -> Rules:
        """Return the rules of the program, which may call these Python functions.

        Raises
        ------
        CheckpointError
            If the program calls a function that is not among them, or that has other types.
        """
        signatures = {function.name: function.signature for function in functions}
        for stored in self.parts.get("functions", ()):
            name = stored.partition("(")[0]
            if name not in signatures:
                raise CheckpointError.with_parts(
                    f"the program of the checkpoint calls the Python function {stored}, which a checkpoint does not "
                    "store",
                    subject=name, expected="a function of that name and these types",
                    remedy=f"Pass it: functions=[{name}].",
                )  # fmt: skip
            if signatures[name] != stored:
                raise CheckpointError.mismatch(
                    f"the Python function '{name}'", "has other types than in the checkpoint", signatures[name], stored
                )
        return deserialize(self.text, functions)

    def complete_options(self, options: ProgramOptions, rules: Rules) -> ProgramOptions:
        """Return options together with the stored ones, for a program of these rules."""
        schema = {
            name: dict(map(tuple, columns)) if columns and isinstance(columns[0], list) else columns
            for name, columns in self.parts["schema"].items()
        }
        return replace(
            options,
            bag=self.parts["semantics"] == "bag",
            keep=self.parts["kept heads"],
            outputs=self.parts["outputs"],
            schema=schema,
            inputs=rules.inputs,
        )

    def check(self, current: Definition, path: object) -> None:
        """Raise `CheckpointMismatchError` for the first part that differs."""
        for what in dict.fromkeys([*current.parts, *self.parts]):
            stored, current_part = self.parts.get(what), current.parts.get(what)
            if stored != current_part:
                raise CheckpointMismatchError(path, what, _format_part(stored), _format_part(current_part))


def _plain(columns: Sequence[str] | Mapping[str, str]) -> list[Any]:
    return list(map(list, columns.items())) if isinstance(columns, Mapping) else list(map(str, columns))


def _format_part(part: Any) -> str:
    text = part if isinstance(part, str) else json.dumps(part, ensure_ascii=False)
    return text if len(text) < 2000 else f"{text[:2000]}..."

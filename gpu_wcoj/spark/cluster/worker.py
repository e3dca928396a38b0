"""The work of a Spark task on the rows of its cell: one tick of the cell's engine."""

from __future__ import annotations

import base64
import contextlib
import gc
import io
import json
import os
import re
import time
import zipfile
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gpu_wcoj.checkpoint.canonical import checksum, opened, sealed
from gpu_wcoj.checkpoint.checkpoint import folder_at, read_newest
from gpu_wcoj.checkpoint.folder import Folder, NewFile, OsFolder, WatchedFolder, write_whole
from gpu_wcoj.checkpoint.manifest import Manifest, OutputFile
from gpu_wcoj.checkpoint.state import SpinesOf, StoredState, catch_up, load, mark_stored, store
from gpu_wcoj.data.rows import weight_name
from gpu_wcoj.destination import force_names
from gpu_wcoj.engine.compile import stored_columns
from gpu_wcoj.engine.ingest import read_change
from gpu_wcoj.engine.options import ProgramOptions
from gpu_wcoj.errors import (
    BatchMismatchError,
    CheckpointDamagedError,
    CheckpointError,
    GpuWcojError,
    WeightOverflowError,
)
from gpu_wcoj.files.output import folder_of
from gpu_wcoj.program import Program
from gpu_wcoj.spark.cluster.exchange import FIRST
from gpu_wcoj.spark.cluster.images import Images
from gpu_wcoj.spark.cluster.parcels import (
    BODY,
    CELL,
    DIGEST,
    IS_WEIGHTED,
    MASK,
    NOTE,
    REL,
    STAGE,
    Router,
    as_rows,
    batch_of_task,
    note_parcel,
    report_of,
    sum_digests,
)
from gpu_wcoj.spark.cluster.plan import Result, Stage
from gpu_wcoj.spark.motifs import Packing
from gpu_wcoj.spark.output import AnswerFiles, Listing, SparkFile, ToCallable, with_batch
from gpu_wcoj.spark.sources import ORDER, WEIGHT, as_change
from gpu_wcoj.zset.zset import ZSet

# The state of a cell: a program, in files that an entry in a manifest lists.
#
# All cells of a checkpoint keep their files in its folder ``cells``: runs as in any checkpoint, and for each version
# one small sealed file that lists them. Files of an attempt count only after a manifest names that file. Small files of
# a batch that the driver runs are members of one archive, which the driver writes.


CELLS = "cells"
"""The folder of cells within a checkpoint, and the key of the cells' entries in a manifest."""

_OURS = re.compile(r"[a-z]+-(\d{12})-\d{3}-\d{5}-[0-9a-f]{16}-\d{6}\.(?:parquet|json)")

_ARCHIVE = re.compile(r"archive-(\d{12})-\d{6}-[0-9a-f]{8}\.zip")

MAX_ARCHIVED = 1 << 18
"""Bytes of a file in an archive: what a cell returns to the driver takes a few milliseconds. Larger files are forced to
the disk by their cells, each in 3 to 4 ms on the machine of two cores that the ticks were measured on."""

MAX_OLD_STATES = 8
"""States of earlier batches that a worker keeps in memory, to catch up when it gets the tasks of their cells again."""

MAX_CHECKPOINTS = 4
"""Checkpoints whose engines a worker keeps in memory."""


@dataclass(frozen=True)
class Entry:
    """The entry of one cell in one stage: the sealed file that lists its runs, and its checksum."""

    file: str
    sha256: str

    @classmethod
    def from_manifest(cls, manifest: Manifest | None, stage: int, cell: int) -> Entry | None:
        """Return the entry in a manifest; None if the cell has no state."""
        return entries_in(manifest).get((stage, cell))


Entries = Mapping[tuple[int, int], Entry]
"""The entries of cells by stage and cell; cells without state have none."""


def entries_in(manifest: Manifest | None) -> dict[tuple[int, int], Entry]:
    """Return the entries of all cells in a manifest."""
    contents = {} if manifest is None else manifest.extra.get(CELLS, {})
    keys = ((name.partition("/"), Entry(*content)) for name, content in contents.items())
    return {(int(stage), int(cell)): entry for (stage, _, cell), entry in keys}


@dataclass(eq=False)
class CellState:
    """A program in the state of an entry, with the images of this cell on this machine."""

    program: Program
    stored: StoredState | None
    entry: Entry | None
    images: Images | None


_cache: OrderedDict[str, dict[tuple[int, int], CellState]] = OrderedDict()
"""Engines in this worker's memory, by checkpoint, stage and cell. An engine is removed while it is in use."""


def stage_program(stage: Stage, bag: bool, options: ProgramOptions) -> Program:
    """Return the program of a cell in a stage, without state."""
    is_bag = bag or stage.is_bag or stage.kind == "owner"
    options = replace(options.without_relations(), bag=is_bag, inputs=stage.program.inputs)
    program = Program.from_options(stage.program, options)
    program.subject.ledger.state.types.equate_zeros(stage.equated)
    return program


def base_of(root: str, batch: int) -> tuple[Manifest, bool]:
    """Return the newest manifest of a checkpoint, and whether it contains the batch.

    Raises
    ------
    BatchMismatchError
        If the batch does not follow it.
    """
    newest, _ = read_newest(WatchedFolder(folder_at(root)))
    if newest.last is not None and batch > newest.batch + 1:
        raise BatchMismatchError(
            f"the batch does not follow the checkpoint '{root}': got {batch}, expected {newest.batch + 1}.\n"
            "  Batches in between are lost. Begin a new checkpoint, or restore both checkpoints from one copy."
        )
    return newest, newest.last is not None and batch <= newest.batch


def acquire_state(root: str, stage: int, cell: int, entry: Entry | None, make: Callable[[], Program]) -> CellState:
    """Return the program of a cell in an entry's state: from memory, its image, or its files."""
    states = _cache.get(root, {})
    state = states.pop((stage, cell), None)
    if state is not None and state.entry == entry:
        return state
    if entry is None:
        return CellState(make(), None, None, Images.of_cell(root, stage, cell))
    folder = cells_folder(root)
    stored = read_entry(folder, entry)
    images = Images.of_cell(root, stage, cell) if state is None else state.images
    spines = spines_of(images, entry)
    if state is not None and state.stored is not None:
        program = state.program
        if catch_up(program.subject, state.stored, stored, folder, entry.file, spines):
            return CellState(program, stored, entry, images)
    if state is not None:
        gc.unfreeze()  # see `as_task`
    program = make()
    load(program.subject, stored, folder, entry.file, spines)
    return CellState(program, stored, entry, images)


def spines_of(images: Images | None, entry: Entry) -> SpinesOf:
    """Return the function that maps the image of an entry, if there is one."""
    return lambda circuit: None if images is None else images.spines(circuit, entry.file, _batch(entry.file))


def cached_program(root: str, stage: int, cell: int, entry: Entry) -> Program | None:
    """Return the program of a cell in the state of an entry, if in memory; for reading only."""
    state = _cache.get(root, {}).get((stage, cell))
    return state.program if state is not None and state.entry == entry else None


def cache_state(root: str, stage: int, cell: int, state: CellState, bases: Entries, batch: int) -> None:
    """Keep an engine in memory for the batch after this one, and drop what is out of date.

    `bases` are the entries of all cells before this batch.
    """
    states = _cache.setdefault(root, {})
    _cache.move_to_end(root)
    while len(_cache) > MAX_CHECKPOINTS:
        _cache.popitem(last=False)
        gc.unfreeze()  # see `as_task`
    old_states = [
        key
        for key, cached in states.items()
        if cached.entry is not None and cached.entry != bases.get(key) and _batch(cached.entry.file) < batch
    ]
    for key in old_states[:-MAX_OLD_STATES] if state.program.backend.device is None else old_states:
        del states[key]
        gc.unfreeze()
    states[stage, cell] = state
    if state.images is not None and state.entry is not None:
        needed = [entry.file for entry in (bases.get((stage, cell)), state.entry) if entry is not None]
        state.images.tidy({name: _batch(name) for name in needed}, batch - 1)


def write_state(
    root: str, batch: int, stage: int, cell: int, state: CellState, archive: str = ""
) -> tuple[CellState, int, dict[str, bytes]]:
    """Write the part of a cell's state that is new since its entry, and force it to disk.

    Returns
    -------
    The program with its new entry, the bytes of its runs, and the files that are left to the writer of the archive.
    """
    files = CellFolder(root)
    folder = WatchedFolder(files)
    folder.prepare()
    attempt = os.urandom(8).hex()
    sequence = 0

    def new_name(kind: str = "run", ending: str = "parquet") -> str:
        nonlocal sequence
        sequence += 1
        name = f"{kind}-{batch + 1:012}-{stage:03}-{cell:05}-{attempt}-{sequence:06}.{ending}"
        return f"{archive}/{name}" if archive else name

    stored = store(state.program.subject, state.stored, folder, new_name)
    data = sealed({"state": stored.to_json()})
    name = new_name("state", "json")
    write_whole(folder.create(name), data)
    folder.sync()
    mark_stored(state.program.subject, name)
    if state.images is not None:
        state.images.save(state.program, name, batch)
    after = CellState(state.program, stored, Entry(name, checksum(data)), state.images)
    return after, sum(run.bytes for run in stored.runs), files.archived


def bytes_since(before: StoredState | None, after: StoredState | None) -> int:
    """Return the bytes of runs that are in `after` and not in `before`."""
    stored_files = set() if before is None else {run.file for run in before.runs}
    return 0 if after is None else sum(run.bytes for run in after.runs if run.file not in stored_files)


def read_entry(folder: Folder, entry: Entry) -> StoredState:
    """Return the list of runs of an entry.

    Raises
    ------
    CheckpointDamagedError
        If the file is missing or its checksum differs.
    """
    path = folder.shown(entry.file)
    try:
        data = folder.read(entry.file)
    except FileNotFoundError:
        raise CheckpointDamagedError(path, "is missing") from None
    if checksum(data) != entry.sha256:
        raise CheckpointDamagedError(path, "does not have the checksum that it was written with")
    return StoredState.from_json(opened(data, path)["state"])


class CellFolder(OsFolder):
    """The files of a checkpoint's cells; ``ARCHIVE/FILE`` is the name of a file in an archive.

    Attributes
    ----------
    archived
        New files for an archive, which are small.
    """

    def __init__(self, root: str) -> None:
        super().__init__(Path(root) / CELLS)
        self.archived: dict[str, bytes] = {}
        self._has_new_names = False

    def create(self, name: str) -> NewFile:
        """See `Folder.create`."""
        archive, _, file = name.rpartition("/")
        if archive:
            return _ArchivedFile(self, file)
        self._has_new_names = True
        return super().create(file)

    def sync(self) -> None:
        """See `Folder.sync`."""
        if self._has_new_names:
            super().sync()

    def read(self, name: str) -> bytes:
        """See `Folder.read`."""
        archive, _, file = name.rpartition("/")
        if archive:
            try:
                with zipfile.ZipFile(self.path / archive) as files:
                    return files.read(file)
            except (FileNotFoundError, KeyError):
                pass  # it was too large
            except (zipfile.BadZipFile, zlib.error) as error:
                raise CheckpointDamagedError(self.shown(name), f"cannot be read ({error})") from None
        return super().read(file)


class _ArchivedFile:
    """A new file for an archive, or one of the folder if it is large."""

    def __init__(self, folder: CellFolder, name: str) -> None:
        self._folder = folder
        self._name = name
        self._data = bytearray()
        self._file: NewFile | None = None

    def write(self, data: bytes) -> None:
        """See `NewFile.write`."""
        self._data += data
        if len(self._data) > MAX_ARCHIVED or self._file is not None:
            self._file = self._file or self._folder.create(self._name)
            self._file.write(bytes(self._data))
            self._data.clear()

    def sync(self) -> None:
        """See `NewFile.sync`."""
        if self._file is None:
            self._folder.archived[self._name] = bytes(self._data)
        else:
            self._file.sync()

    def close(self) -> None:
        """See `NewFile.close`."""
        if self._file is not None:
            self._file.close()


def cells_folder(root: str) -> WatchedFolder:
    """Return the folder of a checkpoint's cells."""
    return WatchedFolder(CellFolder(root))


def new_archive(batch: int, fence: int) -> str:
    """Return the name of the archive of one attempt at a batch."""
    return f"archive-{batch + 1:012}-{fence:06}-{os.urandom(4).hex()}.zip"


def write_archive(root: str, name: str, files: Mapping[str, bytes]) -> None:
    """Write an archive of files of cells into their folder, and force it to disk."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for file, content in files.items():
            archive.writestr(file, content)
    folder = cells_folder(root)
    folder.prepare()
    write_whole(folder.create(name), data.getvalue())
    folder.sync()


class Tidying:
    """Removal of files of cells that no retained version needs."""

    def __init__(self, root: str) -> None:
        self._folder = cells_folder(root)
        self._files: dict[Entry, set[str]] = {}

    def __call__(self, manifests: list[Manifest]) -> None:
        """Remove files, except those that these manifests need or later batches are writing."""
        entries = {entry for manifest in manifests for entry in entries_in(manifest).values()}
        self._files = {entry: self._files.get(entry) or self._files_of(entry) for entry in entries}
        needed = set().union(*self._files.values()) if self._files else set()
        newest_batch = manifests[-1].batch
        with contextlib.suppress(GpuWcojError):
            for name in self._folder.names():
                if name not in needed and -1 <= _batch(name) <= newest_batch:
                    self._folder.remove(name)

    def _files_of(self, entry: Entry) -> set[str]:
        """Return the names of an entry's files, and those of their archives."""
        names = entry.file, *(run.file for run in read_entry(self._folder, entry).runs)
        return {part for name in names for part in name.split("/")}


def _batch(name: str) -> int:
    """Return the batch in which a file was written; -2 for files that are not those of cells."""
    match = _OURS.fullmatch(name.rpartition("/")[2]) or _ARCHIVE.fullmatch(name)
    return -2 if match is None else int(match[1]) - 1


def as_json(entries: Entries) -> dict[str, Any]:
    """Return entries by stage and cell, in the form of a manifest."""
    return {f"{stage}/{cell}": [entry.file, entry.sha256] for (stage, cell), entry in sorted(entries.items())}


# Derivation counts in owner cells, and the rows that appear or vanish.


def apply_derivations(program: Program, changes: Mapping[str, ZSet], is_bag: bool) -> dict[str, ZSet]:
    """Apply changes of derivation counts and return the rows that appear (1) or vanish (-1).

    In bag semantics, the result is the summed changes. `program` is a program over bags whose rules only rename; its
    inputs hold the derivation counts.
    """
    result = program.step(changes)
    if is_bag:
        return result
    return {name: _crossing(program, name, rows) if len(rows) else rows for name, rows in result.items()}


def _crossing(program: Program, name: str, rows: ZSet) -> ZSet:
    """Return the rows whose derivation count becomes positive or ceases to be so."""
    program.subject.ledger.settle()  # a small tick leaves its rows in memtables
    lowered = program.subject.ledger.lowered
    assert lowered is not None
    source = f"in{name.removeprefix('out')}"
    types = [lowered.kinds[source, column] for column in range(len(rows.columns))]
    incoming = read_change(source, rows, len(rows.columns), None, types, program.dictionaries)
    columns = stored_columns(source, incoming, lowered).columns
    index = lowered.circuit.sources[source]
    backend = index.backend
    after = backend.to_host(index.weights_of([backend.asarray(column) for column in columns]))
    before = after - rows.weights
    if (after < 0).any():
        row = int(np.flatnonzero(after < 0)[0])
        raise CheckpointError(
            f"row {rows.rows()[row][0]} would have {int(after[row])} derivations: the changes do not fit the state.\n"
            "  The batch is not committed. Begin a new checkpoint from the inputs, and report this."
        )
    sign = (after > 0).astype(np.int64) - (before > 0).astype(np.int64)
    return ZSet.from_columns(rows.names, rows.columns, sign)


def sum_rows(table: Any, width: int) -> Any:
    """Sum the weights of equal rows over the first `width` columns of an Arrow table.

    Rows of weight 0 are left out.
    """
    import pyarrow.compute as pc

    weight = table.column_names[-1]
    names = table.column_names[:width]
    selected = table.select([*names, weight])
    if not selected.num_rows:
        return selected
    weights = selected[weight].to_numpy()
    if max(int(weights.max()), -int(weights.min())) * len(weights) >= 1 << 63:
        raise WeightOverflowError("of a cell", "of some derivations", None)
    total = selected.group_by(names, use_threads=False).aggregate([(weight, "sum")])
    total = total.select([*names, f"{weight}_sum"]).rename_columns([*names, weight])
    return total.filter(pc.not_equal(total[weight], 0))


# Destinations of the changes that cells write: files that a manifest lists, or a sink.
#
# Only the driver knows which files belong to a batch. It lists them after the batch is committed. For a function or
# another Spark format, it passes their rows on before the commit, as a view with one engine does, and removes the files
# afterwards.


class Handing(Protocol):
    """A destination of the files that cells write."""

    @property
    def place(self) -> str:
        """The folder in which cells write files; empty if they only count."""
        ...

    @property
    def is_listed(self) -> bool:
        """True if the manifest lists the files."""
        ...

    def open(self, checkpoint: str, fence: int, last_manifest: Manifest | None) -> None:
        """Prepare to follow a checkpoint."""
        ...

    def hand_on(self, files: Sequence[OutputFile], batch: int) -> None:
        """Pass on the files of a batch; called before its commit."""
        ...

    def publish(self, manifest: Manifest) -> None:
        """Make a batch visible; called after its commit, and again if the batch is repeated."""
        ...


class NoFiles:
    """Changes that are counted only."""

    place = ""
    is_listed = False

    def open(self, checkpoint: str, fence: int, last_manifest: Manifest | None) -> None:
        """See `Handing.open`."""

    def hand_on(self, files: Sequence[OutputFile], batch: int) -> None:
        """See `Handing.hand_on`."""

    def publish(self, manifest: Manifest) -> None:
        """See `Handing.publish`."""


class Listed:
    """Files that are themselves the output."""

    is_listed = True

    def __init__(self, folder: Path) -> None:
        self._listing = Listing(folder)
        self.place = str(folder)

    def open(self, checkpoint: str, fence: int, last_manifest: Manifest | None) -> None:  # noqa: ARG002  # as `Handing` asks
        """See `Handing.open`."""
        self._listing.resume(checkpoint, last_manifest)

    def hand_on(self, files: Sequence[OutputFile], batch: int) -> None:
        """See `Handing.hand_on`."""

    def publish(self, manifest: Manifest) -> None:
        """See `Handing.publish`."""
        self._listing.publish(manifest)


class HandedOn:
    """Intermediate files whose rows go to a function or a Spark writer.

    Parameters
    ----------
    folder
        Folder of the files, which contains nothing else.
    sink
        Receives the rows. After a crash it may receive the last batch again.
    heads
        Per output, its columns.
    """

    is_listed = False

    def __init__(self, folder: Path, sink: ToCallable, heads: Mapping[str, pa.Schema]) -> None:
        self._folder = folder
        self._sink = sink
        self._heads = heads
        self.place = str(folder)

    def open(self, checkpoint: str, fence: int, last_manifest: Manifest | None) -> None:
        """Open the sink and remove files of earlier attempts; see `Handing.open`."""
        self._sink.open(checkpoint, fence, last_manifest)
        self._clear()

    def hand_on(self, files: Sequence[OutputFile], batch: int) -> None:
        """See `Handing.hand_on`."""
        files_of_head: dict[str, list[Path]] = {name: [] for name in self._heads}
        for file in files:
            files_of_head[file.path.split("/", 1)[0]].append(self._folder / file.path)
        self._sink.deliver_files(
            files_of_head, {name: change_schema(schema) for name, schema in self._heads.items()}, batch
        )

    def publish(self, manifest: Manifest) -> None:  # noqa: ARG002  # as `Handing` asks
        """See `Handing.publish`."""
        self._clear()

    def _clear(self) -> None:
        for path in self._folder.glob("*/*.parquet"):
            path.unlink(missing_ok=True)


def change_schema(head: pa.Schema) -> pa.Schema:
    """Return the columns of a head's changes: its columns and the weight."""
    return head.append(pa.field(weight_name(head.names), pa.int64()))


def as_listed(head: pa.Schema) -> pa.Table:
    """Return an empty table with the columns of a head's files."""
    return with_batch(change_schema(head).empty_table(), 0)


# Parquet files of changes of one attempt of one cell, in the folder layout of all views.


def write_output(place: str, head: str, rows: pa.Table, batch: int, stage: int, cell: int) -> list[Any]:
    """Write the changes of one head to disk; return path below `place`, rows, bytes, checksum."""
    when = "load" if batch < 0 else f"batch-{batch:012}"
    name = f"{when}-{stage:03}-{cell:05}-{os.urandom(8).hex()}.parquet"
    folder = folder_of(Path(place), head)
    is_new = not folder.is_dir()
    file = SparkFile(folder / name)
    try:
        file.add(rows)
        written = file.finish()
        force_names(folder)
        if is_new:
            force_names(folder.parent)
    except BaseException:
        file.discard()
        raise
    return [f"{head}/{name}", *written]


Watch = Callable[[str, int, int, int], None]
"""A function that is called with a point of a cell's work, stage, cell and batch. Tests use it to make a task fail
there."""


Arrival = tuple[int, int, pa.RecordBatch]
"""The relation of rows, the mask of their roles in a cell, and the rows."""


@dataclass(frozen=True, eq=False)
class Work:
    """All data that a task needs, sent to it once.

    Attributes
    ----------
    stage
        The stage that the cells run.
    is_last
        Whether it is the last stage, which returns notes only.
    routers
        Per relation of the plan, its columns and the routes of its rows.
    slots
        Per relation, the slots of its columns in rows that expressions have routed.
    heads
        Per head, the columns of its rows.
    bag
        Whether the program has bag semantics.
    options
        Options of the cells' programs; by default each has the threads of its task.
    root
        The checkpoint's folder, which every machine sees under this path; empty without a checkpoint.
    output
        The folder for the answers' changes; empty if they are only counted.
    cells
        Number of cells, if each works on its share of all changes; else 0.
    batch, query
        The batch's id and its query's, if they are not those of the stream that the task runs for.
    bases
        The initial states; None for those of the newest manifest, which each task reads.
    archive
        The archive that the driver writes from small files of the cells; empty if they write all files.
    is_answer
        Whether the changes are a complete answer: written without the batch, and as sets without weights.
    packing
        The columns of the files, if the answers are matches of a motif.
    """

    stage: Stage
    is_last: bool
    routers: Mapping[int, Router]
    slots: Sequence[Mapping[str, str]]
    heads: Mapping[str, pa.Schema]
    bag: bool
    options: ProgramOptions
    root: str = ""
    output: str = ""
    cells: int = 0
    batch: int | None = None
    query: str = ""
    bases: Entries | None = None
    archive: str = ""
    is_answer: bool = False
    packing: Packing | None = None
    watch: Watch | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the cells of a partition; the function of ``mapInArrow``."""
        self._select_device()
        batch, query = batch_of_task(self.batch, self.query)
        bases, is_done = self.bases, False
        if self.root and bases is None:
            manifest, is_done = base_of(self.root, batch)
            bases = entries_in(manifest)
        arrivals: dict[int, list[Arrival]] = {}
        rows, digest = 0, 0
        for record_batch in batches:
            if BODY not in record_batch.schema.names:
                rows += pc.sum(record_batch[FIRST]).as_py() or 0
                digest += sum_digests(record_batch[DIGEST])
                yield from self._sort_rows(record_batch, arrivals, is_done)
                continue
            for note in record_batch[NOTE].drop_null().to_pylist():
                yield self._note(note)
            here = pc.equal(record_batch[STAGE], self.stage.index)
            if not is_done:
                self._add_parcels(record_batch, arrivals)
                onward = record_batch.filter(pc.fill_null(pc.invert(here), False))
                if onward.num_rows:
                    yield onward
        if rows:
            yield self._note(report_of(rows, digest, batch, query))
        for cell in sorted(arrivals):
            yield from self._cell(cell, arrivals.pop(cell), batch, bases)

    def _add_parcels(self, parcels: pa.RecordBatch, arrivals: dict[int, list[Arrival]]) -> None:
        """Add the parcels for this stage."""
        names = STAGE, CELL, REL, MASK, IS_WEIGHTED
        for i, (stage, cell, relation, mask, is_weighted) in enumerate(
            zip(*(parcels[name].to_pylist() for name in names), strict=True)
        ):
            if stage == self.stage.index:
                rows = self.routers[relation].opened(is_weighted, parcels[BODY][i].as_buffer())
                arrivals.setdefault(cell, []).append((relation, mask, rows))

    def _sort_rows(
        self, routed: pa.RecordBatch, arrivals: dict[int, list[Arrival]], is_done: bool
    ) -> Iterator[pa.RecordBatch]:
        """Add the rows for this stage that expressions have routed, and yield the others as parcels."""
        names = [STAGE, CELL, REL, MASK]
        table = pa.Table.from_batches([routed]).append_column("row", pa.array(np.arange(routed.num_rows)))
        groups = table.group_by(names, use_threads=False).aggregate([("row", "list")]) if not is_done else table[:0]
        for group in groups.to_pylist():
            stage, cell, relation, mask = (group[name] for name in names)
            router = self.routers[relation]
            rows = as_rows(router, routed.take(pa.array(group["row_list"])), self.slots[relation])
            if stage == self.stage.index:
                arrivals.setdefault(cell, []).append((relation, mask, rows))
            else:
                yield from router.packed(stage, cell, mask, rows)

    def _cell(
        self, cell: int, arrivals: Sequence[Arrival], batch: int, bases: Entries | None
    ) -> Iterator[pa.RecordBatch]:
        """Run the tick of one cell; `bases` is None without a checkpoint."""
        start = time.perf_counter()
        stage_index = self.stage.index
        if bases is None:
            state = CellState(self._program(cell), None, None, None)
        else:
            base = bases.get((stage_index, cell))
            state = acquire_state(self.root, stage_index, cell, base, lambda: self._program(cell))
        base_name = None if state.entry is None else state.entry.file
        loaded = time.perf_counter()
        self._call_watch("before the tick", cell, batch)
        n_rows = sum(rows.num_rows for _, _, rows in arrivals)
        changes = self._changes(arrivals)
        if state.entry is None:  # the types of all columns, also of roles without rows so far
            changes = self._no_rows() | changes
        if self.is_answer and self.output and self._only_answers:
            tables, counts, outputs, repeats = self._answer(state.program, changes)
            ticked = time.perf_counter()
        else:
            tables, counts = self._tick(state.program, changes)
            ticked = time.perf_counter()
            outputs, repeats = [], False
            for head in counts if self.output else ():
                changed_rows = pa.concat_tables(
                    [tables[result.name] for result in self.stage.results if result.head == head]
                )
                repeats |= bool((_weights(changed_rows) != 1).any())
                outputs.append(self._write(head, changed_rows, batch, cell))
        put = time.perf_counter()
        self._call_watch("before the state is written", cell, batch)
        nbytes, new_bytes, files = 0, 0, dict[str, bytes]()
        if bases is not None:
            before = state.stored
            state, nbytes, files = write_state(self.root, batch, stage_index, cell, state, self.archive)
            new_bytes = bytes_since(before, state.stored)
        self._call_watch("after the state is written", cell, batch)
        if bases is not None:
            cache_state(self.root, stage_index, cell, state, bases, batch)
        for result in self.stage.results:
            for target in result.goes_to:
                table = tables[result.name]
                router = self.routers[target]
                names = [field.name for field in router.schema]
                for rows in table.rename_columns([*names, WEIGHT]).combine_chunks().to_batches():
                    yield from router.parcels(as_rows(router, rows, dict(zip(names, names, strict=True))))
        entry = None if state.entry is None else [state.entry.file, state.entry.sha256]
        yield self._note(
            json.dumps(
                {
                    "stage": stage_index, "cell": cell, "base": base_name, "entry": entry, "rows": n_rows,
                    "held": rows_by_role(state.program), "bytes": nbytes, "written": new_bytes, "counts": counts,
                    "outputs": outputs, "repeats": repeats,
                    "files": {name: base64.b64encode(data).decode() for name, data in files.items()},
                    "seconds": {
                        "load": loaded - start, "tick": ticked - loaded, "output": put - ticked,
                        "state": time.perf_counter() - put,
                    },
                }
            )
        )  # fmt: skip

    @property
    def _only_answers(self) -> bool:
        """True for joins whose rows are all final."""
        results = self.stage.results
        return self.stage.kind == "join" and all(
            result.is_output and not result.goes_to and not result.is_summed for result in results
        )

    def _answer(
        self, program: Program, changes: Mapping[str, Any]
    ) -> tuple[dict[str, pa.Table], dict[str, list[int | None]], list[Any], bool]:
        """Write the rows of all results while the join lists them.

        Return no tables, the counts, the files, and whether a row has another weight than 1.
        """
        results = {result.name: result for result in self.stage.results}
        threads = program.threads
        files = {
            result.head: AnswerFiles(Path(self.output), result.head, self.bag, threads) for result in results.values()
        }
        counts: dict[str, list[int | None]] = {}

        def write(name: str, piece: ZSet) -> None:
            result = results[name]
            names = self.heads[result.head].names
            files[result.head].add(self._table(result, piece).rename_columns([*names, weight_name(names)]))

        try:
            for name, change in program.step_pieces(changes, write, in_order=False).items():
                head, changed = results[name].head, [change.inserted, change.deleted, change.net]
                counts[head] = add_counts(counts[head], changed) if head in counts else changed
            outputs = [[path] for answer in files.values() for path in answer.finish()]
        except BaseException:
            for answer in files.values():
                answer.discard()
            raise
        return {}, counts, outputs, any(answer.repeats for answer in files.values())

    def _tick(
        self, program: Program, changes: Mapping[str, Any]
    ) -> tuple[dict[str, pa.Table], dict[str, list[int | None]]]:
        """Return the rows of each result, and the inserted, deleted and net rows of each output."""
        heads = dict.fromkeys(result.head for result in self.stage.results if result.is_output)
        counts: dict[str, list[int | None]] = {}
        if self.stage.kind == "join" and not self.output and not any(result.goes_to for result in self.stage.results):
            for name, change in program.step_counts(changes).items():
                head = next(result.head for result in self.stage.results if result.name == name)
                if head in heads and (change.net or change.inserted):
                    change_counts = [change.inserted, change.deleted, change.net]
                    counts[head] = add_counts(counts[head], change_counts) if head in counts else change_counts
            return {}, counts
        rows_of = apply_derivations(program, changes, self.bag) if self.stage.kind == "owner" else program.step(changes)
        tables = {result.name: self._table(result, rows_of[result.name]) for result in self.stage.results}
        for head in heads:
            weights = np.concatenate(
                [_weights(tables[result.name]) for result in self.stage.results if result.head == head]
            )
            if len(weights):
                net = int(weights.sum())
                signs = (None, None) if self.bag else (int((weights > 0).sum()), int((weights < 0).sum()))
                counts[head] = [*signs, net]
        return tables, counts

    def _write(self, head: str, rows: pa.Table, batch: int, cell: int) -> list[Any]:
        """Write changes of a head with the names of its columns."""
        names = self.heads[head].names
        rows = rows.rename_columns([*names, weight_name(names)])
        rows = rows if self.packing is None else self.packing.pack(rows)
        if self.is_answer and not self.bag:
            rows = rows.select(range(len(names)))
        return write_output(self.output, head, rows if self.is_answer else with_batch(rows, batch), batch,
                            self.stage.index, cell)  # fmt: skip

    def _changes(self, arrivals: Sequence[Arrival]) -> dict[str, ZSet | pa.Table]:
        """Return the rows of each role."""
        changes: dict[str, ZSet | pa.Table] = {}
        for relation in dict.fromkeys(self.stage.roles):
            router = self.routers[relation]
            for bit, role in enumerate(self.stage.roles_of(relation)):
                parts = [rows for other, mask, rows in arrivals if other == relation and mask >> bit & 1]
                if not parts:
                    continue
                if any(WEIGHT in rows.schema.names for rows in parts):
                    parts = [_weighted(rows, router) for rows in parts]
                table = pa.Table.from_batches(parts)
                moments = [name for name in router.schema.names if name.startswith("o")]
                if all(table[name].null_count == table.num_rows for name in moments):
                    table = table.drop_columns(moments)  # it is a table in no order
                names = [f"{ORDER}{name[1:]}" if name in moments else name for name in table.column_names]
                table = table.rename_columns(names)
                changes[f"in{role}"] = as_change(table) if WEIGHT in names else table
        return changes

    def _no_rows(self) -> dict[str, ZSet | pa.Table]:
        """Return a table without rows for each role."""
        schemas = (self.routers[relation].schema for relation in self.stage.roles)
        return {
            f"in{role}": pa.schema([column for column in schema if column.name.startswith("c")]).empty_table()
            for role, schema in enumerate(schemas)
        }

    def _table(self, result: Result, rows: ZSet) -> pa.Table:
        """Return the rows of a result in the types of its head, weights last."""
        schema = self.heads[result.head]
        names = [*(f"c{i}" for i in range(result.width)), WEIGHT]
        if not len(rows):
            empty = pa.schema(list(schema)[: result.width]).append(pa.field(WEIGHT, pa.int64())).empty_table()
            return empty.rename_columns(names)
        table = rows.with_weight_name(WEIGHT).to_arrow()
        table = sum_rows(table, result.width) if result.is_summed else table
        columns = [
            column.cast(column_field.type)
            for column, column_field in zip(table.columns[: result.width], schema, strict=False)
        ]
        return pa.table([*columns, table.columns[-1]], names=names)

    def _program(self, cell: int) -> Program:
        """Return a new engine for a cell."""
        options = replace(self.options, threads=self.options.threads or _cpus())
        program = stage_program(self.stage, self.bag, options)
        if self.stage.shares_work:
            program.share_work(cell, self.cells)
        return program

    def _note(self, text: str) -> pa.RecordBatch:
        if not self.is_last:
            return note_parcel(text, self.routers[0].keys[0])
        return pa.RecordBatch.from_arrays([pa.array([text], pa.string())], names=[NOTE])

    def _call_watch(self, point: str, cell: int, batch: int) -> None:
        if self.watch is not None:
            self.watch(point, self.stage.index, cell, batch)

    @staticmethod
    def _select_device() -> None:
        """Select the task's device before CUDA is loaded in this process; Spark forked it without."""
        from pyspark import TaskContext

        context = TaskContext.get()
        addresses = None if context is None else context.resources().get("gpu")
        if addresses is not None:
            os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(addresses.addresses)


def _weighted(rows: pa.RecordBatch, router: Router) -> pa.RecordBatch:
    """Return rows with their weights."""
    if WEIGHT in rows.schema.names:
        return rows
    ones = pa.array(np.ones(rows.num_rows, np.int64))
    return pa.RecordBatch.from_arrays([*rows.columns, ones], schema=router.weighted_schema)


def add_counts(left: Sequence[int | None], right: Sequence[int | None]) -> list[int | None]:
    """Return the sums of row counts; None where one of them is None."""
    return [None if a is None or b is None else a + b for a, b in zip(left, right, strict=True)]


def rows_by_role(program: Program) -> dict[str, int]:
    """Return the rows of each role of a cell's program."""
    lowered = program.subject.ledger.lowered
    return {} if lowered is None else {name: len(index) for name, index in lowered.circuit.sources.items()}


def _weights(table: pa.Table) -> Any:
    return table[table.num_columns - 1].to_numpy()


def _cpus() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return 1 if context is None else max(1, context.cpus())

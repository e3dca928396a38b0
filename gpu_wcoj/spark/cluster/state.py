"""The state of a cell: a program, in files that an entry in a manifest lists.

All cells of a checkpoint keep their files in its folder ``cells``: runs as in any checkpoint, and for each version one
small sealed file that lists them. Files of an attempt count only after a manifest names that file. Small files of a
batch that the driver runs are members of one archive, which the driver writes. A worker keeps the engines of its last
tasks in memory.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import re
import zipfile
import zlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_wcoj.checkpoint.canonical import checksum, opened, sealed
from gpu_wcoj.checkpoint.checkpoint import folder_at, read_newest
from gpu_wcoj.checkpoint.folder import Folder, NewFile, OsFolder, WatchedFolder, write_whole
from gpu_wcoj.checkpoint.manifest import Manifest
from gpu_wcoj.checkpoint.state import SpinesOf, StoredState, catch_up, checked_bytes, load, mark_stored, store
from gpu_wcoj.errors import BatchMismatchError, CheckpointDamagedError, GpuWcojError
from gpu_wcoj.program import Program
from gpu_wcoj.spark.cluster.images import Images

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
    data = checked_bytes(folder, entry.file, entry.sha256)
    return StoredState.from_json(opened(data, folder.shown(entry.file))["state"])


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

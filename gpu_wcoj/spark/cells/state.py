"""The state of a cell: a program, in files that an entry in a manifest lists.

All cells of a checkpoint keep their files in its folder ``cells``: runs as in any checkpoint, and for each version one
small sealed file that lists them. Files of an attempt count only after a manifest names that file.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_wcoj.checkpoint.canonical import checksum, opened, sealed
from gpu_wcoj.checkpoint.folder import Folder, OsFolder, write_whole
from gpu_wcoj.checkpoint.manifest import Manifest
from gpu_wcoj.checkpoint.reading import folder_at, read_newest
from gpu_wcoj.checkpoint.state import StoredState, load, mark_stored, store
from gpu_wcoj.checkpoint.watched import WatchedFolder
from gpu_wcoj.errors import BatchMismatchError, CheckpointDamagedError, GpuWcojError
from gpu_wcoj.program import Program
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.spark.cluster.plan import Stage

CELLS = "cells"
"""The folder of cells within a checkpoint, and the key of the cells' entries in a manifest."""

_OURS = re.compile(r"[a-z]+-(\d{12})-\d{3}-\d{5}-[0-9a-f]{16}-\d{6}\.(?:parquet|json)")

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
        if manifest is None:
            return None
        content = manifest.extra.get(CELLS, {}).get(f"{stage}/{cell}")
        return None if content is None else cls(*content)


@dataclass(eq=False)
class CellState:
    """A program in the state of an entry."""

    program: Program
    stored: StoredState | None
    entry: Entry | None


_cache: OrderedDict[str, dict[tuple[int, int], CellState]] = OrderedDict()
"""Engines in this worker's memory, by checkpoint, stage and cell. An engine is removed while it is in use."""


def stage_program(stage: Stage, bag: bool, **options: Any) -> Program:
    """Return the program of a cell in a stage, without state."""
    rules = parse(stage.program)
    program = Program(rules, bag=bag or stage.kind == "owner", inputs=rules.inputs, **options)
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
    """Return the program of a cell in the state of an entry, from memory or from its files."""
    states = _cache.get(root, {})
    state = states.pop((stage, cell), None)
    if state is not None and state.entry == entry:
        return state
    program = make()
    if entry is None:
        return CellState(program, None, None)
    folder = cells_folder(root)
    stored = read_entry(folder, entry)
    load(program.subject, stored, folder, entry.file)
    return CellState(program, stored, entry)


def cached_program(root: str, stage: int, cell: int, entry: Entry) -> Program | None:
    """Return the program of a cell in the state of an entry, if in memory; for reading only."""
    state = _cache.get(root, {}).get((stage, cell))
    return state.program if state is not None and state.entry == entry else None


def cache_state(root: str, stage: int, cell: int, state: CellState, manifest: Manifest) -> None:
    """Keep an engine in memory for the next batch, and drop engines that are out of date."""
    states = _cache.setdefault(root, {})
    _cache.move_to_end(root)
    while len(_cache) > MAX_CHECKPOINTS:
        _cache.popitem(last=False)
    for (other_stage, other_cell), cached in list(states.items()):
        old = Entry.from_manifest(manifest, other_stage, other_cell)
        if cached.entry != old and cached.entry is not None and _batch(cached.entry.file) <= manifest.batch:
            del states[other_stage, other_cell]
    states[stage, cell] = state


def write_state(root: str, batch: int, stage: int, cell: int, state: CellState) -> tuple[CellState, int]:
    """Write the part of a cell's state that is new since its entry, and force it to disk.

    Returns
    -------
    The program with its new entry, and the bytes of its runs.
    """
    folder = cells_folder(root)
    folder.prepare()
    attempt = os.urandom(8).hex()
    sequence = 0

    def new_name(kind: str = "run", ending: str = "parquet") -> str:
        nonlocal sequence
        sequence += 1
        return f"{kind}-{batch + 1:012}-{stage:03}-{cell:05}-{attempt}-{sequence:06}.{ending}"

    stored = store(state.program.subject, state.stored, folder, new_name)
    data = sealed({"state": stored.to_json()})
    name = new_name("state", "json")
    write_whole(folder.create(name), data)
    folder.sync()
    mark_stored(state.program.subject, name)
    return CellState(state.program, stored, Entry(name, checksum(data))), sum(run.bytes for run in stored.runs)


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


def cells_folder(root: str) -> WatchedFolder:
    """Return the folder of a checkpoint's cells."""
    return WatchedFolder(OsFolder(Path(root) / CELLS))


class Tidying:
    """Removal of files of cells that no retained version needs."""

    def __init__(self, root: str) -> None:
        self._folder = cells_folder(root)
        self._files: dict[Entry, set[str]] = {}

    def __call__(self, manifests: list[Manifest]) -> None:
        """Remove files, except those that these manifests need or later batches are writing."""
        entries = {Entry(*content) for manifest in manifests for content in manifest.extra.get(CELLS, {}).values()}
        self._files = {entry: self._files.get(entry) or self._files_of(entry) for entry in entries}
        needed = set().union(*self._files.values()) if self._files else set()
        newest_batch = manifests[-1].batch
        with contextlib.suppress(GpuWcojError):
            for name in self._folder.names():
                if _OURS.fullmatch(name) and name not in needed and _batch(name) <= newest_batch:
                    self._folder.remove(name)

    def _files_of(self, entry: Entry) -> set[str]:
        return {entry.file, *(run.file for run in read_entry(self._folder, entry).runs)}


def _batch(name: str) -> int:
    """Return the batch in which a file was written."""
    match = _OURS.fullmatch(name)
    return -1 if match is None else int(match[1]) - 1


def as_json(entries: Mapping[tuple[int, int], Entry]) -> dict[str, Any]:
    """Return entries by stage and cell, in the form of a manifest."""
    return {f"{stage}/{cell}": [entry.file, entry.sha256] for (stage, cell), entry in sorted(entries.items())}

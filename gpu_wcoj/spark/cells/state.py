"""The state of a cell: a program, in files that no two attempts share, found by the entry that a manifest has of it.

All cells of a checkpoint keep their files in its folder ``cells``: runs as in any checkpoint, and per version one small
sealed file that lists them. Whatever an attempt writes counts only once a manifest names that file.
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
from gpu_wcoj.checkpoint.stored import StoredState, load, mark_stored, store
from gpu_wcoj.checkpoint.watched import WatchedFolder
from gpu_wcoj.errors import BatchMismatchError, CheckpointDamagedError, GpuWcojError
from gpu_wcoj.program import Program
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.spark.cells.plan import Stage

CELLS = "cells"
"""The folder in the checkpoint's, and what a manifest calls the entries of the cells."""

_OURS = re.compile(r"[a-z]+-(\d{12})-\d{3}-\d{5}-[0-9a-f]{16}-\d{6}\.(?:parquet|json)")

MAX_CHECKPOINTS = 4
"""A worker keeps engines of so many checkpoints."""


@dataclass(frozen=True)
class Entry:
    """What a manifest has of one cell in one stage: the sealed file that lists its runs, and its checksum."""

    file: str
    sha256: str

    @classmethod
    def from_manifest(cls, manifest: Manifest | None, stage: int, cell: int) -> Entry | None:
        """The entry in a manifest; None if the cell has no state."""
        if manifest is None:
            return None
        content = manifest.extra.get(CELLS, {}).get(f"{stage}/{cell}")
        return None if content is None else cls(*content)


@dataclass(eq=False)
class CellState:
    """A program in the state that an entry stands for."""

    program: Program
    stored: StoredState | None
    entry: Entry | None


_cache: OrderedDict[str, dict[tuple[int, int], CellState]] = OrderedDict()
"""Engines that this worker has at hand, by checkpoint, stage and cell. One is taken out while it is worked on."""


def stage_program(stage: Stage, bag: bool, **options: Any) -> Program:
    """Return the program of a cell in a stage, without state."""
    rules = parse(stage.program)
    program = Program(rules, bag=bag or stage.kind == "owner", inputs=rules.inputs, **options)
    program.subject.ledger.state.types.equate_zeros(stage.equated)
    return program


def base_of(root: str, batch: int) -> tuple[Manifest, bool]:
    """The newest manifest of a checkpoint, and whether the batch is in it already.

    Raises
    ------
    BatchMismatchError
        If the batch is not the one after it.
    """
    newest, _ = read_newest(WatchedFolder(folder_at(root)))
    if newest.last is not None and batch > newest.batch + 1:
        raise BatchMismatchError(
            f"the last batch of the checkpoint '{root}' is {newest.batch}, and what runs is batch {batch}.\n"
            f"  The next one must be {newest.batch + 1}: batches in between have been lost."
        )
    return newest, newest.last is not None and batch <= newest.batch


def acquire_state(root: str, stage: int, cell: int, entry: Entry | None, make: Callable[[], Program]) -> CellState:
    """The program of a cell in the state of an entry: the one at hand if it is in that state, else loaded."""
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
    """The program of a cell in the state of an entry, to be read, if this worker has it; it stays where it is."""
    state = _cache.get(root, {}).get((stage, cell))
    return state.program if state is not None and state.entry == entry else None


def cache_state(root: str, stage: int, cell: int, state: CellState, manifest: Manifest) -> None:
    """Keep an engine at hand for the next batch; those that no manifest can ask for any more are dropped."""
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
    """Write what a cell's state has that its entry has not; the files are on the disk when this returns.

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
    """Bytes of the runs that a state has and the one before it has not."""
    stored_files = set() if before is None else {run.file for run in before.runs}
    return 0 if after is None else sum(run.bytes for run in after.runs if run.file not in stored_files)


def read_entry(folder: Folder, entry: Entry) -> StoredState:
    """The list of runs that an entry stands for.

    Raises
    ------
    CheckpointDamagedError
        If the file is missing or is not what was written.
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
    """Where the cells of a checkpoint keep their files."""
    return WatchedFolder(OsFolder(Path(root) / CELLS))


class Tidying:
    """Removes files of cells that no kept version needs."""

    def __init__(self, root: str) -> None:
        self._folder = cells_folder(root)
        self._files: dict[Entry, set[str]] = {}

    def __call__(self, manifests: list[Manifest]) -> None:
        """Leave what these manifests need, and what later batches are writing."""
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
    """The batch that a file was written in."""
    match = _OURS.fullmatch(name)
    return -1 if match is None else int(match[1]) - 1


def as_json(entries: Mapping[tuple[int, int], Entry]) -> dict[str, Any]:
    """Entries by stage and cell, as a manifest keeps them."""
    return {f"{stage}/{cell}": [entry.file, entry.sha256] for (stage, cell), entry in sorted(entries.items())}

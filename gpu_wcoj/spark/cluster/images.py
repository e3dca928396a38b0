"""Images of cells' states on a local disk, which any worker of the machine maps.

An *image* is one index file for an entry of a manifest. It names, per arrangement, the batches of its spine: arrays in
files that hold what one task has made. Batches never change, so a tick writes its own batches only, and the workers of
a machine share the page cache. Images are a copy: a checkpoint does not need them, and without one, or after an error
of the disk, the state is loaded from the checkpoint.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from gpu_wcoj.checkpoint.state import indices_of
from gpu_wcoj.circuit.circuit import Circuit
from gpu_wcoj.join.relation import RelationIndex
from gpu_wcoj.program import Program
from gpu_wcoj.trace.arrangement import Arrangement, ArrangementKey
from gpu_wcoj.trace.spine import Spine
from gpu_wcoj.zset.index import IndexedZSet

UNUSED_SECONDS: Final = 24 * 3600
"""Seconds after which the images of a checkpoint that no task has used are removed by tasks of others."""
_ALIGNED: Final = 64
"""Bytes to a multiple of which arrays are aligned in a file: a cache line."""
_OURS: Final = re.compile(r"(image|batches)-(-?\d+)-(\d+-\d+)-.*")

Place = tuple[str, str, int, int]
"""The file of an array, its type, the offset in bytes, and its length."""


@dataclass(eq=False)
class Images:
    """The images of one cell in one stage.

    Attributes
    ----------
    folder
        The folder of the checkpoint's images on this machine.
    cell
        Stage and cell.
    """

    folder: Path
    cell: str
    _files: dict[int, tuple[IndexedZSet, list[list[Place | None]]]] = field(default_factory=dict)

    @classmethod
    def of_cell(cls, root: str, stage: int, cell: int) -> Images | None:
        """Return the images of a cell of a checkpoint; None if there is no folder for them here."""
        with contextlib.suppress(OSError):
            return cls(_folder_of(root), f"{stage}-{cell}")
        return None

    def save(self, program: Program, name: str, batch: int) -> None:
        """Write what is new since the last image of this object, and the index for an entry.

        Nothing is written for a program on a GPU.
        """
        circuit = _circuit(program)
        if circuit is None:
            return
        data = f"batches-{batch}-{self.cell}-{os.urandom(8).hex()}"
        places: dict[int, tuple[IndexedZSet, list[list[Place | None]]]] = {}
        image: dict[str, dict[str, Any]] = {}
        try:
            with _Arrays(self.folder / data) as arrays:
                for relation, index in indices_of(circuit).items():
                    image[relation] = {}
                    for key, spine in index.spines().items():
                        for rows in spine.batches:
                            if id(rows) not in places:
                                places[id(rows)] = self._files.get(id(rows)) or (rows, arrays.add(rows))
                        image[relation][str(key)] = [places[id(rows)][1] for rows in spine.batches]
            temporary = self.folder / f"{data}.new"
            temporary.write_text(json.dumps(image))
            temporary.rename(self._index(name, batch))
            self._files = places
        except OSError:
            with contextlib.suppress(OSError):
                (self.folder / data).unlink()

    def spines(self, circuit: Circuit, name: str, batch: int) -> list[dict[ArrangementKey, Spine]] | None:
        """Map the image of an entry as the spines of a circuit; None if there is none that fits."""
        try:
            image = json.loads(self._index(name, batch).read_text())
            os.utime(self.folder)
            indices = indices_of(circuit)
            if image.keys() != indices.keys() or not _is_plain(circuit):
                return None
            opened = _Mapped(self.folder, {json.dumps(places): rows for rows, places in self._files.values()})
            spines = [
                {
                    key: Spine(
                        tuple(opened.batch(places, arrangement) for places in image[relation][str(key)]),
                        arrangement.spine.policy,
                    )
                    for key, arrangement in index.arrangements.items()
                }
                for relation, index in indices.items()
            ]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        self._files = {id(rows): (rows, json.loads(text)) for text, rows in opened.batches.items()}
        return spines

    def tidy(self, entries: Mapping[str, int], before: int) -> None:
        """Remove images and arrays of batches up to `before`, except those that some images need.

        Parameters
        ----------
        entries
            Names of entries with their batches.
        """
        with contextlib.suppress(OSError, ValueError):
            needed = {self._index(name, batch).name for name, batch in entries.items()}
            needed |= {place[0] for _, places in self._files.values() for part in places for place in part if place}
            for name in list(needed):
                with contextlib.suppress(FileNotFoundError):
                    if name.startswith("image-"):
                        needed |= set(re.findall(r'"(batches-[^"]*)"', (self.folder / name).read_text()))
            for name in os.listdir(self.folder):
                match = _OURS.fullmatch(name)
                if match and match[3] == self.cell and int(match[2]) <= before and name not in needed:
                    (self.folder / name).unlink(missing_ok=True)

    def _index(self, name: str, batch: int) -> Path:
        return self.folder / f"image-{batch}-{self.cell}-{name.rpartition('/')[2]}"


class _Mapped:
    """Files of arrays, mapped when an array of theirs is first used.

    Parameters
    ----------
    folder
        The folder of the files.
    present
        Batches that are mapped already, by their places as text.
    """

    def __init__(self, folder: Path, present: Mapping[str, IndexedZSet]) -> None:
        self._folder = folder
        self._present = present
        self._files: dict[str, npt.NDArray[np.uint8]] = {}
        self.batches: dict[str, IndexedZSet] = {}

    def batch(self, places: Sequence[Sequence[Place | None]], arrangement: Arrangement) -> IndexedZSet:
        """Return the batch at these places."""
        text = json.dumps(places)
        rows = self.batches.get(text) or self._present.get(text)
        if rows is None or rows.backend is not arrangement.backend:
            values, offsets, weights = places
            rows = IndexedZSet(
                [self._array(place) for place in values if place is not None],
                [self._array(place) for place in offsets if place is not None],
                None if weights[0] is None else self._array(weights[0]),
                arrangement.backend,
            )
        self.batches[text] = rows
        return rows

    def _array(self, place: Place) -> npt.NDArray[Any]:
        name, kind, offset, length = place
        if name not in self._files:  # private pages: what is mapped is never written to the file
            self._files[name] = np.memmap(self._folder / name, np.uint8, "c").view(np.ndarray)
        size = np.dtype(kind).itemsize * length
        if offset + size > len(self._files[name]):
            raise ValueError(name)
        return self._files[name][offset : offset + size].view(kind)


class _Arrays:
    """A file of aligned arrays, made when the first one is added."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, rows: IndexedZSet) -> list[list[Place | None]]:
        """Write the arrays of a trie; return their places: values, offsets and weights."""
        weights = [None if rows.weights is None else self._add(rows.weights)]
        return [[self._add(level) for level in rows.values], [self._add(level) for level in rows.offsets], weights]

    def _add(self, array: npt.NDArray[Any]) -> Place:
        if self._file is None:
            self._file = self._path.open("xb")
        offset = self._file.tell()
        self._file.write(np.ascontiguousarray(array).data)
        self._file.write(b"\0" * (-self._file.tell() % _ALIGNED))
        return self._path.name, array.dtype.str, offset, len(array)


def _circuit(program: Program) -> Circuit | None:
    """Return the circuit of a program with a state in the memory of the host."""
    sides = program.subject.ledger.settle()
    if sides is None or not _is_plain(sides.ahead.circuit):
        return None
    return sides.ahead.circuit


def _is_plain(circuit: Circuit) -> bool:
    """Return whether all state is in arrangements of the host's memory."""
    return all(
        type(index) is RelationIndex
        and index.backend.device is None
        and all(type(arrangement) is Arrangement for arrangement in index.arrangements.values())
        for index in indices_of(circuit).values()
    )


def _folder_of(root: str) -> Path:
    """Return the private folder for a checkpoint's images since this machine was started."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    started = boot.read_text().strip() if boot.exists() else ""
    user = os.getuid() if hasattr(os, "getuid") else 0
    above = Path(tempfile.gettempdir()) / f"gpu_wcoj-cells-{user}"
    above.mkdir(mode=0o700, exist_ok=True)
    status = above.lstat()
    if status.st_uid != user or status.st_mode & 0o077:
        raise PermissionError(above)
    folder = above / hashlib.sha256(f"{root}\n{started}".encode()).hexdigest()[:32]
    if not folder.exists():
        folder.mkdir(exist_ok=True)
        for other in above.iterdir():
            with contextlib.suppress(OSError):
                if time.time() - other.stat().st_mtime > UNUSED_SECONDS:
                    shutil.rmtree(other)
    return folder

"""The list of committed batches in a folder of outputs: one small sealed file a batch.

``FOLDER/RELATION/*.parquet`` hold the changes, under names that no two attempts share. Only files that
``FOLDER/_batches`` lists count. A list file is written from the checkpoint's manifest, after it: the manifest is the
commit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from gpu_wcoj.checkpoint.canonical import opened, sealed
from gpu_wcoj.checkpoint.folder import OsFolder, write_whole
from gpu_wcoj.checkpoint.manifest import Manifest
from gpu_wcoj.errors import CheckpointDamagedError, CheckpointMismatchError, UsageError

BATCHES = "_batches"
_NAME = re.compile(r"batch-(-1|\d{12})\.json")
_OURS = re.compile(r"(?:load|batch-\d{12})-(?:\d{6}-\d+|\d{3}-\d{5,}-[0-9a-f]{16})\.parquet")
"""File names of attempts, of one engine or of a cell; all other files belong to someone else."""


class Listing:
    """The list of committed batches of one folder."""

    def __init__(self, folder: Path) -> None:
        self.path = folder
        self._folder = OsFolder(folder / BATCHES)

    def batches(self) -> list[int]:
        """Return the ids of the listed batches, ascending.

        Raises
        ------
        CheckpointDamagedError
            If one is missing between others.
        """
        batches = sorted(int(match[1]) for match in map(_NAME.fullmatch, self._folder.names()) if match)
        for batch, following in pairwise(batches):
            if following != batch + 1:
                raise CheckpointDamagedError(self._folder.shown(_name(batch + 1)), "is missing")
        return batches

    def read(self, batch: int) -> dict[str, Any]:
        """Return a listed batch: checkpoint, batch, files, and the columns of the relations."""
        try:
            data = self._folder.read(_name(batch))
        except FileNotFoundError:
            raise CheckpointDamagedError(self._folder.shown(_name(batch)), "is missing") from None
        return opened(data, self._folder.shown(_name(batch)))

    def publish(self, manifest: Manifest) -> None:
        """List the last batch of a manifest if it is not listed yet; atomic."""
        content = {
            "checkpoint": manifest.checkpoint,
            "batch": manifest.batch,
            "files": [[file.path, file.rows, file.bytes, file.sha256] for file in manifest.outputs],
            "relations": manifest.extra.get("relations", {}),
        }
        temporary = f"tmp-{manifest.fence:06}-{manifest.batch}"
        self._folder.remove(temporary)
        write_whole(self._folder.create(temporary), sealed(content))
        try:
            self._folder.publish(temporary, _name(manifest.batch))
        except FileExistsError:
            if self.read(manifest.batch) != content:
                raise CheckpointMismatchError(
                    self.path, f"output of batch {manifest.batch}", self.read(manifest.batch), content
                ) from None
        self._folder.remove(temporary)
        self._folder.sync()

    def resume(self, checkpoint: str, last_manifest: Manifest | None) -> None:
        """Bring the list up to date with its checkpoint, and remove files of uncommitted batches.

        Raises
        ------
        CheckpointMismatchError
            If the folder is that of another checkpoint, or batches were taken in without it.
        CheckpointDamagedError
            If batches are missing that the checkpoint has.
        """
        self._folder.prepare()
        batches = self.batches()
        if batches and (stored_checkpoint := self.read(batches[-1])["checkpoint"]) != checkpoint:
            raise CheckpointMismatchError(
                self.path, "checkpoint, and this folder holds its output", stored_checkpoint, checkpoint
            )
        newest = -2 if last_manifest is None else last_manifest.batch
        if batches and batches[-1] > newest:
            raise CheckpointMismatchError(self.path, "state", f"batch {batches[-1]} as the last", f"batch {newest}")
        if last_manifest is not None:
            if not last_manifest.extra.get("listed"):
                without = f"batches up to {newest} were taken in without a folder"
                raise CheckpointMismatchError(self.path, "output", without, f"the folder '{self.path}'")
            if newest not in batches:
                self.publish(last_manifest)
            first = self.batches()[0]
            if first != -1:
                raise CheckpointDamagedError(self._folder.shown(_name(-1)), "is missing, with all before the last")
        self._tidy()

    def files(self, since: int | None = None) -> tuple[dict[str, list[tuple[Path, int]]], dict[str, Any]]:
        """Return the files of each relation with their sizes, and the columns of each relation.

        The files are those of all batches, or of the batches after `since`.

        Raises
        ------
        UsageError
            If no batch is listed.
        """
        batches = self.batches()
        if not batches:
            raise UsageError.missing(
                f"the folder '{self.path}'", "the output of a view", "Name the folder that a view writes to."
            )
        newest = self.read(batches[-1])
        files: dict[str, list[tuple[Path, int]]] = {name: [] for name in newest["relations"]}
        for batch in batches:
            if since is None or batch > since:
                for path, _rows, size, _sha256 in self.read(batch)["files"]:
                    files[path.split("/", 1)[0]].append((self.path / path, size))
        return files, newest["relations"]

    def _tidy(self) -> None:
        listed = {path for batch in self.batches() for path, *_ in self.read(batch)["files"]}
        for path in self.path.glob("*/*.parquet"):
            if _OURS.fullmatch(path.name) and str(path.relative_to(self.path)) not in listed:
                path.unlink()
        for name in self._folder.names():
            if name.startswith("tmp-"):
                self._folder.remove(name)


def columns_of(schemas: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
    """Return the column names of each listed relation."""
    return {name: [field["name"] for field in schema["fields"]] for name, schema in schemas.items()}


def _name(batch: int) -> str:
    return "batch--1.json" if batch == -1 else f"batch-{batch:012}.json"

"""Destinations of the changes that cells write: listed files, or a function or writer.

Only the driver knows which files belong to a batch. It lists them after the batch is committed. For a function or
another Spark format, it passes their rows on before the commit, as a view with one engine does, and removes the files
afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from gpu_wcoj.checkpoint.manifest import Manifest, OutputFile
from gpu_wcoj.data.rows import weight_name
from gpu_wcoj.spark.output import Listing, ToCallable, with_batch


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

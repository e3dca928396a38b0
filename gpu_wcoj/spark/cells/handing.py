"""Where cells put the changes of answers: files that a manifest lists, or files that the driver hands on.

Whatever the cells write, only the driver knows which files belong to a batch. It lists them once the batch is
committed; or, for a function or another format of Spark's, it hands their rows on before the commit, as a view in one
place does, and removes them afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from gpu_wcoj.checkpoint.manifest import Manifest, OutputFile
from gpu_wcoj.spark.listing import Listing
from gpu_wcoj.spark.output import ToCallable, with_batch
from gpu_wcoj.weights import weight_name


class Handing(Protocol):
    """What becomes of the files that cells write."""

    @property
    def place(self) -> str:
        """The folder where cells put them; empty if they only count."""
        ...

    @property
    def is_listed(self) -> bool:
        """Whether the manifest lists them."""
        ...

    def open(self, checkpoint: str, fence: int, last_manifest: Manifest | None) -> None:
        """Get ready to follow a checkpoint."""
        ...

    def hand_on(self, files: Sequence[OutputFile], batch: int) -> None:
        """Called before the batch is committed."""
        ...

    def publish(self, manifest: Manifest) -> None:
        """Called when it is, and again if it was before."""
        ...


class NoFiles:
    """Changes are counted."""

    place = ""
    is_listed = False

    def open(self, checkpoint: str, fence: int, last_manifest: Manifest | None) -> None:
        """See `Handing.open`."""

    def hand_on(self, files: Sequence[OutputFile], batch: int) -> None:
        """See `Handing.hand_on`."""

    def publish(self, manifest: Manifest) -> None:
        """See `Handing.publish`."""


class Listed:
    """The files are the output."""

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
    """The rows go to a function, or to a writer of Spark's; the files are in between.

    Parameters
    ----------
    folder
        Of the files; nothing else is in it.
    sink
        Takes the rows. It may be given the last batch again after a crash.
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
        """See `Handing.open`; what an attempt left is removed."""
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
    """The columns of a head's changes: its own, and the weight."""
    return head.append(pa.field(weight_name(head.names), pa.int64()))


def as_listed(head: pa.Schema) -> pa.Table:
    """No changes of a head, with the columns of the files."""
    return with_batch(change_schema(head).empty_table(), 0)

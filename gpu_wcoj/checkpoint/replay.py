"""Resuming a stopped run over files: finished ticks are skipped after a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from gpu_wcoj.checkpoint.checkpoint import Checkpoint
from gpu_wcoj.checkpoint.digest import rows_digest
from gpu_wcoj.checkpoint.manifest import Batch, chained
from gpu_wcoj.errors import BatchMismatchError

if TYPE_CHECKING:
    import pyarrow as pa

QUERY = "gpu-wcoj run"


class Replay:
    """The ticks of a run, numbered from 0, compared with those of its checkpoint.

    Attributes
    ----------
    done
        How many the checkpoint holds.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._last = checkpoint.last
        if self._last is not None and self._last.query != QUERY:
            raise BatchMismatchError(
                f"the checkpoint '{checkpoint.path}' is not that of a run over files.\n"
                "  Restore it in Python (Program.restore), or choose an empty folder."
            )
        self.done = 0 if self._last is None else self._last.batch + 1
        self._chain = ""
        self._seen = 0
        self._batch = Batch(-1)

    @property
    def extra(self) -> dict[str, Any]:
        """A copy of the extra data stored with the last tick."""
        return {} if self._last is None else deepcopy(dict(self._last.extra))

    def is_done(self, tables: Mapping[str, pa.Table]) -> bool:
        """Return True if the next tick, which has these rows, is in the checkpoint.

        Raises
        ------
        BatchMismatchError
            If the tick there had other rows. Of long runs that is known only at the last tick that is done.
        """
        rows = sum(table.num_rows for table in tables.values())
        batch = self._batch = Batch(self._seen, QUERY, rows, rows_digest(tables))
        self._seen += 1
        last_manifest = self._last
        if last_manifest is None or batch.batch > last_manifest.batch:
            return False
        if batch.batch >= last_manifest.batches[0].batch:
            self._checkpoint.has(batch.batch, query=QUERY, rows=rows, digest=batch.digest)
        self._chain = chained(self._chain, batch)
        if batch.batch == last_manifest.batch and self._chain != last_manifest.chain:
            raise BatchMismatchError(
                f"the checkpoint '{self._checkpoint.path}' was made from other rows: the first {self._seen:,} ticks "
                "differ from those it holds.\n  Give the same files and options, or begin a new checkpoint."
            )
        return True

    @property
    def name(self) -> str:
        """The checkpoint's name, independent of its folder."""
        return self._checkpoint.versions.newest.checkpoint

    @property
    def is_resumed(self) -> bool:
        """True if the checkpoint existed before, with or without a tick."""
        return self._checkpoint.fence > 1

    def commit(self, extra: Mapping[str, Any]) -> None:
        """Store the state after the tick of the last call of `is_done`."""
        batch = self._batch
        self._checkpoint.commit(batch.batch, query=QUERY, rows=batch.rows, digest=batch.digest, extra=extra)

    def finish(self) -> None:
        """Raise if the files ended before the finished ticks."""
        if self._seen < self.done:
            raise BatchMismatchError(
                f"the checkpoint '{self._checkpoint.path}' holds {self.done:,} ticks, and the files have "
                f"{self._seen:,}.\n  Give the same files and options, or begin a new checkpoint."
            )

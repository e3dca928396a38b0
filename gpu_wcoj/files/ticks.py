"""Division of change files into ticks, by a number of rows or by a tick column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from gpu_wcoj.errors import UsageError
from gpu_wcoj.files.block import RowBlock
from gpu_wcoj.files.budget import over_budget
from gpu_wcoj.files.reader import Reader

DEFAULT_TICK_ROWS: Final = 1000
"""Rows per tick of a change file without a tick column."""


def ticks(readers: Mapping[str, Reader], tick_rows: int | None, budget: int) -> Iterator[dict[str, pa.Table]]:
    """Yield the rows of every tick by relation, in the order of the files.

    With tick columns, a tick holds the rows of all files that carry one value of it, and the values ascend; without,
    the next `tick_rows` rows of each file.

    Raises
    ------
    UsageError
        If only some of the files have a tick column, or `tick_rows` is given beside one.
    MemoryBudgetError
        If the rows of one tick take more than `budget` bytes.
    """
    cursors = {name: _Cursor(name, reader.blocks(), budget) for name, reader in readers.items()}
    if not any(cursor.has_ticks for cursor in cursors.values()):
        yield from _by_rows(cursors, tick_rows or DEFAULT_TICK_ROWS)
        return
    without = [name for name, cursor in cursors.items() if not cursor.has_ticks and not cursor.is_done]
    if without:
        raise UsageError(
            f"the changes of '{without[0]}' have no tick column, those of others do.\n"
            "  Give 'tick' for every file of changes, or for none."
        )
    if tick_rows is not None:
        raise UsageError(
            f"ticks are cut by their column and by --tick-rows {tick_rows}.\n  Leave out --tick-rows, or option 'tick'."
        )
    yield from _by_value(cursors)


def _by_rows(cursors: dict[str, _Cursor], count: int) -> Iterator[dict[str, pa.Table]]:
    while tick := {name: cursor.next_rows(count) for name, cursor in cursors.items() if not cursor.is_done}:
        yield tick


def _by_value(cursors: dict[str, _Cursor]) -> Iterator[dict[str, pa.Table]]:
    while waiting := {name: cursor for name, cursor in cursors.items() if not cursor.is_done}:
        now = min(cursor.tick for cursor in waiting.values())
        yield {name: cursor.take_tick() for name, cursor in waiting.items() if cursor.tick == now}


class _Cursor:
    """A position in a file of changes."""

    def __init__(self, name: str, blocks: Iterator[RowBlock], budget: int) -> None:
        self._name = name
        self._blocks = blocks
        self._budget = budget
        self._block: RowBlock | None = None
        self._start = 0
        self._advance()

    @property
    def is_done(self) -> bool:
        """True if no row is left."""
        return self._block is None

    @property
    def has_ticks(self) -> bool:
        """True if the rows have ticks."""
        return self._block is not None and self._block.ticks is not None

    @property
    def tick(self) -> int:
        """The tick of the next row."""
        assert self._block is not None
        assert self._block.ticks is not None
        return int(self._block.ticks[self._start])

    def next_rows(self, count: int) -> pa.Table:
        """Return the next `count` rows, or the remaining rows if there are fewer."""
        pieces: list[pa.RecordBatch] = []
        while count and self._block is not None:
            stop = min(len(self._block), self._start + count)
            count -= stop - self._start
            self._take_until(stop, pieces)
        return pa.Table.from_batches(pieces)

    def take_tick(self) -> pa.Table:
        """Return the next rows of the same tick."""
        tick = self.tick
        pieces: list[pa.RecordBatch] = []
        while self._block is not None and self.tick == tick:
            assert self._block.ticks is not None
            self._take_until(int(np.searchsorted(self._block.ticks, tick, side="right")), pieces)
        return pa.Table.from_batches(pieces)

    def _take_until(self, stop: int, pieces: list[pa.RecordBatch]) -> None:
        assert self._block is not None
        pieces.append(self._block.slice(self._start, stop).rows)
        n_bytes = sum(piece.nbytes for piece in pieces) if len(pieces) > 1 else 0
        if n_bytes > self._budget:
            raise over_budget(f"one tick of '{self._name}'", n_bytes, self._budget)
        self._start = stop
        if stop == len(self._block):
            self._advance()

    def _advance(self) -> None:
        self._start = 0
        self._block = next((block for block in self._blocks if len(block)), None)

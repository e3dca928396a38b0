"""Traces that remember when their rows came: the state of operators that work under nested time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpu_wcoj.column import Column
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.streams.layout import ITERATION, Sorting
from gpu_wcoj.streams.place import Place, is_nothing
from gpu_wcoj.streams.trace import Found, Trace
from gpu_wcoj.zset.zset import ZSet


@dataclass(frozen=True, eq=False)
class TimedTrace:
    """The changes of a stream with the iteration of each as one more, last column.

    Under nested time only the iteration is kept of ticks that are over: their changes add up to one history per row,
    which is all that can be told from a later tick. This tick's own are kept apart. Outside a subcircuit what is kept
    is the tick of each change.

    Attributes
    ----------
    earlier
        The changes of earlier ticks.
    present
        Those of this tick.
    """

    earlier: Trace
    present: Trace

    @staticmethod
    def empty(place: Place, sorting: Sorting = Sorting()) -> TimedTrace:  # noqa: B008  # it is immutable
        """The trace of a stream that has had no change."""
        return TimedTrace(Trace(place, sorting), Trace(place, sorting))

    def __len__(self) -> int:
        return len(self.earlier) + len(self.present)

    def __repr__(self) -> str:
        return f"TimedTrace({len(self.earlier)} rows of earlier ticks, {len(self.present)} of this one)"

    @property
    def place(self) -> Place:
        """Where it lives."""
        return self.present.place

    def append(self, change: ZSet, at: int) -> TimedTrace:
        """The trace with a change of this tick and iteration `at` added."""
        if is_nothing(change):
            return self
        present = self.present.append(with_iteration(self.place, change, at))
        return self if present is self.present else replace(self, present=present)

    def next_tick(self) -> TimedTrace:
        """The trace when this tick is over. O(rows of this tick)."""
        if not len(self.present):
            return self
        return TimedTrace(self.earlier.append(self.present.consolidated()), Trace(self.place, self.present.sorting))

    def below(self, keys: Sequence[Column], nulls: bool = False, count: int = 1) -> Found | None:
        """The entries whose key columns have these values, their iterations last; see `Trace.below`."""
        parts = [entries for trace in (self.earlier, self.present) if (entries := trace.below(keys, nulls, count)) is not None]
        if len(parts) < 2:
            return parts[0] if parts else None
        xp, columns = self.place.xp, list(zip(parts[0].columns, parts[1].columns, strict=True))
        return Found(
            xp.concatenate([part.owner for part in parts]),
            [self.place.stacked(pair) for pair in columns],
            xp.concatenate([part.weights for part in parts]),
        )

    def consolidated(self) -> ZSet:
        """All rows with their weights, times left out. O(n)."""
        rows = self.place.plus(self.earlier.consolidated(), self.present.consolidated())
        return rows if is_nothing(rows) else self.place.selected(rows, range(len(rows.columns) - 1))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names without the iteration; none as long as no columns have been seen."""
        return (self.present.names or self.earlier.names)[:-1]


def with_iteration(place: Place, zset: ZSet, at: int) -> ZSet:
    """The rows with one more column, the iteration."""
    column = Column.of_integers(place.xp.full(len(zset), at, np.int64))
    weights = zset.stored_weights if zset.columns else place.backend.asarray(zset.stored_weights)
    return place.trusted((*zset.names, ITERATION), (*zset.columns, column), weights)


def upto(place: Place, found: Found, names: Sequence[str], iteration: Int64Array | int) -> ZSet:
    """The sum of the found entries whose iteration is at most this, as rows without it."""
    times = found.columns[-1].stored
    chosen = place.xp.flatnonzero(times <= iteration)
    columns = [place.taken_column(column, chosen) for column in found.columns[:-1]]
    weights = found.weights[chosen]
    return place.made(names, columns, weights if columns else place.backend.to_host(weights))

"""Traces whose entries keep their times: the state of operators under nested time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpu_wcoj.data.column import Column
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.streams.device_context import Place, is_nothing
from gpu_wcoj.streams.layout import ITERATION, Sorting
from gpu_wcoj.streams.trace import Trace, TraceLookup
from gpu_wcoj.zset.zset import ZSet


@dataclass(frozen=True, eq=False)
class TimedTrace:
    """The changes of a stream with the iteration of each as an additional last column.

    Under nested time, only the iterations of earlier ticks are stored: their changes add up to one history per row,
    which suffices for later ticks. The changes of this tick are separate. Outside a subcircuit the tick of each change
    is stored.

    Attributes
    ----------
    earlier
        The changes of earlier ticks.
    present
        The changes of this tick.
    """

    earlier: Trace
    present: Trace

    @staticmethod
    def empty(place: Place, sorting: Sorting = Sorting()) -> TimedTrace:  # noqa: B008  # it is immutable
        """Return the empty trace."""
        return TimedTrace(Trace(place, sorting), Trace(place, sorting))

    def __len__(self) -> int:
        return len(self.earlier) + len(self.present)

    def __repr__(self) -> str:
        return f"TimedTrace({len(self.earlier)} rows of earlier ticks, {len(self.present)} of this one)"

    @property
    def place(self) -> Place:
        """The execution context."""
        return self.present.place

    def append(self, change: ZSet, at: int) -> TimedTrace:
        """Return the trace with a change of this tick and iteration `at` added."""
        if is_nothing(change):
            return self
        present = self.present.append(with_iteration(self.place, change, at))
        return self if present is self.present else replace(self, present=present)

    def next_tick(self) -> TimedTrace:
        """Return the trace at the end of this tick. O(rows of this tick)."""
        if not len(self.present):
            return self
        return TimedTrace(self.earlier.append(self.present.consolidated()), Trace(self.place, self.present.sorting))

    def below(self, keys: Sequence[Column], nulls: bool = False, count: int = 1) -> TraceLookup | None:
        """Return the entries whose key columns have these values, iterations last.

        See `Trace.below`.
        """
        parts = [
            entries
            for trace in (self.earlier, self.present)
            if (entries := trace.below(keys, nulls, count)) is not None
        ]
        if len(parts) < 2:
            return parts[0] if parts else None
        xp, columns = self.place.xp, list(zip(parts[0].columns, parts[1].columns, strict=True))
        return TraceLookup(
            xp.concatenate([part.owner for part in parts]),
            [self.place.stacked(pair) for pair in columns],
            xp.concatenate([part.weights for part in parts]),
        )

    def consolidated(self) -> ZSet:
        """Return all rows with their weights, without times. O(n)."""
        rows = self.place.plus(self.earlier.consolidated(), self.present.consolidated())
        return rows if is_nothing(rows) else self.place.selected(rows, range(len(rows.columns) - 1))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names without the iteration; empty until columns have been seen."""
        return (self.present.names or self.earlier.names)[:-1]


def with_iteration(place: Place, zset: ZSet, iteration: int) -> ZSet:
    """Return the rows with the iteration as an additional column."""
    column = Column.of_integers(place.xp.full(len(zset), iteration, np.int64))
    weights = zset.stored_weights if zset.columns else place.backend.asarray(zset.stored_weights)
    return place.trusted((*zset.names, ITERATION), (*zset.columns, column), weights)


def upto(place: Place, entries: TraceLookup, names: Sequence[str], iteration: Int64Array | int) -> ZSet:
    """Return the sum of the entries up to this iteration, as rows without the iteration."""
    times = entries.columns[-1].stored
    chosen = place.xp.flatnonzero(times <= iteration)
    columns = [place.taken_column(column, chosen) for column in entries.columns[:-1]]
    weights = entries.weights[chosen]
    return place.made(names, columns, weights if columns else place.backend.to_host(weights))

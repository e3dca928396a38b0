"""Pending results of later iterations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpu_wcoj.data.column import Column
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.streams.device_context import NOTHING, Place
from gpu_wcoj.zset.zset import ZSet


@dataclass(frozen=True, eq=False)
class Later:
    """Rows by their iteration. Immutable."""

    waiting: Mapping[int, ZSet] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.waiting)

    def with_rows(self, place: Place, iteration: int, rows: ZSet) -> Later:
        """Return a copy with rows of one iteration added."""
        if not len(rows):
            return self
        return Later({**self.waiting, iteration: place.plus(self.waiting.get(iteration, NOTHING), rows)})

    def without(self, iteration: int) -> tuple[ZSet, Later]:
        """Return the rows of one iteration, and the remaining rows."""
        if iteration not in self.waiting:
            return NOTHING, self
        return self.waiting[iteration], Later({key: rows for key, rows in self.waiting.items() if key != iteration})


def split_by_iteration(
    place: Place,
    names: Sequence[str],
    columns: Sequence[Column],
    weights: tuple[Int64Array, Int64Array],
    times: Int64Array,
    now: int,
) -> list[tuple[int, ZSet]]:
    """Split rows by iteration: the maximum of `now` and their time; weights are products."""
    xp = place.xp
    target = xp.maximum(times, now)
    order = place.backend.kernels.lexsort([target])
    starts = place.backend.kernels.run_starts([target[order]])
    bounds = [*place.backend.to_host(starts).tolist(), len(order)]
    iterations = place.backend.to_host(target[order[starts]]).tolist()
    made = []
    for iteration, begin, end in zip(iterations, bounds, bounds[1:], strict=False):
        rows = order[begin:end]
        parts = [place.taken_column(column, rows) for column in columns]
        made.append((int(iteration), place.exact(names, parts, weights[0][rows], weights[1][rows])))
    return made

"""Changes of functions of groups under nested time, by tick and iteration.

With F the sum of the entries of earlier ticks up to an iteration, and G that of this tick's, the change at iteration
i is ``[f(F(i) + G(i)) - f(F(i-1) + G(i-1))] - [f(F(i)) - f(F(i-1))]``. A group that changes at i is evaluated again at
every later iteration at which F has an entry of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from gpu_wcoj.streams.device_context import NOTHING, Place
from gpu_wcoj.streams.grouped import keys_of
from gpu_wcoj.streams.timed import TimedTrace, upto
from gpu_wcoj.streams.trace import TraceLookup
from gpu_wcoj.zset.arrays import positions
from gpu_wcoj.zset.zset import ZSet

Function = Callable[[ZSet], ZSet]
"""Function from all rows of some groups to rows."""


@dataclass(frozen=True, eq=False)
class Due:
    """The groups to evaluate again, by iteration, as their keys. Immutable."""

    keys: Mapping[int, ZSet] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.keys)


def nested_change(
    change: ZSet, trace: TimedTrace, keys: Sequence[int], due: Due, now: int, function: Function
) -> tuple[ZSet, Due]:
    """Return the change of the function at this iteration, and the groups due later.

    Parameters
    ----------
    change
        This iteration's change, which `trace` holds already.
    keys
        The positions of the group's columns, which are the trace's key columns.
    """
    place = trace.place
    touched = keys_of(place, change, keys) if len(change) else NOTHING
    groups = touched
    if now in due.keys:
        groups = place.unit(place.plus(touched, due.keys[now]))
    later = {iteration: rows for iteration, rows in due.keys.items() if iteration != now}
    if not len(groups):
        return NOTHING, Due(later)
    earlier = trace.earlier.below(groups.columns, nulls=True)
    present = trace.present.below(groups.columns, nulls=True)
    if earlier is not None and len(touched):
        again = earlier if touched is groups else trace.earlier.below(touched.columns, nulls=True)
        if again is not None:
            _schedule(place, touched, again, now, later)
    names = trace.names
    out = NOTHING
    for until, sign in ((now, 1), (now - 1, -1)):
        history = NOTHING if earlier is None else upto(place, earlier, names, until)
        current = NOTHING if present is None else upto(place, present, names, until)
        both = place.plus(history, current)
        if not len(current):
            continue  # both terms of this iteration are the same
        step = place.minus(function(both), function(history))
        out = place.plus(out, step) if sign > 0 else place.minus(out, step)
    return out, Due(later)


def _schedule(place: Place, touched: ZSet, entries: TraceLookup, now: int, later: dict[int, ZSet]) -> None:
    """Schedule these groups at every later iteration at which they have an entry."""
    xp, backend = place.xp, place.backend
    times = entries.columns[-1].stored
    (ahead,) = positions(backend, times > now)
    if not len(ahead):
        return
    pairs = backend.kernels.distinct_rows([times[ahead], entries.owner[ahead].astype(np.int64)])
    starts = backend.kernels.run_starts(pairs[:1])
    iterations = backend.to_host(pairs[0][starts]).tolist()
    bounds = [*backend.to_host(starts).tolist(), len(pairs[0])]
    for iteration, begin, end in zip(iterations, bounds, bounds[1:], strict=False):
        rows = xp.sort(pairs[1][begin:end])
        groups = place.taken(touched, rows) if touched.columns else touched
        scheduled = later.get(int(iteration))
        later[int(iteration)] = groups if scheduled is None else place.unit(place.plus(scheduled, groups))

"""Joins over arrangements whose whole state is this tick's change: from the empty state, one path is left."""

from __future__ import annotations

from collections.abc import Iterable

from gpu_wcoj.join.delta import IncrementalGenericJoin
from gpu_wcoj.join.execution import Execution
from gpu_wcoj.trace.arrangement import Arrangement, ArrangementKey
from gpu_wcoj.zset.index import IndexedZSet


def joins_afresh(
    joins: Iterable[IncrementalGenericJoin], execution: Execution, after: bool = False
) -> list[IncrementalGenericJoin]:
    """The joins, to be evaluated from scratch.

    Parameters
    ----------
    after
        Whether to take the state with this tick's change rather than the committed one.
    """
    whole: dict[ArrangementKey, Arrangement] = {}
    made = []
    for join in joins:
        for key in join.query.keys:
            if key not in whole:
                whole[key] = as_change(join.arrangements[key], execution, after)
        made.append(IncrementalGenericJoin(join.query, whole, execution))
    return made


def as_change(arrangement: Arrangement, execution: Execution, after: bool) -> Arrangement:
    """An arrangement in which all that the given one holds, perhaps after this tick, is pending."""
    change = Arrangement(arrangement.key, execution.backend)
    spine = arrangement.committed() if after else arrangement.spine
    compact = spine.compact().batches
    nothing = IndexedZSet.empty(len(arrangement.key.order), execution.backend)
    batch = compact[0].lent() if compact else nothing
    change.pending = (batch,) if execution.weighted else (nothing, batch)
    return change

"""Joins for full recomputation: the whole state is pending, so a single delta path remains."""

from __future__ import annotations

from collections.abc import Iterable

from gpu_wcoj.join.delta import IncrementalGenericJoin
from gpu_wcoj.join.execution import Execution
from gpu_wcoj.trace.arrangement import Arrangement, ArrangementKey
from gpu_wcoj.zset.index import IndexedZSet


def recomputation_joins(
    joins: Iterable[IncrementalGenericJoin], execution: Execution, after: bool = False
) -> list[IncrementalGenericJoin]:
    """Return the joins over arrangements whose whole state is pending, for full recomputation.

    Parameters
    ----------
    after
        Whether to use the state with this tick's change rather than the committed state.
    """
    changes: dict[ArrangementKey, Arrangement] = {}
    rebuilt = []
    for join in joins:
        for key in join.query.keys:
            if key not in changes:
                changes[key] = as_change(join.arrangements[key], execution, after)
        rebuilt.append(IncrementalGenericJoin(join.query, changes, execution))
    return rebuilt


def as_change(arrangement: Arrangement, execution: Execution, after: bool) -> Arrangement:
    """Return an arrangement in which all rows, committed or after this tick, are pending."""
    change = Arrangement(arrangement.key, execution.backend)
    spine = arrangement.committed() if after else arrangement.spine
    compact = spine.compact().batches
    nothing = IndexedZSet.empty(len(arrangement.key.order), execution.backend)
    batch = compact[0].lent() if compact else nothing
    change.pending = (batch,) if execution.weighted else (nothing, batch)
    return change

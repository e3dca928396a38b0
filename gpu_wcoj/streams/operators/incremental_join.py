"""Incremental join: the change of a join of two relations, from their changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_wcoj.streams.matching import JoinShape
from gpu_wcoj.streams.operators.join_trace import JoinTrace
from gpu_wcoj.streams.operators.plus import Plus

if TYPE_CHECKING:
    from gpu_wcoj.streams.stream import Stream


def incremental_join(left: Stream, right: Stream, shape: JoinShape) -> Stream:
    """``dl ⋈ z⁻¹(R) + L ⋈ dr``: two joins with shared traces. Bilinear in dl and dr.

    In a subcircuit the traces keep times, and the result is that under nested time.
    """
    scope = left.scope
    before = right.trace(shape.right).delay()
    after = left.trace(shape.left)
    first = scope.add(JoinTrace(shape), left, before)
    second = scope.add(JoinTrace(shape, change_is_left=False), right, after)
    return scope.add(Plus(), first, second)

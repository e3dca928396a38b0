"""Extending by one atom alone: what its ranges hold is the answer, so no value has to be sought elsewhere.

Counts come from the ranges' ends, whatever is between them: 1 launch, and for each batch with weights one running sum
as long as the batch lives. Rows are copied to where they stay, without windows of candidates: 2 launches and a read a
piece.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpu_wcoj.kernels.cuda.device import Device
from gpu_wcoj.kernels.cuda.plan import BLOCK, Extension, Plan, Question, blocks_for, looping_blocks
from gpu_wcoj.kernels.protocol import Int64Array

_SOURCE = "alone"

FEWEST_SUMMED = 32
"""Weights of smaller batches are added up for each prefix, which takes no launch and no memory."""

Piece = tuple[Int64Array, Int64Array, Int64Array | None, Int64Array]
"""What `fill_common` returns."""


def can_count(extension: Extension) -> bool:
    """Whether sums over slots are the counts. A value may stand in two slots; it counts once unless weights are added.

    Values that are excluded are sought, and left out again.
    """
    return extension.n_atoms == 1 and (extension.ends or extension.n_slots <= 1)


def can_copy(extension: Extension, question: Question) -> bool:
    """Whether all candidates survive, each from where it stands."""
    return extension.n_atoms == 1 and extension.n_slots == 1 and question.excluded.shape[0] == 0


def count(
    device: Device, extension: Extension, question: Question, begin: int, counts: Int64Array, work: Int64Array
) -> None:
    """Write the counts of the prefixes from `begin` on, as many as there is room for."""
    n = len(counts)
    device.launch(
        _SOURCE, "count_alone", min(blocks_for(n), looping_blocks(device)), BLOCK,
        (extension.table, extension.n_slots, question.positions, question.positions.shape[1], begin, n, question.lower,
         question.upper, question.excluded, question.excluded.shape[0], _weight_sums(device, extension), counts, work),
    )  # fmt: skip


def _weight_sums(device: Device, extension: Extension) -> Int64Array | None:
    """The addresses of the slots' running sums of weights, 0 without; None if all are."""
    known: Int64Array | None = extension.weight_sums
    if known is None:
        addresses = np.zeros(extension.n_slots, np.int64)
        for k, level in enumerate(extension.levels):
            if level.weights is not None and len(level.weights) >= FEWEST_SUMMED:
                addresses[k] = level.support.weight_sums(device).data.ptr
        if not addresses.any():
            return None
        known = extension.weight_sums = device.asarray(addresses)
    return known


def copy_piece(
    device: Device, extension: Extension, question: Question, plan: Plan, item_begin: int, capacity: int,
    prefix_weights: Int64Array | None, weighted: bool, n_out_rows: int, work: Int64Array,
) -> tuple[Piece, int, int]:  # fmt: skip
    """The plan's candidates from `item_begin` on, and where they end: a prefix, and how many of its candidates."""
    xp = device.xp
    summary = xp.empty(5, np.int64)
    device.launch(_SOURCE, "next_piece", 1, 96, (plan.sums, plan.n, item_begin, capacity, summary))
    m, prefix, item, first_begun, end_begun = device.to_host(summary).tolist()
    if prefix_weights is not None:
        prefix_weights = xp.ascontiguousarray(prefix_weights)
    parent, value = xp.empty(m, np.int64), xp.empty(m, np.int64)
    weight = xp.empty(m, np.int64) if weighted else None
    positions = xp.empty((n_out_rows, m), np.int64)
    arguments: tuple[Any, ...] = (
        extension.table, question.positions, question.positions.shape[1], plan.begin, plan.n, plan.sums, plan.minima,
        plan.clips, item_begin, m, first_begun, end_begun, prefix_weights, parent, value, weight, positions, work,
    )  # fmt: skip
    device.launch(_SOURCE, "copy_ranges", max(1, min(blocks_for(m), looping_blocks(device))), BLOCK, arguments)
    return (parent, value, weight, positions), prefix, item

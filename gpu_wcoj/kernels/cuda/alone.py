"""Extensions by a single atom: its ranges are the result, without searches elsewhere.

Counts follow from the ends of the ranges: 1 launch, and for each batch with weights one running sum that lives as long
as the batch. Rows are copied directly to the result, without windows of candidates: 2 launches and a read a piece.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpu_wcoj.kernels.cuda.device import Device
from gpu_wcoj.kernels.cuda.plan import BLOCK, Arguments, Extension, Plan, blocks_for, looping_blocks
from gpu_wcoj.kernels.protocol import Int64Array

_SOURCE = "alone"

MIN_SUMMED = 32
"""Weights of a batch below which they are added up per prefix, without launch and memory."""

Piece = tuple[Int64Array, Int64Array, Int64Array | None, Int64Array]
"""The result of `fill_common`."""


def can_count(extension: Extension) -> bool:
    """Return whether sums over slots are the counts.

    A value in two slots counts once unless weights are added. Excluded values are searched and subtracted.
    """
    return extension.n_atoms == 1 and (extension.ends or extension.n_slots <= 1)


def can_copy(extension: Extension, question: Arguments) -> bool:
    """Return whether all candidates survive, each as it is stored."""
    return extension.n_atoms == 1 and extension.n_slots == 1 and question.excluded.shape[0] == 0


def count(
    device: Device, extension: Extension, question: Arguments, begin: int, counts: Int64Array, work: Int64Array
) -> None:
    """Write the counts of the prefixes from `begin` on, as many as `counts` has room for."""
    n = len(counts)
    device.launch(
        _SOURCE, "count_alone", min(blocks_for(n), looping_blocks(device)), BLOCK,
        (extension.table, extension.n_slots, question.positions, question.positions.shape[1], begin, n, question.lower,
         question.upper, question.excluded, question.excluded.shape[0], _weight_sums(device, extension), counts, work),
    )  # fmt: skip


def _weight_sums(device: Device, extension: Extension) -> Int64Array | None:
    """Return the addresses of the slots' running sums of weights, 0 without; None if all are 0."""
    sums: Int64Array | None = extension.weight_sums
    if sums is None:
        addresses = np.zeros(extension.n_slots, np.int64)
        for k, level in enumerate(extension.levels):
            if level.weights is not None and len(level.weights) >= MIN_SUMMED:
                addresses[k] = level.support.weight_sums(device).data.ptr
        if not addresses.any():
            return None
        sums = extension.weight_sums = device.asarray(addresses)
    return sums


def copy_piece(
    device: Device, extension: Extension, question: Arguments, plan: Plan, item_begin: int, capacity: int,
    prefix_weights: Int64Array | None, weighted: bool, n_out_rows: int, work: Int64Array,
) -> tuple[Piece, int, int]:  # fmt: skip
    """Copy the plan's candidates from `item_begin` on; return them and their end.

    The end is a prefix, and the number of its candidates that are done.
    """
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

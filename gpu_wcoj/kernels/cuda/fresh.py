"""New values below groups of prefixes, on a device.

The values below all prefixes are listed by `fill_common`, a portion at a time, made distinct by a sort, and searched in
the known ranges by `count_common`, with each value as the only allowed one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpu_wcoj.kernels.cuda.device import Device
from gpu_wcoj.kernels.cuda.extend import count_common, fill_common, prepare
from gpu_wcoj.kernels.cuda.plan import Extension
from gpu_wcoj.kernels.cuda.rows import distinct_rows, gather, held_rows
from gpu_wcoj.kernels.protocol import N_WORK, PROBES, PROPOSALS, SUM_OF_MINIMA, SURVIVORS, Int64Array, Level

ROW_BYTES = 256
"""Bytes of a candidate that is sorted and searched, including the sort's copies."""

MEMORY_DIVISOR = 4
"""A portion may take the free memory divided by this."""

MIN_PORTION, MAX_PORTION = 1 << 16, 1 << 25
"""Least and greatest number of candidates of a portion."""


def fresh_values(
    device: Device, levels: Sequence[Level], positions: Int64Array, starts: Int64Array,
    known: Sequence[Level], known_positions: Int64Array, work: Int64Array,
) -> tuple[Int64Array, Int64Array]:  # fmt: skip
    """See `gpu_wcoj.kernels.protocol.Kernels.fresh_values`.

    A portion costs up to 14 launches and a sort, and 4 reads.
    """
    xp = device.xp
    n, n_groups = positions.shape[1], len(starts) - 1
    group = xp.searchsorted(starts, xp.arange(n, dtype=np.int64), side="right") - 1
    extension = _prepare_single_atom(device, levels)
    known_extension = _prepare_single_atom(device, known) if known else None
    portion = max(MIN_PORTION, min(MAX_PORTION, device.free_bytes() // (MEMORY_DIVISOR * ROW_BYTES)))
    none, excluded = xp.empty(0, np.int64), xp.empty((0, n), np.int64)
    fill_work, sought = xp.zeros(N_WORK, np.int64), xp.zeros(N_WORK, np.int64)
    resume = np.zeros(3, np.int64)
    gathered: list[list[Int64Array]] = []
    n_rows = n_distinct = 0
    while resume[0] < n:
        parent, value, _, _ = fill_common(
            device, extension, positions, resume, n, none, none, excluded, None, False, portion, 0, fill_work
        )
        if len(parent) == 0:
            continue
        rows = distinct_rows(device, [group[parent], value])
        if known_extension is not None:
            group_positions = known_positions[:, rows[0]]
            no_exclusion = xp.empty((0, len(rows[0])), np.int64)
            counts = count_common(
                device, known_extension, group_positions, 0, len(rows[0]), rows[1], rows[1], no_exclusion, sought
            )  # fmt: skip
            rows = gather(device, rows, held_rows(device, [counts == 0])[0])
        gathered.append(rows)
        n_rows += len(rows[0])
        if n_rows > portion + 2 * n_distinct:
            gathered = [_merge_distinct(device, gathered)]
            n_rows = n_distinct = len(gathered[0][0])
    groups, values = _merge_distinct(device, gathered) if gathered else [none, none]
    work[SUM_OF_MINIMA : PROPOSALS + 1] += fill_work[SUM_OF_MINIMA : PROPOSALS + 1]
    work[PROBES : PROBES + 1] += sought[PROPOSALS : PROPOSALS + 1] + sought[PROBES : PROBES + 1]
    work[SURVIVORS : SURVIVORS + 1] += len(values)
    offsets = xp.searchsorted(groups, xp.arange(n_groups + 1, dtype=np.int64))
    return offsets.astype(np.int64, copy=False), values


def _prepare_single_atom(device: Device, levels: Sequence[Level]) -> Extension:
    rows = [-1 if level.parent_offsets is None else row for row, level in enumerate(levels)]
    return prepare(device, levels, [0, len(levels)], [True], [False], rows, [-1] * len(levels))


def _merge_distinct(device: Device, parts: list[list[Int64Array]]) -> list[Int64Array]:
    """Return the distinct rows of all parts, sorted."""
    if len(parts) == 1:
        return parts[0]
    return distinct_rows(device, [device.xp.concatenate(columns) for columns in zip(*parts, strict=True)])

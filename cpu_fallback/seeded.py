"""Descent and extension in one call, for a few seeds of a path with one more variable."""

from __future__ import annotations

import numpy as np

from cpu_fallback.extend import SCRATCH, extend
from cpu_fallback.pointers import pointer64
from cpu_fallback.runtime import cached_njit
from cpu_fallback.search import locate
from cpu_fallback.slots import N_FIELDS, OUT_ROW, ROW


@cached_njit
def extend_seeds(slots, descents, columns, fill, out, work):
    """Count the common values of all atoms below the rows of `columns`, or list them.

    Counts go to ``out[0]``; a list fills `out` with (row, value). `slots` is (number of slots, number of atoms, first
    slot of each atom and the end, then per slot the address of the fields of its last level); `descents` is the table
    of `locate` for the levels above.
    """
    n_slots, n_atoms = slots[0], slots[1]
    n = columns.shape[1]
    positions = np.empty((n_slots, n), np.int64)
    locate(descents, columns, positions)
    table = np.empty(n_slots * N_FIELDS, np.int64)
    for k in range(n_slots):
        fields = pointer64(slots[3 + n_atoms + k])
        for f in range(N_FIELDS):
            table[k * N_FIELDS + f] = fields[f]
        table[k * N_FIELDS + ROW] = k
        table[k * N_FIELDS + OUT_ROW] = -1
    is_last = np.ones(n_atoms, np.int64)
    shared = np.zeros(n_atoms, np.int64)
    scratch = np.empty(SCRATCH * n_slots, np.int64)
    resume = np.zeros(3, np.int64)
    none = np.uint64(0)  # the type of an address
    extend(
        n_slots, n_atoms, table.ctypes.data, slots.ctypes.data + 16, np.int64(is_last.ctypes.data),
        np.int64(shared.ctypes.data), positions.ctypes.data, n, n, False, none, none, 0, none, False, none,
        fill, resume.ctypes.data, out.ctypes.data, out.shape[1], scratch.ctypes.data, work.ctypes.data,
    )  # fmt: skip
    # The arrays made here must outlive the call, which sees only their addresses.
    return table[0] + is_last[0] + shared[0] + scratch[0] + resume[0] + positions[0, 0]

"""Filtering candidates by other atoms, many at a time and without branches.

Ranks tell exactly whether a range contains a value. A short range has a mask of 64 bits, in which an unset bit excludes
a value. A candidate passes an atom if one of the atom's ranges may contain it; candidates that pass all atoms are then
searched as usual.
"""

from __future__ import annotations

import numpy as np

from cpu_fallback.pointers import load, pointer64, unsigned64
from cpu_fallback.ranked import base_of, is_set
from cpu_fallback.runtime import cached_njit
from cpu_fallback.slots import MAXIMUM, MINIMUM, N_FIELDS, PARENT, VALUES, WIDTH, WORDS

BLOCK = 512
"""Candidates that are tested together, here or by marks, before the survivors are processed."""

MAX_MASKED = 16
"""Values of a range up to which it has a mask."""

MIN_FILTERED = 8
"""Candidates below which filtering is skipped."""


@cached_njit
def set_filters(table, n_atoms, first, proposer, low, high, starts, masks, filters):
    """Set in `filters`, per atom, whether it filters candidates; return whether some atom does.

    An atom does if one of its ranges has ranks, and the others have ranks or are short. Masks are written to `masks`.
    """
    is_any = False
    for a in range(n_atoms):
        filters[a] = 0
        if a == proposer or table[first[a] * N_FIELDS + PARENT] == 0:
            continue
        serves = False
        for k in range(first[a], first[a + 1]):
            if starts[k] >= 0:
                serves = True
            elif high[k] - low[k] > MAX_MASKED:
                serves = False
                break
        if not serves:
            continue
        filters[a] = 1
        is_any = True
        for k in range(first[a], first[a + 1]):
            mask = np.int64(0)
            if starts[k] < 0:
                address, width = table[k * N_FIELDS + VALUES], table[k * N_FIELDS + WIDTH]
                for i in range(low[k], high[k]):
                    mask |= np.int64(1) << (load(address, width, i) & 63)
            masks[k] = mask
    return is_any


@cached_njit
def filter_candidates(table, n_atoms, first, low, high, starts, masks, filters, address, width, begin, end, room):
    """Write the positions of passing candidates from `begin` to `end`; return their number.

    They are written to the address `room`, with space for twice `BLOCK` positions.
    """
    places, is_held = pointer64(room), pointer64(room + 8 * BLOCK)
    n = end - begin
    for i in range(n):
        places[i] = begin + i
    for a in range(n_atoms):
        if filters[a] == 0:
            continue
        for i in range(n):
            is_held[i] = 0
        for k in range(first[a], first[a + 1]):
            if low[k] >= high[k]:
                continue
            if starts[k] < 0:
                mask = masks[k]
                for i in range(n):
                    is_held[i] |= mask >> (load(address, width, places[i]) & 63)
                continue
            words, start = unsigned64(table[k * N_FIELDS + WORDS]), starts[k]
            minimum, maximum, base = table[k * N_FIELDS + MINIMUM], table[k * N_FIELDS + MAXIMUM], base_of(table, k)
            for i in range(n):
                value = load(address, width, places[i])
                spanned = np.int64(value >= minimum) & np.int64(value <= maximum)
                is_held[i] |= is_set(words, start, (value - base) * spanned) & spanned
        left = 0
        for i in range(n):
            places[left] = places[i]
            left += is_held[i] & 1
        n = left
    return n

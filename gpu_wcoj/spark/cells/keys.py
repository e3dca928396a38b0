"""Keys with which Spark's hash partitioning assigns each cell to the partition of its index.

``repartition(p, key)`` uses the partition ``pmod(hash(key), p)``. Hashing the cell's index itself would put several
cells into one partition and leave others empty; so each cell has an integer with the required hash.
"""

from __future__ import annotations

from itertools import count

_MASK = 0xFFFFFFFF
"""The 32 low bits."""
_SEED = 42
"""The seed of Spark's function ``hash``."""


def cell_keys(cells: int) -> list[int]:
    """Return, per cell, the smallest integer whose partition is the cell's index.

    Examples
    --------
    >>> [spark_hash(key) % 3 for key in cell_keys(3)]
    [0, 1, 2]
    """
    key_of: dict[int, int] = {}
    for key in count():
        key_of.setdefault(spark_hash(key) % cells, key)
        if len(key_of) == cells:
            return [key_of[cell] for cell in range(cells)]
    raise AssertionError


def spark_hash(value: int) -> int:
    """Return Spark's ``hash`` of an ``int``: 32-bit MurmurHash3 with the seed 42.

    Examples
    --------
    >>> spark_hash(0), spark_hash(1)
    (933211791, -559580957)
    """
    mixed = _rotated(value * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK
    state = (_rotated(_SEED ^ mixed, 13) * 5 + 0xE6546B64) & _MASK
    state ^= 4
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        state = (state ^ state >> shift) * factor & _MASK
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & _MASK

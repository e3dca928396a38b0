"""Conversion between codes and Arrow's device layout: buffers, offsets and bit masks.

No library is needed.

Two details differ from Arrow in host memory, as in cuDF: a boolean takes a byte, and a mask is padded to 64 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gpu_wcoj.arrow.types import storage_of
from gpu_wcoj.backend import Backend
from gpu_wcoj.data.column import Column, float_codes, floats_of
from gpu_wcoj.data.schema import DataType
from gpu_wcoj.errors import UnsupportedTypeError

if TYPE_CHECKING:
    import pyarrow as pa

    from gpu_wcoj.dictionary import Dictionary

MASK_PADDING = 64
"""The size of a mask is a multiple of this number of bytes."""


@dataclass(frozen=True, eq=False, slots=True)
class Buffers:
    """The memory of a column's values and its mask.

    Attributes
    ----------
    size, offset
        Number of rows, and number of rows before them in both buffers.
    data
        uint8, at least the values up to the last row.
    mask
        uint8, a bit for each row, the lowest bit of a byte first, set for rows with a value; None without nulls.
    null_count
        Rows without a value.
    """

    size: int
    offset: int
    data: Any
    mask: Any
    null_count: int


def n_bytes(kind: DataType, rows: int) -> int:
    """Return the number of bytes of `rows` values."""
    storage, words = storage_of(kind)
    return rows * words * storage.itemsize


def validity(buffers: Buffers, backend: Backend) -> Any:
    """Return a bool mask of the rows with a value, or None without nulls."""
    if buffers.mask is None or buffers.null_count == 0:
        return None
    return unpacked(buffers.mask, buffers.offset, buffers.size, backend.xp)


def unpacked(bits: Any, offset: int, size: int, xp: Any) -> Any:
    """Return `size` bits from bit `offset` on, as bool.

    Examples
    --------
    >>> unpacked(np.array([0b00000110, 0b1], np.uint8), 1, 8, np)
    array([ True,  True, False, False, False, False, False,  True])
    """
    inside = bits[offset >> 3 : (offset + size + 7) >> 3]
    spread = (inside.reshape(-1, 1) >> xp.arange(8, dtype=np.uint8)) & 1
    return spread.reshape(-1)[offset & 7 : (offset & 7) + size] != 0


def packed(valid: Any, xp: Any) -> Any:
    """Return bools as a mask of bits; the inverse of `unpacked`.

    Examples
    --------
    >>> packed(np.array([False, True, True]), np)[:2], len(packed(np.ones(513, bool), np))
    (array([6, 0], dtype=uint8), 128)
    """
    size = len(valid)
    padded = xp.zeros(-(-size // (8 * MASK_PADDING)) * 8 * MASK_PADDING, np.uint8)
    padded[:size] = valid.astype(np.uint8)
    of_bytes = padded.reshape(-1, 8)
    total = of_bytes[:, 0]
    for bit in range(1, 8):
        total = total | (of_bytes[:, bit] << bit)
    return xp.ascontiguousarray(total)


def fixed_width(kind: DataType, buffers: Buffers, backend: Backend, what: str) -> Column:
    """Return a column of numbers, booleans, dates, times or decimals.

    64-bit integers without nulls are not copied.

    Raises
    ------
    UnsupportedTypeError
        If a value is not supported: an unsigned integer of 2^63 or more, a decimal of more than 18 digits.
    """
    xp = backend.xp
    valid = validity(buffers, backend)
    storage, words = storage_of(kind)
    begin, end = n_bytes(kind, buffers.offset), n_bytes(kind, buffers.offset + buffers.size)
    raw = buffers.data[begin:end].view(storage)
    if kind.family in ("float32", "float64"):
        codes: Any = float_codes(raw, xp)
    elif kind.family == "decimal":
        codes = xp.ascontiguousarray(raw[::words]).astype(np.int64)
        low, high = kind.code_range
        fits = (codes >= low) & (codes <= high)
        for word in range(1, words):
            fits = fits & (raw[word::words] == codes >> 63)
        _refuse_beyond_buffer(fits, valid, f"{what}: a decimal has more than 18 digits, or than its type")
    elif kind.value_name == "uint64":
        codes = raw.view(np.int64)
        _refuse_beyond_buffer(codes >= 0, valid, f"{what}: a value is above 2^63-1, the largest integer here")
    elif kind.family == "bool":
        codes = (raw != 0).astype(np.int64)
    else:
        codes = raw if storage == np.int64 else raw.astype(np.int64)
    return Column(kind, codes if valid is None else xp.where(valid, codes, 0), valid)


def _refuse_beyond_buffer(fits: Any, valid: Any, what: str) -> None:
    if valid is not None:
        fits = fits | ~valid
    if len(fits) and not bool(fits.all()):
        row = int(fits.argmin())
        raise UnsupportedTypeError(f"{what} (row {row}).\n  Cast the column to text, or repair it before you pass it.")


def text(kind: DataType, places: Any, keys: pa.Array, valid: Any, dictionary: Dictionary, backend: Backend) -> Column:
    """Return a column of text from distinct values `keys` and each row's position in them.

    Only `keys` pass through the host.
    """
    codes = backend.asarray(np.concatenate([dictionary.encode(keys), np.zeros(1, np.int64)]))
    row_codes = codes[places.astype(np.int64)]
    return Column(kind, row_codes if valid is None else backend.xp.where(valid, row_codes, 0), valid, dictionary)


def values_in_use(column: Column, backend: Backend) -> tuple[pa.Array, Any]:
    """Return the distinct values of a text column and each row's position; inverts `text`.

    The values are on the host.

    Null rows have the position behind the last value.
    """
    xp = backend.xp
    dictionary = column.dictionary
    assert dictionary is not None
    codes = backend.asarray(column.stored)
    valid = None if column.stored_valid is None else backend.asarray(column.stored_valid)
    in_use = xp.zeros(len(dictionary), np.int64)
    in_use[codes if valid is None else codes[valid]] = 1
    used = backend.to_host(xp.flatnonzero(in_use)).astype(np.int64)
    if not len(used):
        return dictionary.decode(used), xp.zeros(len(codes), np.int64)
    places = (xp.cumsum(in_use) - 1)[codes]
    return dictionary.decode(used), places if valid is None else xp.where(valid, places, len(used))


def buffers_of(column: Column, backend: Backend) -> Buffers:
    """Return a fixed-width column in its type's layout; the inverse of `fixed_width`."""
    xp, kind = backend.xp, column.type
    codes = backend.asarray(column.stored)
    storage, words = storage_of(kind)
    if storage.kind == "f":
        data: Any = floats_of(codes, storage.itemsize, xp)
    elif words > 1:
        data = xp.stack([codes, *[codes >> 63] * (words - 1)], axis=1).reshape(-1)
    else:
        data = codes if storage == np.int64 else codes.astype(storage)
    data = xp.ascontiguousarray(data).view(np.uint8)
    if column.stored_valid is None:
        return Buffers(len(codes), 0, data, None, 0)
    valid = backend.asarray(column.stored_valid)
    return Buffers(len(codes), 0, data, packed(valid, xp), len(codes) - int(valid.sum()))

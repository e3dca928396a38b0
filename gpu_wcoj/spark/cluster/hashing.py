"""Spark's function ``xxhash64`` over Arrow columns, of values in canonical form.

A row meets the same cells whether Spark's expressions route it, or this module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    FractionalType,
    IntegralType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from gpu_wcoj.errors import UnsupportedTypeError

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

U64 = npt.NDArray[np.uint64]

_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
)
"""The primes of XXH64: https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md"""
_SEED: Final = 42
"""The seed of Spark's function ``xxhash64``."""
_MASK: Final = 0xFFFFFFFF
"""The bits of an ``int``."""
_BLOCK: Final = 1 << 14
"""Rows that are hashed at a time, so that all steps work in the cache: 128 KiB a column (`tests/spark/cluster`)."""
_AS_THEY_ARE: Final = (
    BooleanType, FractionalType, DateType, TimestampType, TimestampNTZType, StringType, BinaryType,
)  # fmt: skip
"""Types whose values are hashed as they are."""
_EXACT_DIGITS: Final = 15
"""Digits of a decimal up to which its integer and its power of ten are exact doubles, so that their quotient is the
nearest one."""


def canonical(value: Column, kind: DataType) -> Column:
    """Return a column in a form whose hash is equal for all values that the engine deems equal.

    Raises
    ------
    UnsupportedTypeError
        If the type has none.
    """
    check_hashable(kind)
    return value.cast(canonical_type(kind)) if isinstance(kind, (IntegralType, DecimalType)) else value


def canonical_type(kind: DataType) -> str:
    """Return the type of values in canonical form."""
    return (
        "bigint"
        if isinstance(kind, IntegralType)
        else "double"
        if isinstance(kind, DecimalType)
        else kind.simpleString()
    )


def check_hashable(kind: DataType) -> None:
    """Raise `UnsupportedTypeError` if a type has no canonical form."""
    if not isinstance(kind, (IntegralType, DecimalType, *_AS_THEY_ARE)):
        raise UnsupportedTypeError.unsupported(
            f"a column of type '{kind.simpleString()}' on cells", remedy="Cast it, or use layout='one'."
        )


def xxhash64(columns: Sequence[pa.Array], salt: int) -> npt.NDArray[np.int64]:
    """Return Spark's ``xxhash64`` of the canonical values of rows, and of an ``int`` after them.

    Parameters
    ----------
    columns
        At least one column.

    Raises
    ------
    UnsupportedTypeError
        If a type has no canonical form.

    Examples
    --------
    >>> xxhash64([pa.array([1, None])], 0)
    array([-2888108625965644557,  3614696996920510707])
    """
    return _hashes(len(columns[0]), [*map(_step, columns), partial(_hash_literal, salt)])


def row_digests(relation: int, table: pa.Table) -> npt.NDArray[np.int64]:
    """Return Spark's ``xxhash64`` of an ``int`` and of the values of rows as they are.

    They are not in canonical form. Decimals are not supported.
    """
    columns = [column.combine_chunks() for column in table.columns]
    steps: list[Callable[[slice, U64], U64]] = [partial(_hash_literal, relation)]
    steps += [_step(column, is_canonical=False) for column in columns]
    return _hashes(table.num_rows, steps)


def _hashes(n: int, steps: Sequence[Callable[[slice, U64], U64]]) -> npt.NDArray[np.int64]:
    """Return the hashes of rows after these steps."""
    hashes = np.empty(n, np.uint64)
    for start in range(0, n, _BLOCK):
        part = slice(start, min(start + _BLOCK, n))
        seeds = np.full(part.stop - start, _SEED, np.uint64)
        for step in steps:
            seeds = step(part, seeds)
        hashes[part] = seeds
    return hashes.view(np.int64)


def _hash_literal(value: int, part: slice, seeds: U64) -> U64:  # noqa: ARG001  # the rows of every step
    return _hash_int(np.full(len(seeds), value & _MASK, np.uint64), seeds)


def _step(column: pa.Array, *, is_canonical: bool = True) -> Callable[[slice, U64], U64]:
    """Return a function that hashes rows of a column with seeds, which nulls leave as they are.

    Integers of 32 bits and fewer are hashed as bigint in canonical form, else as they are.
    """
    nulls = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    kind = column.type
    is_text = pa.types.is_string(kind) or pa.types.is_binary(kind) or _is_large(kind)
    hashed: Callable[[slice, U64], U64]
    if is_text:
        hashed = _Texts(column)
    elif not is_canonical and pa.types.is_integer(kind) and kind.bit_width <= 32:
        words = np.asarray(column.fill_null(0)).astype(np.int64).view(np.uint64) & np.uint64(_MASK)
        hashed = partial(_hash_part, _hash_int, words)
    else:
        hashed = partial(_hash_part, *_canonical(column))

    def step(part: slice, seeds: U64) -> U64:
        after = hashed(part, seeds)
        return after if nulls is None else np.where(nulls[part], seeds, after)

    return step


def _hash_part(hash_words: Callable[[U64, U64], U64], words: U64, part: slice, seeds: U64) -> U64:
    return hash_words(words[part], seeds)


def _is_large(kind: pa.DataType) -> bool:
    return bool(pa.types.is_large_string(kind) or pa.types.is_large_binary(kind))


def _canonical(column: pa.Array) -> tuple[Callable[[U64, U64], U64], U64]:
    """Return the values of a column as `canonical` has them, as words, and their hash function."""
    kind = column.type
    if pa.types.is_decimal(kind):
        return _hash_long, _double_bits(_doubles(column))
    if column.null_count:
        column = column.fill_null(pa.scalar(False) if pa.types.is_boolean(kind) else _zero(kind))
    if pa.types.is_integer(kind):
        return _hash_long, np.asarray(column).astype(np.int64).view(np.uint64)
    if pa.types.is_timestamp(kind):
        return _hash_long, np.asarray(column.cast(pa.int64())).view(np.uint64)
    if pa.types.is_float64(kind):
        return _hash_long, _double_bits(np.asarray(column))
    if pa.types.is_float32(kind):
        values = np.asarray(column) + np.float32(0)  # -0.0 is 0.0
        bits = np.where(np.isnan(values), np.uint32(0x7FC00000), values.view(np.uint32))
        return _hash_int, bits.astype(np.uint64)
    if pa.types.is_boolean(kind):
        return _hash_int, column.to_numpy(zero_copy_only=False).astype(np.uint64)
    if _is_day(kind):
        days = np.asarray(column.cast(pa.int32()))
        return _hash_int, days.view(np.uint32).astype(np.uint64)
    raise UnsupportedTypeError.unsupported(
        f"a column of type '{kind}' on cells", remedy="Cast it, or use layout='one'."
    )


def _is_day(kind: pa.DataType) -> bool:
    return bool(pa.types.is_date32(kind))


def _zero(kind: pa.DataType) -> pa.Scalar:
    return pa.scalar(0, pa.int32() if _is_day(kind) else pa.int64()).cast(kind)


def _double_bits(values: npt.NDArray[np.float64]) -> U64:
    """Return doubles as words: -0.0 is 0.0, and there is one NaN."""
    values = values + 0.0
    return np.where(np.isnan(values), np.uint64(0x7FF8000000000000), values.view(np.uint64))


def _doubles(column: pa.Array) -> npt.NDArray[np.float64]:
    """Return the doubles nearest to decimals; any value for nulls."""
    kind = column.type
    if kind.precision <= _EXACT_DIGITS and pa.types.is_decimal128(kind):
        low_words = np.frombuffer(column.buffers()[1], np.int64)[::2][column.offset : column.offset + len(column)]
        doubles: npt.NDArray[np.float64] = low_words / 10.0**kind.scale
        return doubles
    texts = column.cast(pa.string()).fill_null("0")
    return np.asarray(pc.cast(texts, pa.float64()))


# XXH64 of one word, and of bytes. Sums and products wrap, as they do in C.


def _rotated(values: U64, bits: int) -> U64:
    return (values << np.uint64(bits)) | (values >> np.uint64(64 - bits))


def _round(state: U64, words: U64) -> U64:
    return _rotated(state + words * _P2, 31) * _P1


def _add_long(state: U64, words: U64) -> U64:
    return _rotated(state ^ _rotated(words * _P2, 31) * _P1, 27) * _P1 + _P4


def _add_int(state: U64, words: U64) -> U64:
    return _rotated(state ^ words * _P1, 23) * _P2 + _P3


def _finished(state: U64) -> U64:
    state = (state ^ state >> np.uint64(33)) * _P2
    state = (state ^ state >> np.uint64(29)) * _P3
    return state ^ state >> np.uint64(32)


def _hash_long(words: U64, seeds: U64) -> U64:
    return _finished(_add_long(seeds + _P5 + np.uint64(8), words))


def _hash_int(words: U64, seeds: U64) -> U64:
    return _finished(_add_int(seeds + _P5 + np.uint64(4), words))


class _Texts:
    """The bytes of a column of strings or binary values, hashed length by length."""

    def __init__(self, column: pa.Array) -> None:
        _, offsets, data = column.buffers()
        width = np.int64 if _is_large(column.type) else np.int32
        self._offsets = np.frombuffer(offsets, width)[column.offset : column.offset + len(column) + 1].astype(np.int64)
        self._bytes = np.frombuffer(data if data is not None else b"", np.uint8)

    def __call__(self, part: slice, seeds: U64) -> U64:
        starts = self._offsets[part]
        lengths = self._offsets[part.start + 1 : part.stop + 1] - starts
        hashes = np.empty(len(seeds), np.uint64)
        for length in np.unique(lengths).tolist():
            rows = np.flatnonzero(lengths == length)
            values = self._bytes[starts[rows, None] + np.arange(length)]
            hashes[rows] = _hash_bytes(values, seeds[rows])
        return hashes


def _hash_bytes(values: npt.NDArray[np.uint8], seeds: U64) -> U64:
    """Return the hashes of rows of bytes of one length."""
    length = values.shape[1]
    place = 0

    def words(kind: str, size: int) -> U64:
        piece = np.ascontiguousarray(values[:, place : place + size])
        return piece.view(kind)[:, 0].astype(np.uint64)

    if length >= 32:
        lanes = [seeds + _P1 + _P2, seeds + _P2, seeds.copy(), seeds - _P1]
        while place <= length - 32:
            for i in range(4):
                lanes[i] = _round(lanes[i], words("<u8", 8))
                place += 8
        state = reduce(np.add, map(_rotated, lanes, (1, 7, 12, 18)))
        for lane in lanes:
            state = (state ^ _rotated(lane * _P2, 31) * _P1) * _P1 + _P4
    else:
        state = seeds + _P5
    state = state + np.uint64(length)
    while place <= length - 8:
        state = _add_long(state, words("<u8", 8))
        place += 8
    if place <= length - 4:
        state = _add_int(state, words("<u4", 4))
        place += 4
    while place < length:
        state = _rotated(state ^ words("u1", 1) * _P5, 11) * _P1
        place += 1
    return _finished(state)

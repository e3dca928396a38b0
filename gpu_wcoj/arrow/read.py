"""Encoding of one column: an Arrow array, a NumPy array or Python values to codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gpu_wcoj.arrow.types import SUPPORTED, enum_type, storage_of, type_of
from gpu_wcoj.backend import Backend
from gpu_wcoj.budget import TEXT_BYTES, reserve
from gpu_wcoj.data.column import BoolArray, Column, Dictionary, Int64Array, float_codes, floats_of
from gpu_wcoj.data.rows import checked_values, is_masked_array
from gpu_wcoj.data.schema import FULL, FULL_UINT64, INT64, INTERVAL, MAX_DIGITS, DataType
from gpu_wcoj.data.wide import entry_of
from gpu_wcoj.errors import SchemaError, TypeMismatchError, UnsupportedTypeError, counted

_INT64 = pa.int64().id


def encode(
    array: pa.Array | pa.ChunkedArray,
    kind: DataType | None = None,
    *,
    string: Dictionary | None = None,
    binary: Dictionary | None = None,
    what: str = "the column",
) -> Column:
    """Encode an Arrow array as a column of its own type, or of `kind`.

    `kind` must hold all of its values.

    Integers of 64 bits without nulls are not copied: see `Column.unshared`.

    Parameters
    ----------
    string, binary
        The dictionaries that text and bytes are added to; new ones if None.
    what
        The name of the column in messages.

    Raises
    ------
    UnsupportedTypeError
        If the type, or a value of it, is not supported.
    TypeMismatchError
        If a value is not one of `kind`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> encode(pa.array([1.5, None, -0.0])).valid
    array([ True, False,  True])
    """
    if isinstance(array, pa.ChunkedArray):
        if array.num_chunks != 1:
            return _encode_chunks(array, kind, string, binary, what)
        array = array.chunk(0)
    reserve(8 * len(array), f"reading {what}", len(array))
    if array.type.id == _INT64 and array.null_count == 0:
        codes = array.to_numpy()
        column = Column(INT64, codes if codes.flags.aligned else codes.copy())
    elif pa.types.is_null(array.type):
        column = _all_null(len(array), kind, string, binary, what)
    else:
        try:
            if pa.types.is_dictionary(array.type) and array.type.ordered:
                column = _encode_enum(array)
            else:
                column = _encode(array, type_of(array.type), string, binary)
        except UnsupportedTypeError as error:
            raise UnsupportedTypeError(f"{what}: {error}") from None
    return as_kind(column, kind, what, binary)


def encode_numpy(
    values: npt.NDArray[Any],
    kind: DataType | None = None,
    *,
    string: Dictionary | None = None,
    binary: Dictionary | None = None,
    what: str = "the column",
) -> Column:
    """Encode a one-dimensional NumPy array, masked where null; see `encode`.

    The column shares no memory with it.

    Examples
    --------
    >>> encode_numpy(np.array([True, False])).type
    DataType(name='bool')
    """
    if values.ndim == 1 and values.dtype == np.int64 and not is_masked_array(values):
        return as_kind(Column(INT64, np.array(values, np.int64)), kind, what, binary)
    return encode(as_arrow(values, what), kind, string=string, binary=binary, what=what)


def encode_values(
    values: Sequence[Any],
    kind: DataType | None = None,
    *,
    string: Dictionary | None = None,
    binary: Dictionary | None = None,
    what: str = "the column",
) -> Column:
    """Encode Python values of one type, None where null; see `encode`.

    `gpu_wcoj.data.rows.checked_values` validates them.

    Examples
    --------
    >>> encode_values([1, None]).codes
    array([1, 0])
    """
    checked = checked_values(values, what)
    if isinstance(checked, np.ndarray):
        return encode_numpy(checked, kind, string=string, binary=binary, what=what)
    return encode(_of_checked(checked, what), kind, string=string, binary=binary, what=what)


def as_arrow(values: Any, what: str = "the column") -> pa.Array | pa.ChunkedArray:
    """Return one column as an Arrow array in its exact type, or raise an error that names it.

    Parameters
    ----------
    values
        An Arrow array, which is returned unchanged, a NumPy array, or a sequence of Python values. The result shares no
        memory with the last two.
    what
        The name of the column in messages.

    Raises
    ------
    TypeMismatchError, UnsupportedTypeError, SchemaError
        If values are of several types, or the type of a value or of the array is not supported.

    Examples
    --------
    >>> as_arrow(np.array(["1970-01-02", "NaT"], "M8[D]")).to_pylist()
    [datetime.date(1970, 1, 2), None]
    """
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    if not isinstance(values, np.ndarray):
        checked = checked_values(values, what)
        return as_arrow(checked, what) if isinstance(checked, np.ndarray) else _of_checked(checked, what)
    if values.ndim != 1:
        raise SchemaError.mismatch(
            what, "has the wrong shape", values.shape, "a single dimension", "Pass an array per column."
        )
    if values.dtype.kind in "OTSU":  # PyArrow would infer types, and end text at its first NUL
        return as_arrow(values.tolist(), what)
    mask = np.ma.getmaskarray(values) if is_masked_array(values) else None
    native = np.array(values, values.dtype.newbyteorder("="), subok=False)
    if values.dtype.kind in "mM":
        native = _in_arrow_units(native, mask, what)
    try:
        return pa.array(native, mask=mask)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise UnsupportedTypeError(
            f"{what}: an array of type '{values.dtype}' is not supported: {error}.\n{SUPPORTED}"
        ) from None


_ARROW_UNITS = {
    "M": {**dict.fromkeys("YMWD", "D"), **dict.fromkeys("hms", "s"), "ms": "ms", "us": "us",
          **dict.fromkeys(("ns", "ps", "fs", "as"), "ns"), "generic": "D"},
    "m": {**dict.fromkeys("WDhms", "s"), "ms": "ms", "us": "us", **dict.fromkeys(("ns", "ps", "fs", "as"), "ns"),
          "generic": "s"},
}  # fmt: skip
"""Arrow's units for NumPy's units of points in time (M) and of durations (m)."""


def _in_arrow_units(times: npt.NDArray[Any], mask: BoolArray | None, what: str) -> npt.NDArray[Any]:
    """Return times in a unit of Arrow.

    Arrow itself ignores multiples of units, and wraps days to 32 bits.

    Raises
    ------
    UnsupportedTypeError
        If a value is finer than nanoseconds, or outside the unit.
    """
    unit, multiple = np.datetime_data(times.dtype)
    target = _ARROW_UNITS[times.dtype.kind].get(unit)
    if target is None:
        raise UnsupportedTypeError(
            f"{what}: an array of type '{times.dtype}' is not supported: months and years differ in length.\n"
            "  Cast it to days before you pass it, or pass integers."
        )
    present = ~np.isnat(times)
    if mask is not None:
        present &= ~mask
    counts = times.view(np.int64)
    converted = times if (unit, multiple) == (target, 1) else times.astype(f"{times.dtype.kind}8[{target}]")
    same = converted.astype(times.dtype) == times
    if target == "D":
        days = converted.view(np.int64)
        same &= (days >= -(2**31)) & (days < 2**31)
    wrong = present & ~(same & ((converted.view(np.int64) < 0) == (counts < 0)))
    if bool(wrong.any()):
        row = int(wrong.argmax())
        limit = "dates, days of 32 bits from 1970 on" if target == "D" else f"times in '{target}'"
        raise UnsupportedTypeError(
            f"{what}: the value {times[row]!r} (row {row}) is outside {limit}.\n"
            "  Cast the array to 'M8[s]', or leave out the row, before you pass it."
        )
    return converted


def _of_checked(values: list[Any], what: str) -> pa.Array | pa.ChunkedArray:
    """Convert values of one type, as `checked_values` returns them, to Arrow."""
    try:
        array = pa.array(values)
    except (pa.ArrowException, OverflowError, ValueError) as error:
        row = next((row for row, value in enumerate(values) if not _has_place(value)), None)
        subject = "the values" if row is None else f"the value {values[row]!r:.80} (row {row})"
        if isinstance(error, UnicodeEncodeError):
            raise UnsupportedTypeError(
                f"{what}: the text {values[row or 0]!r:.80} is not valid Unicode: {error.reason} (row {row}).\n"
                "  Repair it, or pass it as bytes."
            ) from None
        raise UnsupportedTypeError(
            f"{what}: {subject} cannot be stored: {str(error).rstrip('.')}.\n{SUPPORTED}"
        ) from None
    if pa.types.is_timestamp(array.type) and array.type.tz is not None:
        _check_zones(values, array, what)
    return array


def _has_place(value: object) -> bool:
    try:
        pa.array([value])
    except (pa.ArrowException, OverflowError, ValueError):
        return False
    return True


_FIRST, _LAST = (np.datetime64(text, "us").astype(np.int64) for text in ("0001-01-01", "9999-12-31T23:59:59.999999"))


def _check_zones(values: list[Any], array: pa.Array, what: str) -> None:
    """Refuse zones without a name, and instants outside Python's years in UTC."""
    zones = dict.fromkeys(value.tzinfo for value in values if value is not None)
    for zone in zones:
        try:
            pa.lib.string_to_tzinfo(pa.lib.tzinfo_to_string(zone))
        except (pa.ArrowException, LookupError, ValueError):
            row = next(row for row, value in enumerate(values) if value is not None and value.tzinfo is zone)
            raise UnsupportedTypeError(
                f"{what}: the value {values[row]!r:.120} (row {row}) has a zone without a standard name.\n"
                "  Use a zoneinfo.ZoneInfo or datetime.UTC: value.astimezone(datetime.UTC)."
            ) from None
    instants = array.cast(pa.int64()).fill_null(0).to_numpy()
    beyond = (instants < _FIRST) | (instants > _LAST)
    if bool(beyond.any()):
        row = int(beyond.argmax())
        raise UnsupportedTypeError(
            f"{what}: the value {values[row]!r:.120} (row {row}) is outside the years 1 to 9999 in UTC.\n"
            "  Leave the zone out in the complete column, or use a time within these years."
        )


def as_kind(column: Column, kind: DataType | None, what: str, binary: Dictionary | None = None) -> Column:
    """Return the column as `kind`, if that is not None; errors begin with `what`."""
    if kind is None or kind == column.type:
        return column
    if "wide" in (kind.family, column.type.family):
        reserve(TEXT_BYTES * len(column), f"converting {what} to '{kind.name}',", len(column))
    try:
        return column.as_type(kind, binary)
    except TypeMismatchError as error:
        raise TypeMismatchError(f"{what}: {error}") from None


def _encode_chunks(
    array: pa.ChunkedArray, kind: DataType | None, string: Dictionary | None, binary: Dictionary | None, what: str
) -> Column:
    string = Dictionary("string") if string is None else string
    binary = Dictionary("binary") if binary is None else binary
    chunks = array.chunks or [pa.array([], array.type)]
    parts = [encode(chunk, kind, string=string, binary=binary, what=what) for chunk in chunks]
    common = parts[0].type
    for part in parts[1:]:
        common = common.common(part.type)
    return _joined([part.as_type(common, binary) for part in parts])


def _joined(parts: Sequence[Column]) -> Column:
    if len(parts) == 1:
        return parts[0]
    valid = None
    if any(part.valid is not None for part in parts):
        valid = np.concatenate([np.ones(len(part), bool) if part.valid is None else part.valid for part in parts])
    return Column(parts[0].type, np.concatenate([part.codes for part in parts]), valid, parts[0].dictionary)


def _all_null(
    size: int, kind: DataType | None, string: Dictionary | None, binary: Dictionary | None, what: str
) -> Column:
    if kind is None and size:
        raise UnsupportedTypeError(
            f"{what} holds nothing but nulls, so it has no type ('null').\n"
            "  Give the column a type where it is created, or declare the relation's types."
        )
    kind = kind or INT64
    valid = np.zeros(size, bool) if size else None
    return Column(kind, np.zeros(size, np.int64), valid, _dictionary_for(kind, string, binary))


def _dictionary_for(kind: DataType, string: Dictionary | None, binary: Dictionary | None) -> Dictionary | None:
    # An empty dictionary is falsy: `or` would replace it.
    if kind.family == "string":
        return Dictionary("string") if string is None else string
    if kind.dictionary == "binary":
        return Dictionary("binary") if binary is None else binary
    return None


def _encode(array: pa.Array, kind: DataType, string: Dictionary | None, binary: Dictionary | None) -> Column:
    if kind.name != kind.value_name:
        return _encode_categories(array, kind, string, binary)
    valid = _mask(array)
    if (kind.name == "uint64" and _exceeds_int64(array)) or (kind.family == "decimal" and _exceeds_digits(array, kind)):
        kind = DataType(f"{kind.name}{FULL}")
    dictionary = _dictionary_for(kind, string, binary)
    if dictionary is not None:
        reserve(2 * array.nbytes + TEXT_BYTES * len(array), f"reading values of type '{kind.name}',", len(array))
        if kind.family in ("string", "binary"):
            return Column(kind, dictionary.encode(array), valid, dictionary)
        codes = np.zeros(len(array), np.int64)
        present = slice(None) if valid is None else valid
        if kind.family == "nested":  # Arrow drops no null of a nested value with views of texts
            parts = _parts(array)
            rows = range(len(parts)) if valid is None else np.flatnonzero(valid).tolist()
            codes[present] = dictionary.codes_of([parts[row] for row in rows])
        else:
            codes[present] = _entry_codes(array.drop_null(), kind, dictionary)
        return Column(kind, codes, valid, dictionary)
    codes = _fixed_width_codes(array, kind, valid)
    return Column(kind, codes if valid is None else np.where(valid, codes, 0), valid)


def _exceeds_int64(array: pa.Array) -> bool:
    """Return whether an unsigned integer of 64 bits is above 2^63-1."""
    if not len(array):
        return False
    beyond = np.frombuffer(array.buffers()[1], np.uint64, array.offset + len(array))[array.offset :] >= np.uint64(2**63)
    valid = _mask(array) if bool(beyond.any()) else None
    return bool((beyond if valid is None else beyond & valid).any())


def _exceeds_digits(array: pa.Array, kind: DataType) -> bool:
    """Return whether a decimal has more than 18 digits."""
    if kind.digits[0] <= MAX_DIGITS:
        return False
    _, fits = _unscaled(array, kind)
    valid = _mask(array)
    return not bool((fits if valid is None else fits | ~valid).all())


def _entry_codes(array: pa.Array, kind: DataType, dictionary: Dictionary) -> Int64Array:
    """Return the codes of values without nulls that a dictionary holds as bytes.

    Each distinct number is written once.
    """
    if kind.family == "uuid":
        return dictionary.encode(array.storage)
    distinct = array.dictionary_encode()
    values = distinct.dictionary
    if pa.types.is_unsigned_integer(array.type):
        entries = [entry_of(value) for value in values.to_pylist()]
    else:
        scale = kind.digits[1]
        size = values.type.byte_width
        raw = values.buffers()[1].to_pybytes()[values.offset * size :]
        codes = [
            int.from_bytes(raw[at : at + size], "little", signed=True) for at in range(0, len(values) * size, size)
        ]
        fits = np.array([scale <= 38 and abs(code) * 10 ** (38 - scale) < 10**76 for code in codes], np.bool_)
        _refuse_outside(fits, None, kind, values, "has more than 38 digits before or after its point")
        entries = [entry_of(code, scale) for code in codes]
    places: Int64Array = distinct.indices.to_numpy().astype(np.int64)
    return dictionary.codes_of(entries)[places]


_NULL, _PRESENT = b"\0", b"\1"


def _parts(array: pa.Array) -> list[bytes]:
    """Return the values of an array as bytes, part by part; equal values have equal bytes.

    A byte is 0 for null. After a 1 follow the code of a number or of a time in 8 bytes, the length and the bytes of a
    text, the length and the values of a list, or the fields of a struct.
    """
    kind = array.type
    present = array.is_valid().to_pylist()
    if pa.types.is_struct(kind):
        fields = [_parts(field) for field in array.flatten()]
        rows = zip(*fields, strict=True) if fields else [()] * len(array)
        return [_PRESENT + b"".join(row) if there else _NULL for row, there in zip(rows, present, strict=True)]
    if pa.types.is_nested(kind):
        import pyarrow.compute as pc

        if pa.types.is_map(kind):
            array = array.cast(pa.list_(pa.struct([kind.key_field, kind.item_field])))
        items = iter(_parts(array.flatten()))
        sizes = pc.list_value_length(array).to_pylist()
        return [
            _NULL if size is None else _PRESENT + size.to_bytes(8, "little") + b"".join(islice(items, size))
            for size in sizes
        ]
    if pa.types.is_null(kind):
        return [_NULL] * len(array)
    column = encode(array)
    codes: list[int] = column.codes.tolist()
    if column.dictionary is None:
        texts = [code.to_bytes(8, "little", signed=True) for code in codes]
    else:
        entries = [value.encode() if isinstance(value, str) else value for value in column.dictionary.values()] or [b""]
        texts = [len(entries[code]).to_bytes(8, "little") + entries[code] for code in codes]
    return [_PRESENT + text if there else _NULL for text, there in zip(texts, present, strict=True)]


def _encode_enum(array: pa.DictionaryArray) -> Column:
    """Encode an ordered dictionary array by the positions in its dictionary."""
    kind = enum_type(array.type, array.dictionary)
    valid = _mask(array.indices)
    positions = array.indices.fill_null(0).to_numpy().astype(np.int64)
    if len(positions) and (valid is None or valid.any()):
        used = positions if valid is None else positions[valid]
        if not 0 <= int(used.min()) <= int(used.max()) < len(array.dictionary):
            raise UnsupportedTypeError(f"type '{array.type}': an index is outside the dictionary; the data is damaged.")
    return Column(kind, positions if valid is None else np.where(valid, positions, 0), valid)


def _mask(array: pa.Array) -> BoolArray | None:
    valid: BoolArray | None = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None
    return valid


def _encode_categories(
    array: pa.DictionaryArray,
    kind: DataType,
    string: Dictionary | None,
    binary: Dictionary | None,
) -> Column:
    """Encode a dictionary-encoded array by the values in use.

    Its dictionary may be much longer than the array.
    """
    valid = _mask(array.indices)  # of the indices: a valid index may still point at a null value
    used_indices = array.indices.drop_null().to_numpy().astype(np.int64)
    values = _without_views(array.dictionary)
    if len(used_indices) and not 0 <= int(used_indices.min()) <= int(used_indices.max()) < len(values):
        raise UnsupportedTypeError(f"type '{array.type}': an index is outside the dictionary; the data is damaged.")
    if len(values) <= len(used_indices):
        in_use = np.zeros(len(values), bool)
        in_use[used_indices] = True
        used, places = np.flatnonzero(in_use), (np.cumsum(in_use) - 1)[used_indices]
    else:
        used, places = np.unique(used_indices, return_inverse=True)
    values = values if len(used) == len(values) else values.take(pa.array(used))
    coded = _encode(values, DataType(kind.value_name), string, binary)
    if coded.type.name == FULL_UINT64:
        raise UnsupportedTypeError(f"type '{array.type}' with values above 2^63-1 is not supported.\n{SUPPORTED}")
    codes = np.zeros(len(array), np.int64)
    codes[slice(None) if valid is None else valid] = coded.codes[places]
    if coded.valid is not None:
        valid = np.ones(len(array), bool) if valid is None else valid.copy()
        valid[valid] = coded.valid[places]
    return Column(kind, codes, valid, coded.dictionary)


def _without_views(array: pa.Array) -> pa.Array:
    if pa.types.is_string_view(array.type):
        return array.cast(pa.large_string())
    return array.cast(pa.large_binary()) if pa.types.is_binary_view(array.type) else array


def _fixed_width_codes(array: pa.Array, kind: DataType, valid: BoolArray | None) -> Int64Array:
    """Return codes of numbers, booleans and times; codes of null rows are undefined."""
    if kind.family == "bool":
        array = array.cast(pa.uint8())
    storage, words = storage_of(kind)
    count = array.offset + len(array)
    if not len(array):
        return np.empty(0, np.int64)
    raw = np.frombuffer(array.buffers()[1], storage, count * words)[array.offset * words :]
    if kind.family in ("float32", "float64"):
        return float_codes(raw)
    if kind.family != "decimal":
        if kind.name == INTERVAL:
            _refuse_outside(raw["months"] == 0, valid, kind, array, "has months, which differ in length")
            days = raw["days"].astype(np.int64)
            seconds = np.abs(days) * 86_400 + np.abs(raw["nanoseconds"]) // 10**9
            _refuse_outside(seconds < 2**63 // 10**9, valid, kind, array, "has more than 292 years")
            spans: Int64Array = days * (86_400 * 10**9) + raw["nanoseconds"]
            return spans
        if raw.dtype == np.uint64 and valid is not None:
            raw = np.where(valid, raw, 0)
        codes = np.require(raw.astype(np.int64, copy=False), requirements="A")
        if kind.name == "date64[ms]":
            _refuse_outside(codes % 86_400_000 == 0, valid, kind, codes, "(milliseconds) is not a whole day")
        return codes
    codes, fits = _unscaled(array, kind)
    _refuse_outside(fits, valid, kind, array, "has more than 18 digits, or than its type")
    return codes


def _unscaled(array: pa.Array, kind: DataType) -> tuple[Int64Array, BoolArray]:
    """Return decimals as integers, and a mask of those that are right in int64."""
    storage, words = storage_of(kind)
    raw = np.frombuffer(array.buffers()[1], storage, (array.offset + len(array)) * words)[array.offset * words :]
    codes = raw[::words].astype(np.int64)
    low, high = kind.code_range
    fits = (codes >= low) & (codes <= high)
    for word in range(1, words):
        fits &= raw[word::words] == codes >> 63
    return codes, fits


def _refuse_outside(fits: BoolArray, valid: BoolArray | None, kind: DataType, values: Any, why: str) -> None:
    if valid is not None:
        fits = fits | ~valid
    if not bool(fits.all()):
        row = int(np.argmin(fits))
        value, shown = values[row], kind.name
        if kind.name == INTERVAL:
            (months, days, _), shown = value.as_py(), kind.label
            value = f"{counted(months, 'month')}, {counted(days, 'day')}"
        raise UnsupportedTypeError(
            f"the value {value} (row {row}) of type '{shown}' {why}.\n"
            "  Cast the column to text, or repair it before you pass it."
        )


# Conversion between codes and Arrow's device layout: buffers, offsets and bit masks.
#
# No library is needed.
#
# Two details differ from Arrow in host memory, as in cuDF: a boolean takes a byte, and a mask is padded to 64 bytes.


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

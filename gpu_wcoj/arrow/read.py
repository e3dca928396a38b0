"""Encoding of one column: an Arrow array, a NumPy array or Python values to codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gpu_wcoj.arrow.write import SUPPORTED, storage_of, to_pyarrow, type_of
from gpu_wcoj.backend import Backend
from gpu_wcoj.data.column import BoolArray, Column, Dictionary, Int64Array, float_codes, floats_of
from gpu_wcoj.data.rows import checked_values, is_masked_array
from gpu_wcoj.data.schema import INT64, NO_DECIMAL, DataType
from gpu_wcoj.errors import SchemaError, TypeMismatchError, UnsupportedTypeError

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
    if array.type.id == _INT64 and array.null_count == 0:
        codes = array.to_numpy()
        column = Column(INT64, codes if codes.flags.aligned else codes.copy())
    elif pa.types.is_null(array.type):
        column = _all_null(len(array), kind, string, binary, what)
    else:
        try:
            column = _encode(array, type_of(array.type), string, binary)
        except UnsupportedTypeError as error:
            raise UnsupportedTypeError(f"{what}: {error}") from None
    return as_kind(column, kind, what)


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
        return as_kind(Column(INT64, np.array(values, np.int64)), kind, what)
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
        _check_unit(native, mask, what)
    try:
        return pa.array(native, mask=mask)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise UnsupportedTypeError(
            f"{what}: an array of type '{values.dtype}' is not supported: {error}.\n{SUPPORTED}"
        ) from None


_ARROW_UNITS = ("D", "s", "ms", "us", "ns")
"""Units of NumPy times that Arrow supports."""


def _check_unit(times: npt.NDArray[Any], mask: BoolArray | None, what: str) -> None:
    """Refuse times that Arrow would misread.

    PyArrow ignores multiples of units, and wraps days to 32 bits.
    """
    unit, multiple = np.datetime_data(times.dtype)
    if unit not in _ARROW_UNITS or multiple != 1:
        raise UnsupportedTypeError(
            f"{what}: an array of type '{times.dtype}' is not supported: expected unit {', '.join(_ARROW_UNITS)}.\n"
            "  Cast it before you pass it: values.astype('M8[s]')."
        )
    if unit == "D" and len(times):
        counts = times.view(np.int64)
        beyond = ((counts < -(2**31)) | (counts >= 2**31)) & ~np.isnat(times)
        if mask is not None:
            beyond &= ~mask
        if bool(beyond.any()):
            row = int(beyond.argmax())
            raise UnsupportedTypeError(
                f"{what}: the value {times[row]!r} (row {row}) is outside dates, days of 32 bits from 1970 on.\n"
                "  Cast the array to 'M8[s]', or leave out the row, before you pass it."
            )


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


def as_kind(column: Column, kind: DataType | None, what: str) -> Column:
    """Return the column as `kind`, if that is not None; errors begin with `what`."""
    if kind is None:
        return column
    try:
        return column.as_type(kind)
    except TypeMismatchError as error:
        raise TypeMismatchError(f"{what}: {error}") from None


def _encode_chunks(
    array: pa.ChunkedArray, kind: DataType | None, string: Dictionary | None, binary: Dictionary | None, what: str
) -> Column:
    string = Dictionary("string") if string is None else string
    binary = Dictionary("binary") if binary is None else binary
    chunks = array.chunks or [pa.array([], array.type)]
    return _joined([encode(chunk, kind, string=string, binary=binary, what=what) for chunk in chunks])


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
    if kind.family == "binary":
        return Dictionary("binary") if binary is None else binary
    return None


def _encode(array: pa.Array, kind: DataType, string: Dictionary | None, binary: Dictionary | None) -> Column:
    if kind.name != kind.value_name:
        return _encode_categories(array, kind, string, binary)
    valid = _mask(array)
    dictionary = _dictionary_for(kind, string, binary)
    if dictionary is not None:
        return Column(kind, dictionary.encode(array), valid, dictionary)
    codes = _fixed_width_codes(array, kind, valid)
    return Column(kind, codes if valid is None else np.where(valid, codes, 0), valid)


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
        if raw.dtype == np.uint64:
            _refuse_outside(raw < np.uint64(2**63), valid, kind, raw, "is above 2^63-1, the largest integer here")
        codes = np.require(raw.astype(np.int64, copy=False), requirements="A")
        if kind.name == "date64[ms]":
            _refuse_outside(codes % 86_400_000 == 0, valid, kind, codes, "(milliseconds) is not a whole day")
        return codes
    codes = raw[::words].astype(np.int64)
    low, high = kind.code_range
    fits = (codes >= low) & (codes <= high)
    for word in range(1, words):
        fits &= raw[word::words] == codes >> 63
    _refuse_outside(fits, valid, kind, array, "has more than 18 digits, or than its type")
    return codes


def _refuse_outside(fits: BoolArray, valid: BoolArray | None, kind: DataType, values: Any, why: str) -> None:
    if valid is not None:
        fits = fits | ~valid
    if not bool(fits.all()):
        row = int(np.argmin(fits))
        raise UnsupportedTypeError(
            f"the value {values[row]} (row {row}) of type '{kind.name}' {why}.\n"
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


# Constants of a program's text as codes of a column's type.


_FLOAT_DIGITS = 15
"""Maximum decimal digits that survive a round trip through a 64-bit float."""


def encode_constant(value: object, kind: DataType, op: str = "") -> int:
    """Return the code of a literal in a fixed-width column; dates and timestamps are texts.

    Parameters
    ----------
    op
        The operator of a comparison with the literal, or empty. In a comparison, decimals and integers may meet numbers
        with more digits than they have, and the code is one that gives the same result of the comparison.

    Raises
    ------
    TypeMismatchError
        If the literal is not a value of the type.

    Examples
    --------
    >>> encode_constant("1970-01-02", DataType("date32[day]"))
    1
    >>> encode_constant(0.05, DataType("decimal128(15, 2)"))
    5
    >>> [encode_constant(0.055, DataType("decimal128(15, 2)"), op) for op in ("<=", "<")]
    [5, 6]
    """
    if kind.family == "decimal" or isinstance(value, Decimal):
        return _of_number(value, kind, op)
    literals = _LITERALS.get(kind.family)
    if literals is not None and type(value) not in literals:
        raise TypeMismatchError.with_parts(
            f"the constant {value!r} is not a value of type '{kind.name}'",
            got=value,
            remedy="Write a constant of that type.",
        )
    if kind.family == "bool":
        return int(value is True)
    try:
        if isinstance(value, str):
            array = pa.array([value]).cast(to_pyarrow(kind))
        elif kind.family.startswith("float"):
            return int(float_codes(np.array([_as_float(value, kind)], storage_of(kind)[0]))[0])
        else:
            array = pa.array([value], to_pyarrow(kind))
    except (pa.ArrowException, OverflowError, ValueError) as error:
        if isinstance(error, TypeMismatchError):
            raise
        raise TypeMismatchError(f"the constant {value!r} is not a value of type '{kind.name}': {error}.") from None
    return int(encode(array).codes[0])


_LITERALS: dict[str, tuple[type, ...]] = {
    "integer": (int,), "bool": (bool,), "float32": (int, float), "float64": (int, float), "date": (str,),
    "timestamp": (str,), "zoned": (str,),
}  # fmt: skip
"""Types of the literals that columns are compared with, by the family of the column."""


def _as_float(value: object, kind: DataType) -> float:
    """Return a number as a float of the column's type: integers exactly, finite stays finite.

    Floats are rounded to those of 32 bits, as in any comparison of the two.
    """
    converted = float(value)  # type: ignore[arg-type]  # of an int or a float
    if kind.family == "float32" and np.isfinite(converted):
        with np.errstate(over="ignore"):
            converted = float(np.float32(converted))
    if not np.isfinite(converted) and value == value and abs(value) != np.inf:  # type: ignore[arg-type]
        raise TypeMismatchError(
            f"the constant {value!r} is too large for type '{kind.name}'.\n  Write a smaller number, or remove it."
        )
    if isinstance(value, int) and int(converted) != value:
        raise TypeMismatchError(
            f"the constant {value} is not exactly a value of type '{kind.name}': got {value}, expected an integer that "
            f"a float holds, such as {int(converted)}.\n  Write the float that is meant: {converted!r}."
        )
    return converted


def _of_number(value: object, kind: DataType, op: str) -> int:
    """Return the code of a number in a decimal column, or of a decimal in another column."""
    if kind.family in ("float32", "float64"):
        return encode_constant(float(str(value)) + 0.0, kind)  # decimals have a single zero, without a sign
    if kind.family not in ("integer", "decimal") or isinstance(value, (bool, str)):
        raise TypeMismatchError.with_parts(
            f"the constant {str(value)!r} is not a value of type '{kind.name}'", got=value
        )
    digits, exponent = _digits(Decimal(str(value)))
    if isinstance(value, float) and len(str(abs(digits))) > _FLOAT_DIGITS:
        raise TypeMismatchError.with_parts(
            f"the constant {value!r} has too many digits for a float beside decimals",
            got=value,
            expected=f"at most {_FLOAT_DIGITS} digits",
            remedy=f"Write it as a decimal: {value!r}m.",
        )
    exponent += kind.digits[1]
    code, is_exact = digits * int(10 ** max(0, exponent)), True
    if exponent < 0:
        code, over = divmod(digits, int(10**-exponent))
        is_exact = over == 0
        if not is_exact and op in ("<", ">="):
            code += 1
    low, high = kind.code_range
    if is_exact and low <= code <= high:
        return code
    if op in ("=", "!=") and kind.family == "decimal":
        return NO_DECIMAL
    if op in ("<", "<=", ">", ">=") and (kind.family == "decimal" or low <= code <= high):
        return max(-(1 << 63), min((1 << 63) - 1, code))
    what = "is not exactly a value" if not is_exact else "is outside the values"
    raise TypeMismatchError.with_parts(
        f"the constant {value} {what} of type '{kind.name}'", got=value, remedy="Compare it by '<' or '>'."
    )


def _digits(value: Decimal) -> tuple[int, int]:
    """Return the number as an integer without trailing zeros, and a power of 10."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    integer = int("".join(map(str, digits)))
    while integer and integer % 10 == 0:
        integer, exponent = integer // 10, exponent + 1
    return (-integer if sign else integer), (exponent if integer else 0)

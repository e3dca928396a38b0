"""A column in the engine's form: int64 codes and a null mask, on the host or a device."""

from __future__ import annotations

from bisect import bisect_left
from contextlib import suppress
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import cached_property
from itertools import count
from threading import RLock
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from gpu_wcoj.data.schema import INT64, DataType
from gpu_wcoj.data.wide import codes_of, entry_of
from gpu_wcoj.errors import TypeMismatchError, UnsupportedTypeError
from gpu_wcoj.locks import register_for_forks

if TYPE_CHECKING:
    import pyarrow as pa


Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


_HOLDS_VALUES = ("integer", "bool", "date", "timestamp", "zoned", "time", "duration")
"""Families whose codes are the values themselves, or their count of units."""
_NUMBERS = {"integer", "decimal", "wide"}
_N_SHOWN = 10
"""Values of a column that its text shows."""


def read_only(array: Any) -> Any:
    """Make a NumPy array and its base arrays read-only; a device array is returned unchanged.

    Arrays that are handed out share memory with the state, and only ticks may change the state.

    Examples
    --------
    >>> codes = np.arange(5)
    >>> read_only(codes[1:]).flags.writeable, codes.flags.writeable
    (False, False)
    """
    part = array
    while isinstance(part, np.ndarray):
        part.flags.writeable = False
        part = part.base
    return array


def on_host(array: Any) -> npt.NDArray[Any]:
    """Return the array as a NumPy array; a device array is copied, which waits for the device."""
    fetched: npt.NDArray[Any] = array if isinstance(array, np.ndarray) else array.get()
    return fetched


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Column:
    """Values of one type as int64 codes.

    Parameters
    ----------
    type
        The logical type.
    codes
        int64, shape (n,). Codes of null rows are 0. A NumPy or a device array; `valid` lives in the same memory.
    valid
        bool, shape (n,), False where the value is null; None if there are no nulls.
    dictionary
        For text and bytes, the dictionary of the codes; else None.

    Attributes
    ----------
    stored, stored_valid
        Codes and validity where they live.
    codes, valid
        The same as NumPy arrays; device arrays are copied when they are first read.

    Notes
    -----
    NumPy arrays become read-only, and so do the arrays that they are views of: all holders of the rows share columns.

    A column without nulls whose codes are its values (integers, booleans, dates, times) is an array to other
    libraries: it has ``__dlpack__``, and ``__cuda_array_interface__`` on a device. They return read-only memory, or a
    copy if the reader could write to it.
    """

    type: DataType
    stored: Any
    stored_valid: Any
    dictionary: Dictionary | None

    def __init__(
        self,
        type: DataType,  # noqa: A002  # the attribute is called so
        codes: Any,
        valid: Any = None,
        dictionary: Dictionary | None = None,
    ) -> None:
        attributes = vars(self)
        attributes["type"] = type
        attributes["stored"] = read_only(codes)
        attributes["stored_valid"] = read_only(valid)
        attributes["dictionary"] = dictionary
        if isinstance(codes, np.ndarray):
            attributes["codes"] = codes
            attributes["valid"] = valid

    @cached_property
    def codes(self) -> Int64Array:
        """The codes as a NumPy array."""
        return read_only(on_host(self.stored))  # type: ignore[no-any-return]

    @cached_property
    def valid(self) -> BoolArray | None:
        """The validity mask as a NumPy array."""
        return None if self.stored_valid is None else read_only(on_host(self.stored_valid))

    @property
    def is_on_host(self) -> bool:
        """True if the codes are a NumPy array."""
        return isinstance(self.stored, np.ndarray)

    def __len__(self) -> int:
        return len(self.stored)

    def __repr__(self) -> str:
        values = self.gather(slice(_N_SHOWN))._shown_values()
        more = ", ..." if len(self) > _N_SHOWN else ""
        return f"Column({self.type.label}, [{', '.join(values)}{more}])"

    def _shown_values(self) -> list[str]:
        """Return the values, not the codes, as text."""
        family = self.type.family
        values: list[Any] = self.codes.tolist()
        if self.dictionary is not None and family not in ("string", "binary"):
            return self._with_nulls(self._entries_as_text(self.dictionary))
        if self.dictionary is not None:
            values = self.dictionary.decode(self.codes, self.valid).to_pylist()
        elif family in ("float32", "float64"):
            values = floats_of(self.codes, 4 if family == "float32" else 8).tolist()
        elif family == "bool":
            values = list(map(bool, values))
        elif family in ("date", "timestamp", "zoned"):
            return self._with_nulls(self.codes.view(f"M8[{self.type.time_unit}]").astype(str).tolist())
        elif family == "time":
            instants = self.codes.view(f"M8[{self.type.time_unit}]").astype(str).tolist()
            return self._with_nulls([text.partition("T")[2] for text in instants])
        elif family == "duration":
            return self._with_nulls([f"{code} {self.type.time_unit}" for code in values])
        elif family == "enum":
            values = [self.type.categories[code] for code in values]
        elif family == "decimal":
            return self._with_nulls([str(Decimal(value).scaleb(-self.type.digits[1])) for value in values])
        return self._with_nulls(list(map(repr, values)))

    def _entries_as_text(self, dictionary: Dictionary) -> list[str]:
        """Return values that are stored as bytes; of nested ones their size."""
        entries = dictionary.values_of(self.codes) if len(dictionary) else [b""] * len(self)
        if self.type.family == "uuid":
            return [entry.hex() for entry in entries]
        if self.type.family == "nested":
            return [f"<{len(entry)} bytes>" for entry in entries]
        scale = self.type.digits[1]
        present = range(len(self)) if self.valid is None else np.flatnonzero(self.valid).tolist()
        texts = [""] * len(self)
        for row in present:
            texts[row] = str(Decimal(codes_of([entries[row]], self.type)[0]).scaleb(-scale, Context(prec=100)))
        return texts

    def _with_nulls(self, texts: list[str]) -> list[str]:
        if self.valid is None:
            return texts
        return [text if valid else "null" for text, valid in zip(texts, self.valid.tolist(), strict=True)]

    def __reduce__(self) -> Any:
        return Column, (self.type, self.codes, self.valid, self.dictionary)

    def __dlpack__(self, **options: Any) -> Any:
        values = self._values()
        if isinstance(values, np.ndarray):
            with suppress(BufferError):  # raised for readers that do not support read-only memory
                return values.__dlpack__(**options)
        return values.copy().__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._values().__dlpack_device__()

    @property
    def __cuda_array_interface__(self) -> Any:
        if isinstance(self.stored, np.ndarray):
            raise AttributeError("this column lives in host memory: it has no __cuda_array_interface__.")
        try:
            return self._device_copy.__cuda_array_interface__
        except BufferError as error:  # hasattr and getattr expect an AttributeError of a property
            raise AttributeError(str(error)) from None

    @cached_property
    def _device_copy(self) -> Any:
        """A copy of the stored codes: a reader of a device array could write to it."""
        return self._values().copy()

    def _values(self) -> Any:
        """Return the stored codes for readers that interpret them as numbers."""
        if self.stored_valid is not None:
            raise BufferError("a column with nulls has no array interface.\n  Use to_arrow() of its Z-set.")
        if self.type.family not in _HOLDS_VALUES:
            raise BufferError(
                f"a column of type '{self.type}' is stored as codes, which have no meaning outside of it.\n"
                "  Use to_arrow(), to_numpy() or to_cupy() of its Z-set."
            )
        return self.stored

    def gather(self, rows: npt.NDArray[np.intp] | Int64Array | BoolArray | slice) -> Column:
        """Return the rows at these positions, under this mask, or in this slice.

        They are on the host if the positions or the mask are there.
        """
        on_host = isinstance(rows, np.ndarray)
        codes, valid = (self.codes, self.valid) if on_host else (self.stored, self.stored_valid)
        if valid is not None:
            valid = valid[rows]
            valid = None if bool(valid.all()) else valid
        return Column(self.type, codes[rows], valid, self.dictionary)

    def unshared(self) -> Column:
        """Return the column in memory that nothing else can write to; itself if that is so already."""
        if not isinstance(self.stored, np.ndarray) or self.codes.flags.owndata:
            return self
        return Column(self.type, self.codes.copy(), self.valid, self.dictionary)

    def stack(self, column: Column, xp: Any = np) -> Column:
        """Return these rows followed by those of `column`, which has the same type and dictionary.

        Parameters
        ----------
        xp
            The module of the arrays; NumPy copies those of a device.
        """
        parts = [(part.codes, part.valid) if xp is np else (part.stored, part.stored_valid) for part in (self, column)]
        valid = None
        if any(mask is not None for _, mask in parts):
            valid = xp.concatenate([xp.ones(len(codes), bool) if mask is None else mask for codes, mask in parts])
        return Column(self.type, xp.concatenate([codes for codes, _ in parts]), valid, self.dictionary)

    def as_type(self, to: DataType, binary: Dictionary | None = None) -> Column:
        """Return the same values in another type that joins with this one; never rounded or wrapped.

        Numbers that become wide are added to `binary`, or to a new dictionary.

        Raises
        ------
        TypeMismatchError
            If the families differ, or if a value is not a value of `to`.

        Examples
        --------
        >>> import numpy as np
        >>> Column(DataType("timestamp[s]"), np.array([2])).as_type(DataType("timestamp[ms]")).codes
        array([2000])
        """
        if to == self.type:
            return self
        if "wide" in (self.type.family, to.family) and {self.type.family, to.family} <= _NUMBERS:
            return self._as_wide_or_narrow(to, Dictionary("binary") if binary is None else binary)
        if not self.type.converts_to(to):
            raise TypeMismatchError.mismatch(
                "the column",
                "has the wrong type",
                f"'{self.type}'",
                f"'{to.name}'",
                "Only integers, time units, dates and decimal scales convert. Cast the column before you pass it.",
            )
        up, down = (min(factor, 2**62) for factor in (self.type.factor_to(to), to.factor_to(self.type)))
        low, high = to.code_range
        fits = (self.codes >= max(-(-low * down // up), -(2**63))) & (self.codes <= min(high * down // up, 2**63 - 1))
        fits &= self.codes % down == 0
        if not bool(fits.all()):
            worst = int(self.codes[np.argmin(fits)])
            raise TypeMismatchError.with_parts(
                f"the value {worst} (in units of '{self.type}') is not a value of type '{to}'",
                got=worst,
                remedy="Use the wider type for both, or convert the column before you pass it.",
            )
        codes = self.codes if up == down else self.codes // down * up
        return Column(to, codes, self.valid, self.dictionary)

    def _as_wide_or_narrow(self, to: DataType, binary: Dictionary) -> Column:
        """Return numbers, of which one of the two types holds more than int64, in the other type."""
        if "integer" in (self.type.family, to.family):
            _ = self.type.common(to)  # raises for a decimal with digits after the point
        if self.type.family == "wide":
            assert self.dictionary is not None
            present_codes = self.codes if self.valid is None else self.codes[self.valid]
            used, places = np.unique(present_codes, return_inverse=True)
            numbers = codes_of(self.dictionary.values_of(used), to)
            if to.family == "wide":
                return Column(to, self.codes, self.valid, self.dictionary)
            codes = np.zeros(len(self), np.int64)
            codes[slice(None) if self.valid is None else self.valid] = np.array(numbers, np.int64)[places]
            return Column(to, codes, self.valid)
        used, places = np.unique(self.codes, return_inverse=True)
        scale = self.type.digits[1] if self.type.family == "decimal" else 0
        entries = [entry_of(code, scale) for code in used.tolist()]
        codes_of(entries, to)  # raises for a number that is not of the type
        codes = binary.codes_of(entries)[places]
        return Column(to, codes if self.valid is None else np.where(self.valid, codes, 0), self.valid, binary)

    def recode(self, dictionary: Dictionary) -> Column:
        """Return the texts or bytes as codes of `dictionary`; missing values are added to it."""
        if self.dictionary is None or self.dictionary is dictionary:
            return self
        if self.valid is None:
            codes = dictionary.recode(self.dictionary, self.codes)
        else:
            codes = np.zeros(len(self), np.int64)
            codes[self.valid] = dictionary.recode(self.dictionary, self.codes[self.valid])
        return Column(self.type, codes, self.valid, dictionary)

    @staticmethod
    def of_integers(values: Int64Array) -> Column:
        """A column of int64 values without nulls."""
        return Column(INT64, values)


def float_codes(values: Any, xp: Any = np) -> Int64Array:
    """Return int64 codes in the order of the floats.

    -0.0 is just below 0.0, and every NaN is one value above infinity.

    Non-negative floats keep their bits; negative ones have all bits but the sign flipped. Only bits are compared: a
    device may treat subnormal floats as 0 in arithmetic. Comparisons treat -0.0 as 0.0: their codes go through
    `without_zero_signs` first.

    Parameters
    ----------
    values
        float32 or float64, an array of `xp`.
    xp
        NumPy, or a device's array module.

    Examples
    --------
    >>> float_codes(np.array([0.0, -0.0, 5e-324, -5e-324]))
    array([ 0, -1,  1, -2])
    """
    width = values.dtype.itemsize
    magnitude = 2 ** (8 * width - 1) - 1
    infinity, nan = (0x7F800000, 0x7FC00000) if width == 4 else (0x7FF << 52, 0x7FF8 << 48)
    bits = xp.ascontiguousarray(values).view(f"i{width}").astype(np.int64)
    ordered = xp.where(bits < 0, bits ^ magnitude, bits)
    codes: Int64Array = xp.where((bits & magnitude) > infinity, nan, ordered)
    return codes


NEGATIVE_ZERO = -1
"""The code of -0.0, for 32-bit and 64-bit floats."""


def without_zero_signs(codes: Any, xp: Any = np) -> Any:
    """Replace -0.0 by 0.0 in float codes; a NumPy array without -0.0 is returned unchanged.

    Examples
    --------
    >>> without_zero_signs(float_codes(np.array([-0.0, 1.0]))) == float_codes(np.array([0.0, 1.0]))
    array([ True,  True])
    """
    is_negative_zero = codes == NEGATIVE_ZERO
    if xp is np and not is_negative_zero.any():  # on a device this would synchronise
        return codes
    return xp.where(is_negative_zero, 0, codes)


def floats_of(codes: Any, width: int, xp: Any = np) -> npt.NDArray[np.floating[Any]]:
    """Return the floats of `width` bytes (4 or 8) of float codes; the inverse of `float_codes`."""
    bits = xp.where(codes < 0, codes ^ (2 ** (8 * width - 1) - 1), codes)
    floats: npt.NDArray[np.floating[Any]] = bits.astype(f"i{width}").view(f"f{width}")
    return floats


# Text and bytes as int64 codes: an append-only mapping shared by a program's relations.
#
# A code is the position at which its value first arrived, so codes never change. Codes say nothing about the order of
# the values; `Dictionary.rank` does.
#
# Columns of a load have about as many values as the dictionary: Arrow finds these, and the dictionary stays an Arrow
# array. Values of a tick are few: a hash map finds these, so a tick costs time in its own size, however large the
# dictionary has become. A query that is answered once makes the map only if it needs it.


_MAX_PYTHON_VALUES = 512
"""Maximum number of values that are encoded one by one in Python; longer arrays use Arrow."""

_ARROW_FRACTION = 4
"""Inverse of the fraction of the dictionary from which on Arrow finds the values of an array.

Arrow hashes the whole dictionary for it: some 80 ns a value, where the map takes 400 ns for a value of the array."""

_MAX_SCANS = 16
"""Number of single values that are looked for in the array before the map is made: it takes as long as 30 of them."""


def _frozen(array: Int64Array) -> Int64Array:
    array.flags.writeable = False
    return array


_EMPTY = _frozen(np.empty(0, np.int64))
_RANK_OF_NULL = _frozen(np.zeros(1, np.int64))


class Dictionary:
    """An append-only mapping between values of one kind and their codes 0, 1, 2, ...

    Attributes
    ----------
    kind
        ``"string"`` or ``"binary"``.
    is_mapped
        True to keep a hash map of all values; False to make one when it is first needed.
    truncations
        How often values have been removed, after which their codes may stand for other values.

    Examples
    --------
    >>> import pyarrow as pa
    >>> names = Dictionary("string")
    >>> names.encode(pa.array(["Rome", "Oslo", "Rome"]))
    array([0, 1, 0])
    >>> names.rank()
    array([1, 0])
    >>> names.decode(names.encode(pa.array(["Oslo"]))).to_pylist()
    ['Oslo']
    """

    __slots__ = (
        "__weakref__", "_arrow", "_codes", "_lock", "_n_scans", "_order", "_rank", "_values", "is_mapped", "kind",
        "truncations",
    )  # fmt: skip

    def __init__(self, kind: Literal["string", "binary"] = "string", *, is_mapped: bool = True) -> None:
        self.kind: Literal["string", "binary"] = kind
        self.is_mapped = is_mapped
        self._values: list[str | bytes] = []
        self._codes: dict[str | bytes, int] = {}
        self._arrow: pa.Array | None = None  # the first values, and those of the map: one of the two has all
        self._n_scans = 0
        self._order, self._rank = _EMPTY, _RANK_OF_NULL
        self.truncations = 0
        self.begin_anew()
        register_for_forks(self)

    def __getstate__(self) -> tuple[Literal["string", "binary"], list[str | bytes]]:
        return self.kind, self._listed()

    def __setstate__(self, state: tuple[Literal["string", "binary"], list[str | bytes]]) -> None:
        kind, values = state
        Dictionary.__init__(self, kind)
        self._codes_of_values(values)

    def begin_anew(self) -> None:
        """Create a new, free lock.

        Rows of one tick may be read while another thread runs the next one.
        """
        self._lock = RLock()

    def fresh(self) -> Dictionary:
        """Return an empty dictionary of the same kind."""
        return Dictionary(self.kind)

    def __len__(self) -> int:
        n_values = len(self._values)
        return n_values if self._arrow is None else max(n_values, len(self._arrow))

    def __repr__(self) -> str:
        return f"Dictionary({self.kind!r}, {len(self)} values)"

    @property
    def _arrow_type(self) -> pa.DataType:
        import pyarrow as pa

        return pa.large_string() if self.kind == "string" else pa.large_binary()

    def encode(self, array: pa.Array | pa.ChunkedArray) -> Int64Array:
        """Return the codes of the values; missing values are added in order. Nulls get code 0.

        Raises
        ------
        UnsupportedTypeError
            If a text is not valid UTF-8.
        """
        import pyarrow as pa

        if isinstance(array, pa.ChunkedArray):
            return np.concatenate([np.empty(0, np.int64), *map(self.encode, array.chunks)])
        if array.null_count:
            present = array.is_valid().to_numpy(zero_copy_only=False)
            codes = np.zeros(len(array), np.int64)
            codes[present] = self.encode(array.cast(self._arrow_type).drop_null())
            return codes
        if len(array) <= _MAX_PYTHON_VALUES:
            return self._codes_of(array)
        encoded = array.cast(self._arrow_type).dictionary_encode()
        places: Int64Array = encoded.indices.to_numpy()
        distinct = encoded.dictionary
        if len(distinct) * _ARROW_FRACTION < len(self):
            return self._codes_of(distinct)[places]
        try:
            distinct.validate(full=True)
        except pa.ArrowInvalid:
            self._codes_of(distinct)  # names the text that is not valid
            raise
        return self._codes_of_distinct(distinct)[places]

    def encode_one(self, value: str | bytes) -> int:
        """Return the code of one value, which is added if it is missing.

        Raises
        ------
        TypeMismatchError
            If the value is not of this dictionary's kind.
        UnsupportedTypeError
            If a text is not valid Unicode.
        """
        if not isinstance(value, str if self.kind == "string" else bytes):
            raise TypeMismatchError.wrong_type("the value", value, f"{self.kind}, the kind of this dictionary")
        if isinstance(value, str):
            try:
                value.encode()
            except UnicodeEncodeError as error:
                raise UnsupportedTypeError(f"the text {value!r} is not valid Unicode: {error.reason}.") from None
        code = self.find(value)
        return int(self._codes_of_values([value])[0]) if code is None else code

    def codes_of(self, values: list[str] | list[bytes]) -> Int64Array:
        """Return the codes of valid values of this kind; missing values are added."""
        return self._codes_of_values(values)

    def values_of(self, codes: Int64Array) -> list[Any]:
        """Return the values of the codes."""
        with self._lock:
            if len(self._values) == len(self):
                return [self._values[code] for code in codes.tolist()]
        values: list[Any] = self._all_values().take(codes).to_pylist()
        return values

    def values(self) -> list[Any]:
        """Return all values, by code."""
        return list(self._values)

    def match(self, patterns: Int64Array, texts: Int64Array) -> list[bool | None]:
        """Match each text in full against the pattern beside it; None if RE2 rejects the pattern.

        Complexity
        ----------
        Linear in the texts for each pattern, as RE2 does not backtrack.
        """
        import pyarrow.compute as pc

        matches: list[bool | None] = [None] * len(texts)
        order = np.argsort(patterns, kind="stable")
        starts = np.flatnonzero(np.diff(patterns[order], prepend=-1))
        for rows in np.split(order, starts[1:]) if len(order) else ():
            pattern = whole_pattern(str(self.value_of(int(patterns[rows[0]]))))
            if pattern is not None:
                matched = pc.match_substring_regex(self.decode(texts[rows]), pattern).to_pylist()
                for row, is_match in zip(rows.tolist(), matched, strict=True):
                    matches[row] = is_match
        return matches

    def value_of(self, code: int) -> str | bytes:
        """Return the value of a code."""
        if 0 <= code < len(self._values):
            return self._values[code]
        value: str | bytes = self._all_values()[code].as_py()
        return value

    def find(self, value: str | bytes) -> int | None:
        """Return the code of a value, or None if the value is missing."""
        import pyarrow as pa
        import pyarrow.compute as pc

        with self._lock:
            if len(self._values) < len(self) and value not in self._codes:
                self._n_scans += 1
                if self._n_scans <= _MAX_SCANS:
                    code = pc.index(self._all_values(), pa.scalar(value, self._arrow_type)).as_py()
                    return None if code < 0 else int(code)
                self._listed()
            return self._codes.get(value)

    def decode(self, codes: Int64Array, valid: BoolArray | None = None) -> pa.Array:
        """Return the values of the codes as ``large_string`` or ``large_binary``.

        Rows with a False `valid` are null.
        """
        import pyarrow as pa

        if len(codes) * 8 < len(self) and (self._arrow is None or len(self._arrow) < len(self)):
            code_list = codes.tolist() if valid is None else np.where(valid, codes, -1).tolist()
            return pa.array([None if code < 0 else self._values[code] for code in code_list], self._arrow_type)
        return self._all_values().take(pa.array(codes, mask=None if valid is None else ~valid))

    def _all_values(self) -> pa.Array:
        """Return every value, by code; cached, and extended when the dictionary has grown."""
        import pyarrow as pa

        with self._lock:
            if self._arrow is None:
                self._arrow = pa.array(self._values, self._arrow_type)
            elif len(self._arrow) < len(self._values):
                fresh = pa.array(self._values[len(self._arrow) :], self._arrow_type)
                self._arrow = pa.concat_arrays([self._arrow, fresh])
            return self._arrow

    def truncate(self, size: int) -> None:
        """Remove every value that was added after the dictionary had `size` values."""
        with self._lock:
            self.truncations += len(self) > size
            for value in self._values[size:]:
                del self._codes[value]
            del self._values[size:]
            self._arrow = None if self._arrow is None else self._arrow[:size]
            if len(self._order) > size:
                self._order, self._rank = _EMPTY, _RANK_OF_NULL

    def rank(self) -> Int64Array:
        """Return for every code the rank of its value in (UTF-8) byte order.

        Without values there is one rank, of code 0, which null has. The array is read-only and cached until the
        dictionary grows.

        Complexity
        ----------
        Linear in the dictionary after a small growth, n log n after a large one.
        """
        with self._lock:
            return self._ranked()

    def _ranked(self) -> Int64Array:
        n_ordered, size = len(self._order), len(self)
        if n_ordered < size:
            if (size - n_ordered) * 16 < n_ordered:
                fresh = sorted(range(n_ordered, size), key=self._sort_key)
                places = [bisect_left(self._order, self._sort_key(code), key=self._sort_key) for code in fresh]
                self._order = np.insert(self._order, places, fresh)
            else:
                import pyarrow.compute as pc

                self._order = pc.sort_indices(self.decode(np.arange(size))).to_numpy().astype(np.int64)
            ranks = np.empty(size, np.int64)
            ranks[self._order] = np.arange(size)
            self._rank = _frozen(ranks)
        return self._rank

    def recode(self, source: Dictionary, codes: Int64Array) -> Int64Array:
        """Return the codes here of codes of `source`; only values in use are added.

        Complexity
        ----------
        Linear in the number of codes, independent of the size of either dictionary.
        """
        if source is self or not len(codes):
            return codes
        if len(codes) <= _MAX_PYTHON_VALUES:
            return self._codes_of_values(source.values_of(codes))
        used, places = np.unique(codes, return_inverse=True)
        return self.encode(source.decode(used))[places]

    def translate(self, source: Dictionary) -> Int64Array:
        """Return the code here of every code of `source`; missing values are added."""
        return self.recode(source, np.arange(len(source)))

    def _sort_key(self, code: int) -> Any:
        return self._listed()[code]

    def _listed(self) -> list[str | bytes]:
        """Return all values, for each of which the map has a code."""
        with self._lock:
            n_listed = len(self._values)
            if n_listed < len(self):
                assert self._arrow is not None
                fresh = self._arrow[n_listed:].to_pylist()
                self._codes.update(zip(fresh, count(n_listed), strict=False))
                self._values.extend(fresh)
            return self._values

    def _codes_of_distinct(self, values: pa.Array) -> Int64Array:
        """Return the codes of valid and distinct values without nulls; missing ones are added."""
        import pyarrow as pa
        import pyarrow.compute as pc

        with self._lock:
            present, size = self._all_values(), len(self)
            if size:
                found = pc.index_in(values, value_set=present)
                codes: Int64Array = found.fill_null(-1).to_numpy().astype(np.int64)
                missing = np.flatnonzero(codes < 0)
                if len(missing):
                    self._arrow = pa.concat_arrays([present, values.take(missing)])
                    codes[missing] = np.arange(size, size + len(missing))
            else:
                self._arrow, codes = values, np.arange(len(values))
            if self.is_mapped:
                self._listed()
            return codes

    def _codes_of(self, array: pa.Array) -> Int64Array:
        """Return the codes of values without nulls, looked up one by one."""
        try:
            values = array.to_pylist()
        except UnicodeDecodeError as error:
            raise UnsupportedTypeError(
                f"the text {error.object!r} is not valid UTF-8.\n"
                "  Cast the column to binary, or repair it before you pass it."
            ) from None
        return self._codes_of_values(values)

    def _codes_of_values(self, values: list[Any]) -> Int64Array:
        with self._lock:
            known = self._listed()
            codes = list(map(self._codes.get, values))
            if None in codes:
                fresh = [value for value in dict.fromkeys(values) if value not in self._codes]
                self._codes.update(zip(fresh, count(len(known)), strict=False))
                known.extend(fresh)
                codes = list(map(self._codes.get, values))
        return np.array(codes, np.int64)


def dictionary_of(kind: DataType, dictionaries: tuple[Dictionary, Dictionary]) -> Dictionary | None:
    """Return the dictionary of a type, of those of text and bytes; None if codes are values."""
    return dictionaries[0 if kind.dictionary == "string" else 1] if kind.has_dictionary else None


def whole_pattern(pattern: str) -> str | None:
    r"""Return the pattern anchored at both ends of a text; None if RE2 rejects `pattern`.

    Examples
    --------
    >>> whole_pattern("a|b"), whole_pattern("a)(?:b"), whole_pattern(r"(a)\1")
    ('\\A(?:a|b)\\z', None, None)
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    text = pa.array([""], pa.large_string())
    anchored = rf"\A(?:{pattern})\z"
    try:
        for expression in (pattern, anchored):
            pc.match_substring_regex(text, expression)
    except pa.ArrowInvalid:
        return None
    return anchored

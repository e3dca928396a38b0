"""A column in the engine's form: int64 codes and a null mask, on the host or a device."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gpu_wcoj.data.schema import INT64, DataType
from gpu_wcoj.errors import TypeMismatchError

if TYPE_CHECKING:
    from gpu_wcoj.dictionary import Dictionary

Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


_HOLDS_VALUES = ("integer", "bool", "date", "timestamp", "zoned")
"""Families whose codes are the values themselves, or their count of units."""


def read_only(array: Any) -> Any:
    """Make a NumPy array and its base arrays read-only; a device array is returned unchanged.

    Arrays that are handed out share memory with the state, and only ticks may change the state.

    What is handed out shares memory with the state, which changes by ticks alone.

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


@dataclass(frozen=True, eq=False, init=False)
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
                f"a column of type '{self.type.name}' is stored as codes, which have no meaning outside of it.\n"
                "  Use to_arrow(), to_numpy() or to_cupy() of its Z-set."
            )
        return self.stored

    def gather(self, rows: npt.NDArray[np.intp] | Int64Array | BoolArray | slice) -> Column:
        """Return the rows at these positions, under this mask, or in this slice."""
        if isinstance(rows, slice) and not isinstance(self.stored, np.ndarray):
            valid = None if self.stored_valid is None else self.stored_valid[rows]
            return Column(self.type, self.stored[rows], valid, self.dictionary)
        valid = None if self.valid is None else self.valid[rows]
        if valid is not None and bool(valid.all()):
            valid = None
        return Column(self.type, self.codes[rows], valid, self.dictionary)

    def unshared(self) -> Column:
        """Return the column in memory that nothing else can write to; itself if that is so already."""
        if not isinstance(self.stored, np.ndarray) or self.codes.flags.owndata:
            return self
        return Column(self.type, self.codes.copy(), self.valid, self.dictionary)

    def stack(self, column: Column) -> Column:
        """Return these rows followed by those of `column`, in host memory.

        `column` has the same type and dictionary.
        """
        valid = None
        if self.valid is not None or column.valid is not None:
            masks = [np.ones(len(part), bool) if part.valid is None else part.valid for part in (self, column)]
            valid = np.concatenate(masks)
        return Column(self.type, np.concatenate([self.codes, column.codes]), valid, self.dictionary)

    def as_type(self, to: DataType) -> Column:
        """Return the same values in another type of the same family; never rounded or wrapped.

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
        if self.type.family != to.family:
            raise TypeMismatchError.mismatch(
                "the column",
                "has the wrong type",
                f"'{self.type.name}'",
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
                f"the value {worst} (in units of '{self.type.name}') is not a value of type '{to.name}'",
                got=worst,
                remedy="Use the wider type for both, or convert the column before you pass it.",
            )
        codes = self.codes if up == down else self.codes // down * up
        return Column(to, codes, self.valid, self.dictionary)

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

"""One column in the engine's form: int64 codes, and a mask where there are nulls, on the host or on a device."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gpu_wcoj.errors import TypeMismatchError
from gpu_wcoj.schema import INT64, DataType

if TYPE_CHECKING:
    from gpu_wcoj.dictionary import Dictionary

Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


_HOLDS_VALUES = ("integer", "bool", "date", "timestamp", "zoned")
"""Families whose codes are the values, or what counts them."""


def read_only(array: Any) -> Any:
    """Make an array of NumPy read-only, and with it the arrays that it is a view of; an array of a device stays.

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
    """The array as NumPy's; one of a device is copied, and waited for."""
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
        int64, shape (n,). Codes of null rows are 0. An array of NumPy or of a device, and `valid` of the same.
    valid
        bool, shape (n,), False where the value is null; None if there is no null.
    dictionary
        For text and bytes, what the codes are positions in; else None.

    Attributes
    ----------
    stored, stored_valid
        Codes and validity where they live.
    codes, valid
        The same as NumPy's; what lives on a device is fetched when they are first read.

    Notes
    -----
    Arrays of NumPy become read-only, those of which they are views too: columns are shared by all that hold the rows.

    A column without nulls whose codes are its values (integers, truth values, dates, times) is an array to others: it
    has ``__dlpack__``, and ``__cuda_array_interface__`` where it lives on a device. They give read-only memory, or a
    copy where whoever reads it could write to it.
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
        """The codes as NumPy's."""
        return read_only(on_host(self.stored))  # type: ignore[no-any-return]

    @cached_property
    def valid(self) -> BoolArray | None:
        """The validity as NumPy's."""
        return None if self.stored_valid is None else read_only(on_host(self.stored_valid))

    @property
    def is_on_host(self) -> bool:
        """Whether the codes are NumPy's."""
        return isinstance(self.stored, np.ndarray)

    def __len__(self) -> int:
        return len(self.stored)

    def __reduce__(self) -> Any:
        return Column, (self.type, self.codes, self.valid, self.dictionary)

    def __dlpack__(self, **options: Any) -> Any:
        values = self._values()
        if isinstance(values, np.ndarray):
            with suppress(BufferError):  # of those who cannot be told that it is read-only
                return values.__dlpack__(**options)
        return values.copy().__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._values().__dlpack_device__()

    @property
    def __cuda_array_interface__(self) -> Any:
        if isinstance(self.stored, np.ndarray):
            raise AttributeError("this column lives in the host's memory: it has no __cuda_array_interface__.")
        try:
            return self._device_copy.__cuda_array_interface__
        except BufferError as error:  # of a property, hasattr and getattr expect no other error than this
            raise AttributeError(str(error)) from None

    @cached_property
    def _device_copy(self) -> Any:
        """The stored codes once more, as arrays of a device can be written to by whoever reads them."""
        return self._values().copy()

    def _values(self) -> Any:
        """The stored codes, for others to read as numbers."""
        if self.stored_valid is not None:
            raise BufferError("a column with nulls is no plain array.\n  Use to_arrow() of its Z-set.")
        if self.type.family not in _HOLDS_VALUES:
            raise BufferError(
                f"a column of type '{self.type.name}' is stored as codes, which mean nothing to others.\n"
                "  Use to_arrow(), to_numpy() or to_cupy() of its Z-set."
            )
        return self.stored

    def take(self, rows: npt.NDArray[np.intp] | Int64Array | BoolArray | slice) -> Column:
        """The rows at these positions, under this mask, or in this slice."""
        if isinstance(rows, slice) and not isinstance(self.stored, np.ndarray):
            valid = None if self.stored_valid is None else self.stored_valid[rows]
            return Column(self.type, self.stored[rows], valid, self.dictionary)
        valid = None if self.valid is None else self.valid[rows]
        if valid is not None and bool(valid.all()):
            valid = None
        return Column(self.type, self.codes[rows], valid, self.dictionary)

    def unshared(self) -> Column:
        """The column in memory of its own, that nobody else can write to; itself where it is so already."""
        if not isinstance(self.stored, np.ndarray) or self.codes.flags.owndata:
            return self
        return Column(self.type, self.codes.copy(), self.valid, self.dictionary)

    def stacked(self, column: Column) -> Column:
        """These rows, then those of `column`, whose type and dictionary are the same; in the host's memory."""
        valid = None
        if self.valid is not None or column.valid is not None:
            masks = [np.ones(len(part), bool) if part.valid is None else part.valid for part in (self, column)]
            valid = np.concatenate(masks)
        return Column(self.type, np.concatenate([self.codes, column.codes]), valid, self.dictionary)

    def as_type(self, to: DataType) -> Column:
        """The same values in another type of the same family; exact or an error, never rounded or wrapped.

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
            raise TypeMismatchError(
                f"values of type '{self.type.name}' are not values of type '{to.name}'.\n"
                "  Only integers, time units, dates and decimal scales convert; cast the column before it comes in."
            )
        up, down = (min(factor, 2**62) for factor in (self.type.factor_to(to), to.factor_to(self.type)))
        low, high = to.code_range
        fits = (self.codes >= max(-(-low * down // up), -(2**63))) & (self.codes <= min(high * down // up, 2**63 - 1))
        fits &= self.codes % down == 0
        if not bool(fits.all()):
            worst = int(self.codes[np.argmin(fits)])
            raise TypeMismatchError(
                f"the value {worst} (as '{self.type.name}' counts) is not a value of type '{to.name}'.\n"
                "  Use the wider type for both, or convert the column before it comes in."
            )
        codes = self.codes if up == down else self.codes // down * up
        return Column(to, codes, self.valid, self.dictionary)

    def recoded(self, dictionary: Dictionary) -> Column:
        """The same texts or bytes as codes of `dictionary`, which gets those that it lacks."""
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
    """int64 codes that order as the floats do: -0.0 is just below 0.0, every NaN is one value above infinity.

    Non-negative floats keep their bits; negative ones have all bits but the sign flipped. Only bits are compared: a
    device may take the smallest floats for 0 when it computes with them. Where values are compared, -0.0 equals 0.0:
    there, codes go through `without_zero_signs` first.

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
"""The code of -0.0, of either width."""


def without_zero_signs(codes: Any, xp: Any = np) -> Any:
    """Codes of floats with 0.0 in the place of -0.0; of NumPy's, the array itself if it has none.

    Examples
    --------
    >>> without_zero_signs(float_codes(np.array([-0.0, 1.0]))) == float_codes(np.array([0.0, 1.0]))
    array([ True,  True])
    """
    is_negative_zero = codes == NEGATIVE_ZERO
    if xp is np and not is_negative_zero.any():  # of a device, the answer would have to be waited for
        return codes
    return xp.where(is_negative_zero, 0, codes)


def floats_of(codes: Any, width: int, xp: Any = np) -> npt.NDArray[np.floating[Any]]:
    """The floats of `width` bytes (4 or 8) behind their codes; undoes `float_codes`."""
    bits = xp.where(codes < 0, codes ^ (2 ** (8 * width - 1) - 1), codes)
    floats: npt.NDArray[np.floating[Any]] = bits.astype(f"i{width}").view(f"f{width}")
    return floats

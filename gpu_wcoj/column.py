"""One column in the engine's form: int64 codes, and a mask where there are nulls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gpu_wcoj.errors import TypeMismatchError
from gpu_wcoj.schema import INT64, DataType

if TYPE_CHECKING:
    from gpu_wcoj.dictionary import Dictionary

Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Column:
    """Values of one type as int64 codes.

    Attributes
    ----------
    type
        The logical type.
    codes
        int64, shape (n,). Codes of null rows are 0.
    valid
        bool, shape (n,), False where the value is null; None if there is no null.
    dictionary
        For text and bytes, what the codes are positions in; else None.
    """

    type: DataType
    codes: Int64Array
    valid: BoolArray | None = None
    dictionary: Dictionary | None = None

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, rows: npt.NDArray[np.intp] | Int64Array | BoolArray | slice) -> Column:
        """The rows at these positions, under this mask, or in this slice."""
        valid = None if self.valid is None else self.valid[rows]
        if valid is not None and bool(valid.all()):
            valid = None
        return Column(self.type, self.codes[rows], valid, self.dictionary)

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


def float_codes(values: npt.NDArray[np.floating[Any]]) -> Int64Array:
    """int64 codes that order as the floats do: -0.0 equals 0.0, every NaN is one value above infinity.

    Non-negative floats keep their bits; negative ones have all bits but the sign flipped.
    """
    bits_type = np.dtype(f"i{values.dtype.itemsize}")
    with np.errstate(invalid="ignore"):  # a signalling NaN warns when it is added
        plain = np.where(np.isnan(values), np.array(np.nan, values.dtype), values + np.array(0, values.dtype))
    bits = plain.view(bits_type)
    return np.where(bits < 0, bits ^ np.iinfo(bits_type).max, bits).astype(np.int64)


def floats_of(codes: Int64Array, width: int) -> npt.NDArray[np.floating[Any]]:
    """The floats of `width` bytes (4 or 8) behind their codes; undoes `float_codes`."""
    bits_type = np.dtype(f"i{width}")
    bits = codes.astype(bits_type)
    return np.where(bits < 0, bits ^ np.iinfo(bits_type).max, bits).astype(bits_type).view(f"f{width}")

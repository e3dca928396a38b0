"""One column in the engine's form: int64 codes, and a mask where there are nulls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

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

    @staticmethod
    def of_integers(values: Int64Array) -> Column:
        """A column of int64 values without nulls."""
        return Column(INT64, values)

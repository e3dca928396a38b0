"""Constants of a program's text as codes of a column's type."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

import numpy as np
import pyarrow as pa

from gpu_wcoj.arrow.incoming import encode
from gpu_wcoj.arrow.types import to_pyarrow
from gpu_wcoj.errors import TypeMismatchError
from gpu_wcoj.schema import DataType


def encode_constant(value: object, kind: DataType) -> int:
    """The code of a literal in a column of a fixed-width type; dates and timestamps are written as text.

    Raises
    ------
    TypeMismatchError
        If the literal is no value of the type.

    Examples
    --------
    >>> encode_constant("1970-01-02", DataType("date32[day]"))
    1
    """
    try:
        if kind.family == "decimal":
            array = pa.array([Decimal(str(value))], to_pyarrow(kind))
        elif isinstance(value, str):
            array = pa.array([value]).cast(to_pyarrow(kind))
        elif kind.family.startswith("float"):
            array = pa.array(np.array([value], np.float64)).cast(to_pyarrow(kind))
        else:
            array = pa.array([value], to_pyarrow(kind))
    except (pa.ArrowException, InvalidOperation, OverflowError) as error:
        raise TypeMismatchError(f"the constant {value!r} is no value of type '{kind.name}': {error}.") from None
    return int(encode(array).codes[0])

"""Conversion of columns from Arrow, NumPy or Python to codes and back, in the exact type.

Codes: integers, booleans, dates, timestamps and the unscaled digits of decimals are their own codes; floats go through
`gpu_wcoj.data.column.float_codes`; text and bytes are positions in a `Dictionary`. A dictionary-encoded column
(category) is encoded by its values. On export its dictionary holds the values in use, and its indices are wider than in
the input if more values are in use than the index type can count.
"""

from gpu_wcoj.arrow.constants import constant_entry, encode_constant
from gpu_wcoj.arrow.read import encode, encode_numpy, encode_values
from gpu_wcoj.arrow.table import Numbered, as_table
from gpu_wcoj.arrow.types import to_pyarrow, type_of
from gpu_wcoj.arrow.write import (
    decode,
    to_numpy,
    to_pandas,
    to_polars,
    to_python,
    to_table,
    to_text,
)

__all__ = [
    "as_table",
    "Numbered",
    "constant_entry",
    "encode",
    "encode_constant",
    "encode_numpy",
    "encode_values",
    "decode",
    "to_numpy",
    "to_pandas",
    "to_polars",
    "to_python",
    "to_table",
    "to_text",
    "to_pyarrow",
    "type_of",
]

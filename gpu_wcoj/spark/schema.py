"""Conversion between Spark and Arrow types, without a session, for all versions of PySpark.

PySpark's own functions need a time zone from 4.2 on; before, they turn times without a zone into times with one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
from pyspark.sql import types as st

from gpu_wcoj.errors import UnsupportedTypeError

ZONE: Final = "UTC"
"""The time zone of timestamps: Spark stores them as microseconds in UTC, as its files declare."""
_ARROW: Final[Mapping[type[st.DataType], pa.DataType]] = {
    st.BooleanType: pa.bool_(), st.ByteType: pa.int8(), st.ShortType: pa.int16(), st.IntegerType: pa.int32(),
    st.LongType: pa.int64(), st.FloatType: pa.float32(), st.DoubleType: pa.float64(), st.DateType: pa.date32(),
    st.TimestampType: pa.timestamp("us", ZONE), st.TimestampNTZType: pa.timestamp("us"), st.StringType: pa.string(),
    st.CharType: pa.string(), st.VarcharType: pa.string(), st.BinaryType: pa.binary(), st.NullType: pa.null(),
}  # fmt: skip
_SPARK: Final[Mapping[pa.DataType, st.DataType]] = {
    pa.large_string(): st.StringType(), pa.large_binary(): st.BinaryType(), pa.date64(): st.DateType(),
    **{kind: spark() for spark, kind in _ARROW.items() if spark not in (st.CharType, st.VarcharType)},
}  # fmt: skip


def quoted(name: str) -> str:
    """Return the name of a column, quoted for an expression.

    Examples
    --------
    >>> quoted("a`b c")
    '`a``b c`'
    """
    return "`" + name.replace("`", "``") + "`"


def arrow_type(kind: st.DataType) -> pa.DataType:
    """Return the Arrow type of a Spark type.

    Raises
    ------
    UnsupportedTypeError
        If the engine does not support it: it is nested, an interval, a time of day, or a variant.

    Examples
    --------
    >>> arrow_type(st.TimestampType()), arrow_type(st.TimestampNTZType()), arrow_type(st.DecimalType(9, 2))
    (TimestampType(timestamp[us, tz=UTC]), TimestampType(timestamp[us]), Decimal128Type(decimal128(9, 2)))
    """
    if isinstance(kind, st.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    arrow = next((_ARROW[base] for base in type(kind).__mro__ if base in _ARROW), None)
    if arrow is None:
        raise UnsupportedTypeError(
            f"type '{kind.simpleString()}' is not supported: expected integers, booleans, float, double, date, "
            f"timestamp, timestamp_ntz, string, binary or decimals.\n"
            "  Cast the column, or leave it out."
        )
    return arrow


def spark_type(kind: pa.DataType) -> st.DataType:
    """Return the Spark type for values of an Arrow type; the time unit is microseconds.

    Raises
    ------
    UnsupportedTypeError
        If Spark has none.

    Examples
    --------
    >>> spark_type(pa.timestamp("ms")), spark_type(pa.large_string())
    (TimestampNTZType(), StringType())
    """
    if pa.types.is_decimal(kind):
        return st.DecimalType(kind.precision, kind.scale)
    if pa.types.is_struct(kind):
        return spark_schema(pa.schema(list(kind)))
    if pa.types.is_timestamp(kind):
        return st.TimestampNTZType() if kind.tz is None else st.TimestampType()
    if kind not in _SPARK:
        raise UnsupportedTypeError.unsupported(f"type '{kind}' in Spark", remedy="Cast the values to another type.")
    return _SPARK[kind]


def arrow_schema(schema: st.StructType, what: str = "the DataFrame") -> pa.Schema:
    """Return the Arrow schema for the columns of a DataFrame.

    Errors name `what` and the column.

    Examples
    --------
    >>> arrow_schema(st.StructType([st.StructField("t", st.TimestampType())])).field("t").type
    TimestampType(timestamp[us, tz=UTC])
    """
    fields = []
    for column in schema:
        try:
            fields.append(pa.field(column.name, arrow_type(column.dataType), column.nullable))
        except UnsupportedTypeError as error:
            raise UnsupportedTypeError(f"{what}, column '{column.name}': {error}") from None
    return pa.schema(fields)


def spark_schema(schema: pa.Schema) -> st.StructType:
    """Return the Spark schema for the columns of an Arrow table.

    Examples
    --------
    >>> spark_schema(pa.schema({"t": pa.timestamp("us")})).simpleString()
    'struct<t:timestamp_ntz>'
    """
    return st.StructType([st.StructField(column.name, spark_type(column.type), column.nullable) for column in schema])

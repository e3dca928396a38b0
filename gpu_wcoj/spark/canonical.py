"""Changes of any source as rows with a signed weight.

Everything here is an expression that Spark's planner sees, and that the RAPIDS Accelerator computes: no function of
Python's runs over rows. What is wrong with a row is raised by the expression of its weight, so that no optimisation
that keeps the weight can lose the check.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf
from pyspark.sql.types import (
    DateType,
    DecimalType,
    IntegralType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from gpu_wcoj.errors import ColumnError, SchemaError, TypeMismatchError, UsageError, entry_point, listed, nearest
from gpu_wcoj.spark.formats import CODED, ENVELOPE, ORDER, WEIGHT, Coded, Format, detect, is_envelope

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_LOGGER = logging.getLogger("gpu_wcoj.spark")

FORMATS = ("auto", "append", WEIGHT, *CODED, "debezium")


@entry_point
def normalise(
    df: DataFrame,
    changes: Format = "auto",
    *,
    columns: Sequence[str] | Mapping[str, str] | None = None,
    key: str | Sequence[str] = (),
    order_by: str | Sequence[str] = (),
    column: str | None = None,
    codes: Mapping[str | int, int] | None = None,
) -> DataFrame:
    """The rows of a DataFrame of changes, batch or stream, each with the weight that it adds.

    Parameters
    ----------
    df
        The changes as their source has them.
    changes
        Their format. ``"append"``: every row comes.
        ``"weight"``: an integer column says how often, below 0 how often it goes.
        ``"sign"``: an integer column with 1 and -1.
        ``"op"``: a column of codes, insert or delete in the usual spellings, or those of `codes`.
        ``"delta_cdf"``: Delta's change data feed, and the changes that Spark itself reads from 4.2 on.
        ``"iceberg"``: a changelog view. ``"flink"``: row kinds. ``"risingwave"``: a changelog.
        ``"debezium"``: the envelope; an update gives two rows, the one before and the one after. Its source has to
        write whole rows into ``before`` (Postgres: ``REPLICA IDENTITY FULL``).
        ``"auto"``: told by the columns, see `detect`; what was taken is logged.
    columns
        The data columns, in order, or a mapping from the names they get to those they have. By default all that
        are neither the format's nor in `order_by`.
    key
        Data columns, by the names they get, that must not be null. Elsewhere null is a value like any other here.
    order_by
        Columns that say in which order the rows of a batch happened: a commit version, an LSN, an ordinal; fields of
        structs are written with dots. They go out as ``_order_1``, ``_order_2``, ...; of rows that are equal in them,
        those with negative weights come first. Without it, rows of a batch have no order, and their weights add.
    column
        The column of weights, signs or codes, or the struct with Debezium's envelope, if not called as usual.
    codes
        For ``"op"``: what each code means, 1 or -1.

    Returns
    -------
    The data columns, ``weight`` as bigint, and the order columns.

    Raises
    ------
    ColumnError, SchemaError, TypeMismatchError, UsageError
        If columns are missing, ambiguous or of another type, at once. A row that is wrong, by an unknown code, a
        missing ``before``, or a null among codes, weights, keys or order columns, ends the query when it is computed,
        with the column and the value.
    """
    schema = df.schema
    twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if twice:
        raise SchemaError(f"the changes have more than one column called {listed(twice)}.\n  Rename or drop some.")
    if changes not in FORMATS:
        raise UsageError(
            f"there is no format of changes '{changes}'.\n  Formats: {listed(FORMATS)}.{nearest(str(changes), FORMATS)}"
        )
    if codes is not None and (changes != "op" or not codes or set(codes.values()) - {1, -1}):
        raise UsageError(
            f"codes={dict(codes)!r} with changes='{changes}': codes go with changes='op', and map each code to 1 or -1."
        )
    chosen: str = changes
    if changes == "auto":
        detected = detect(df)
        _LOGGER.info("The changes are taken as %s.", detected)
        chosen, column = detected.format, column or detected.column
    order = _listed(order_by)
    moments = {f"{ORDER}{i + 1}": _moment(schema, name) for i, name in enumerate(order)}
    if chosen == "debezium":
        envelope, fields = _envelope(schema, column)
        named = _data_columns(columns, fields.names, fields.names, "the rows in after")
        images = _images(envelope, f"{column}." if column else "")
        df = df.select(images.alias("_change"), *(moment.alias(name) for name, moment in moments.items()))
        values = {name: _path("_change", "row", source) for name, source in named.items()}
        weight, moments = _path("_change", WEIGHT), {name: _path(name) for name in moments}
    else:
        weight, beside = _weight(schema, chosen, column, codes)
        named = _data_columns(
            columns, [name for name in schema.names if name not in {*beside, *order}], schema.names, "the changes"
        )
        values = {name: _path(source) for name, source in named.items()}
    for name in _listed(key):
        if name not in values:
            raise ColumnError("key", name, values)
        weight = _unless_null(values[name], f"the key column '{name}' is null", weight)
    for name, moment in zip(order, moments.values(), strict=True):
        weight = _unless_null(moment, f"the order column '{name}' is null", weight)
    return df.select(*(column.alias(name) for name, column in {**values, WEIGHT: weight, **moments}.items()))


def _listed(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _data_columns(
    columns: Sequence[str] | Mapping[str, str] | None, default: Sequence[str], available: Sequence[str], where: str
) -> dict[str, str]:
    """From the names that the data columns get to those they have."""
    if columns is None:
        named = {name: name for name in default}
    elif isinstance(columns, str):
        raise UsageError(f"columns='{columns}' is text; it takes a list of names, or a mapping.")
    elif isinstance(columns, Mapping):
        named = dict(columns)
    else:
        named = {name: name for name in columns}
        if len(named) < len(columns):
            raise SchemaError(f"columns={list(columns)!r} names a column twice.")
    if not named:
        raise SchemaError("no column of data is left.\n  Name some in columns.")
    for name in named:
        if name == WEIGHT or name.startswith(ORDER):
            raise SchemaError(
                f"a data column is called '{name}', as a column of the result is.\n"
                f"  Give it another name: columns={{'{name.strip('_')}_': '{named[name]}', ...}}; or leave it out."
            )
    for source in named.values():
        if source not in available:
            raise ColumnError(where, source, available)
    return named


def _weight(
    schema: StructType, chosen: str, column: str | None, codes: Mapping[str | int, int] | None
) -> tuple[Column, tuple[str, ...]]:
    """The weight of a row, and the columns that are the format's and no data."""
    if chosen == "append":
        if column is not None:
            raise UsageError(f"column='{column}' has no meaning with changes='append': every row comes.")
        return sf.lit(1).cast("bigint"), ()
    if chosen == WEIGHT:
        column = column or WEIGHT
        _require(schema, column, IntegralType, "integers, at most 64 bits wide; round and cast it first")
        value = _path(column)
        return _unless_null(value, f"the column '{column}' of weights is null", value.cast("bigint")), (column,)
    coded = CODED[chosen] if codes is None else Coded.from_codes(CODED[chosen].column, codes)
    column = column or coded.column
    numbered = all(isinstance(code, int) for code in coded.codes)
    if not numbered and not all(isinstance(code, str) for code in coded.codes):
        raise UsageError(f"codes={dict(codes or {})!r} mixes text and numbers.")
    kind, allowed = (IntegralType, "integers") if numbered else (StringType, "text")
    _require(schema, column, kind, f"{allowed}, the codes of '{chosen}'")
    code = _path(column)
    allowed = f"allowed are {', '.join(map(str, coded.codes))}"
    if chosen == "op" and codes is None:
        allowed += "; an update needs the old row too, as a delete"
    wrong = _raised(f"the column '{column}' holds ", code, f", which is no code of '{chosen}': {allowed}.")
    weight = sf.when(code.isin(*coded.inserts), sf.lit(1).cast("bigint"))
    if coded.deletes:
        weight = weight.when(code.isin(*coded.deletes), sf.lit(-1).cast("bigint"))
    return weight.otherwise(wrong), (column, *coded.beside)


def _envelope(schema: StructType, column: str | None) -> tuple[dict[str, Column], StructType]:
    """The fields of Debezium's envelope by name, and the type of a row."""
    inside = schema
    if column is not None:
        kind = _require(schema, column)
        if not isinstance(kind, StructType):
            raise TypeMismatchError(f"the column '{column}' is of type '{kind.simpleString()}', and no envelope.")
        inside = kind
    for name in ENVELOPE:
        if name not in inside.names:
            raise ColumnError("the envelope", name, inside.names)
    if not is_envelope(inside) or not isinstance(inside["op"].dataType, StringType):
        types = ", ".join(f"{name} {inside[name].dataType.simpleString()}" for name in ENVELOPE)
        raise TypeMismatchError(f"in an envelope, before and after are structs and op is text; here: {types}.")
    before, after = inside["before"].dataType, inside["after"].dataType
    assert isinstance(before, StructType)
    assert isinstance(after, StructType)
    if before.simpleString() != after.simpleString():
        raise TypeMismatchError(
            f"before and after are of different types: {before.simpleString()} and {after.simpleString()}."
        )
    path = (column,) if column else ()
    return {name: _path(*path, name) for name in ENVELOPE}, after


def _images(envelope: Mapping[str, Column], prefix: str) -> Column:
    """The one or two rows that an event stands for, each with its weight, exploded."""
    op = envelope["op"]

    def image(side: str, sign: int) -> Column:
        row = envelope[side]
        missing = _raised(f"the column '{prefix}{side}' is null in an event whose op is ", op, _WHOLE_ROWS)
        weight = sf.when(row.isNull(), missing).otherwise(sf.lit(sign).cast("bigint"))
        return sf.struct(row.alias("row"), weight.alias(WEIGHT))

    unknown = _raised(f"the column '{prefix}op' holds ", op, f", which says of no row that it came or went{_OPS}")
    return sf.explode(
        sf.when(op.isin("c", "r"), sf.array(image("after", 1)))
        .when(op == "d", sf.array(image("before", -1)))
        .when(op == "u", sf.array(image("before", -1), image("after", 1)))
        .otherwise(sf.array(sf.struct(envelope["after"].alias("row"), unknown.alias(WEIGHT))))
    )


_WHOLE_ROWS = ". Let the source write whole rows (Postgres: REPLICA IDENTITY FULL), and drop tombstones."
_OPS = ": allowed are c, r, u and d. Filter others out, and tombstones, before; after a truncate, start anew."


def _moment(schema: StructType, name: str) -> Column:
    """An order column, or a field of a struct, of a type whose values are in the order of time."""
    parts = [name] if name in schema.names else name.split(".")
    kind: DataType = schema
    for i, part in enumerate(parts):
        if not isinstance(kind, StructType) or part not in kind.names:
            names = kind.names if isinstance(kind, StructType) else []
            raise ColumnError("order_by" if i == 0 else ".".join(parts[:i]), part, names)
        kind = kind[part].dataType
    if not isinstance(kind, (IntegralType, DecimalType, DateType, TimestampType, TimestampNTZType)):
        raise TypeMismatchError(
            f"the order column '{name}' is of type '{kind.simpleString()}'; allowed are integers, decimals, dates\n"
            "  and timestamps. Text is in the order of its letters, not of time: cast it."
        )
    return _path(*parts)


def _require(schema: StructType, column: str, kind: type[DataType] | None = None, allowed: str = "") -> DataType:
    """The type of a column, which has to be there and of a kind."""
    if column not in schema.names:
        raise ColumnError("the changes", column, schema.names)
    type_ = schema[column].dataType
    if kind is not None and not isinstance(type_, kind):
        raise TypeMismatchError(
            f"the column '{column}' is of type '{type_.simpleString()}', and has to hold {allowed}."
        )
    return type_


def _path(*parts: str) -> Column:
    return sf.col(".".join("`" + part.replace("`", "``") + "`" for part in parts))


def _unless_null(value: Column, message: str, weight: Column) -> Column:
    return sf.when(value.isNull(), sf.raise_error(sf.lit(f"gpu_wcoj: {message}.")).cast("bigint")).otherwise(weight)


def _raised(before: str, value: Column, after: str) -> Column:
    """An error whose message quotes a value."""
    quoted_value = sf.coalesce(sf.concat(sf.lit("'"), value.cast("string"), sf.lit("'")), sf.lit("null"))
    return sf.raise_error(sf.concat(sf.lit(f"gpu_wcoj: {before}"), quoted_value, sf.lit(after))).cast("bigint")

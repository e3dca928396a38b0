"""Change records of any source, normalised to rows with a signed weight.

All of it is expressions that Spark's planner sees and that the RAPIDS Accelerator computes; no Python function runs on
rows. An invalid row raises its error in the expression of the weight, so that no optimisation that keeps the weight
drops the check.
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

from gpu_wcoj.errors import ColumnError, SchemaError, TypeMismatchError, UsageError, entry_point, listed
from gpu_wcoj.spark.formats import CODED, ENVELOPE, ORDER, WEIGHT, Coded, Format, detect, is_envelope

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_LOGGER = logging.getLogger("gpu_wcoj.spark")

FORMATS = ("auto", "append", WEIGHT, *CODED, "debezium")
"""The names that `normalise` accepts as `changes`."""


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
    """Return the rows of a DataFrame of changes, batch or stream, with their signed weights.

    Parameters
    ----------
    df
        The changes in the format of their source.
    changes
        Their format. ``"append"``: every row is an insertion.
        ``"weight"``: an integer column with the weight of the row.
        ``"sign"``: an integer column with 1 and -1.
        ``"op"``: a column of codes, insert or delete in the usual spellings, or those of `codes`.
        ``"delta_cdf"``: Delta's change data feed, and the changes that Spark reads from 4.2 on.
        ``"iceberg"``: a changelog view. ``"flink"``: row kinds. ``"risingwave"``: a changelog.
        ``"debezium"``: the envelope; an update yields two rows, before and after. Its source has to
        write complete rows into ``before`` (Postgres: ``REPLICA IDENTITY FULL``).
        ``"auto"``: detected by the columns, see `detect`; the result is logged.
    columns
        The data columns, in order, or a mapping from new names to present names. By default all columns that
        neither belong to the format nor are in `order_by`.
    key
        Data columns, by their new names, that must not be null. In other columns null is an ordinary value.
    order_by
        Columns with the order of the changes in a batch: a commit version, an LSN, an ordinal; fields of structs are
        written with dots. In the result they are ``_order_1``, ``_order_2``, ...; among rows with equal values, those
        with negative weights come first. Without it, rows of a batch have no order, and their weights are added.
    column
        The column of weights, signs or codes, or the struct with Debezium's envelope, if its name is not the default.
    codes
        For ``"op"``: the weight of each code, 1 or -1.

    Returns
    -------
    The data columns, ``weight`` as bigint, and the order columns.

    Raises
    ------
    ColumnError, SchemaError, TypeMismatchError, UsageError
        If columns are missing, ambiguous or of the wrong type. An invalid row, with an unknown code, a missing
        ``before``, or a null in codes, weights, keys or order columns, raises an error when the query runs, with the
        column and the value.
    """
    schema = df.schema
    twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if twice:
        raise SchemaError.with_parts(
            f"the changes have more than one column named {listed(twice)}",
            subject="changes", got=twice, expected="distinct names", remedy="Rename or drop some of them.",
        )  # fmt: skip
    if changes not in FORMATS:
        raise UsageError.unknown_name("format of changes", str(changes), FORMATS)
    if codes is not None and (changes != "op" or not codes or set(codes.values()) - {1, -1}):
        raise UsageError.with_parts(
            f"codes={dict(codes)!r} with changes='{changes}' is not allowed",
            subject="codes", got=codes, expected="changes='op', and codes that map each code to 1 or -1",
        )  # fmt: skip
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
    """Map the names of the data columns in the result to their names in the source."""
    if columns is None:
        named = {name: name for name in default}
    elif isinstance(columns, str):
        raise UsageError.wrong_type("columns", columns, "a list of names, or a mapping from new to present names")
    elif isinstance(columns, Mapping):
        named = dict(columns)
    else:
        named = {name: name for name in columns}
        if len(named) < len(columns):
            raise SchemaError.with_parts(
                f"columns={list(columns)!r} names a column twice", subject="columns", got=columns,
                expected="distinct names",
            )  # fmt: skip
    if not named:
        raise SchemaError.with_parts(
            "the changes have no data column",
            subject="columns",
            expected="at least one",
            remedy="Name some in columns.",
        )
    for name in named:
        if name == WEIGHT or name.startswith(ORDER):
            raise SchemaError.with_parts(
                f"the data column '{name}' has a name that the result needs itself",
                subject=name, got=name, expected=f"a name other than '{WEIGHT}' and without the prefix '{ORDER}'",
                remedy=f"Rename it: columns={{'{name.strip('_')}_': '{named[name]}', ...}}; or leave it out.",
            )  # fmt: skip
    for source in named.values():
        if source not in available:
            raise ColumnError(where, source, available)
    return named


def _weight(
    schema: StructType, chosen: str, column: str | None, codes: Mapping[str | int, int] | None
) -> tuple[Column, tuple[str, ...]]:
    """Return the weight of a row, and the columns that belong to the format and are not data."""
    if chosen == "append":
        if column is not None:
            raise UsageError.conflict(
                f"column='{column}'", "changes='append'", "Leave column= out.", "every row is an insertion"
            )
        return sf.lit(1).cast("bigint"), ()
    if chosen == WEIGHT:
        column = column or WEIGHT
        _require(schema, column, IntegralType, "integers of at most 64 bits", "Round it and cast it first.")
        value = _path(column)
        return _unless_null(value, f"the column '{column}' of weights is null", value.cast("bigint")), (column,)
    coded = CODED[chosen] if codes is None else Coded.from_codes(CODED[chosen].column, codes)
    column = column or coded.column
    numbered = all(isinstance(code, int) for code in coded.codes)
    if not numbered and not all(isinstance(code, str) for code in coded.codes):
        raise UsageError.invalid_value("codes", dict(codes or {}), "codes that are all text or all integers")
    kind, allowed = (IntegralType, "integers") if numbered else (StringType, "text")
    _require(schema, column, kind, f"{allowed}, the codes of '{chosen}'")
    code = _path(column)
    allowed = f"allowed are {', '.join(map(str, coded.codes))}"
    if chosen == "op" and codes is None:
        allowed += "; an update needs the old row too, as a delete"
    wrong = _raised(f"the column '{column}' holds ", code, f", expected a code of '{chosen}': {allowed}.")
    weight = sf.when(code.isin(*coded.inserts), sf.lit(1).cast("bigint"))
    if coded.deletes:
        weight = weight.when(code.isin(*coded.deletes), sf.lit(-1).cast("bigint"))
    return weight.otherwise(wrong), (column, *coded.beside)


def _envelope(schema: StructType, column: str | None) -> tuple[dict[str, Column], StructType]:
    """Return the fields of Debezium's envelope by name, and the type of a row."""
    inside = schema
    if column is not None:
        kind = _require(schema, column)
        if not isinstance(kind, StructType):
            raise TypeMismatchError.mismatch(
                f"the column '{column}'", "has the wrong type", f"'{kind.simpleString()}'",
                "a struct that is Debezium's envelope",
            )  # fmt: skip
        inside = kind
    for name in ENVELOPE:
        if name not in inside.names:
            raise ColumnError("the envelope", name, inside.names)
    if not is_envelope(inside) or not isinstance(inside["op"].dataType, StringType):
        types = ", ".join(f"{name} {inside[name].dataType.simpleString()}" for name in ENVELOPE)
        raise TypeMismatchError.mismatch(
            "the envelope", "has fields of the wrong type", types, "structs in before and after, and text in op"
        )
    before, after = inside["before"].dataType, inside["after"].dataType
    assert isinstance(before, StructType)
    assert isinstance(after, StructType)
    if before.simpleString() != after.simpleString():
        raise TypeMismatchError.mismatch(
            "the envelope", "has different types in before and after",
            f"{before.simpleString()} and {after.simpleString()}", "one type",
        )  # fmt: skip
    path = (column,) if column else ()
    return {name: _path(*path, name) for name in ENVELOPE}, after


def _images(envelope: Mapping[str, Column], prefix: str) -> Column:
    """Return the one or two rows of an event, each with its weight, exploded."""
    op = envelope["op"]

    def image(side: str, sign: int) -> Column:
        row = envelope[side]
        missing = _raised(f"the column '{prefix}{side}' is null in an event whose op is ", op, _WHOLE_ROWS)
        weight = sf.when(row.isNull(), missing).otherwise(sf.lit(sign).cast("bigint"))
        return sf.struct(row.alias("row"), weight.alias(WEIGHT))

    unknown = _raised(f"the column '{prefix}op' holds ", op, f", expected an insertion, an update or a deletion{_OPS}")
    return sf.explode(
        sf.when(op.isin("c", "r"), sf.array(image("after", 1)))
        .when(op == "d", sf.array(image("before", -1)))
        .when(op == "u", sf.array(image("before", -1), image("after", 1)))
        .otherwise(sf.array(sf.struct(envelope["after"].alias("row"), unknown.alias(WEIGHT))))
    )


_WHOLE_ROWS = ". Let the source write whole rows (Postgres: REPLICA IDENTITY FULL), and drop tombstones."
_OPS = ": allowed are c, r, u and d. Filter others out, and tombstones, before; after a truncate, start anew."


def _moment(schema: StructType, name: str) -> Column:
    """Return an order column, or a field of a struct, whose type has a time order."""
    parts = [name] if name in schema.names else name.split(".")
    kind: DataType = schema
    for i, part in enumerate(parts):
        if not isinstance(kind, StructType) or part not in kind.names:
            names = kind.names if isinstance(kind, StructType) else []
            raise ColumnError("order_by" if i == 0 else ".".join(parts[:i]), part, names)
        kind = kind[part].dataType
    if not isinstance(kind, (IntegralType, DecimalType, DateType, TimestampType, TimestampNTZType)):
        raise TypeMismatchError.mismatch(
            f"the order column '{name}'", "has the wrong type", f"'{kind.simpleString()}'",
            "integers, decimals, dates or timestamps", "Cast it: text is ordered by its letters, not by time.",
        )  # fmt: skip
    return _path(*parts)


def _require(
    schema: StructType, column: str, kind: type[DataType] | None = None, allowed: str = "", remedy: str = ""
) -> DataType:
    """Return the type of a column after checking that it exists and has an allowed type."""
    if column not in schema.names:
        raise ColumnError("the changes", column, schema.names)
    type_ = schema[column].dataType
    if kind is not None and not isinstance(type_, kind):
        raise TypeMismatchError.mismatch(
            f"the column '{column}'", "has the wrong type", f"'{type_.simpleString()}'", allowed, remedy
        )
    return type_


def _path(*parts: str) -> Column:
    return sf.col(".".join("`" + part.replace("`", "``") + "`" for part in parts))


def _unless_null(value: Column, message: str, weight: Column) -> Column:
    return sf.when(value.isNull(), sf.raise_error(sf.lit(f"gpu_wcoj: {message}.")).cast("bigint")).otherwise(weight)


def _raised(before: str, value: Column, after: str) -> Column:
    """Return an expression that raises an error whose message quotes a value."""
    quoted_value = sf.coalesce(sf.concat(sf.lit("'"), value.cast("string"), sf.lit("'")), sf.lit("null"))
    return sf.raise_error(sf.concat(sf.lit(f"gpu_wcoj: {before}"), quoted_value, sf.lit(after))).cast("bigint")

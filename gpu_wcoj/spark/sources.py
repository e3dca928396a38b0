"""Sources of a view: tables, streams, and changes in CDC formats, normalised."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
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

from gpu_wcoj.arrow.change_feeds import CODED, ENVELOPE, ENVELOPE_COLUMNS, OPERATIONS, WHOLE_ROWS, Coded
from gpu_wcoj.errors import (
    CheckpointError,
    ColumnError,
    SchemaError,
    TypeMismatchError,
    UsageError,
    entry_point,
    listed,
)
from gpu_wcoj.spark.cluster.hashing import row_digests
from gpu_wcoj.spark.files import MicroBatch, PlainStream, plain_files, plain_stream, streams_of
from gpu_wcoj.spark.options import Format
from gpu_wcoj.spark.schema import quoted
from gpu_wcoj.spark.session import require_classic
from gpu_wcoj.zset.zset import ZSet

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructField


# Formats of change data: their columns and codes, and detection by columns.


WEIGHT = "weight"
"""The column of weights, in the input and in the output."""

ORDER = "_order_"
"""The prefix of the order columns in normalised rows; an integer follows."""


def order_columns(names: Sequence[str]) -> list[str]:
    """Return the order columns among the columns of normalised rows."""
    return [name for name in names if name.startswith(ORDER)]


@dataclass(frozen=True)
class DetectedFormat:
    """A format detected by the columns: its name, the deciding column, and the reason."""

    format: Format
    column: str | None
    because: str

    def __str__(self) -> str:
        return f"'{self.format}' ({self.because})"


@entry_point
def detect(df: DataFrame) -> DetectedFormat:
    """Return the format of a DataFrame of changes, detected by its columns.

    Raises
    ------
    SchemaError
        If the columns fit more than one format; then pass the format.
    """
    schema = df.schema
    detected = [*_enveloped(schema), *_change_typed(schema), *_coded(schema)]
    if len(detected) > 1:
        raise SchemaError.with_parts(
            f"the columns {listed(schema.names)} fit more than one format of changes: {', '.join(map(str, detected))}",
            subject="changes", got=schema.names,
            remedy=f"Pass the format: changes='{detected[0].format}'; other columns are then data.",
        )  # fmt: skip
    return detected[0] if detected else DetectedFormat("append", None, "no column says what a row does")


def _enveloped(schema: StructType) -> list[DetectedFormat]:
    if is_envelope(schema):
        return [DetectedFormat("debezium", None, "by the columns 'before', 'after' and 'op'")]
    return [
        DetectedFormat("debezium", field.name, f"by the fields 'before', 'after' and 'op' of the column '{field.name}'")
        for field in schema
        if field.name in ENVELOPE_COLUMNS and is_envelope(field.dataType)
    ]


def is_envelope(kind: DataType) -> bool:
    """Return whether a type is a struct with the fields of Debezium's envelope."""
    from pyspark.sql.types import StructType

    if not isinstance(kind, StructType) or not set(ENVELOPE) <= set(kind.names):
        return False
    return all(isinstance(kind[side].dataType, StructType) for side in ("before", "after"))


def _change_typed(schema: StructType) -> list[DetectedFormat]:
    column = CODED["delta_cdf"].column
    if column not in schema.names:
        return []
    for name in ("delta_cdf", "iceberg"):
        signs = [beside for beside in CODED[name].beside if beside in schema.names]
        if signs:
            return [DetectedFormat(name, column, f"by the columns '{column}' and {listed(signs)}")]
    raise SchemaError.with_parts(
        f"the column '{column}' occurs in Delta's and in Iceberg's changes, and the other columns do not decide",
        subject="changes", got=column,
        remedy="Pass changes='delta_cdf' (insert, delete, ...) or changes='iceberg' (INSERT, DELETE, ...).",
    )  # fmt: skip


def _coded(schema: StructType) -> list[DetectedFormat]:
    coded: tuple[Format, ...] = ("sign", "risingwave", "flink", "op")
    columns: dict[Format, str] = {"weight": WEIGHT, **{name: CODED[name].column for name in coded}}
    if is_envelope(schema):
        del columns["op"]
    return [
        DetectedFormat(name, column, f"by the column '{column}'")
        for name, column in columns.items()
        if column in schema.names
    ]


# Change records of any source, normalised to rows with a signed weight.
#
# All of it is expressions that Spark's planner sees and that the RAPIDS Accelerator computes; no Python function runs
# on rows. An invalid row raises its error in the expression of the weight, so that no optimisation that keeps the
# weight drops the check.


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


_WHOLE_ROWS = f". {WHOLE_ROWS}"
_OPS = f": allowed are c, r, u and d. {OPERATIONS}"


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
    return sf.col(".".join(map(quoted, parts)))


def _unless_null(value: Column, message: str, weight: Column) -> Column:
    return sf.when(value.isNull(), sf.raise_error(sf.lit(f"gpu_wcoj: {message}.")).cast("bigint")).otherwise(weight)


def _raised(before: str, value: Column, after: str) -> Column:
    """Return an expression that raises an error whose message quotes a value."""
    quoted_value = sf.coalesce(sf.concat(sf.lit("'"), value.cast("string"), sf.lit("'")), sf.lit("null"))
    return sf.raise_error(sf.concat(sf.lit(f"gpu_wcoj: {before}"), quoted_value, sf.lit(after))).cast("bigint")


TAG: Final = "_relation"
"""The column of united streams that holds the index of the relation's source."""
HASH: Final = "_hash"
"""The column of united streams that holds a hash of the row."""

Columns = Sequence[str] | Mapping[str, str] | None
Order = str | Sequence[str]


@dataclass(frozen=True)
class Reading:
    """Options for reading the changes of one relation; see `gpu_wcoj.spark.normalise`."""

    changes: Format = "auto"
    columns: Columns = None
    key: Order = ()
    order_by: Order = ()


@dataclass(frozen=True, eq=False)
class Source:
    """The changes of one relation.

    Attributes
    ----------
    relation
        Name of the relation in the program.
    given
        The DataFrame as passed by the user.
    frame
        The normalised rows: the data columns, ``weight``, and the order columns.
    reading
        The options of the normalisation.
    """

    relation: str
    original: DataFrame
    frame: DataFrame
    reading: Reading

    @property
    def data(self) -> list[str]:
        """The columns of the relation's rows."""
        order = order_columns(self.frame.columns)
        return [name for name in self.frame.columns if name != WEIGHT and name not in order]

    @property
    def rows(self) -> DataFrame:
        """The normalised rows, without the weights if all are 1 and nothing is checked with them."""
        how = self.reading
        return self.frame.drop(WEIGHT) if self.format == "append" and not how.key and not how.order_by else self.frame

    @property
    def format(self) -> Format:
        """The format of the changes."""
        return detect(self.original).format if self.reading.changes == "auto" else self.reading.changes

    @property
    def is_stream(self) -> bool:
        """True if the source is a stream."""
        return bool(self.frame.isStreaming)

    @property
    def direct(self) -> DataFrame | None:
        """The original rows that are the normalised ones, and perhaps their weights.

        None for formats with codes. Engines can read them without Spark's expressions.
        """
        how, chosen = self.reading, self.format
        if chosen not in ("append", "weight") or how.key or how.order_by or isinstance(how.columns, Mapping):
            return None
        names = [*self.data, *([WEIGHT] if chosen == "weight" else [])]
        return self.original.select(*map(quoted, names))

    def described(self) -> dict[str, Any]:
        """Return the properties that must stay the same while a checkpoint is used."""
        reads = streams_of(self.original) if self.is_stream else plain_files(self.original)
        order = self.reading.order_by
        return {
            "kind": "stream" if self.is_stream else "table",
            "reads": reads or [],
            "columns": [f"{column.name} {column.dataType.simpleString()}" for column in self.frame.schema],
            "changes": self.reading.changes,
            "order_by": [order] if isinstance(order, str) else list(order),
        }


def sources_of(
    frames: Mapping[str, DataFrame | Sequence[DataFrame]],
    inputs: Sequence[str],
    readings: Mapping[str, tuple[Reading, Reading]],
) -> list[Source]:
    """Return the sources in the program's order; of one relation, the table before the stream.

    Parameters
    ----------
    readings
        Per relation, the options for a table and those for a stream.

    Raises
    ------
    UsageError, SchemaError
        If the sources of one relation do not fit together.
    UnsupportedError
        If a DataFrame is one of Spark Connect.
    """
    for relation_frames in frames.values():
        for frame in _as_list(relation_frames):
            require_classic(frame, "maintain")
    sources: list[Source] = []
    for name in inputs:
        relation_frames = _as_list(frames[name])
        if len(relation_frames) > 1 and [frame.isStreaming for frame in relation_frames] != [False, True]:
            kinds = ", ".join("a stream" if frame.isStreaming else "a table" for frame in relation_frames)
            raise UsageError.with_parts(
                f"the sources of '{name}' are {kinds}",
                subject=name, got=kinds, expected="one source, or a table and then a stream",
                remedy="Unite several tables or streams: first.unionByName(second).",
            )  # fmt: skip
        relation_sources = []
        for frame in relation_frames:
            how = readings[name][frame.isStreaming]
            if len(relation_frames) > 1 and not frame.isStreaming:
                how = _of_table(how, frame)
            changes = normalise(frame, how.changes, columns=how.columns, key=how.key, order_by=how.order_by)
            relation_sources.append(Source(name, frame, changes, how))
        if len(relation_sources) > 1:
            relation_sources[1] = _align_columns(relation_sources[0], relation_sources[1])
        sources.extend(relation_sources)
    return sources


def _as_list(frames: DataFrame | Sequence[DataFrame]) -> list[DataFrame]:
    return list(frames) if isinstance(frames, (list, tuple)) else [frames]  # type: ignore[list-item]


def _of_table(how: Reading, table: DataFrame) -> Reading:
    """Return the options for a table, without `order_by` if it lacks all order columns.

    Such a table has no order: each of its rows counts by its weight.
    """
    order = [how.order_by] if isinstance(how.order_by, str) else list(how.order_by)
    if order and not any(name in table.columns or name.split(".")[0] in table.columns for name in order):
        return replace(how, order_by=())
    return how


def _data(source: Source) -> list[StructField]:
    return [source.frame.schema[name] for name in source.data]


def _align_columns(table: Source, stream: Source) -> Source:
    """Return the stream with its columns in the table's order.

    Raises
    ------
    SchemaError
        If its columns or their types differ.
    """
    table_fields, stream_types = _data(table), {column.name: column.dataType for column in _data(stream)}
    if {column.name: column.dataType for column in table_fields} != stream_types:
        raise SchemaError.mismatch(
            f"the stream of '{table.relation}'", "has other columns than the table",
            _format_fields(_data(stream)), _format_fields(table_fields),
            "Select, rename and cast columns, so that both are the same.",
        )  # fmt: skip
    if stream.data == table.data:
        return stream
    beside = [name for name in stream.frame.columns if name not in stream_types]
    return replace(stream, frame=stream.frame.select(*map(quoted, (*table.data, *beside))))


def _format_fields(fields: Sequence[StructField]) -> str:
    return ", ".join(f"'{column.name} {column.dataType.simpleString()}'" for column in fields)


@dataclass(frozen=True)
class BatchRows:
    """The rows of a micro-batch.

    Attributes
    ----------
    tables
        By relation, the data columns, ``weight``, and the order columns; relations without rows are left out.
    count, digest
        Their number and checksum.
    """

    tables: Mapping[str, pa.Table]
    count: int
    digest: str


@dataclass(frozen=True, eq=False)
class United:
    """Streams as one DataFrame: a tag for the relation, and slots shared by columns of one type.

    Attributes
    ----------
    frame
        Columns ``_relation``, ``_hash`` (of the row), ``weight``, and one for each slot.
    slots
        Per source, the column of each slot.
    """

    frame: DataFrame
    sources: Sequence[Source]
    slots: Sequence[Mapping[str, str]]

    @classmethod
    def from_sources(cls, sources: Sequence[Source]) -> United:
        """Return the union of these sources.

        A column takes the first free slot of its type.
        """
        kinds: dict[str, tuple[int, DataType]] = {}
        types: dict[str, DataType] = {}
        slots: list[dict[str, str]] = []
        for source in sources:
            used: dict[int, int] = {}
            column_of: dict[str, str] = {}
            for column in source.frame.schema:
                if column.name == WEIGHT:
                    continue
                kind, _ = kinds.setdefault(column.dataType.json(), (len(kinds), column.dataType))
                used[kind] = used.get(kind, -1) + 1
                slot = f"t{kind}_{used[kind]}"
                types[slot] = column.dataType
                column_of[slot] = column.name
            slots.append(column_of)
        frames = []
        for tag, (source, column_of) in enumerate(zip(sources, slots, strict=True)):
            padded = [
                (sf.col(quoted(column_of[slot])) if slot in column_of else sf.lit(None).cast(kind)).alias(slot)
                for slot, kind in types.items()
            ]
            row = [sf.lit(tag), sf.col(WEIGHT), *(sf.col(quoted(name)) for name in column_of.values())]
            frames.append(
                source.frame.select(sf.lit(tag).alias(TAG), sf.xxhash64(*row).alias(HASH), sf.col(WEIGHT), *padded)
            )
        return cls(reduce(lambda union, frame: union.unionAll(frame), frames), sources, slots)

    @cached_property
    def plain_streams(self) -> list[PlainStream] | None:
        """The streams, if all of them only select columns of Parquet files."""
        frames = [source.direct for source in self.sources]
        streams = [None if frame is None else plain_stream(frame) for frame in frames]
        return None if None in streams else [stream for stream in streams if stream is not None]

    @property
    def stream(self) -> DataFrame:
        """The stream that a query runs.

        For a single plain stream it is empty: Spark finds the files of a batch, but neither plans nor starts a scan of
        them. This process reads the rows, or `read_by_spark` does.
        """
        plain = self.sources[0].direct
        return self.frame if plain is None or not self.is_single_and_plain else plain.limit(0)

    @property
    def is_single_and_plain(self) -> bool:
        """True if there is one stream, which only selects columns of Parquet files."""
        return len(self.sources) == 1 and self.plain_streams is not None

    def read_by_spark(self, session: SparkSession, query: str, batch: int, batch_session: SparkSession) -> DataFrame:
        """Return the normalised rows of a micro-batch of a single plain stream, which Spark reads.

        Parameters
        ----------
        session, batch_session
            The session that started the query, and its copy that runs the batch.
        """
        assert self.plain_streams is not None
        files = MicroBatch.of_query(session, query, batch)
        if files is None:
            raise CheckpointError(
                f"Spark does not tell the files of batch {batch} of query '{query}'.\n  The batch is not committed."
            )
        return normalise(files.frame(batch_session, self.plain_streams[0]), self.sources[0].format)

    def count(self, session: SparkSession, query: str, batch: int, rows: int) -> None:
        """Tell Spark the number of rows of a micro-batch of a single plain stream."""
        files = MicroBatch.of_query(session, query, batch)
        if files is not None:
            files.count([rows])

    def read(self, batch_rows: DataFrame, session: SparkSession, query: str, batch: int) -> BatchRows:
        """Return the rows of a micro-batch of `stream`; `session` is the one that started the query."""
        rows = self._read_files(session, query, batch)
        if rows is not None:
            return rows
        if not self.is_single_and_plain:
            return self._collect(batch_rows)
        source, changes = self.sources[0], self.sources[0].format
        plain = self.read_by_spark(session, query, batch, batch_rows.sparkSession)
        normalised = Source(source.relation, plain, plain, Reading(changes))
        rows = self._collect(United.from_sources([normalised]).frame)
        self.count(session, query, batch, rows.count)
        return rows

    def _collect(self, united: DataFrame) -> BatchRows:
        """Return the rows of a batch with the columns of `frame`."""
        table = united.toArrow()
        return BatchRows(self.split(table), table.num_rows, digest_of(table[HASH].to_numpy()))

    def _read_files(self, session: SparkSession, query: str, batch: int) -> BatchRows | None:
        """Return the rows of a micro-batch as this process reads it; None if Spark has to."""
        tables = self.read_tables(session, query, batch)
        if tables is None:
            return None
        digests = [np.zeros(0, np.int64)]
        for tag, source in enumerate(self.sources):
            if source.relation in tables:
                table = tables[source.relation]
                digests.append(row_digests(tag, table.select([WEIGHT, *source.data])))
        return BatchRows(tables, sum(map(len, digests)), digest_of(np.concatenate(digests)))

    def read_tables(
        self, session: SparkSession, query: str, batch: int, max_rows: int | None = None
    ) -> dict[str, pa.Table] | None:
        """Return the data columns and weights of a micro-batch by relation; see `MicroBatch.read`.

        Relations without rows are left out. None if Spark has to read the rows.
        """
        streams = self.plain_streams
        files = None if streams is None else MicroBatch.of_query(session, query, batch)
        tables = None if streams is None or files is None else files.read(streams, max_rows)
        if tables is None:
            return None
        rows: dict[str, pa.Table] = {}
        for source, table in zip(self.sources, tables, strict=True):
            if table is None or not table.num_rows:
                continue
            is_weighted = WEIGHT in table.column_names
            weights = table[WEIGHT].cast(pa.int64()) if is_weighted else pa.array(np.ones(table.num_rows, np.int64))
            if weights.null_count:
                return None  # Spark's expression of the weight raises the error
            rows[source.relation] = table.select(source.data).append_column(WEIGHT, weights)
        return rows

    def split(self, rows: pa.Table) -> dict[str, pa.Table]:
        """Return the rows of each relation with its columns; relations without rows are left out."""
        tables = {}
        tags = rows[TAG]
        for tag, (source, column_of) in enumerate(zip(self.sources, self.slots, strict=True)):
            relation_rows = rows if len(self.sources) == 1 else rows.filter(pc.equal(tags, tag))
            if relation_rows.num_rows:
                by_name = {name: slot for slot, name in column_of.items()}
                data = [name for name in by_name if name not in order_columns(list(by_name))]
                names = [*data, WEIGHT, *(name for name in by_name if name not in data)]
                tables[source.relation] = pa.table({name: relation_rows[by_name.get(name, name)] for name in names})
        return tables


def digest_of(digests: npt.NDArray[np.int64]) -> str:
    """Return a checksum of the rows of a batch from their hashes.

    It does not depend on their order, as Spark may deliver the same batch in another order.
    """
    hashes = digests.view(np.uint64)
    return f"{int(hashes.sum(dtype=np.uint64)):016x}{int((hashes >> np.uint64(32)).sum(dtype=np.uint64)):016x}"


@dataclass(frozen=True, eq=False)
class Sources:
    """The sources of a view.

    Attributes
    ----------
    all
        All sources, in the program's order.
    united
        The union of the streams; None without streams.
    """

    all: Sequence[Source]
    united: United | None = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        streams = [source for source in self.all if source.is_stream]
        object.__setattr__(self, "united", United.from_sources(streams) if streams else None)

    @property
    def tables(self) -> list[Source]:
        """The sources that are loaded before the first batch."""
        return [source for source in self.all if not source.is_stream]

    @property
    def by_relation(self) -> dict[str, list[Source]]:
        """The one or two sources of each relation, a table first."""
        sources: dict[str, list[Source]] = {}
        for source in self.all:
            sources.setdefault(source.relation, []).append(source)
        return sources

    def described(self) -> dict[str, Any]:
        """Return the properties that must stay the same while a checkpoint is used."""
        described = {name: [source.described() for source in sources] for name, sources in self.by_relation.items()}
        return {
            name: descriptions[0] if len(descriptions) == 1 else descriptions
            for name, descriptions in described.items()
        }


# Conversion of a batch's normalised rows to a change that the engine accepts.


@entry_point
def as_change(rows: pa.Table) -> pa.Table | ZSet:
    """Return the normalised rows of one relation in a batch as an argument of `Program.step`.

    With order columns, the result is a table sorted by them, negative weights first within equal ones: the last
    operation on a row wins. Without them, it is a `ZSet`: Spark may shuffle the rows of a batch, so they have no order
    and the net weight decides.

    Examples
    --------
    >>> import pyarrow as pa
    >>> rows = {"a": [1, 1, 2], "weight": [1, -1, 1]}
    >>> as_change(pa.table(rows)).rows()
    [((2,), 1)]
    >>> as_change(pa.table({**rows, "_order_1": [5, 4, 4]})).to_pydict()
    {'a': [1, 2, 1], 'weight': [-1, 1, 1]}
    """
    order = order_columns(rows.column_names)
    if not order:
        return ZSet.from_arrow(rows, weight=WEIGHT)
    return rows.sort_by([(name, "ascending") for name in (*order, WEIGHT)]).drop_columns(order)

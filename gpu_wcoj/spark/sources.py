"""The sources of a view: tables that are loaded, and streams united into one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as sf

from gpu_wcoj.errors import SchemaError, UsageError
from gpu_wcoj.spark.canonical import normalise
from gpu_wcoj.spark.formats import WEIGHT, Format, order_columns
from gpu_wcoj.spark.scans import plain_files, streams_of
from gpu_wcoj.spark.session import require_classic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructField

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
    def is_stream(self) -> bool:
        """Whether the source is a stream."""
        return bool(self.frame.isStreaming)

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
    return replace(stream, frame=stream.frame.select(*map(_quoted, (*table.data, *beside))))


def _format_fields(fields: Sequence[StructField]) -> str:
    return ", ".join(f"'{column.name} {column.dataType.simpleString()}'" for column in fields)


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
                (sf.col(_quoted(column_of[slot])) if slot in column_of else sf.lit(None).cast(kind)).alias(slot)
                for slot, kind in types.items()
            ]
            row = [sf.lit(tag), sf.col(WEIGHT), *(sf.col(_quoted(name)) for name in column_of.values())]
            frames.append(
                source.frame.select(sf.lit(tag).alias(TAG), sf.xxhash64(*row).alias(HASH), sf.col(WEIGHT), *padded)
            )
        return cls(reduce(lambda union, frame: union.unionAll(frame), frames), sources, slots)

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


def digest_of(rows: pa.Table) -> str:
    """Return a checksum of the rows of a batch that does not depend on their order.

    Spark may deliver the same batch in another order.
    """
    hashes = rows[HASH].to_numpy().view(np.uint64)
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
    united: United | None = field(init=False)

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


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"

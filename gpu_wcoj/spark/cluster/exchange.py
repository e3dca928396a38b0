"""Rows of all relations of a plan in one DataFrame, and as Arrow batches between stages.

Columns: ``rel``, the index of the relation; ``weight``; ``first``, 1 once for every source row, else 0; ``digest``, a
hash of that row, else 0; ``t0_0``, ``t0_1``, ``t1_0``, ...: slots, which relations share type by type, null if a row's
relation does not use them; ``note``: the report of a cell, in rows that do not belong to a relation. There are no
structs: the RAPIDS Accelerator does not accept them from Python.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as sf
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from gpu_wcoj.engine.ingest import arity_message, column_order
from gpu_wcoj.errors import ArityError
from gpu_wcoj.program import Program
from gpu_wcoj.spark.cluster.plan import CellPlan
from gpu_wcoj.spark.formats import WEIGHT, order_columns
from gpu_wcoj.spark.types import arrow_schema, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

REL, FIRST, DIGEST, NOTE = "rel", "first", "digest", "note"
STAGE, CELL, MASK, KEY = "stage", "cell", "mask", "key"


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of all relations that are sent to cells.

    Attributes
    ----------
    fields
        Per relation of the plan its columns: ``c0``, ``c1``, ... and for ordered inputs ``o0``, ...
    heads
        Per output, its columns as they are written, without weight and batch.
    """

    fields: tuple[StructType, ...]
    heads: Mapping[str, pa.Schema]

    @classmethod
    def from_frames(cls, plan: CellPlan, frames: Mapping[str, StructType], program: Program) -> Columns:
        """Return the columns for those of the sources.

        `program` is a program without ticks, from which the types of heads are read.

        Raises
        ------
        ArityError, SchemaError, TypeMismatchError
            If the columns are not those that the program reads, or do not join.
        """
        empty = {}
        fields: dict[str, StructType] = {}
        for name in plan.rules.inputs:
            data = data_columns(frames[name].names)
            ordered = in_order(program, name, data)
            schema = StructType([frames[name][column] for column in data])
            empty[name] = arrow_schema(schema, f"relation '{name}'").empty_table()
            moments = [frames[name][column] for column in order_columns(frames[name].names)]
            fields[name] = StructType(
                [StructField(f"c{i}", frames[name][column].dataType) for i, column in enumerate(ordered)]
                + [StructField(f"o{i}", moment.dataType) for i, moment in enumerate(moments)]
            )
        program.step(empty)
        heads: dict[str, pa.Schema] = {}
        for name in program.heads:
            heads[name] = program.relation(name).with_weight_name(None).to_arrow().schema.remove_metadata()
            kinds = spark_schema(heads[name])
            fields[name] = StructType([StructField(f"c{i}", column.dataType) for i, column in enumerate(kinds)])
            heads[name] = arrow_schema(kinds)  # as Spark reads them: not large_string, say
        return cls(tuple(fields[relation.name] for relation in plan.travelling), heads)

    @cached_property
    def types(self) -> Mapping[str, DataType]:
        """The slots, with their types."""
        return {
            slot: kind[name].dataType
            for kind, slot_of in zip(self.fields, self.slots, strict=True)
            for name, slot in slot_of.items()
        }

    @cached_property
    def slots(self) -> tuple[Mapping[str, str], ...]:
        """Per relation, the slot of each of its columns: the first free one of its type."""
        kinds: dict[str, int] = {}
        slots = []
        for fields in self.fields:
            used: dict[int, int] = {}
            slot_of = {}
            for column in fields:
                kind = kinds.setdefault(column.dataType.json(), len(kinds))
                slot_of[column.name] = f"t{kind}_{used.get(kind, 0)}"
                used[kind] = used.get(kind, 0) + 1
            slots.append(slot_of)
        return tuple(slots)

    @property
    def moving(self) -> StructType:
        """The schema of rows between two stages."""
        fields = [
            StructField(REL, IntegerType()), StructField(WEIGHT, LongType()), StructField(FIRST, LongType()),
            StructField(DIGEST, LongType()), StructField(NOTE, StringType()),
            StructField(STAGE, IntegerType()), StructField(CELL, IntegerType()), StructField(MASK, LongType()),
        ]  # fmt: skip
        return StructType(fields + [StructField(slot, kind) for slot, kind in self.types.items()])

    def described(self) -> list[str]:
        """Return the types, for comparison."""
        return [kind.simpleString() for kind in self.fields]


def data_columns(names: Sequence[str]) -> list[str]:
    """Return the columns of the relation among the columns of normalised rows."""
    order = order_columns(names)
    return [name for name in names if name != WEIGHT and name not in order]


def unite(plan: CellPlan, columns: Columns, frames: Mapping[str, Sequence[DataFrame]], program: Program) -> DataFrame:
    """Return the normalised rows of all sources in one DataFrame."""
    parts = []
    for relation, name in enumerate(plan.rules.inputs):
        for frame in frames.get(name, ()):
            data = in_order(program, name, data_columns(frame.columns))
            values_of_row = [sf.col(quoted(column)) for column in (*data, *order_columns(frame.columns))]
            digest = sf.xxhash64(sf.lit(relation), sf.col(WEIGHT), *values_of_row)
            fields = columns.fields[relation]
            # A table beside an ordered stream may lack the order columns.
            values = [*values_of_row, *(sf.lit(None) for _ in fields.fields[len(values_of_row) :])]
            slot_values = {
                columns.slots[relation][field.name]: value.cast(field.dataType)
                for value, field in zip(values, fields, strict=True)
            }
            parts.append(
                frame.select(
                    sf.lit(relation).alias(REL), sf.col(WEIGHT), digest.alias(DIGEST), *pad_slots(slot_values, columns)
                )
            )
    return reduce(lambda union, frame: union.unionAll(frame), parts)


def pad_slots(values: Mapping[str, Column], columns: Columns) -> list[Column]:
    """Return all slots, null where `values` has no column."""
    return [
        (values[slot] if slot in values else sf.lit(None).cast(kind)).alias(slot)
        for slot, kind in columns.types.items()
    ]


def reselect(rows: DataFrame, columns: Columns) -> DataFrame:
    """Return rows of `unite` with the columns of another plan.

    Inputs have the same slots in every plan.
    """
    slot_values = {name: sf.col(name) for name in rows.columns}
    return rows.select(REL, WEIGHT, DIGEST, *pad_slots(slot_values, columns))


def moving_rows(
    schema: pa.Schema, relation: int, slots: Sequence[str], columns: Sequence[Any], weights: Any
) -> pa.RecordBatch:
    """Return rows of one relation for the next stage; its columns are in these slots."""
    n = len(weights)
    arrays_by_name: dict[str, Any] = {
        REL: pa.repeat(pa.scalar(relation, pa.int32()), n), WEIGHT: _combine_chunks(weights),
        FIRST: pa.repeat(pa.scalar(0, pa.int64()), n), DIGEST: pa.repeat(pa.scalar(0, pa.int64()), n),
    }  # fmt: skip
    for slot, column in zip(slots, columns, strict=True):
        arrays_by_name[slot] = _combine_chunks(column).cast(schema.field(slot).type)
    arrays = [
        arrays_by_name[column.name] if column.name in arrays_by_name else pa.nulls(n, column.type) for column in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def note_row(schema: pa.Schema, text: str) -> pa.RecordBatch:
    """Return a cell's report as a row beside those of relations."""
    arrays = [pa.array([text], column.type) if column.name == NOTE else pa.nulls(1, column.type) for column in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _combine_chunks(column: Any) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def in_order(program: Program, name: str, data: Sequence[str]) -> list[str]:
    """Return the columns of an input in the relation's order; see `column_order`.

    Raises
    ------
    ArityError, ColumnError
        If they are not those of the relation.
    """
    declared = program.declared.get(name)
    if len(data) != program.arity(name):
        raise ArityError(arity_message(name, program.arity(name), data, declared))
    return [data[i] for i in column_order(name, data, declared)]


def quoted(name: str) -> str:
    """Return the name of a column, quoted for an expression."""
    return "`" + name.replace("`", "``") + "`"

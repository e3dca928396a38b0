"""Rows of all relations of a plan in one DataFrame, and in Arrow as cells give them on.

Columns: ``rel``, the number of the relation that travels; ``weight``; ``first``, 1 once for every row that a source
gave, and ``digest``, a hash of that row, else 0; ``r0``, ``r1``, ...: a struct for each relation, null but for its own;
``note``: what a cell reports, in rows that are no rows of relations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from gpu_wcoj.errors import ArityError, SchemaError, listed
from gpu_wcoj.program import Program
from gpu_wcoj.spark.cells.plan import CellPlan
from gpu_wcoj.spark.formats import WEIGHT, order_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

REL, FIRST, DIGEST, NOTE = "rel", "first", "digest", "note"
STAGE, CELL, MASK, KEY = "stage", "cell", "mask", "key"


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of everything that travels.

    Attributes
    ----------
    structs
        Per relation that travels its struct: ``c0``, ``c1``, ... and for ordered inputs ``o0``, ...
    heads
        Per output, its columns as they are written, the weight and the batch left out.
    """

    structs: tuple[StructType, ...]
    heads: Mapping[str, pa.Schema]

    @classmethod
    def of(cls, plan: CellPlan, frames: Mapping[str, StructType], program: Program) -> Columns:
        """The columns by those of the sources; `program` is one that has not ticked, and learns the types.

        Raises
        ------
        ArityError, SchemaError, TypeMismatchError
            If the columns are not those that the program reads, or do not join.
        """
        empty = {}
        structs: dict[str, StructType] = {}
        for name in plan.rules.inputs:
            data = data_columns(frames[name].names)
            if len(data) != program.arity(name):
                raise ArityError(
                    f"relation '{name}' has {program.arity(name)} columns, and the rows have {len(data)}: "
                    f"{listed(data)}."
                )
            fields = [frames[name][one] for one in data]
            empty[name] = to_arrow_schema(StructType(fields)).empty_table()
            ordered = _by_declaration(program, name, data)
            moments = [frames[name][one] for one in order_columns(frames[name].names)]
            structs[name] = StructType(
                [StructField(f"c{i}", frames[name][one].dataType) for i, one in enumerate(ordered)]
                + [StructField(f"o{i}", one.dataType) for i, one in enumerate(moments)]
            )
        program.step(empty)
        heads: dict[str, pa.Schema] = {}
        for name in program.heads:
            heads[name] = program.relation(name).with_weight_name(None).to_arrow().schema.remove_metadata()
            kinds = from_arrow_schema(heads[name])
            structs[name] = StructType([StructField(f"c{i}", one.dataType) for i, one in enumerate(kinds)])
            heads[name] = to_arrow_schema(kinds)  # as Spark reads them: not large_string, say
        return cls(tuple(structs[one.name] for one in plan.travelling), heads)

    @property
    def moving(self) -> StructType:
        """Of rows between two stages."""
        fields = [
            StructField(REL, IntegerType()), StructField(WEIGHT, LongType()), StructField(FIRST, LongType()),
            StructField(DIGEST, LongType()), StructField(NOTE, StringType()),
            StructField(STAGE, IntegerType()), StructField(CELL, IntegerType()), StructField(MASK, LongType()),
        ]  # fmt: skip
        return StructType(fields + [StructField(f"r{i}", kind) for i, kind in enumerate(self.structs)])

    def described(self) -> list[str]:
        """The types, for comparison."""
        return [kind.simpleString() for kind in self.structs]


def data_columns(names: Sequence[str]) -> list[str]:
    """Of the columns that `normalise` gave, those of the relation."""
    order = order_columns(names)
    return [name for name in names if name != WEIGHT and name not in order]


def united(plan: CellPlan, columns: Columns, frames: Mapping[str, DataFrame], program: Program) -> DataFrame:
    """The normalised rows of the sources in one DataFrame."""
    parts = []
    for number, name in enumerate(plan.rules.inputs):
        if name not in frames:
            continue
        frame = frames[name]
        data = _by_declaration(program, name, data_columns(frame.columns))
        values = [sf.col(_quoted(one)) for one in (*data, *order_columns(frame.columns))]
        own = [
            value.cast(field.dataType).alias(field.name)
            for value, field in zip(values, columns.structs[number], strict=True)
        ]
        digest = sf.xxhash64(sf.lit(number), sf.col(WEIGHT), *values)
        structs = [
            (sf.struct(*own) if other == number else sf.lit(None).cast(kind)).alias(f"r{other}")
            for other, kind in enumerate(columns.structs)
        ]
        parts.append(frame.select(sf.lit(number).alias(REL), sf.col(WEIGHT), digest.alias(DIGEST), *structs))
    return reduce(lambda one, other: one.unionAll(other), parts)


def moving_rows(schema: pa.Schema, number: int, columns: Sequence[Any], weights: Any) -> pa.RecordBatch:
    """Rows of one relation as a cell gives them on."""
    n = len(weights)
    field = schema.field(f"r{number}")
    kinds = [field.type.field(i) for i in range(field.type.num_fields)]
    own = pa.StructArray.from_arrays(
        [_whole(column).cast(kind.type) for column, kind in zip(columns, kinds, strict=True)], fields=kinds
    )
    given: dict[str, Any] = {
        REL: pa.repeat(pa.scalar(number, pa.int32()), n), WEIGHT: _whole(weights), f"r{number}": own,
        FIRST: pa.repeat(pa.scalar(0, pa.int64()), n), DIGEST: pa.repeat(pa.scalar(0, pa.int64()), n),
    }  # fmt: skip
    arrays = [given[one.name] if one.name in given else pa.nulls(n, one.type) for one in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def note_row(schema: pa.Schema, text: str) -> pa.RecordBatch:
    """What a cell reports, as a row beside those of relations."""
    arrays = [pa.array([text], one.type) if one.name == NOTE else pa.nulls(1, one.type) for one in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _whole(column: Any) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _by_declaration(program: Program, name: str, data: Sequence[str]) -> list[str]:
    declared = program.declared.get(name)
    if declared is None or tuple(data) == tuple(declared) or data == [f"c{i}" for i in range(len(data))]:
        return list(data)
    if sorted(declared) != sorted(data):
        raise SchemaError(f"relation '{name}' is declared with {listed(declared)}, and the rows have {listed(data)}.")
    return list(declared)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"

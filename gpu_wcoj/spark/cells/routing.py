"""Sending rows to their cells: expressions that Spark's planner sees, and that the RAPIDS Accelerator computes.

A variable's part is the hash of its value's canonical form, with a salt of the variable's own: integers of any width
as bigint, decimals as double, the rest as it is; equal values of two columns that join have equal hashes. A row goes
to a cell once, with a mask of the roles that it has there.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    FractionalType,
    IntegralType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from gpu_wcoj.errors import UnsupportedTypeError
from gpu_wcoj.spark.cells.keys import cell_keys
from gpu_wcoj.spark.cells.plan import CellPlan, Route, Stage
from gpu_wcoj.spark.cells.rows import CELL, DIGEST, FIRST, KEY, MASK, NOTE, REL, STAGE, Columns
from gpu_wcoj.spark.formats import WEIGHT

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

_TO = "to"
_AS_THEY_ARE = (BooleanType, FractionalType, DateType, TimestampType, TimestampNTZType, StringType, BinaryType)


def routed(frame: DataFrame, plan: CellPlan, columns: Columns, since: int) -> DataFrame:
    """Every row once for each cell that it goes to, in the stages from `since` on; notes go on to that stage.

    Parameters
    ----------
    frame
        Rows of relations, with ``first`` and ``stage`` if they come out of a stage. Rows with a stage keep their cell:
        they are on their way to it.
    """
    inside = STAGE in frame.columns
    to = sf.lit(None).cast(f"array<struct<{STAGE}:int,{CELL}:int,{MASK}:bigint>>")
    for relation in plan.travelling:
        entries = [
            entry
            for stage in plan.stages[since:]
            for entry in _entries(plan, stage, relation.number, columns.structs[relation.number])
        ]
        if entries:
            there = sf.filter(sf.array(*entries), lambda one: one[MASK] != 0)
            to = sf.when(sf.col(REL) == relation.number, there).otherwise(to)
    if inside:
        stay = sf.array(sf.struct(sf.col(STAGE), sf.col(CELL), sf.col(MASK)))
        note = sf.array(_entry(since, 0, sf.lit(0).cast("bigint")))
        to = sf.when(sf.col(STAGE).isNotNull(), stay).when(sf.col(NOTE).isNotNull(), note).otherwise(to)
    structs = [sf.col(f"r{i}") for i in range(len(columns.structs))]
    counted = sf.col("pos") == 0
    first = sf.col(FIRST) if inside else counted.cast("bigint")
    digest = sf.col(DIGEST) if inside else sf.when(counted, sf.col(DIGEST)).otherwise(sf.lit(0).cast("bigint"))
    note_column = sf.col(NOTE) if inside else sf.lit(None).cast("string")
    kept = [sf.col(name) for name in ((REL, WEIGHT, FIRST, DIGEST, NOTE) if inside else (REL, WEIGHT, DIGEST))]
    exploded = frame.select(*kept, *structs, sf.posexplode(to).alias("pos", _TO))
    return exploded.select(
        sf.col(REL), sf.col(WEIGHT), first.alias(FIRST), digest.alias(DIGEST), note_column.alias(NOTE),
        *(sf.col(f"{_TO}.{name}").alias(name) for name in (STAGE, CELL, MASK)), *structs,
    )  # fmt: skip


def exchanged(frame: DataFrame, cells: int) -> DataFrame:
    """One partition for each cell, with the cell's number."""
    keys = sf.array(*(sf.lit(key) for key in cell_keys(cells)))
    return frame.withColumn(KEY, sf.element_at(keys, sf.col(CELL) + 1)).repartition(cells, KEY).drop(KEY)


def _entries(plan: CellPlan, stage: Stage, relation: int, struct: StructType) -> list[Column]:
    """Per cell, the roles of a row there; the mask is 0 where it does not go."""
    roles = stage.roles_of(relation)
    routes = [one for one in plan.travelling[relation].routes if one.stage == stage.number]
    found = []
    for cell in range(plan.chosen.cells):
        bits = [_bit(route, roles.index(route.role), relation, struct, cell) for route in routes if cell < route.cells]
        if bits:
            found.append(_entry(stage.number, cell, reduce(lambda one, other: one + other, bits)))
    return found


def _bit(route: Route, bit: int, relation: int, struct: StructType, cell: int) -> Column:
    mine = sf.lit(1 << bit).cast("bigint")
    conditions = []
    if route.hashed:
        at = [
            sf.pmod(_hash(relation, one.columns, struct, one.salt), sf.lit(one.parts).cast("bigint")) * one.stride
            for one in route.hashed
        ]
        conditions.append(reduce(lambda one, other: one + other, at) == route.coordinate(cell))
    for column, values, wanted in route.chosen:
        held = sf.coalesce(sf.col(f"r{relation}.c{column}").isin(*values), sf.lit(False))
        conditions.append(held if wanted else ~held)
    if not conditions:
        return mine
    return sf.when(reduce(lambda one, other: one & other, conditions), mine).otherwise(sf.lit(0).cast("bigint"))


def _hash(relation: int, columns: Sequence[int], struct: StructType, salt: int) -> Column:
    values = [canonical(sf.col(f"r{relation}.c{i}"), struct[f"c{i}"].dataType) for i in columns]
    return sf.xxhash64(*values, sf.lit(salt))


def canonical(value: Column, kind: DataType) -> Column:
    """A column in the form whose hash is the same for all values that are equal to the engine.

    Raises
    ------
    UnsupportedTypeError
        If the type has none.
    """
    if isinstance(kind, IntegralType):
        return value.cast("bigint")
    if isinstance(kind, DecimalType):
        return value.cast("double")
    if isinstance(kind, _AS_THEY_ARE):
        return value
    raise UnsupportedTypeError(
        f"a column of type '{kind.simpleString()}' cannot be spread over cells.\n  Cast it, or use layout='one'."
    )


def entry_type() -> str:
    """The type of a cell that a row goes to."""
    return f"struct<{STAGE}:int,{CELL}:int,{MASK}:bigint>"


def _entry(stage: int, cell: int, mask: Column) -> Column:
    return sf.struct(sf.lit(stage).alias(STAGE), sf.lit(cell).alias(CELL), mask.alias(MASK))

"""The exchange of rows between sources and cells, as DataFrames.

Python functions route rows and send them as parcels, see `gpu_wcoj.spark.cluster.parcels`. Where the RAPIDS Accelerator
runs Spark's plans, expressions route the rows of sources one by one instead, so that the GPU routes and exchanges
them; both ways send a row to the same cells.

Rows of all relations in one DataFrame have these columns: ``rel``, the index of the relation; ``weight``; ``digest``, a
hash of the row; ``t0_0``, ``t0_1``, ``t1_0``, ...: slots, which relations share type by type, null if a row's relation
does not use them. There are no structs: the RAPIDS Accelerator does not accept them from Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import count
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    IntegerType,
    LongType,
    StructField,
    StructType,
)

from gpu_wcoj.arrow.types import to_pyarrow
from gpu_wcoj.arrow.write import decode
from gpu_wcoj.data.schema import INT64
from gpu_wcoj.engine.ingest import arity_message, column_order
from gpu_wcoj.errors import ArityError, UnsupportedTypeError, UsageError
from gpu_wcoj.program import Program
from gpu_wcoj.spark.cluster.hashing import canonical, canonical_type, check_hashable
from gpu_wcoj.spark.cluster.parcels import CELL, DIGEST, KEY, MASK, PARCEL, REL, STAGE, Dispatch, Router
from gpu_wcoj.spark.cluster.plan import CellPlan, Route
from gpu_wcoj.spark.files import map_rows
from gpu_wcoj.spark.schema import arrow_schema, arrow_type, quoted, spark_schema
from gpu_wcoj.spark.sources import WEIGHT, order_columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType


FIRST = "first"
"""The column that is 1 for the first copy of a row, else 0, where expressions route rows."""
EXCHANGE = "spark.gpuWcoj.cells.exchange"
"""The conf of the exchange: ``arrow``, ``expressions``, or ``auto``, which asks for the RAPIDS Accelerator."""


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
        for sent in plan.travelling:
            hashed = {i for route in sent.routes for coordinate in route.hashed for i in coordinate.columns}
            if sent.name in empty:
                _check_hashed(sent.name, fields[sent.name], core_types(program, sent.name), hashed)
        heads = {
            name: program.relation(name).with_weight_name(None).to_arrow().schema.remove_metadata()
            for name in program.heads
        }
        for name in plan.inner:
            heads[name] = pa.schema([(f"c{i}", kind) for i, kind in enumerate(core_types(program, name))])
        for name, schema in heads.items():
            kinds = spark_schema(schema)
            fields[name] = StructType([StructField(f"c{i}", column.dataType) for i, column in enumerate(kinds)])
            heads[name] = arrow_schema(kinds)  # as Spark reads them: not large_string, say
        return cls(tuple(StructType(fields[sent.name].fields[: sent.width]) for sent in plan.travelling), heads)

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
    def routed(self) -> StructType:
        """The schema of rows that expressions have routed."""
        fields = [
            StructField(REL, IntegerType()), StructField(WEIGHT, LongType()), StructField(FIRST, LongType()),
            StructField(DIGEST, LongType()), StructField(STAGE, IntegerType()), StructField(CELL, IntegerType()),
            StructField(MASK, LongType()),
        ]  # fmt: skip
        return StructType(fields + [StructField(slot, kind) for slot, kind in self.types.items()])

    def described(self) -> list[str]:
        """Return the types, for comparison."""
        return [kind.simpleString() for kind in self.fields]


def _check_hashed(name: str, fields: StructType, kinds: Sequence[pa.DataType], hashed: Iterable[int]) -> None:
    """Raise if a hashed column joins one whose equal values have other hashes."""
    for i in sorted(hashed):
        (joined,) = spark_schema(pa.schema([("x", kinds[i])]))
        if canonical_type(fields[i].dataType) != canonical_type(joined.dataType):
            raise UnsupportedTypeError.unsupported(
                f"a column of type '{fields[i].dataType.simpleString()}' that joins one of type "
                f"'{joined.dataType.simpleString()}' on cells (relation '{name}', column {i})",
                remedy="Cast one of them, or use layout='one'.",
            )


def core_types(program: Program, name: str) -> list[pa.DataType]:
    """Return the types of a relation of a program in core form, as far as its inputs show them."""
    subject = program.subject
    compiled = subject.ledger.lowered
    assert compiled is not None
    types = subject.lowering.types_as_written(compiled.types)
    return [to_pyarrow(types.assumed(name, i) or INT64) for i in range(subject.lowering.core.arity[name])]


def fact_frames(plan: CellPlan, columns: Columns, program: Program) -> dict[str, Sequence[DataFrame]]:
    """Return the facts of a program's text as tables; `program` is one without ticks."""
    types = program.subject.lowering.types_as_written(program.subject.ledger.state.types)
    frames: dict[str, Sequence[DataFrame]] = {}
    for name, rows in program.subject.lowering.facts({}, types).items():
        schema = columns.fields[plan.sources.index(name)]
        values = [
            decode(values).cast(arrow_type(column.dataType))
            for values, column in zip(rows.columns, schema, strict=True)
        ]
        frames[name] = [SparkSession.active().createDataFrame(pa.table(values, names=schema.names))]
    return frames


def data_columns(names: Sequence[str]) -> list[str]:
    """Return the columns of the relation among the columns of normalised rows."""
    order = order_columns(names)
    return [name for name in names if name != WEIGHT and name not in order]


Sources = Sequence["tuple[int | None, DataFrame]"]
"""DataFrames with the index of their relation, whose columns they have; None for rows of all relations."""


def select_sources(
    plan: CellPlan, columns: Columns, frames: Mapping[str, Sequence[DataFrame]], program: Program, *, digests: bool
) -> Sources:
    """Return the normalised rows of sources with the columns of their relations.

    Parameters
    ----------
    frames
        Without a column of weights, all weights are 1. A table beside an ordered stream may lack the order columns.
    digests
        Whether rows have a hash.
    """
    sources: list[tuple[int | None, DataFrame]] = []
    for relation, name in enumerate(plan.sources):
        for frame in frames.get(name, ()):
            data = data_columns(frame.columns)
            if name in plan.rules.inputs:
                data = in_order(program, name, data)
            values = [sf.col(quoted(column)) for column in (*data, *order_columns(frame.columns))]
            fields = columns.fields[relation]
            selected = [
                value.cast(field.dataType).alias(field.name) for value, field in zip(values, fields, strict=False)
            ]
            weight = [sf.col(WEIGHT)] if WEIGHT in frame.columns else []
            if digests:
                row = [*(weight or [sf.lit(1).cast("bigint")]), *values]
                selected.append(sf.xxhash64(sf.lit(relation), *row).alias(DIGEST))
            sources.append((relation, frame.select(*selected, *weight)))
    return sources


def unite(sources: Sources, columns: Columns) -> DataFrame:
    """Return the rows of all sources in one DataFrame."""
    parts = []
    for relation, frame in sources:
        if relation is None:
            parts.append(frame)
            continue
        names = set(frame.columns)
        slot_values = {slot: sf.col(name) for name, slot in columns.slots[relation].items() if name in names}
        beside = [
            sf.col(name) if name in names else sf.lit(default).cast("bigint").alias(name)
            for name, default in ((WEIGHT, 1), (DIGEST, 0))
        ]
        parts.append(frame.select(sf.lit(relation).alias(REL), *beside, *pad_slots(slot_values, columns)))
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


# Keys with which Spark's hash partitioning assigns each cell to the partition of its index.
#
# ``repartition(p, key)`` uses the partition ``pmod(hash(key), p)``. Hashing the cell's index itself would put several
# cells into one partition and leave others empty; so each cell has an integer with the required hash.


_MASK = 0xFFFFFFFF
"""The 32 low bits."""
_SEED = 42
"""The seed of Spark's function ``hash``."""


def cell_keys(cells: int) -> list[int]:
    """Return, per cell, the smallest integer whose partition is the cell's index.

    Examples
    --------
    >>> [spark_hash(key) % 3 for key in cell_keys(3)]
    [0, 1, 2]
    """
    key_of: dict[int, int] = {}
    for key in count():
        key_of.setdefault(spark_hash(key) % cells, key)
        if len(key_of) == cells:
            return [key_of[cell] for cell in range(cells)]
    raise AssertionError


def spark_hash(value: int) -> int:
    """Return Spark's ``hash`` of an ``int``: 32-bit MurmurHash3 with the seed 42.

    Examples
    --------
    >>> spark_hash(0), spark_hash(1)
    (933211791, -559580957)
    """
    mixed = _rotated(value * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK
    state = (_rotated(_SEED ^ mixed, 13) * 5 + 0xE6546B64) & _MASK
    state ^= 4
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        state = (state ^ state >> shift) * factor & _MASK
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & _MASK


# Routing rows to cells with expressions that Spark's planner sees and RAPIDS can run.
#
# The part of a variable is the hash of its value's canonical form, with a salt for the variable. Integers of any width
# are hashed as bigint, decimals as double, other types as they are; equal values of two columns that join have equal
# hashes. A row is sent to a cell once, with a mask of its roles there.


_TO = "to"
_SHIFT = 64
"""Cells of a stage: a cell is encoded as the stage's index times this plus the cell's index."""


def route_rows(frame: DataFrame, plan: CellPlan, columns: Columns) -> DataFrame:
    """Return every row of `unite` once for each of its cells, in all stages."""
    routes = [(relation, route) for relation in plan.travelling[: len(plan.sources)] for route in relation.routes]
    names = {route: f"to_{route.stage}_{route.role}" for _, route in routes}
    words = [_cells_of(route, relation.index, columns).alias(names[route]) for relation, route in routes]
    arrays, masks = [], ["CASE"]
    for stage in plan.stages:
        here = [(relation, route) for relation, route in routes if route.stage == stage.index]
        if here:
            cells = ", ".join(str(_SHIFT * stage.index + cell) for cell in range(plan.chosen.cells))
            word = " | ".join(names[route] for _, route in here)
            arrays.append(f"filter(array({cells}), d -> (shiftright({word}, d % {_SHIFT}) & 1L) = 1L)")
            bits = []
            for relation, route in here:
                bit = stage.roles_of(relation.index).index(route.role)
                bits.append(f"shiftleft(shiftright({names[route]}, {_TO} % {_SHIFT}) & 1L, {bit})")
            masks.append(f"WHEN {_TO} div {_SHIFT} = {stage.index} THEN {' | '.join(bits)}")
    to = f"concat({', '.join(arrays)})" if arrays else "cast(null as array<int>)"
    mask = f"{' '.join(masks)} ELSE 0L END" if arrays else "0L"
    exploded = frame.select("*", *words).select("*", sf.expr(f"posexplode({to})").alias("pos", _TO))
    return exploded.selectExpr(
        REL, WEIGHT, f"CASE WHEN pos = 0 THEN 1L ELSE 0L END AS {FIRST}",
        f"CASE WHEN pos = 0 THEN {DIGEST} ELSE 0L END AS {DIGEST}",
        f"cast({_TO} div {_SHIFT} AS int) AS {STAGE}", f"{_TO} % {_SHIFT} AS {CELL}", f"{mask} AS {MASK}",
        *columns.types,
    )  # fmt: skip


def exchange_rows(frame: DataFrame, cells: int) -> DataFrame:
    """Repartition rows so that each cell is the partition of its index."""
    keys = sf.array(*(sf.lit(key) for key in cell_keys(cells)))
    return frame.withColumn(KEY, sf.element_at(keys, sf.col(CELL) + 1)).repartition(cells, KEY).drop(KEY)


def routers_of(plan: CellPlan, columns: Columns) -> dict[int, Router]:
    """Return the router of each relation of a plan.

    Raises
    ------
    UnsupportedTypeError
        If a column that is hashed has a type without a canonical form.
    """
    keys = cell_keys(plan.chosen.cells)
    routers = {}
    for relation in plan.travelling:
        schema = arrow_schema(columns.fields[relation.index])
        schema = pa.schema([field.with_nullable(True) for field in schema])
        routes = [
            (route, plan.stages[route.stage].roles_of(relation.index).index(route.role)) for route in relation.routes
        ]
        routers[relation.index] = Router(relation.index, schema, routes, keys)
        for route, _ in routes:
            for hashed in route.hashed:
                for i in hashed.columns:
                    check_hashable(columns.fields[relation.index][f"c{i}"].dataType)
    return routers


def send_rows(sources: Sources, dispatch: Dispatch) -> DataFrame:
    """Return rows of sources as parcels."""
    parts = [map_rows(frame, replace(dispatch, relation=relation), spark_schema(PARCEL)) for relation, frame in sources]
    return reduce(lambda union, frame: union.unionAll(frame), parts)


def exchange_parcels(parcels: DataFrame, cells: int) -> DataFrame:
    """Repartition parcels so that each cell is the partition of its index."""
    return parcels.repartition(cells, KEY)


def has_expressions(session: SparkSession) -> bool:
    """Return whether expressions route rows, as they do if the RAPIDS Accelerator runs."""
    chosen = session.conf.get(EXCHANGE, "auto")
    if chosen not in ("auto", "arrow", "expressions"):
        raise UsageError.invalid_value(EXCHANGE, chosen, "'auto', 'arrow' or 'expressions'")
    if chosen != "auto":
        return chosen == "expressions"
    has_plugin = "com.nvidia.spark.SQLPlugin" in (session.conf.get("spark.plugins", "") or "")
    return has_plugin and session.conf.get("spark.rapids.sql.enabled", "true") != "false"


def _cells_of(route: Route, relation: int, columns: Columns) -> Column:
    """Return the cells of a row as bits; 0 if it does not take this route.

    The hashed coordinates of a row add up to the index of one cell. The other cells of the row differ from it by the
    same offsets as the cells whose hashed coordinates are 0 differ from cell 0. So the row's cells are that bit
    pattern, shifted.
    """
    pattern = sum(1 << cell for cell in range(route.cells) if route.coordinate(cell) == 0)
    word = sf.lit(pattern - (1 << 64) if pattern >> 63 else pattern).cast("bigint")
    coordinates = [
        sf.pmod(_hash(relation, coordinate.columns, columns, coordinate.salt), sf.lit(coordinate.parts).cast("bigint"))
        * coordinate.stride
        for coordinate in route.hashed
    ]
    if coordinates:
        word = sf.call_function("shiftleft", word, reduce(lambda left, right: left + right, coordinates).cast("int"))
    taken = sf.col(REL) == relation
    for column, values, is_included in route.chosen:
        is_chosen = sf.coalesce(sf.col(columns.slots[relation][f"c{column}"]).isin(*values), sf.lit(False))
        taken = taken & (is_chosen if is_included else ~is_chosen)
    return sf.when(taken, word).otherwise(sf.lit(0).cast("bigint"))


def _hash(relation: int, hashed: Sequence[int], columns: Columns, salt: int) -> Column:
    slots, fields = columns.slots[relation], columns.fields[relation]
    values = [canonical(sf.col(slots[f"c{i}"]), fields[f"c{i}"].dataType) for i in hashed]
    return sf.xxhash64(*values, sf.lit(salt))

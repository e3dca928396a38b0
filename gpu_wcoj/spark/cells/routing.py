"""Routing rows to cells with expressions that Spark's planner sees and RAPIDS can run.

The part of a variable is the hash of its value's canonical form, with a salt for the variable. Integers of any width
are hashed as bigint, decimals as double, other types as they are; equal values of two columns that join have equal
hashes. A row is sent to a cell once, with a mask of its roles there.
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
from gpu_wcoj.spark.cluster.exchange import CELL, DIGEST, FIRST, KEY, MASK, NOTE, REL, STAGE, Columns
from gpu_wcoj.spark.cluster.plan import CellPlan, Route
from gpu_wcoj.spark.formats import WEIGHT

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_TO = "to"
_SHIFT = 64
"""Cells of a stage: a cell is encoded as the stage's index times this plus the cell's index."""
_AS_THEY_ARE = (BooleanType, FractionalType, DateType, TimestampType, TimestampNTZType, StringType, BinaryType)


def route_rows(frame: DataFrame, plan: CellPlan, columns: Columns, since: int) -> DataFrame:
    """Return every row once for each of its cells, in the stages from `since` on.

    Notes are passed on to the stage `since`.

    Parameters
    ----------
    frame
        Rows of inputs, for the first stage; else what comes out of the stage before `since`. Of those, rows with a
        stage keep it and their cell: they are on their way.
    """
    inside = since > 0
    coming = _coming(plan, since)
    routes = [
        (relation, route) for relation in plan.travelling if relation.index in coming for route in relation.routes
    ]
    names = {route: f"to_{route.stage}_{route.role}" for _, route in routes}
    words = [_cells_of(route, relation.index, columns).alias(names[route]) for relation, route in routes]
    arrays, masks = [], ["CASE"]
    for stage in plan.stages[since:]:
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
    if inside:
        to = (
            f"CASE WHEN {STAGE} IS NOT NULL THEN array({_SHIFT} * {STAGE} + {CELL}) "
            f"WHEN {NOTE} IS NOT NULL THEN array({_SHIFT * since}) ELSE {to} END"
        )
        mask = f"CASE WHEN {STAGE} IS NOT NULL THEN {MASK} ELSE {mask} END"
    exploded = frame.select("*", *words).select("*", sf.expr(f"posexplode({to})").alias("pos", _TO))
    counted = [FIRST, DIGEST, NOTE]
    if not inside:
        counted = [
            f"CASE WHEN pos = 0 THEN 1L ELSE 0L END AS {FIRST}",
            f"CASE WHEN pos = 0 THEN {DIGEST} ELSE 0L END AS {DIGEST}",
            f"cast(null as string) AS {NOTE}",
        ]
    return exploded.selectExpr(
        REL, WEIGHT, *counted, f"cast({_TO} div {_SHIFT} AS int) AS {STAGE}", f"{_TO} % {_SHIFT} AS {CELL}",
        f"{mask} AS {MASK}", *columns.types,
    )  # fmt: skip


def exchange_rows(frame: DataFrame, cells: int) -> DataFrame:
    """Repartition rows so that each cell is the partition of its index."""
    keys = sf.array(*(sf.lit(key) for key in cell_keys(cells)))
    return frame.withColumn(KEY, sf.element_at(keys, sf.col(CELL) + 1)).repartition(cells, KEY).drop(KEY)


def _coming(plan: CellPlan, since: int) -> set[int]:
    """Return the relations whose rows are first routed before this stage."""
    if since == 0:
        return set(range(len(plan.rules.inputs)))
    return {relation for result in plan.stages[since - 1].results for relation in result.goes_to}


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


def canonical(value: Column, kind: DataType) -> Column:
    """Return a column in a form whose hash is equal for all values that the engine deems equal.

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
    raise UnsupportedTypeError.unsupported(
        f"a column of type '{kind.simpleString()}' on cells", remedy="Cast it, or use layout='one'."
    )

"""Handing the rows of a batch to the engine, in order or without."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_wcoj.errors import entry_point
from gpu_wcoj.spark.formats import WEIGHT, order_columns
from gpu_wcoj.zset.zset import ZSet

if TYPE_CHECKING:
    import pyarrow as pa


@entry_point
def as_change(rows: pa.Table) -> pa.Table | ZSet:
    """What `Program.step` takes for one relation, from what `normalise` gave of one batch.

    With order columns, a table in their order, negative weights first where they are equal: the last operation on a
    row wins. Without, a `ZSet`: rows of a batch have no order, as Spark may shuffle them, and the net weight decides.

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

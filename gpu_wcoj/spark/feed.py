"""Conversion of a batch's normalised rows to a change that the engine accepts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_wcoj.errors import entry_point
from gpu_wcoj.spark.formats import WEIGHT, order_columns
from gpu_wcoj.zset.zset import ZSet

if TYPE_CHECKING:
    import pyarrow as pa


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

"""Table input and output of Z-sets in host memory: implementations of `ZSet` methods.

They are apart for their number, as those to and from a device are, in `gpu_wcoj.zset.doors`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from gpu_wcoj.data.column import Column
from gpu_wcoj.errors import ColumnError
from gpu_wcoj.weights import as_weights

if TYPE_CHECKING:
    from gpu_wcoj.zset.zset import ZSet


def from_arrow(data: Any, weight: str | None = None) -> ZSet:
    """Create a Z-set from an Arrow stream, a dict of columns, or another table.

    Parameters
    ----------
    data
        A table of PyArrow, Polars, pandas, DuckDB, ...
    weight
        The column that holds the weights; if None every row counts once, and every column is data.

    Examples
    --------
    >>> z = from_arrow({"a": [1, 2], "n": [5, -5]}, weight="n")
    >>> z.rows()
    [((1,), 5), ((2,), -5)]
    """
    from gpu_wcoj.arrow import as_table
    from gpu_wcoj.zset.zset import ZSet

    names, columns = as_table(data)
    signed = None
    if weight is not None:
        if weight not in names:
            raise ColumnError("input", weight, names)
        position = names.index(weight)
        signed = as_weights(columns[position], f"the weights (column '{weight}')")
        names, columns = names[:position] + names[position + 1 :], columns[:position] + columns[position + 1 :]
    return ZSet.from_columns(names, columns, signed)


def from_numpy(
    data: npt.NDArray[Any],
    weights: npt.NDArray[Any] | Sequence[int] | None = None,
    names: Sequence[str] | None = None,
) -> ZSet:
    """Create a Z-set from the rows of a 2-d or structured array; a 1-d array is one column.

    Examples
    --------
    >>> import numpy as np
    >>> from_numpy(np.array([[1, 2], [1, 2]])).rows()
    [((1, 2), 2)]
    """
    from gpu_wcoj.arrow import as_table
    from gpu_wcoj.zset.zset import ZSet

    column_names, columns = as_table(data)
    signed = None if weights is None else as_weights(weights)
    return ZSet.from_columns(column_names if names is None else names, columns, signed)


def to_arrow(zset: ZSet) -> Any:
    """Return the rows as a ``pyarrow.Table``, weights last.

    Examples
    --------
    >>> from gpu_wcoj.zset.zset import ZSet
    >>> to_arrow(ZSet.from_rows([(1, 2)])).to_pydict()
    {'c0': [1], 'c1': [2], 'weight': [1]}
    """
    from gpu_wcoj.arrow import to_table

    name = zset.shown_weight_name
    if name is None:
        return to_table(zset.names, zset.columns)
    return to_table((*zset.names, name), (*zset.columns, Column.of_integers(zset.weights)))


def to_pandas(zset: ZSet) -> Any:
    """Return the rows as a pandas frame, weights last; integers with nulls get nullable types."""
    from gpu_wcoj.arrow import to_pandas

    return to_pandas(zset.to_arrow())


def to_polars(zset: ZSet) -> Any:
    """Return the rows as a Polars frame, weights last."""
    from gpu_wcoj.arrow import to_polars

    return to_polars(zset.to_arrow())


def to_numpy(zset: ZSet) -> dict[str, npt.NDArray[Any]]:
    """Return an array per column, weights last; masked where there are nulls.

    Examples
    --------
    >>> from gpu_wcoj.zset.zset import ZSet
    >>> to_numpy(ZSet.from_rows([(1, True)]))
    {'c0': array([1]), 'c1': array([ True]), 'weight': array([1])}
    """
    from gpu_wcoj.arrow import to_numpy

    arrays = {name: to_numpy(column) for name, column in zip(zset.names, zset.columns, strict=True)}
    if (name := zset.shown_weight_name) is not None:
        arrays[name] = zset.weights
    return arrays

"""Device input and output of Z-sets: implementations of `ZSet` methods."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from gpu_wcoj.backend import Backend, BackendName, select_backend
from gpu_wcoj.data.column import Column
from gpu_wcoj.errors import ColumnError, WeightError

if TYPE_CHECKING:
    from gpu_wcoj.zset.zset import ZSet


def from_device(
    data: Any,
    weights: Any = None,
    names: Sequence[str] | None = None,
    backend: BackendName | Backend = "cuda",
) -> ZSet:
    """Create a Z-set on the GPU from device arrays; no value passes through the host.

    Parameters
    ----------
    data
        A dict or list of arrays of one dimension, or an array of two: anything with ``__cuda_array_interface__`` or
        ``__dlpack__``, of integers, bool, float32 or float64. int64 without gaps is read where it lies.
    weights
        As `data`, integers; every row counts once if None.
    names
        What the columns are called, instead of the dict's keys or c0, c1, ...
    backend
        Where the Z-set shall live.

    Raises
    ------
    BackendUnavailableError
        If there is no GPU.
    TypeMismatchError, UnsupportedTypeError, WeightError, SchemaError
        If something is no such array.
    """
    from gpu_wcoj.zset import device

    chosen = select_backend(backend)
    labels, columns = device.columns_of_arrays(data, names, chosen)
    return _made(labels, columns, None if weights is None else device.weights_of(weights, chosen), chosen)


def from_cudf(
    data: Any,
    weight: str | None = None,
    names: Sequence[str] | None = None,
    backend: BackendName | Backend = "cuda",
) -> ZSet:
    """Create a Z-set on the GPU from a cuDF frame or another Arrow device table.

    Of text, only the distinct values pass through the host. What cuDF answers has not yet been run on a device.

    Parameters
    ----------
    data
        The table. A frame's named index becomes a column; categories are read as their values.
    weight
        The column that holds the weights; if None every row counts once, and every column is data.
    names
        What the columns are called, where the table does not say.
    backend
        Where the Z-set shall live.

    Raises
    ------
    BackendUnavailableError
        If there is no GPU, or no pylibcudf.
    TypeMismatchError, UnsupportedTypeError, WeightError, SchemaError
        If it is no such table, or a column has no place in the engine.
    """
    from gpu_wcoj.arrow.cudf import columns_of
    from gpu_wcoj.dictionary import Dictionary

    chosen = select_backend(backend)
    return _weighted(*columns_of(data, names, Dictionary("string"), chosen), weight, chosen)


def read_parquet(
    path: str | PathLike[str],
    columns: Sequence[str] | None = None,
    weight: str | None = None,
    backend: BackendName | Backend = "auto",
) -> ZSet:
    """Read a Z-set from a Parquet file: directly to a GPU with cuDF, else by PyArrow.

    cuDF's reader has not yet been run on a device.

    Parameters
    ----------
    path
        The file.
    columns
        Those to read, all if None.
    weight
        The column that holds the weights, one of those read; if None every row counts once.
    backend
        Where the Z-set shall live.

    Raises
    ------
    ColumnError
        If the file has no such column.

    Examples
    --------
    >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     pq.write_table(pa.table({"a": [1, 2], "n": [3, -1]}), file.name)
    ...     read_parquet(file.name, weight="n", backend="cpu").rows()
    [((1,), 3), ((2,), -1)]
    """
    from gpu_wcoj.arrow import cudf
    from gpu_wcoj.dictionary import Dictionary

    chosen = select_backend(backend)
    return _weighted(*cudf.read_parquet(path, columns, Dictionary("string"), chosen), weight, chosen)


def to_cupy(zset: ZSet, backend: BackendName | Backend = "cuda") -> dict[str, Any]:
    """Return a writable CuPy array per column, weights last; no value passes through the host.

    Dates and times come as the int64 that counts them.

    Raises
    ------
    UnsupportedTypeError
        If a column has nulls, or holds text, bytes or decimals.
    """
    from gpu_wcoj.zset import device

    chosen = select_backend(backend) if zset.backend is None else zset.backend
    named = zip(zset.names, zset.columns, strict=True)
    arrays = {name: device.natural(column, chosen, f"column '{name}'") for name, column in named}
    if (name := zset.shown_weight_name) is not None:
        arrays[name] = device.natural(Column.of_integers(zset.stored_weights), chosen, "the weights")
    return arrays


def to_cudf(zset: ZSet, backend: BackendName | Backend = "cuda") -> Any:
    """Return the rows as a cuDF frame, weights last. cuDF has not yet been run on a device.

    Raises
    ------
    BackendUnavailableError
        If there is no GPU, or no cuDF.
    UnsupportedTypeError
        If a column holds bytes.
    """
    from gpu_wcoj.arrow.cudf import to_frame

    chosen = select_backend(backend) if zset.backend is None else zset.backend
    names, columns = zset.names, zset.columns
    if (name := zset.shown_weight_name) is not None:
        names, columns = (*names, name), (*columns, Column.of_integers(zset.stored_weights))
    return to_frame(names, columns, chosen)


def _weighted(names: tuple[str, ...], columns: list[Column], weight: str | None, backend: Backend) -> ZSet:
    """Return the Z-set of these columns, one of which may be the weights."""
    signed = None
    if weight is not None:
        if weight not in names:
            raise ColumnError("input", weight, names)
        position = names.index(weight)
        weight_column = columns[position]
        if weight_column.type.family != "integer" or weight_column.stored_valid is not None:
            what = (
                "nulls" if weight_column.stored_valid is not None else f"a column of type '{weight_column.type.name}'"
            )
            raise WeightError(f"the weights (column '{weight}') must be integers from -2^63 to 2^63-1, not {what}.")
        names, columns, signed = (
            names[:position] + names[position + 1 :],
            columns[:position] + columns[position + 1 :],
            weight_column.stored,
        )
    return _made(names, columns, signed, backend)


def _made(names: Sequence[str], columns: list[Column], weights: Any, backend: Backend) -> ZSet:
    """Return the Z-set of these columns in memory of its own."""
    from gpu_wcoj.zset import device
    from gpu_wcoj.zset.zset import ZSet

    if backend.device is not None:
        columns = [device.moved(column, backend) for column in columns]
        weights = None if weights is None else backend.asarray(weights)
    zset = ZSet.from_columns(names, columns, weights, backend=backend)
    if zset.backend is None:
        return zset
    arrays = [column.stored for column in columns] + ([] if weights is None else [weights])
    owned, own_weights = device.without_shared_memory(zset.columns, zset.stored_weights, arrays)
    return ZSet(zset.names, tuple(owned), own_weights, zset.weight_name, backend)

"""Z-sets on a device: zero-copy import of arrays, consolidation by its kernels, and export.

Input arrays have ``__cuda_array_interface__`` or ``__dlpack__``, as arrays of CuPy, PyTorch and Numba do. NumPy arrays
are copied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.data.column import Column, float_codes, floats_of, on_host
from gpu_wcoj.data.schema import DataType
from gpu_wcoj.errors import SchemaError, TypeMismatchError, UnsupportedTypeError, WeightError
from gpu_wcoj.weights import as_weights
from gpu_wcoj.zset import algebra

if TYPE_CHECKING:
    from gpu_wcoj.dictionary import Dictionary

_HOST_MEMORY, _DEVICE_MEMORY = (1, 3), (2, 13)
"""DLPack device types of memory that the host reads (CPU, pinned) and of CUDA memory (device, managed)."""


def columns_of_arrays(data: Any, names: Sequence[str] | None, backend: Backend) -> tuple[tuple[str, ...], list[Column]]:
    """Return names and columns of a dict or list of 1-d arrays, or of one 1-d or 2-d array.

    Raises
    ------
    TypeMismatchError, UnsupportedTypeError, SchemaError
        If an array has another shape or type, or its values are not supported.
    """
    if isinstance(data, Mapping):
        labels = tuple(map(str, data))
        arrays = [adopted(values, backend, f"column '{name}'") for name, values in data.items()]
    elif isinstance(data, (list, tuple)):
        labels = tuple(f"c{i}" for i in range(len(data)))
        arrays = [adopted(values, backend, f"column {i}") for i, values in enumerate(data)]
    else:
        matrix = adopted(data, backend, "the data")
        if matrix.ndim not in (1, 2):
            raise SchemaError.mismatch(
                "the data", "has the wrong shape", matrix.shape, "one or two dimensions", "Reshape it."
            )
        arrays = [matrix] if matrix.ndim == 1 else [matrix[:, i] for i in range(matrix.shape[1])]
        labels = tuple(f"c{i}" for i in range(len(arrays)))
    columns = [column_of(array, backend, f"column '{label}'") for label, array in zip(labels, arrays, strict=True)]
    return labels if names is None else tuple(names), columns


def adopted(values: Any, backend: Backend, what: str) -> Any:
    """Return the values as an array of the backend; device memory is shared, host memory copied."""
    try:
        if isinstance(values, np.ndarray):
            if isinstance(values, np.ma.MaskedArray):
                raise UnsupportedTypeError(f"{what} is a masked array.\n  Fill it, or drop the masked rows, first.")
            copies = None if backend.device is not None else True
            return backend.asarray(np.array(values, values.dtype.newbyteorder("="), copy=copies, subok=False))
        interface = getattr(values, "__cuda_array_interface__", None)
        if interface is not None:
            if interface.get("mask") is not None:
                raise UnsupportedTypeError(f"{what} is a masked array.\n  Fill it, or drop the masked rows, first.")
            return backend.asarray(values)
        if hasattr(values, "__dlpack__"):
            memory = int(values.__dlpack_device__()[0])
            if memory in _HOST_MEMORY:
                return adopted(np.from_dlpack(values), backend, what)
            if memory in _DEVICE_MEMORY and backend.device is not None:
                return backend.asarray(backend.xp.from_dlpack(values))
    except (BufferError, TypeError, ValueError, RuntimeError) as error:
        if isinstance(error, UnsupportedTypeError):
            raise
        raise UnsupportedTypeError(f"{what} cannot be read as an array: {error}.") from error
    raise TypeMismatchError(
        f"{what} has the wrong type: got '{type(values).__module__}.{type(values).__qualname__}', expected a device"
        " array.\n"
        "  Pass arrays with __cuda_array_interface__ or __dlpack__ (CuPy, PyTorch, Numba), or NumPy arrays."
    )


def column_of(array: Any, backend: Backend, what: str) -> Column:
    """Return a 1-d array of the backend as a column; contiguous int64 is not copied."""
    if array.ndim != 1:
        raise SchemaError.mismatch(
            what, "has the wrong shape", array.shape, "one dimension", "Pass an array per column."
        )
    kind, width = array.dtype.kind, array.dtype.itemsize
    array = backend.xp.ascontiguousarray(array)
    if kind == "f" and width in (4, 8):
        return Column(DataType("float" if width == 4 else "double"), float_codes(array, backend.xp))
    if kind not in "iub":
        raise UnsupportedTypeError.mismatch(
            what,
            "has the wrong type",
            f"an array of type '{array.dtype}'",
            "integers, bool, float32 or float64",
            "Cast it, or pass dates and times as integers.",
        )
    if array.dtype == np.uint64:
        signed = array.view(np.int64)
        if len(signed) and (lowest := int(signed.min())) < 0:
            raise UnsupportedTypeError(
                f"{what}: the value {lowest + 2**64} is above 2^63-1, the largest supported integer.\n"
                "  Map it to a smaller number."
            )
        return Column(DataType("uint64"), signed)
    codes = array if array.dtype == np.int64 else array.astype(np.int64)
    return Column(DataType("bool" if kind == "b" else str(array.dtype)), codes)


def weights_of(values: Any, backend: Backend) -> Any:
    """Return weights as an int64 array of the backend."""
    if isinstance(values, (list, tuple)):
        values = as_weights(values)
    array = adopted(values, backend, "the weights")
    if array.dtype.kind not in "iu":
        raise WeightError.mismatch(
            "the weights", "have the wrong type", f"an array of type '{array.dtype}'", "integers from -2^63 to 2^63-1"
        )
    return column_of(array, backend, "the weights").stored


def consolidate_on_device(columns: Sequence[Column], weights: Any, backend: Backend) -> tuple[tuple[Column, ...], Any]:
    """Consolidate on the device as `gpu_wcoj.zset.algebra.consolidate` does; None weights are 1.

    If sums could leave int64, which is rare, the exact sums are computed on the host.

    Raises
    ------
    WeightOverflowError
        If and only if the exact weight of a row leaves int64.
    """
    xp, device = backend.xp, backend.device
    assert device is not None
    columns = [moved(column, backend) for column in columns]
    count = len(columns[0])
    if weights is None:
        weights = xp.ones(count, np.int64)
    else:
        weights = backend.asarray(weights)
        if count:
            low, high = device.to_host(xp.stack([weights.min(), weights.max()])).tolist()
            if max(high, -low) * count > 2**63 - 1:
                merged_on_host, sums = algebra.consolidate([to_host(column) for column in columns], on_host(weights))
                return tuple(moved(column, backend) for column in merged_on_host), backend.asarray(sums)
    keys: list[Any] = []
    for column in columns:
        if column.stored_valid is not None:
            keys.append(column.stored_valid.astype(np.int64))
        keys.append(xp.ascontiguousarray(column.stored))
    key_columns, sums = backend.kernels.consolidate(keys, weights)
    parts = iter(key_columns)
    pairs = [(None if c.stored_valid is None else next(parts) != 0, next(parts)) for c in columns]
    has_nulls = iter(_have_false([valid for valid, _ in pairs if valid is not None], backend))
    merged = [
        Column(column.type, codes, valid if valid is not None and next(has_nulls) else None, column.dictionary)
        for column, (valid, codes) in zip(columns, pairs, strict=True)
    ]
    return tuple(merged), sums


def _have_false(masks: Sequence[Any], backend: Backend) -> list[bool]:
    """Return for each mask if it has a False; one read for all masks."""
    if not masks:
        return []
    assert backend.device is not None
    n_true = backend.device.to_host(backend.xp.stack([mask.sum() for mask in masks])).tolist()
    return [n < len(mask) for n, mask in zip(n_true, masks, strict=True)]


def without_shared_memory(
    columns: Sequence[Column], weights: Any, caller_arrays: Sequence[Any]
) -> tuple[list[Column], Any]:
    """Copy the columns and weights whose memory belongs to arrays of the caller."""
    addresses = {array.data.ptr for array in caller_arrays}
    owned = [
        Column(c.type, c.stored.copy(), c.stored_valid, c.dictionary) if c.stored.data.ptr in addresses else c
        for c in columns
    ]
    return owned, weights.copy() if weights.data.ptr in addresses else weights


def moved(column: Column, backend: Backend) -> Column:
    """Return the column in the memory of the backend."""
    stored = backend.asarray(column.stored)
    valid = None if column.stored_valid is None else backend.asarray(column.stored_valid)
    return column if stored is column.stored else Column(column.type, stored, valid, column.dictionary)


def to_host(column: Column) -> Column:
    """Return the column in host memory."""
    return column if column.is_on_host else Column(column.type, column.codes, column.valid, column.dictionary)


def recoded(column: Column, dictionary: Dictionary, backend: Backend) -> Column:
    """Recode as `Column.recoded` on the device.

    Only distinct codes in use pass through the host.
    """
    if column.dictionary is None or column.dictionary is dictionary:
        return column
    xp, device = backend.xp, backend.device
    assert device is not None
    in_use = xp.zeros(len(column.dictionary), np.int64)
    codes_shown = column.stored if column.stored_valid is None else column.stored[column.stored_valid]
    in_use[codes_shown] = 1
    used = xp.flatnonzero(in_use)
    table = xp.zeros(max(1, len(column.dictionary)), np.int64)
    table[used] = backend.asarray(dictionary.recode(column.dictionary, device.to_host(used).astype(np.int64)))
    codes = table[column.stored]
    if column.stored_valid is not None:
        codes = xp.where(column.stored_valid, codes, 0)
    return Column(column.type, codes, column.stored_valid, dictionary)


def natural(column: Column, backend: Backend, what: str) -> Any:
    """Return the values as an array of the backend in their type.

    Dates and times as int64 counts.

    Raises
    ------
    UnsupportedTypeError
        If the column has nulls, or values that device arrays do not support.
    """
    family = column.type.family
    if column.stored_valid is not None:
        raise UnsupportedTypeError(f"{what} has nulls, which device arrays do not support.\n  Use to_cudf or to_arrow.")
    if family in ("string", "binary", "decimal"):
        raise UnsupportedTypeError(
            f"{what} is of type '{column.type.name}', which device arrays do not support.\n  Use to_cudf or to_arrow."
        )
    codes = backend.asarray(column.stored)
    codes = codes.copy() if codes is column.stored else codes
    if family in ("float32", "float64"):
        return floats_of(codes, 4 if family == "float32" else 8, backend.xp)
    if family == "bool":
        return codes != 0
    if family == "integer" and column.type.value_name != "int64":
        return codes.astype(np.dtype(column.type.value_name))
    return codes

"""The functions of CuPy that the engine may use, on `Array`; nothing else is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.shim.array import Array, check_mixed, host_of, own
from tests.shim.errors import ShimError
from tests.shim.memory import Memory


class _Shared:
    """Keeps an array of another library, and shows its memory to NumPy."""

    def __init__(self, owner: Any, memory: Memory) -> None:
        self.owner = owner
        self.__array_interface__ = {**owner.__cuda_array_interface__, "version": 3}
        memory.share(np.asarray(self))


class Module:
    """The array module of one device."""

    ndarray = Array
    int64, int32, uint64, uint32, uint8, bool_ = np.int64, np.int32, np.uint64, np.uint32, np.uint8, np.bool_
    iinfo = np.iinfo

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def __repr__(self) -> str:
        return "the strict array module"

    def _array(self, value: Any) -> npt.NDArray[Any]:
        if not isinstance(value, Array):
            raise TypeError(f"Unsupported type {type(value)}")
        host: npt.NDArray[Any] = host_of(self._memory, value)
        return host

    def _result(self, host: Any) -> Array:
        self._memory.operated()
        return own(self._memory, host)

    # Making

    def empty(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike = float) -> Array:
        sizes = shape if isinstance(shape, tuple) else (shape,)
        if any(isinstance(size, Array) for size in sizes):
            raise TypeError("a size that is on the device")
        return Array(self._memory, self._memory.allocate(tuple(int(size) for size in sizes), dtype))

    def full(self, shape: int | tuple[int, ...], fill_value: Any, dtype: npt.DTypeLike = None) -> Array:
        value = host_of(self._memory, fill_value)
        array = self.empty(shape, np.asarray(value).dtype if dtype is None else dtype)
        self._memory.operated()
        array._host[...] = value
        self._memory.wrote(array._host)
        return array

    def zeros(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike = float) -> Array:
        return self.full(shape, 0, dtype)

    def ones(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike = float) -> Array:
        return self.full(shape, 1, dtype)

    def arange(self, start: Any, stop: Any = None, step: Any = 1, dtype: npt.DTypeLike = None) -> Array:
        for value in (start, stop, step):
            if isinstance(value, Array):
                raise TypeError("arange of a value that is on the device")
        return self._result(
            np.arange(start, step=step, dtype=dtype) if stop is None else np.arange(start, stop, step, dtype)
        )

    def asarray(self, a: Any, dtype: npt.DTypeLike = None) -> Array:
        if isinstance(a, Array):
            host_of(self._memory, a)
            return a if dtype is None else a.astype(dtype, copy=False)
        if hasattr(a, "__cuda_array_interface__"):  # of another library: its memory is shared
            shared = Array(self._memory, np.asarray(_Shared(a, self._memory)))
            return shared if dtype is None else shared.astype(dtype, copy=False)
        host = np.asarray(a, dtype)
        if host.dtype.kind not in "iubf":
            raise ValueError(f"Unsupported dtype {host.dtype}")
        self._memory.uploaded(host.nbytes)
        return own(self._memory, host)

    def asnumpy(self, a: Any) -> npt.NDArray[Any]:
        return a.get() if isinstance(a, Array) else np.asarray(a)

    def ascontiguousarray(self, a: Array, dtype: npt.DTypeLike = None) -> Array:
        host = self._array(a)
        if host.flags.c_contiguous and dtype in (None, host.dtype):
            return a
        return self._result(np.ascontiguousarray(host, dtype))

    def concatenate(self, tup: Sequence[Array], axis: int = 0) -> Array:
        hosts = [self._array(part) for part in tup]
        check_mixed(*hosts)
        return self._result(np.concatenate(hosts, axis))

    def stack(self, tup: Sequence[Array], axis: int = 0) -> Array:
        hosts = [self._array(part) for part in tup]
        check_mixed(*hosts)
        return self._result(np.stack(hosts, axis))

    # One by one

    def where(self, condition: Array, x: Any = None, y: Any = None) -> Any:
        if x is None and y is None:
            return condition.nonzero()
        hosts = [host_of(self._memory, value) for value in (x, y)]
        check_mixed(*hosts)
        return self._result(np.where(self._array(condition), *hosts))

    def minimum(self, x1: Any, x2: Any) -> Array:
        hosts = [host_of(self._memory, value) for value in (x1, x2)]
        check_mixed(*hosts)
        return self._result(np.minimum(*hosts))

    def maximum(self, x1: Any, x2: Any) -> Array:
        hosts = [host_of(self._memory, value) for value in (x1, x2)]
        check_mixed(*hosts)
        return self._result(np.maximum(*hosts))

    def abs(self, x: Array) -> Array:
        return self._result(np.abs(self._array(x)))

    # Along an axis

    def cumsum(self, a: Array, axis: int | None = None, dtype: npt.DTypeLike = None, out: Array | None = None) -> Array:
        self._array(a)
        return a.cumsum(axis, dtype, out)

    def diff(self, a: Array, n: int = 1, axis: int = -1) -> Array:
        return self._result(np.diff(self._array(a), n, axis))

    def sort(self, a: Array) -> Array:
        return self._result(np.sort(self._array(a), kind="stable"))

    def argsort(self, a: Array) -> Array:
        self._array(a)
        return a.argsort()

    def take(self, a: Array, indices: Any, axis: int | None = None) -> Array:
        self._array(a)
        return a.take(indices, axis)

    def repeat(self, a: Array, repeats: Any, axis: int | None = None) -> Array:
        self._array(a)
        return a.repeat(repeats, axis)

    def flatnonzero(self, a: Array) -> Array:
        self._memory.read(8)
        return self._result(np.flatnonzero(self._array(a)))

    def searchsorted(self, a: Array, v: Array, side: Any = "left") -> Array:
        haystack, needles = self._array(a), self._array(v)
        check_mixed(haystack, needles)
        if haystack.ndim != 1:
            raise ShimError("searchsorted in an array that is not 1-D")
        if (haystack[1:] < haystack[:-1]).any():
            raise ShimError("searchsorted in an array that is not sorted")
        return self._result(np.searchsorted(haystack, needles, side))

    def sum(self, a: Array, axis: int | None = None, dtype: npt.DTypeLike = None) -> Array:
        self._array(a)
        return a.sum(axis, dtype)

    def min(self, a: Array, axis: int | None = None) -> Array:
        self._array(a)
        return a.min(axis)

    def max(self, a: Array, axis: int | None = None) -> Array:
        self._array(a)
        return a.max(axis)

    def any(self, a: Array, axis: int | None = None) -> Array:
        self._array(a)
        return a.any(axis)

    def all(self, a: Array, axis: int | None = None) -> Array:
        self._array(a)
        return a.all(axis)

    def argmin(self, a: Array, axis: int | None = None) -> Array:
        self._array(a)
        return a.argmin(axis)

    def argmax(self, a: Array, axis: int | None = None) -> Array:
        self._array(a)
        return a.argmax(axis)

    def count_nonzero(self, a: Array, axis: int | None = None) -> Array:
        return self._result(np.count_nonzero(self._array(a), axis=axis))

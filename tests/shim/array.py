"""An array that forgives nothing that CuPy's does not, nor what CuPy lets pass and answers wrongly.

It wraps a NumPy array in guarded memory. It never turns into a NumPy array by itself, every value that reaches the
host is counted, and what CuPy leaves to chance (duplicate indices in an assignment) or answers silently with something
else (indices out of bounds, which wrap) is an error.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.shim.errors import ShimError
from tests.shim.memory import Memory

SCALARS = (bool, int, float, np.generic)


class Pointer:
    """What CuPy calls ``array.data``."""

    def __init__(self, ptr: int) -> None:
        self.ptr = ptr


class Flags:
    """What CuPy calls ``array.flags``."""

    def __init__(self, host: npt.NDArray[Any]) -> None:
        self.c_contiguous: bool = host.flags.c_contiguous
        self.f_contiguous: bool = host.flags.f_contiguous
        self.owndata: bool = host.base is None


def own(memory: Memory, host: Any) -> Array:
    """A host array as one of the device, copied into its memory."""
    host = np.asarray(host)
    copy = memory.allocate(host.shape, host.dtype)
    copy[...] = host
    memory.wrote(copy)
    return Array(memory, copy)


def host_of(memory: Memory, value: Any) -> Any:
    """What NumPy may compute with: an array of this device, or a scalar."""
    if isinstance(value, Array):
        if value._memory is not memory:
            raise TypeError("an array of another device")
        return value._host
    if isinstance(value, SCALARS):
        return value
    raise TypeError(f"Unsupported type {type(value)}")


def check_mixed(*hosts: Any) -> None:
    """int64 beside uint64 becomes float64."""
    kinds = {
        host.dtype.kind for host in hosts if isinstance(host, np.ndarray | np.generic) and host.dtype.itemsize == 8
    }
    if {"i", "u"} <= kinds:
        raise TypeError("int64 mixed with uint64 is computed as float64")


def check_bounds(index: npt.NDArray[Any], size: int) -> None:
    """Indices out of bounds wrap on a GPU, silently."""
    if index.size and (int(index.min()) < -size or int(index.max()) >= size):
        raise IndexError(f"an index out of bounds for an axis of {size} (from {index.min()} to {index.max()})")


class Array:
    """An array of the device; see the module's text."""

    __slots__ = ("__weakref__", "_host", "_memory")
    __array_priority__ = 1000
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, memory: Memory, host: npt.NDArray[Any]) -> None:
        self._memory = memory
        self._host = host

    # What it is

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._host.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self._host.shape

    @property
    def strides(self) -> tuple[int, ...]:
        return self._host.strides

    @property
    def ndim(self) -> int:
        return self._host.ndim

    @property
    def size(self) -> int:
        return self._host.size

    @property
    def nbytes(self) -> int:
        return self._host.nbytes

    @property
    def itemsize(self) -> int:
        return self._host.itemsize

    @property
    def flags(self) -> Flags:
        return Flags(self._host)

    @property
    def data(self) -> Pointer:
        address: int = self._host.__array_interface__["data"][0]
        return Pointer(address if self._host.size else 0)

    @property
    def base(self) -> None:
        raise ShimError("what an array is a view of is not the same on a GPU")

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        shown = self._host.__array_interface__
        return {key: shown[key] for key in ("shape", "typestr", "data", "strides")} | {"version": 3}

    @property
    def T(self) -> Array:
        return Array(self._memory, self._host.T)

    def __len__(self) -> int:
        return len(self._host)

    def __repr__(self) -> str:
        return f"Array({self.shape}, {self.dtype})"

    # To the host

    def get(self) -> npt.NDArray[Any]:
        self._memory.read(self.nbytes)
        return np.array(self._host, order="C")

    def item(self) -> Any:
        self._memory.read(self.itemsize)
        return self._host.item()

    def tolist(self) -> Any:
        return self.get().tolist()

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __bool__(self) -> bool:
        if self.size == 0:
            raise ValueError("the truth value of an empty array")
        return bool(self.item())

    def __index__(self) -> int:
        return operator.index(self.item())

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. "
            "Please use `.get()` to construct a NumPy array explicitly."
        )

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **_: Any) -> Any:
        raise TypeError(f"numpy.{ufunc.__name__} of an array of the device: use the backend's array module")

    def __array_function__(self, function: Any, *_: Any) -> Any:
        raise TypeError(f"numpy.{function.__name__} of an array of the device: use the backend's array module")

    def __iter__(self) -> Iterator[Array]:
        if self.ndim < 2:
            raise TypeError("iteration over the elements of an array of the device, one transfer each")
        return (self[i] for i in range(len(self)))

    def __contains__(self, _: Any) -> bool:
        raise TypeError("`in` an array of the device")

    # Parts

    def _index(self, key: Any) -> tuple[Any, bool]:
        """The key for NumPy, and whether it holds arrays of indices or masks."""
        keys = key if isinstance(key, tuple) else (key,)
        hosts: list[Any] = []
        axis, fancy = 0, False
        for part in keys:
            if isinstance(part, Array):
                index = host_of(self._memory, part)
                fancy = True
                if index.dtype == bool:
                    axis += index.ndim
                elif index.dtype.kind in "iu":
                    check_bounds(index, self.shape[axis])
                    axis += 1
                else:
                    raise IndexError(f"indices of {index.dtype}")
                hosts.append(index)
            elif part is None or part is Ellipsis:
                if part is Ellipsis:
                    named = sum(other is not None and other is not Ellipsis for other in keys)
                    axis += self.ndim - named
                hosts.append(part)
            elif isinstance(part, slice):
                for end in (part.start, part.stop, part.step):
                    if isinstance(end, Array):
                        raise TypeError("a slice whose ends are on the device")
                axis += 1
                hosts.append(part)
            elif isinstance(part, int | np.integer) and not isinstance(part, bool):
                axis += 1
                hosts.append(part)
            else:
                raise TypeError(f"an index of {type(part)}")
        return tuple(hosts), fancy

    def __getitem__(self, key: Any) -> Array:
        hosts, fancy = self._index(key)
        if not fancy:
            part = self._host[hosts]
            if not isinstance(part, np.ndarray):  # one element: a view of no dimensions
                part = self._host[(*hosts, ...)]
            return Array(self._memory, part)
        self._memory.operated()
        if any(isinstance(host, np.ndarray) and host.dtype == bool for host in hosts):
            self._memory.read(8)
        return own(self._memory, self._host[hosts])

    def __setitem__(self, key: Any, value: Any) -> None:
        hosts, fancy = self._index(key)
        given = host_of(self._memory, value)
        check_mixed(self._host, given)
        self._memory.operated()
        if fancy and isinstance(given, np.ndarray) and given.ndim:
            masks = [host for host in hosts if isinstance(host, np.ndarray) and host.dtype == bool]
            if masks:
                self._memory.read(8)
            else:
                places = np.arange(self.size).reshape(self.shape)[hosts].ravel()
                if len(np.unique(places)) != len(places):
                    raise ShimError("an assignment to the same place twice: which of them stays is left to chance")
        if isinstance(given, np.ndarray) and np.shares_memory(self._host, given):
            given = given.copy()
        self._host[hosts] = given
        self._memory.wrote(self._host, hosts)

    def fill(self, value: Any) -> None:
        self[...] = value

    # Other forms

    def astype(self, dtype: npt.DTypeLike, *, copy: bool = True) -> Array:
        if not copy and self.dtype == np.dtype(dtype):
            return self
        self._memory.operated()
        return own(self._memory, self._host.astype(dtype))

    def copy(self) -> Array:
        return self.astype(self.dtype)

    def view(self, dtype: npt.DTypeLike) -> Array:
        return Array(self._memory, self._host.view(dtype))

    def reshape(self, *shape: Any) -> Array:
        part = self._host.reshape(*shape)
        return Array(self._memory, part) if np.shares_memory(part, self._host) else own(self._memory, part)

    def ravel(self) -> Array:
        return self.reshape(-1)

    def flatten(self) -> Array:
        return self.copy().reshape(-1)

    # Reductions and the like

    def _reduce(self, name: str, axis: int | None, **options: Any) -> Array:
        self._memory.operated()
        return own(self._memory, getattr(self._host, name)(axis=axis, **options))

    def sum(self, axis: int | None = None, dtype: npt.DTypeLike = None) -> Array:
        return self._reduce("sum", axis, dtype=dtype)

    def min(self, axis: int | None = None) -> Array:
        return self._reduce("min", axis)

    def max(self, axis: int | None = None) -> Array:
        return self._reduce("max", axis)

    def any(self, axis: int | None = None) -> Array:
        return self._reduce("any", axis)

    def all(self, axis: int | None = None) -> Array:
        return self._reduce("all", axis)

    def argmin(self, axis: int | None = None) -> Array:
        return self._reduce("argmin", axis)

    def argmax(self, axis: int | None = None) -> Array:
        return self._reduce("argmax", axis)

    def cumsum(self, axis: int | None = None, dtype: npt.DTypeLike = None, out: Array | None = None) -> Array:
        self._memory.operated()
        if out is None:
            return own(self._memory, self._host.cumsum(axis=axis, dtype=dtype))
        host_of(self._memory, out)[...] = self._host.cumsum(axis=axis, dtype=dtype or out.dtype)
        self._memory.wrote(out._host)
        return out

    def sort(self) -> None:
        self._memory.operated()
        self._host.sort(kind="stable")

    def argsort(self) -> Array:
        self._memory.operated()
        return own(self._memory, self._host.argsort(kind="stable"))

    def take(self, indices: Any, axis: int | None = None) -> Array:
        index = host_of(self._memory, indices)
        check_bounds(np.asarray(index), self.size if axis is None else self.shape[axis])
        self._memory.operated()
        return own(self._memory, self._host.take(index, axis=axis))

    def repeat(self, repeats: Any, axis: int | None = None) -> Array:
        times = host_of(self._memory, repeats)
        self._memory.operated()
        if isinstance(times, np.ndarray):
            self._memory.read(8)
        return own(self._memory, self._host.repeat(times, axis=axis))

    def nonzero(self) -> tuple[Array, ...]:
        self._memory.operated()
        self._memory.read(8)
        return tuple(own(self._memory, part) for part in self._host.nonzero())


def _check_shift(function: Any, left: Any, right: Any) -> None:
    if function in (operator.lshift, operator.rshift, operator.ilshift, operator.irshift):
        bits = 8 * np.result_type(left, right).itemsize
        count = np.asarray(right)
        if count.size and (int(count.min()) < 0 or int(count.max()) >= bits):
            raise ShimError(f"a shift of {bits} bits by {count.min()} to {count.max()}")


def _binary(function: Callable[[Any, Any], Any]) -> tuple[Callable[[Array, Any], Any], Callable[[Array, Any], Any]]:
    def compute(memory: Memory, left: Any, right: Any) -> Array:
        check_mixed(left, right)
        _check_shift(function, left, right)
        memory.operated()
        return own(memory, function(left, right))

    def forward(self: Array, other: Any) -> Any:
        return compute(self._memory, self._host, host_of(self._memory, other))

    def backward(self: Array, other: Any) -> Any:
        return compute(self._memory, host_of(self._memory, other), self._host)

    return forward, backward


def _in_place(function: Callable[[Any, Any], Any]) -> Callable[[Array, Any], Array]:
    def change(self: Array, other: Any) -> Array:
        given = host_of(self._memory, other)
        check_mixed(self._host, given)
        _check_shift(function, self._host, given)
        self._memory.operated()
        self._host = function(self._host, given)
        return self

    return change


for _name in ("add", "sub", "mul", "floordiv", "truediv", "mod", "and", "or", "xor", "lshift", "rshift"):
    _forward, _backward = _binary(getattr(operator, f"__{_name}__"))
    setattr(Array, f"__{_name}__", _forward)
    setattr(Array, f"__r{_name}__", _backward)
    setattr(Array, f"__i{_name}__", _in_place(getattr(operator, f"__i{_name}__")))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(Array, f"__{_name}__", _binary(getattr(operator, _name))[0])


def _unary(function: Callable[[Any], Any]) -> Callable[[Array], Array]:
    def compute(self: Array) -> Array:
        self._memory.operated()
        return own(self._memory, function(self._host))

    return compute


for _name in ("neg", "invert", "abs", "pos"):
    setattr(Array, f"__{_name}__", _unary(getattr(operator, f"__{_name}__")))

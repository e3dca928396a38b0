"""The stand-in for CuPy's arrays: what it answers, what it counts, what it refuses."""

from __future__ import annotations

import inspect
import operator

import numpy as np
import pytest

from tests.shim import available
from tests.shim.array import Array
from tests.shim.device import ShimDevice
from tests.shim.errors import ShimError
from tests.shim.xp import Module

pytestmark = pytest.mark.skipif(available() is not None, reason=str(available()))

X = np.array([5, -3, 5, 8, 0, 2], np.int64)
FUNCTIONS = {
    "where": lambda xp, x: xp.where(x > 2, x, 0),
    "minimum": lambda xp, x: xp.minimum(x, 3),
    "maximum": lambda xp, x: xp.maximum(x, x[::-1]),
    "abs": lambda xp, x: xp.abs(x) + abs(x),
    "cumsum": lambda xp, x: xp.cumsum(x),
    "cumsum of a mask": lambda xp, x: xp.cumsum(x > 2),
    "diff": lambda xp, x: xp.diff(x),
    "sort": lambda xp, x: xp.sort(x),
    "argsort": lambda xp, x: xp.argsort(x) if xp is not np else np.argsort(x, kind="stable"),
    "take": lambda xp, x: xp.take(x, x[2:3] - 1),
    "repeat by one": lambda xp, x: xp.repeat(x, 2),
    "repeat by many": lambda xp, x: xp.repeat(x, xp.abs(x)),
    "searchsorted": lambda xp, x: xp.searchsorted(xp.sort(x), x, side="right"),
    "flatnonzero": lambda xp, x: xp.flatnonzero(x == 5),
    "concatenate": lambda xp, x: xp.concatenate([x, x[:2]]),
    "stack": lambda xp, x: xp.stack([x, -x]),
    "arange": lambda xp, x: x + xp.arange(6) * xp.arange(6, 0, -1),
    "full": lambda xp, x: xp.full(3, 7, np.int32),
    "sum": lambda xp, x: xp.sum(x) + x.sum() + (x > 2).sum(),
    "rows": lambda xp, x: x.reshape(2, 3).sum(axis=0),
    "min": lambda xp, x: xp.min(x) - x.max(),
    "all": lambda xp, x: xp.all(x > -4) | xp.any(x > 100),
    "argmin": lambda xp, x: xp.argmin(x) * 10 + xp.argmax(x),
    "integers as indices": lambda xp, x: x[xp.argsort(x)],
    "masks as indices": lambda xp, x: x[x > 2],
    "a column": lambda xp, x: x.reshape(3, 2)[:, 1],
    "columns": lambda xp, x: x.reshape(2, 3)[:, xp.arange(2)],
    "shifts": lambda xp, x: (x << 3) ^ (x >> 1),
    "divisions": lambda xp, x: x // 3 * 100 + x % 3,
    "a view of other bits": lambda xp, x: x.view(np.uint64) >> np.uint64(60),
    "astype": lambda xp, x: x.astype(np.int32),
}


def plain(value):
    return value.get() if isinstance(value, Array) else np.asarray(value)


@pytest.fixture
def device():
    return ShimDevice()


@pytest.fixture
def xp(device):
    return device.xp


@pytest.fixture
def x(device):
    return device.asarray(X)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_answer_what_numpy_answers(xp, x, name):
    found, expected = plain(FUNCTIONS[name](xp, x)), np.asarray(FUNCTIONS[name](np, X))
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    assert found.tolist() == expected.tolist()


def test_slices_share_memory(device, x):
    with device.counted() as counts:
        part = x[2:5]
        part += 1
        x[0] = 9
        x[4:] = part[:2]
        x.reshape(2, 3)[1, 0] = 7
    assert x.tolist() == [9, -3, 6, 7, 6, 9]
    assert part.data.ptr == x.data.ptr + 16
    assert (counts.allocated, counts.reads) == (0, 0)


def test_assignments(xp, x):
    x[xp.asarray(np.array([0, 2]))] = xp.asarray(np.array([1, 3]))
    x[x == 8] = -8
    x[xp.asarray(np.array([4, 4]))] = 6
    assert x.tolist() == [1, -3, 3, -8, 6, 2]
    with pytest.raises(ShimError, match="same place twice"):
        x[xp.asarray(np.array([1, -5]))] = xp.asarray(np.array([1, 3]))


@pytest.mark.parametrize("convert", [
    int, float, bool, operator.index, lambda a: a.item(), lambda a: a.tolist(), lambda a: a.get(),
])  # fmt: skip
def test_what_reaches_the_host_is_counted(device, x, convert):
    with device.counted() as counts:
        assert convert(x[3]) == convert(np.array(8)) if convert in (int, float, bool) else convert(x[3]) == 8
    assert (counts.reads, counts.bytes_read) == (1, 8)


@pytest.mark.parametrize("waits", [
    lambda xp, x: x[x > 0], lambda xp, x: xp.flatnonzero(x), lambda xp, x: xp.where(x > 0), lambda xp, x: x.nonzero(),
    lambda xp, x: xp.repeat(x, abs(x)),
])  # fmt: skip
def test_what_needs_a_size_is_counted(device, xp, x, waits):
    with device.counted() as counts:
        waits(xp, x)
    assert counts.reads == 1


def test_the_rest_is_not(device, xp, x):
    with device.counted() as counts:
        y = xp.where(x > 3, x, x[0])
        y[y > 4] = 1
        xp.cumsum(y, out=y)
        y.sum(), y.max(), len(y), y.shape, xp.count_nonzero(y), xp.searchsorted(xp.sort(y), x)
    assert (counts.reads, counts.uploads) == (0, 0)


@pytest.mark.parametrize("refused", [
    lambda xp, x: np.asarray(x), lambda xp, x: np.add(x, 1), lambda xp, x: np.concatenate([x, x]), lambda xp, x: x + X,
    lambda xp, x: X + x, lambda xp, x: x == X, lambda xp, x: x[X], lambda xp, x: x[[0, 1]], lambda xp, x: list(x),
    lambda xp, x: 5 in x, lambda xp, x: x.view(np.uint64) + x, lambda xp, x: xp.concatenate([x.view(np.uint64), x]),
    lambda xp, x: xp.where(x > 0, x, x.view(np.uint64)), lambda xp, x: xp.searchsorted(X, x),
    lambda xp, x: xp.concatenate([x, X]), lambda xp, x: xp.zeros(x[0]), lambda xp, x: xp.arange(x[0]),
    lambda xp, x: x[: x[0]], lambda xp, x: x + ShimDevice().asarray(X), lambda xp, x: {x},
    lambda xp, x: xp.where(x, X, 0),
    lambda xp, x: operator.setitem(x, slice(None), X), lambda xp, x: x + [1] * 6, lambda xp, x: xp.sort(X),
])  # fmt: skip
def test_mixing_with_the_host_is_refused(xp, x, refused):
    with pytest.raises(TypeError):
        refused(xp, x)


@pytest.mark.parametrize("refused", [
    lambda xp, x: x[xp.arange(7)], lambda xp, x: xp.take(x, xp.arange(-7, 0)), lambda xp, x: x[6],
    lambda xp, x: operator.setitem(x, xp.arange(7), 1),
])  # fmt: skip
def test_indices_out_of_bounds_are_refused(xp, x, refused):
    with pytest.raises(IndexError):
        refused(xp, x)


@pytest.mark.parametrize("refused", [
    lambda xp, x: x << 64, lambda xp, x: x >> -1, lambda xp, x: xp.searchsorted(x, x), lambda xp, x: x.base,
])  # fmt: skip
def test_what_a_gpu_answers_with_nonsense_is_refused(xp, x, refused):
    with pytest.raises(ShimError):
        refused(xp, x)


@pytest.mark.parametrize(
    "refused", [lambda xp, x: xp.unique(x), lambda xp, x: xp.lexsort(x), lambda xp, x: x.tobytes()]
)
def test_what_is_not_offered_is_not_there(xp, x, refused):
    with pytest.raises(AttributeError):
        refused(xp, x)


def test_an_empty_array_has_no_address(xp):
    assert xp.empty(0, np.int64).data.ptr == 0


def public(of: type) -> list[str]:
    return [name for name in vars(of) if not name.startswith("_")]


@pytest.fixture(scope="module")
def cupy():
    return pytest.importorskip("cupy", exc_type=ImportError)


class TestAgainstCuPy:
    """Every name and parameter is CuPy's too. CuPy needs no GPU to be looked at."""

    @pytest.mark.parametrize("name", public(Module))
    def test_functions(self, cupy, name):
        ours = getattr(Module, name)
        theirs = getattr(cupy, name)
        if name in ("ndarray", "iinfo") or not inspect.isfunction(ours):
            return
        parameters = list(inspect.signature(ours).parameters)[1:]
        known = self.parameters(theirs)
        assert known is None or set(parameters) <= known
        if known is None:
            assert name in ("minimum", "maximum", "abs", "arange")

    @pytest.mark.parametrize("name", public(Array))
    def test_methods(self, cupy, name):
        assert hasattr(cupy.ndarray, name)

    @staticmethod
    def parameters(function) -> set[str] | None:
        """The names of a function's parameters; None for what is no Python function."""
        try:
            return set(inspect.signature(function).parameters)
        except ValueError:
            return None

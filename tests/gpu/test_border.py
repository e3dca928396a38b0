"""Arrays of other libraries on a GPU: in and out, beside what NumPy gives."""

from __future__ import annotations

import numpy as np
import pytest

import gpu_wcoj as gw
from bench.engine.queries import TRIANGLE
from bench.gpu.patterns import rules_of

pytestmark = pytest.mark.gpu

EDGES = {"src": np.array([1, 2, 1, 3, 1]), "dst": np.array([2, 3, 3, 4, 4])}
ANSWER = [((1, 2, 3), 1), ((1, 3, 4), 1)]


@pytest.fixture
def cuda(kind, site):
    if kind != "cuda":
        pytest.skip("other libraries' arrays live on a GPU only; the stand-in has its tests in tests/zset")
    return site


def answer(backend, edges):
    program = gw.Program(rules_of(TRIANGLE), backend=backend, route="device")
    return program.step({"edge": gw.ZSet.from_device(edges, backend=backend)})["triangle"]


def test_cupy_arrays_go_in_and_out(cuda):
    xp = cuda.backend.xp
    given = {name: xp.asarray(values) for name, values in EDGES.items()}
    found = answer(cuda.backend, given)
    assert found.rows() == ANSWER
    out = found.to_cupy(cuda.backend)
    assert all(isinstance(array, xp.ndarray) for array in out.values())
    assert out["c0"].tolist() == [1, 1] if "c0" in out else len(out) == 4
    copied = xp.asarray(found.columns[0])
    assert copied.tolist() == [1, 1]
    copied[:] = 7
    assert found.rows() == ANSWER


def test_given_arrays_stay_as_they_are(cuda):
    xp = cuda.backend.xp
    given = {name: xp.asarray(values[::-1].copy()) for name, values in EDGES.items()}
    before = {name: values.copy() for name, values in given.items()}
    zset = gw.ZSet.from_device(given, backend=cuda.backend)
    for values in given.values():
        values[:] = 0
    assert zset.rows() == gw.ZSet.from_device(before, backend=cuda.backend).rows()


def test_torch_tensors_go_in_and_out(cuda):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("torch sees no GPU")
    given = {name: torch.as_tensor(values, device="cuda") for name, values in EDGES.items()}
    found = answer(cuda.backend, given)
    assert found.rows() == ANSWER
    tensor = torch.from_dlpack(found.columns[0])
    assert tensor.is_cuda
    assert tensor.tolist() == [1, 1]
    tensor[:] = 7  # PyTorch writes to whatever it is given, so it is given a copy
    assert found.rows() == ANSWER


def test_numba_arrays_go_in(cuda):
    numba_cuda = pytest.importorskip("numba.cuda", reason="numba.cuda is not installed", exc_type=ImportError)
    try:
        given = {name: numba_cuda.to_device(values) for name, values in EDGES.items()}
    except Exception as error:
        pytest.skip(f"numba cannot use this GPU: {error}")
    assert answer(cuda.backend, given).rows() == ANSWER


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint32", "uint64", "float32", "float64", "bool"])
def test_every_type_is_numpys_one(cuda, dtype):
    values = np.array([0, 1, 1, 0, 1, 100], dtype)
    here = gw.ZSet.from_numpy(values.reshape(-1, 1))
    there = gw.ZSet.from_device(cuda.backend.xp.asarray(values), backend=cuda.backend)
    assert there.rows() == here.rows()
    assert there.columns[0].type == here.columns[0].type
    assert next(iter(there.to_cupy(cuda.backend).values())).dtype == values.dtype


def test_no_rows(cuda):
    xp = cuda.backend.xp
    empty = {"src": xp.empty(0, np.int64), "dst": xp.empty(0, np.int64)}
    assert len(answer(cuda.backend, empty)) == 0

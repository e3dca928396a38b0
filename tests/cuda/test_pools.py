"""Where a device's memory comes from, and how much of it: CuPy's pool, RMM's, or one of the user's own."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

from gpu_wcoj.backend import select_backend
from gpu_wcoj.errors import UsageError
from gpu_wcoj.kernels.cuda import device
from gpu_wcoj.units import part_of
from tests.helpers.cupy_stand_ins import FakeCuda, FakePool


@pytest.mark.parametrize(
    ("amount", "meant"),
    [(1, 1), (10**9, 10**9), (0.5, 5 * 10**8), (1.0, 10**9), ("8KiB", 8192), ("50%", 5 * 10**8), ("0.25", 250_000_000),
     (".5", 5 * 10**8), ("1.0", 10**9), ("1000", 1000), (" 2 MB ", 2_000_000)],
)  # fmt: skip
def test_amounts_of_memory(amount, meant):
    assert part_of(10**9, amount, "gpu_memory") == meant


@pytest.mark.parametrize(
    "amount", [0, -5, 0.0, 1.5, -0.5, float("nan"), True, "", "lots", "200%", "0%", "-1", "1e9", None]
)
def test_what_is_no_amount_of_memory(amount):
    with pytest.raises(UsageError, match="gpu_memory=.* is not allowed: expected an amount of memory"):
        part_of(10**9, amount, "gpu_memory")


def test_more_memory_than_there_is():
    with pytest.raises(UsageError, match=r"gpu_memory='2GB' is 2.0 GB, more than the GPU has: expected at most 1.0 GB"):
        part_of(10**9, "2GB", "gpu_memory")


def test_a_program_refuses_nonsense_also_on_the_cpu():
    with pytest.raises(UsageError, match="gpu_memory='much'"):
        select_backend("cpu", "much")
    assert select_backend("cpu", "1GB").name == "cpu"


class TestPools:
    @pytest.fixture(autouse=True)
    def _without_rmm(self, monkeypatch):
        monkeypatch.setattr(device.importlib.util, "find_spec", lambda name: None)

    def test_the_default_pool_counts_what_it_holds_unused(self):
        held = FakePool(total=300, used=100)
        pool = device.make_pool(FakeCuda(held), None)
        assert (pool.limit, pool.free_bytes()) == (None, 800)
        pool.release()
        assert pool.free_bytes() == 600

    def test_the_driver_is_asked_rarely(self, monkeypatch):
        now, free, asked = [0.0], [600], []
        cuda = FakeCuda(held := FakePool(total=300, used=100))
        cuda.cuda.runtime.memGetInfo = lambda: asked.append(now[0]) or (free[0], 1000)
        monkeypatch.setattr(device.time, "monotonic", lambda: now[0])
        pool = device.make_pool(cuda, None)
        assert pool.free_bytes() == 800
        held.total, held.used, free[0] = 500, 450, 400  # it grew by 200 bytes, and all but 50 are in use
        assert pool.free_bytes() == 450
        free[0] = 100  # another process took 300
        assert (pool.free_bytes(), asked) == (450, [0.0])
        now[0] = device.QUERY_INTERVAL
        assert (pool.free_bytes(), asked) == (150, [0.0, device.QUERY_INTERVAL])
        pool.release()
        assert (pool.free_bytes(), len(asked)) == (100, 3)

    @pytest.mark.parametrize(("amount", "limit", "free"), [(0.4, 400, 300), (1000, 1000, 800), ("90%", 900, 800)])
    def test_a_limit(self, amount, limit, free):
        pool = device.make_pool(FakeCuda(FakePool(total=300, used=100)), amount)
        assert (pool.limit, pool.free_bytes()) == (limit, free)

    def test_a_limit_below_what_is_in_use_leaves_nothing(self):
        assert device.make_pool(FakeCuda(FakePool(total=300, used=100)), 50).free_bytes() == 0

    def test_a_limit_of_the_environment_is_respected(self):
        assert device.make_pool(FakeCuda(FakePool(limit=250)), None).free_bytes() == 250

    def test_a_pool_of_the_users_own_stays(self, caplog):
        own = FakePool(total=100, used=50, limit=200)
        cuda = FakeCuda(FakePool(), own.malloc)
        with caplog.at_level(logging.INFO, "gpu_wcoj"):
            pool = device.make_pool(cuda, None)
        assert cuda.allocator == own.malloc
        assert pool.free_bytes() == 150
        assert "has been set already" in caplog.text

    def test_an_unknown_allocator_stays_and_takes_no_limit(self):
        assert device.make_pool(FakeCuda(FakePool(), lambda size: None), None).free_bytes() == 600
        with pytest.raises(UsageError, match="its own allocator for CuPy"):
            device.make_pool(FakeCuda(FakePool(), lambda size: None), 0.5)


class PlainResource:
    pass


class FakeRmm:
    """As much of RMM as the choice of a pool looks at."""

    def __init__(self, present=None, fails=False):
        self.present = present or PlainResource()

        def pool(upstream, initial, maximum):
            if fails:
                raise MemoryError("std::bad_alloc")
            assert initial == maximum
            return SimpleNamespace(pool_size=lambda: maximum or 512, upstream=upstream)

        def counted(upstream):
            return SimpleNamespace(allocation_counts=SimpleNamespace(current_bytes=128), upstream=upstream)

        self.mr = SimpleNamespace(
            CudaMemoryResource=PlainResource,
            PoolMemoryResource=pool,
            StatisticsResourceAdaptor=counted,
            get_current_device_resource=lambda: self.present,
            set_current_device_resource=lambda resource: setattr(self, "present", resource),
        )
        self.rmm_cupy_allocator = object()


class TestRmm:
    @pytest.fixture
    def make(self, monkeypatch):
        def with_rmm(rmm, cuda, amount):
            monkeypatch.setattr(device.importlib.util, "find_spec", lambda name: object())
            monkeypatch.setattr(device.importlib, "import_module", lambda name: rmm)
            return device.make_pool(cuda, amount)

        return with_rmm

    def test_one_pool_for_cupy_and_cudf(self, make):
        rmm, cuda = FakeRmm(), FakeCuda(FakePool())
        pool = make(rmm, cuda, None)
        assert cuda.allocator is rmm.rmm_cupy_allocator
        assert rmm.present.upstream.pool_size() == 512
        assert pool.free_bytes() == 512 - 128 + 600

    def test_a_limit_is_one_piece_and_stays(self, make):
        pool = make(FakeRmm(), FakeCuda(FakePool()), 600)
        assert (pool.limit, pool.free_bytes()) == (512, 384)
        pool.restrict(520)
        with pytest.raises(UsageError, match="is set too late"):
            pool.restrict(800)

    def test_a_resource_of_the_users_own_stays(self, make):
        own = object()
        rmm, cuda = FakeRmm(own), FakeCuda(FakePool())
        assert make(rmm, cuda, None).free_bytes() == 600
        assert rmm.present is own
        assert cuda.allocator is rmm.rmm_cupy_allocator

    def test_more_than_is_free(self, make):
        with pytest.raises(UsageError, match="gpu_memory of 900 B cannot be allocated: 600 B"):
            make(FakeRmm(fails=True), FakeCuda(FakePool()), 900)

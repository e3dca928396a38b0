"""Which backend is taken, what is said where there is none, and where its memory comes from."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from gpu_wcoj import backend
from gpu_wcoj.amounts import part_of
from gpu_wcoj.backend import select_backend
from gpu_wcoj.errors import BackendUnavailableError, UsageError
from gpu_wcoj.kernels.cuda import finding, memory

ROOT = Path(__file__).parents[2]
HAS_DEVICE = finding.devices_of_driver() > 0
without_device = pytest.mark.skipif(HAS_DEVICE, reason="there is a GPU here")
with_cupy = pytest.mark.skipif(not finding.has_cupy(), reason="CuPy is not installed")


def run(code: str, **environment: str) -> str:
    variables = {**os.environ, **environment, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


class TestWithoutDevice:
    @without_device
    @with_cupy
    def test_cuda_says_what_was_found(self):
        with pytest.raises(BackendUnavailableError, match=r"CuPy \d+\.\d+\.\d+ for CUDA \d+\.\d+") as caught:
            select_backend("cuda")
        assert "backend='cpu'" in str(caught.value)

    @without_device
    def test_a_program_says_so_too(self):
        code = (
            "import gpu_wcoj as gw\ntry: gw.Program('p(a) :- q(a).', backend='cuda')\nexcept ImportError as e: print(e)"
        )
        assert "backend 'cuda' was requested, but" in run(code)

    @without_device
    def test_auto_takes_the_cpu_and_loads_no_cupy(self):
        code = (
            "import logging, sys; logging.basicConfig(level=logging.INFO)\n"
            "from gpu_wcoj.backend import select_backend\n"
            "print(select_backend('auto').name, select_backend().name, 'cupy' in sys.modules)"
        )
        shown = run(code)
        assert "cpu cpu False" in shown
        assert shown.count("backend auto: the CPU") == 1

    def test_without_cupy_the_extras_are_named(self):
        code = (
            "import sys; sys.modules['cupy'] = None\n"
            "import importlib.util as u; found = u.find_spec\n"
            "u.find_spec = lambda name, *rest: None if name == 'cupy' else found(name, *rest)\n"
            "from gpu_wcoj.backend import select_backend\n"
            "try: select_backend('cuda')\nexcept ImportError as e: print(e)"
        )
        shown = run(code)
        assert "CuPy is not installed" in shown
        assert "gpu_wcoj[gpu]" in shown
        assert "gpu_wcoj[gpu-cuda12]" in shown

    def test_unknown_names_are_refused(self):
        with pytest.raises(UsageError, match="Allowed: 'auto', 'cpu', 'cuda'"):
            select_backend("gpu")  # type: ignore[arg-type]


class CudaError(RuntimeError):
    pass


def fake_cupy(*, driver=13020, runtime=13020, count=1, capability="90", release="14.2.0", nvrtc=None):
    """As much of CuPy as the search for a device looks at."""

    def devices():
        if isinstance(count, Exception):
            raise count
        return count

    def version():
        if nvrtc is not None:
            raise nvrtc
        return 13, 2

    functions = {
        "runtimeGetVersion": lambda: runtime,
        "driverGetVersion": lambda: driver,
        "getDeviceCount": devices,
        "CUDARuntimeError": CudaError,
    }
    cuda = SimpleNamespace(
        runtime=SimpleNamespace(**functions),
        nvrtc=SimpleNamespace(getVersion=version),
        Device=lambda: SimpleNamespace(compute_capability=capability),
    )
    return SimpleNamespace(__version__=release, cuda=cuda)


class TestFinding:
    @pytest.fixture
    def found(self, monkeypatch):
        def find(**properties):
            monkeypatch.setitem(sys.modules, "cupy", fake_cupy(**properties))
            monkeypatch.setattr(finding, "has_cupy", lambda: True)
            return finding.import_cupy()

        return find

    def test_a_device_that_does(self, found):
        assert found().__version__ == "14.2.0"
        assert found(capability="75").__version__ == "14.2.0"
        assert found(runtime=12090, driver=12090, capability="70").__version__ == "14.2.0"

    @pytest.mark.parametrize(
        ("properties", "said"),
        [
            ({"release": "13.6.0"}, r"CuPy 13.6.0 is too old, 14.1.1"),
            ({"release": "14.0.1"}, r"CuPy 14.0.1 is too old, 14.1.1"),
            ({"driver": 0}, r"no NVIDIA driver \(CuPy 14.2.0 for CUDA 13.2\)"),
            ({"driver": 12040, "count": CudaError("cudaErrorInsufficientDriver: too old")},
             r"cudaErrorInsufficientDriver.*driver for CUDA 12.4(.|\n)*gpu-cuda12"),
            ({"count": CudaError("cudaErrorNoDevice: none")}, "cudaErrorNoDevice"),
            ({"count": 0}, "found no device"),
            ({"capability": "70"}, r"capability 7.0, and 7.5 is the oldest"),
            ({"capability": "61", "runtime": 12020}, r"capability 6.1, and 7.0 is the oldest"),
            ({"nvrtc": RuntimeError("no libnvrtc.so.13")}, "NVRTC.*no libnvrtc.so.13"),
        ],
    )  # fmt: skip
    def test_what_does_not(self, found, properties, said):
        with pytest.raises(BackendUnavailableError, match=said):
            found(**properties)

    def test_devices_that_are_hidden_are_named(self, found, monkeypatch):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
        with pytest.raises(BackendUnavailableError, match="CUDA_VISIBLE_DEVICES is '7'"):
            found(count=CudaError("cudaErrorNoDevice: none"))

    def test_auto_warns_where_a_gpu_lies_idle(self, monkeypatch, caplog):
        monkeypatch.setattr(finding, "devices_of_driver", lambda: 1)
        monkeypatch.setattr(finding, "has_cupy", lambda: False)
        backend._found_automatically.cache_clear()
        try:
            with caplog.at_level(logging.INFO, "gpu_wcoj"):
                assert select_backend("auto").name == "cpu"
        finally:
            backend._found_automatically.cache_clear()
        (record,) = caplog.records
        assert record.levelno == logging.WARNING
        assert "CuPy is not installed" in record.getMessage()


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
    with pytest.raises(UsageError, match="gpu_memory=.* is no amount of memory"):
        part_of(10**9, amount, "gpu_memory")


def test_more_memory_than_there_is():
    with pytest.raises(UsageError, match=r"gpu_memory='2GB' is 2.0 GB, and there are 1.0 GB"):
        part_of(10**9, "2GB", "gpu_memory")


def test_a_program_refuses_nonsense_also_on_the_cpu():
    with pytest.raises(UsageError, match="gpu_memory='much'"):
        select_backend("cpu", "much")
    assert select_backend("cpu", "1GB").name == "cpu"


class FakePool:
    """A pool of CuPy's: what it has from the device, of that unused, and a limit."""

    def __init__(self, total=0, used=0, limit=0):
        self.total, self.used, self.limit = total, used, limit

    def malloc(self, size):
        raise AssertionError(size)

    def free_bytes(self):
        return self.total - self.used

    def used_bytes(self):
        return self.used

    def total_bytes(self):
        return self.total

    def get_limit(self):
        return self.limit

    def set_limit(self, size):
        self.limit = size

    def free_all_blocks(self):
        self.total = self.used


class FakeCuda:
    """As much of CuPy as the choice of a pool looks at, on a device of 1,000 bytes of which 600 are free."""

    def __init__(self, pool, allocator=None):
        self.pool = pool
        self.allocator = allocator or pool.malloc
        self.cuda = SimpleNamespace(
            runtime=SimpleNamespace(memGetInfo=lambda: (600, 1000)),
            get_allocator=lambda: self.allocator,
            set_allocator=lambda allocator: setattr(self, "allocator", allocator),
            MemoryPool=FakePool,
        )

    def get_default_memory_pool(self):
        return self.pool


class TestPools:
    @pytest.fixture(autouse=True)
    def _without_rmm(self, monkeypatch):
        monkeypatch.setattr(memory.importlib.util, "find_spec", lambda name: None)

    def test_the_default_pool_counts_what_it_holds_unused(self):
        held = FakePool(total=300, used=100)
        pool = memory.make_pool(FakeCuda(held), None)
        assert (pool.limit, pool.free_bytes()) == (None, 800)
        pool.release()
        assert pool.free_bytes() == 600

    def test_the_driver_is_asked_rarely(self, monkeypatch):
        now, free, asked = [0.0], [600], []
        cuda = FakeCuda(held := FakePool(total=300, used=100))
        cuda.cuda.runtime.memGetInfo = lambda: asked.append(now[0]) or (free[0], 1000)
        monkeypatch.setattr(memory.time, "monotonic", lambda: now[0])
        pool = memory.make_pool(cuda, None)
        assert pool.free_bytes() == 800
        held.total, held.used, free[0] = 500, 450, 400  # it grew by 200 bytes, and all but 50 are in use
        assert pool.free_bytes() == 450
        free[0] = 100  # another process took 300
        assert (pool.free_bytes(), asked) == (450, [0.0])
        now[0] = memory.ASKED_EVERY
        assert (pool.free_bytes(), asked) == (150, [0.0, memory.ASKED_EVERY])
        pool.release()
        assert (pool.free_bytes(), len(asked)) == (100, 3)

    @pytest.mark.parametrize(("amount", "limit", "free"), [(0.4, 400, 300), (1000, 1000, 800), ("90%", 900, 800)])
    def test_a_limit(self, amount, limit, free):
        pool = memory.make_pool(FakeCuda(FakePool(total=300, used=100)), amount)
        assert (pool.limit, pool.free_bytes()) == (limit, free)

    def test_a_limit_below_what_is_in_use_leaves_nothing(self):
        assert memory.make_pool(FakeCuda(FakePool(total=300, used=100)), 50).free_bytes() == 0

    def test_a_limit_of_the_environment_is_respected(self):
        assert memory.make_pool(FakeCuda(FakePool(limit=250)), None).free_bytes() == 250

    def test_a_pool_of_the_users_own_stays(self, caplog):
        own = FakePool(total=100, used=50, limit=200)
        cuda = FakeCuda(FakePool(), own.malloc)
        with caplog.at_level(logging.INFO, "gpu_wcoj"):
            pool = memory.make_pool(cuda, None)
        assert cuda.allocator == own.malloc
        assert pool.free_bytes() == 150
        assert "has been set already" in caplog.text

    def test_an_unknown_allocator_stays_and_takes_no_limit(self):
        assert memory.make_pool(FakeCuda(FakePool(), lambda size: None), None).free_bytes() == 600
        with pytest.raises(UsageError, match="an allocator of its own"):
            memory.make_pool(FakeCuda(FakePool(), lambda size: None), 0.5)


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
            monkeypatch.setattr(memory.importlib.util, "find_spec", lambda name: object())
            monkeypatch.setattr(memory.importlib, "import_module", lambda name: rmm)
            return memory.make_pool(cuda, amount)

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
        with pytest.raises(UsageError, match="comes too late"):
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


@with_cupy
class TestArguments:
    """CuPy passes a Python integer as eight bytes, and so does the null pointer here."""

    @pytest.mark.parametrize(
        ("given", "bytes_passed"),
        [(5, (5).to_bytes(8, "little")), (-1, b"\xff" * 8), (2**63 - 1, b"\xff" * 7 + b"\x7f"), (None, bytes(8)),
         (True, (1).to_bytes(8, "little")), (np.int32(-2), (-2).to_bytes(8, "little", signed=True))],
    )  # fmt: skip
    def test_scalars_are_of_eight_bytes(self, given, bytes_passed):
        code = (
            "import ctypes\nimport numpy as np\nfrom cupy._core._scalar import CScalar\n"
            "from gpu_wcoj.kernels.cuda.cupy_device import _argument\n"
            f"scalar = CScalar(_argument({'None' if given is None else repr(given)}))\n"
            f"print(ctypes.string_at(scalar.ptr, 8) == {bytes_passed!r}, scalar.dtype.itemsize)"
        )
        assert run(code).split() == ["True", "8"]


class Array(np.ndarray):
    """What stands for an array of CuPy, on a device of its own."""

    device = SimpleNamespace(id=1)

    def get(self):
        return np.array(self)


class Compiler:
    """What stands for CuPy on GPU 1: modules whose kernels keep what they are launched with."""

    def __init__(self):
        self.current, self.compiled, self.launched = 1, [], []
        self.failure: Exception | None = None
        properties = {"name": b"NVIDIA Something"}
        runtime = SimpleNamespace(
            getDevice=lambda: self.current,
            getDeviceProperties=lambda index: properties,
            driverGetVersion=lambda: 13020,
        )
        self.cuda = SimpleNamespace(
            runtime=runtime,
            Device=lambda index: SimpleNamespace(attributes={"MultiProcessorCount": 132}),
            compiler=SimpleNamespace(CompileException=CompileError),
        )
        self.ndarray = Array

    def RawModule(self, code, options, backend):
        assert (options, backend) == (("-std=c++17",), "nvrtc")
        return SimpleNamespace(get_function=lambda name: self.function(code, name))

    def function(self, code, name):
        if self.failure:
            raise self.failure
        self.compiled.append((len(code), name))
        return lambda grid, block, arguments: self.launched.append((name, grid, block, arguments))

    def asarray(self, values):
        return np.asarray(values).view(Array)


class CompileError(Exception):
    pass


@with_cupy
class TestDevice:
    @pytest.fixture
    def cupy(self, monkeypatch):
        from gpu_wcoj.kernels.cuda import cupy_device

        compiler = Compiler()
        monkeypatch.setattr(cupy_device, "cupy", compiler)
        return compiler

    @pytest.fixture
    def device(self, cupy):
        from gpu_wcoj.kernels.cuda.cupy_device import CupyDevice

        return CupyDevice(memory.CupyPool(FakeCuda(FakePool()), FakePool(total=100)))

    def test_what_it_is(self, device):
        assert (device.index, device.multiprocessors) == (1, 132)
        assert repr(device) == "CupyDevice(1: NVIDIA Something, driver for CUDA 13.2)"
        assert issubclass(MemoryError, device.out_of_memory)
        device.release()

    def test_a_kernel_is_compiled_once(self, cupy, device):
        array = device.asarray(np.arange(3))
        for _ in range(3):
            device.launch("rows", "some_kernel", 7, 128, [array, None, 5, np.int32(-1)])
        assert [name for _, name in cupy.compiled] == ["some_kernel"]
        name, grid, block, arguments = cupy.launched[-1]
        assert (name, grid, block, len(cupy.launched)) == ("some_kernel", (7,), (128,), 3)
        assert arguments[0] is array
        assert [type(one) for one in arguments[1:]] == [np.uint64, int, int]
        assert [int(one) for one in arguments[1:]] == [0, 5, -1]

    def test_no_blocks_launch_nothing(self, cupy, device):
        device.launch("rows", "some_kernel", 0, 128, [])
        assert cupy.compiled == cupy.launched == []

    @pytest.mark.parametrize("failure", [CompileError("line 3: oh"), RuntimeError("no libnvrtc.so"), OSError("disk")])
    def test_what_does_not_compile(self, cupy, device, failure):
        cupy.failure = failure
        with pytest.raises(BackendUnavailableError, match=f"kernel 'k' of rows.cu cannot be .*(.|\n)*{failure}"):
            device.launch("rows", "k", 1, 32, [])

    def test_another_current_device_is_refused(self, cupy, device):
        cupy.current = 0
        with pytest.raises(UsageError, match="GPU 0 is CuPy's current device, and the engine computes on GPU 1"):
            device.launch("rows", "k", 1, 32, [])
        with pytest.raises(UsageError, match="every new thread begins with GPU 0"):
            device.asarray(np.arange(3))

    def test_arrays_of_another_device_are_refused(self, device):
        array = device.asarray(np.arange(3))
        assert device.asarray(array) is array
        assert device.to_host(array).tolist() == [0, 1, 2]
        array.device = SimpleNamespace(id=2)
        with pytest.raises(UsageError, match="an array lives on GPU 2, and the engine computes on GPU 1"):
            device.asarray(array)

"""CuPy as a device: how arguments are passed, kernels compiled once, and other devices refused."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from gpu_wcoj.errors import BackendUnavailableError, UsageError
from gpu_wcoj.kernels.cuda import device as memory
from tests.helpers.cupy_stand_ins import FakeCuda, FakeOutOfMemoryError, FakePool
from tests.helpers.device_process import run, with_cupy


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
            "from gpu_wcoj.kernels.cuda.device import _argument\n"
            f"scalar = CScalar(_argument({'None' if given is None else repr(given)}))\n"
            f"print(ctypes.string_at(scalar.ptr, 8) == {bytes_passed!r}, scalar.dtype.itemsize)"
        )
        assert run(code).split() == ["True", "8"]


class Array(np.ndarray):
    """What stands for an array of CuPy, on a device of its own."""

    device = SimpleNamespace(id=1)

    def get(self):
        return np.array(self)


class Stream:
    """What stands for a stream: a list of what it was told, shared by all."""

    def __init__(self, ptr, told):
        self.ptr, self.told = ptr, told

    def record(self):
        self.told.append(f"{self.ptr} records")
        return self.ptr

    def wait_event(self, event):
        self.told.append(f"{self.ptr} waits for {event}")


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
        self.told: list[str] = []
        self.stream = Stream(0, self.told)
        self.cuda = SimpleNamespace(
            get_current_stream=lambda: self.stream,
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

        def launch(grid, block, arguments):
            self.told.append(f"{self.stream.ptr} runs {name}")
            self.launched.append((name, grid, block, arguments))

        return launch

    def asarray(self, values):
        return np.asarray(values).view(Array)


class CompileError(Exception):
    pass


@with_cupy
class TestDevice:
    @pytest.fixture
    def cupy(self, monkeypatch):
        from gpu_wcoj.kernels.cuda import device as cupy_device

        compiler = Compiler()
        monkeypatch.setattr(cupy_device, "cupy", compiler)
        return compiler

    @pytest.fixture
    def device(self, cupy):
        from gpu_wcoj.kernels.cuda.device import CupyDevice

        return CupyDevice(memory.CupyPool(FakeCuda(FakePool()), FakePool(total=100)))

    def test_what_it_is(self, device):
        assert (device.index, device.multiprocessors) == (1, 132)
        assert repr(device) == "CupyDevice(1: NVIDIA Something, driver for CUDA 13.2)"
        assert device.out_of_memory is FakeOutOfMemoryError
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
        with pytest.raises(
            UsageError, match="CuPy's current device differs from the engine's: got GPU 0, expected GPU 1"
        ):
            device.launch("rows", "k", 1, 32, [])
        with pytest.raises(UsageError, match="every new thread starts with GPU 0"):
            device.asarray(np.arange(3))

    def test_arrays_of_another_device_are_refused(self, device):
        array = device.asarray(np.arange(3))
        assert device.asarray(array) is array
        assert device.to_host(array).tolist() == [0, 1, 2]
        array.device = SimpleNamespace(id=2)
        with pytest.raises(UsageError, match="an array is on a GPU other than the engine's: got GPU 2, expected GPU 1"):
            device.asarray(array)

    def test_another_stream_waits_for_the_one_before(self, cupy, device):
        array = device.asarray(np.arange(3))
        device.launch("rows", "first", 1, 32, [array])
        cupy.stream = Stream(7, cupy.told)
        device.launch("rows", "second", 1, 32, [array])
        device.launch("rows", "third", 1, 32, [array])
        cupy.stream = Stream(0, cupy.told)
        device.to_host(array)
        cupy.stream = Stream(9, cupy.told)
        device.asarray(array)
        assert cupy.told == [
            "0 runs first", "0 records", "7 waits for 0", "7 runs second", "7 runs third", "7 records",
            "0 waits for 7", "0 records", "9 waits for 0",
        ]  # fmt: skip

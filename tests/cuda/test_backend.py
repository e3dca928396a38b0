"""Which backend is taken, and what is said where there is none."""

from __future__ import annotations

import logging
import sys
from types import SimpleNamespace

import pytest

from gpu_wcoj import backend
from gpu_wcoj.backend import select_backend
from gpu_wcoj.errors import BackendUnavailableError, UsageError
from gpu_wcoj.kernels.cuda import detect
from tests.helpers.device_process import run, with_cupy

HAS_DEVICE = detect.count_driver_devices() > 0
without_device = pytest.mark.skipif(HAS_DEVICE, reason="there is a GPU here")


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
        with pytest.raises(UsageError, match="expected one of 'auto', 'cpu', 'cuda'"):
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
            monkeypatch.setattr(detect, "has_cupy", lambda: True)
            return detect.import_cupy()

        return find

    def test_a_device_that_does(self, found):
        assert found().__version__ == "14.2.0"
        assert found(capability="75").__version__ == "14.2.0"
        assert found(runtime=12090, driver=12090, capability="70").__version__ == "14.2.0"

    @pytest.mark.parametrize(
        ("properties", "said"),
        [
            ({"release": "13.6.0"}, "CuPy is too old: got 13.6.0, expected 14.1.1"),
            ({"release": "14.0.1"}, "CuPy is too old: got 14.0.1, expected 14.1.1"),
            ({"driver": 0}, r"the NVIDIA driver is missing \(CuPy 14.2.0 for CUDA 13.2\)"),
            ({"driver": 12040, "count": CudaError("cudaErrorInsufficientDriver: too old")},
             r"cudaErrorInsufficientDriver.*driver for CUDA 12.4(.|\n)*gpu-cuda12"),
            ({"count": CudaError("cudaErrorNoDevice: none")}, "cudaErrorNoDevice"),
            ({"count": 0}, "found no device"),
            ({"capability": "70"}, "too low: got 7.0, expected 7.5"),
            ({"capability": "61", "runtime": 12020}, "too low: got 6.1, expected 7.0"),
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
        monkeypatch.setattr(detect, "count_driver_devices", lambda: 1)
        monkeypatch.setattr(detect, "has_cupy", lambda: False)
        backend._choose_automatically.cache_clear()
        try:
            with caplog.at_level(logging.INFO, "gpu_wcoj"):
                assert select_backend("auto").name == "cpu"
        finally:
            backend._choose_automatically.cache_clear()
        (record,) = caplog.records
        assert record.levelno == logging.WARNING
        assert "CuPy is not installed" in record.getMessage()

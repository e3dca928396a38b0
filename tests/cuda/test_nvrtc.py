"""Every CUDA source compiles for every GPU that is supported, without a warning. No GPU and no driver is needed."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
from pathlib import Path

import pytest

from bench.gpu.recount import SOURCE
from gpu_wcoj.kernels.cuda import sources

ARCHITECTURES = ["sm_75", "sm_80", "sm_90", "sm_100"]


@functools.cache
def nvrtc() -> ctypes.CDLL | None:
    """The compiler in the wheel nvidia-cuda-nvrtc; None without that wheel."""
    package = importlib.util.find_spec("nvidia")
    if package is None:
        return None
    for folder in package.submodule_search_locations or ():
        # The compiler opens its built-in functions by name: they have to be there already.
        for builtins in sorted(Path(folder).rglob("libnvrtc-builtins.so*")):
            ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
        for library in sorted(Path(folder).rglob("libnvrtc.so*")):
            return ctypes.CDLL(str(library))
    return None


def log_of(compiler: ctypes.CDLL, program: ctypes.c_void_p) -> str:
    size = ctypes.c_size_t()
    compiler.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(max(size.value, 1))
    compiler.nvrtcGetProgramLog(program, log)
    return log.value.decode(errors="replace").strip()


def compile_for(compiler: ctypes.CDLL, name: str, text: str, architecture: str) -> tuple[int, str, int]:
    """NVRTC's result (0 for success), what it has to say, and the size of the machine code."""
    program = ctypes.c_void_p()
    made = compiler.nvrtcCreateProgram(ctypes.byref(program), text.encode(), f"{name}.cu".encode(), 0, None, None)
    assert made == 0
    try:
        options = [b"-std=c++17", f"-arch={architecture}".encode()]
        result = compiler.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
        size = ctypes.c_size_t()
        if result == 0:
            compiler.nvrtcGetCUBINSize(program, ctypes.byref(size))
        return result, log_of(compiler, program), size.value
    finally:
        compiler.nvrtcDestroyProgram(ctypes.byref(program))


@pytest.fixture
def compiler() -> ctypes.CDLL:
    found = nvrtc()
    if found is None:
        pytest.skip("the wheel nvidia-cuda-nvrtc is not installed")
    return found


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", sources.SOURCES)
def test_sources_compile_without_a_word(compiler, name, architecture):
    result, log, size = compile_for(compiler, name, sources.source_text(name), architecture)
    assert log == ""
    assert result == 0
    assert size > 0


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_benchmarks_own_kernel_compiles(compiler, architecture):
    assert compile_for(compiler, "recount", SOURCE, architecture)[:2] == (0, "")


def test_a_warning_and_a_mistake_would_be_seen(compiler):
    kernel = 'extern "C" __global__ void f(int* x) {{ {} }}'
    result, log, _ = compile_for(compiler, "warned", kernel.format("int unused; x[0] = 1;"), ARCHITECTURES[0])
    assert result == 0
    assert "unused" in log
    result, log, _ = compile_for(compiler, "mistaken", kernel.format("x[0] = y;"), ARCHITECTURES[0])
    assert result != 0
    assert "mistaken.cu(1)" in log

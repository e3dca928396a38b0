"""Every CUDA source compiles for every GPU that is supported, without a warning. No GPU and no driver is needed."""

from __future__ import annotations

import pytest

from bench.gpu.recount import SOURCE
from gpu_wcoj.kernels.cuda import device
from tests.ptx.nvrtc import OPTIONS, compile_source, nvrtc

pytestmark = pytest.mark.skipif(nvrtc() is None, reason="the wheel nvidia-cuda-nvrtc is not installed")

ARCHITECTURES = ["sm_75", "sm_80", "sm_90", "sm_100"]


@pytest.mark.drawn("architecture", "name", share=16)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", device.SOURCES)
def test_sources_compile_without_a_word(name, architecture):
    """With the options that CuPy gives NVRTC."""
    compiled = compile_source(name, device.source_text(name), architecture)
    assert (compiled.result, compiled.log) == (0, "")
    assert compiled.n_bytes > 0


@pytest.mark.drawn("name", share=5)
@pytest.mark.parametrize("name", device.SOURCES)
def test_sources_compile_with_our_options_alone(name):
    compiled = compile_source(name, device.source_text(name), "compute_90", OPTIONS[:1])
    assert (compiled.result, compiled.log) == (0, "")


@pytest.mark.drawn("architecture")
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_benchmarks_own_kernel_compiles(architecture):
    compiled = compile_source("recount", SOURCE, architecture)
    assert (compiled.result, compiled.log) == (0, "")


def test_a_warning_and_a_mistake_would_be_seen():
    kernel = 'extern "C" __global__ void f(int* x) {{ {} }}'
    compiled = compile_source("warned", kernel.format("int unused; x[0] = 1;"), ARCHITECTURES[0])
    assert compiled.result == 0
    assert "unused" in compiled.log
    compiled = compile_source("mistaken", kernel.format("x[0] = y;"), ARCHITECTURES[0])
    assert compiled.result != 0
    assert "mistaken.cu(1)" in compiled.log

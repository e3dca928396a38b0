"""NVRTC out of the wheel nvidia-cuda-nvrtc: CUDA C++ to PTX or to machine code, with the options that CuPy gives it.

No GPU and no driver is needed.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

OPTIONS = ("-std=c++17", "-ftz=true", "--device-as-default-execution-space")
"""Ours first; the others are what CuPy 14 adds."""


@dataclass(frozen=True)
class Compiled:
    """What NVRTC made of a source.

    Attributes
    ----------
    result
        0 for success.
    log
        Warnings and errors.
    ptx
        For a virtual architecture, ``compute_75``; empty for a real one.
    n_bytes
        The size of the machine code for a real architecture, ``sm_75``.
    """

    result: int
    log: str
    ptx: str
    n_bytes: int


@functools.cache
def nvrtc() -> ctypes.CDLL | None:
    """The compiler; None without its wheel."""
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


def version() -> str:
    """The compiler's version, as in ``13.0``."""
    compiler, major, minor = nvrtc(), ctypes.c_int(), ctypes.c_int()
    assert compiler is not None
    compiler.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return f"{major.value}.{minor.value}"


def compile_source(name: str, text: str, architecture: str, options: Sequence[str] = OPTIONS) -> Compiled:
    """Compile a source, called ``name.cu``, for an architecture."""
    compiler, program = nvrtc(), ctypes.c_void_p()
    assert compiler is not None
    made = compiler.nvrtcCreateProgram(ctypes.byref(program), text.encode(), f"{name}.cu".encode(), 0, None, None)
    assert made == 0
    try:
        given = [option.encode() for option in (*options, f"-arch={architecture}")]
        result = compiler.nvrtcCompileProgram(program, len(given), (ctypes.c_char_p * len(given))(*given))
        log = _text(compiler.nvrtcGetProgramLogSize, compiler.nvrtcGetProgramLog, program).strip()
        if result:
            return Compiled(result, log, "", 0)
        if architecture.startswith("compute"):
            return Compiled(0, log, _text(compiler.nvrtcGetPTXSize, compiler.nvrtcGetPTX, program), 0)
        size = ctypes.c_size_t()
        compiler.nvrtcGetCUBINSize(program, ctypes.byref(size))
        return Compiled(0, log, "", size.value)
    finally:
        compiler.nvrtcDestroyProgram(ctypes.byref(program))


def _text(size_of: ctypes._NamedFuncPointer, get: ctypes._NamedFuncPointer, program: ctypes.c_void_p) -> str:
    size = ctypes.c_size_t()
    size_of(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(max(size.value, 1))
    get(program, text)
    return text.value.decode(errors="replace")

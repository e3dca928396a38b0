"""A source as NVRTC reads it: compiled to PTX, translated to C++, and run by the executor in place of the shim's own.

What is compiled is kept by a hash of all that goes into it, as the shim keeps its own.
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tests.ptx import nvrtc
from tests.ptx.translate import Kernel, translate
from tests.shim import build
from tests.shim.build import Signature
from tests.shim.errors import ShimError

FOLDER = Path(__file__).parent
ARCHITECTURE_VARIABLE = "GPU_WCOJ_PTX"
ARCHITECTURES = ("sm_75", "sm_90")
OPTIONS = ["-std=c++17", "-O1", "-fPIC", "-fvisibility=hidden", "-fno-exceptions", "-fno-strict-aliasing"]
_MESSAGE = 500

launches: Counter[str] = Counter()
"""Launches of this process by source and kernel."""


class Range(ctypes.Structure):
    """Bytes from `begin` to before `end` that a kernel may touch, and where their map of what is written lies.

    The map has a byte for each of them, 1 once it is written; without a map, 0, all count as written.
    """

    _fields_: ClassVar = [("begin", ctypes.c_ulonglong), ("end", ctypes.c_ulonglong), ("written", ctypes.c_ulonglong)]


@dataclass(frozen=True)
class PtxLibrary:
    """A translated source: `run` launches a kernel of it, as `tests.shim.build.Library` does."""

    name: str
    signatures: dict[str, Signature]
    kernels: dict[str, Kernel]
    library: ctypes.CDLL

    def run(self, kernel: str, arguments: Sequence[int], n_blocks: int, block: int, schedule: int) -> None:
        """Run a grid on memory of the shim.

        Raises
        ------
        ShimError
            At an access or an operation that a GPU would not forgive, with the kernel, block, thread and PTX line.
        """
        launches[f"{self.name}.{kernel}"] += 1
        find = ctypes.cast(build.memory().shim_find, ctypes.c_void_p)
        self._launch(kernel, arguments, n_blocks, block, schedule, (0, n_blocks), find)

    def run_blocks(
        self, kernel: str, arguments: Sequence[int], n_blocks: int, block: int, blocks: tuple[int, int],
        ranges: Sequence[Range], schedule: int = 0,
    ) -> None:  # fmt: skip
        """Run the blocks from ``blocks[0]`` to before ``blocks[1]`` of a grid, on memory given by its ranges."""
        table = (Range * max(len(ranges), 1))(*ranges)
        self.library.ptx_set_ranges(table, ctypes.c_ulonglong(len(ranges)))
        self._launch(kernel, arguments, n_blocks, block, schedule, blocks, None)

    def _launch(
        self, kernel: str, arguments: Sequence[int], n_blocks: int, block: int, schedule: int,
        blocks: tuple[int, int], find: ctypes.c_void_p | None,
    ) -> None:  # fmt: skip
        entry = self.kernels[kernel]
        assert len(arguments) == entry.n_parameters
        given = (ctypes.c_ulonglong * max(len(arguments), 1))(*(argument % 2**64 for argument in arguments))
        text = ctypes.create_string_buffer(_MESSAGE)
        failed = self.library.ptx_launch(
            ctypes.cast(getattr(self.library, f"ptx_kernel_{kernel}"), ctypes.c_void_p), given, kernel.encode(),
            ctypes.c_ulonglong(n_blocks), ctypes.c_ulonglong(blocks[0]), ctypes.c_ulonglong(blocks[1]), block,
            ctypes.c_ulonglong(entry.shared), ctypes.c_ulonglong(schedule), find, text, _MESSAGE,
        )  # fmt: skip
        if failed:
            raise ShimError(f"{self.name}, {architecture()}: {text.value.decode(errors='replace')}")


def available() -> str | None:
    """Why there is no executor on this machine; None if there is one."""
    if build.compiler() is None:
        return "the executor of PTX needs a C++ compiler: g++, or the one named by CXX"
    return None if nvrtc.nvrtc() is not None else "the executor of PTX needs the wheel nvidia-cuda-nvrtc"


def architecture() -> str:
    """The GPU whose PTX is run."""
    name = os.environ.get(ARCHITECTURE_VARIABLE, ARCHITECTURES[0])
    if name not in ARCHITECTURES:
        raise ValueError(f"{ARCHITECTURE_VARIABLE} is wrong: got {name!r}, expected {' or '.join(ARCHITECTURES)}.")
    return name


def ptx_of(name: str, text: str, target: str) -> str:
    """The PTX of a source, without the lines that name the architecture and the compiler."""

    def make(path: Path) -> None:
        compiled = nvrtc.compile_source(name, text, target.replace("sm_", "compute_"))
        if compiled.result or compiled.log:
            raise ShimError(f"NVRTC refuses {name}.cu:\n{compiled.log}")
        path.write_text(compiled.ptx, encoding="utf-8")

    path = build.kept(name, ".ptx", [nvrtc.version(), *nvrtc.OPTIONS, target, text], make)
    return re.sub(r"^(//.*|\.version.*|\.target.*)$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)


@functools.cache
def runtime() -> Path:
    """The compiled scheduler."""
    sources = [(FOLDER / name).read_text() for name in ("runtime.h", "runtime.cpp")]
    options = [*OPTIONS, "-O2", "-Wall", "-Wextra", "-Werror"]

    def make(path: Path) -> None:
        build.run_compiler([*options, "-c", str(FOLDER / "runtime.cpp"), "-o", str(path)])

    return build.kept("ptx-runtime", ".o", [*options, *sources], make)


@functools.cache
def load(name: str, text: str) -> PtxLibrary:
    """Compile and translate a source, or take what is kept of it, and load it."""
    signatures = build.parse(build.run_compiler(["-E", "-P", "-x", "c++", "-"], text))
    return load_ptx(name, ptx_of(name, text, architecture()), signatures)


def load_ptx(name: str, ptx: str, signatures: dict[str, Signature] | None = None) -> PtxLibrary:
    """Translate PTX and load it."""
    source, kernels = translate(ptx)

    def make(path: Path) -> None:
        compiled = path.with_suffix(".o")
        # Labels and registers that nothing uses are no fault here.
        build.run_compiler([*OPTIONS, "-w", "-I", str(FOLDER), "-x", "c++", "-c", "-", "-o", str(compiled)], source)
        build.run_compiler(["-shared", str(compiled), str(runtime()), "-o", str(path)])

    header = (FOLDER / "runtime.h").read_text()
    library = ctypes.CDLL(str(build.kept(f"ptx-{name}", ".so", [*OPTIONS, header, runtime().name, source], make)))
    return PtxLibrary(name, signatures or {}, kernels, library)

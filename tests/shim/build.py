"""Compile CUDA sources for the host, behind `shim.h`; what is compiled is kept by a hash of all that goes into it."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.shim.errors import ShimError

FOLDER = Path(__file__).parent
OPTIONS = ["-std=c++17", "-g", "-fPIC", "-fvisibility=hidden", "-fno-exceptions", "-fno-strict-aliasing"]
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas", "-Wno-unused-parameter"]
SANITIZERS = ["-O1", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
FLAVOURS = {
    "plain": (["-O2"], []),
    "sanitized": ([*SANITIZERS, "-Wno-maybe-uninitialized"], []),
    "races": (["-O1", "-DSHIM_RACES"], ["-fsanitize=thread", "--param=tsan-distinguish-volatile=1"]),
    "ptx": (["-O2", "-DSHIM_WRITTEN"], []),
}
"""Per flavour, options for everything, and further ones for the kernels' own code.

With ``ptx`` kernels are what NVRTC makes of them, see `tests.ptx`, and memory knows which of its bytes were written.
"""
FLAVOUR_VARIABLE = "GPU_WCOJ_SHIM"
SOURCES_VARIABLE = "GPU_WCOJ_SHIM_SOURCES"
"""Names a folder of CUDA sources that are compiled in place of the package's own."""

_KERNEL = re.compile(
    r'extern\s+"C"\s+__global__\s+(?:__launch_bounds__\s*\(([^)]*)\)\s*)?void\s+(?:__launch_bounds__\s*\(([^)]*)\)\s*)?'
    r"(\w+)\s*\(([^)]*)\)"
)
_PARAMETER = re.compile(
    r"^(const\s+)?(long long|int|unsigned long long|unsigned int|unsigned char|void)(?:\s+const)?\s*(\*)?\s*"
    r"(?:const\s+)?(__restrict__\s*)?(\w+)$"
)


_PLACE = re.compile(r"<\+(0x[0-9a-f]+)>")


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel: ``const kind* name`` or ``long long name``."""

    name: str
    kind: str
    pointer: bool
    constant: bool
    restrict: bool

    @property
    def declaration(self) -> str:
        """Its type in C++."""
        return f"{'const ' if self.constant else ''}{self.kind}{'*' if self.pointer else ''}"


@dataclass(frozen=True)
class Signature:
    """A kernel's name, its parameters, and the most threads a block that its bounds allow."""

    name: str
    parameters: tuple[Parameter, ...]
    most_threads: int


@dataclass(frozen=True)
class Library:
    """A compiled source: `run` launches a kernel of it."""

    signatures: dict[str, Signature]
    library: ctypes.CDLL

    def run(self, kernel: str, arguments: list[int], n_blocks: int, block: int, schedule: int) -> None:
        """Run a grid; its errors are raised as `ShimError`."""
        given = (ctypes.c_longlong * max(len(arguments), 1))(*arguments)
        entry = ctypes.cast(getattr(self.library, f"shim_kernel_{kernel}"), ctypes.c_void_p)
        text = ctypes.create_string_buffer(2000)
        if self.library.shim_launch(
            _stacks(self.library),
            entry,
            given,
            kernel.encode(),
            ctypes.c_longlong(n_blocks),
            block,
            ctypes.c_ulonglong(schedule),
            text,
            2000,
        ):
            raise ShimError(_PLACE.sub(self._place, text.value.decode(errors="replace")))

    def _place(self, match: re.Match[str]) -> str:
        """The file and line of a place in the library."""
        tool = shutil.which("addr2line")
        if tool is None:
            return match[0]
        offset = hex(int(match[1], 16) - 1)
        done = subprocess.run([tool, "-e", self.library._name, offset], capture_output=True, text=True, check=False)
        return done.stdout.split()[0].rpartition("/")[2] if done.returncode == 0 and done.stdout.split() else match[0]


_made_stacks: list[ctypes.c_void_p] = []


def _stacks(library: ctypes.CDLL) -> ctypes.c_void_p:
    """The stacks of the threads, made by the first library and used by all."""
    if not _made_stacks:
        library.shim_make_stacks.restype = ctypes.c_void_p
        address = library.shim_make_stacks()
        if not address:
            raise MemoryError("no memory for the stacks of the threads")
        _made_stacks.append(ctypes.c_void_p(address))
    return _made_stacks[0]


@functools.cache
def compiler() -> str | None:
    """The C++ compiler: $CXX, or g++."""
    return shutil.which(os.environ.get("CXX", "g++"))


def flavour() -> str:
    """Which of `FLAVOURS` is asked for."""
    name = os.environ.get(FLAVOUR_VARIABLE, "plain")
    if name not in FLAVOURS:
        raise ValueError(f"{FLAVOUR_VARIABLE}={name} is not one of {', '.join(FLAVOURS)}")
    return name


def package_source(name: str) -> str:
    """Return the text of a source of the package, or of the folder that stands in for its own."""
    folder = os.environ.get(SOURCES_VARIABLE)
    from gpu_wcoj.kernels.cuda.device import source_text  # loads CuPy, which not every Python has

    return source_text(name) if folder is None else source_text(name, Path(folder))


def cache_folder() -> Path:
    """Where compiled sources are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpu_wcoj" / "shim"


def parse(text: str) -> dict[str, Signature]:
    """The kernels of a source whose macros are expanded.

    Examples
    --------
    >>> parse('extern "C" __global__ void f(const int* x, long long n) {}')["f"].parameters[0].declaration
    'const int*'
    """
    signatures = {}
    for match in _KERNEL.finditer(text):
        bounds, name = (match[1] or match[2] or "1024").split(",")[0], match[3]
        parameters = []
        for declaration in filter(None, (" ".join(part.split()) for part in match[4].split(","))):
            found = _PARAMETER.match(declaration)
            if found is None or (not found[3] and (found[2] != "long long")):
                raise ShimError(
                    f"{name}: parameter {declaration!r} is neither a pointer of a known kind nor a long long"
                )
            parameters.append(Parameter(found[5], found[2], bool(found[3]), bool(found[1]), bool(found[4])))
        signatures[name] = Signature(name, tuple(parameters), int(bounds) if bounds.strip().isdigit() else 1024)
    declared = len(re.findall(r"\b__global__\b", text))
    if declared != len(signatures):
        raise ShimError(
            f'{declared} kernels, of which {len(signatures)} are declared as extern "C" __global__ void name(...)'
        )
    return signatures


def run_compiler(arguments: list[str], text: str | None = None) -> str:
    """What the compiler prints; its complaints are raised."""
    found = compiler()
    if found is None:
        raise ShimError("no C++ compiler: install g++ or set CXX")
    done = subprocess.run([found, *arguments], input=text, capture_output=True, text=True, check=False)
    if done.returncode or done.stderr:
        raise ShimError(f"the host compiler refuses a source:\n{done.stderr}")
    return done.stdout


@functools.cache
def _compiler_version() -> str:
    return run_compiler(["--version"]) + platform.machine()


def kept(name: str, suffix: str, ingredients: list[str], make: Callable[[Path], None]) -> Path:
    """The file made from these ingredients, made once for all processes."""
    identity = hashlib.sha256("\0".join([_compiler_version(), *ingredients]).encode()).hexdigest()[:20]
    path = cache_folder() / f"{name}-{identity}{suffix}"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            new = Path(folder) / f"new{suffix}"
            make(new)
            os.replace(new, path)
    return path


@functools.cache
def runtime() -> Path:
    """The compiled scheduler."""
    options = [*OPTIONS, *FLAVOURS[flavour()][0], *WARNINGS]
    sources = [(FOLDER / name).read_text() for name in ("shim.h", "shim.cpp", "races.h")]

    def make(path: Path) -> None:
        run_compiler([*options, "-c", str(FOLDER / "shim.cpp"), "-o", str(path)])

    return kept("runtime", ".o", [*options, *sources], make)


@functools.cache
def memory() -> ctypes.CDLL:
    """The library that allocates."""
    options = ["-std=c++17", "-g", "-fPIC", "-shared", *FLAVOURS[flavour()][0], *WARNINGS]

    def make(path: Path) -> None:
        run_compiler([*options, str(FOLDER / "memory.cpp"), "-o", str(path)])

    # PyDLL: one call at a time, whichever thread makes it.
    library = ctypes.PyDLL(str(kept("memory", ".so", [*options, (FOLDER / "memory.cpp").read_text()], make)))
    library.shim_allocate.restype = ctypes.c_void_p
    library.shim_allocate.argtypes = [ctypes.c_size_t, ctypes.c_ulonglong]
    library.shim_free.restype = ctypes.c_longlong
    library.shim_free.argtypes = [ctypes.c_void_p]
    library.shim_check.restype = ctypes.c_longlong
    if flavour() == "ptx":
        library.shim_written.restype = ctypes.c_void_p
        library.shim_written.argtypes = [ctypes.c_void_p]
        library.shim_share.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return library


@functools.cache
def load(name: str, text: str) -> Library:
    """Compile a source, or take what is kept of it, and load it."""
    common, own = FLAVOURS[flavour()]
    options = [*OPTIONS, *common, *own, *WARNINGS]
    signatures = parse(run_compiler(["-E", "-P", "-x", "c++", "-"], text))
    launchers = [
        'extern "C" __attribute__((visibility("default"))) '
        f"void shim_kernel_{signature.name}(const long long* given);\n"
        f"void shim_kernel_{signature.name}([[maybe_unused]] const long long* given)\n{{\n    {signature.name}("
        + ", ".join(
            f"reinterpret_cast<{parameter.declaration}>(given[{i}])" if parameter.pointer else f"given[{i}]"
            for i, parameter in enumerate(signature.parameters)
        )
        + ");\n}\n"
        for signature in signatures.values()
    ]
    whole = f'#include "shim.h"\n{text}\n#line 1 "launchers of {name}"\n{"".join(launchers)}'
    header = (FOLDER / "shim.h").read_text()

    def make(path: Path) -> None:
        compiled = path.with_suffix(".o")
        run_compiler([*options, "-I", str(FOLDER), "-x", "c++", "-c", "-", "-o", str(compiled)], whole)
        run_compiler([*common, "-shared", str(compiled), str(runtime()), "-o", str(path)])

    library = ctypes.CDLL(str(kept(name, ".so", [*options, header, runtime().name, whole], make)))
    return Library(signatures, library)

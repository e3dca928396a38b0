"""The choice of the backend: the place of arrays and kernels. No other file chooses."""

from __future__ import annotations

import functools
import logging
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from gpu_wcoj.budget import MEASURED_FROM, reserve
from gpu_wcoj.errors import BackendUnavailableError, UsageError, listed
from gpu_wcoj.kernels.protocol import Kernels
from gpu_wcoj.units import part_of

if TYPE_CHECKING:
    from gpu_wcoj.kernels.cuda.device import Device

BackendName = Literal["auto", "cpu", "cuda"]

BACKENDS: tuple[BackendName, ...] = get_args(BackendName)
"""The names of backends."""

_LOGGER = logging.getLogger("gpu_wcoj")


@dataclass(frozen=True, eq=False)
class Backend:
    """A place to compute: its name, its array module and its kernels.

    Attributes
    ----------
    device
        The device of `kernels`; None on the CPU.
    is_interim
        Whether programs leave it between two ticks once the compiled kernels are loaded; see `next_backend`.
    """

    name: str
    xp: Any
    kernels: Kernels
    device: Device | None = None
    is_interim: bool = False

    def __repr__(self) -> str:
        return f"Backend({self.name!r}, {self.kernels.name})"

    @property
    def description(self) -> str:
        """The name, and the kernels if they are the slower ones."""
        return described(self.name, self.kernels.name)

    def asarray(self, array: Any) -> Any:
        """Return the array in this backend's memory; it is copied only if it lives elsewhere."""
        if self.device is not None:
            return self.device.asarray(array)
        return array if isinstance(array, np.ndarray) else array.get()

    def to_host(self, array: Any) -> npt.NDArray[Any]:
        """Return the array as a NumPy array; waits for the device if it lives on one."""
        if self.device is not None:
            return self.device.to_host(array)
        return array if isinstance(array, np.ndarray) else array.get()

    def return_freed(self) -> None:
        """Return freed memory of the host to the operating system, if the allocator can."""
        from cpu_fallback.tries import return_freed

        return_freed()


def described(backend: str, kernels: str) -> str:
    """Return the names of a backend and its kernels for people.

    Examples
    --------
    >>> described("cpu", "numpy"), described("cpu", "numba")
    ('cpu (NumPy kernels)', 'cpu')
    """
    return f"{backend} (NumPy kernels)" if kernels == "numpy" else backend


# Memory of the kernels of the host: they ask for it before they allocate much.


Size = tuple[int, int]
"""Numbers of rows and of columns."""


def _columns_size(columns: Sequence[Any], *_: Any) -> Size:
    return (len(columns[0]), len(columns)) if columns else (0, 0)


def _parts_size(parts: Sequence[Any], *_: Any) -> Size:
    return (sum(len(values[-1]) for values, _ in parts), len(parts[0][0])) if parts else (0, 0)


def _trie_size(values: Sequence[Any], *_: Any) -> Size:
    return (len(values[-1]), len(values)) if values else (0, 0)


def _merge_size(left: Any, right: Any, *_: Any) -> Size:
    return len(left[0][-1]) + len(right[0][-1]), len(left[0])


class Need(NamedTuple):
    """Memory that a kernel allocates, its result included.

    Attributes
    ----------
    what
        A name of the work, for messages.
    size
        Returns the size from the arguments of the kernel.
    per_row
        Bytes a row.
    compiled, plain
        Bytes a row and column of the compiled kernel and of the NumPy one.
    """

    what: str
    size: Callable[..., Size]
    per_row: int
    compiled: int
    plain: int


NEEDS = {
    "consolidate": Need("sorting", _columns_size, 40, 16, 16),
    "distinct_rows": Need("sorting", _columns_size, 8, 16, 16),
    "lexsort": Need("sorting", _columns_size, 8, 8, 8),
    "index_rows": Need("indexing", _columns_size, 0, 24, 28),
    "build_levels": Need("indexing", _columns_size, 0, 16, 16),
    "rearrange": Need("indexing", _parts_size, 0, 24, 45),
    "expand_columns": Need("reading", _trie_size, 0, 14, 18),
    "merge_tries": Need("merging", _merge_size, 0, 24, 85),
    "begin_merge": Need("merging", _merge_size, 0, 16, 16),
}
"""Needs by kernel: peak growth of a process per row, of random rows of two and three columns, 2 million on numba and
1 million on NumPy; where wide rows need more than others, between the two."""


def within_limits(kernels: Any) -> Any:
    """Return kernels of the host that ask for room before they allocate much memory.

    Raises
    ------
    MemoryBudgetError
        By the kernels, if the process may not have so much.
    """
    kind = type(kernels)
    methods = {
        name: staticmethod(_reserving(getattr(kernels, name), need, kernels.name == "numba"))
        for name, need in NEEDS.items()
        if getattr(kernels, name) is not None
    }
    return type(kind.__name__, (kind,), methods)()


def _reserving(kernel: Callable[..., Any], need: Need, is_compiled: bool) -> Callable[..., Any]:
    what, size, per_row = need.what, need.size, need.per_row
    per_value = need.compiled if is_compiled else need.plain

    @functools.wraps(kernel, updated=())
    def reserving(*arguments: Any) -> Any:
        n_rows, n_columns = size(*arguments)
        n_bytes = n_rows * (per_row + per_value * n_columns)
        if n_bytes >= MEASURED_FROM:
            reserve(n_bytes, what, n_rows)
        return kernel(*arguments)

    return reserving


@functools.cache
def _cpu_backend_with(compiled: bool | None, is_interim: bool = False) -> Backend:
    from cpu_fallback import load_kernels
    from cpu_fallback.tries import keep_freed

    keep_freed()
    return Backend("cpu", np, within_limits(load_kernels(compiled)), is_interim=is_interim)


def cpu_backend(compiled: bool | None = None, is_lasting: bool = False) -> Backend:
    """Return the CPU backend.

    Parameters
    ----------
    compiled
        True for the compiled kernels, False for the NumPy ones. None follows ``GPU_WCOJ_COMPILE``: the compiled kernels
        if they are loaded, and the NumPy ones before that.
    is_lasting
        Whether the caller cannot change to other kernels later: then compiled kernels on disk are loaded at once.

    Raises
    ------
    UsageError
        If ``GPU_WCOJ_COMPILE`` has an invalid value.
    """
    if compiled is not None:
        return _cpu_backend_with(compiled)
    mode = compile_mode()
    if mode == "never":
        return _cpu_backend_with(False)
    if mode == "wait" or not _has_numba():
        return _cpu_backend_with(None)
    if _changeover.target is None and is_lasting:
        _changeover.finish()
    return _changeover.target or _cpu_backend_with(False, is_interim=not is_lasting)


# The change from the NumPy kernels to the compiled ones.
#
# A new machine has no machine code, and loading it costs a process more time than a small program takes as a whole. So
# programs start on the NumPy kernels, which give the same answers bit for bit. Each changes between two of its ticks,
# once the machine code is there and loading it pays.


CompileMode = Literal["background", "never", "wait"]

COMPILE_VARIABLE: Final = "GPU_WCOJ_COMPILE"
"""The environment variable that says when kernels are compiled, a `CompileMode`.

``background``, the default: in a process of lowest priority, while programs run on the NumPy kernels; ``wait``: before
they are first called, in the process that calls them; ``never``: programs run on the NumPy kernels for good."""

COMPILED_FROM = 2048
"""Rows of a program's state and tick together from which on the process loads the compiled kernels."""

LOADING_SECONDS = 0.5
"""Seconds of ticks on the NumPy kernels after which a process loads the compiled ones: about what loading takes."""


@functools.cache
def compile_mode() -> CompileMode:
    """Return the value of ``GPU_WCOJ_COMPILE``, which is read once a process.

    Raises
    ------
    UsageError
        If it has another value.
    """
    value = os.environ.get(COMPILE_VARIABLE) or "background"
    modes: tuple[CompileMode, ...] = get_args(CompileMode)
    for mode in modes:
        if value == mode:
            return mode
    raise UsageError.invalid_value(COMPILE_VARIABLE, value, "'background', 'never' or 'wait'")


def has_compiled_kernels() -> bool:
    """Return whether all compiled kernels are on disk, and may be used by this process."""
    from cpu_fallback import compilation

    return compile_mode() != "never" and _has_numba() and compilation.is_complete(compilation.cache_folder())


@functools.cache
def _has_numba() -> bool:
    try:
        from cpu_fallback.compilation import has_numba
    except ImportError:  # a system without file locks
        return False
    return has_numba()


@dataclass(eq=False)
class Changeover:
    """The change of a process from the NumPy kernels to the compiled ones.

    Attributes
    ----------
    target
        The backend to change to, once its kernels are loaded.
    seconds
        Duration of all ticks on the NumPy kernels.
    is_begun
        Whether the process has looked for the compiled kernels and, where they are missing, begun to have them made.
    is_over
        Whether nothing is left to be done: the kernels are loaded, or cannot be.
    """

    target: Backend | None = None
    seconds: float = 0.0
    is_begun: bool = False
    is_over: bool = False

    def observe(self, rows: int, seconds: float) -> None:
        """Take note of a tick that is about to run, and of the duration of the one before it."""
        if not self.is_begun:
            self.begin()
        self.seconds += seconds
        if not self.is_over and (rows >= COMPILED_FROM or self.seconds >= LOADING_SECONDS):
            self.finish()

    def begin(self) -> None:
        """Start the compilation in the background, if it is still to be done and nobody does it."""
        from cpu_fallback import compilation

        self.is_begun = True
        try:
            folder = compilation.cache_folder()
            if compilation.is_complete(folder):
                return
            is_running = compilation.start_background(_report_failure)
        except (OSError, RuntimeError) as error:
            self.is_over = True
            _LOGGER.warning(
                "The kernels cannot be compiled in the background (%s), so the NumPy kernels are used. "
                "Set NUMBA_CACHE_DIR to a folder that can be written to, or %s=wait.", error, COMPILE_VARIABLE
            )  # fmt: skip
            return
        if is_running:
            _tell("compiling the kernels in the background, once on this machine; NumPy kernels are used until then")

    def finish(self) -> None:
        """Load the compiled kernels if all of them are on disk; otherwise do nothing."""
        from cpu_fallback import compilation

        if not self.is_begun:
            self.begin()
        if self.is_over or not compilation.is_complete(compilation.cache_folder()):
            return
        try:
            target = _cpu_backend_with(True)
        except ImportError as error:
            self.is_over = True
            _LOGGER.warning("numba cannot be loaded (%s): the NumPy kernels are used.", error)
            return
        if compilation.is_complete(compilation.cache_folder()):
            self.target, self.is_over = target, True
            _tell("the compiled kernels are in use from here on", is_news=False)
        elif self.is_begun:  # they were compiled for another processor
            self.begin()


_changeover = Changeover()


def next_backend(backend: Backend, rows: int, seconds: float) -> Backend:
    """Return the backend of a program's next tick: another one once the kernels change.

    Parameters
    ----------
    rows
        Rows of the program's state and of the tick.
    seconds
        Duration of the program's previous tick.
    """
    if not backend.is_interim:
        return backend
    _changeover.observe(rows, seconds)
    return _changeover.target or backend


def _report_failure(problem: str) -> None:
    _changeover.is_over = True
    _LOGGER.warning("The NumPy kernels remain in use: %s. Run 'gpu-wcoj warm' to see why.", problem)


def _tell(news: str, is_news: bool = True) -> None:
    """Log a line about the kernels; if it `is_news`, also show it in a terminal or notebook."""
    _LOGGER.info("CPU kernels: %s", news)
    stderr = sys.stderr
    if is_news and stderr is not None and ("ipykernel" in sys.modules or stderr.isatty()):
        stderr.write(f"gpu_wcoj: {news}\n")


@functools.cache
def _choose_automatically() -> BackendName:
    """Return ``"cuda"`` if it works here, else ``"cpu"``; log the choice and the reason."""
    from gpu_wcoj.kernels.cuda import detect

    if detect.count_driver_devices() == 0:
        _LOGGER.info("backend auto: the CPU, as there is no NVIDIA GPU")
        return "cpu"
    try:
        cupy = detect.import_cupy()
    except BackendUnavailableError as error:
        _LOGGER.warning("backend auto: the CPU, although there is an NVIDIA GPU. %s", " ".join(str(error).split()))
        return "cpu"
    _LOGGER.info("backend auto: the GPU, %s", detect.describe_device(cupy))
    return "cuda"


_cuda_backends: dict[int, Backend] = {}
"""The backend of each GPU that a program has used, by device index."""


def _cuda_backend(gpu_memory: float | str | None) -> Backend:
    """Return the backend of CuPy's current device; all programs of the process share it."""
    from gpu_wcoj.kernels.cuda.detect import import_cupy

    cupy = import_cupy()
    from gpu_wcoj.kernels.cuda.device import CupyDevice, limit_in_bytes, make_pool
    from gpu_wcoj.kernels.cuda.kernels import CudaKernels

    index = int(cupy.cuda.runtime.getDevice())
    if index not in _cuda_backends:
        device = CupyDevice(make_pool(cupy, gpu_memory))
        _cuda_backends[index] = Backend("cuda", device.xp, CudaKernels(device), device)
    elif gpu_memory is not None:
        present = _cuda_backends[index].device
        assert isinstance(present, CupyDevice)
        present.pool.restrict(limit_in_bytes(cupy, gpu_memory))
    return _cuda_backends[index]


def validate_backend(option: str, value: object) -> BackendName | Backend:
    """Return an option that must be a backend or the name of one.

    Raises
    ------
    UsageError
        If it is anything else.
    """
    if isinstance(value, Backend):
        return value
    for name in BACKENDS:
        if isinstance(value, str) and name == value:
            return name
    raise UsageError.invalid_value(option, value, f"one of {listed(BACKENDS)}")


def select_backend(
    name: BackendName | Backend = "auto", gpu_memory: float | str | None = None, is_lasting: bool = False
) -> Backend:
    """Return the backend of a name; ``"auto"`` is the GPU if there is one, else the CPU.

    Parameters
    ----------
    name
        ``"auto"``, ``"cpu"``, ``"cuda"``, or a backend.
    gpu_memory
        Maximum memory of the GPU for the process, in bytes (8000000000, ``"8GB"``) or as a share (0.5, ``"50%"``);
        None for all of it. Ignored on the CPU.
    is_lasting
        Whether the caller cannot change to other kernels later; see `cpu_backend`.

    Raises
    ------
    BackendUnavailableError
        If ``"cuda"`` is requested and does not work here; the message says what was found.
    UsageError
        For any other name, or an invalid amount of memory.

    Examples
    --------
    >>> select_backend("cpu").name
    'cpu'
    """
    if gpu_memory is not None:
        part_of(2**62, gpu_memory, "gpu_memory")  # validates the amount also on machines without a GPU
    chosen = validate_backend("backend", name)
    if isinstance(chosen, Backend):
        return chosen
    if chosen == "auto":
        chosen = _choose_automatically()
    return cpu_backend(is_lasting=is_lasting) if chosen == "cpu" else _cuda_backend(gpu_memory)

"""A device that is the host: kernels run behind the shim, arrays are `tests.shim.array.Array`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.ptx import library
from tests.shim import build
from tests.shim.array import Array
from tests.shim.build import Parameter
from tests.shim.errors import ShimError, ShimOutOfMemoryError
from tests.shim.memory import Counts, Memory
from tests.shim.xp import Module

DTYPES = {
    "long long": (np.int64,),
    "int": (np.int32,),
    "unsigned long long": (np.uint64,),
    "unsigned int": (np.uint32,),
    "unsigned char": (np.uint8, np.bool_),
}
MOST_BLOCKS = 2**31 - 1
_ONE_AT_A_TIME = threading.Lock()


class ShimDevice:
    """See `gpu_wcoj.kernels.cuda.device.Device`.

    Parameters
    ----------
    seed
        Which order blocks, warps and lanes run in (0 ascending, 1 descending, others pseudo-random), what new memory
        holds, and how many multiprocessors there are.
    memory_limit
        Bytes that can be allocated.
    sources
        The text of a source by its name.

    Attributes
    ----------
    counts
        What happened so far; see `tests.shim.memory.Counts`.
    """

    def __init__(
        self, seed: int = 0, memory_limit: int | None = None, sources: Callable[[str], str] = build.package_source
    ) -> None:
        self.seed = seed
        self.memory = Memory(seed, memory_limit)
        self.xp: Any = Module(self.memory)
        self.multiprocessors = (2, 1, 3, 7)[seed % 4]
        self.out_of_memory: type[BaseException] = ShimOutOfMemoryError
        self.description = "the host behind a shim"
        self._sources = sources

    @property
    def counts(self) -> Counts:
        return self.memory.counts

    def counted(self) -> AbstractContextManager[Counts]:
        """Counts of what happens inside: ``with device.counted() as counts: ...``."""
        return self.memory.counted()

    def launch(self, source: str, kernel: str, n_blocks: int, block: int, arguments: Sequence[Any]) -> None:
        """See `gpu_wcoj.kernels.cuda.device.Device.launch`."""
        load = library.load if build.flavour() == "ptx" else build.load
        compiled = load(source, self._sources(source))
        if kernel not in compiled.signatures:
            raise ShimError(f"{source}.cu has no kernel {kernel}; it has {', '.join(compiled.signatures)}")
        signature = compiled.signatures[kernel]
        for name, value in (("n_blocks", n_blocks), ("block", block)):
            if not isinstance(value, int | np.integer):
                raise ShimError(f"{kernel}: {name} is {value!r}")
        if block % 32 or not 0 < block <= signature.most_threads:
            raise ShimError(f"{kernel}: {block} threads a block; it may have {signature.most_threads}, in whole warps")
        if not 0 <= n_blocks <= MOST_BLOCKS:
            raise ShimError(f"{kernel}: {n_blocks} blocks")
        if len(arguments) != len(signature.parameters):
            raise ShimError(f"{kernel}: {len(arguments)} arguments for {len(signature.parameters)} parameters")
        given = [
            self._pass(kernel, parameter, argument)
            for parameter, argument in zip(signature.parameters, arguments, strict=True)
        ]
        _check_aliases(kernel, signature.parameters, arguments)
        if n_blocks == 0:
            return
        self.memory.check("something before " + kernel)
        schedule = self.seed if self.seed < 2 else (self.seed * 1_000_003 + self.counts.launches) % 2**63 + 2
        self.memory.launched(kernel)
        with _ONE_AT_A_TIME:
            compiled.run(kernel, given, int(n_blocks), int(block), schedule)
        self.memory.check(kernel)

    def _pass(self, kernel: str, parameter: Parameter, argument: Any) -> int:
        """An argument as 64 bits."""
        name = f"{kernel}: {parameter.declaration} {parameter.name}"
        if not parameter.pointer:
            if isinstance(argument, bool | np.bool_) or not isinstance(argument, int | np.integer):
                raise ShimError(f"{name} is given {type(argument).__name__}, not an int")
            if not -(2**63) <= argument < 2**63:
                raise ShimError(f"{name} is given {argument}, which does not fit")
            return int(argument)
        if argument is None:
            return 0
        if not isinstance(argument, Array):
            raise ShimError(f"{name} is given {type(argument).__name__}, not an array of the device")
        if argument._memory is not self.memory:
            raise ShimError(f"{name} is given an array of another device")
        if parameter.kind != "void" and argument.dtype.type not in DTYPES[parameter.kind]:
            raise ShimError(f"{name} is given an array of {argument.dtype}")
        if not argument.flags.c_contiguous:
            raise ShimError(f"{name} is given an array that is not contiguous: {argument.shape}, {argument.strides}")
        return argument.data.ptr

    def asarray(self, array: Any) -> Array:
        """See `gpu_wcoj.kernels.cuda.device.Device.asarray`."""
        result: Array = self.xp.asarray(array)
        return result

    def to_host(self, array: Any) -> npt.NDArray[np.generic]:
        """See `gpu_wcoj.kernels.cuda.device.Device.to_host`."""
        host: npt.NDArray[np.generic] = self.xp.asnumpy(array)
        return host

    def free_bytes(self) -> int:
        """See `gpu_wcoj.kernels.cuda.device.Device.free_bytes`."""
        return self.memory.limit - self.counts.allocated

    def release(self) -> None:
        """See `gpu_wcoj.kernels.cuda.device.Device.release`."""


def _check_aliases(kernel: str, parameters: Sequence[Parameter], arguments: Sequence[Any]) -> None:
    """What is written through a pointer that is said to be the only one must not be reached through another."""
    spans = [
        (parameter, argument.data.ptr, argument.data.ptr + argument.nbytes)
        for parameter, argument in zip(parameters, arguments, strict=True)
        if isinstance(argument, Array) and argument.size
    ]
    for written, begin, end in spans:
        if written.constant:
            continue
        for other, other_begin, other_end in spans:
            restricted = written.restrict or other.restrict
            if other is not written and restricted and begin < other_end and other_begin < end:
                raise ShimError(f"{kernel}: {written.name} and {other.name} overlap, and one of them is __restrict__")

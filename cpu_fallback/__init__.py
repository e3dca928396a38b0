"""The kernels of `gpu_wcoj` on the CPU: NumPy with numba where a loop wins, NumPy alone where numba is absent.

It imports nothing of `gpu_wcoj`; `gpu_wcoj.kernels.protocol` is its specification.
"""

from __future__ import annotations

import logging
from typing import Any

__all__ = ["load_kernels"]

_LOGGER = logging.getLogger("gpu_wcoj")


def load_kernels(compiled: bool | None = None) -> Any:
    """The compiled kernels, or the NumPy ones if numba cannot be imported or compiles nothing (a log line says so).

    Parameters
    ----------
    compiled
        True or False to insist on one of the two.

    Raises
    ------
    ImportError
        If `compiled` is True and numba cannot be imported, or is told to compile nothing.
    """
    if compiled is not False:
        try:
            import numba

            if numba.config.DISABLE_JIT:
                raise ImportError("NUMBA_DISABLE_JIT is set")
            from cpu_fallback.compiled import CompiledKernels

            return CompiledKernels()
        except ImportError as error:
            if compiled:
                raise
            _LOGGER.warning(
                "numba is not at hand (%s): the NumPy kernels are used, which are several times slower.", error
            )
    from cpu_fallback.vectorised import VectorisedKernels

    return VectorisedKernels()

"""The kernels of `gpu_wcoj` on the CPU: numba for loops, NumPy alone where numba is absent.

The package does not import `gpu_wcoj`; `gpu_wcoj.kernels.protocol` is its specification.
"""

from __future__ import annotations

import logging
from typing import Any

__all__ = ["load_kernels"]

_LOGGER = logging.getLogger("gpu_wcoj")


def load_kernels(compiled: bool | None = None) -> Any:
    """Return the compiled kernels, or the NumPy ones if numba is missing or disabled.

    A log line names the NumPy kernels and the reason.

    Parameters
    ----------
    compiled
        True to require the compiled kernels, False to require the NumPy ones.

    Raises
    ------
    ImportError
        If `compiled` is True and numba cannot be imported, or its compilation is disabled.
    """
    if compiled is not False:
        try:
            import numba

            if numba.config.DISABLE_JIT:
                raise ImportError("NUMBA_DISABLE_JIT is set")
            from cpu_fallback.kernels import CompiledKernels

            return CompiledKernels()
        except ImportError as error:
            if compiled:
                raise
            _LOGGER.warning(
                "numba is not installed (%s): the NumPy kernels are used, which are several times slower.", error
            )
    from cpu_fallback.numpy_kernels import VectorisedKernels

    return VectorisedKernels()

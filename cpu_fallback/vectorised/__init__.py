"""The kernels with NumPy alone, used if numba is absent."""

from __future__ import annotations

from cpu_fallback.vectorised.kernels import VectorisedKernels

__all__ = ["VectorisedKernels"]

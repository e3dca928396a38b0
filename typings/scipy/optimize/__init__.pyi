# What the engine uses of SciPy, which ships no types.
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

class OptimizeResult:
    status: int
    message: str
    x: Sequence[float]
    fun: float

def linprog(
    c: Sequence[float],
    A_ub: Sequence[Sequence[float]] | None = None,  # noqa: N803 - the name that SciPy gives it
    b_ub: Sequence[float] | None = None,
    *,
    bounds: tuple[float | None, float | None] | Sequence[Any] = ...,
    method: str = ...,
) -> OptimizeResult: ...
def nnls(
    A: npt.NDArray[np.float64],  # noqa: N803 - the name that SciPy gives it
    b: npt.NDArray[np.float64],
) -> tuple[npt.NDArray[np.float64], float]: ...

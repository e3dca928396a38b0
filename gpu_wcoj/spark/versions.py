"""Which versions of Spark this package works with."""

from __future__ import annotations

import importlib.metadata

from gpu_wcoj.errors import BackendUnavailableError

OLDEST, BEYOND = (4, 0), (4, 4)
"""The first minor version of Spark that is supported, and the first that is not."""


def require_pyspark() -> str:
    """The version of PySpark.

    Raises
    ------
    BackendUnavailableError
        If there is none, or one that is not supported.
    """
    try:
        version = importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        raise BackendUnavailableError(
            "gpu_wcoj.spark needs PySpark, and it is not installed.\n  pip install 'gpu_wcoj[spark]'"
        ) from None
    if not OLDEST <= minor(version) < BEYOND:
        raise BackendUnavailableError(
            f"gpu_wcoj.spark works with PySpark {_dotted(OLDEST)} up to, not including, {_dotted(BEYOND)}; "
            f"installed is {version}.\n  pip install 'gpu_wcoj[spark]'"
        )
    return version


def minor(version: str) -> tuple[int, int]:
    """The first two numbers of a version.

    Examples
    --------
    >>> minor("4.1.3")
    (4, 1)
    >>> minor("4.2.0.dev1")
    (4, 2)
    """
    major, second = version.split(".")[:2]
    return int(major), int(second)


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"

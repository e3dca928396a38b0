"""The supported versions of PySpark."""

from __future__ import annotations

import importlib.metadata

from gpu_wcoj.errors import BackendUnavailableError

OLDEST, BEYOND = (4, 0), (4, 4)
"""The first minor version of Spark that is supported, and the first later one that is not."""


def require_pyspark() -> str:
    """Return the version of PySpark.

    Raises
    ------
    BackendUnavailableError
        If PySpark is not installed, or its version is not supported.
    """
    try:
        version = importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        raise BackendUnavailableError.missing_package("gpu_wcoj.spark", "PySpark", "spark") from None
    if not OLDEST <= minor(version) < BEYOND:
        raise BackendUnavailableError.mismatch(
            "PySpark", "has an unsupported version", version,
            f"{_dotted(OLDEST)} up to, not including, {_dotted(BEYOND)}",
            "Install a supported one: pip install 'gpu_wcoj[spark]'.",
        )  # fmt: skip
    return version


def minor(version: str) -> tuple[int, int]:
    """Return the first two parts of a version.

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

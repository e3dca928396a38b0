"""The engine on Apache Spark: change streams in, kept answers out.

Names are loaded when they are first used, and PySpark with them: ``import gpu_wcoj.spark as gws`` is light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpu_wcoj.spark.session import local_session as local_session

_HOME = {
    "local_session": "session",
}
"""Which module of this package each public name comes from."""

__all__ = ["local_session"]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'; it has {', '.join(__all__)}.")
    from gpu_wcoj.spark.versions import require_pyspark

    require_pyspark()
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]

"""The engine on Apache Spark: streams of changes in, maintained answers out.

Names are loaded on first use, and PySpark with them, so ``import gpu_wcoj.spark as gws`` is light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpu_wcoj.spark.maintenance import maintain as maintain
    from gpu_wcoj.spark.output import read_output as read_output
    from gpu_wcoj.spark.query import count as count
    from gpu_wcoj.spark.query import explain as explain
    from gpu_wcoj.spark.query import find as find
    from gpu_wcoj.spark.query import join as join
    from gpu_wcoj.spark.session import local_session as local_session
    from gpu_wcoj.spark.session import rapids_conf as rapids_conf
    from gpu_wcoj.spark.sources import as_change as as_change
    from gpu_wcoj.spark.sources import detect as detect
    from gpu_wcoj.spark.sources import normalise as normalise
    from gpu_wcoj.spark.view import View as View

_HOME = {
    "View": "view",
    "as_change": "sources",
    "count": "query",
    "detect": "sources",
    "explain": "query",
    "find": "query",
    "join": "query",
    "local_session": "session",
    "maintain": "maintenance",
    "normalise": "sources",
    "rapids_conf": "session",
    "read_output": "output",
}
"""The module of each public name. No module has the public name itself: once imported, the module would hide it."""

__all__ = [
    "View", "as_change", "count", "detect", "explain", "find", "join", "local_session", "maintain", "normalise",
    "rapids_conf", "read_output",
]  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'; it has {', '.join(__all__)}.")
    from gpu_wcoj.spark.session import require_pyspark

    require_pyspark()
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})

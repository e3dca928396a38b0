"""Keep the answers of multi-way, cyclic join queries up to date while their relations change.

Incremental (insertions, deletions, exact weights), worst-case optimal, columnar.

Examples
--------
>>> import gpu_wcoj as gw
>>> program = gw.Program("triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c).")
>>> changes = program.step({"edge": gw.ZSet.from_rows([(1, 2), (2, 3), (1, 3)])})
>>> changes["triangle"].rows()
[((1, 2, 3), 1)]
"""

from typing import TYPE_CHECKING

from gpu_wcoj.errors import GpuWcojError
from gpu_wcoj.once import query
from gpu_wcoj.program import ChangeCount, Program, TickReport
from gpu_wcoj.zset.index import IndexedZSet
from gpu_wcoj.zset.zset import ZSet

if TYPE_CHECKING:
    from gpu_wcoj import datoms as datoms
    from gpu_wcoj import streams as streams
    from gpu_wcoj.finding import Matcher as Matcher
    from gpu_wcoj.finding import Matches as Matches
    from gpu_wcoj.finding import find as find
    from gpu_wcoj.streams.circuit import Circuit as Circuit
    from gpu_wcoj.views import View as View
    from gpu_wcoj.views import view as view

__version__ = "0.1.0"

__all__ = [
    "ChangeCount", "Circuit", "GpuWcojError", "IndexedZSet", "Matcher", "Matches", "Program", "TickReport", "View",
    "ZSet", "datoms", "find", "query", "streams", "view",
]  # fmt: skip


def __getattr__(name: str) -> object:
    """Load circuits, views, motifs and databases when they are first asked for."""
    if name == "datoms":
        from importlib import import_module

        return import_module("gpu_wcoj.datoms")
    if name in ("Matcher", "Matches", "find"):
        from gpu_wcoj import finding

        return getattr(finding, name)
    if name in ("View", "view"):
        from gpu_wcoj import views

        return getattr(views, name)
    if name in ("Circuit", "streams"):
        from importlib import import_module

        streams = import_module("gpu_wcoj.streams")
        return streams if name == "streams" else streams.Circuit
    raise AttributeError(f"module 'gpu_wcoj' has no attribute '{name}'")

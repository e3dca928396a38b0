"""Incremental maintenance of multi-way, cyclic join queries over changing relations.

Incremental (insertions, deletions, exact weights), worst-case optimal, columnar.

Examples
--------
>>> import gpu_wcoj as gw
>>> program = gw.Program("triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c).")
>>> changes = program.step({"edge": gw.ZSet.from_rows([(1, 2), (2, 3), (1, 3)])})
>>> changes["triangle"].rows()
[((1, 2, 3), 1)]
"""

from importlib import import_module
from typing import TYPE_CHECKING

from gpu_wcoj import errors as errors
from gpu_wcoj.errors import GpuWcojError
from gpu_wcoj.errors import config as config
from gpu_wcoj.one_shot import query
from gpu_wcoj.result import Result
from gpu_wcoj.user_functions import function
from gpu_wcoj.zset.index import IndexedZSet
from gpu_wcoj.zset.zset import ZSet

if TYPE_CHECKING:
    from gpu_wcoj import datasets as datasets
    from gpu_wcoj import datoms as datoms
    from gpu_wcoj import spark as spark
    from gpu_wcoj import streams as streams
    from gpu_wcoj.maintained import Maintained as Maintained
    from gpu_wcoj.maintained import Updatable as Updatable
    from gpu_wcoj.program import ChangeCount as ChangeCount
    from gpu_wcoj.program import ExecutionOptions as ExecutionOptions
    from gpu_wcoj.program import Program as Program
    from gpu_wcoj.program import TickReport as TickReport
    from gpu_wcoj.streams.circuit import Circuit as Circuit
    from gpu_wcoj.views import MatchChange as MatchChange
    from gpu_wcoj.views import Matcher as Matcher
    from gpu_wcoj.views import find as find
    from gpu_wcoj.views.view import Connection as Connection
    from gpu_wcoj.views.view import MotifView as MotifView
    from gpu_wcoj.views.view import MultiView as MultiView
    from gpu_wcoj.views.view import View as View
    from gpu_wcoj.views.view import connect as connect
    from gpu_wcoj.views.view import view as view

__version__ = "0.1.0"

__all__ = [
    "ChangeCount", "Circuit", "Connection", "ExecutionOptions", "GpuWcojError", "IndexedZSet", "Maintained",
    "MatchChange", "Matcher", "MotifView", "MultiView", "Program", "Result", "TickReport", "Updatable", "View", "ZSet",
    "config", "connect", "datasets", "datoms", "errors", "find", "function", "query", "spark", "streams", "view",
]  # fmt: skip

_HOME = {
    "ChangeCount": "program",
    "Circuit": "streams",
    "Connection": "views.view",
    "ExecutionOptions": "program",
    "Maintained": "maintained",
    "Matcher": "views",
    "MatchChange": "views",
    "MotifView": "views.view",
    "MultiView": "views.view",
    "Program": "program",
    "TickReport": "program",
    "Updatable": "maintained",
    "View": "views.view",
    "connect": "views.view",
    "find": "views",
    "view": "views.view",
}
_MODULES = ("datasets", "datoms", "spark", "streams")
"""Public modules; they and the names in `_HOME` are imported on first use."""


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return import_module(f"gpu_wcoj.{name}")
    if name in _HOME:
        return getattr(import_module(f"gpu_wcoj.{_HOME[name]}"), name)
    raise AttributeError(f"module 'gpu_wcoj' has no attribute '{name}'.{errors.nearest(name, __all__)}")


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})

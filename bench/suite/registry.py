"""Every contender by its name, as the function that builds it: looked up where it runs, so that nothing else is loaded.

A rival of `gpu-wcoj bench --rivals` may have several contenders, each a way to use it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import MappingProxyType

from bench.suite.contender import Contender, Setting

STRATEGIES = ("wcoj", "binary", "auto")
CONTENDERS = MappingProxyType(
    {
        "wcoj": "bench.suite.engine:wcoj",
        "binary": "bench.suite.engine:binary",
        "auto": "bench.suite.engine:auto",
    }
)
RIVALS: MappingProxyType[str, tuple[str, ...]] = MappingProxyType({})
"""Per rival that can be asked for, the names of its contenders."""


def factory(name: str) -> Callable[[Setting], Contender]:
    """What builds a contender."""
    module, _, function = CONTENDERS[name].partition(":")
    made: Callable[[Setting], Contender] = getattr(importlib.import_module(module), function)
    return made

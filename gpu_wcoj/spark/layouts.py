"""Layouts of a program on Spark: one engine in the driver, or engines in cells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from gpu_wcoj.query.rules import Rules
from gpu_wcoj.spark.cells.spread import reason_against, require_spread
from gpu_wcoj.spark.cluster.layout import Layout as CellsLayout

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Layout = Literal["one", "auto", "hypercube", "replicated"]

LAYOUTS = ("one", "auto", "hypercube", "replicated")
"""The names that `layout` accepts."""


def resolve_layout(session: SparkSession, requested: str, rules: Rules) -> tuple[str, str]:
    """Return the layout to use for a requested one, and the reason.

    The result is ``"auto"`` if the amount of data in a cell is to decide.

    Raises
    ------
    UnsupportedError
        If cells are requested and the program cannot be distributed.
    """
    if requested == "auto":
        against = reason_against(rules)
        if against:
            return "one", against
        if str(session.sparkContext.master).split("[")[0] == "local":
            return "one", "Spark runs on this machine alone, where one engine shares its state among threads"
    elif requested != "one":
        require_spread(rules)
    return requested, "as asked for"


def cells_layout(name: str) -> CellsLayout:
    """Return the layout with this name for a program that is distributed over cells."""
    return "replicated" if name == "replicated" else "hypercube" if name == "hypercube" else "auto"

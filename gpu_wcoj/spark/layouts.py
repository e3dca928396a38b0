"""Where a program runs: in one place, or on cells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from gpu_wcoj.query.rules import Rules
from gpu_wcoj.spark.cells.chosen import Layout as CellsLayout
from gpu_wcoj.spark.cells.spread import reason_against, require_spread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Layout = Literal["one", "auto", "hypercube", "replicated"]

LAYOUTS = ("one", "auto", "hypercube", "replicated")


def resolve_layout(session: SparkSession, requested: str, rules: Rules) -> tuple[str, str]:
    """The layout to use where this one is asked for, ``"auto"`` if that is left to what cells would hold; and why.

    Raises
    ------
    UnsupportedError
        If the program cannot be spread, and is to be.
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
    """The layout of that name for a program that is spread over cells."""
    return "replicated" if name == "replicated" else "hypercube" if name == "hypercube" else "auto"

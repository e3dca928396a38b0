"""Rendering of plans by format name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal, get_args

from gpu_wcoj.errors import UsageError
from gpu_wcoj.explain.document import as_json
from gpu_wcoj.explain.mermaid import as_mermaid
from gpu_wcoj.explain.svg import as_svg
from gpu_wcoj.explain.text import as_text
from gpu_wcoj.explain.tree import PlanTree

Format = Literal["text", "json", "mermaid", "svg", "datalog"]
"""Formats of the plan, and ``datalog`` for the program itself."""

FORMATS: Final[Mapping[str, Callable[[PlanTree], str]]] = {
    "text": as_text,
    "json": as_json,
    "mermaid": as_mermaid,
    "svg": as_svg,
}


def check_format(name: str) -> None:
    """Raise for an unknown format."""
    if name not in get_args(Format):
        raise UsageError.unknown_name("format", name, get_args(Format))


def render(tree: PlanTree, name: Format) -> str:
    """Return the plan in one of the formats that show it."""
    check_format(name)
    return FORMATS[name](tree)

"""Plans as JSON: the tree with its field names as keys; see `gpu_wcoj.explain.tree`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from gpu_wcoj.explain.tree import PlanTree

FORMAT = 1
"""Format version of the document; it increases when a key changes its meaning or is removed."""


def as_json(tree: PlanTree) -> str:
    """Return the plan as indented JSON."""
    return json.dumps({"format": FORMAT, **_plain(tree)}, indent=2, ensure_ascii=False)


def _plain(value: Any) -> Any:
    """Convert a value of the tree to JSON types; infinity and NaN become null."""
    if is_dataclass(value) and not isinstance(value, type):
        return {attribute.name: _plain(getattr(value, attribute.name)) for attribute in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    return value

"""Plans as JSON: the tree, its fields' names as keys; see `gpu_wcoj.explain.tree`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from gpu_wcoj.explain.tree import PlanTree

FORMAT = 1
"""Of the document: it goes up when a key's meaning changes or a key goes."""


def as_json(tree: PlanTree) -> str:
    """The plan as JSON, indented."""
    return json.dumps({"format": FORMAT, **_plain(tree)}, indent=2, ensure_ascii=False)


def _plain(value: Any) -> Any:
    """A value of the tree as JSON has it: what is infinite or not a number is null."""
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(one) for one in value]
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    return value

"""Dataclasses made again of what JSON has kept of them."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Literal, TypeVar

T = TypeVar("T")


def built(kind: type[T], value: Any) -> T:
    """What `value`, made of JSON, says of a dataclass.

    Examples
    --------
    >>> from bench.suite.record import Check
    >>> built(Check, {"is_right": True, "by": ["known"], "changes": [1, 2]})
    Check(is_right=True, by=('known',), count=None, changes=(1, 2), message=None)
    """
    hints = typing.get_type_hints(kind)
    assert is_dataclass(kind)
    if unknown := sorted(set(value) - {one.name for one in fields(kind)}):
        raise ValueError(f"{kind.__name__} has no field {', '.join(unknown)}.")
    made = kind(**{name: _built(hints[name], one) for name, one in value.items()})
    return typing.cast("T", made)


def _built(hint: Any, value: Any) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if value is None or origin is Literal:
        return value
    if origin in (types.UnionType, typing.Union):
        (hint,) = (one for one in arguments if one is not type(None))
        return _built(hint, value)
    if origin is tuple:
        return tuple(_built(arguments[0], one) for one in value)
    if origin is not None and issubclass(origin, Mapping):
        return {name: _built(arguments[1], one) for name, one in value.items()}
    return built(hint, value) if is_dataclass(hint) and isinstance(hint, type) else value

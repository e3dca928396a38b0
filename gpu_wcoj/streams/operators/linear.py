"""Functions of users: what they are given, and columns made of what they return."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from gpu_wcoj.data.column import Column
from gpu_wcoj.data.schema import DataType
from gpu_wcoj.errors import ArityError, SchemaError, TypeMismatchError, UsageError
from gpu_wcoj.query.declared import declared_type
from gpu_wcoj.streams.device_context import Place, places_of
from gpu_wcoj.zset.device import moved, to_host
from gpu_wcoj.zset.zset import ZSet


def input_arrays(zset: ZSet, chosen_columns: Sequence[str | int] | None = None) -> list[Any]:
    """Return a NumPy array per column, or per chosen column, masked at nulls.

    See `ZSet.to_numpy`.
    """
    from gpu_wcoj.arrow import to_numpy

    chosen = (
        zset.columns
        if chosen_columns is None
        else [zset.columns[position] for position in places_of(zset.names, chosen_columns)]
    )
    return [to_numpy(to_host(column)) for column in chosen]


Names = Sequence[str] | Mapping[str, str]
"""Names of columns, or a mapping from names to types, for columns that may have only nulls."""


def as_names(names: Names | None) -> tuple[tuple[str, ...] | None, list[DataType | None]]:
    """Return the names, or None, and the requested type of each column."""
    if names is None:
        return None, []
    if isinstance(names, str):
        raise UsageError.wrong_type("names", names, "a list of texts", f"Write [{names!r}].")
    if isinstance(names, Mapping):
        return tuple(names), [DataType(declared_type(str(kind))) for kind in names.values()]
    labels = tuple(names)
    if len(set(labels)) < len(labels):
        twice = next(name for name in labels if labels.count(name) > 1)
        raise SchemaError.duplicate("column", twice, remedy="Name each column once.")
    return labels, [None] * len(labels)


def columns_from(
    place: Place, made: Any, given_names: Names | None, count: int, function: object
) -> tuple[tuple[str, ...], list[Column]]:
    """Return names and columns from the result of a function for `count` rows.

    The result is a dict, one array, or several arrays.
    """
    from gpu_wcoj.arrow import as_table

    names, kinds = as_names(given_names)
    if isinstance(made, (ZSet, str, bytes)) or not isinstance(made, (Mapping, np.ndarray, Iterable)):
        raise TypeMismatchError.wrong_type(f"the result of {_described(function)}", made, "arrays in a dict or a tuple")
    if isinstance(made, np.ndarray):
        made = (made,)
    if not isinstance(made, Mapping):
        parts = list(made)
        labels = [f"c{i}" for i in range(len(parts))] if names is None else list(names)
        if len(labels) != len(parts):
            raise ArityError.mismatch(
                _described(function), "returned the wrong number of columns", len(parts), f"{len(labels)}, one per name"
            )
        made = dict(zip(labels, parts, strict=True))
    elif names is not None and list(made) != list(names):
        raise ArityError.mismatch(_described(function), "returned the wrong columns", ", ".join(made), ", ".join(names))
    for name, values in made.items():
        if not hasattr(values, "__len__") or len(values) != count:
            size = len(values) if hasattr(values, "__len__") else "no"
            raise ArityError.mismatch(
                f"column '{name}' of {_described(function)}",
                "has the wrong number of values",
                size,
                f"{count}, the number of rows",
            )
    arrays = {name: values if isinstance(values, np.ndarray) else list(values) for name, values in made.items()}
    column_names, columns = as_table(
        arrays, _described(function), types=kinds, string=place.string, binary=place.binary
    )
    return column_names, _here(place, columns)


def rows_from(
    place: Place, made: Sequence[Any], given_names: Names | None, function: object
) -> tuple[tuple[str, ...], list[Column]]:
    """Return names and columns of the rows that a function returned, at least one."""
    from gpu_wcoj.arrow import as_table

    names, kinds = as_names(given_names)
    for row in made:
        if not isinstance(row, tuple):
            raise TypeMismatchError.wrong_type(f"the result of {_described(function)}", row, "a tuple")
    width = len(made[0])
    if names is not None and len(names) != width:
        raise ArityError.mismatch(
            f"a row of {_described(function)}", "has the wrong number of values", width, f"{len(names)}, one per name"
        )
    if any(len(row) != width for row in made):
        different = next(row for row in made if len(row) != width)
        raise ArityError(
            f"{_described(function)} returned rows that differ in length: got {made[0]!r} and {different!r}."
        )
    labels = [f"c{i}" for i in range(width)] if names is None else list(names)
    values = {label: [row[position] for row in made] for position, label in enumerate(labels)}
    if not labels:
        return (), []
    column_names, columns = as_table(
        values, _described(function), types=kinds, string=place.string, binary=place.binary
    )
    return column_names, _here(place, columns)


def _here(place: Place, columns: Sequence[Column]) -> list[Column]:
    columns = [place.equated(column) for column in columns]
    return columns if place.backend.device is None else [moved(column, place.backend) for column in columns]


def _described(function: object) -> str:
    if isinstance(function, Callable):  # type: ignore[arg-type]  # mypy takes it for no class
        return f"the function '{getattr(function, '__name__', type(function).__name__)}'"
    return str(function)

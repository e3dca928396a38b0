"""Reports of transactions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from gpu_wcoj.data.column import Column, Int64Array
from gpu_wcoj.datoms.values import TYPES, Texts
from gpu_wcoj.zset.zset import ZSet

NAMES = ("e", "a", "v")
"""Column names of datoms."""

Parts = Mapping[str, tuple[Int64Array, Int64Array, Int64Array]]
"""Per attribute, entities, codes of values, and weights."""


def datoms_as_zset(parts: Parts, kind: str, texts: Texts) -> ZSet:
    """Return datoms of one value type as a Z-set of entity, attribute and value."""
    names = [texts.string.encode_one(name) for name in parts]
    filled = list(parts.values())
    if len(filled) == 1:
        ((entity, code, weight),) = filled
        attribute = np.full(len(entity), names[0], np.int64)
    elif filled:
        entity, code, weight = (np.concatenate([part[i] for part in filled]) for i in range(3))
        attribute = np.repeat(np.array(names, np.int64), [len(part[0]) for part in filled])
    else:
        entity = attribute = code = weight = np.empty(0, np.int64)
    columns = [
        Column.of_integers(entity), Column(TYPES["string"], attribute, None, texts.string), texts.column(kind, code),
    ]  # fmt: skip
    return ZSet.from_columns(NAMES, columns, weight)


@dataclass(frozen=True, eq=False)
class Report:
    """The changes that a transaction made.

    Attributes
    ----------
    transaction
        Its number, from 1.
    tempids
        The entities of the temporary ids.
    """

    transaction: int
    tempids: Mapping[int | str, int]
    _parts: Parts = field(repr=False)
    _types: Mapping[str, str] = field(repr=False)
    _texts: Texts = field(repr=False)

    def __len__(self) -> int:
        return sum(len(part[0]) for part in self._parts.values())

    @cached_property
    def changes(self) -> dict[str, ZSet]:
        """Added (weight 1) and removed (-1) datoms: a Z-set of e, a and v per value type."""
        kinds: dict[str, dict[str, tuple[Int64Array, Int64Array, Int64Array]]] = {}
        for name, part in self._parts.items():
            kinds.setdefault(self._types[name], {})[name] = part
        return {kind: datoms_as_zset(parts, kind, self._texts) for kind, parts in kinds.items()}

    def rows(self) -> list[tuple[tuple[int, str, Any], int]]:
        """Return changed datoms as ``((e, a, v), weight)``, by attribute and entity."""
        rows: list[tuple[tuple[int, str, Any], int]] = []
        for name in sorted(self._parts):
            entity, code, weight = self._parts[name]
            order = np.lexsort((weight, entity))
            values = self._texts.values(self._types[name], code[order])
            datoms = zip(entity[order].tolist(), values, weight[order].tolist(), strict=True)
            rows += [((entity_id, name, value), sign) for entity_id, value, sign in datoms]
        return rows

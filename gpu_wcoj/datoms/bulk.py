"""Datoms that come by the column: what `transaction` does for forms, for arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import numpy as np

from gpu_wcoj.backend import select_backend
from gpu_wcoj.column import Column, Int64Array, without_zero_signs
from gpu_wcoj.datoms.schema import Attribute, attribute_name
from gpu_wcoj.datoms.store import Delta, Store
from gpu_wcoj.datoms.values import TAKES, TYPES
from gpu_wcoj.errors import (
    ArityError,
    TransactionConflictError,
    TransactionError,
    TypeMismatchError,
    UnsupportedTypeError,
    listed,
)

_TYPE_OF_FAMILY = {
    "integer": "long",
    "float64": "double",
    "bool": "boolean",
    "string": "string",
    "zoned": "instant",
    "binary": "bytes",
}
_SPELLED = {"uuid": ", or a text that spells one as str() does"}
"""What columns may hold beside what TAKES says."""
_UNDONE = "\n  Nothing of the transaction has happened."


@dataclass(eq=False)
class Bulk:
    """Makes columns of datoms that are to be added into what they change."""

    store: Store
    attributes: dict[str, Attribute] = field(default_factory=dict)
    next_id: int = 0

    def delta(self, entity: Any, attribute: Any, value: Any) -> Delta:
        """What adding the datoms changes; the store is left as it is, its dictionaries aside.

        Raises
        ------
        TransactionError
            If the datoms contradict each other or the schema.
        """
        self.next_id = self.store.next_id
        entities = self._entities(entity)
        parts = {}
        texts = _texts_of_uuids(value)
        values = self._column(value if texts is None else texts, "value")
        if len(values) != len(entities):
            raise ArityError(f"there are {len(entities)} entities for {len(values)} values.{_UNDONE}")
        for name, rows in self._grouped(attribute, len(entities)):
            part = self._part(name, entities[rows], values.take(rows), texts is not None)
            if len(part[0]):
                parts[name] = part
        return Delta(parts, self.attributes, self.next_id)

    def _column(self, data: Any, what: str) -> Column:
        from gpu_wcoj.arrow import as_table

        texts = self.store.texts
        _, (column,) = as_table({what: data}, "the datoms", string=texts.string, binary=texts.binary)
        if column.valid is not None:
            at = int(np.argmin(column.valid))
            raise TransactionError(f"{what} {at} is null.\n  Leave out the datoms that have none.{_UNDONE}")
        return column.unshared()

    def _entities(self, data: Any) -> Int64Array:
        column = self._column(data, "entity")
        if column.type.family != "integer" and len(column):
            raise TypeMismatchError(
                f"the entities are of type '{column.type.name}'; they are integers from 0 on.{_UNDONE}"
            )
        self._seen(column.codes, "entity")
        return column.codes

    def _seen(self, ids: Int64Array, what: str) -> None:
        if not len(ids):
            return
        lowest, highest = int(ids.min()), int(ids.max())
        if lowest < 0 or highest >= 2**63 - 1:
            wrong = lowest if lowest < 0 else highest
            raise TransactionError(
                f"{what} {wrong} is no entity id, which is from 0 to 2^63-2.\n"
                f"  Temporary ids stand in transact() only.{_UNDONE}"
            )
        self.next_id = max(self.next_id, min(highest, 2**63 - 3) + 1)

    def _grouped(self, attribute: Any, count: int) -> list[tuple[str, Any]]:
        """Each attribute, and which datoms are of it."""
        if isinstance(attribute, str):
            return [(self._name(attribute), slice(None))] if count else []
        column = self._column(attribute, "attribute")
        if len(column) != count:
            raise ArityError(f"there are {count} entities for {len(column)} attributes.{_UNDONE}")
        if not count:
            return []
        if column.dictionary is None:
            raise TypeMismatchError(f"the attributes are of type '{column.type.name}', not texts.{_UNDONE}")
        found, places = np.unique(column.codes, return_inverse=True)
        names = [self._name(name) for name in column.dictionary.values_of(found)]
        if len(set(names)) < len(names):
            raise TransactionError(f"the attributes {listed(names)} are written with and without a colon.{_UNDONE}")
        order = np.argsort(places, kind="stable")
        ends = np.cumsum(np.bincount(places, minlength=len(names)))
        return [(name, order[begin:end]) for name, begin, end in zip(names, [0, *ends[:-1]], ends, strict=True)]

    def _name(self, given: Any) -> str:
        name = attribute_name(given)
        if name is None or name.startswith((":db/", ":db.")):
            raise TransactionError(f"{given!r:.80} is no name of an attribute.\n  Write it as ':person/name'.{_UNDONE}")
        self.store.attribute(name)
        return name

    def _part(
        self, name: str, entity: Int64Array, values: Column, are_uuids: bool
    ) -> tuple[Int64Array, Int64Array, Int64Array]:
        one = self.store.attribute(name)
        if one.type is None:
            kind = "uuid" if are_uuids else _TYPE_OF_FAMILY.get(values.type.family)
            if kind is None:
                raise UnsupportedTypeError(
                    f"attribute '{name}' cannot have values of type '{values.type.name}'.\n"
                    f"  There are {listed(sorted({TYPES[kind].name for kind in TYPES}))}.{_UNDONE}"
                )
            one = self.attributes[name] = replace(one, type=kind)
        code = self._codes(one, values, are_uuids)
        keys, _ = select_backend("cpu").kernels.consolidate([entity, code], np.ones(len(entity), np.int64))
        entity, code = keys
        pairs = self.store.pairs(name)
        if one.many:
            part = self._of_many(name, entity, code)
        else:
            self._refuse_two(one, entity, code)
            old, had = self._only(name, entity, pairs.prefers_columns(len(entity)))
            news, olds = ~had | (old != code), had & (old != code)
            part = (
                np.concatenate([entity[news], entity[olds]]),
                np.concatenate([code[news], old[olds]]),
                np.concatenate([np.ones(int(news.sum()), np.int64), np.full(int(olds.sum()), -1, np.int64)]),
            )
        if one.unique is not None:
            self._keep_unique(one, *part)
        return part

    def _codes(self, one: Attribute, values: Column, are_uuids: bool) -> Int64Array:
        assert one.type is not None
        kind = TYPES[one.type]
        if are_uuids and one.type != "uuid":
            raise TypeMismatchError(
                f"attribute '{one.name}' is of type '{one.type}', and the values are UUIDs.\n"
                f"  It takes {TAKES[one.type]}; nothing is converted.{_UNDONE}"
            )
        try:
            codes = values.as_type(kind).codes
        except TypeMismatchError as error:
            raise TypeMismatchError(
                f"attribute '{one.name}' is of type '{one.type}', and the values are of type '{values.type.name}'.\n"
                f"  {error}{_UNDONE}"
            ) from None
        if one.type == "double":
            codes = without_zero_signs(codes)
        elif one.type == "ref":
            self._seen(codes, f"attribute '{one.name}': the value")
        if one.type == "keyword" or (one.type == "uuid" and not are_uuids):
            assert values.dictionary is not None
            for text in values.dictionary.values_of(np.unique(codes)):
                if not (_is_keyword if one.type == "keyword" else _is_uuid)(text):
                    raise TypeMismatchError(
                        f"attribute '{one.name}' is of type '{one.type}', and a value is {text!r:.80}.\n"
                        f"  It takes {TAKES[one.type]}{_SPELLED.get(one.type, '')}; nothing is converted.{_UNDONE}"
                    )
        return codes

    def _of_many(self, name: str, entity: Int64Array, code: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
        """The pairs that are not there yet."""
        pairs = self.store.pairs(name)
        if pairs.prefers_columns(len(entity)):
            left, right = pairs.columns()
            weights = np.concatenate([np.ones(len(left), np.int64), np.full(len(entity), 2, np.int64)])
            keys = [np.concatenate([left, entity]), np.concatenate([right, code])]
            found, sums = select_backend("cpu").kernels.consolidate(keys, weights)
            fresh = sums == 2
            entity, code = found[0][fresh], found[1][fresh]
        else:
            both = zip(entity.tolist(), code.tolist(), strict=True)
            new = np.array([not pairs.has(one, other) for one, other in both], bool)
            entity, code = entity[new], code[new]
        return entity, code, np.ones(len(entity), np.int64)

    def _only(self, name: str, entity: Int64Array, by_column: bool) -> tuple[Int64Array, Any]:
        """The value that each entity has, and whether it has one."""
        pairs = self.store.pairs(name)
        if by_column:
            low, high = pairs.ranges(entity)
            _, right = pairs.columns()
            had = high > low
            old = np.zeros(len(entity), np.int64)
            old[had] = right[low[had]]
            return old, had
        found = [pairs.rights(one) for one in entity.tolist()]
        return np.array([one[0] if one else 0 for one in found], np.int64), np.array([bool(one) for one in found], bool)

    def _refuse_two(self, one: Attribute, entity: Int64Array, code: Int64Array) -> None:
        twice = np.flatnonzero(entity[1:] == entity[:-1])
        if len(twice):
            at = int(twice[0])
            first, second = self._values(one, code[at : at + 2])
            raise TransactionConflictError(
                f"attribute '{one.name}' has one value, and entity {int(entity[at])} is to have two: {first!r} and "
                f"{second!r}.\n  Leave one of them out, or let the attribute be :db.cardinality/many.{_UNDONE}"
            )

    def _keep_unique(self, one: Attribute, entity: Int64Array, code: Int64Array, weight: Int64Array) -> None:
        released = set(zip(entity[weight < 0].tolist(), code[weight < 0].tolist(), strict=True))
        entity, code = entity[weight > 0], code[weight > 0]
        order = np.argsort(code, kind="stable")
        same = np.flatnonzero(code[order][1:] == code[order][:-1])
        pairs = [(int(entity[order[at]]), int(entity[order[at + 1]]), int(code[order[at]])) for at in same[:1]]
        low, high = self.store.by_value(one.name).ranges(code)
        _, holders = self.store.by_value(one.name).columns()
        for at in np.flatnonzero(high > low).tolist():
            other, wanted = int(holders[low[at]]), int(code[at])
            if (other, wanted) not in released and other != int(entity[at]):
                pairs.append((other, int(entity[at]), wanted))
        for other, mine, wanted in pairs[:1]:
            (shown,) = self._values(one, np.array([wanted], np.int64))
            raise TransactionConflictError(
                f"the values of attribute '{one.name}' are unique, and {shown!r} is to be of entity {mine}, and is of "
                f"{other}.{_UNDONE}"
            )

    def _values(self, one: Attribute, codes: Int64Array) -> Sequence[Any]:
        assert one.type is not None
        return self.store.texts.values(one.type, codes)


def _texts_of_uuids(data: Any) -> list[str] | None:
    """UUIDs as the texts that are kept of them; None if the data begin with something else."""
    if hasattr(data, "to_pylist"):  # Arrow's, which has a type for them
        data = data.to_pylist() if "uuid" in str(data.type) else ()
    elif hasattr(data, "tolist"):
        data = data.tolist() if str(getattr(data, "dtype", "")) == "object" else ()
    if not (isinstance(data, Sequence) and data and isinstance(data[0], UUID)):
        return None
    for at, one in enumerate(data):
        if not isinstance(one, UUID):
            raise TypeMismatchError(
                f"value {at} is {one!r:.80}, of type '{type(one).__name__}', and value 0 is a UUID.\n"
                f"  Values are all of one type; leave out the datoms that have none.{_UNDONE}"
            )
    return [str(one) for one in data]


def _is_keyword(text: str) -> bool:
    return text[:1] == ":" and len(text) > 1


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False

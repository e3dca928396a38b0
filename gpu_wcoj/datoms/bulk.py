"""Bulk loading of datoms from columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import numpy as np

from gpu_wcoj.backend import select_backend
from gpu_wcoj.data.column import Column, Int64Array, without_zero_signs
from gpu_wcoj.datoms.schema import Attribute, attribute_name
from gpu_wcoj.datoms.store import Delta, Store
from gpu_wcoj.datoms.values import ACCEPTED, TYPES
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
_ALSO_ACCEPTED = {"uuid": ", or a text as str() formats it"}
"""Values that columns may hold in addition to ACCEPTED."""
_UNDONE = "\n  The transaction was not applied."


@dataclass(eq=False)
class Bulk:
    """Converter of columns of datoms to a change of the store."""

    store: Store
    attributes: dict[str, Attribute] = field(default_factory=dict)
    next_id: int = 0

    def delta(self, entity: Any, attribute: Any, value: Any) -> Delta:
        """Return the change of adding datoms; only the store's dictionaries are modified.

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
            raise ArityError(
                f"the columns have different lengths: got {len(entities)} entities and {len(values)} values.{_UNDONE}"
            )
        for name, rows in self._rows_by_attribute(attribute, len(entities)):
            part = self._part(name, entities[rows], values.gather(rows), texts is not None)
            if len(part[0]):
                parts[name] = part
        return Delta(parts, self.attributes, self.next_id)

    def _column(self, data: Any, what: str) -> Column:
        from gpu_wcoj.arrow import as_table

        texts = self.store.texts
        _, (column,) = as_table({what: data}, "the datoms", string=texts.string, binary=texts.binary)
        if column.valid is not None:
            index = int(np.argmin(column.valid))
            raise TransactionError(f"{what} {index} is null.\n  Leave out datoms without a value.{_UNDONE}")
        return column.unshared()

    def _entities(self, data: Any) -> Int64Array:
        column = self._column(data, "entity")
        if column.type.family != "integer" and len(column):
            raise TypeMismatchError(
                f"the entities have the wrong type: got '{column.type.name}', expected integers from 0 on.{_UNDONE}"
            )
        self._reserve_ids(column.codes, "entity")
        return column.codes

    def _reserve_ids(self, ids: Int64Array, what: str) -> None:
        if not len(ids):
            return
        lowest, highest = int(ids.min()), int(ids.max())
        if lowest < 0 or highest >= 2**63 - 1:
            invalid_id = lowest if lowest < 0 else highest
            raise TransactionError(
                f"{what} {invalid_id} is not an entity id: expected 0 to 2^63-2.\n"
                f"  Use temporary ids in transact() only.{_UNDONE}"
            )
        self.next_id = max(self.next_id, min(highest, 2**63 - 3) + 1)

    def _rows_by_attribute(self, attribute: Any, count: int) -> list[tuple[str, Any]]:
        """Return each attribute with the row numbers of its datoms."""
        if isinstance(attribute, str):
            return [(self._name(attribute), slice(None))] if count else []
        column = self._column(attribute, "attribute")
        if len(column) != count:
            raise ArityError(
                f"the columns have different lengths: got {count} entities and {len(column)} attributes.{_UNDONE}"
            )
        if not count:
            return []
        if column.dictionary is None:
            raise TypeMismatchError(
                f"the attributes have the wrong type: got '{column.type.name}', expected texts.{_UNDONE}"
            )
        codes, places = np.unique(column.codes, return_inverse=True)
        names = [self._name(name) for name in column.dictionary.values_of(codes)]
        if len(set(names)) < len(names):
            raise TransactionError(
                f"the attributes {listed(names)} are the same, with and without a colon.\n"
                f"  Write all with a colon.{_UNDONE}"
            )
        order = np.argsort(places, kind="stable")
        ends = np.cumsum(np.bincount(places, minlength=len(names)))
        return [(name, order[begin:end]) for name, begin, end in zip(names, [0, *ends[:-1]], ends, strict=True)]

    def _name(self, value: Any) -> str:
        name = attribute_name(value)
        if name is None or name.startswith((":db/", ":db.")):
            raise TransactionError(
                f"{value!r:.80} is not the name of an attribute.\n  Write it as ':person/name'.{_UNDONE}"
            )
        self.store.attribute(name)
        return name

    def _part(
        self, name: str, entity: Int64Array, values: Column, are_uuids: bool
    ) -> tuple[Int64Array, Int64Array, Int64Array]:
        attribute = self.store.attribute(name)
        if attribute.type is None:
            kind = "uuid" if are_uuids else _TYPE_OF_FAMILY.get(values.type.family)
            if kind is None:
                raise UnsupportedTypeError(
                    f"attribute '{name}' cannot have values of type '{values.type.name}'.\n"
                    f"  Use one of {listed(sorted({TYPES[kind].name for kind in TYPES}))}.{_UNDONE}"
                )
            attribute = self.attributes[name] = replace(attribute, type=kind)
        code = self._codes(attribute, values, are_uuids)
        keys, _ = select_backend("cpu").kernels.consolidate([entity, code], np.ones(len(entity), np.int64))
        entity, code = keys
        pairs = self.store.pairs(name)
        if attribute.many:
            part = self._new_pairs(name, entity, code)
        else:
            self._check_single(attribute, entity, code)
            old, had = self._current_values(name, entity, pairs.prefers_columns(len(entity)))
            news, olds = ~had | (old != code), had & (old != code)
            part = (
                np.concatenate([entity[news], entity[olds]]),
                np.concatenate([code[news], old[olds]]),
                np.concatenate([np.ones(int(news.sum()), np.int64), np.full(int(olds.sum()), -1, np.int64)]),
            )
        if attribute.unique is not None:
            self._check_unique(attribute, *part)
        return part

    def _codes(self, attribute: Attribute, values: Column, are_uuids: bool) -> Int64Array:
        assert attribute.type is not None
        kind = TYPES[attribute.type]
        if are_uuids and attribute.type != "uuid":
            raise TypeMismatchError(
                f"attribute '{attribute.name}' is of type '{attribute.type}': got UUIDs.\n"
                f"  It takes {ACCEPTED[attribute.type]}; nothing is converted.{_UNDONE}"
            )
        try:
            codes = values.as_type(kind).codes
        except TypeMismatchError as error:
            raise TypeMismatchError(
                f"attribute '{attribute.name}' is of type '{attribute.type}':"
                f" got values of type '{values.type.name}'.\n"
                f"  {error}{_UNDONE}"
            ) from None
        if attribute.type == "double":
            codes = without_zero_signs(codes)
        elif attribute.type == "ref":
            self._reserve_ids(codes, f"attribute '{attribute.name}': the value")
        if attribute.type == "keyword" or (attribute.type == "uuid" and not are_uuids):
            assert values.dictionary is not None
            for text in values.dictionary.values_of(np.unique(codes)):
                if not (_is_keyword if attribute.type == "keyword" else _is_uuid)(text):
                    raise TypeMismatchError(
                        f"attribute '{attribute.name}' is of type '{attribute.type}': got the value {text!r:.80}.\n"
                        f"  It takes {ACCEPTED[attribute.type]}{_ALSO_ACCEPTED.get(attribute.type, '')};"
                        f" nothing is converted.{_UNDONE}"
                    )
        return codes

    def _new_pairs(self, name: str, entity: Int64Array, code: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Return the pairs that are not yet stored."""
        pairs = self.store.pairs(name)
        if pairs.prefers_columns(len(entity)):
            left, right = pairs.columns()
            weights = np.concatenate([np.ones(len(left), np.int64), np.full(len(entity), 2, np.int64)])
            keys = [np.concatenate([left, entity]), np.concatenate([right, code])]
            merged, sums = select_backend("cpu").kernels.consolidate(keys, weights)
            is_new = sums == 2
            entity, code = merged[0][is_new], merged[1][is_new]
        else:
            both = zip(entity.tolist(), code.tolist(), strict=True)
            new = np.array([not pairs.has(entity_id, value_code) for entity_id, value_code in both], bool)
            entity, code = entity[new], code[new]
        return entity, code, np.ones(len(entity), np.int64)

    def _current_values(self, name: str, entity: Int64Array, by_column: bool) -> tuple[Int64Array, Any]:
        """Return the stored value of each entity, and a mask of entities that have one."""
        pairs = self.store.pairs(name)
        if by_column:
            low, high = pairs.ranges(entity)
            _, right = pairs.columns()
            had = high > low
            old = np.zeros(len(entity), np.int64)
            old[had] = right[low[had]]
            return old, had
        current_codes = [pairs.rights(entity_id) for entity_id in entity.tolist()]
        return np.array([codes[0] if codes else 0 for codes in current_codes], np.int64), np.array(
            [bool(codes) for codes in current_codes], bool
        )

    def _check_single(self, attribute: Attribute, entity: Int64Array, code: Int64Array) -> None:
        twice = np.flatnonzero(entity[1:] == entity[:-1])
        if len(twice):
            row = int(twice[0])
            first, second = self._values(attribute, code[row : row + 2])
            raise TransactionConflictError(
                f"attribute '{attribute.name}' has a single value, but entity {int(entity[row])} would have two: "
                f"{first!r} and {second!r}.\n"
                f"  Leave one of them out, or declare the attribute :db.cardinality/many.{_UNDONE}"
            )

    def _check_unique(self, attribute: Attribute, entity: Int64Array, code: Int64Array, weight: Int64Array) -> None:
        released = set(zip(entity[weight < 0].tolist(), code[weight < 0].tolist(), strict=True))
        entity, code = entity[weight > 0], code[weight > 0]
        order = np.argsort(code, kind="stable")
        same = np.flatnonzero(code[order][1:] == code[order][:-1])
        pairs = [(int(entity[order[row]]), int(entity[order[row + 1]]), int(code[order[row]])) for row in same[:1]]
        low, high = self.store.by_value(attribute.name).ranges(code)
        _, holders = self.store.by_value(attribute.name).columns()
        for row in np.flatnonzero(high > low).tolist():
            holder, value_code = int(holders[low[row]]), int(code[row])
            if (holder, value_code) not in released and holder != int(entity[row]):
                pairs.append((holder, int(entity[row]), value_code))
        for holder, new_holder, value_code in pairs[:1]:
            (value,) = self._values(attribute, np.array([value_code], np.int64))
            raise TransactionConflictError(
                f"the values of attribute '{attribute.name}' are unique, but {value!r} of entity {new_holder} "
                f"is already the value of entity {holder}.{_UNDONE}"
            )

    def _values(self, attribute: Attribute, codes: Int64Array) -> Sequence[Any]:
        assert attribute.type is not None
        return self.store.texts.values(attribute.type, codes)


def _texts_of_uuids(data: Any) -> list[str] | None:
    """Return UUIDs as their stored texts, or None if the first value is not a UUID."""
    if hasattr(data, "to_pylist"):  # Arrow has a type for UUIDs
        data = data.to_pylist() if "uuid" in str(data.type) else ()
    elif hasattr(data, "tolist"):
        data = data.tolist() if str(getattr(data, "dtype", "")) == "object" else ()
    if not (isinstance(data, Sequence) and data and isinstance(data[0], UUID)):
        return None
    for index, value in enumerate(data):
        if not isinstance(value, UUID):
            raise TypeMismatchError(
                f"the values have different types: value 0 is a UUID, got {value!r:.80} of type "
                f"'{type(value).__name__}' as value {index}.\n  Pass values of the same type.{_UNDONE}"
            )
    return [str(value) for value in data]


def _is_keyword(text: str) -> bool:
    return text[:1] == ":" and len(text) > 1


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False

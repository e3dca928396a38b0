"""Storage of datoms: per attribute, pairs of an entity and the code of a value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any
from uuid import UUID

import numpy as np

from gpu_wcoj.backend import select_backend
from gpu_wcoj.data.column import Column, Int64Array, without_zero_signs
from gpu_wcoj.datoms.schema import ACCEPTED, TYPES, Attribute, Texts, attribute_name
from gpu_wcoj.errors import (
    ArityError,
    TransactionConflictError,
    TransactionError,
    TypeMismatchError,
    UnknownAttributeError,
    UnsupportedTypeError,
    counted,
    listed,
)
from gpu_wcoj.zset.zset import ZSet

# Mutable sets of int64 pairs: sorted columns, and a buffer of recent changes.
#
# A pair takes 16 bytes in the columns. Changes are buffered in dicts. They are merged into new columns when they exceed
# 4,096 and an eighth of the pairs, so that a change takes amortised constant time.


_MIN_CHANGES = 4096
"""Number of buffered changes below which they are never merged."""
_MERGE_RATIO = 8
"""Ratio of stored pairs to buffered changes below which changes are merged."""
_EMPTY = np.empty(0, np.int64)


class Pairs:
    """A set of pairs ``(left, right)``.

    Examples
    --------
    >>> pairs = Pairs()
    >>> pairs.put(1, 5, True); pairs.put(1, 3, True); pairs.put(2, 3, True); pairs.put(1, 5, False)
    >>> pairs.rights(1), pairs.has(1, 5), len(pairs)
    ([3], False, 2)
    """

    __slots__ = ("_added", "_changes", "_left", "_length", "_removed", "_right")

    def __init__(self) -> None:
        self._left: Int64Array = _EMPTY
        self._right: Int64Array = _EMPTY
        self._added: dict[int, set[int]] = {}
        self._removed: dict[int, set[int]] = {}
        self._changes = 0
        self._length = 0

    def __len__(self) -> int:
        return self._length

    @property
    def nbytes(self) -> int:
        """Size of the columns in bytes, without buffered changes."""
        return self._left.nbytes + self._right.nbytes

    def _range(self, left: int) -> tuple[int, int]:
        return int(self._left.searchsorted(left)), int(self._left.searchsorted(left, "right"))

    def _stored(self, left: int, right: int) -> bool:
        low, high = self._range(left)
        position = low + int(self._right[low:high].searchsorted(right))
        return position < high and int(self._right[position]) == right

    def has(self, left: int, right: int) -> bool:
        """Return whether the pair is present. O(log n)."""
        if right in self._added.get(left, ()):
            return True
        return right not in self._removed.get(left, ()) and self._stored(left, right)

    def rights(self, left: int) -> list[int]:
        """Return the right values of `left`, unordered. O(log n + result size)."""
        low, high = self._range(left)
        rights: list[int] = self._right[low:high].tolist()
        if removed := self._removed.get(left):
            rights = [right for right in rights if right not in removed]
        return [*rights, *self._added.get(left, ())]

    def put(self, left: int, right: int, present: bool) -> None:
        """Add the pair if `present`, else remove it; idempotent."""
        before = self.has(left, right)
        if before == present:
            return
        undone, recorded = (self._removed, self._added) if present else (self._added, self._removed)
        if right in undone.get(left, ()):
            undone[left].discard(right)
            if not undone[left]:
                del undone[left]
            self._changes -= 1
        else:
            recorded.setdefault(left, set()).add(right)
            self._changes += 1
        self._length += 1 if present else -1
        if self._changes > max(_MIN_CHANGES, len(self._left) // _MERGE_RATIO):
            self.columns()

    def prefers_columns(self, count: int) -> bool:
        """Return whether `count` changes should be merged instead of put one at a time."""
        return count > 64 and count > len(self._left) // _MERGE_RATIO

    def columns(self) -> tuple[Int64Array, Int64Array]:
        """Merge buffered changes; return all pairs, sorted. Do not modify the arrays."""
        if self._changes:
            lefts: list[int] = []
            rights: list[int] = []
            signs: list[int] = []
            for changed, sign in ((self._added, 1), (self._removed, -1)):
                for left, values in changed.items():
                    lefts += [left] * len(values)
                    rights += values
                    signs += [sign] * len(values)
            merged = self.merge(np.array(lefts, np.int64), np.array(rights, np.int64), np.array(signs, np.int64))
            self._left, self._right = merged
            self._added, self._removed, self._changes = {}, {}, 0
        return self._left, self._right

    def merge(self, left: Int64Array, right: Int64Array, signs: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return the columns with new pairs (sign 1) and without removed pairs (sign -1)."""
        keys = [np.concatenate([self._left, left]), np.concatenate([self._right, right])]
        weights = np.concatenate([np.ones(len(self._left), np.int64), signs])
        merged, _ = select_backend("cpu").kernels.consolidate(keys, weights)
        return merged[0], merged[1]

    def replace(self, columns: tuple[Int64Array, Int64Array]) -> None:
        """Replace all pairs by these sorted columns."""
        self._left, self._right = columns
        self._added, self._removed, self._changes = {}, {}, 0
        self._length = len(self._left)

    def ranges(self, lefts: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Merge buffered changes; return start and end of each left value in the columns."""
        column, _ = self.columns()
        return (
            column.searchsorted(lefts).astype(np.int64, copy=False),
            column.searchsorted(lefts, "right").astype(np.int64, copy=False),
        )


@dataclass(frozen=True, eq=False)
class Delta:
    """The change of a transaction: added missing datoms and removed present datoms.

    Attributes
    ----------
    parts
        Per attribute, entities, codes of values and weights 1 or -1; pairs are distinct.
    attributes
        Attributes that are new or whose type became known.
    next_id
        The first unused entity id.
    """

    parts: Mapping[str, tuple[Int64Array, Int64Array, Int64Array]]
    attributes: Mapping[str, Attribute]
    next_id: int

    def __len__(self) -> int:
        return sum(len(part[0]) for part in self.parts.values())


@dataclass(eq=False)
class Store:
    """The datoms per attribute, by entity; also by value where that was needed.

    Attributes
    ----------
    attributes
        The schema of each attribute.
    strict
        True if attributes must be in the schema.
    next_id
        The first unused entity id.
    """

    attributes: dict[str, Attribute]
    strict: bool
    texts: Texts = field(default_factory=Texts.empty)
    next_id: int = 1
    _forward: dict[str, Pairs] = field(default_factory=dict)
    _reverse: dict[str, Pairs] = field(default_factory=dict)

    def __len__(self) -> int:
        return sum(map(len, self._forward.values()))

    @property
    def nbytes(self) -> int:
        """Size of the columns of pairs in bytes."""
        return sum(pairs.nbytes for order in (self._forward, self._reverse) for pairs in order.values())

    def attribute(self, name: str) -> Attribute:
        """Return the schema of an attribute.

        Raises
        ------
        UnknownAttributeError
            If the schema is strict and lacks the attribute.
        """
        attribute = self.attributes.get(name)
        if attribute is None:
            if self.strict:
                raise UnknownAttributeError(name, self.attributes)
            return Attribute(name)
        return attribute

    def typed(self) -> Iterator[Attribute]:
        """Return the attributes whose type is known."""
        return (attribute for attribute in self.attributes.values() if attribute.type is not None)

    def values(self, entity: int, attribute: str) -> list[int]:
        """Return the codes of an entity's values."""
        pairs = self._forward.get(attribute)
        return [] if pairs is None else pairs.rights(entity)

    def has(self, entity: int, attribute: str, code: int) -> bool:
        """Return whether a datom is present."""
        pairs = self._forward.get(attribute)
        return pairs is not None and pairs.has(entity, code)

    def rows(self, entity: int | None, attribute: str | None) -> list[tuple[int, str, Any]]:
        """Return datoms by attribute, entity and value; None for all entities or attributes."""
        rows: list[tuple[int, str, Any]] = []
        for one in sorted(self.typed(), key=lambda one: one.name):
            if attribute not in (None, one.name) or one.type is None:
                continue
            if entity is not None:
                rows += [(entity, one.name, value) for value in self.sorted_values(entity, one)]
                continue
            entities, codes = self.pairs(one.name).columns()
            values = self.texts.values(one.type, codes)
            rows += sorted(((e, one.name, v) for e, v in zip(entities.tolist(), values, strict=True)), key=_by_value)
        return rows

    def sorted_values(self, entity: int, attribute: Attribute) -> list[Any]:
        """Return the values of an attribute of an entity in their order."""
        codes = self.values(entity, attribute.name)
        if not codes or attribute.type is None:
            return []
        values = list(self.texts.values(attribute.type, np.array(codes, np.int64)))
        return sorted(values, key=lambda value: _by_value((entity, attribute.name, value)))

    def entities(self, attribute: str, code: int) -> list[int]:
        """Return the entities that have a value; builds the order by value on first use."""
        forward = self._forward.get(attribute)
        if forward is None:
            return []
        return self._by_value(attribute, forward).rights(code)

    def pairs(self, attribute: str) -> Pairs:
        """Return the pairs of an attribute."""
        pairs = self._forward.get(attribute)
        return Pairs() if pairs is None else pairs

    def by_value(self, attribute: str) -> Pairs:
        """Return the pairs of an attribute, value first."""
        forward = self._forward.get(attribute)
        return Pairs() if forward is None else self._by_value(attribute, forward)

    def _by_value(self, attribute: str, forward: Pairs) -> Pairs:
        reverse = self._reverse.get(attribute)
        if reverse is None:
            entity, code = forward.columns()
            reverse = Pairs()
            reverse.replace(reverse.merge(code, entity, np.ones(len(code), np.int64)))
            self._reverse[attribute] = reverse
        return reverse

    def apply(self, delta: Delta) -> None:
        """Apply a transaction atomically."""
        before = self.attributes, self.next_id, dict(self._forward), dict(self._reverse)
        done: list[tuple[Pairs, Int64Array, Int64Array, Int64Array]] = []
        try:
            for name, (entity, code, weight) in delta.parts.items():
                self._forward[name] = _apply_change(self._forward.get(name), entity, code, weight, done)
                if name in self._reverse:
                    self._reverse[name] = _apply_change(self._reverse[name], code, entity, weight, done)
            if delta.attributes:
                self.attributes = {**self.attributes, **delta.attributes}
            self.next_id = delta.next_id
        except BaseException:
            self.attributes, self.next_id, self._forward, self._reverse = before
            for pairs, left, right, weight in done:
                _put(pairs, left, right, -weight)
            raise

    def set_pairs(self, attribute: str, pairs: Pairs) -> None:
        """Set the pairs of an attribute without datoms."""
        self._forward[attribute] = pairs


def _apply_change(
    pairs: Pairs | None,
    left: Int64Array,
    right: Int64Array,
    weight: Int64Array,
    done: list[tuple[Pairs, Int64Array, Int64Array, Int64Array]],
) -> Pairs:
    """Return the changed pairs: modified in place and recorded in `done`, or new ones."""
    if pairs is None:
        pairs = Pairs()
    if pairs.prefers_columns(len(left)):
        pairs.columns()
        new_pairs = Pairs()
        new_pairs.replace(pairs.merge(left, right, weight))
        return new_pairs
    done.append((pairs, left, right, weight))
    _put(pairs, left, right, weight)
    return pairs


def _put(pairs: Pairs, left: Int64Array, right: Int64Array, weight: Int64Array) -> None:
    for left_value, right_value, sign in zip(left.tolist(), right.tolist(), weight.tolist(), strict=True):
        pairs.put(left_value, right_value, sign > 0)


# Reports of transactions.


NAMES = ("e", "a", "v")
"""Column names of datoms."""

Parts = Mapping[str, tuple[Int64Array, Int64Array, Int64Array]]
"""Per attribute, entities, codes of values, and weights."""


def _by_value(row: tuple[int, str, Any]) -> tuple[int, Any]:
    entity, _, value = row
    return entity, str(value) if isinstance(value, UUID) else value


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

    Examples
    --------
    >>> from gpu_wcoj.datoms import Database
    >>> report = Database().transact([{":db/id": "ann", ":name": "Ann"}])
    >>> report.transaction, dict(report.tempids), report.rows()
    (1, {'ann': 1}, [((1, ':name', 'Ann'), 1)])
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


# Bulk loading of datoms from columns.


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
                f"the columns have different lengths: got {len(entities):,} entities"
                f" and {counted(len(values), 'value')}.{_UNDONE}"
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
                f"the entities have the wrong type: got '{column.type}', expected integers from 0 on.{_UNDONE}"
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
                f"the attributes have the wrong type: got '{column.type}', expected texts.{_UNDONE}"
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
                    f"attribute '{name}' cannot have values of type '{values.type}'.\n"
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
                f" got values of type '{values.type}'.\n"
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

"""What a transaction does to the datoms that are there.

A transaction is a set of operations: their order has no meaning, and what they retract is what stood before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpu_wcoj.datoms.forms import Forms, Single
from gpu_wcoj.datoms.resolving import Entities
from gpu_wcoj.datoms.schema import Attribute
from gpu_wcoj.datoms.store import Delta, Store
from gpu_wcoj.datoms.values import TAKES, code_of, shown, type_of
from gpu_wcoj.errors import TransactionConflictError, TransactionError, TypeMismatchError

Datom = tuple[str, int, int]
"""Attribute, entity and the code of the value."""


class TransactionTypeError(TransactionError, TypeMismatchError):
    """A value of another type than its attribute's."""


@dataclass(frozen=True)
class Resolved:
    """What a transaction does, and what its temporary ids stand for."""

    delta: Delta
    tempids: dict[int | str, int]


def resolved(store: Store, forms: Forms, singles: Sequence[Single]) -> Resolved:
    """Make operations into what they change; the store is left as it is, its dictionaries aside.

    Raises
    ------
    TransactionError
        If the operations contradict each other or the schema.
    """
    return _Change(store, forms).resolved(singles)


@dataclass(eq=False)
class _Change:
    store: Store
    forms: Forms
    attributes: dict[str, Attribute] = field(default_factory=dict)
    adds: dict[Datom, int] = field(default_factory=dict)
    retracts: dict[Datom, int] = field(default_factory=dict)

    def resolved(self, singles: Sequence[Single]) -> Resolved:
        entities = Entities(self.store, self.forms, self.code)
        entities.resolve(singles)
        for one in sorted(singles, key=lambda single: single.operation != "add"):  # which may give attributes types
            self._note(one, entities)
        for datom, place in self.retracts.items():
            if datom in self.adds:
                raise self._conflict(datom, place)
        weights = dict.fromkeys(self.retracts, -1)
        self._overwrite(weights)
        self._keep_unique(weights)
        return Resolved(Delta(_columns(weights), self.attributes, entities.next_id), entities.tempids)

    # values

    def attribute(self, name: str) -> Attribute:
        """What is known of an attribute, by this transaction too."""
        return self.attributes.get(name) or self.store.attribute(name)

    def code(self, name: str, value: Any, place: int) -> int:
        """The code of a value that is added; it fixes the type of an attribute that has none."""
        one = self.attribute(name)
        if one.type is None:
            kind = type_of(value)
            if kind is None:
                raise self._wrong(place, f"attribute '{name}' cannot have {shown(value)} for its value.", name)
            one = self.attributes[name] = replace(one, type=kind)
        assert one.type is not None
        try:
            return code_of(one.type, value, self.store.texts)
        except TypeMismatchError as error:
            why = error if error.args != (TAKES[one.type],) else f"  It takes {error}; nothing is converted."
            raise self._wrong(
                place, f"attribute '{name}' is of type '{one.type}', and the value is {shown(value)}.\n{why}", name
            ) from None

    def _wrong(self, place: int, what: str, name: str) -> TransactionError:
        del name
        return self.forms.error(place, what, TransactionTypeError)

    # operations

    def _note(self, one: Single, entities: Entities) -> None:
        entity = entities.of(one.entity, one.place)
        if one.operation == "retract entity":
            self._retract_entity(entity, one.place)
            return
        if one.operation == "retract all":
            for code in self.store.values(entity, one.attribute):
                self.retracts.setdefault((one.attribute, entity, code), one.place)
            return
        known = self.attribute(one.attribute)
        if one.operation == "retract" and known.type is None:
            return  # no datom has the attribute
        value = one.value
        if known.type == "ref" and not _is_entity(value):
            value = entities.of(value, one.place) if _stands(value) else value
        datom = one.attribute, entity, self.code(one.attribute, value, one.place)
        if one.operation == "add":
            self.adds.setdefault(datom, one.place)
        else:
            self.retracts.setdefault(datom, one.place)

    def _retract_entity(self, entity: int, place: int) -> None:
        """All datoms of an entity, all that refer to it, and what is a component of it."""
        seen, waiting = {entity}, [entity]
        while waiting:
            gone = waiting.pop()
            for known in self.store.typed():
                for code in self.store.values(gone, known.name):
                    self.retracts.setdefault((known.name, gone, code), place)
                    if known.component and code not in seen:
                        seen.add(code)
                        waiting.append(code)
                if known.type == "ref":
                    for source in self.store.entities(known.name, gone):
                        self.retracts.setdefault((known.name, source, gone), place)

    # what is left of them

    def _overwrite(self, weights: dict[Datom, int]) -> None:
        """Leave out what changes nothing, and let a new value take the place of the only one."""
        for datom in self.retracts:
            if not self.store.has(datom[1], datom[0], datom[2]):
                del weights[datom]
        only: dict[tuple[str, int], Datom] = {}
        for datom, place in self.adds.items():
            name, entity, code = datom
            if not self.attribute(name).many:
                other = only.setdefault((name, entity), datom)
                if other != datom:
                    raise self._two_values(other, datom, place)
                before = self.store.values(entity, name)
                if before == [code]:
                    continue
                for old in before:
                    weights[name, entity, old] = -1
            elif self.store.has(entity, name, code):
                continue
            weights[datom] = 1

    def _keep_unique(self, weights: dict[Datom, int]) -> None:
        taken: dict[tuple[str, int], int] = {}
        for datom, weight in weights.items():
            name, entity, code = datom
            if weight < 0 or self.attribute(name).unique is None:
                continue
            holders = {one for one in self.store.entities(name, code) if weights.get((name, one, code)) != -1}
            holders.add(taken.setdefault((name, code), entity))
            for other in holders - {entity}:
                raise self.forms.error(
                    self.adds[datom],
                    f"the values of attribute '{name}' are unique, and {self._shown(datom)} is to be of entity "
                    f"{entity}, and is of {other}.",
                    TransactionConflictError,
                )

    # messages

    def _shown(self, datom: Datom) -> str:
        kind = self.attribute(datom[0]).type
        assert kind is not None
        return repr(self.store.texts.values(kind, np.array([datom[2]], np.int64))[0])

    def _two_values(self, one: Datom, other: Datom, place: int) -> TransactionError:
        first = self.adds[one]
        beside = "" if first == place else f" (form {first + 1})"
        return self.forms.error(
            place,
            f"attribute '{one[0]}' has one value, and entity {one[1]} is to have two: {self._shown(one)}{beside} and "
            f"{self._shown(other)}.\n  Leave one of them out, or let the attribute be :db.cardinality/many.",
            TransactionConflictError,
        )

    def _conflict(self, datom: Datom, place: int) -> TransactionError:
        return self.forms.error(
            place,
            f"the value {self._shown(datom)} of attribute '{datom[0]}' of entity {datom[1]} is both retracted and "
            f"added (form {self.adds[datom] + 1}).\n  A transaction has no order: leave one of them out, or write two "
            "transactions.",
            TransactionConflictError,
        )


def _is_entity(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _stands(value: Any) -> bool:
    from gpu_wcoj.datoms.forms import Fresh, Lookup

    if isinstance(value, str):
        return not value.startswith(":")
    return isinstance(value, (Fresh, Lookup)) or (isinstance(value, int) and not isinstance(value, bool))


def _columns(weights: dict[Datom, int]) -> dict[str, tuple[Any, Any, Any]]:
    """Per attribute, the columns of what changes."""
    parts: dict[str, list[tuple[int, int, int]]] = {}
    for (name, entity, code), weight in weights.items():
        parts.setdefault(name, []).append((entity, code, weight))
    return {name: _stacked(rows) for name, rows in parts.items()}


def _stacked(rows: Iterable[tuple[int, int, int]]) -> tuple[Any, Any, Any]:
    entity, code, weight = zip(*rows, strict=True)
    return np.array(entity, np.int64), np.array(code, np.int64), np.array(weight, np.int64)

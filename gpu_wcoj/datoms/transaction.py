"""Evaluation of transactions against the present datoms.

A transaction is a set of operations without order; retractions refer to the datoms before the transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpu_wcoj.datoms.forms import DatomOperation, FormReader
from gpu_wcoj.datoms.resolving import Entities
from gpu_wcoj.datoms.schema import Attribute
from gpu_wcoj.datoms.store import Delta, Store
from gpu_wcoj.datoms.values import ACCEPTED, code_of, describe, type_of
from gpu_wcoj.errors import TransactionConflictError, TransactionError, TypeMismatchError

Datom = tuple[str, int, int]
"""Attribute, entity and the code of the value."""


class TransactionTypeError(TransactionError, TypeMismatchError):
    """A value has another type than its attribute."""


@dataclass(frozen=True)
class ResolvedTransaction:
    """The change of a transaction, and the entities of its temporary ids."""

    delta: Delta
    tempids: dict[int | str, int]


def resolve_transaction(store: Store, forms: FormReader, singles: Sequence[DatomOperation]) -> ResolvedTransaction:
    """Return the change of operations; only the store's dictionaries are modified.

    Raises
    ------
    TransactionError
        If the operations contradict each other or the schema.
    """
    return _Change(store, forms).resolve(singles)


@dataclass(eq=False)
class _Change:
    store: Store
    forms: FormReader
    attributes: dict[str, Attribute] = field(default_factory=dict)
    adds: dict[Datom, int] = field(default_factory=dict)
    retracts: dict[Datom, int] = field(default_factory=dict)

    def resolve(self, singles: Sequence[DatomOperation]) -> ResolvedTransaction:
        entities = Entities(self.store, self.forms, self.code)
        entities.resolve(singles)
        for operation in sorted(singles, key=lambda single: single.kind != "add"):  # additions may determine types
            self._add_operation(operation, entities)
        for datom, place in self.retracts.items():
            if datom in self.adds:
                raise self._conflict(datom, place)
        weights = dict.fromkeys(self.retracts, -1)
        self._overwrite(weights)
        self._check_unique(weights)
        return ResolvedTransaction(Delta(_columns(weights), self.attributes, entities.next_id), entities.tempids)

    # values

    def attribute(self, name: str) -> Attribute:
        """Return the schema of an attribute, including types of this transaction."""
        return self.attributes.get(name) or self.store.attribute(name)

    def code(self, name: str, value: Any, place: int) -> int:
        """Return the code of a value; the value determines the type of an untyped attribute."""
        attribute = self.attribute(name)
        if attribute.type is None:
            kind = type_of(value)
            if kind is None:
                raise self._type_error(place, f"attribute '{name}' cannot have the value {describe(value)}.", name)
            attribute = self.attributes[name] = replace(attribute, type=kind)
        assert attribute.type is not None
        try:
            return code_of(attribute.type, value, self.store.texts)
        except TypeMismatchError as error:
            why = error if error.args != (ACCEPTED[attribute.type],) else f"  It takes {error}; nothing is converted."
            raise self._type_error(
                place, f"attribute '{name}' is of type '{attribute.type}': got {describe(value)}.\n{why}", name
            ) from None

    def _type_error(self, place: int, what: str, name: str) -> TransactionError:
        del name
        return self.forms.error(place, what, TransactionTypeError)

    # operations

    def _add_operation(self, operation: DatomOperation, entities: Entities) -> None:
        entity = entities.entity_of(operation.entity, operation.place)
        if operation.kind == "retract entity":
            self._retract_entity(entity, operation.place)
            return
        if operation.kind == "retract all":
            for code in self.store.values(entity, operation.attribute):
                self.retracts.setdefault((operation.attribute, entity, code), operation.place)
            return
        attribute = self.attribute(operation.attribute)
        if operation.kind == "retract" and attribute.type is None:
            return  # no datom has the attribute
        value = operation.value
        if attribute.type == "ref" and not _is_entity(value):
            value = entities.entity_of(value, operation.place) if _is_reference(value) else value
        datom = operation.attribute, entity, self.code(operation.attribute, value, operation.place)
        if operation.kind == "add":
            self.adds.setdefault(datom, operation.place)
        else:
            self.retracts.setdefault(datom, operation.place)

    def _retract_entity(self, entity: int, place: int) -> None:
        """Retract the datoms of an entity, references to it, and its components."""
        seen, waiting = {entity}, [entity]
        while waiting:
            removed_entity = waiting.pop()
            for attribute in self.store.typed():
                for code in self.store.values(removed_entity, attribute.name):
                    self.retracts.setdefault((attribute.name, removed_entity, code), place)
                    if attribute.component and code not in seen:
                        seen.add(code)
                        waiting.append(code)
                if attribute.type == "ref":
                    for source in self.store.entities(attribute.name, removed_entity):
                        self.retracts.setdefault((attribute.name, source, removed_entity), place)

    # net changes

    def _overwrite(self, weights: dict[Datom, int]) -> None:
        """Drop operations without effect, and replace the value of single-valued attributes."""
        for datom in self.retracts:
            if not self.store.has(datom[1], datom[0], datom[2]):
                del weights[datom]
        only: dict[tuple[str, int], Datom] = {}
        for datom, place in self.adds.items():
            name, entity, code = datom
            if not self.attribute(name).many:
                earlier = only.setdefault((name, entity), datom)
                if earlier != datom:
                    raise self._two_values(earlier, datom, place)
                before = self.store.values(entity, name)
                if before == [code]:
                    continue
                for old in before:
                    weights[name, entity, old] = -1
            elif self.store.has(entity, name, code):
                continue
            weights[datom] = 1

    def _check_unique(self, weights: dict[Datom, int]) -> None:
        new_holders: dict[tuple[str, int], int] = {}
        for datom, weight in weights.items():
            name, entity, code = datom
            if weight < 0 or self.attribute(name).unique is None:
                continue
            holders = {holder for holder in self.store.entities(name, code) if weights.get((name, holder, code)) != -1}
            holders.add(new_holders.setdefault((name, code), entity))
            for holder in holders - {entity}:
                raise self.forms.error(
                    self.adds[datom],
                    f"the values of attribute '{name}' are unique, but {self._describe_value(datom)} of entity "
                    f"{entity} "
                    f"is already the value of entity {holder}.",
                    TransactionConflictError,
                )

    # messages

    def _describe_value(self, datom: Datom) -> str:
        kind = self.attribute(datom[0]).type
        assert kind is not None
        return repr(self.store.texts.values(kind, np.array([datom[2]], np.int64))[0])

    def _two_values(self, datom: Datom, second: Datom, place: int) -> TransactionError:
        first = self.adds[datom]
        beside = "" if first == place else f" (form {first + 1})"
        return self.forms.error(
            place,
            f"attribute '{datom[0]}' has a single value, but entity {datom[1]} would have two: "
            f"{self._describe_value(datom)}{beside} and {self._describe_value(second)}.\n"
            "  Leave one of them out, or declare the attribute :db.cardinality/many.",
            TransactionConflictError,
        )

    def _conflict(self, datom: Datom, place: int) -> TransactionError:
        return self.forms.error(
            place,
            f"the value {self._describe_value(datom)} of attribute '{datom[0]}' of entity {datom[1]} is both retracted "
            f"and added (form {self.adds[datom] + 1}).\n  A transaction has no order: leave one of them out, or write "
            "two transactions.",
            TransactionConflictError,
        )


def _is_entity(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_reference(value: Any) -> bool:
    from gpu_wcoj.datoms.forms import Fresh, Lookup

    if isinstance(value, str):
        return not value.startswith(":")
    return isinstance(value, (Fresh, Lookup)) or (isinstance(value, int) and not isinstance(value, bool))


def _columns(weights: dict[Datom, int]) -> dict[str, tuple[Any, Any, Any]]:
    """Return the changed columns per attribute."""
    parts: dict[str, list[tuple[int, int, int]]] = {}
    for (name, entity, code), weight in weights.items():
        parts.setdefault(name, []).append((entity, code, weight))
    return {name: _to_arrays(rows) for name, rows in parts.items()}


def _to_arrays(rows: Iterable[tuple[int, int, int]]) -> tuple[Any, Any, Any]:
    entity, code, weight = zip(*rows, strict=True)
    return np.array(entity, np.int64), np.array(code, np.int64), np.array(weight, np.int64)

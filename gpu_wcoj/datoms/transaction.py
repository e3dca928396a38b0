"""Evaluation of transactions against the present datoms.

A transaction is a set of operations without order; retractions refer to the datoms before the transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeGuard

import numpy as np

from gpu_wcoj.data.rows import as_python
from gpu_wcoj.datoms.schema import ACCEPTED, Attribute, Keyword, Text, attribute_name, code_of, describe, type_of
from gpu_wcoj.datoms.store import Delta, Store
from gpu_wcoj.errors import TransactionConflictError, TransactionError, TypeMismatchError, nearest
from gpu_wcoj.query.edn.ast import forward_attribute

# Parser of the forms of a transaction: lists and maps.


OperationKind = Literal["add", "retract", "retract all", "retract entity"]

MAX_NESTING = 64
"""Maximum levels of nested maps."""


@dataclass(frozen=True)
class Fresh:
    """The entity of a map without ``:db/id``: an unnamed temporary id.

    Attributes
    ----------
    number
        Unique index within the transaction.
    """

    index: int


@dataclass(frozen=True, eq=False)
class Lookup:
    """A lookup reference ``[attribute, value]``, by the value of a unique attribute.

    The value is not validated and may be unhashable, so lookup references have no equality or hash.
    """

    attribute: str
    value: Any


Entity = int | str | Fresh | Lookup
"""An entity id, or a reference to one; negative numbers and texts are temporary ids."""


@dataclass(frozen=True, slots=True)
class DatomOperation:
    """A single operation; `place` is the index of its form."""

    kind: OperationKind
    entity: Entity
    attribute: str
    value: Any
    place: int


OPERATIONS: dict[str, tuple[OperationKind, tuple[int, ...]]] = {
    ":db/add": ("add", (3,)),
    ":db/retract": ("retract", (2, 3)),
    ":db/retractEntity": ("retract entity", (1,)),
    ":db.fn/retractEntity": ("retract entity", (1,)),
}
_SHAPES = {
    "add": "[':db/add', entity, attribute, value]",
    "retract": "[':db/retract', entity, attribute, value] or [':db/retract', entity, attribute]",
    "retract entity": "[':db/retractEntity', entity]",
}


@dataclass(eq=False)
class FormReader:
    """Parser of forms; errors name the place of the form.

    Attributes
    ----------
    store
        The store, with the attributes.
    point_at
        Adds the place of a form in its text to a message; without it, messages have the number of the form.
    """

    store: Store
    point_at: Callable[[int, str], str] | None = None
    _fresh: int = 0
    _operations: list[DatomOperation] = field(default_factory=list)

    def error(self, place: int, what: str, kind: type[TransactionError] = TransactionError) -> TransactionError:
        """Return an error with the place of the form."""
        first, *details = what.split("\n")
        located = f"{first} (form {place + 1})" if self.point_at is None else self.point_at(place, first)
        return kind("\n".join([located, *details, "  The transaction was not applied."]))

    def read(self, forms: Any) -> list[DatomOperation]:
        """Parse all forms to operations."""
        if not isinstance(forms, Iterable) or isinstance(forms, (str, bytes, Mapping)):
            raise TransactionError(
                f"the transaction has the wrong type: got {type(forms).__name__}, "
                "expected a list of forms or EDN text.\n"
                "  Write [[':db/add', 1, ':person/name', 'Ann'], {':db/id': 2, ':person/name': 'Bob'}]."
            )
        for place, form in enumerate(forms):
            if isinstance(form, Mapping):
                self._map(form, place, 0)
            elif isinstance(form, (list, tuple)):
                self._list(form, place)
            else:
                raise self.error(
                    place, f"{form!r:.80} of type '{type(form).__name__}' is not a form: expected a list or a map."
                )
        return self._operations

    def _list(self, form: list[Any] | tuple[Any, ...], place: int) -> None:
        named = attribute_name(form[0]) if form else None
        if named not in OPERATIONS:
            what = f"'{named}'" if named else f"{form[0]!r:.60}" if form else "an empty form"
            allowed = ", ".join(f"'{name}'" for name in OPERATIONS)
            hint = f"{nearest(str(named), OPERATIONS)}\n  Use {allowed} or a map."
            if named in (":db/cas", ":db.fn/cas"):
                hint = "\n  Query the present value, and add the new one if it is the expected one."
            raise self.error(place, f"{what} is not an operation.{hint}")
        operation, lengths = OPERATIONS[named]
        if len(form) - 1 not in lengths:
            raise self.error(
                place,
                f"'{named}' has the wrong number of arguments: got {len(form) - 1} in {form!r:.120}.\n"
                f"  Write {_SHAPES[operation]}.",
            )
        entity = self._entity(form[1], place)
        if operation == "retract entity":
            self._operations.append(DatomOperation(operation, entity, "", None, place))
            return
        attribute = self._attribute(form[2], place)
        if len(form) == 3:
            self._operations.append(DatomOperation("retract all", entity, attribute, None, place))
            return
        value = self._value(attribute, form[3], place, 0)
        self._operations.append(DatomOperation(operation, entity, attribute, value, place))

    def _map(self, form: Mapping[Any, Any], place: int, depth: int) -> Entity:
        """Parse a map; return its entity."""
        if depth > MAX_NESTING:
            raise self.error(place, f"maps nest more than {MAX_NESTING} deep.")
        named: dict[str, Any] = {}
        for key, value in form.items():
            name = attribute_name(key)
            if name is None:
                raise self.error(place, f"{key!r:.60} is not the name of an attribute.\n  Write it as ':person/name'.")
            if name in named:
                raise self.error(place, f"attribute '{name}' is given twice in the map, with and without its colon.")
            named[name] = value
        if ":db/id" in named:
            entity = self._entity(named.pop(":db/id"), place)
        else:
            entity = self._new_entity()
        if not named:
            raise self.error(place, f"the map {dict(form)!r:.80} has no attributes: expected at least one.")
        for name, value in named.items():
            forward = None if name in self.store.attributes else forward_attribute(name)
            if forward is not None:
                self._reversed(entity, forward, value, place, depth)
                continue
            attribute = self._attribute(name, place)
            for item in self._listed_values(attribute, value, place):
                self._operations.append(
                    DatomOperation("add", entity, attribute, self._value(attribute, item, place, depth), place)
                )
        return entity

    def _reversed(self, entity: Entity, name: str, value: Any, place: int, depth: int) -> None:
        """Parse ``{":db/id": e, ":person/_friend": [x, y]}``: x and y refer to e."""
        attribute = self._attribute(name, place)
        if self.store.attribute(attribute).type != "ref":
            raise self.error(place, f"attribute '{attribute}' is not of type 'ref', so it cannot be reversed.")
        several = [value] if _is_lookup(value) or not isinstance(value, (list, tuple, set, frozenset)) else value
        for item in several:
            source = self._map(item, place, depth + 1) if isinstance(item, Mapping) else self._entity(item, place)
            self._operations.append(DatomOperation("add", source, attribute, entity, place))

    def _listed_values(self, name: str, value: Any, place: int) -> list[Any]:
        """Return the values of an attribute in a map."""
        if not isinstance(value, (list, tuple, set, frozenset)):
            return [value]
        attribute = self.store.attribute(name)
        if attribute.type == "ref" and _is_lookup(value):
            return [value]
        if not attribute.many:
            raise self.error(
                place, f"attribute '{name}' has a single value: got {value!r:.80}.\n"
                "  Pass a single value, or declare the attribute :db.cardinality/many."
            )  # fmt: skip
        return list(value)

    def _value(self, name: str, value: Any, place: int, depth: int) -> Any:
        """Return a value, or an entity for an attribute of type ref."""
        if self.store.attribute(name).type != "ref":
            return value
        if isinstance(value, Mapping):
            return self._map(value, place, depth + 1)
        if isinstance(value, (list, tuple)) or (isinstance(value, str) and not value.startswith(":")):
            return self._entity(value, place)
        return as_python(value)

    def _entity(self, value: Any, place: int) -> Entity:
        value = as_python(value)
        if type(value) is int:
            if -(2**63) <= value < 2**63 - 1:
                return value
            raise self.error(place, f"the entity id {value} is outside -2^63 to 2^63-2.")
        if type(value) in (str, Text) and value and not value.startswith(":"):
            return str(value)
        if _is_lookup(value):
            name = self._attribute(value[0], place)
            return Lookup(name, value[1])
        raise self.error(
            place, f"{value!r:.80} of type '{type(value).__name__}' is not an entity.\n"
            "  An entity is its id (0 or more), a temporary id (a negative number or a text without a colon in front)\n"
            "  or a lookup reference [attribute, value]."
        )  # fmt: skip

    def _attribute(self, key: Any, place: int) -> str:
        name = attribute_name(key)
        if name is None or name.startswith((":db/", ":db.")):
            raise self.error(place, f"{key!r:.80} is not the name of an attribute.\n  Write it as ':person/name'.")
        self.store.attribute(name)
        return name

    def _new_entity(self) -> Fresh:
        self._fresh += 1
        return Fresh(self._fresh)


def _is_lookup(value: Any) -> TypeGuard[Sequence[Any]]:
    return (
        isinstance(value, (list, tuple))
        and len(value) == 2
        and isinstance(value[0], (str, Keyword))
        and str(value[0]).startswith(":")
    )


# Resolution of temporary ids and lookup references to entities.


TempId = int | str | Fresh
_ID_LIMIT = 2**63 - 1
"""Exclusive upper bound of entity ids."""

CodeOf = Callable[[str, Any, int], int]
"""Returns the code of a value of an attribute; the place is for messages."""


class Entities:
    """The entities of the temporary ids of a transaction.

    A temporary id with a value of a ``:db.unique/identity`` attribute denotes the entity that has this value; temporary
    ids with the same such value denote the same entity. All others are new entities, numbered in order of first
    occurrence.

    Attributes
    ----------
    next_id
        The first unused entity id, including this transaction.
    """

    def __init__(self, store: Store, forms: FormReader, code_of: CodeOf) -> None:
        self.store = store
        self.reader = forms
        self.code_of = code_of
        self.next_id = store.next_id
        self._entities: dict[TempId, int] = {}

    @property
    def tempids(self) -> dict[int | str, int]:
        """The named temporary ids of the transaction, and their entities."""
        return {tempid: entity for tempid, entity in self._entities.items() if not isinstance(tempid, Fresh)}

    def resolve(self, singles: Sequence[DatomOperation]) -> None:
        """Assign an entity to every temporary id."""
        mentioned: dict[TempId, int] = {}
        for operation in singles:
            for stands in self._references(operation):
                if _is_temporary(stands):
                    mentioned.setdefault(stands, operation.place)
                elif operation.kind == "add" and _is_plain(stands):
                    self._reserve_id(stands)
        if not mentioned:
            return
        alias = self._find_aliases(singles)
        for stands, place in mentioned.items():
            root = _root(alias, stands)
            if root not in self._entities:
                if self.next_id >= _ID_LIMIT:
                    raise self.reader.error(place, f"the entity ids are used up: the largest is {_ID_LIMIT - 1}.")
                self._entities[root] = self.next_id
                self.next_id += 1
            self._entities[stands] = self._entities[root]
        self._check_added(singles, mentioned)

    def _references(self, operation: DatomOperation) -> Iterable[Any]:
        yield operation.entity
        if operation.kind in ("add", "retract") and self.store.attribute(operation.attribute).type == "ref":
            yield operation.value

    def _reserve_id(self, entity: int) -> None:
        self.next_id = max(self.next_id, min(entity, _ID_LIMIT - 1) + 1)

    def _find_aliases(self, singles: Sequence[DatomOperation]) -> dict[TempId, TempId]:
        """Return temporary ids that equal another one; assign those with existing entities."""
        alias: dict[TempId, TempId] = {}
        first: dict[tuple[str, int], TempId] = {}
        for operation in singles:
            if operation.kind != "add" or not _is_temporary(operation.entity):
                continue
            attribute = self.store.attribute(operation.attribute)
            value = operation.value
            if attribute.unique == "identity" and attribute.type == "ref" and isinstance(value, Lookup):
                value = self._look_up(value, operation.place)
            is_stored = attribute.type != "ref" or (_is_plain(value) and value >= 0)
            if attribute.unique != "identity" or not is_stored:
                continue
            code = self.code_of(operation.attribute, value, operation.place)
            stands: TempId = operation.entity  # type: ignore[assignment]  # it is temporary
            earlier = first.setdefault((operation.attribute, code), stands)
            if _root(alias, earlier) != _root(alias, stands):
                self._unite(alias, _root(alias, earlier), _root(alias, stands), operation)
            for entity in self.store.entities(operation.attribute, code):
                self._assign(_root(alias, stands), entity, operation)
        return alias

    def _unite(self, alias: dict[TempId, TempId], target: TempId, source: TempId, operation: DatomOperation) -> None:
        if source in self._entities:
            self._assign(target, self._entities[source], operation)
        alias[source] = target

    def _assign(self, stands: TempId, entity: int, operation: DatomOperation) -> None:
        before = self._entities.setdefault(stands, entity)
        if before != entity:
            raise self.reader.error(
                operation.place,
                f"the temporary id {_describe(operation.entity)} denotes two entities, {before} and {entity}, by "
                f"unique values; the second is {describe(operation.value)} of '{operation.attribute}'.",
                TransactionConflictError,
            )

    def _check_added(self, singles: Sequence[DatomOperation], mentioned: dict[TempId, int]) -> None:
        """Raise for a temporary id without an added datom."""
        made = (operation.entity for operation in singles if operation.kind == "add")
        roots = {self._entities[entity] for entity in made if _is_temporary(entity)}  # type: ignore[index]  # they are temporary
        for stands, place in mentioned.items():
            if self._entities[stands] not in roots:
                raise self.reader.error(
                    place,
                    f"the temporary id {_describe(stands)} has no entity: no datom is added to it.\n"
                    "  Add an attribute to it, or write the id of an entity, which is 0 or more.",
                )

    def entity_of(self, stands: Entity, place: int) -> int:
        """Return the entity of an id or a reference."""
        if isinstance(stands, Lookup):
            return self._look_up(stands, place)
        if isinstance(stands, int) and stands >= 0:
            return stands
        return self._entities[stands]

    def _look_up(self, lookup: Lookup, place: int) -> int:
        attribute = self.store.attribute(lookup.attribute)
        if attribute.unique is None:
            raise self.reader.error(
                place,
                f"the values of attribute '{lookup.attribute}' are not unique, so they cannot identify an entity.\n"
                "  Declare it with ':db/unique': ':db.unique/identity', or write the entity's id.",
            )
        code = self.code_of(lookup.attribute, lookup.value, place)
        entities = self.store.entities(lookup.attribute, code)
        if not entities:
            raise self.reader.error(place, f"no entity has the value {describe(lookup.value)} of '{lookup.attribute}'.")
        return entities[0]


def _is_temporary(stands: Any) -> bool:
    if isinstance(stands, str):
        return not stands.startswith(":")
    return isinstance(stands, Fresh) or (_is_plain(stands) and stands < 0)


def _is_plain(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _root(alias: dict[TempId, TempId], stands: TempId) -> TempId:
    while stands in alias:
        stands = alias[stands]
    return stands


def _describe(stands: Any) -> str:
    return "of a map without ':db/id'" if isinstance(stands, Fresh) else repr(stands)


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

"""Parser of the forms of a transaction: lists and maps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeGuard

from gpu_wcoj.data.rows import as_python
from gpu_wcoj.datoms.schema import attribute_name
from gpu_wcoj.datoms.store import Store
from gpu_wcoj.datoms.values import Keyword, Text
from gpu_wcoj.errors import TransactionError, nearest
from gpu_wcoj.query.edn.sources import forward_attribute

OperationKind = Literal["add", "retract", "retract all", "retract entity"]

MAX_NESTING = 64
"""The largest nesting depth of maps."""


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
            what = f"{form[0]!r:.60}" if form else "an empty form"
            allowed = ", ".join(f"'{name}'" for name in OPERATIONS)
            raise self.error(
                place, f"{what} is not an operation.{nearest(str(named), OPERATIONS)}\n  Use {allowed} or a map."
            )
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

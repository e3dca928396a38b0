"""The forms of a transaction, as single operations: lists ``[":db/add", e, a, v]`` and maps ``{":db/id": e, a: v}``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeGuard

from gpu_wcoj.datoms.schema import attribute_name
from gpu_wcoj.datoms.store import Store
from gpu_wcoj.datoms.values import Keyword, Text
from gpu_wcoj.errors import TransactionError, nearest
from gpu_wcoj.query.edn.sources import forward_attribute
from gpu_wcoj.rows import as_python

Operation = Literal["add", "retract", "retract all", "retract entity"]

NESTING = 64
"""So many maps can stand within each other."""


@dataclass(frozen=True)
class Fresh:
    """The entity of a map without ``:db/id``; a temporary id that no text spells.

    Attributes
    ----------
    number
        Tells them apart.
    """

    number: int


@dataclass(frozen=True, eq=False)
class Lookup:
    """``[attribute, value]``: the entity that has the value of an attribute whose values are unique.

    The value is what the user gave: nobody has seen yet that it can be compared or hashed, so references are not.
    """

    attribute: str
    value: Any


Entity = int | str | Fresh | Lookup
"""An entity id, or what stands for one; negative numbers and texts are temporary ids."""


@dataclass(frozen=True, slots=True)
class Single:
    """One operation; `place` is which form it comes from."""

    operation: Operation
    entity: Entity
    attribute: str
    value: Any
    place: int


OPERATIONS: dict[str, tuple[Operation, tuple[int, ...]]] = {
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
class Forms:
    """Reads forms; what cannot be read is refused with its place.

    Attributes
    ----------
    store
        What is known of attributes.
    at
        Where a form stands in its text, for messages; by default they are only numbered.
    """

    store: Store
    at: Callable[[int, str], str] | None = None
    _fresh: int = 0
    _singles: list[Single] = field(default_factory=list)

    def error(self, place: int, what: str, kind: type[TransactionError] = TransactionError) -> TransactionError:
        """An error that says of which form it speaks."""
        first, *rest = what.split("\n")
        shown = f"{first} (form {place + 1})" if self.at is None else self.at(place, first)
        return kind("\n".join([shown, *rest, "  Nothing of the transaction has happened."]))

    def read(self, forms: Any) -> list[Single]:
        """The operations of all forms."""
        if not isinstance(forms, Iterable) or isinstance(forms, (str, bytes, Mapping)):
            raise TransactionError(
                f"a transaction is a list of forms or a text in EDN, and this is of type '{type(forms).__name__}'.\n"
                "  Write [[':db/add', 1, ':person/name', 'Ann'], {':db/id': 2, ':person/name': 'Bob'}]."
            )
        for place, form in enumerate(forms):
            if isinstance(form, Mapping):
                self._map(form, place, 0)
            elif isinstance(form, (list, tuple)):
                self._list(form, place)
            else:
                raise self.error(place, f"{form!r:.80} of type '{type(form).__name__}' is no form: a list or a map is.")
        return self._singles

    def _list(self, form: list[Any] | tuple[Any, ...], place: int) -> None:
        named = attribute_name(form[0]) if form else None
        if named not in OPERATIONS:
            what = f"{form[0]!r:.60}" if form else "an empty form"
            known = ", ".join(f"'{name}'" for name in OPERATIONS)
            raise self.error(
                place, f"{what} is no operation.{nearest(str(named), OPERATIONS)}\n  There are {known}, and maps."
            )
        operation, lengths = OPERATIONS[named]
        if len(form) - 1 not in lengths:
            raise self.error(
                place, f"'{named}' with {len(form) - 1} arguments: {form!r:.120}.\n  Write {_SHAPES[operation]}."
            )
        entity = self._entity(form[1], place)
        if operation == "retract entity":
            self._singles.append(Single(operation, entity, "", None, place))
            return
        attribute = self._attribute(form[2], place)
        if len(form) == 3:
            self._singles.append(Single("retract all", entity, attribute, None, place))
            return
        value = self._value(attribute, form[3], place, 0)
        self._singles.append(Single(operation, entity, attribute, value, place))

    def _map(self, form: Mapping[Any, Any], place: int, depth: int) -> Entity:
        """Read a map; the entity that it is of."""
        if depth > NESTING:
            raise self.error(place, f"maps stand within each other more than {NESTING} times.")
        named: dict[str, Any] = {}
        for key, value in form.items():
            name = attribute_name(key)
            if name is None:
                raise self.error(place, f"{key!r:.60} is no name of an attribute.\n  Write it as ':person/name'.")
            if name in named:
                raise self.error(place, f"attribute '{name}' stands in the map twice, with and without its colon.")
            named[name] = value
        if ":db/id" in named:
            entity = self._entity(named.pop(":db/id"), place)
        else:
            entity = self._new()
        if not named:
            raise self.error(place, f"the map {dict(form)!r:.80} has no attributes, so it says nothing.")
        for name, value in named.items():
            forward = None if name in self.store.attributes else forward_attribute(name)
            if forward is not None:
                self._reversed(entity, forward, value, place, depth)
                continue
            attribute = self._attribute(name, place)
            for one in self._several(attribute, value, place):
                self._singles.append(Single("add", entity, attribute, self._value(attribute, one, place, depth), place))
        return entity

    def _reversed(self, entity: Entity, name: str, value: Any, place: int, depth: int) -> None:
        """``{":db/id": e, ":person/_friend": [x, y]}``: x and y refer to e."""
        attribute = self._attribute(name, place)
        if self.store.attribute(attribute).type != "ref":
            raise self.error(place, f"attribute '{attribute}' is not of type 'ref', so it has no other direction.")
        several = [value] if _is_lookup(value) or not isinstance(value, (list, tuple, set, frozenset)) else value
        for one in several:
            source = self._map(one, place, depth + 1) if isinstance(one, Mapping) else self._entity(one, place)
            self._singles.append(Single("add", source, attribute, entity, place))

    def _several(self, name: str, value: Any, place: int) -> list[Any]:
        """The values that a map gives of an attribute."""
        if not isinstance(value, (list, tuple, set, frozenset)):
            return [value]
        attribute = self.store.attribute(name)
        if attribute.type == "ref" and _is_lookup(value):
            return [value]
        if not attribute.many:
            raise self.error(
                place, f"attribute '{name}' has one value, and the map gives {value!r:.80}.\n"
                "  Give one value, or let the attribute be :db.cardinality/many."
            )  # fmt: skip
        return list(value)

    def _value(self, name: str, value: Any, place: int, depth: int) -> Any:
        """A value; of an attribute that refers to entities, what stands for one."""
        if self.store.attribute(name).type != "ref":
            return value
        if isinstance(value, Mapping):
            return self._map(value, place, depth + 1)
        if isinstance(value, (list, tuple)) or (isinstance(value, str) and not value.startswith(":")):
            return self._entity(value, place)
        return as_python(value)

    def _entity(self, given: Any, place: int) -> Entity:
        given = as_python(given)
        if type(given) is int:
            if -(2**63) <= given < 2**63 - 1:
                return given
            raise self.error(place, f"the entity id {given} is outside -2^63 to 2^63-2.")
        if type(given) in (str, Text) and given and not given.startswith(":"):
            return str(given)
        if _is_lookup(given):
            name = self._attribute(given[0], place)
            return Lookup(name, given[1])
        raise self.error(
            place, f"{given!r:.80} of type '{type(given).__name__}' is no entity.\n"
            "  An entity is its id (0 or more), a temporary id (a negative number or a text without a colon in front)\n"
            "  or a lookup reference [attribute, value]."
        )  # fmt: skip

    def _attribute(self, given: Any, place: int) -> str:
        name = attribute_name(given)
        if name is None or name.startswith((":db/", ":db.")):
            raise self.error(place, f"{given!r:.80} is no name of an attribute.\n  Write it as ':person/name'.")
        self.store.attribute(name)
        return name

    def _new(self) -> Fresh:
        self._fresh += 1
        return Fresh(self._fresh)


def _is_lookup(value: Any) -> TypeGuard[Sequence[Any]]:
    return (
        isinstance(value, (list, tuple))
        and len(value) == 2
        and isinstance(value[0], (str, Keyword))
        and str(value[0]).startswith(":")
    )

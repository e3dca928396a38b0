"""What is known of attributes: their type, whether they have one value or many, and whether values are unique."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gpu_wcoj.datoms.values import TYPES, Keyword
from gpu_wcoj.errors import SchemaError, listed, nearest

_CHOICES: dict[str, Mapping[Any, Any]] = {
    ":db/valueType": {f":db.type/{name}": name for name in TYPES},
    ":db/cardinality": {":db.cardinality/one": False, ":db.cardinality/many": True},
    ":db/unique": {":db.unique/identity": "identity", ":db.unique/value": "value"},
    ":db/isComponent": {True: True, False: False},
}
_WITHOUT_EFFECT = (":db/doc", ":db/index", ":db/noHistory")
"""Which orders there are follows from the queries, and no history is kept."""


@dataclass(frozen=True)
class Attribute:
    """What a schema says of an attribute.

    Attributes
    ----------
    name
        With its colon, ``:person/name``.
    type
        One of `TYPES`; None until the first value shows it.
    many
        Whether an entity can have several values.
    unique
        ``identity``: a value names its entity, in lookup references and where an entity is not known yet;
        ``value``: two entities with one value are an error; None.
    component
        Whether what it refers to goes with its entity.
    """

    name: str
    type: str | None = None
    many: bool = False
    unique: str | None = None
    component: bool = False


def attribute_name(given: Any) -> str | None:
    """The name of an attribute as it is stored, or None if this is none; the colon may be left out.

    Examples
    --------
    >>> attribute_name(":g/to"), attribute_name("g/to"), attribute_name(7)
    (':g/to', ':g/to', None)
    """
    if not isinstance(given, (str, Keyword)):
        return None
    text = given.text if isinstance(given, Keyword) else str.__str__(given)  # what a member of an enumeration holds
    name = text if text.startswith(":") else f":{text}"
    plain = len(name) > 1 and ":" not in name[1:2] and not any(one.isspace() or one in '"()[]{},;' for one in name)
    return name if plain else None


def read_schema(given: Any) -> dict[str, Attribute]:
    """The attributes of a schema, ``{attribute: {property: value}}`` or a list of maps that have ``:db/ident``.

    Raises
    ------
    SchemaError
        If an attribute, a property or a value is not one.

    Examples
    --------
    >>> read_schema({":g/to": {":db/valueType": ":db.type/ref", ":db/cardinality": ":db.cardinality/many"}})
    {':g/to': Attribute(name=':g/to', type='ref', many=True, unique=None, component=False)}
    """
    found: dict[str, Attribute] = {}
    for ident, properties in _entries(given):
        name = attribute_name(ident)
        if name is None or name.startswith((":db/", ":db.")):
            raise SchemaError(f"{ident!r:.80} is no name of an attribute.\n  Write it as ':person/name'.")
        if name in found:
            raise SchemaError(f"attribute '{name}' stands in the schema twice.")
        if not isinstance(properties, Mapping):
            raise SchemaError(
                f"attribute '{name}' has {properties!r:.80} for its properties.\n"
                "  Write a map, as {':db/valueType': ':db.type/long', ':db/cardinality': ':db.cardinality/one'}."
            )
        found[name] = _attribute(name, properties)
    return found


def _entries(given: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(given, Mapping):
        return list(given.items())
    if isinstance(given, (list, tuple)) and all(isinstance(one, Mapping) for one in given):
        entries = []
        for one in given:
            plain = {_property(key): value for key, value in one.items()}
            if ":db/ident" not in plain:
                raise SchemaError(f"a map of the schema has no ':db/ident': {dict(one)!r:.120}.")
            entries.append((plain.pop(":db/ident"), plain))
        return entries
    raise SchemaError(
        f"a schema is {{attribute: {{property: value}}}} or a list of maps with ':db/ident', and this is "
        f"{given!r:.80} of type '{type(given).__name__}'."
    )


def _property(key: Any) -> Any:
    text = str(key)
    if not isinstance(key, (str, Keyword)):
        return key
    if text.startswith(":"):
        return text
    return f":{text}" if "/" in text else f":db/{text}"


def _attribute(name: str, properties: Mapping[Any, Any]) -> Attribute:
    said: dict[str, Any] = {}
    for key, value in properties.items():
        what = _property(key)
        if what in _WITHOUT_EFFECT:
            continue
        if what not in _CHOICES:
            known = [*_CHOICES, *_WITHOUT_EFFECT]
            close = nearest(str(what), known)
            raise SchemaError(f"attribute '{name}' has no property {what!r:.60}.{close}\n  There are {listed(known)}.")
        choices = _CHOICES[what]
        chosen = value if isinstance(value, bool) else _choice(value, choices)
        if chosen not in choices:
            if what == ":db/isComponent":
                raise SchemaError(f"attribute '{name}': {what} is True or False, not {value!r:.60}.")
            close = nearest(str(chosen), choices)
            raise SchemaError(
                f"attribute '{name}': {what} is {str(value)!r:.60}.{close}\n  It can be {listed(map(str, choices))}."
            )
        said[what] = choices[chosen]
    one = Attribute(
        name, said.get(":db/valueType"), said.get(":db/cardinality", False), said.get(":db/unique"),
        said.get(":db/isComponent", False),
    )  # fmt: skip
    if one.component and one.type != "ref":
        raise SchemaError(f"attribute '{name}' is a component and of type '{one.type}'.\n  Let it be :db.type/ref.")
    if one.unique and one.many:
        raise SchemaError(f"attribute '{name}' is unique and has many values.\n  Let it be :db.cardinality/one.")
    return one


def _choice(value: Any, choices: Mapping[Any, Any]) -> Any:
    """A choice by its full name or, as a plain text, by its last part."""
    if not isinstance(value, (str, Keyword)):
        return None
    text = str(value)
    if text in choices or isinstance(value, Keyword):
        return text
    return next((one for one in choices if str(one).rsplit("/", 1)[-1] == text), text)

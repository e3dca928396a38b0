"""Schema of attributes: type, cardinality and uniqueness."""

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
"""Accepted properties without effect: indexes follow from the queries, and no history is kept."""


@dataclass(frozen=True)
class Attribute:
    """The schema of an attribute.

    Attributes
    ----------
    name
        The name with its colon, ``:person/name``.
    type
        One of `TYPES`; None until the first value determines it.
    many
        True if an entity can have several values.
    unique
        ``identity``: a value identifies its entity, in lookup references and for temporary ids; ``value``: entities
        with the same value are an error; or None.
    component
        True if the referenced entity is retracted with its entity.
    """

    name: str
    type: str | None = None
    many: bool = False
    unique: str | None = None
    component: bool = False


def attribute_name(value: Any) -> str | None:
    """Return the stored name of an attribute, or None if invalid; the colon is optional.

    Examples
    --------
    >>> attribute_name(":g/to"), attribute_name("g/to"), attribute_name(7)
    (':g/to', ':g/to', None)
    """
    if not isinstance(value, (str, Keyword)):
        return None
    text = value.text if isinstance(value, Keyword) else str.__str__(value)  # the value of an enumeration member
    name = text if text.startswith(":") else f":{text}"
    plain = len(name) > 1 and ":" not in name[1:2] and not any(char.isspace() or char in '"()[]{},;' for char in name)
    return name if plain else None


def read_schema(schema: Any) -> dict[str, Attribute]:
    """Parse a schema: ``{attribute: {property: value}}``, or maps with ``:db/ident``.

    Raises
    ------
    SchemaError
        If an attribute, a property or a value is invalid.

    Examples
    --------
    >>> read_schema({":g/to": {":db/valueType": ":db.type/ref", ":db/cardinality": ":db.cardinality/many"}})
    {':g/to': Attribute(name=':g/to', type='ref', many=True, unique=None, component=False)}
    """
    attributes: dict[str, Attribute] = {}
    for ident, properties in _entries(schema):
        name = attribute_name(ident)
        if name is None or name.startswith((":db/", ":db.")):
            raise SchemaError(f"{ident!r:.80} is not the name of an attribute.\n  Write it as ':person/name'.")
        if name in attributes:
            raise SchemaError.duplicate("attribute", name, "in the schema")
        if not isinstance(properties, Mapping):
            raise SchemaError(
                f"the properties of attribute '{name}' have the wrong type: got {properties!r:.80}, expected a map.\n"
                "  Write a map such as {':db/valueType': ':db.type/long', ':db/cardinality': ':db.cardinality/one'}."
            )
        attributes[name] = _attribute(name, properties)
    return attributes


def _entries(schema: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(schema, Mapping):
        return list(schema.items())
    if isinstance(schema, (list, tuple)) and all(isinstance(properties, Mapping) for properties in schema):
        entries = []
        for properties in schema:
            plain = {_property(key): value for key, value in properties.items()}
            if ":db/ident" not in plain:
                raise SchemaError(
                    f"a map of the schema needs ':db/ident', which is missing: {dict(properties)!r:.120}."
                )
            entries.append((plain.pop(":db/ident"), plain))
        return entries
    raise SchemaError(
        f"the schema has the wrong type: got {schema!r:.80} of type '{type(schema).__name__}', expected "
        f"{{attribute: {{property: value}}}} or a list of maps with ':db/ident'."
    )


def _property(key: Any) -> Any:
    text = str(key)
    if not isinstance(key, (str, Keyword)):
        return key
    if text.startswith(":"):
        return text
    return f":{text}" if "/" in text else f":db/{text}"


def _attribute(name: str, properties: Mapping[Any, Any]) -> Attribute:
    settings: dict[str, Any] = {}
    for key, value in properties.items():
        what = _property(key)
        if what in _WITHOUT_EFFECT:
            continue
        if what not in _CHOICES:
            allowed = [*_CHOICES, *_WITHOUT_EFFECT]
            close = nearest(str(what), allowed)
            raise SchemaError(
                f"unknown property {what!r:.60} of attribute '{name}': expected one of {listed(allowed)}.{close}"
            )
        choices = _CHOICES[what]
        chosen = value if isinstance(value, bool) else _choice(value, choices)
        if chosen not in choices:
            if what == ":db/isComponent":
                raise SchemaError(f"attribute '{name}': {what}={value!r:.60} is not allowed: expected True or False.")
            close = nearest(str(chosen), choices)
            raise SchemaError(
                f"attribute '{name}': {what}={str(value)!r:.60} is not allowed: expected one of "
                f"{listed(map(str, choices))}.{close}"
            )
        settings[what] = choices[chosen]
    attribute = Attribute(
        name, settings.get(":db/valueType"), settings.get(":db/cardinality", False), settings.get(":db/unique"),
        settings.get(":db/isComponent", False),
    )  # fmt: skip
    if attribute.component and attribute.type != "ref":
        raise SchemaError(
            f"attribute '{name}' is a component of the wrong type: got '{attribute.type}', expected 'ref'.\n"
            "  Declare it :db.type/ref."
        )
    if attribute.unique and attribute.many:
        raise SchemaError.conflict(
            f"':db/unique' of attribute '{name}'", ":db.cardinality/many", "Declare it :db.cardinality/one."
        )
    return attribute


def _choice(value: Any, choices: Mapping[Any, Any]) -> Any:
    """Return a choice by its full name or, for a plain text, by its last part."""
    if not isinstance(value, (str, Keyword)):
        return None
    text = str(value)
    if text in choices or isinstance(value, Keyword):
        return text
    return next((choice for choice in choices if str(choice).rsplit("/", 1)[-1] == text), text)

"""What a query reads: databases of datoms, and plain relations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpu_wcoj.errors import TypeMismatchError
from gpu_wcoj.schema import DataType

TYPES = ("long", "ref", "double", "string", "keyword", "boolean", "instant", "uuid", "bytes")
"""The types of attributes. A ref is the number of an entity, and so a long."""

TEXT = "text"
"""The type of texts from outside, which are strings or keywords."""

OPAQUE = "?"
"""The type of values of which nothing is known but that they are of one type."""

ENGINE = {
    "long": "int64",
    "ref": "int64",
    "double": "double",
    "string": "string",
    "keyword": "string",
    TEXT: "string",
    "boolean": "bool",
    "instant": "timestamp[us, tz=UTC]",
    "uuid": "string",
    "bytes": "binary",
}
"""The engine's type of a column that holds values of a type."""

RELATIONS = {kind: f"datoms_{'long' if kind == 'ref' else kind}" for kind in TYPES}
"""Which relation ``(e, a, v)`` holds the datoms of a type: refs are held with the longs."""


@dataclass(frozen=True)
class Attribute:
    """What is known of an attribute: one of `TYPES`, and whether a value has one entity at most."""

    type: str
    unique: bool = False


@dataclass(frozen=True)
class Datoms:
    """A database of datoms.

    Attributes
    ----------
    attributes
        What is known of each attribute, by its keyword: ``{":g/to": Attribute("ref")}``.
    relations
        Per type of value, the relation ``(e: int64, a: string, v)`` that holds such datoms.
    untyped
        Attributes that the schema names and that have no type yet.
    is_strict
        Refuse attributes that are in neither; else a query notes them as undeclared.
    """

    attributes: Mapping[str, Attribute]
    relations: Mapping[str, str] = field(default_factory=lambda: RELATIONS)
    untyped: frozenset[str] = frozenset()
    is_strict: bool = False


@dataclass(frozen=True)
class Relation:
    """A plain relation.

    Attributes
    ----------
    name
        What the engine calls it.
    columns
        Names of its columns; none if they are not known, and then queries say how many there are.
    types
        Per column Arrow's name of its type, or None where that is not known.
    """

    name: str
    columns: tuple[str, ...] = ()
    types: tuple[str | None, ...] = ()


Source = Datoms | Relation


def forward_attribute(name: str) -> str | None:
    """Return the attribute that a reversed one reads from its value to its entity; None if the name is not reversed.

    Examples
    --------
    >>> forward_attribute(":person/_boss"), forward_attribute(":_boss"), forward_attribute(":boss")
    (':person/boss', ':boss', None)
    """
    space, slash, last = name.rpartition("/") if "/" in name else (":", "", name[1:])
    return f"{space}{slash}{last[1:]}" if len(last) > 1 and last.startswith("_") else None


_FAMILIES = {
    "integer": "long",
    "float64": "double",
    "bool": "boolean",
    "string": TEXT,
    "zoned": "instant",
    "binary": "bytes",
}


def type_of_column(name: str | None) -> str:
    """The type of values in a column of a plain relation, by Arrow's name of it.

    Examples
    --------
    >>> type_of_column("int32"), type_of_column("large_string"), type_of_column("date32[day]"), type_of_column(None)
    ('long', 'text', 'date', '?')
    """
    if name is None:
        return OPAQUE
    try:
        family = DataType(name).family
    except TypeMismatchError:
        return OPAQUE
    return _FAMILIES.get(family, family)


def source_of(sources: Mapping[str, Source], name: str) -> Source | None:
    """The source of a name, which may be written with or without ``$`` in front."""
    return sources.get(name) or sources.get(name.removeprefix("$") if name.startswith("$") else f"${name}")

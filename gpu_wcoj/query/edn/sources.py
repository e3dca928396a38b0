"""Sources of a query: databases of datoms, and plain relations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpu_wcoj.data.schema import DataType
from gpu_wcoj.errors import TypeMismatchError

TYPES = ("long", "ref", "double", "string", "keyword", "boolean", "instant", "uuid", "bytes")
"""The types of attributes. A ref is an entity id, which is a long."""

TEXT = "text"
"""The type of texts of arguments and plain relations: strings or keywords."""

OPAQUE = "?"
"""The type of values that have one unknown type."""

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
"""The engine's column type for each type of value."""

RELATIONS = {kind: f"datoms_{'long' if kind == 'ref' else kind}" for kind in TYPES}
"""The relation ``(e, a, v)`` of the datoms of each type; refs share the longs' relation."""


@dataclass(frozen=True)
class Attribute:
    """An attribute: its type (one of `TYPES`), and whether its values are unique."""

    type: str
    unique: bool = False


@dataclass(frozen=True)
class Datoms:
    """A database of datoms.

    Attributes
    ----------
    attributes
        The typed attributes by their keywords: ``{":g/to": Attribute("ref")}``.
    relations
        Per type of value, the relation ``(e: int64, a: string, v)`` of such datoms.
    untyped
        Attributes of the schema that have no type yet.
    is_strict
        Reject attributes that are in neither; else a query reports them as undeclared.
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
        The engine's name of the relation.
    columns
        Names of its columns; empty if unknown, and then the queries determine their number.
    types
        Per column Arrow's name of its type, or None if unknown.
    """

    name: str
    columns: tuple[str, ...] = ()
    types: tuple[str | None, ...] = ()


Source = Datoms | Relation


def forward_attribute(name: str) -> str | None:
    """Return the attribute behind a reversed name, or None if the name is not reversed.

    Examples
    --------
    >>> forward_attribute(":person/_boss"), forward_attribute(":_boss"), forward_attribute(":boss")
    (':person/boss', ':boss', None)
    """
    space, slash, local_name = name.rpartition("/") if "/" in name else (":", "", name[1:])
    return f"{space}{slash}{local_name[1:]}" if len(local_name) > 1 and local_name.startswith("_") else None


_FAMILIES = {
    "integer": "long",
    "float64": "double",
    "bool": "boolean",
    "string": TEXT,
    "zoned": "instant",
    "binary": "bytes",
}


def type_of_column(name: str | None) -> str:
    """Return the type of values in a column of a plain relation, from Arrow's type name.

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
    """Return the source of a name, which may be written with or without ``$``."""
    return sources.get(name) or sources.get(name.removeprefix("$") if name.startswith("$") else f"${name}")

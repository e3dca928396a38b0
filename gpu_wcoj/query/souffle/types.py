"""Types that a program declares: subtypes, equivalent types, unions, records and sums."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from gpu_wcoj.data.schema import DataType
from gpu_wcoj.errors import TypeMismatchError, nearest

RECORD = "record"
"""The kind of records and of sums, whose values are texts; see `gpu_wcoj.query.souffle.records`."""
PRIMITIVES = {"number": "int64", "unsigned": "uint64", "symbol": "string"}
"""Soufflé's names of types and their Arrow names; ``float`` is Arrow's name, too."""
_LETTERS = {"integer": "n", "float64": "f", "float32": "g", "string": "s"}


@dataclass(frozen=True)
class Definition:
    """A declared type.

    Attributes
    ----------
    kind
        ``subtype``, ``alias``, ``union``, ``record`` or ``sum``.
    members
        The base type of a subtype or alias, or the members of a union.
    branches
        Of a sum its branches, of a record one branch with an empty name: the names of the types of the fields.
    """

    kind: str
    members: tuple[str, ...] = ()
    branches: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class TypeDefinitionError(Exception):
    """A mistake in a declaration of a type; the reader points at its place."""


class TypeTable:
    """The declared types of a program, by full name.

    Examples
    --------
    >>> types = TypeTable()
    >>> types.define("Node", Definition("subtype", ("string",)))
    >>> types.define("List", Definition("record", branches={"": ("int64", "List")}))
    >>> types.kind("Node"), types.arrow("List"), types.is_subtype("Node", "string"), types.is_subtype("string", "Node")
    ('string', 'string', True, False)
    """

    def __init__(self) -> None:
        self.definitions: dict[str, Definition] = {}
        self._kinds: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self.definitions)

    @property
    def has_records(self) -> bool:
        """Return whether there is a record type; then the word nil is a value."""
        return any(definition.kind == "record" for definition in self.definitions.values())

    def define(self, name: str, definition: Definition) -> None:
        """Add a type.

        Raises
        ------
        TypeDefinitionError
            If there is one of this name.
        """
        if name in self.definitions:
            raise TypeDefinitionError(f"type '{name}' is declared twice")
        self.definitions[name] = definition

    def check(self, name: str) -> None:
        """Raise if a type is made of unknown types, of itself, or of members of several kinds."""
        definition = self.definitions[name]
        for branch in definition.branches.values():
            for part in branch:
                _ = self.kind(part)
                if self.letter(part) is None:
                    raise TypeDefinitionError(
                        f"a field of type '{name}' is of type '{part}'; fields are numbers, floats, symbols, records "
                        "and sums"
                    )
        _ = self.kind(name)

    def kind(self, name: str) -> str:
        """Return `RECORD`, or the Arrow name of the type that a type is made from.

        Raises
        ------
        TypeDefinitionError
            If there is no such type, or it is made of itself or of members of different kinds.
        """
        if name not in self._kinds:
            self._kinds[name] = self._kind(name, ())
        return self._kinds[name]

    def _kind(self, name: str, within: tuple[str, ...]) -> str:
        definition = self.definitions.get(name)
        if definition is None:
            if not is_arrow(name):
                raise TypeDefinitionError(
                    f"unknown type '{name}'; declare it with .type.{nearest(name, self.definitions)}"
                )
            return name
        if definition.branches or definition.kind in ("record", "sum"):
            return RECORD
        if name in within:
            raise TypeDefinitionError(f"type '{name}' is defined by itself, through {', '.join(within)}")
        kinds = {member: self._kind(member, (*within, name)) for member in definition.members}
        first = next(iter(kinds))
        for member, kind in kinds.items():
            if kind != kinds[first]:
                raise TypeDefinitionError(
                    f"type '{name}' unites '{format_type(first)}' and '{format_type(member)}', which are not of one "
                    "kind"
                )
        return kinds[first]

    def arrow(self, name: str) -> str:
        """Return the Arrow name of the columns of a type."""
        kind = self.kind(name)
        return "string" if kind == RECORD else kind

    def letter(self, name: str) -> str | None:
        """Return the letter of a field of this type; None if records cannot hold it."""
        kind = self.kind(name)
        if kind == RECORD:
            return "r"
        return "u" if kind == "uint64" else _LETTERS.get(DataType(kind).family)

    def shape(self, name: str) -> Definition | None:
        """Return the definition of a record or sum, through aliases; None for another type."""
        definition = self.definitions.get(name)
        while definition is not None and definition.kind in ("alias", "subtype"):
            name = definition.members[0]
            definition = self.definitions.get(name)
        return definition if definition is not None and definition.kind in ("record", "sum") else None

    def root(self, name: str) -> str:
        """Return the name of a type, through aliases."""
        while (definition := self.definitions.get(name)) is not None and definition.kind == "alias":
            (name,) = definition.members
        return name

    def supers(self, name: str) -> Iterator[str]:
        """Yield a type and all types that it is a subtype of."""
        name = self.root(name)
        yield name
        definition = self.definitions.get(name)
        if definition is not None and definition.kind == "subtype":
            yield from self.supers(definition.members[0])

    def is_subtype(self, name: str, upper: str) -> bool:
        """Return whether all values of a type are values of another one."""
        name, upper = self.root(name), self.root(upper)
        definition = self.definitions.get(name)
        if definition is not None and definition.kind == "union" and name != upper:
            return all(self.is_subtype(member, upper) for member in definition.members)
        supers = tuple(self.supers(name))
        if upper in supers:
            return True
        target = self.definitions.get(upper)
        if target is not None and target.kind == "union":
            return any(self.is_subtype(one, member) for one in supers for member in target.members)
        return False

    def meet(self, left: str, right: str) -> str | None:
        """Return the type of the values that are of both types; None if there is none."""
        if self.is_subtype(left, right):
            return left
        if self.is_subtype(right, left):
            return right
        for first, second in ((left, right), (right, left)):
            definition = self.definitions.get(self.root(first))
            if definition is not None and definition.kind == "union":
                common = [found for member in definition.members if (found := self.meet(member, second)) is not None]
                if common:
                    return common[0] if len(common) == 1 else second
        return None

    @cached_property
    def branches(self) -> dict[str, list[str]]:
        """Per name of a branch, the sums that have it; to be read when all types are defined."""
        branches: dict[str, list[str]] = {}
        for name, definition in self.definitions.items():
            if definition.kind == "sum":
                for branch in definition.branches:
                    branches.setdefault(branch, []).append(name)
        return branches

    def fields(self, name: str) -> str:
        """Return `gpu_wcoj.query.souffle.records.Fields` of a type, as JSON."""
        fields: dict[str, dict[str, list[str]]] = {}
        waiting = [name]
        while waiting:
            current = waiting.pop()
            definition = self.shape(current)
            if definition is None or current in fields:
                continue
            fields[current] = {}
            for branch, parts in definition.branches.items():
                fields[current][branch] = [
                    part if self.letter(part) == "r" else str(self.letter(part)) for part in parts
                ]
                waiting += parts
        return json.dumps(fields, separators=(",", ":"))


def is_arrow(name: str) -> bool:
    """Return whether a name is that of a type of Arrow."""
    try:
        _ = DataType(name).family
    except TypeMismatchError:
        return False
    return True


def family(kind: str) -> str:
    """Return the family of a kind: `RECORD`, or that of the Arrow type."""
    return kind if kind == RECORD else DataType(kind).family


def format_type(name: str) -> str:
    """Return the name of a type in messages: Soufflé's, if it has one.

    Examples
    --------
    >>> format_type("int64"), format_type("Node")
    ('number', 'Node')
    """
    return next((word for word, arrow in PRIMITIVES.items() if arrow == name), name)

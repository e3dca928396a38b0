"""Queries with their inputs, compiled for the present attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from gpu_wcoj.data.column import Int64Array
from gpu_wcoj.datoms.report import datoms_as_zset
from gpu_wcoj.datoms.schema import Attribute
from gpu_wcoj.datoms.store import Delta, Store
from gpu_wcoj.datoms.values import TYPES, Keyword

if TYPE_CHECKING:
    from gpu_wcoj.datoms.follower import Follower
    from gpu_wcoj.datoms.subscription import Subscription
    from gpu_wcoj.query.edn import Query
    from gpu_wcoj.zset.zset import ZSet

KINDS = {kind: "long" if kind == "ref" else kind for kind in TYPES}
"""The relation that holds the datoms of each type; refs are stored with longs."""


class Source(Protocol):
    """The interface of a database for its queries.

    Attributes
    ----------
    store
        Its datoms.
    following
        The followers of this database, with their subscriptions.
    """

    store: Store
    following: dict[Follower, list[Subscription]]


@dataclass(frozen=True, eq=False)
class Feed:
    """Selection of the datoms of an input of a program.

    Attributes
    ----------
    source
        The database.
    kind
        The type of the values.
    attributes
        The attributes; None for all attributes of the type.
    """

    source: Source
    kind: str
    attributes: frozenset[str] | None

    def _accepts(self, attribute: Attribute | None) -> bool:
        if attribute is None or attribute.type is None or KINDS[attribute.type] != self.kind:
            return False
        return self.attributes is None or attribute.name in self.attributes

    def present(self) -> ZSet:
        """Return the present datoms of the input."""
        store = self.source.store
        parts = {}
        for attribute in store.typed():
            if self._accepts(attribute):
                entity, code = store.pairs(attribute.name).columns()
                parts[attribute.name] = entity, code, np.ones(len(entity), np.int64)
        return datoms_as_zset(parts, self.kind, store.texts)

    def select(self, delta: Delta) -> dict[str, tuple[Int64Array, Int64Array, Int64Array]]:
        """Return the parts of a transaction that belong to the input."""
        attributes = self.source.store.attributes
        return {
            name: part
            for name, part in delta.parts.items()
            if self._accepts(delta.attributes.get(name) or attributes.get(name))
        }


@dataclass(frozen=True, eq=False)
class CompiledQuery:
    """A query compiled for a program.

    Attributes
    ----------
    query
        The rules and the shape of the answer.
    feeds
        Per input of datoms, its selection.
    missing
        Attributes whose type is not yet known.
    is_open
        True if an attribute is a variable.
    constants
        Inputs that do not change.
    """

    query: Query
    feeds: Mapping[str, Feed]
    missing: frozenset[str]
    is_open: bool
    constants: Mapping[str, Any]

    def present(self) -> dict[str, Any]:
        """Return the present rows of every input."""
        return {**self.constants, **{name: feed.present() for name, feed in self.feeds.items()}}

    def is_outdated(self, attributes: Mapping[str, Attribute]) -> bool:
        """Return whether new types of `attributes` require recompilation."""
        typed = [name for name, attribute in attributes.items() if attribute.type is not None]
        return bool(typed) and (self.is_open or not self.missing.isdisjoint(typed))

    def is_concerned(self, delta: Delta) -> bool:
        """Return whether a transaction can change the answer."""
        if delta.attributes and self.is_outdated(delta.attributes):
            return True
        return not delta.parts.keys().isdisjoint(self.attributes) if self.attributes is not None else bool(delta.parts)

    @cached_property
    def attributes(self) -> frozenset[str] | None:
        """The attributes that are read; None for all."""
        read = [feed.attributes for feed in self.feeds.values()]
        return (
            None if None in read else frozenset().union(*(attributes for attributes in read if attributes is not None))
        )

    @property
    def schema(self) -> dict[str, list[str]]:
        """Column types of the inputs of datoms."""
        return {name: ["int64", "string", TYPES[feed.kind].name] for name, feed in self.feeds.items()}


class BoundQuery:
    """A query, its inputs, and the databases among them.

    Attributes
    ----------
    databases
        The queried database, then the databases among the inputs.
    tables
        The inputs that are tables, by position.
    """

    def __init__(self, source: Source, text: Any, inputs: Sequence[Any]) -> None:
        self.text = text
        self.source = source
        self.inputs = tuple(inputs)
        databases = {id(database): database for database in (source, *inputs) if isinstance(database, type(source))}
        self.databases: tuple[Source, ...] = tuple(databases.values())
        self.tables = {
            position: _table(f"relation{position + 1}", data) for position, data in enumerate(inputs) if _is_table(data)
        }

    def compile(self, source: Source | None = None, attributes: Mapping[str, Attribute] | None = None) -> CompiledQuery:
        """Compile the query, with additional attributes of a database."""
        from gpu_wcoj.query import edn

        datoms = {}
        feeds_of: dict[str, tuple[Source, str]] = {}
        for database_index, database in enumerate(self.databases):
            all_attributes = {**database.store.attributes, **((attributes or {}) if database is source else {})}
            prefix = f"datoms{database_index or ''}"
            relations = {kind: f"{prefix}_{value_kind}" for kind, value_kind in KINDS.items()}
            feeds_of.update({f"{prefix}_{value_kind}": (database, value_kind) for value_kind in KINDS.values()})
            typed = {
                name: edn.Attribute(attribute.type, attribute.unique is not None)
                for name, attribute in all_attributes.items()
                if attribute.type is not None
            }
            untyped = frozenset(all_attributes.keys() - typed.keys())
            datoms[id(database)] = edn.Datoms(typed, relations, untyped, database.store.strict)
        arguments: list[Any] = [
            datoms[id(data)] if isinstance(data, type(self.source)) else _form(data) for data in self.inputs
        ]
        for position, table in self.tables.items():
            types = tuple(column.type.value_name for column in table.columns)
            arguments[position] = edn.Relation(f"relation{position + 1}", table.names, types)
        query = edn.parse(self.text, {"$": datoms[id(self.source)]}, arguments=arguments)
        feeds = {name: Feed(*feeds_of[name], read.attributes) for name, read in query.reads.items() if name in feeds_of}
        tables = {f"relation{position + 1}": table for position, table in self.tables.items()}
        constants = {**query.input_rows, **{name: tables[name] for name in query.rules.inputs if name in tables}}
        return CompiledQuery(query, feeds, frozenset(name for _, name in query.unknown), bool(query.open), constants)


def _form(data: Any) -> Any:
    """Return an input with its keywords converted to forms."""
    if isinstance(data, Keyword):
        from gpu_wcoj.query.edn.forms import Form

        return Form("keyword", data.text)
    return type(data)(map(_form, data)) if type(data) in (list, tuple, set) else data


def _is_table(data: Any) -> bool:
    """Return whether an input is a table, for ``$name``."""
    if isinstance(data, np.ndarray):
        return data.ndim == 2 or data.dtype.names is not None
    return hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")


def _table(name: str, data: Any) -> ZSet:
    from gpu_wcoj.arrow import as_table
    from gpu_wcoj.zset.zset import ZSet

    if isinstance(data, ZSet):
        return data
    names, columns = as_table(data, f"the input '{name}'")
    return ZSet.from_columns(names, columns)

"""A query and its inputs, compiled for what is known of the attributes now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from gpu_wcoj.column import Int64Array
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
"""The relation that has the datoms of each type: references are integers as others are."""


class Source(Protocol):
    """A database as a question knows it.

    Attributes
    ----------
    store
        Its datoms.
    following
        What keeps answers from them, and for whom.
    """

    store: Store
    following: dict[Follower, list[Subscription]]


@dataclass(frozen=True, eq=False)
class Feed:
    """Which datoms an input of a program gets.

    Attributes
    ----------
    source
        The database.
    kind
        The type of their values.
    attributes
        Their attributes; None for all of the type.
    """

    source: Source
    kind: str
    attributes: frozenset[str] | None

    def _takes(self, one: Attribute | None) -> bool:
        if one is None or one.type is None or KINDS[one.type] != self.kind:
            return False
        return self.attributes is None or one.name in self.attributes

    def present(self) -> ZSet:
        """The datoms that are there."""
        store = self.source.store
        parts = {}
        for one in store.typed():
            if self._takes(one):
                entity, code = store.pairs(one.name).columns()
                parts[one.name] = entity, code, np.ones(len(entity), np.int64)
        return datoms_as_zset(parts, self.kind, store.texts)

    def touched(self, delta: Delta) -> dict[str, tuple[Int64Array, Int64Array, Int64Array]]:
        """The parts of a transaction of this database that it gets."""
        known = self.source.store.attributes
        return {
            name: part
            for name, part in delta.parts.items()
            if self._takes(delta.attributes.get(name) or known.get(name))
        }


@dataclass(frozen=True, eq=False)
class Compiled:
    """A question as a program runs it.

    Attributes
    ----------
    query
        What the text was compiled into.
    feeds
        Per input of datoms, what it gets.
    missing
        Attributes that nothing is known of yet.
    is_open
        Whether there is a variable for an attribute.
    given
        Inputs that do not change.
    """

    query: Query
    feeds: Mapping[str, Feed]
    missing: frozenset[str]
    is_open: bool
    given: Mapping[str, Any]

    def present(self) -> dict[str, Any]:
        """What is there for every input."""
        return {**self.given, **{name: feed.present() for name, feed in self.feeds.items()}}

    def is_outdated(self, attributes: Mapping[str, Attribute]) -> bool:
        """Whether it must be compiled anew, as these attributes have a type now."""
        typed = [name for name, one in attributes.items() if one.type is not None]
        return bool(typed) and (self.is_open or not self.missing.isdisjoint(typed))

    def is_concerned(self, delta: Delta) -> bool:
        """Whether a transaction can change the answer."""
        if delta.attributes and self.is_outdated(delta.attributes):
            return True
        return not delta.parts.keys().isdisjoint(self.attributes) if self.attributes is not None else bool(delta.parts)

    @cached_property
    def attributes(self) -> frozenset[str] | None:
        """All attributes that are read; None for any."""
        read = [feed.attributes for feed in self.feeds.values()]
        return None if None in read else frozenset().union(*(one for one in read if one is not None))

    @property
    def schema(self) -> dict[str, list[str]]:
        """Types of the columns of datoms."""
        return {name: ["int64", "string", TYPES[feed.kind].name] for name, feed in self.feeds.items()}


class Question:
    """A query, its inputs, and the databases among them.

    Attributes
    ----------
    databases
        The one that was asked, then those among the inputs.
    tables
        The inputs that are tables, by their places.
    """

    def __init__(self, source: Source, text: Any, inputs: Sequence[Any]) -> None:
        self.text = text
        self.source = source
        self.inputs = tuple(inputs)
        found = {id(one): one for one in (source, *inputs) if isinstance(one, type(source))}
        self.databases: tuple[Source, ...] = tuple(found.values())
        self.tables = {
            number: _table(f"relation{number + 1}", one) for number, one in enumerate(inputs) if _is_table(one)
        }

    def compiled(self, source: Source | None = None, attributes: Mapping[str, Attribute] | None = None) -> Compiled:
        """The program, knowing of these attributes of a database as well."""
        from gpu_wcoj.query import edn

        datoms = {}
        feeds_of: dict[str, tuple[Source, str]] = {}
        for number, database in enumerate(self.databases):
            known = {**database.store.attributes, **((attributes or {}) if database is source else {})}
            prefix = f"datoms{number or ''}"
            relations = {kind: f"{prefix}_{held}" for kind, held in KINDS.items()}
            feeds_of.update({f"{prefix}_{held}": (database, held) for held in KINDS.values()})
            typed = {
                name: edn.Attribute(one.type, one.unique is not None)
                for name, one in known.items()
                if one.type is not None
            }
            untyped = frozenset(known.keys() - typed.keys())
            datoms[id(database)] = edn.Datoms(typed, relations, untyped, database.store.strict)
        arguments: list[Any] = [
            datoms[id(one)] if isinstance(one, type(self.source)) else _form(one) for one in self.inputs
        ]
        for number, table in self.tables.items():
            types = tuple(column.type.value_name for column in table.columns)
            arguments[number] = edn.Relation(f"relation{number + 1}", table.names, types)
        query = edn.parse(self.text, {"$": datoms[id(self.source)]}, arguments=arguments)
        feeds = {name: Feed(*feeds_of[name], read.attributes) for name, read in query.reads.items() if name in feeds_of}
        tables = {f"relation{number + 1}": table for number, table in self.tables.items()}
        given = {**query.given, **{name: tables[name] for name in query.rules.inputs if name in tables}}
        return Compiled(query, feeds, frozenset(name for _, name in query.unknown), bool(query.open), given)


def _form(given: Any) -> Any:
    """An input, keywords in it as the reader of EDN has them."""
    if isinstance(given, Keyword):
        from gpu_wcoj.query.edn.forms import Form

        return Form("keyword", given.text)
    return type(given)(map(_form, given)) if type(given) in (list, tuple, set) else given


def _is_table(given: Any) -> bool:
    """Whether an input is a relation as a whole, for ``$name``."""
    if isinstance(given, np.ndarray):
        return given.ndim == 2 or given.dtype.names is not None
    return hasattr(given, "__arrow_c_stream__") or hasattr(given, "__arrow_c_array__")


def _table(name: str, given: Any) -> ZSet:
    from gpu_wcoj.arrow import as_table
    from gpu_wcoj.zset.zset import ZSet

    if isinstance(given, ZSet):
        return given
    names, columns = as_table(given, f"the input '{name}'")
    return ZSet.from_columns(names, columns)

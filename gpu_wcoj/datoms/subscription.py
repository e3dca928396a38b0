"""Subscriptions: unread changes, and the present answer of a query."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from gpu_wcoj.data.column import Int64Array
from gpu_wcoj.datoms.pull import pull
from gpu_wcoj.datoms.schema import TYPES, Attribute, Keyword
from gpu_wcoj.datoms.store import Delta, Store, datoms_as_zset
from gpu_wcoj.engine.options import ProgramOptions
from gpu_wcoj.engine.state import Mark
from gpu_wcoj.errors import UnknownAttributeWarning, UnsupportedError, UsageError, callers_level, entry_point
from gpu_wcoj.maintained import ProgramAnswers
from gpu_wcoj.program import Program
from gpu_wcoj.query import edn
from gpu_wcoj.query.edn import Query
from gpu_wcoj.query.edn.reader import Form
from gpu_wcoj.result import Result
from gpu_wcoj.zset.zset import ZSet

# Queries with their inputs, compiled for the present attributes.


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
    sources
        The databases by the identities of their sources in the query.
    """

    query: Query
    feeds: Mapping[str, Feed]
    missing: frozenset[str]
    is_open: bool
    constants: Mapping[str, Any]
    sources: Mapping[int, Source]

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
        missing = frozenset(name for _, name in query.unknown)
        sources = {id(datoms[id(database)]): database for database in self.databases}
        return CompiledQuery(query, feeds, missing, bool(query.open), constants, sources)


def _form(data: Any) -> Any:
    """Return an input with its keywords converted to forms."""
    if isinstance(data, Keyword):
        return Form("keyword", data.text)
    return type(data)(map(_form, data)) if type(data) in (list, tuple, set) else data


def _is_table(data: Any) -> bool:
    """Return whether an input is a table, for ``$name``."""
    if isinstance(data, np.ndarray):
        return data.ndim == 2 or data.dtype.names is not None
    return hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")


def _table(name: str, data: Any) -> ZSet:
    from gpu_wcoj.arrow import as_table

    if isinstance(data, ZSet):
        return data
    names, columns = as_table(data, f"the input '{name}'")
    return ZSet.from_columns(names, columns)


# Incremental maintenance of the answer of a query, shared by its subscriptions.


@dataclass(frozen=True)
class State:
    """State that a transaction can change: the program and its compiled query."""

    compiled: CompiledQuery
    program: Program
    mark: Mark


class Follower:
    """Maintains the answer of a query.

    Attributes
    ----------
    first
        The initial answer.
    """

    def __init__(self, bound_query: BoundQuery, options: ProgramOptions) -> None:
        self.bound_query = bound_query
        self.options = options
        self.compiled = bound_query.compile()
        for message in self.compiled.query.undeclared.values():
            warnings.warn(message, UnknownAttributeWarning, stacklevel=callers_level())
        self.program = self._program(self.compiled)
        self._no_change: ZSet | None = None
        self.first = self._start(self.program, self.compiled)

    def _program(self, compiled: CompiledQuery) -> Program:
        query = compiled.query
        options = replace(self.options, outputs=[query.output], schema=compiled.schema)
        return Program.from_options(query.rules, options)

    def _start(self, program: Program, compiled: CompiledQuery) -> ZSet:
        """Run the first tick of a program on the present datoms; return the answer."""
        return program.step(compiled.present())[compiled.query.output]

    @property
    def answer(self) -> ZSet:
        """The present answer."""
        return self.program.relation(self.compiled.query.output)

    def shape_answer(self, answer: ZSet) -> Any:
        """Return an answer in the shape of ``:find``."""
        sources = self.compiled.sources
        return self.compiled.query.shape_answer(
            [row for row, _ in answer.rows()],
            lambda source, pattern, entity: pull(sources[id(source)].store, pattern, entity),
        )

    def refuse_pulls(self) -> None:
        """Raise if the query pulls patterns, whose values change without the answer."""
        if any(self.compiled.query.pulls):
            raise UnsupportedError(
                "a subscription does not follow what 'pull' reads.\n"
                "  Subscribe to the entities, and call pull(pattern, entity) on the database; or name the attributes."
            )

    @property
    def no_change(self) -> ZSet:
        """A change without rows."""
        if self._no_change is None:
            self._no_change = self.program.empty(self.compiled.query.output)
        return self._no_change

    def state(self) -> State:
        """Return the present state, for `return_to`."""
        return State(self.compiled, self.program, self.program.mark())

    def return_to(self, state: State) -> None:
        """Restore a state."""
        self.compiled, self.program, self._no_change = state.compiled, state.program, None
        self.program.return_to(state.mark)

    def process(self, source: Source, delta: Delta) -> ZSet:
        """Process a transaction before its store applies it; return the answer's change."""
        try:
            self.recompile(source, delta.attributes)
            self._no_change = None  # types may become known with the rows
            changes = {}
            for name, feed in self.compiled.feeds.items():
                if feed.source is source and (parts := feed.select(delta)):
                    changes[name] = datoms_as_zset(parts, feed.kind, source.store.texts)
            return self.program.step(changes)[self.compiled.query.output]
        except Exception as error:
            error.add_note(
                f"The transaction was undone: the subscription to {self.bound_query.text!r:.200} cannot process it."
            )
            raise

    def recompile(self, source: Source, attributes: Mapping[str, Attribute]) -> None:
        """Recompile if the types of attributes have become known; the answer is unchanged."""
        if self.compiled.is_outdated(attributes):
            compiled = self.bound_query.compile(source, attributes)
            program = self._program(compiled)
            program.load(compiled.present())
            self.compiled, self.program, self._no_change = compiled, program, None


@entry_point
class Subscription(ProgramAnswers):
    """Subscription to the answer of a query; see `gpu_wcoj.datoms.Database.subscribe`.

    Examples
    --------
    >>> from gpu_wcoj.datoms import Database
    >>> db = Database()
    >>> live = db.subscribe("[:find ?city (count ?e) :where [?e :city ?city]]")
    >>> report = db.transact([{":db/id": 1, ":city": "Oslo"}, {":db/id": 2, ":city": "Oslo"}])
    >>> [change.rows() for change in live.changes()]
    [[], [(('Oslo', 2), 1)]]
    >>> live.answer()
    [('Oslo', 2)]
    """

    def __init__(self, follower: Follower, first: ZSet, closed: Callable[[Follower, Subscription], None]) -> None:
        self._follower: Follower | None = follower
        self._unread: deque[ZSet] = deque([first])
        self._closed = closed

    def __repr__(self) -> str:
        state = "closed" if self._follower is None else f"{self._follower.bound_query.text!r:.60}"
        return f"Subscription({state}; {len(self._unread):,} changes to read)"

    @property
    def program(self) -> Program:
        """The program of the answer, for `explain`, `state_rows`, `nbytes` and `last_tick`.

        Subscriptions of equal queries share it; only the database runs its ticks.
        """
        return self._open().program

    def changes(self) -> list[ZSet]:
        """Return the unread changes: the initial answer, then one Z-set per transaction.

        A transaction that does not change the answer gives a Z-set without rows. Unread changes accumulate.
        """
        changes = []
        while self._unread:  # pop singly, so that a concurrent change is not lost
            changes.append(self._unread.popleft())
        return changes

    def answer(self) -> Any:
        """Return the present answer in the shape of ``:find``.

        Returns
        -------
        A list of tuples, or of dicts with ``:keys``; a list of values for a collection; a single row for a tuple and a
        single value for a scalar, or None if the answer is empty.
        """
        follower = self._open()
        return follower.shape_answer(follower.answer)

    def relation(self) -> ZSet:
        """Return the present answer as a Z-set."""
        return self._open().answer

    @property
    def outputs(self) -> tuple[str, ...]:
        """The name of the answer."""
        return (self._open().compiled.query.output,)

    @property
    def columns(self) -> list[str]:
        """The names of the columns of the answer, before it takes the shape of ``:find``."""
        return list(self.program.empty(self.outputs[0]).names)

    def snapshot(self, name: str | None = None) -> Result:
        """Return the present answer, or the relation `name` of the program, as a table."""
        return Result(self.relation() if name is None else self.program.relation(name))

    def count(self, name: str | None = None) -> int:
        """Return the number of rows of `snapshot`."""
        return self.program.count(self.outputs[0] if name is None else name)

    @property
    def is_closed(self) -> bool:
        """True after `close`."""
        return self._follower is None

    def close(self) -> None:
        """End the subscription; unread changes can still be read."""
        if self._follower is not None:
            follower, self._follower = self._follower, None
            self._closed(follower, self)

    def _open(self) -> Follower:
        if self._follower is None:
            raise UsageError.wrong_state(
                "reading the answer", "the subscription is closed", "Subscribe again, or read it before close()."
            )
        return self._follower

    def put(self, change: ZSet) -> None:
        """Append an unread change."""
        self._unread.append(change)

"""A database of datoms, with transactions, queries and subscriptions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from functools import partial
from itertools import count
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast
from uuid import uuid4

import numpy as np

from gpu_wcoj.checkpoint.canonical import opened, sealed
from gpu_wcoj.checkpoint.checkpoint import folder_at
from gpu_wcoj.checkpoint.folder import Folder, WatchedFolder, write_whole
from gpu_wcoj.checkpoint.manifest import read_file
from gpu_wcoj.checkpoint.state import Run, read_rows, read_values, write_rows, write_values
from gpu_wcoj.data.column import Dictionary
from gpu_wcoj.datoms.pull import pull
from gpu_wcoj.datoms.schema import Attribute, Texts, attribute_name, code_of, read_forms, read_schema, read_schema_text
from gpu_wcoj.datoms.store import Bulk, Delta, Pairs, Report, Store
from gpu_wcoj.datoms.subscription import BoundQuery, Follower, Subscription
from gpu_wcoj.datoms.transaction import FormReader
from gpu_wcoj.engine.options import ProgramOptions
from gpu_wcoj.errors import (
    CheckpointDamagedError,
    CheckpointError,
    SchemaError,
    UnknownNameError,
    UsageError,
    entry_point,
    listed,
    nearest,
)
from gpu_wcoj.locks import NotCopied, StateLock
from gpu_wcoj.query.edn.pull import parse_pattern

T = TypeVar("T")

_CURRENT = "It stores the current datoms only: copy it with checkpoint and restore, or keep the reports of transact."
_ELSEWHERE = {
    **dict.fromkeys(("as_of", "since", "history", "tx_range", "log"), _CURRENT),
    "pull_many": "Call pull(pattern, entity) for each, or write (pull ?e [...]) in the :find of a query.",
    "touch": "Call entity(id).",
    **dict.fromkeys(("q", "find"), "Call query(text)."),
    "entid": "Call entity([attribute, value]), which has ':db/id'.",
    **dict.fromkeys(("with_", "db_with"), "Call transact on a copy, which checkpoint and restore make."),
    **dict.fromkeys(("listen", "on_change"), "Call subscribe(query)."),
}
"""Names of Datomic's and DataScript's interfaces, and what there is instead."""

_ids = count()
_retry = object()


@entry_point
class Database(NotCopied):
    """A database of facts as datoms: entity, attribute, value.

    Parameters
    ----------
    schema
        Properties of attributes: ``{":person/friend": {":db/valueType": ":db.type/ref", ":db/cardinality":
        ":db.cardinality/many"}}``, a list of maps with ``:db/ident``, or either as EDN text. An attribute without a
        type gets the type of its first value; an attribute without a cardinality has a single value.
    strict
        True to reject attributes that are not in the schema, in transactions and queries. Otherwise they have a single
        value of the type of the first one. A query with an attribute that occurs neither in the schema nor in a datom
        emits `gpu_wcoj.errors.UnknownAttributeWarning`, unless the database has no attributes yet.

    Raises
    ------
    SchemaError, EdnSyntaxError
        If the schema is invalid.

    Examples
    --------
    >>> many = {":db/valueType": ":db.type/ref", ":db/cardinality": ":db.cardinality/many"}
    >>> db = Database(schema={":g/to": many})
    >>> report = db.transact([[":db/add", 1, ":g/to", 2], {":db/id": 2, ":g/to": [3], ":name": "two"}])
    >>> report.rows()
    [((1, ':g/to', 2), 1), ((2, ':g/to', 3), 1), ((2, ':name', 'two'), 1)]
    >>> db.transact("[[:db/retractEntity 2]]").rows()
    [((1, ':g/to', 2), -1), ((2, ':g/to', 3), -1), ((2, ':name', 'two'), -1)]
    """

    def __init__(self, schema: Any = None, *, strict: bool = False) -> None:
        self.store = Store({}, strict)
        self._transaction = 0
        self.following: dict[Follower, list[Subscription]] = {}
        self._followers: dict[Any, Follower] = {}
        self._id, self._turns = next(_ids), StateLock("the database")
        if schema is not None:
            self.define(schema)

    def __repr__(self) -> str:
        return (
            f"Database({len(self):,} datoms, {len(self.store.attributes):,} attributes, "
            f"{self._transaction:,} transactions, {sum(map(len, self.following.values())):,} subscriptions)"
        )

    def __len__(self) -> int:
        return len(self.store)

    @property
    def transactions(self) -> int:
        """The number of transactions so far."""
        return self._transaction

    @property
    def nbytes(self) -> int:
        """Size of the columns of the datoms in bytes, without the state of subscriptions."""
        return self.store.nbytes

    @property
    def attributes(self) -> dict[str, str | None]:
        """The attributes and their types; None where the type is not yet known."""
        return {name: attribute.type for name, attribute in self.store.attributes.items()}

    def define(self, schema: Any) -> None:
        """Add attributes to the schema; present attributes cannot be changed.

        Examples
        --------
        >>> db = Database({":age": {":db/valueType": ":db.type/long"}}, strict=True)
        >>> db.define("{:name {:db/valueType :db.type/string}}")
        >>> db.attributes
        {':age': 'long', ':name': 'string'}
        """
        attributes = read_schema(read_schema_text(schema) if isinstance(schema, str) else schema)
        self._run_exclusively("defining attributes", partial(self._define, attributes))

    def _define(self, attributes: Mapping[str, Attribute]) -> None:
        for name, attribute in attributes.items():
            before = self.store.attributes.get(name)
            if before is not None and before != attribute:
                new, old = asdict(attribute), asdict(before)
                different = [part for part in new if new[part] != old[part]]
                got, present = (", ".join(f"{part}={each[part]!r}" for part in different) for each in (new, old))
                remedy = "Give the new attribute another name."
                raise SchemaError.mismatch(f"attribute '{name}'", "cannot be changed", got, present, remedy)
        self._commit(Delta({}, attributes, self.store.next_id), {}, counts=False)

    def transact(self, forms: Any) -> Report:
        """Apply a transaction atomically to the datoms and to all subscriptions.

        Parameters
        ----------
        forms
            A list, or a text in EDN, of ``[":db/add", e, a, v]``, ``[":db/retract", e, a, v]``, ``[":db/retract", e,
            a]``, ``[":db/retractEntity", e]`` and maps ``{":db/id": e, a: v}``. The order does not matter: retractions
            refer to the datoms before the transaction. An entity is an id from 0 on, a lookup reference ``[a, v]``, or
            a temporary id: a negative number or a text, which denotes a new entity, or the entity with the same value
            of a ``:db.unique/identity`` attribute.

        Raises
        ------
        TransactionError
            If a form is invalid, a value has another type than its attribute, or forms contradict each other. After
            any error the database and all subscriptions are as before.

        Examples
        --------
        >>> db = Database({":tag": {":db/cardinality": ":db.cardinality/many"}})
        >>> report = db.transact([{":db/id": "ann", ":name": "Ann", ":tag": ["a", "b"]}])
        >>> report.tempids, report.transaction
        ({'ann': 1}, 1)
        >>> db.transact([[":db/add", 1, ":name", "Anna"], [":db/add", 1, ":tag", "a"]]).rows()
        [((1, ':name', 'Ann'), -1), ((1, ':name', 'Anna'), 1)]
        """
        return self._run_exclusively("a transaction", lambda: self._transact(forms))

    def _transact(self, forms: Any) -> Report:
        from gpu_wcoj.datoms.transaction import resolve_transaction

        sizes = self.store.texts.sizes
        try:
            point_at = None
            if isinstance(forms, str):
                forms, point_at = read_forms(forms)
            reader = FormReader(self.store, point_at)
            done = resolve_transaction(self.store, reader, reader.read(forms))
            return self._commit(done.delta, done.tempids)
        except BaseException:
            self.store.texts.truncate(sizes)
            raise

    def load(self, *, entity: Any, attribute: Any, value: Any) -> Report:
        """Add many datoms from columns in a single transaction.

        Parameters
        ----------
        entity
            Entity ids: an array, a list, or an Arrow array.
        attribute
            A single attribute, or one per datom.
        value
            The values, all of the same type. Instants are Arrow or Python values, because NumPy times have no time
            zone. UUIDs are Python or Arrow values or, for an attribute of type uuid, texts.

        Raises
        ------
        TransactionError, SchemaError
            As for `transact`.

        Examples
        --------
        >>> db = Database()
        >>> len(db.load(entity=[1, 2, 3], attribute=":age", value=[30, 31, 32]))
        3
        >>> db.load(entity=[1, 2], attribute=":age", value=[30, 40]).rows()
        [((2, ':age', 31), -1), ((2, ':age', 40), 1)]
        """

        def load() -> Report:
            sizes = self.store.texts.sizes
            try:
                return self._commit(Bulk(self.store).delta(entity, attribute, value), {})
            except BaseException:
                self.store.texts.truncate(sizes)
                raise

        return self._run_exclusively("a transaction", load)

    def subscribe(self, query: Any, *inputs: Any, **options: Any) -> Subscription:
        """Subscribe to the answer of a query.

        The first change is the present answer, followed by one change per transaction.

        Parameters
        ----------
        query
            EDN text, or the same as Python data.
        inputs
            Arguments of ``:in`` after ``$``: values, collections, tuples, lists of tuples; text of rules for ``%``; for
            ``$name`` a table (Arrow, Polars, pandas, NumPy or a Z-set) or another database, whose transactions also
            update the answer.
        options
            Options of the `Program` that maintains the answer, such as ``backend``, ``keep`` or ``strategy``.

        Raises
        ------
        EdnSyntaxError, UnsupportedError
            If the query cannot be read or is not supported; with line and column.

        Examples
        --------
        >>> db = Database()
        >>> live = db.subscribe("[:find ?name :where [?e :name ?name] [?e :age ?age] [(< ?age 40)]]")
        >>> report = db.transact([{":db/id": 1, ":name": "Ann", ":age": 39}])
        >>> report = db.transact([[":db/add", 1, ":age", 40]])
        >>> [change.rows() for change in live.changes()]
        [[], [(('Ann',), 1)], [(('Ann',), -1)]]
        """
        program_options = _program_options(options)
        return self._run_exclusively("subscribing", lambda: self._subscribe(query, inputs, program_options), inputs)

    def _subscribe(self, query: Any, inputs: tuple[Any, ...], options: ProgramOptions) -> Subscription:
        key = _query_key(query, inputs, options)
        follower = self._followers.get(key) if key is not None else None
        if follower is None:
            follower = Follower(BoundQuery(self, query, inputs), options)
            follower.refuse_pulls()
            first = follower.first
            if key is not None:
                self._followers[key] = follower
        else:
            first = follower.answer
        subscription = Subscription(follower, first, self._unsubscribe)
        for database in follower.bound_query.databases:
            database.following.setdefault(follower, []).append(subscription)
        return subscription

    def query(self, query: Any, *inputs: Any, **options: Any) -> Any:
        """Return the answer of a query once; see `subscribe`.

        Returns
        -------
        The answer in the shape of ``:find``; see `Subscription.answer`.

        Examples
        --------
        >>> db = Database()
        >>> report = db.transact([{":db/id": 1, ":name": "Ann"}, {":db/id": 2, ":name": "Bob"}])
        >>> sorted(db.query("[:find [?name ...] :where [_ :name ?name]]"))
        ['Ann', 'Bob']
        """
        program_options = _program_options(options)

        def answer() -> Any:
            follower = Follower(BoundQuery(self, query, inputs), program_options)
            return follower.shape_answer(follower.first)

        return self._run_exclusively("a query", answer, inputs)

    def datoms(self, entity: Any = None, attribute: str | None = None) -> list[tuple[int, str, Any]]:
        """Return datoms as rows of entity, attribute and value, by attribute, entity and value.

        Parameters
        ----------
        entity
            An id or a lookup reference ``[a, v]``, for the datoms of one entity.
        attribute
            The name of an attribute, for its datoms only.

        Examples
        --------
        >>> db = Database()
        >>> report = db.transact([{":db/id": 1, ":name": "Ann", ":age": 30}, {":db/id": 2, ":name": "Bob"}])
        >>> db.datoms(attribute=":name")
        [(1, ':name', 'Ann'), (2, ':name', 'Bob')]
        """

        def read() -> list[tuple[int, str, Any]]:
            if attribute is not None:
                _ = self.store.attribute(attribute)
            return self.store.rows(None if entity is None else self._entity_id(entity), attribute)

        return self._run_exclusively("reading datoms", read)

    def entity(self, entity: Any) -> dict[str, Any]:
        """Return the attributes of an entity with their values, and ``:db/id``.

        Attributes with several values have a list of them. References are ids.

        Parameters
        ----------
        entity
            An id or a lookup reference ``[a, v]``.

        Examples
        --------
        >>> db = Database(schema={":to": {":db/valueType": ":db.type/ref", ":db/cardinality": ":db.cardinality/many"}})
        >>> report = db.transact([{":db/id": 1, ":name": "Ann", ":to": [2, 3]}])
        >>> db.entity(1)
        {':db/id': 1, ':name': 'Ann', ':to': [2, 3]}
        """

        def read() -> dict[str, Any]:
            entity_id = self._entity_id(entity)
            found: dict[str, Any] = {":db/id": entity_id}
            for _, name, value in self.store.rows(entity_id, None):
                if self.store.attribute(name).many:
                    found.setdefault(name, []).append(value)
                else:
                    found[name] = value
            return found

        return self._run_exclusively("reading an entity", read)

    def pull(self, pattern: Any, entity: Any) -> dict[Any, Any] | None:
        r"""Return attributes of an entity, and of entities behind them, as nested maps.

        Parameters
        ----------
        pattern
            EDN text, or the same as Python data: a vector of attributes, ``*``, reversed attributes (``:to/_x``) and
            maps from an attribute to the pattern of the entities that it refers to, to a number of levels, or to
            ``...``. An attribute with the options ``:as``, ``:limit`` and ``:default`` is a vector, as
            ``[:name :as "n"]``.
        entity
            An id or a lookup reference ``[a, v]``.

        Returns
        -------
        dict or None
            References are maps with ``:db/id``, or with what the pattern reads of them; attributes with several values
            have a list of all of them. None if the entity has nothing of the pattern.

        Raises
        ------
        EdnSyntaxError, UnsupportedError
            If the pattern is invalid.

        Examples
        --------
        >>> db = Database(schema={":to": {":db/valueType": ":db.type/ref", ":db/cardinality": ":db.cardinality/many"}})
        >>> report = db.transact([{":db/id": 1, ":name": "Ann", ":to": [{":db/id": 2, ":name": "Bob"}]}])
        >>> db.pull("[:name {:to [:name]}]", 1)
        {':name': 'Ann', ':to': [{':name': 'Bob'}]}
        >>> db.query("[:find (pull ?e [:name {:_to [:db/id]}]) . :where [?e :name \"Bob\"]]")
        {':name': 'Bob', ':_to': [{':db/id': 1}]}
        """
        read = parse_pattern(pattern)
        return self._run_exclusively("pulling", lambda: pull(self.store, read, self._entity_id(entity)))

    if not TYPE_CHECKING:  # a type checker shall report such names

        def __getattr__(self, name: str) -> Any:
            public = [public for public in dir(type(self)) if not public.startswith("_")]
            remedy = _ELSEWHERE.get(name, f"Public names are: {listed(public)}.{nearest(name, public)}")
            raise UnknownNameError.with_parts(f"a database has no '{name}'", got=name, remedy=remedy)

    def _entity_id(self, entity: Any) -> int:
        """Return the id of an entity that is named by its id or a lookup reference."""
        if type(entity) is int:
            return entity
        name = attribute_name(entity[0]) if isinstance(entity, (list, tuple)) and len(entity) == 2 else None
        attribute = None if name is None else self.store.attribute(name)
        if attribute is None or attribute.unique is None or attribute.type is None:
            allowed = "an id, or a lookup reference [attribute, value] of an attribute with ':db/unique'"
            raise UsageError.invalid_value("the entity", entity, allowed)
        texts, sizes = self.store.texts, self.store.texts.sizes
        try:
            entities = self.store.entities(attribute.name, code_of(attribute.type, entity[1], texts))
        finally:
            texts.truncate(sizes)
        if not entities:
            raise UsageError.with_parts(
                f"no entity has the value {entity[1]!r:.80} of '{name}'", subject="the entity", got=entity
            )
        return entities[0]

    def checkpoint(self, path: str | PathLike[str]) -> None:
        """Write all datoms to a folder atomically, and replace a database in it.

        Raises
        ------
        CheckpointError
            If the folder contains other files, or another process writes to it.
        CheckpointWriteError
            If a file cannot be written.

        Examples
        --------
        >>> import tempfile
        >>> db = Database()
        >>> report = db.transact([{":db/id": 1, ":name": "Ann"}])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     db.checkpoint(folder)
        ...     again = Database.restore(folder)
        >>> again.transact([[":db/retract", 1, ":name"]]).rows()
        [((1, ':name', 'Ann'), -1)]
        """
        self._run_exclusively("storing the datoms", lambda: write_database(self.store, self._transaction, path))

    @classmethod
    def restore(cls, path: str | PathLike[str]) -> Database:
        """Read a database from a folder; subscriptions are not stored.

        Raises
        ------
        CheckpointError
            If the folder has no database, or a file is damaged.
        """
        database = cls()
        database.store, database._transaction = read_database(path)
        return database

    # Transactions.

    def _run_exclusively(self, doing: str, work: Callable[[], T], inputs: Iterable[Any] = ()) -> T:
        """Run `work` with locks on this database, its inputs and all connected databases."""
        databases = [self, *(database for database in inputs if isinstance(database, Database))]
        while True:
            connected = self._connected_databases(databases)

            def checked(connected: list[Database] = connected) -> Any:
                return work() if self._connected_databases(databases) == connected else _retry

            run: Callable[[], Any] = checked
            for database in reversed(connected):  # the order is global, which avoids deadlocks
                run = partial(database._turns.run, doing, run)
            result = run()
            if result is not _retry:
                return cast(T, result)

    def _commit(self, delta: Delta, tempids: Mapping[int | str, int], *, counts: bool = True) -> Report:
        """Apply a change atomically to the store and all subscriptions."""
        store = self.store
        attributes = {**store.attributes, **delta.attributes} if delta.attributes else store.attributes
        types = {name: attributes[name].type or "" for name in delta.parts}
        report = Report(self._transaction + 1, dict(tempids), delta.parts, types, store.texts)
        followers = [follower for follower in self.following if follower.compiled.is_concerned(delta)]
        before = [(follower, follower.state()) for follower in followers]
        try:
            changes = {follower: follower.process(self, delta) for follower in followers}
            store.apply(delta)
        except BaseException:
            for follower, state in before:
                follower.return_to(state)
            raise
        if counts:
            self._transaction += 1
            for follower, subscriptions in self.following.items():
                change = changes[follower] if follower in changes else follower.no_change  # noqa: SIM401  # on demand
                for subscription in subscriptions:
                    subscription.put(change)
        return report

    @staticmethod
    def _connected_databases(databases: Iterable[Database]) -> list[Database]:
        """Return the databases, and all databases that share a subscription with them."""
        connected = {*databases}
        for database in databases:
            for follower in list(database.following):
                connected.update(source for source in follower.bound_query.databases if isinstance(source, Database))
        return sorted(connected, key=lambda database: database._id)

    def _unsubscribe(self, follower: Follower, subscription: Subscription) -> None:
        self._run_exclusively("closing a subscription", lambda: self._remove_subscription(follower, subscription))

    def _remove_subscription(self, follower: Follower, subscription: Subscription) -> None:
        for database in follower.bound_query.databases:
            remaining = [
                other_subscription
                for other_subscription in database.following[follower]
                if other_subscription is not subscription
            ]
            if remaining:
                database.following[follower] = remaining
            else:
                del database.following[follower]
        if follower not in self.following:
            self._followers = {
                key: other_follower for key, other_follower in self._followers.items() if other_follower is not follower
            }


def _program_options(options: Mapping[str, Any]) -> ProgramOptions:
    """Return the options of a query's program, which do not include its inputs and outputs."""
    for name in ("outputs", "schema", "inputs", "functions"):
        if name in options:
            raise UsageError.unsupported(f"the option '{name}' for a query of datoms", remedy="Leave it out.")
    return ProgramOptions.from_keywords(**options)


def _query_key(query: Any, inputs: tuple[Any, ...], options: ProgramOptions) -> Any:
    """Return a key by which equal queries share a follower; None if they cannot."""
    hashable = (str, int, float, bool, type(None))
    if not isinstance(query, str) or not all(type(value) in hashable for value in inputs):
        return None
    try:
        hash(options)
    except TypeError:  # a mapping among the values
        return None
    return query, options, tuple((type(value), value) for value in inputs)


# Persistence of databases in folders; each write is complete and atomic.
#
# A version consists of three Parquet files (datoms, texts, bytes) and a sealed file that names them, which is written
# last. The previous version is removed after the new version is complete.


_LOCK = "lock"
_VERSION = re.compile(r"datoms-(\d{12})\.json")
_FILE_NAME = re.compile(r"datoms-\d{12}(\.json|-[0-9a-f]{32}\.(json|parquet))|lock")
_FORMAT_VERSION = 1
"""Format version of the sealed file. Files with another version are rejected."""


def write_database(store: Store, transaction: int, path: str | PathLike[str]) -> None:
    """Write a database to a folder, and replace a database in it.

    Raises
    ------
    CheckpointError
        If the folder contains other files, or another process writes to it.
    CheckpointWriteError
        If a file cannot be written.
    """
    folder = WatchedFolder(folder_at(path))
    folder.prepare()
    names = _names(folder)
    if not folder.lock(_LOCK):
        raise CheckpointError(
            f"the folder '{path}' is locked by another process.\n  Wait for it, or use another folder."
        )
    try:
        version = 1 + max((int(match[1]) for match in map(_VERSION.fullmatch, names) if match), default=0)
        content = _write_files(store, folder, version) | {"format": _FORMAT_VERSION, "transaction": transaction}
        temporary = _file_name(version, "json")
        write_whole(folder.create(temporary), sealed(content))
        folder.publish(temporary, f"datoms-{version:012}.json")
        folder.sync()
        for name in {*names, temporary} - {_LOCK}:
            folder.remove(name)
    finally:
        folder.unlock()


def _names(folder: Folder) -> list[str]:
    names = folder.names()
    for name in names:
        if not _FILE_NAME.fullmatch(name):
            raise CheckpointError(
                f"the folder '{folder.shown('.')}' contains '{name}', which does not belong to a database.\n"
                "  Use another folder."
            )
    return names


def _file_name(version: int, suffix: str) -> str:
    return f"datoms-{version:012}-{uuid4().hex}.{suffix}"


def _write_files(store: Store, folder: Folder, version: int) -> dict[str, Any]:
    attributes = list(store.attributes.values())
    columns = [store.pairs(attribute.name).columns() for attribute in attributes]
    lengths = [len(entity) for entity, _ in columns]
    rows = [
        np.repeat(np.arange(len(attributes)), lengths),
        *(np.concatenate([np.empty(0, np.int64), *(pair[i] for pair in columns)]) for i in range(2)),
    ]
    datoms = write_rows(folder, _file_name(version, "parquet"), rows, np.ones(len(rows[0]), np.int64))
    dictionaries = {}
    for dictionary in (store.texts.string, store.texts.binary):
        values = dictionary.decode(np.arange(len(dictionary)))
        dictionaries[dictionary.kind] = write_values(folder, _file_name(version, "parquet"), values, 0).to_json()
    return {
        "attributes": [asdict(attribute) for attribute in attributes],
        "datoms": datoms.to_json(),
        "next_id": store.next_id,
        "strict": store.strict,
        "values": dictionaries,
    }


def read_database(path: str | PathLike[str]) -> tuple[Store, int]:
    """Read the store of a database from a folder, and its number of transactions.

    Raises
    ------
    CheckpointError
        If the folder has no database, or a file is damaged.
    """
    folder = WatchedFolder(folder_at(path))
    names = sorted(name for name in _names(folder) if _VERSION.fullmatch(name))
    if not names:
        raise CheckpointError(f"the folder '{path}' has no database.")
    content = opened(read_file(folder, names[-1]), folder.shown(names[-1]))
    if content["format"] != _FORMAT_VERSION:
        raise CheckpointError.mismatch(
            f"the database in '{path}'", "has an unsupported format version", content["format"], _FORMAT_VERSION
        )
    texts = Texts(*(_values(folder, Run(**content["values"][kind]), kind) for kind in ("string", "binary")))
    attributes = [Attribute(**attribute) for attribute in content["attributes"]]
    store = Store({attribute.name: attribute for attribute in attributes}, content["strict"], texts, content["next_id"])
    (attribute_ids, entity, code), _ = read_rows(folder, Run(**content["datoms"]), 3)
    ends = attribute_ids.searchsorted(np.arange(len(attributes)), "right")
    for attribute, begin, end in zip(attributes, [0, *ends][: len(ends)], ends, strict=True):
        if end > begin:
            pairs = Pairs()
            pairs.replace((entity[begin:end], code[begin:end]))
            store.set_pairs(attribute.name, pairs)
    return store, content["transaction"]


def _values(folder: Folder, run: Run, kind: Literal["string", "binary"]) -> Dictionary:
    dictionary = Dictionary(kind)
    codes = dictionary.encode(read_values(folder, run, kind))
    if codes.tolist() != list(range(run.rows)):
        raise CheckpointDamagedError(folder.shown(run.file), "has a value twice")
    return dictionary

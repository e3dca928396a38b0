"""A database of datoms: transactions change it, subscriptions follow it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import count
from os import PathLike, fspath
from typing import Any, TypeVar, cast

from gpu_wcoj.datoms.bulk import Bulk
from gpu_wcoj.datoms.edn import forms_of, schema_of
from gpu_wcoj.datoms.follower import Follower
from gpu_wcoj.datoms.forms import Forms
from gpu_wcoj.datoms.question import Question
from gpu_wcoj.datoms.report import Report
from gpu_wcoj.datoms.schema import Attribute, read_schema
from gpu_wcoj.datoms.store import Delta, Store
from gpu_wcoj.datoms.subscription import Subscription
from gpu_wcoj.errors import SchemaError, entry_point
from gpu_wcoj.turns import NotCopied, Turns

T = TypeVar("T")

_numbers = count()
_again = object()


@entry_point
class Database(NotCopied):
    """Facts as datoms: entity, attribute, value.

    Parameters
    ----------
    schema
        What is known of attributes, ``{":person/friend": {":db/valueType": ":db.type/ref", ":db/cardinality":
        ":db.cardinality/many"}}``, a list of maps that have ``:db/ident``, or either as a text in EDN. An attribute
        without a type has that of its first value, one without a cardinality has one value.
    strict
        Whether attributes that the schema does not name are refused, in transactions and in queries. Otherwise they
        have one value, of the type of the first one, and a query that asks for one that has no datoms either gives an
        `gpu_wcoj.errors.UnknownAttributeWarning`, unless the database has no attributes yet.

    Raises
    ------
    SchemaError, EdnSyntaxError
        If the schema is none.

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
        self._by_question: dict[Any, Follower] = {}
        self._number, self._turns = next(_numbers), Turns("the database")
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
        """How many there have been."""
        return self._transaction

    @property
    def nbytes(self) -> int:
        """Bytes that the datoms' columns take; what subscriptions keep is theirs."""
        return self.store.nbytes

    @property
    def attributes(self) -> dict[str, str | None]:
        """The attributes and their types; None where no value has shown it yet."""
        return {name: one.type for name, one in self.store.attributes.items()}

    def define(self, schema: Any) -> None:
        """Add attributes to the schema; those that are there must be as they are.

        Examples
        --------
        >>> db = Database({":age": {":db/valueType": ":db.type/long"}}, strict=True)
        >>> db.define("{:name {:db/valueType :db.type/string}}")
        >>> db.attributes
        {':age': 'long', ':name': 'string'}
        """
        found = read_schema(schema_of(schema) if isinstance(schema, str) else schema)
        self._alone("defining attributes", partial(self._define, found))

    def _define(self, found: Mapping[str, Attribute]) -> None:
        for name, one in found.items():
            before = self.store.attributes.get(name)
            if before is not None and before != one:
                raise SchemaError(f"attribute '{name}' is {before}, and cannot become {one}.")
        self._take(Delta({}, found, self.store.next_id), {}, counts=False)

    def transact(self, forms: Any) -> Report:
        """Change datoms, all or nothing, and all subscriptions with them.

        Parameters
        ----------
        forms
            A list, or a text in EDN, of ``[":db/add", e, a, v]``, ``[":db/retract", e, a, v]``, ``[":db/retract", e,
            a]``, ``[":db/retractEntity", e]`` and maps ``{":db/id": e, a: v}``. It has no order: what is retracted is
            what stood before. An entity is an id from 0 on, a lookup reference ``[a, v]``, or a temporary id: a
            negative number or a text, which stands for a new entity, or for the one that has the same value of an
            attribute whose values are identities.

        Raises
        ------
        TransactionError
            If a form is none, a value is of another type than its attribute's, or forms contradict each other. The
            database and all subscriptions are as before, whatever is raised.

        Examples
        --------
        >>> db = Database({":tag": {":db/cardinality": ":db.cardinality/many"}})
        >>> report = db.transact([{":db/id": "ann", ":name": "Ann", ":tag": ["a", "b"]}])
        >>> report.tempids, report.transaction
        ({'ann': 1}, 1)
        >>> db.transact([[":db/add", 1, ":name", "Anna"], [":db/add", 1, ":tag", "a"]]).rows()
        [((1, ':name', 'Ann'), -1), ((1, ':name', 'Anna'), 1)]
        """
        return self._alone("a transaction", lambda: self._transact(forms))

    def _transact(self, forms: Any) -> Report:
        from gpu_wcoj.datoms.transaction import resolved

        sizes = self.store.texts.sizes
        try:
            at = None
            if isinstance(forms, str):
                forms, at = forms_of(forms)
            reader = Forms(self.store, at)
            done = resolved(self.store, reader, reader.read(forms))
            return self._take(done.delta, done.tempids)
        except BaseException:
            self.store.texts.truncate(sizes)
            raise

    def load(self, *, entity: Any, attribute: Any, value: Any) -> Report:
        """Add many datoms in one transaction, by the column.

        Parameters
        ----------
        entity
            Entity ids: an array, a list, or an Arrow array.
        attribute
            One attribute, or one for each datom.
        value
            The values, all of one type; NumPy's times have no zone, so instants come as Arrow's or Python's. UUIDs
            come as Python's or Arrow's or, for an attribute of that type, as texts.

        Raises
        ------
        TransactionError, SchemaError
            As `transact` does.

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
                return self._take(Bulk(self.store).delta(entity, attribute, value), {})
            except BaseException:
                self.store.texts.truncate(sizes)
                raise

        return self._alone("a transaction", load)

    def subscribe(self, query: Any, *inputs: Any, **options: Any) -> Subscription:
        """Follow the answer of a query: its first change is the present answer, then there is one per transaction.

        Parameters
        ----------
        query
            A text in EDN, or the same as Python's data.
        inputs
            What ``:in`` binds after ``$``: values, collections, tuples, lists of tuples, rules for ``%`` as text; for
            ``$name`` a table (of Arrow, Polars, pandas, NumPy; a Z-set), or another database, whose transactions the
            subscription follows, too.
        options
            Of the `Program` that keeps the answer, such as ``backend``, ``keep`` or ``strategy``.

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
        return self._alone("subscribing", lambda: self._subscribe(query, inputs, options), inputs)

    def _subscribe(self, query: Any, inputs: tuple[Any, ...], options: dict[str, Any]) -> Subscription:
        key = _key(query, inputs, options)
        follower = self._by_question.get(key) if key is not None else None
        if follower is None:
            follower = Follower(Question(self, query, inputs), options)
            first = follower.first
            if key is not None:
                self._by_question[key] = follower
        else:
            first = follower.answer
        subscription = Subscription(follower, first, self._closed)
        for database in follower.question.databases:
            database.following.setdefault(follower, []).append(subscription)
        return subscription

    def query(self, query: Any, *inputs: Any, **options: Any) -> Any:
        """The answer of a query, once; see `subscribe`.

        Returns
        -------
        As ``:find`` says; see `Subscription.answer`.

        Examples
        --------
        >>> db = Database()
        >>> report = db.transact([{":db/id": 1, ":name": "Ann"}, {":db/id": 2, ":name": "Bob"}])
        >>> sorted(db.query("[:find [?name ...] :where [_ :name ?name]]"))
        ['Ann', 'Bob']
        """

        def answer() -> Any:
            follower = Follower(Question(self, query, inputs), options)
            return follower.shaped(follower.first)

        return self._alone("a query", answer, inputs)

    def checkpoint(self, path: str | PathLike[str]) -> None:
        """Write all datoms to a folder, all or nothing, in the place of what it had of a database.

        Raises
        ------
        CheckpointError
            If the folder has something else, or another process writes to it.
        CheckpointWriteError
            If it cannot be written.

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
        from gpu_wcoj.datoms.keeping import keep

        self._alone("storing the datoms", lambda: keep(self.store, self._transaction, fspath(path)))

    @classmethod
    def restore(cls, path: str | PathLike[str]) -> Database:
        """The database that a folder has; subscriptions are made anew.

        Raises
        ------
        CheckpointError
            If there is none, or a file is damaged.
        """
        from gpu_wcoj.datoms.keeping import kept

        database = cls()
        database.store, database._transaction = kept(fspath(path))
        return database

    # One transaction.

    def _alone(self, doing: str, work: Callable[[], T], inputs: Iterable[Any] = ()) -> T:
        """Work while nobody works on this database, an input, or a database that shares a subscription with them."""
        given = [self, *(one for one in inputs if isinstance(one, Database))]
        while True:
            concerned = self._sharing(given)

            def checked(concerned: list[Database] = concerned) -> Any:
                return work() if self._sharing(given) == concerned else _again

            run: Callable[[], Any] = checked
            for one in reversed(concerned):  # the order is the same for all, so nobody waits for each other
                run = partial(one._turns.run, doing, run)
            found = run()
            if found is not _again:
                return cast(T, found)

    def _take(self, delta: Delta, tempids: Mapping[int | str, int], *, counts: bool = True) -> Report:
        """Let the store and all subscriptions have a change, or none of them."""
        store = self.store
        known = {**store.attributes, **delta.attributes} if delta.attributes else store.attributes
        types = {name: known[name].type or "" for name in delta.parts}
        report = Report(self._transaction + 1, dict(tempids), delta.parts, types, store.texts)
        concerned = [one for one in self.following if one.compiled.is_concerned(delta)]
        before = [(one, one.state()) for one in concerned]
        try:
            changes = {one: one.take(self, delta) for one in concerned}
            store.take(delta)
        except BaseException:
            for one, state in before:
                one.return_to(state)
            raise
        if counts:
            self._transaction += 1
            for one, subscriptions in self.following.items():
                change = changes[one] if one in changes else one.no_change  # noqa: SIM401  # made only where it is needed
                for subscription in subscriptions:
                    subscription.put(change)
        return report

    @staticmethod
    def _sharing(given: Iterable[Database]) -> list[Database]:
        """Those databases, and all that one of their subscriptions follows, too."""
        found = {*given}
        for database in given:
            for follower in list(database.following):
                found.update(one for one in follower.question.databases if isinstance(one, Database))
        return sorted(found, key=lambda one: one._number)

    def _closed(self, follower: Follower, subscription: Subscription) -> None:
        self._alone("closing a subscription", lambda: self._without(follower, subscription))

    def _without(self, follower: Follower, subscription: Subscription) -> None:
        for database in follower.question.databases:
            rest = [one for one in database.following[follower] if one is not subscription]
            if rest:
                database.following[follower] = rest
            else:
                del database.following[follower]
        if follower not in self.following:
            self._by_question = {key: one for key, one in self._by_question.items() if one is not follower}


def _key(query: Any, inputs: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
    """What tells a question from others; None where it cannot be told."""
    plain = (str, int, float, bool, type(None))
    values = (*inputs, *options.values())
    if not isinstance(query, str) or not all(type(one) in plain for one in values):
        return None
    return query, tuple(options), tuple((type(one), one) for one in values)

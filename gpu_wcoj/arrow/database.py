"""An in-memory DuckDB that reads only the tables that are passed to it."""

from __future__ import annotations

import json
import os
import shutil
import threading
import weakref
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import mkdtemp
from typing import Any
from weakref import WeakSet

import pyarrow as pa
import pyarrow.compute as pc

from gpu_wcoj.arrow.read import as_arrow
from gpu_wcoj.arrow.table import as_read, collected
from gpu_wcoj.budget import reserve
from gpu_wcoj.errors import BackendUnavailableError, UnsupportedTypeError

BATCH_ROWS = 65_536
"""Rows of an answer that are fetched at a time, between two looks at their number; not measured."""
_INT64 = (-(1 << 63), (1 << 63) - 1)
_WIDE = ("HUGEINT", "UHUGEINT")
"""DuckDB's integers of 128 bits, which are decimals in Arrow."""


class StatementError(Exception):
    """DuckDB cannot run a statement.

    Attributes
    ----------
    kind
        The kind of the error in DuckDB's words: ``Binder``, ``Catalog``, ``Conversion``, ...
    subtype
        A more precise kind, or an empty string.
    name
        The name at fault, or an empty string.
    span
        Position and width of the fault in the text of the statement; None if unknown.
    """

    def __init__(self, kind: str, message: str, subtype: str, name: str, span: tuple[int, int] | None) -> None:
        super().__init__(message)
        self.kind, self.message, self.subtype, self.name, self.span = kind, message, subtype, name, span


class TooManyRowsError(Exception):
    """An answer has more rows than are allowed."""


@dataclass(frozen=True)
class Settings:
    """Settings of a database.

    Attributes
    ----------
    threads
        The number of threads; None for all processors.
    memory
        Maximum bytes, beyond which DuckDB writes to the folder of temporary files; None for DuckDB's default.
    divides_integers
        Whether ``/`` of integers is an integer.
    """

    threads: int | None = None
    memory: int | None = None
    divides_integers: bool = False


def connect(feature: str, config: Mapping[str, Any]) -> Any:
    """Return a connection to an empty database in memory.

    It has no files, no network, no extensions and no Python variables, and statements cannot change its
    configuration. It prints nothing. Times with a zone are in UTC, whatever the zone of the machine is.

    Parameters
    ----------
    feature
        What needs DuckDB, for a message.
    config
        Further options of DuckDB.

    Raises
    ------
    BackendUnavailableError
        If DuckDB is not installed.
    """
    try:
        import duckdb
    except ImportError:
        raise BackendUnavailableError.missing_package(feature, "duckdb", "sql") from None
    closed = (
        "enable_external_access", "autoinstall_known_extensions", "autoload_known_extensions",
        "python_enable_replacements",
    )  # fmt: skip
    connection = duckdb.connect(":memory:", config=dict.fromkeys(closed, "false") | dict(config))
    _connections.add(connection)
    for statement in ("SET TimeZone = 'UTC'", "SET enable_progress_bar = false", "SET lock_configuration = true"):
        _ = connection.execute(statement)
    return connection


# To close a connection waits for DuckDB's threads, which a forked process lacks. It keeps its parent's connections for
# ever: also those that only the parent's other threads refer to, which are gone before `after_in_child` is called.
_connections: WeakSet[Any] = WeakSet()
_kept: list[Any] = []


def _keep_in_child() -> None:
    import ctypes

    for connection in _kept:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=lambda: _kept.extend(_connections), after_in_parent=_kept.clear, after_in_child=_keep_in_child
    )


class Database:
    """A database of the tables that are registered; see `connect`.

    Raises
    ------
    BackendUnavailableError
        If DuckDB is not installed.

    Examples
    --------
    >>> database = Database(Settings(threads=1))
    >>> database.register("t", pa.table({"a": [3, 1]}))
    >>> database.answer("SELECT max(a) AS m FROM t").to_pydict()
    {'m': [3]}
    """

    def __init__(self, settings: Settings) -> None:
        try:
            folder = mkdtemp(prefix="gpu_wcoj-duckdb-")  # which no other user can read
        except OSError:  # no file system that can be written: DuckDB keeps all in memory
            folder = ""
        self._remove_folder = weakref.finalize(self, _remove, folder, os.getpid())
        config: dict[str, Any] = {
            "integer_division": str(settings.divides_integers).lower(), "errors_as_json": "true",
            "temp_directory": folder,
        }  # fmt: skip
        if settings.threads is not None:
            config["threads"] = settings.threads
        if settings.memory is not None:
            config["memory_limit"] = f"{settings.memory}B"
        self._connection = connect("this part of the query", config)
        import duckdb

        self._error = duckdb.Error

    def close(self) -> None:
        """Free the tables, and remove temporary files."""
        self._connection.close()
        _ = self._remove_folder()

    def register(self, name: str, table: pa.Table) -> None:
        """Add a table of Arrow, which is not copied.

        Raises
        ------
        StatementError
            If DuckDB does not read one of its types.
        """
        try:
            _ = self._connection.register(name, table)
        except self._error as error:
            raise _statement_error(error, 0) from None

    def create(self, name: str, statement: str, seconds: float | None = None) -> None:
        """Add a table of the answer of a statement."""
        with self._limited(seconds):
            _ = self._connection.execute(f"CREATE TABLE {quoted(name)} AS {statement}")

    def columns(self, statement: str) -> list[str]:
        """Return the names of the columns of a statement, which does not run.

        Raises
        ------
        StatementError
            If names are unknown, or types do not fit.
        """
        try:
            return [str(row[0]) for row in self._connection.execute(f"DESCRIBE {statement}").fetchall()]
        except self._error as error:
            raise _statement_error(error, len("DESCRIBE ")) from None

    def register_answer(self, name: str, table: pa.Table, statement: str) -> pa.Table:
        """Add a table of the engine's answer to a statement, with DuckDB's types.

        A column whose values do not fit the type keeps its own.

        Returns
        -------
        pa.Table
            The rows with Arrow's types.
        """
        try:
            relation = self._connection.sql(statement)
            table = cast_back(table, relation.limit(0).to_arrow_table().schema)
            wide = {column: str(kind) for column, kind in zip(table.column_names, relation.types, strict=True)}
        except self._error:
            wide = {}
        casts = [
            f"CAST({quoted(column)} AS {kind}) AS {quoted(column)}" for column, kind in wide.items() if kind in _WIDE
        ]
        if not casts:  # Arrow has the types
            self.register(name, table)
            return table
        self.register(rows := f"rows of {name}", table)
        _ = self._connection.execute(
            f"CREATE TEMP VIEW {quoted(name)} AS SELECT * REPLACE ({', '.join(casts)}) FROM {quoted(rows)}"
        )
        return table

    def answer(self, statement: str, seconds: float | None = None, limit: int | None = None) -> pa.Table:
        """Return the answer of a statement.

        Integers of 128 bits are int64 if all of them fit.

        Parameters
        ----------
        seconds
            Maximum seconds.
        limit
            Maximum rows.

        Raises
        ------
        StatementError
            If the statement fails.
        TimeoutError
            If it takes longer.
        TooManyRowsError
            If it has more rows.
        """
        with self._limited(seconds):
            relation = self._connection.sql(statement)
            reader = relation.to_arrow_reader(BATCH_ROWS)
            batches, n_rows = [], 0
            for batch in reader:
                n_rows += len(batch)
                if limit is not None and n_rows > limit:
                    raise TooManyRowsError
                reserve(batch.nbytes, "reading from DuckDB", n_rows)
                batches.append(batch)
            table = pa.Table.from_batches(batches, reader.schema)
            wide = [position for position, kind in enumerate(relation.types) if str(kind) in _WIDE]
            return _narrowed(table, wide)

    @contextmanager
    def _limited(self, seconds: float | None) -> Generator[None]:
        """Interrupt what runs in the context after some seconds; errors are those of `answer`."""
        timer = None if seconds is None else threading.Timer(max(seconds, 0), self._connection.interrupt)
        if timer is not None:
            timer.daemon = True
            timer.start()
        try:
            yield
        except (self._error, pa.ArrowException) as error:
            if timer is not None and "nterrupted" in str(error):
                raise TimeoutError from None
            raise _statement_error(error, 0) from None
        finally:
            if timer is not None:
                timer.cancel()


def _remove(folder: str, process: int) -> None:
    """Remove a folder, unless this process is a child of the one that uses it."""
    if folder and os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def _narrowed(table: pa.Table, positions: list[int]) -> pa.Table:
    """Return the table with integers of 128 bits as int64 where all of a column fit."""
    for position in positions:
        column = table.column(position)
        bounds = pc.min_max(column).as_py()
        if bounds["min"] is None or (bounds["min"] >= _INT64[0] and bounds["max"] <= _INT64[1]):
            field = table.field(position).with_type(pa.int64())
            table = table.set_column(position, field, column.cast(pa.int64()))
    return table


def _statement_error(error: Exception, offset: int) -> StatementError:
    """Return DuckDB's error with its parts; `offset` is where the text of the user begins."""
    text = str(error)
    kind, _, rest = text.partition(" Error: ")
    try:
        parts: dict[str, str] = json.loads(rest or text)
    except ValueError:
        return StatementError(kind if rest else "", rest or text, "", "", None)
    span = None
    if "location" in parts:
        start, width = json.loads(parts["location"])
        span = (start - offset, width)
    return StatementError(
        parts.get("exception_type", kind),
        parts.get("exception_message", text),
        parts.get("error_subtype", ""),
        parts.get("name", ""),
        span,
    )


def quoted(name: str) -> str:
    """Return a name in double quotes.

    Examples
    --------
    >>> quoted('a"b')
    '"a""b"'
    """
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def arrow_table(columns: Mapping[str, Any], names: list[str], what: str) -> pa.Table:
    """Return columns of `columns_by_name` as a table; Arrow's columns are not copied.

    Parameters
    ----------
    names
        The columns that are read; the table has at least one.

    Raises
    ------
    GpuWcojError
        If a column cannot be read.
    """
    chosen = [name for name in columns if name in names] or list(columns)[:1]
    arrays = collected(chosen, [columns[name] for name in chosen], what)
    return pa.table(
        {name: _column(values, f"{what}, column '{name}'") for name, values in zip(chosen, arrays, strict=True)}
    )


def _column(values: Any, what: str) -> Any:
    """Return a column as Arrow, whose values DuckDB keeps.

    It would cut off what dates in milliseconds have beyond days, and compare ordered categories as texts.
    """
    column = as_arrow(as_read(values), what)
    if pa.types.is_dictionary(column.type) and column.type.ordered:
        problem = f"{what}, has ordered categories, which DuckDB would compare as texts"
        raise UnsupportedTypeError(f"{problem}.\n  Cast the column to texts.")
    if not pa.types.is_date64(column.type):
        return column
    try:
        return column.cast(pa.date32())
    except pa.ArrowInvalid:
        problem = f"{what}, of type 'date64[ms]', has dates with a part of a day"
        raise UnsupportedTypeError(f"{problem}.\n  Cast the column to a timestamp.") from None


def cast_back(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table of the engine with the types of a schema, where its values fit.

    The engine gives columns that it compares the wider type of both, and columns that are null in all rows any type.

    Examples
    --------
    >>> table = pa.table({"a": [1], "b": pa.array([None], pa.int64())})
    >>> cast_back(table, pa.schema({"x": "int8", "y": "string"})).schema.types
    [DataType(int8), DataType(string)]
    """
    for position, field in enumerate(table.schema):
        kind, column = schema.field(position).type, table.column(position)
        if kind == field.type:
            continue
        if column.null_count == len(column):
            column = pa.nulls(len(column), kind)
        elif _is_plain(kind) and _is_plain(field.type):
            try:
                column = column.cast(kind)
            except pa.ArrowInvalid:
                continue
        else:
            continue
        table = table.set_column(position, field.with_type(kind), column)
    return table


def _is_plain(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_temporal(kind)
    )

"""DuckDB for SQL expressions over Arrow tables.

Each thread has a connection of its own; see `gpu_wcoj.arrow.database.connect`.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from gpu_wcoj.arrow.database import connect
from gpu_wcoj.arrow.types import to_pyarrow, type_of
from gpu_wcoj.data.schema import FULL, MAX_DIGITS, UUID, DataType
from gpu_wcoj.errors import BackendUnavailableError, UnsupportedTypeError

PARAMETER = "$"
"""First character of the names of the columns that an expression reads: ``"$0"``, ``"$1"`` and so on."""
GROUP = "$group"
"""Name of the column of the numbers of groups."""
_AGGREGATE_MACROS = ("geomean", "geometric_mean", "wavg", "weighted_avg")
SEVERAL_ROWS = "a query as a value has more than one row"
"""What DuckDB says where a group must have one row."""
ROW = "$row"
"""Name of the column of the numbers of rows, which are sorted by all columns."""
_UNSUPPORTED = ("BIT", "TIME WITH TIME ZONE", "TIME_NS", "UNION", "VARIANT", "GEOMETRY", "BIGNUM")
"""DuckDB's types that Arrow tables hold as values of other types."""
_FIXED = ("error",)
"""Functions that DuckDB calls volatile, but that give the same for the same arguments."""
_OF_ROWS = ("unnest", "generate_subscripts")
_OF_COLUMNS = ("alias", "stats", "vector_type", "get_type", "can_cast_implicitly")
"""Functions whose results depend on the column of an argument, which is another one here."""
_CHANGING = (
    "ago", "current_time", "current_timestamp", "localtime", "localtimestamp", "pg_conf_load_time",
    "pg_postmaster_start_time", "pg_sleep", "reservoir_quantile",
)  # fmt: skip
"""Macros and keywords whose results depend on the time of the query, and an aggregate of a random part."""
_OWN_NAME = re.compile(r" when casting from source column \$\d+")
"""What DuckDB says of a column by the name that it has here only."""
_state = threading.local()


class Binding(NamedTuple):
    """Type of an expression, or the reason against it.

    Attributes
    ----------
    kind
        The type of its values; None for the type of NULL.
    problem
        Why it cannot be used, in words; empty if it can.
    is_unknown
        Whether DuckDB does not know a function in it, or cannot read it.
    """

    kind: DataType | None
    problem: str = ""
    is_unknown: bool = False


def _connection(feature: str) -> Any:
    """Return the connection of this thread and process."""
    if getattr(_state, "owner", None) != os.getpid():
        _state.connection, _state.owner = connect(feature, {"threads": 1}), os.getpid()
        _state.changing = _state.aggregates = None
    return _state.connection


def require_duckdb(feature: str) -> None:
    """Raise if DuckDB, which `feature` needs, is not installed.

    Raises
    ------
    BackendUnavailableError
        If it is not.
    """
    if find_spec("duckdb") is None:
        raise BackendUnavailableError.missing_package(feature, "duckdb", "sql")


def column_name(position: int) -> str:
    """Return the name, in the text of an expression, of the column at a position."""
    return f"{PARAMETER}{position}"


def _table(arrays: Sequence[pa.Array]) -> pa.Table:
    return pa.table({column_name(position): array for position, array in enumerate(arrays)})


def bind(expression: str, kinds: Sequence[DataType], text: str = "this expression", is_window: bool = False) -> Binding:
    """Return what DuckDB says of an expression over columns of these types.

    Parameters
    ----------
    expression
        The text in DuckDB's dialect.
    text
        The text of the user, for messages.
    is_window
        Whether it is a window over the partition ``"$group"``, or gives several rows by ``unnest``.

    Raises
    ------
    BackendUnavailableError
        If DuckDB is not installed.

    Examples
    --------
    >>> bind('round("$0" / 3, 1)', [DataType("int32")]).kind
    DataType(name='double')
    >>> bind("random()", []).problem
    'random gives other results for the same arguments'
    """
    connection = _connection(f"'{text}'")
    import duckdb

    if problem := _find_problem(connection, expression, is_window):
        return Binding(None, problem)
    table = _table([pa.array([], to_pyarrow(kind)) for kind in kinds]) if kinds else pa.table({"": [0]})
    if is_window:
        for name in (GROUP, ROW):
            table = table.append_column(name, pa.array([0] * len(table)))
    try:
        with _registered(connection, table):
            relation = connection.sql(f"SELECT {expression} AS result FROM args LIMIT 0")
            (name,) = map(str, relation.types)
            field = relation.to_arrow_table().schema.field(0)
    except duckdb.Error as error:
        return Binding(None, _reason(error), isinstance(error, (duckdb.CatalogException, duckdb.ParserException)))
    if name == '"NULL"':
        return Binding(None)
    if name.startswith(_UNSUPPORTED):
        return Binding(None, f"its type {name} is not supported")
    if name == "UUID":
        return Binding(DataType(UUID))
    try:
        kind = type_of(field.type)
    except UnsupportedTypeError:
        return Binding(None, f"its type {name} is not supported")
    if kind.name == "uint64" or (kind.family == "decimal" and kind.digits[0] > MAX_DIGITS):
        kind = DataType(kind.name + FULL)
    return Binding(kind)


def is_aggregate(name: str) -> bool:
    """Return whether DuckDB has an aggregate of that name; False if DuckDB is not installed.

    Examples
    --------
    >>> is_aggregate("entropy"), is_aggregate("round")
    (True, False)
    """
    try:
        connection = _connection(name)
    except BackendUnavailableError:
        return False
    if _state.aggregates is None:
        query = "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type = 'aggregate'"
        _state.aggregates = {found for (found,) in connection.execute(query).fetchall()}.union(_AGGREGATE_MACROS)
    return name.lower() in _state.aggregates


def function_names() -> list[str]:
    """Return the names of DuckDB's functions; none if DuckDB is not installed."""
    try:
        connection = _connection("the name of a function")
    except BackendUnavailableError:
        return []
    query = "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_name SIMILAR TO '[a-z_0-9]+'"
    return [str(name) for (name,) in connection.execute(query).fetchall()]


def _find_problem(connection: Any, expression: str, is_window: bool) -> str:
    """Return the reason against the functions in an expression; empty if there is none."""
    query = "SELECT json_serialize_sql(?)"
    ((answer,),) = connection.execute(query, [f"SELECT {expression} AS result"]).fetchall()
    tree = json.loads(answer)
    if tree.get("error"):
        return ""  # binding it says what is wrong
    if _state.changing is None:
        rows = connection.execute(
            "SELECT function_name FROM duckdb_functions() WHERE function_type IN ('scalar', 'aggregate') "
            "GROUP BY 1 HAVING NOT list_contains(list(stability), 'CONSISTENT')"
        ).fetchall()
        _state.changing = {name for (name,) in rows if name not in _FIXED}.union(_CHANGING)
    for node in _nodes(tree):
        name, arguments = node.get("function_name"), node.get("arguments", ())
        if name is None and len(node.get("column_names", ())) == 1:
            (name,) = node["column_names"]  # as current_date is
        name = str(name).lower()
        if name in _state.changing or (name == "age" and len(arguments) == 1):
            return f"{name} gives other results for the same arguments"
        if name in _OF_COLUMNS:
            return f"{name} describes a column, not its values"
        if node.get("class") == "POSITIONAL_REFERENCE":
            return "a column is named by its position in FROM"
        if name in _OF_ROWS and not is_window:
            return f"{name} gives several rows"
    return ""


def _nodes(tree: Any) -> Iterator[Mapping[str, Any]]:
    waiting = [tree]
    while waiting:
        piece = waiting.pop()
        if isinstance(piece, dict):
            yield piece
            waiting += piece.values()
        elif isinstance(piece, list):
            waiting += piece


def _reason(error: Exception) -> str:
    """Return DuckDB's message without its kind and its picture of the text."""
    first = str(error).split("\n")[0].strip().rstrip(".")
    kind, _, message = first.partition(": ")
    return _OWN_NAME.sub("", message if kind.endswith("Error") and message else first)


@contextmanager
def _registered(connection: Any, table: pa.Table) -> Generator[None]:
    """Let a connection know a table by the name ``args`` in the context."""
    connection.register("args", table)
    try:
        yield
    finally:
        connection.unregister("args")


def evaluate(expression: str, arrays: Sequence[pa.Array], kind: DataType) -> tuple[pa.Array, np.ndarray[Any, Any]]:
    r"""Return the values of an expression for rows, and a mask of the rows for which it fails.

    Parameters
    ----------
    arrays
        The columns, at least one.
    kind
        The type of the values.

    Examples
    --------
    >>> values, failed = evaluate('CAST("$0" AS INT)', [pa.array(["1", "x", None])], DataType("int32"))
    >>> values.to_pylist(), failed.tolist()
    ([1, None, None], [False, True, False])
    >>> values, failed = evaluate("if(\"$0\" < 0, error('below'), \"$0\")", [pa.array([1, -1])], DataType("int64"))
    >>> values.to_pylist(), failed.tolist()
    ([1, None], [False, True])
    """
    connection = _connection(f"'{expression}'")
    import duckdb

    table = _table(arrays)
    with _registered(connection, table):
        try:
            return _selected(connection, expression, kind), np.zeros(len(table), np.bool_)
        except duckdb.Error:
            if len(table) == 1:
                return pa.nulls(1, _storage(kind)), np.ones(1, np.bool_)
        try:
            fails = connection.sql(f"SELECT TRY(({expression}) IS NULL) IS NULL FROM args").to_arrow_table()
            failed = fails.column(0).combine_chunks().to_numpy(zero_copy_only=False)
            return _selected(connection, f"TRY({expression})", kind), failed
        except duckdb.Error:  # TRY does not take all expressions; then each row is evaluated by itself
            pass
    rows = [evaluate(expression, [array.slice(i, 1) for array in arrays], kind) for i in range(len(table))]
    return pa.concat_arrays([values for values, _ in rows]), np.concatenate([failed for _, failed in rows])


def failure_of(expression: str, arrays: Sequence[pa.Array]) -> Exception | None:
    """Return the error of an expression for one row, as DuckDB says it, or None."""
    connection = _connection(f"'{expression}'")
    import duckdb

    with _registered(connection, _table(arrays)):
        try:
            _ = connection.sql(f"SELECT {expression} FROM args").fetchall()
        except duckdb.Error as error:
            return ValueError(_reason(error))
    return None


def _storage(kind: DataType) -> pa.DataType:
    return pa.string() if kind.name == UUID else to_pyarrow(kind)


def _selected(connection: Any, expression: str, kind: DataType) -> pa.Array:
    column = connection.sql(f"SELECT {expression} AS result FROM args").to_arrow_table().column(0)
    return as_stored(column, kind)


def as_stored(column: pa.ChunkedArray, kind: DataType) -> pa.Array:
    """Return a column of DuckDB's as an array of a type of the engine."""
    array = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    if kind.name != UUID:
        return array
    import uuid

    stored = [None if text is None else uuid.UUID(text).bytes for text in array.to_pylist()]
    return pa.ExtensionArray.from_storage(pa.uuid(), pa.array(stored, pa.binary(16)))


def compute_groups(
    expressions: Sequence[str],
    arrays: Sequence[pa.Array],
    owner: np.ndarray[Any, Any],
    kinds: Sequence[DataType],
    is_window: bool,
) -> tuple[np.ndarray[Any, Any], list[pa.Array]]:
    """Return the groups of results, or for windows their rows, and the results.

    Parameters
    ----------
    expressions
        Aggregates; or windows over the partition ``"$group"``, or ``unnest`` of lists, which repeats rows.
    arrays
        The columns of the rows.
    owner
        The group of each row.
    kinds
        The types of the results.

    Raises
    ------
    ValueError
        If DuckDB has no result, with its message.

    Examples
    --------
    >>> place, (total,) = compute_groups(['sum("$0")'], [pa.array([1, 2, 3])], np.array([0, 1, 1]),
    ...     [DataType("int64")], is_window=False)
    >>> place.tolist(), list(map(int, total.to_pylist()))
    ([0, 1], [1, 5])
    """
    connection = _connection(", ".join(expressions))
    import duckdb

    numbers = {GROUP: pa.array(owner), ROW: pa.array(np.arange(len(owner)))}
    place, by = (ROW, "") if is_window else (GROUP, f' GROUP BY "{GROUP}"')
    results = ", ".join(f"{expression} AS result{i}" for i, expression in enumerate(expressions))
    table = _table(arrays)
    for name, column in numbers.items():
        table = table.append_column(name, column)
    with _registered(connection, table):
        try:
            relation = connection.sql(f'SELECT "{place}", {results} FROM args{by} ORDER BY 1')
            found = relation.to_arrow_table()
        except duckdb.Error as error:
            raise ValueError(_reason(error)) from None
    columns = [as_stored(column, kind) for column, kind in zip(found.columns[1:], kinds, strict=True)]
    return found.column(0).to_numpy(), columns


def is_longer(series: str, n: int) -> bool:
    """Return whether a series of constants has more than `n` values; False if it is invalid.

    Examples
    --------
    >>> is_longer("range(1000000000000)", 10), is_longer("range(10)", 10)
    (True, False)
    """
    connection = _connection(f"'{series}'")
    import duckdb

    try:
        ((found,),) = connection.sql(f"SELECT count(*) FROM (SELECT 1 FROM {series} LIMIT {n + 1})").fetchall()
    except duckdb.Error:
        return False  # binding it says what is wrong
    return int(found) > n


def value_of_no_rows(expression: str, kinds: Sequence[DataType]) -> Any:
    """Return the value of an aggregate of no rows, as a Python value.

    Examples
    --------
    >>> value_of_no_rows('count(DISTINCT "$0")', [DataType("string")])
    0
    """
    connection = _connection(expression)
    with _registered(connection, _table([pa.array([], to_pyarrow(kind)) for kind in kinds])):
        ((value,),) = connection.sql(f"SELECT {expression} FROM args").fetchall()
    return value


def constant(expression: str) -> Any:
    """Return the value of an expression without columns, as a Python value.

    Raises
    ------
    ValueError
        If it has none, with DuckDB's message.

    Examples
    --------
    >>> constant("date_trunc('month', DATE '2026-01-31')")
    datetime.datetime(2026, 1, 1, 0, 0)
    """
    connection = _connection(f"'{expression}'")
    import duckdb

    try:
        ((value,),) = connection.sql(f"SELECT {expression}").fetchall()
    except duckdb.Error as error:
        raise ValueError(_reason(error)) from None
    return value

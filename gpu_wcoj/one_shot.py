"""One-call queries: the answer is computed once, and no state is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, overload

from gpu_wcoj.backend import BackendName
from gpu_wcoj.budget import limiting
from gpu_wcoj.errors import (
    AggregateOverflowError,
    CalculationError,
    GpuWcojError,
    MemoryBudgetError,
    RowBudgetError,
    TimeBudgetError,
    TypeMismatchError,
    UnsupportedError,
    UnsupportedTypeError,
    UsageError,
    entry_point,
    listed,
)
from gpu_wcoj.query.languages import Language  # loads the package `query` before the function of that name hides it
from gpu_wcoj.result import EngineRows, Result
from gpu_wcoj.user_functions import Function
from gpu_wcoj.zset.zset import in_order

if TYPE_CHECKING:
    from gpu_wcoj.query.ir import Rules


@overload
def query(
    text: str | Rules, relations: Mapping[str, Any] | None = None, /, *, outputs: list[str] | tuple[str, ...],
    **more: Any,
) -> dict[str, Result]: ...  # fmt: skip


@overload
def query(
    text: str | Rules,
    relations: Mapping[str, Any] | None = None,
    /,
    *,
    language: Language | None = None,
    dialect: str = "duckdb",
    arguments: Sequence[Any] = (),
    bag: bool | None = None,
    functions: Sequence[Function] = (),
    scan: bool = True,
    outputs: str | None = None,
    backend: BackendName = "auto",
    threads: int | None = None,
    iterations: int | None = None,
    limit: int | None = None,
    timeout: float | None = None,
    memory: float | str | None = None,
    **more: Any,
) -> Result: ...


@entry_point
def query(
    text: str | Rules,
    relations: Mapping[str, Any] | None = None,
    /,
    *,
    language: Language | None = None,
    dialect: str = "duckdb",
    arguments: Sequence[Any] = (),
    bag: bool | None = None,
    functions: Sequence[Function] = (),
    scan: bool = True,
    outputs: str | list[str] | tuple[str, ...] | None = None,
    backend: BackendName = "auto",
    threads: int | None = None,
    iterations: int | None = None,
    limit: int | None = None,
    timeout: float | None = None,
    memory: float | str | None = None,
    **more: Any,
) -> Result | dict[str, Result]:
    """Return the answer of a program over tables, lists or arrays: a table.

    Every column of a table is data, also a column called ``weight``. A `ZSet` keeps its weights. Columns that the query
    does not read are not looked at, whatever their types. A missing relation is an error.

    Parameters
    ----------
    text
        A program in Datalog, SQL or EDN, or rules.
    relations
        Rows by relation; they may also be keywords, if no option has the relation's name. Relations that the query does
        not read are ignored, if it has rows of all others.
    language
        ``"datalog"``, ``"sql"`` or ``"edn"``; by default detected from the beginning of the text, see
        `gpu_wcoj.query.languages.language_of`.
    dialect
        The dialect of SQL: duckdb, postgres, spark, or another of `gpu_wcoj.query.sql.compiler.DIALECTS`.
    arguments
        Arguments of a query in EDN: the values of ``:in`` other than relations, in order.
    bag
        Exact weights instead of sets; by default for SQL only.
    scan
        Whether tables in variables of the calling function, or of its module, are relations that the query reads by
        their names and that are not passed, as in DuckDB.
    outputs
        The relation to return if the program has several outputs; or a list of relations, for a dict of their tables.
    functions, backend, threads, iterations, limit, timeout, memory
        As for `Program`.

    Examples
    --------
    >>> query("hop(a, c) :- edge(a, b), edge(b, c).", edge=[(1, 2), (2, 3)]).to_arrow().to_pydict()
    {'a': [1], 'c': [3]}
    >>> query("out(a) :- edge(a, b). into(b) :- edge(a, b).", edge=[(1, 2)], outputs=["out", "into"])["into"].rows()
    [(2,)]
    """
    from gpu_wcoj.engine.options import ProgramOptions, validate_functions
    from gpu_wcoj.prepared_query import QuerySource, passed_relations, prepare_query

    source = QuerySource(text, language, dialect, arguments, bag, validate_functions("functions", functions))
    prepared = prepare_query(source, passed_relations(text, relations, more, query), query, scan=scan, is_single=True)
    options = ProgramOptions(
        bag=prepared.bag, inputs=prepared.rules.inputs, functions=functions, backend=backend, threads=threads,
        iterations=iterations, limit=limit, timeout=timeout, memory=memory, outputs=listed_outputs(outputs),
        single_tick=True,
    )  # fmt: skip
    with limiting(options.budget()):  # also of what is read before and sorted after the tick
        return _answered(source, prepared, options, outputs)


def _answered(source: Any, prepared: Any, options: Any, outputs: Any) -> Result | dict[str, Result]:
    """Return the answers of a prepared query, by the engine or by DuckDB."""
    if prepared.refusal is not None:
        return _answer_with_duckdb(source, prepared.relations, options, prepared.refusal, outputs)
    try:
        program, changes = prepared.start(options)
        output = None if isinstance(outputs, (list, tuple)) else single_output(program.outputs)
        answers = program.answer(changes)
    except (UnsupportedError, TypeMismatchError, AggregateOverflowError, CalculationError) as refusal:
        # DuckDB may convert what a column holds, and has values such as intervals with months
        is_failure = isinstance(refusal, CalculationError) and not refusal.is_unsupported
        if not prepared.is_sql or is_failure or isinstance(refusal, UnsupportedTypeError):
            raise
        try:
            return _answer_with_duckdb(source, prepared.relations, options, refusal, outputs)
        except (TimeBudgetError, MemoryBudgetError, RowBudgetError):
            raise
        except GpuWcojError:
            raise refusal from None
    results = {name: Result(answer) for name, answer in answers.items()}
    sorting = prepared.rules.sorting
    if sorting is not None and sorting.relation in answers:
        keys = [(key.column, key.is_descending, key.nulls_first) for key in sorting.keys]
        ordered = in_order(answers[sorting.relation], keys, sorting.n_shown)
        results[sorting.relation] = Result(EngineRows(ordered, is_merged=False))
    return results if output is None else results[output]


def _answer_with_duckdb(
    source: Any, relations: Mapping[str, Any], options: Any, refusal: GpuWcojError, outputs: Any
) -> Result | dict[str, Result]:
    """Return the answer of a text in SQL that the engine refuses.

    Raises
    ------
    GpuWcojError
        The refusal, if DuckDB is not installed; or the error of DuckDB.
    """
    if find_spec("duckdb") is None:
        refusal.args = (f"{refusal}\n  With DuckDB, gpu_wcoj.query does it: pip install 'gpu_wcoj[sql]'.",)
        raise refusal from None
    from gpu_wcoj.tail import Tail

    with closing(Tail(source, relations, options, refusal)) as tail:
        results = tail.answers()
    names = outputs if isinstance(outputs, (list, tuple)) else [outputs or single_output(list(results))]
    for name in names:
        if name not in results:
            raise UsageError.unknown_name("output", name, results)
    return {name: results[name] for name in names} if names is outputs else results[names[0]]


def listed_outputs(outputs: str | list[str] | tuple[str, ...] | None) -> Sequence[str] | None:
    """Return the outputs as a list; None for those of the program."""
    return [outputs] if isinstance(outputs, str) else outputs


def single_output(names: Sequence[str]) -> str:
    """Return the only output of a program from the names of its outputs.

    Raises
    ------
    UsageError
        If it has several.
    """
    if len(names) != 1:
        raise UsageError.mismatch(
            "the program", "has several outputs", listed(names), "one",
            f"Name one, outputs={names[0]!r}, or pass a list for a dict by output, outputs={[*names]!r}.",
        )  # fmt: skip
    return names[0]

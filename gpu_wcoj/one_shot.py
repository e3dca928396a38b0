"""One-call queries: the answer is computed once, and no state is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gpu_wcoj.backend import BackendName
from gpu_wcoj.errors import UsageError, entry_point
from gpu_wcoj.query.languages import Language  # loads the package `query` before the function of that name hides it
from gpu_wcoj.user_functions import Function
from gpu_wcoj.zset.zset import ZSet, in_order

if TYPE_CHECKING:
    from gpu_wcoj.query.ir import Rules


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
    backend: BackendName = "auto",
    threads: int | None = None,
    **more: Any,
) -> ZSet | dict[str, ZSet]:
    """Return the answer of a program over tables, lists or arrays.

    It is a ZSet, or a dict of them if there are several outputs.

    Every column of a table is data, also a column called ``weight``. A `ZSet` keeps its weights. A missing relation is
    an error. Exports leave the answer's weights out if all are 1.

    Parameters
    ----------
    text
        A program in Datalog, SQL or EDN, or rules.
    relations
        Rows by relation; they may also be keywords, if no option has the relation's name.
    language
        ``"datalog"``, ``"sql"`` or ``"edn"``; by default detected from the beginning of the text, see
        `gpu_wcoj.query.languages.language_of`.
    dialect
        The dialect of SQL: duckdb, postgres, spark, or another of `gpu_wcoj.query.sql.compiler.DIALECTS`.
    arguments
        Arguments of a query in EDN: the values of ``:in`` other than relations, in order.
    bag
        Exact weights instead of sets; by default for SQL only.
    functions, backend, threads
        As for `Program`.

    Examples
    --------
    >>> query("hop(a, c) :- edge(a, b), edge(b, c).", edge=[(1, 2), (2, 3)]).to_arrow().to_pydict()
    {'a': [1], 'c': [3]}
    """
    from gpu_wcoj.engine.options import ProgramOptions, validate_functions
    from gpu_wcoj.prepared_query import QuerySource, prepare_query

    for name, value in more.items():
        if value is None or isinstance(value, (str, int, float)):  # these cannot be rows
            raise UsageError.with_parts(
                f"query has no option '{name}', and {value!r:.80} is not a table for a relation of that name",
                subject=name,
                got=value,
                remedy="Pass other options to gpu_wcoj.Program or gpu_wcoj.view.",
            )
    source = QuerySource(text, language, dialect, arguments, bag, validate_functions("functions", functions))
    prepared = prepare_query(source, merge_relations(relations, more), query, is_single=True)
    options = ProgramOptions(
        bag=prepared.bag, inputs=prepared.rules.inputs, functions=functions, backend=backend, threads=threads,
        single_tick=True,
    )  # fmt: skip
    program, changes = prepared.start(options)
    answers = {name: hide_unit_weights(answer) for name, answer in program.answer(changes).items()}
    sorting = prepared.rules.sorting
    if sorting is not None:
        keys = [(key.column, key.is_descending, key.nulls_first) for key in sorting.keys]
        answers[sorting.relation] = in_order(answers[sorting.relation], keys, sorting.n_shown)
    return next(iter(answers.values())) if len(answers) == 1 else answers


def merge_relations(relations: Mapping[str, Any] | None, more: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the relations of a mapping and of keywords.

    Raises
    ------
    UsageError
        If `relations` is not a mapping, or a relation is in both.
    """
    if relations is not None and not isinstance(relations, Mapping):
        raise UsageError.wrong_type(
            "the argument 'relations'",
            relations,
            "a mapping from names to rows",
            "Give the relations as keywords, or in a dict.",
        )
    merged = dict(relations or {})
    for name, rows in more.items():
        if name in merged:
            raise UsageError.duplicate("the relation", name, remedy="Give it once.")
        merged[name] = rows
    return merged


def hide_unit_weights(answer: ZSet) -> ZSet:
    """Return the answer; exports leave its weights out if all are 1."""
    return answer.with_weight_name(None) if bool(np.all(answer.weights == 1)) else answer

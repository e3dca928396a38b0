"""Queries that chance writes, on skewed and even data: the engine's strategies in turn, all in one process.

The process is asked for one query after the other, by the number of its seed, and is started again for the next one
where a query takes too long.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bench.suite.again import AGAIN, unsettled
from bench.suite.built import built
from bench.suite.catalogue import cyclicity
from bench.suite.comparison import compared
from bench.suite.contender import Contender, Setting
from bench.suite.judge import number_by_duckdb, state_after
from bench.suite.process import Process, StoppedError
from bench.suite.random_queries import NAME, RANDOM, Query, random_query
from bench.suite.random_rows import relations_within
from bench.suite.random_sql import WEIGHT, select
from bench.suite.record import Case, Check, Comparison, Work
from bench.suite.registry import STRATEGIES, factory
from bench.suite.streams import Data, Items, stream
from bench.suite.workload import Pattern, Rows, State, Stream, Workload


@dataclass(frozen=True)
class Size:
    """How large the data of a random query is, and how often it is run.

    Attributes
    ----------
    rows
        Of each relation, at most.
    most
        Rows of the join of the query's atoms, in the worst of the orders that were looked at.
    change_rows, n_ticks
        Half of the changes insert, half delete.
    rounds
        Timed ones, at least.
    seconds
        Rounds go on until each strategy has taken so many.
    """

    rows: int = 20_000
    most: int = 2_000_000
    change_rows: int = 1_000
    n_ticks: int = 4
    rounds: int = 5
    seconds: float = 0.25


def query_of(seed: int) -> Query:
    """The seed's query over integers."""
    return replace(random_query(seed), is_textual=False)


def comparisons(
    seeds: Sequence[int], size: Size, threads: int, limit: float, judge_limit: float, say: Callable[[int], None]
) -> Generator[Comparison]:
    """Compare the strategies on the queries of these seeds; one that takes longer than `limit` seconds is stopped.

    Another engine may count each answer for `judge_limit` seconds beside.
    """
    left = list(seeds)
    while left:
        with Process(opened, (size, threads, judge_limit), threads) as process:
            while left:
                seed = left.pop(0)
                say(seed)
                try:
                    yield built(Comparison, process.ask(str(seed), limit + 2 * judge_limit))
                except StoppedError as error:
                    case = Case(
                        query_of(seed).text, RANDOM, RANDOM, asdict(size), seed, 0, size.change_rows, "mixed", 0
                    )
                    yield Comparison(case, {}, {}, None, None, stopped=dict.fromkeys(STRATEGIES, str(error)))
                    break


def comparison(seed: int, size: Size, threads: int, folder: Path, judge_limit: float = 10.0) -> Comparison:
    """The strategies on the query of this seed, A B C, B C A and so on."""
    query = query_of(seed)
    rows = _stream(query, size)
    atoms = tuple(
        (atom.relation, tuple(term for term in dict.fromkeys(atom.terms) if NAME.fullmatch(term)))
        for atom in query.atoms
    )
    body = Pattern(atoms)
    columns = {name: tuple(f"c{i}" for i in range(arity)) for name, arity in query.inputs.items()}
    workload = Workload(f"random {seed}", RANDOM, query.text, "h", columns, None, "")
    case = Case(
        query.text, RANDOM, RANDOM, asdict(size), seed, sum(map(len, rows.state.values())), size.change_rows,
        "mixed", size.n_ticks, atoms=len(query.atoms), variables=len(query.variables),
        cyclicity=cyclicity(body), is_acyclic=not query.is_cyclic,
    )  # fmt: skip
    setting = Setting(workload, "count", threads, folder, size.n_ticks)
    contenders = {name: factory(name)(setting) for name in STRATEGIES}
    some = contenders[STRATEGIES[0]]
    forward = [some.prepare(tick) for tick in rows.ticks]
    back = [some.prepare({name: one.undone() for name, one in tick.items()}) for tick in reversed(rows.ticks)]
    work: dict[str, Work] = {}
    changes: dict[str, tuple[int, ...]] = {}
    for name, contender in contenders.items():
        contender.load(rows.state)
        changes[name], counted = _ticks(contender, forward)
        work[name] = built(Work, counted)
        undone, _ = _ticks(contender, back)
        if tuple(-one for one in reversed(undone)) != changes[name]:
            message = f"{name}: the ticks change the answer by {changes[name]}, and taken back by {undone}"
            return compared(case, {}, work, Check(False, message=message), {})
    if len(set(changes.values())) > 1:
        return compared(case, {}, work, Check(False, message=f"the strategies do not agree: {changes}"), {})
    check = Check(True, STRATEGIES, changes=changes[STRATEGIES[0]])
    before, after = (_by_duckdb(query, state, judge_limit) for state in (rows.state, state_after(rows)))
    if before is not None and after is not None:
        found = some.count(), some.count() + sum(check.changes or ())
        if found != (before, after):
            message = f"DuckDB counts {before} rows before all ticks and {after} after them, the strategies {found}"
            return compared(case, {}, work, Check(False, message=message), {})
        check = replace(check, by=("duckdb", *STRATEGIES))
    return compared(case, _rounds(contenders, (*forward, *back), size, work), work, check, {})


def _by_duckdb(query: Query, state: State, limit: float) -> int | None:
    """Rows of the answer; None where DuckDB is not installed, or takes too long."""
    weights = (f'ALTER TABLE "{name}" ADD COLUMN {WEIGHT} BIGINT DEFAULT 1' for name in state)
    return number_by_duckdb(f"SELECT count(*) FROM ({select(query, bag=False)})", state, limit, *weights)


def _rounds(
    contenders: dict[str, Contender], batches: Sequence[Any], size: Size, work: Mapping[str, Work]
) -> dict[str, list[float]]:
    """Processor time of each strategy's rounds, there and back."""
    spent: dict[str, list[float]] = {name: [] for name in contenders}
    number = enough = 0
    names = list(contenders)
    gc.collect()
    while True:
        if not enough and number >= size.rounds and min(map(sum, spent.values())) >= size.seconds:
            enough, names = number, unsettled(spent, work)
        if enough and (not names or number == (1 + AGAIN) * enough):
            return spent
        turn = number % len(names)
        for name in (*names[turn:], *names[:turn]):
            contender = contenders[name]
            start = time.process_time()
            for batch in batches:
                contender.tick(batch)
            spent[name].append(time.process_time() - start)
        number += 1


def _ticks(contender: Contender, batches: Sequence[Any]) -> tuple[tuple[int, ...], dict[str, int]]:
    """What each tick changed, and what all of them counted."""
    changes = []
    counted: dict[str, int] = {}
    for batch in batches:
        changes.append(contender.tick(batch).net)
        for name, value in asdict(contender.work() or Work()).items():
            if value is not None:
                counted[name] = counted.get(name, 0) + value
    return tuple(changes), counted


def _stream(query: Query, size: Size) -> Stream:
    """Rows that chance draws too, of all relations alike."""
    found = relations_within(query, 1, size.rows, size.most)
    names = sorted(found)
    of = np.concatenate([np.full(len(found[name]), i) for i, name in enumerate(names)])
    row = np.concatenate([np.arange(len(found[name])) for name in names])

    def rows_of(items: Items) -> dict[str, Rows]:
        return {name: found[name][row[items[of[items] == i]]] for i, name in enumerate(names)}

    changed = min(size.change_rows, len(of) // (4 * size.n_ticks))
    return stream(Data(len(of), rows_of), max(1, changed), "mixed", size.n_ticks, query.seed)


def opened(task: tuple[Size, int, float], folder: Path) -> Callable[[str], dict[str, Any]]:
    """What answers the number of a query's seed."""
    size, threads, judge_limit = task

    def answer(command: str) -> dict[str, Any]:
        return {} if command == "end" else asdict(comparison(int(command), size, threads, folder, judge_limit))

    return answer

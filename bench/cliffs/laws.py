"""What the engine does for a random query, in counted work, and the laws that the counts must keep."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import duckdb
import numpy as np
import pyarrow as pa

import gpu_wcoj as gw
from bench.cliffs.queries import Query
from bench.cliffs.rows import tables_of
from bench.cliffs.text import helped, write, write_sql
from gpu_wcoj.engine.options import ProgramOptions
from gpu_wcoj.kernels.protocol import MARKS, PROBES, PROPOSALS, RANKED, SURVIVORS
from gpu_wcoj.prepared_query import QuerySource, prepare_query

MAX_ANSWER = 1_000_000
"""Rows of an answer at most; a larger one is not examined."""

MAX_COMPARED = 20_000
"""Rows of an answer at most that is compared with DuckDB's row by row; of a larger one, the number is compared."""

SLACK = 40_000
"""Counted work that no law is about: a millisecond.

A counted value takes 14, 23 and 47 ns in a tenth, half and nine tenths of 261 queries; a fit over all gives 26 ns."""

ROWS_A_VALUE = 5
"""Rows of a table that are read and arranged in the time of one counted value: 5 ns each, by the same fit.

An answer from nothing reads its tables, which a tick does not; the counters of joins leave that out."""

WALKED = 3
"""Values that a tick walked row by row looks at in the time of one value of other ticks.

The same ticks, walked and path by path, took 73 and 193, 25 and 61, 28 and 137, 21 and 70, 23 and 81 ns a value."""

RIVAL_SECONDS, UNTIMED_RIVAL_SECONDS = 10.0, 1.0
"""Seconds that DuckDB has for a query that is examined, with and without a comparison of the time."""

ORDERS = (1, 2)
"""Seeds of the other orders of a text."""

MAX_ACYCLIC, MAX_CYCLIC, MAX_HELPER, MAX_TICK, MAX_TENFOLD, MAX_RIVAL = 1.6, 2.0, 2.0, 1.2, 15.0, 10.0
"""The factors of the laws: orders of acyclic and of cyclic bodies, helper, tick, ten times the data, DuckDB."""


@dataclass
class Findings:
    """What a query took, by name, and the laws that it breaks.

    Attributes
    ----------
    work
        Values proposed, searched, marked and written, and rows of the answer.
    seconds
        Seconds of the processor; empty if time is not measured.
    broken
        Per broken law the factor.
    skipped
        The reason for which the query was not examined; empty if it was.
    """

    work: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    broken: dict[str, float] = field(default_factory=dict)
    skipped: str = ""


def counted(program: gw.Program) -> int:
    """Return the work of a program's last tick: values proposed, searched, marked and written.

    A step that only counts adds up sums, so it may leave more bindings than it looks at; it does not write these. The
    values of a tick that is walked row by row count less; see `WALKED`. Searches by ranks are among all searches.
    """
    work = program.last_tick.work
    paths = (path for rules in work.values() for paths in rules.values() for path in paths.values())
    total = 0
    for counters in (counters for path in paths for counters in path.values()):
        proposed = int(counters[[PROPOSALS, MARKS]].sum())
        total += proposed + int(counters[PROBES]) + min(int(counters[SURVIVORS]), proposed + int(counters[RANKED]))
    is_walked = not (program.last_tick.path_by_path or program.options.single_tick)
    return total // WALKED if is_walked else total


class _Runs:
    """Runs of a query, each by itself."""

    def __init__(self, query: Query, findings: Findings) -> None:
        self.query, self.findings = query, findings

    def _add(self, name: str, work: int, seconds: float) -> None:
        self.findings.work[name] = work
        self.findings.seconds[name] = seconds

    def once(self, name: str, text: str, tables: Mapping[str, pa.Table]) -> gw.ZSet:
        """Answer a text once."""
        start = time.process_time()
        bag = self.query.language == "sql"
        prepared = prepare_query(QuerySource(text, self.query.language), tables, gw.query, is_single=True)
        options = ProgramOptions(bag=bag, inputs=prepared.rules.inputs, threads=1, single_tick=True, backend="cpu")
        program, changes = prepared.start(options)
        (answer,) = program.answer(changes).values()
        self._add(name, counted(program) + len(answer), time.process_time() - start)
        return answer

    def ticks(self, tables: Mapping[str, pa.Table]) -> None:
        """Load a view, insert rows of one table into it, and delete them again."""
        chance = random.Random(self.query.seed)
        named = [name for name, rows in tables.items() if len(rows)]
        if not named:
            return
        changed = chance.choice(named)
        rows = tables[changed]
        size = min(chance.choice((1, 100, 100, 10_000)), max(1, len(rows) // 3))
        if chance.random() < 0.3:  # the rows of the most frequent value come together
            rows = rows.sort_by("c0")
        text = write(self.query)
        start = time.process_time()
        rest = {**tables, changed: rows.slice(size)}
        view = gw.view(text, rest, language=self.query.language, threads=1, backend="cpu")
        program = view.program
        work = counted(program)
        self._add(
            "load", work + sum(len(program.relation(name)) for name in program.outputs), time.process_time() - start
        )
        inserted = rows.slice(0, size)
        deleted = inserted.append_column("weight", pa.array(np.full(size, -1)))
        for name, change in (("insertion", inserted), ("deletion", deleted)):
            start = time.process_time()
            answer = view.apply(**{changed: change})
            assert isinstance(answer, gw.ZSet)
            self._add(name, counted(program) + len(answer), time.process_time() - start)


def _ask_rival(
    connection: duckdb.DuckDBPyConnection, query: Query, tables: Mapping[str, pa.Table], seconds: float
) -> pa.Table | str:
    """Create DuckDB's tables; return its answer, or the reason for which there is none to compare with."""
    for name, rows in tables.items():
        connection.register(f"given_{name}", rows)
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given_{name}")
    timer = threading.Timer(seconds, connection.interrupt)
    timer.start()
    try:
        answer = connection.sql(f"SELECT * FROM ({write_sql(query)}) LIMIT {MAX_ANSWER + 1}").to_arrow_table()
    except duckdb.Error as error:
        return f"DuckDB: {str(error)[:100]}"
    finally:
        timer.cancel()
    return f"more than {MAX_ANSWER:,} rows" if len(answer) > MAX_ANSWER else answer


def _seconds_of(connection: duckdb.DuckDBPyConnection, query: Query) -> float:
    start = time.process_time()
    connection.sql(write_sql(query)).to_arrow_table()
    return time.process_time() - start


def _is_right(answer: gw.ZSet, expected: pa.Table) -> bool:
    """Return whether an answer is DuckDB's, in any order of rows and columns."""
    if int(answer.weights.sum()) != len(expected):
        return False
    if len(answer) > MAX_COMPARED:
        return True
    columns = [answer.names.index(name) for name in expected.column_names]
    rows = Counter({tuple(row[column] for column in columns): weight for row, weight in answer.rows()})
    return rows == Counter(zip(*(column.to_pylist() for column in expected.columns), strict=True))


def examine(query: Query, is_timed: bool) -> Findings:
    """Run a query in all ways, and return what they took and the laws that they break.

    Parameters
    ----------
    is_timed
        Whether the time is compared with DuckDB's, too.
    """
    findings = Findings()
    tables = tables_of(query)
    with duckdb.connect(config={"threads": 1, "memory_limit": "4GB"}) as connection:
        expected = _ask_rival(connection, query, tables, RIVAL_SECONDS if is_timed else UNTIMED_RIVAL_SECONDS)
        if isinstance(expected, str):
            findings.skipped = expected
            return findings
        runs = _Runs(query, findings)
        try:
            if is_timed:  # the first run of a text may compile
                runs.once("few rows", write(query), {name: rows.slice(0, 40) for name, rows in tables.items()})
            answer = runs.once("query", write(query), tables)
        except gw.GpuWcojError as error:
            findings.skipped = f"refused: {str(error)[:200]}"
            return findings
        if is_timed:
            first = findings.seconds["query"]
            runs.once("query", write(query), tables)
            findings.seconds["query"] = min(first, findings.seconds["query"])
        findings.work["rows"] = len(answer)
        findings.work["rows read"] = sum(map(len, tables.values()))
        if not _is_right(answer, expected):
            findings.broken["right answer"] = 1.0
        for order in ORDERS:
            runs.once(f"order {order}", write(query, order), tables)
        if helped(query) is not None:
            runs.once("helper", write(query, with_helper=True), tables)
        findings.work["rows of a tenth"] = len(runs.once("tenth", write(query), tables_of(query, 0.1)))
        runs.ticks(tables)
        if is_timed:
            findings.seconds["DuckDB"] = min(_seconds_of(connection, query) for _ in range(2))
    judge(query, findings)
    return findings


def judge(query: Query, findings: Findings) -> None:
    """Add the laws that the counts break."""
    work = findings.work

    def compare(law: str, dearer: int, cheaper: int, factor: float) -> None:
        if dearer > factor * cheaper + SLACK:
            findings.broken[law] = max(findings.broken.get(law, 0.0), dearer / (cheaper + 1))

    orders = [work["query"], *(work[f"order {order}"] for order in ORDERS)]
    compare("order", max(orders), min(orders), MAX_ACYCLIC if query.is_acyclic else MAX_CYCLIC)
    if "helper" in work:
        both = work["query"], work["helper"]
        compare("helper", max(both), min(both), MAX_HELPER)
    for tick in ("load", "insertion", "deletion"):
        if tick in work:
            compare(f"tick: {tick}", work[tick], min(orders) + work["rows read"] // ROWS_A_VALUE, MAX_TICK)
    if 0 < 5 * work["rows of a tenth"] <= work["rows"] <= 12 * work["rows of a tenth"]:  # no rows grow by no factor
        compare("tenfold", work["query"], work["tenth"], MAX_TENFOLD)
    if "DuckDB" in findings.seconds:
        ours, rival = findings.seconds["query"], findings.seconds["DuckDB"]
        if ours > 0.05 and ours > MAX_RIVAL * rival:
            findings.broken["DuckDB"] = ours / rival

"""Graphs of thousands of edges with hubs, growing and shrinking: every tick equals what DuckDB recomputes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj.query.datalog import parse
from tests.helpers.join_patterns import PATTERNS
from tests.helpers.long_tests import IS_LONG
from tests.reference.sql import definitions

duckdb = pytest.importorskip("duckdb")

N_NODES, N_EDGES = (400, 2500) if IS_LONG else (250, 1200)
HUB = 3
NAMES = (
    *("triangle", "3-cycle", "4-clique", "5-clique", "diamond once", "4-cycle once", "both ways"),
    *("2-path", "projection of a join", "projection of a triangle", "ordered triangle", "head joined with its input"),
    *("union of a relation and its mirror", "greater", "star of 2"),
)


FORMS = {
    "one thread": ({"threads": 1}, False),
    "two threads, ids anywhere in int64": ({"threads": 2}, True),
    "small pieces": ({"threads": 1, "chunk_rows": 1000}, True),
}


def random_edges(random, n_edges, n_nodes=N_NODES):
    """Edges whose ends are more often small numbers: node 0 has very many, the last ones hardly any."""
    return (n_nodes * random.random((n_edges, 2)) ** 2).astype(np.int64)


def ticks(random, n_edges):
    """(edges, weight) ticks: load, grow and shrink, take a hub away and bring it back, take everything away."""
    edges = np.unique(random_edges(random, n_edges), axis=0)
    yield edges, np.ones(len(edges), np.int64)
    for n_rows in (n_edges // 10, 40, 1):
        out = edges[random.permutation(len(edges))[:n_rows]]
        both = np.concatenate([random_edges(random, n_rows), out])
        yield both, np.repeat([1, -1], n_rows)
    hub = np.concatenate([np.stack([np.full(N_NODES, HUB), np.arange(N_NODES)], axis=1) for _ in range(2)])
    hub[N_NODES:] = hub[N_NODES:, ::-1]
    yield hub, np.full(len(hub), 1, np.int64)
    yield hub, np.full(len(hub), -1, np.int64)
    yield edges, np.full(len(edges), 1, np.int64)
    every = np.stack(np.divmod(np.arange(N_NODES * N_NODES), N_NODES), axis=1)
    yield every, np.full(len(every), -1, np.int64)


class Duck:
    """The same relations in DuckDB, and every head recomputed."""

    def __init__(self, text):
        self.definitions = definitions(parse(text))
        self.database = duckdb.connect(config={"threads": 1})
        self.run("CREATE TABLE e (c0 BIGINT, c1 BIGINT, UNIQUE (c0, c1))")
        for head, query in self.definitions:
            self.run(f"CREATE TABLE {head} AS {query}")

    def run(self, query):
        return self.database.execute(query).fetchall()

    def step(self, edges, weights):
        rows, last = np.unique(edges[::-1], axis=0, return_index=True)
        changed = pa.table({"c0": rows[:, 0], "c1": rows[:, 1], "weight": weights[::-1][last]})
        self.database.register("changed", changed)
        self.run("DELETE FROM e USING changed WHERE e.c0 = changed.c0 AND e.c1 = changed.c1")
        self.run("INSERT INTO e SELECT c0, c1 FROM changed WHERE weight > 0")
        for head, query in self.definitions:
            self.run(f"DROP TABLE IF EXISTS before_{head}")
            self.run(f"ALTER TABLE {head} RENAME TO before_{head}")
            self.run(f"CREATE TABLE {head} AS {query}")

    def count(self, head):
        return self.run(f"SELECT count(*) FROM {head}")[0][0]

    def differs(self, query, zset):
        """How many rows stand in one only of `query` and the rows of `zset`, weights included."""
        found = zset.to_arrow()
        names = [f"c{i}" for i in range(found.num_columns - 1)]
        self.database.register("found", found.rename_columns([*names, "weight"]))
        expected, shown = f"({query})", f"(SELECT {', '.join(names)}, weight FROM found)"
        one, other = (f"SELECT * FROM ({a} EXCEPT ALL {b})" for a, b in ((expected, shown), (shown, expected)))
        return self.run(f"SELECT count(*) FROM ({one} UNION ALL {other})")[0][0]


CASES = [(name, form) for i, name in enumerate(NAMES) for j, form in enumerate(FORMS) if IS_LONG or i % len(FORMS) == j]


@pytest.mark.drawn("name", "form", share=5)
@pytest.mark.parametrize(("name", "form"), CASES)
def test_every_tick_equals_recomputation(name, form, backend):
    text = PATTERNS[name]
    options, anywhere = FORMS[form]
    program, counting = (gw.Program(text, backend=backend.name, **options) for _ in range(2))
    duck = Duck(text)
    random = np.random.default_rng(len(text))
    ids = random.integers(-(2**63), 2**63 - 1, N_NODES) if anywhere else np.arange(N_NODES)
    for number, (nodes, weights) in enumerate(ticks(random, N_EDGES)):
        edges = ids[nodes]
        rows = {"c0": edges[:, 0], "c1": edges[:, 1], "weight": weights}
        changes = program.step({"e": rows})
        counts = counting.step_counts({"e": rows})
        duck.step(edges, weights)
        for head in program.outputs:
            whole = duck.count(head)
            assert (program.count(head), counting.count(head)) == (whole, whole), f"tick {number}"
            assert counts[head].net == int(changes[head].weights.sum()), f"tick {number}"
            now, before = f"SELECT * FROM {head}", f"SELECT * FROM before_{head}"
            assert duck.differs(f"SELECT *, 1 FROM {head}", program.relation(head)) == 0, f"tick {number}"
            expected = f"SELECT *, 1 FROM ({now} EXCEPT {before}) UNION ALL SELECT *, -1 FROM ({before} EXCEPT {now})"
            assert duck.differs(expected, changes[head]) == 0, f"tick {number}"
    assert program.count(head) == 0

"""SQL, EDN and motifs printed as Datalog parse again and answer alike after each tick."""

from __future__ import annotations

import random

import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import GpuWcojError, UnsupportedError
from gpu_wcoj.query import edn, motif, sql
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.query.motif.compile import SEMANTICS, Graph, compile_motif
from gpu_wcoj.query.printer import as_datalog
from tests.helpers.long_tests import IS_LONG
from tests.helpers.sql_conditions import FEATURES
from tests.helpers.sql_queries import Writer
from tests.helpers.sql_tables import random_script, random_tables

N_SQL = 1500 if IS_LONG else 12
BLOCKS = 4


def assert_equal_answers(rules, ticks, bag, types=None):
    """Feed both programs the same ticks and compare their outputs; return the printed text."""
    text = as_datalog(rules, bag=bag)
    again = parse(text)
    assert again.inputs == rules.inputs, text
    options = {"bag": bag, "backend": "cpu", "threads": 1, "schema": types}
    first, second = gw.Program(rules, **options), gw.Program(again, **options)
    assert len(second.outputs) == len(first.outputs), text
    for number, tick in enumerate(ticks):
        changes = {name: rows for name, rows in tick.items() if name in first.inputs}
        try:
            found = first.step(changes)
        except GpuWcojError as error:  # a calculation without a value, say: then there is none in both
            with pytest.raises(type(error)):
                second.step(changes)
            break
        other = second.step(changes)
        for one, two in zip(first.outputs, second.outputs, strict=True):
            assert rounded(found[one]) == rounded(other[two]), f"tick {number}, {one}:\n{text}"
            assert found[one].names == other[two].names
    return text


def rounded(rows):
    """Rows and weights, floats to ten digits: another plan may add them in another order."""
    shown = [
        (tuple(f"{value:.10g}" if type(value) is float else value for value in row), weight)
        for row, weight in rows.rows()
    ]
    return sorted(shown, key=repr)


@pytest.mark.drawn("block", share=2)
@pytest.mark.parametrize("block", range(BLOCKS))
def test_views_in_sql_that_chance_wrote(block):
    n_read = n_helpers = 0
    for number in range(N_SQL // BLOCKS):
        chance = random.Random(f"printed {block} {number}")
        tables = random_tables(chance)
        views = Writer(chance, tables, FEATURES).views()
        text = ";\n".join(f"CREATE VIEW {name} AS {body}" if name else body for name, body in views)
        script = random_script(chance, tables, 4)
        known = {table.name: table for table in tables}
        try:
            rules = sql.parse(text, {table.name: table.names for table in tables})
        except UnsupportedError:
            continue
        ticks = [
            {
                name: known[name].arrow([row for row, _ in rows], [weight for _, weight in rows])
                for name, rows in tick.items()
            }
            for tick in script
        ]
        printed = assert_equal_answers(rules, ticks, bag=True)
        n_helpers += any("#" in name for name in rules.heads)
        n_read += 1
        assert "#" not in printed
    assert n_read > N_SQL // BLOCKS // 2
    assert n_helpers > 0


QUERIES = (
    "[:find ?a ?c :where [$edges ?a ?b] [$edges ?b ?c]]",
    "[:find ?a :where (edges ?a ?b) (not [$edges ?b ?a])]",
    "[:find ?a (count ?b) (sum ?b) :where [$edges ?a ?b] [(> ?b 1)]]",
    "[:find ?a ?n :where [$edges ?a ?b] [$names ?b ?n] (or-join [?a] [$edges ?b ?a] [$names ?a _])]",
    "[:find ?a ?b :in % :where (far ?a ?b)]",
    '[:find ?x ?s :where [$names ?x ?n] [(str ?n "!") ?s] (not-join [?x] [$edges ?x ?y] [$edges ?y ?x])]',
    "[:find (avg ?b) (min ?b) (max ?b) :with ?a :where [$edges ?a ?b]]",
    "[:find ?a ?z :where [$edges ?a ?b] [(* ?a ?b) ?z] (or-join [?a] [$edges ?a 1] [$edges ?a 2])]",
    "[:find (count-distinct ?n) :where [$edges _ ?a] [$names ?a ?n]]",
)
RULES = "[[(far ?a ?b) [$edges ?a ?b]] [(far ?a ?c) (far ?a ?b) [$edges ?b ?c]]]"
MOTIFS = (
    ("(a)-[e]->(b); (b)-[f]->(a)", None),
    ("(a)-[]->(b); !(b)-[]->(a)", "a.n < b.n OR a.text = 'x'"),
    ("(a)-[e*1..2]->(b)", None),
    ("(a)-[e]-(b); (b)-[]->(c)", "e.w BETWEEN 1 AND 3 AND c.n IS NOT NULL"),
    ("(a)<-[e]->(b)", "NOT e1.w IN (1, 2) AND a.text IS NULL"),
)


def table(chance, kinds, n):
    """Return random rows with weights 1 or -1; deletions match earlier insertions."""
    return [tuple(chance.choice(values) for values in kinds) for _ in range(n)]


def scripts(chance, kinds, n_ticks=4):
    there = {name: [] for name in kinds}
    for _ in range(n_ticks):
        tick = {}
        for name, own in kinds.items():
            gone = [there[name].pop(chance.randrange(len(there[name]))) for _ in range(min(2, len(there[name])))]
            come = table(chance, own, chance.randint(1, 6))
            there[name] += come
            tick[name] = [*((row, -1) for row in gone), *((row, 1) for row in come)]
        yield tick


@pytest.mark.parametrize("text", QUERIES)
def test_queries_in_edn(text):
    sources = {
        "edges": edn.Relation("edges", ("a", "b"), ("int64", "int64")),
        "names": edn.Relation("names", ("a", "name"), ("int64", "string")),
    }
    query = edn.parse(text, sources, arguments=[RULES] if "%" in text else [])
    chance = random.Random(text)
    ticks = list(scripts(chance, {"edges": [range(4), range(4)], "names": [range(4), ["x", "y"]]}))
    ticks[0] |= {name: list(rows) for name, rows in query.input_rows.items()}
    assert_equal_answers(query.rules, ticks, bag=False)


@pytest.mark.drawn("text", "where", "semantics", each=True)
@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize(("text", "where"), MOTIFS)
def test_motifs(text, where, semantics):
    graph = Graph(("id", "n", "text"), ("src", "dst", "w"))
    found = compile_motif(motif.parse(text), where=where, semantics=semantics, graph=graph)
    chance = random.Random(text)
    kinds = {
        "vertices": {"_row": range(99), "id": range(4), "n": [1, 2, None], "text": ["x", "y", None]},
        "edges": {"_row": range(99), "src": range(4), "dst": range(4), "w": [1, 2, 3, None]},
    }
    read = {"vertices": found.vertices, "edges": found.edges}
    own = {name: [list(kinds[name][column]) for column in columns] for name, columns in read.items() if columns}
    assert_equal_answers(
        found.rules,
        list(scripts(chance, own)),
        bag=True,
        types={
            name: {column: "string" if column == "text" else "int64" for column in columns}
            for name, columns in read.items()
            if columns
        },
    )

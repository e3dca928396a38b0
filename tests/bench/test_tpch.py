"""TPC-H's queries as views: right after every refresh, whatever the share of orders that come and go."""

from __future__ import annotations

import pytest

from bench.tpch.data import generated, generator, stream
from bench.tpch.measure import AnswerError, Kept, over_ticks
from bench.tpch.queries import QUERIES, columns_of
from bench.tpch.rival import Tables
from gpu_wcoj.query.projection import narrow_inputs
from gpu_wcoj.query.sql import parse

SCALE = 0.004

pytestmark = [
    pytest.mark.skipif(generator() is None, reason="tpchgen-cli is not installed"),
    pytest.mark.xdist_group("TPC-H"),  # one process makes the tables
]


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    return generated(SCALE, tmp_path_factory.mktemp("tpch"))


def test_all_queries_of_one_text_over_refreshes(tables):
    begin, ticks = stream(tables, 5, seed=3, share=0.05)
    kept = Kept(list(QUERIES), begin, threads=1)
    other = Tables({name: begin[name].select(list(columns)) for name, columns in kept.columns.items()}, 1)
    kept.check(other, "in the beginning")
    begun = {name: dict(rows) for name, rows in kept.rows.items()}
    for number, tick in enumerate(ticks, 1):
        assert kept.add(kept.apply(tick.changes(kept.columns))) > 0
        other.apply(tick, kept.columns)
        kept.check(other, f"after tick {number}")
    other.close()
    assert all(kept.rows.values()), "every query has rows"
    assert sum(begun[name] != dict(rows) for name, rows in kept.rows.items()) >= 4
    held = {name: kept.program.relation(name).to_dict() for name in QUERIES}
    assert held == {name: dict(rows) for name, rows in kept.rows.items()}


def test_measurements_hold_every_tick(tables):
    begin, ticks = stream(tables, 3, seed=4)
    found = over_ticks("q10", begin, ticks, threads=1, warm_up=0)
    assert len(found["changed_rows"]) == 3
    assert {how: len(timing["processor"]) for how, timing in found["ticks"].items()} == {"ours": 3, "DuckDB": 3}


def test_a_wrong_answer_is_told(tables):
    begin, _ = stream(tables, 1, seed=5)
    kept = Kept(["q3"], begin, threads=1)
    row = next(iter(kept.rows["q3"]))
    kept.rows["q3"][row] += 1
    other = Tables({name: begin[name].select(list(columns)) for name, columns in kept.columns.items()}, 1)
    with pytest.raises(AnswerError, match="q3 now: the view has 1 rows such as .* more, and lacks none"):
        kept.check(other, "now")
    other.close()


def test_refreshes_replace_orders_with_all_their_lines(tables):
    begin, ticks = stream(tables, 4, seed=6, share=0.01)
    present = set(begin["orders"]["o_orderkey"].to_pylist())
    for tick in ticks:
        come, gone = (set(part["orders"]["o_orderkey"].to_pylist()) for part in (tick.come, tick.gone))
        assert len(come) == len(gone) == len(tables["orders"]) // 100
        assert come.isdisjoint(present)
        assert gone <= present
        assert set(tick.come["lineitem"]["l_orderkey"].to_pylist()) == come
        present = present - gone | come


@pytest.mark.parametrize("name", QUERIES)
def test_joins_read_what_is_cut_down(name):
    """No rule that joins lines reads more columns of them than the query names."""
    columns = columns_of(" ".join(QUERIES.values()))
    rules = narrow_inputs(parse(f"CREATE VIEW {name} AS {QUERIES[name]}", columns))
    wide = [rule for rule in rules.rules if len(rule.atoms) > 1 for atom in rule.atoms if atom.relation == "lineitem"]
    assert all("null" in str(rule) for rule in wide)
    assert any(atom.relation.startswith("lineitem#cut") for rule in rules.rules for atom in rule.atoms)

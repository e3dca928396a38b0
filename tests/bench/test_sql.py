"""Statements of bench.sql agree with DuckDB, and views follow refreshes; each run takes other statements."""

from __future__ import annotations

import os
import random

import pyarrow as pa
import pytest

from bench.sql.__main__ import count, summarise
from bench.sql.compare import difference
from bench.sql.data import statements
from bench.sql.measure import Outcome, Rival, apart, ask, follow
from bench.sql.tables import tables

SEED = int(os.environ.get("TEST_SEED", "1"))
N_STATEMENTS, N_VIEWS = 16, 8
TYPES = (
    "this calculates with a value of type", "'||' needs texts", "do not compare", "a date is compared with a value",
)  # fmt: skip
"""Refusals of types that DuckDB converts."""


def test_there_are_a_thousand_statements_of_many_kinds():
    found = list(statements())
    assert len(found) >= 1_000
    assert len({text for _, text in found}) > 0.98 * len(found)
    assert len({section for section, _ in found}) >= 15
    assert sum(not section.startswith("drawn") for section, _ in found) >= 300


def test_a_sample_agrees_with_duckdb():
    relations = tables()
    rival = Rival(relations)
    sample = random.Random(SEED).sample(list(statements()), N_STATEMENTS)
    for _, text in sample:
        outcome = ask(text, relations, rival)
        assert outcome.agrees or any(part in outcome.why for part in TYPES), f"seed {SEED}: {text}\n{outcome}"


def test_a_sample_of_views_follows_refreshes():
    chosen = [text for section, text in statements() if not section.startswith("drawn") and "ORDER BY" not in text]
    for text in random.Random(SEED).sample(chosen, N_VIEWS):
        found = follow(text, tables(), 4, SEED, 1)
        assert found == "exact" or "Error: " in found, f"seed {SEED}: {text}\n{found}"


def test_outcomes_say_who_answered_and_why():
    relations = tables()
    rival = Rival(relations)
    outcome = ask("SELECT e.name, random() < 1 FROM emp e JOIN dept d ON e.dept = d.id", relations, rival)
    assert (outcome.worker, outcome.n_rows, outcome.wrong) == ("both", 6, "")
    assert "random gives other results" in outcome.why
    assert ask("SELECT name FROM emp", relations, rival).worker == "engine"
    refused = ask("SELECT hired || 1.5 FROM emp", relations, rival)
    assert refused.worker == "" or refused.agrees


def test_a_view_follows_refreshes():
    chance = random.Random(SEED)
    rows = pa.table({"k": [chance.randrange(30) for _ in range(2_000)], "v": [chance.random() for _ in range(2_000)]})
    text = "SELECT a.k, count(*) AS n, max(b.v) AS m FROM t a JOIN u b ON a.k = b.k GROUP BY a.k ORDER BY a.k"
    assert follow(text, {"t": rows, "u": rows.slice(0, 50)}, 3, SEED, 1_000) == "exact"
    assert follow("SELECT random() FROM t", {"t": rows}, 1, SEED, 1_000).startswith("UnsupportedError: RANDOM")


@pytest.mark.parametrize(
    ("ours", "theirs", "is_ordered", "says"),
    [
        ([(1, "a"), (2, None)], [(2, None), (1, "a")], False, ""),
        ([(1, "a"), (2, None)], [(2, None), (1, "a")], True, "ours (1, 'a')"),
        ([(0.1 + 0.2,)], [(0.3,)], True, ""),
        ([(None,)], [(0.0,)], False, "ours (None,)"),
        ([(float("nan"),)], [(float("nan"),)], False, ""),
        ([([1, 2],)], [([1, 3],)], False, "ours ([1, 2],)"),
        ([(1,)], [(1,), (1,)], False, "1 rows, not 2"),
    ],
)
def test_differences(ours, theirs, is_ordered, says):
    wrong = difference(ours, theirs, is_ordered=is_ordered)
    assert wrong.startswith(says) if says else wrong == ""


def test_a_process_that_fails_or_does_not_end_is_told():
    def endless() -> Outcome:
        while True:
            pass

    assert apart(endless, 0.2) == "no end after 0.2 seconds"
    assert apart(lambda: os._exit(3), 5) == "the process ended without an answer"
    assert apart(lambda: "exact", 5) == "exact"


def test_summaries_count_agreement_by_worker():
    right = {"worker": "engine", "wrong": "", "view": "exact"}
    wrong = {"worker": "both", "wrong": "1 rows, not 2", "view": "refused"}
    refused = {"worker": "", "wrong": "", "view": ""}
    assert count([right, wrong, refused]) == {"all": 3, "agree": 1, "engine": 1, "view exact": 1}
    assert summarise({"statements": {"a": [right], "b": [refused]}})["statements"]["agree"] == 1

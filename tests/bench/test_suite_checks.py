"""Who confirms an answer, what is compared with what, and what is measured of memory."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

pytest.importorskip("duckdb", reason="the extra 'bench' is not installed")

from bench.suite import runner
from bench.suite.catalogue import Spec, made, tiny
from bench.suite.harness import Limits, measured, record_of
from bench.suite.judge import Expected, judge
from bench.suite.record import Case, Check, Document, Record, Spread
from bench.suite.registry import OWN, STRATEGIES
from bench.suite.report import summary, tables
from bench.suite.report.facts import Facts
from bench.suite.runner import Progress, SuiteRun
from bench.suite.suites import SUITES

TRIANGLE = Spec("triangle", "rmat", {"scale": 6, "edges": 250}, 10, "mixed", 2, rivals=("liar",))
LIAR, HONEST = "tests.helpers.suite_contenders:Liar", "tests.helpers.suite_contenders:Honest"


def run_of(monkeypatch, contenders, expected):
    """The records of one case, with what the judge knows, and these contenders as a rival."""
    monkeypatch.setattr(runner, "RIVALS", {"liar": contenders})
    monkeypatch.setattr(runner, "judge", lambda *_: expected)
    suite = replace(SUITES["tiny"], specs=(TRIANGLE,), random_queries=0, rounds=1)
    progress = Progress(lambda *_: None, lambda _: None, lambda _: None, lambda _: None)
    return SuiteRun(suite, STRATEGIES, ("liar",), 1, progress).run()


@pytest.mark.long
def test_other_code_that_disagrees_makes_the_engine_wrong_where_nobody_else_knows(monkeypatch):
    document = run_of(monkeypatch, (LIAR,), Expected())
    by_name = {one.contender: one for one in document.records}
    assert not any(one.check.is_right for one in by_name.values())
    assert by_name["wcoj"].check.message.startswith(f"{LIAR} does not agree, and nobody else can tell: tick ")
    facts = Facts.of([document])
    assert len(facts.wrong()) == len(document.records)
    assert not facts.measured()


def test_other_code_that_disagrees_is_wrong_where_a_judge_agrees_with_the_engine(monkeypatch):
    case = made(TRIANGLE)
    document = run_of(monkeypatch, (LIAR,), judge(case.workload, case.stream, None, 60))
    assert {one.contender for one in document.records if one.check.is_right} == set(STRATEGIES)


@pytest.mark.long
def test_what_the_engines_ways_agree_on_is_no_confirmation(monkeypatch):
    alone = Facts.of([run_of(monkeypatch, (), Expected())])
    assert (len(alone.checked()), len(alone.agreed())) == (0, 3)
    beside = Facts.of([run_of(monkeypatch, (HONEST,), Expected())])
    assert (len(beside.checked()), len(beside.agreed())) == (5, 0)
    assert "5 of 5 records have an answer that other code confirms, 0 one that" in summary.lines(beside)[0]
    assert "kept" in OWN


@pytest.mark.drawn("name", share=4)
@pytest.mark.parametrize("name", ["path3", "path5", "star3", "star5", "triangle", "cycle4", "bowtie", "barbell"])
def test_large_answers_are_counted_by_others_in_no_time(name):
    """Their joins as SQL say them would list them."""
    spec = next(one for one in SUITES["quick"].specs if one.workload == name)
    case = made(spec)
    expected = judge(case.workload, case.stream, None, 2.0)
    assert expected.before > 1_000
    assert expected.after > 1_000


def record(contender, seconds, *, cores=2, threads=1, is_once=False, first=None):
    case = Case("triangle", "cyclic", "rmat", {"scale": 1}, 1, 100, 10, "mixed", 1, atoms=3)
    one = Record(
        case, contender, threads, seconds=Spread.of([seconds]), cpu_seconds=Spread.of([seconds]), first_only=is_once,
        round_cpu_seconds=(seconds,), first_cpu_seconds=first, check=Check(True, ("duckdb",)),
    )  # fmt: skip
    return Document({"commit": "a", "cores": cores, "threads": threads, "date": str(seconds)}, "tiny", 1, (one,))


def test_records_of_other_threads_or_machines_are_not_compared():
    one, other = record("binary", 6.0), record("wcoj", 2.0)
    assert [speedup for _, speedup in Facts.of([one, other]).measured()] == [3.0]
    for differing in ({"threads": 2}, {"cores": 4}):
        facts = Facts.of([one, record("wcoj", 2.0, **differing)])
        assert not facts.measured()
        assert [name for _, name in facts.records] == ["wcoj"]


def test_a_round_that_was_taken_once_is_compared_with_a_first_one():
    facts = Facts.of([record("wcoj", 2.0, first=3.0), record("binary", 6.0, is_once=True, first=6.0)])
    assert [speedup for _, speedup in facts.measured()] == [2.0]
    ((_, binary, wcoj, speedup, *_),) = tables.strategies(facts).rows
    assert (binary, wcoj, speedup) == ("6 s (once)", "2 s", "2")


@pytest.mark.skipif(sys.platform != "linux", reason="what a process had at most is forgotten on Linux only")
def test_the_memory_of_a_check_is_not_the_contenders():
    """All triangles are counted and hashed after the ticks, which takes more than anything before."""
    spec = Spec("triangle", "rmat", {"scale": 11, "edges": 16_000}, 1, "insert", 1)
    case, limits = made(spec), Limits(60, 0.1, 1)
    found = []
    for expected in (Expected(), judge(case.workload, case.stream, None, 60)):
        (run,), _ = measured(case, made(tiny(spec)), ("wcoj",), limits, lambda known=expected: known, lambda _: None)
        one = record_of(run, case, 1, None, None)
        assert (run.count is None) == (expected.after is None)
        found.append(one.peak_bytes - one.before_bytes)
    assert max(found) < 3_000_000

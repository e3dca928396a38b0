"""The benchmark suite: what it measures is right, what is wrong it does not measure, and what it writes can be read."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("duckdb", reason="the extra 'bench' is not installed")

import gpu_wcoj.cli.main
from bench.lsqb.data import DATA, relations
from bench.lsqb.queries import ANSWERS
from bench.suite import command, harness, suites
from bench.suite.catalogue import TINY, WORKLOADS, Spec, made, tiny
from bench.suite.comparison import compared
from bench.suite.contender import Setting
from bench.suite.digest import digest
from bench.suite.harness import Limits, measured, record_of
from bench.suite.judge import Expected, by_duckdb, by_graphblas, judge, state_after
from bench.suite.record import Case, Check, Document, Planning, Record, Spread, Work
from bench.suite.registry import STRATEGIES, factory
from bench.suite.runner import Progress, SuiteRun
from bench.suite.streams import Data, TooFewRowsError, stream
from bench.suite.workload import Stream
from bench.suite.workloads import fixed, graphs, lsqb
from gpu_wcoj.cli.main import main

HERE = "tests.helpers.suite_contenders"
LIMITS = Limits(limit=20.0, budget=5.0, rounds=2)
TRIANGLE = Spec("triangle", "rmat", {"scale": 7, "edges": 500}, 20, "mixed", 2)


LONG = ("clique5", "kite", "star4", "star5", "path4", "path5", *(f"lsqb-q{number}" for number in (1, 4, 5, 7, 8)))
"""Workloads that others are like."""


def skip_without_rows(name):
    if WORKLOADS[name].family == "lsqb" and not DATA.is_dir():
        pytest.skip(f"there is no folder {DATA} with LSQB's rows")


def answers(name, case, folder, how="count"):
    """What a contender finds at a case: rows before, changes, work, rows after, their hash, and the changes back."""
    contender = factory(name)(Setting(case.workload, how, 1, folder, len(case.stream.ticks)))
    contender.load(case.stream.state)
    before = contender.count()
    changes = [contender.tick(contender.prepare(tick)).net for tick in case.stream.ticks]
    work = contender.work()
    after, rows = contender.count(), contender.digest()
    back = [
        contender.tick(contender.prepare({name: one.undone() for name, one in tick.items()})).net
        for tick in reversed(case.stream.ticks)
    ]
    assert [-one for one in reversed(back)] == changes
    assert contender.count() == before
    contender.close()
    return before, changes, work, after, rows


@pytest.mark.drawn("name", share=4)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long) if name in LONG else name for name in WORKLOADS]
)
def test_all_strategies_give_what_duckdb_does(name, tmp_path):
    skip_without_rows(name)
    spec = next(spec for spec in suites.TINIEST.specs if spec.workload == name)
    case = made(spec)
    n_ticks = len(case.stream.ticks)
    counts = []
    for number in range(n_ticks + 1):
        state = state_after(Stream(case.stream.state, case.stream.ticks[:number]))
        counts.append(by_duckdb(case.workload, state, 60))
    expected = judge(case.workload, case.stream, case.known, 60)
    assert expected.total == counts[-1] - counts[0]
    for strategy in STRATEGIES:
        before, changes, work, after, rows = answers(strategy, case, tmp_path)
        assert [before, after] == [counts[0], counts[-1]]
        assert changes == np.diff(counts).tolist()
        assert expected.digest in (None, rows)
        assert work.proposals + work.rows > 0
    assert any(changes) or name == "lsqb-q3", "nothing has changed, so nothing was tested"


@pytest.mark.drawn("name")
@pytest.mark.parametrize("name", ["triangle", "house", "path3", "tpch-local"])
def test_all_strategies_make_as_many_rows_as_they_count(name, tmp_path):
    case = made(next(spec for spec in suites.TINIEST.specs if spec.workload == name))
    found = [answers(strategy, case, tmp_path, how) for strategy in STRATEGIES for how in ("count", "rows")]
    assert len({tuple(changes) for _, changes, _, _, _ in found}) == 1
    assert len({rows for _, _, _, _, rows in found}) == 1


@pytest.mark.parametrize("scale", ["example", "0.003"])
@pytest.mark.skipif(not DATA.is_dir(), reason=f"there is no folder {DATA} with LSQB's rows")
def test_lsqb_in_sql_gives_the_known_answers(scale):
    for workload, known in zip(lsqb.WORKLOADS.values(), ANSWERS[scale], strict=True):
        assert by_duckdb(workload, relations(scale, list(workload.columns)), 60) == known


def test_other_numbers_of_vertices_give_as_many_rows():
    for name, workload in graphs.WORKLOADS.items():
        if workload.depends_on_order:
            spec = replace(TRIANGLE, workload=name, size=TINY["rmat"])
            one, other = made(spec), made(spec, "degree")
            assert by_duckdb(workload, one.stream.state, 60) == by_duckdb(workload, other.stream.state, 60)
            assert one.case.key != other.case.key


def test_graphblas_counts_what_duckdb_does():
    pytest.importorskip("graphblas", reason="the extra 'bench' is not installed")
    for name in graphs.QUERIES:
        case = made(replace(TRIANGLE, workload=name))
        assert by_graphblas(case.workload, case.stream.state) == by_duckdb(case.workload, case.stream.state, 60)


@pytest.mark.drawn("kind")
@pytest.mark.parametrize("name", [name for name, one in WORKLOADS.items() if one.family not in ("hub", "arriving")])
@pytest.mark.parametrize("kind", ["insert", "mixed", "delete"])
def test_ticks_insert_what_is_absent_and_delete_what_is_there(name, kind):
    skip_without_rows(name)
    spec = tiny(Spec(name, suites.source_of(name), {}, 10, kind))
    case = made(spec)
    there = {relation: set(map(tuple, rows.tolist())) for relation, rows in case.stream.state.items()}
    assert all(len(there[relation]) == len(rows) for relation, rows in case.stream.state.items())
    inserted = deleted = 0
    for tick in case.stream.ticks:
        for relation, change in tick.items():
            new, gone = set(map(tuple, change.inserted.tolist())), set(map(tuple, change.deleted.tolist()))
            assert not new & there[relation]
            assert gone <= there[relation]
            there[relation] = (there[relation] - gone) | new
            inserted, deleted = inserted + len(new), deleted + len(gone)
    assert {"insert": deleted == 0 < inserted, "mixed": min(inserted, deleted) > 0, "delete": deleted > inserted}[kind]
    after = state_after(case.stream)
    assert there == {relation: set(map(tuple, rows.tolist())) for relation, rows in after.items()}


def test_too_few_rows_are_said():
    data = Data(20, lambda items: {"r": items[:, None]})
    with pytest.raises(TooFewRowsError, match="5 ticks of 4 changed items need more than the 20"):
        stream(data, 4, "insert", 5, 1)


def test_arriving_nodes_are_all_edges_once():
    rows = fixed.arriving(7, 500, 1, 20, 16, None)
    edges = np.concatenate([tick["edge"].inserted for tick in rows.ticks])
    assert len(np.unique(edges, axis=0)) == len(edges) == len(state_after(rows)["edge"])


SHARING = pytest.mark.xdist_group("contenders")
"""Keeps the tests of `runs` in the process that makes them."""


@pytest.fixture(scope="module")
def runs():
    """Contenders of all sorts at one case, with a judge."""
    case = made(TRIANGLE)
    names = [f"{HERE}:{name}" for name in ("Honest", "Liar", "Forger", "Inconstant", "OwnClock", "absent", "unfit")]
    expected = judge(case.workload, case.stream, None, 60)
    found, settled = measured(case, made(tiny(TRIANGLE)), names, LIMITS, lambda: expected, lambda text: None)
    assert settled.changes is not None
    return case, {run.contender.rpartition(":")[2]: record_of(run, case, 1, None, None) for run in found}


@SHARING
def test_a_right_answer_is_timed(runs):
    case, records = runs
    record = records["Honest"]
    assert record.check.is_right
    assert {"duckdb", f"{HERE}:OwnClock"} <= set(record.check.by)
    assert record.seconds.n == record.cpu_seconds.n == record.undo_seconds.n == 2 * case.case.n_ticks
    assert len(record.round_cpu_seconds) == 2
    assert record.version == "1"
    assert record.stopped is None
    assert 0 < record.before_bytes <= record.peak_bytes
    assert record.work == Work(
        probes=sum(len(state_after(Stream(case.stream.state, case.stream.ticks[:n]))["e"]) for n in (1, 2))
    )


@SHARING
def test_a_wrong_answer_is_reported_and_not_timed(runs):
    _, records = runs
    for name, message in (
        ("Liar", "the ticks change the answer by"),
        ("Forger", "the rows after the last tick have the hash"),
    ):
        record = records[name]
        assert not record.check.is_right
        assert message in record.check.message
        assert record.seconds is record.cpu_seconds is record.undo_seconds is record.load_seconds is None
        assert not record.round_cpu_seconds


@SHARING
def test_an_answer_that_changes_from_round_to_round_is_not_timed(runs):
    record = runs[1]["Inconstant"]
    assert not record.check.is_right
    assert "a later round found" in record.check.message
    assert record.seconds is None


@SHARING
def test_a_contender_may_have_its_own_clock(runs):
    record = runs[1]["OwnClock"]
    assert record.seconds.median == 1.5
    assert record.cpu_seconds.median == 2.5
    assert record.first_only, "a second round would have taken longer than the budget"


@SHARING
def test_who_cannot_take_part_says_why(runs):
    assert runs[1]["absent"].stopped == "the library is not installed"
    assert runs[1]["unfit"].stopped == "it counts stars only"
    assert runs[1]["unfit"].seconds is None


@pytest.mark.long
def test_who_takes_too_long_or_ends_is_stopped():
    case = made(TRIANGLE)
    names = [f"{HERE}:Sleeper", f"{HERE}:Deserter", f"{HERE}:Keeper", f"{HERE}:Toiler", f"{HERE}:Straggler"]
    begin = time.monotonic()
    found, _ = measured(
        case,
        made(tiny(replace(TRIANGLE, kind="insert"))),
        names,
        replace(LIMITS, limit=2.0),
        Expected,
        lambda text: None,
    )
    assert time.monotonic() - begin < 50
    sleeper, deserter, keeper, toiler, straggler = found
    assert sleeper.stopped == "stopped after 2 s"
    assert deserter.stopped.startswith("its process ended with 7")
    assert keeper.stopped == "takes no deletions"
    assert toiler.stopped == "stopped after 2 s"
    spent = record_of(toiler, case, 1, None, None).unfinished_seconds
    assert sleeper.unfinished < spent <= 2.1, "what it had computed for the round, by the processor's clock"
    assert deserter.unfinished is keeper.unfinished is None
    assert straggler.stopped == "stopped after 2 s"
    assert straggler.unfinished == sum(straggler.first["cpu_seconds"]) > 0, "that of the way there"


@pytest.mark.parametrize("name", ["absent", "Deserter"])
def test_what_is_known_is_not_forgotten_with_a_rival_that_never_ran(name):
    case, known = made(TRIANGLE), Expected(3, 4, (1, 0), by=("known",))
    progress = Progress(lambda *_: None, lambda _: None, lambda _: None, lambda _: None)
    run = SuiteRun(suites.TINIEST, (), (), 1, progress)
    with harness.started(case, made(tiny(TRIANGLE)), [f"{HERE}:{name}"], LIMITS) as (begun,):
        harness.warmed([begun], case, LIMITS)
        assert run._rival_timed(case, begun, LIMITS, known, None, lambda _: None) == known
    assert [one.seconds for one in run.records] == [None] * (name == "Deserter")
    assert list(run.missing) == [f"{HERE}:absent"] * (name == "absent")


def test_who_takes_no_deletions_is_loaded_again():
    spec = replace(TRIANGLE, kind="insert")
    case = made(spec)
    (run,), _ = measured(case, made(tiny(spec)), [f"{HERE}:Keeper"], LIMITS, Expected, lambda text: None)
    record = record_of(run, case, 1, None, None)
    assert record.check.is_right
    assert record.seconds.n == 2 * case.case.n_ticks
    assert record.undo_seconds is None


def test_contenders_that_disagree_are_both_wrong_if_nobody_else_knows():
    def run(name, changes):
        return harness.Run(name, None, first={"changes": changes})  # type: ignore[arg-type]  # no process is asked

    one, other = run("one", [1, 2]), run("other", [1, 3])
    assert harness.settled(Expected(), [one, other]) == Expected()
    assert not one.check.is_right
    assert not other.check.is_right
    assert one.check.message == "one and other do not agree: tick 1 changes the answer by 3 rows; it is 2"
    one, other, third = run("one", [1, 2]), run("other", [1, 2]), run("third", [2, 2])
    known = harness.settled(Expected(10, 13, by=("judge",)), [one, other, third])
    assert known.changes == (1, 2)
    assert (one.check.by, other.check.by) == (("judge", "other"), ("judge", "one"))
    assert third.check.message == "the ticks change the answer by 4 rows; it is 3"


def test_a_document_is_read_as_it_was_written(tmp_path):
    case = Case("triangle", "cyclic", "rmat", {"scale": 7}, 1, 100, 10, "mixed", 2, skew=1.5, largest_degree=7)
    record = Record(
        case, "wcoj", seconds=Spread.of([1.0, 2.0, 4.0]), round_cpu_seconds=(1.0, 2.0), work=Work(1, 2, 3, 4),
        check=Check(True, ("duckdb",), 5, (1, -2)), notes={"statement": "SELECT 1"},
    )  # fmt: skip
    comparison = compared(case, {"wcoj": (1.0,), "binary": (2.0,), "auto": (1.5,)}, {"auto": Work(1)}, None, {"x": "y"})
    document = Document(
        {"date": "2026-01-01", "commit": "abc", "cores": 2}, "tiny", 1, (record,), (comparison,),
        Planning(Spread.of([0.5]), 1, 3), 2.0, {"ladybug": "not installed"},
    )  # fmt: skip
    document.write(tmp_path / "new" / "suite.json")
    assert Document.read(tmp_path / "new" / "suite.json") == document
    written = json.loads((tmp_path / "new" / "suite.json").read_text())
    (tmp_path / "other.json").write_text(json.dumps({**written, "schema": 0}))
    with pytest.raises(ValueError, match="of schema 0, and this reads schema 1"):
        Document.read(tmp_path / "other.json")
    (tmp_path / "more.json").write_text(json.dumps({**written, "colour": "red"}))
    with pytest.raises(ValueError, match="Document has no field colour"):
        Document.read(tmp_path / "more.json")


def test_a_ratio_is_by_the_better_one():
    case = Case("triangle", "cyclic", "rmat", {}, 1, 100, 10, "mixed", 2)
    work = {
        "wcoj": Work(proposals=10, probes=10),
        "binary": Work(proposals=5, probes=5),
        "auto": Work(proposals=6, probes=6),
    }
    found = compared(case, {"wcoj": (4.0, 5.0, 6.0), "binary": (), "auto": (5.5,)}, work, None, {"binary": "stopped"})
    assert (found.ratio, found.work_ratio) == (1.1, 1.2)
    assert compared(case, {"auto": (1.0,)}, {}, None, {}).ratio is None


def test_hashes_tell_rows_apart():
    rows = np.random.default_rng(1).integers(0, 5, (20, 3))
    rows = np.unique(rows, axis=0)
    assert digest(rows) == digest(rows[::-1])
    assert len({digest(rows), digest(rows[1:]), digest(rows[:, [1, 0, 2]]), digest(rows + 1)}) == 4


def test_the_command_runs_a_suite(tmp_path, capfd):
    assert (
        main(
            [
                "bench",
                "--suite",
                "tiny",
                "--workloads",
                "triangle,random",
                "--rivals",
                "none",
                "--report",
                str(tmp_path),
            ]
        )
        == 0
    )
    printed = capfd.readouterr().out
    (path,) = tmp_path.glob("suite-tiny-*.json")
    document = Document.read(path)
    assert [record.contender for record in document.records] == list(STRATEGIES)
    assert all(
        record.check.is_right and record.plan_seconds > 0 and record.bound_rows > 0 for record in document.records
    )
    assert document.comparisons[0].ratio > 0
    assert sum(one.case.family == "random" for one in document.comparisons) == suites.SUITES["tiny"].random_queries
    assert document.machine["commit"]
    assert "auto by the better one" in printed
    assert "WRONG" not in printed


def test_a_wrong_answer_is_the_commands_failure(monkeypatch, capsys):
    record = Record(
        Case("triangle", "cyclic", "rmat", {}, 1, 9, 1, "insert", 1), "auto", check=Check(False, message="3, not 2")
    )
    document = Document({"date": "2026-01-01", "commit": "abc"}, "tiny", 1, (record,))
    monkeypatch.setattr(command.SuiteRun, "run", lambda self: document)
    monkeypatch.setattr(command, "RESULTS", Path(os.devnull).parent)
    monkeypatch.setattr(Document, "write", lambda self, path: None)
    assert main(["bench", "--suite", "tiny", "--rivals", "none"]) == 2
    printed = capsys.readouterr()
    assert "1 WRONG ANSWERS: auto at triangle, rmat, 9 rows, 1 tick of 1 insert" in printed.out
    assert "1 answers were wrong" in printed.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rivals", "oracle"], "there is no rival oracle"),
        (["--workloads", "triangle,square"], "the suite 'quick' has no workload square"),
        (["--threads", "0"], "--threads=0 is not allowed"),
        (["--suite", "huge"], "huge"),
    ],
)
def test_what_the_command_does_not_know_it_says(arguments, message, capsys):
    assert main(["bench", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_without_the_sources_the_command_says_where_they_are_needed(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(gpu_wcoj.cli.main, "__file__", str(tmp_path / "gpu_wcoj" / "commands" / "bench.py"))
    assert main(["bench"]) == 2
    printed = capsys.readouterr().err
    assert "the benchmark is not installed" in printed
    assert "make bench-suite" in printed


def test_no_suite_has_a_case_that_cannot_be_made():
    for suite in suites.SUITES.values():
        for spec in suite.specs:
            assert spec.workload in WORKLOADS
            assert TINY[spec.data].keys() <= spec.size.keys(), spec
        assert len(set(map(repr, suite.specs))) == len(suite.specs)

"""What the report reads off records that are made up: thresholds, where binary joins came to no end, what is chosen."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("matplotlib", reason="the extra 'bench' is not installed")

from bench.suite.catalogue import WORKLOADS, Spec, made, tiny
from bench.suite.record import Case, Check, Comparison, Document, Record, Spread
from bench.suite.report import page, plots, summary, tables
from bench.suite.report.facts import Facts
from bench.suite.report.thresholds import COMMAND, thresholds
from bench.suite.suites import source_of


def taken(contender, scale, rounds, **others):
    """A record of triangles at a state of so many thousand rows."""
    case = Case("triangle", "cyclic", "rmat", {"scale": scale}, 1, 1_000 * scale, 1_000, "mixed", 2, atoms=3)
    check = None if "stopped" in others else Check(True, ("duckdb",))
    return Record(case, contender, seconds=Spread.of(rounds), round_cpu_seconds=rounds, check=check, **others)


def test_the_state_from_which_on_it_is_ten_times_as_fast_is_told():
    stopped = {"stopped": "stopped after 30 s", "unfinished_seconds": 28.0}
    records = [
        *(taken("wcoj", scale, (1.0, 1.0, 2.0)) for scale in (1, 2, 3, 4)),
        *(taken("auto", scale, (1.1,)) for scale in (1, 2)),
        *(taken("binary", scale, (seconds,)) for scale, seconds in ((1, 11.0), (2, 4.0), (3, 10.0))),
        taken("binary", 4, (), **stopped),
    ]
    others = [replace(one, case=replace(one.case, parameters={"scale": 9, "skew": 25})) for one in records]
    slower = tuple(taken("binary", scale, (99.0,)) for scale in (1, 2))  # in fewer rounds, by another suite
    facts = Facts.of([Document({}, "skewed", 1, (*records, *others)), Document({}, "varied", 1, slower)])
    table = tables.tenfold(facts)
    measured = "1,000: 11, 2,000: 4, 3,000: 10, 4,000: more than 28"
    assert table.rows == (("triangle", measured, "3,000 rows", "1.1"),)
    (found,) = thresholds(facts)
    assert [point.is_least for point in found.points] == [False, False, False, True]
    late = Facts.of([Document({}, "skewed", 1, tuple(replace(one, unfinished_seconds=None) for one in records))])
    assert tables.tenfold(late).rows[0][1:3] == (measured.replace("more than 28", "–"), "–")


def test_where_binary_joins_came_to_no_end_is_told():
    stopped = {"stopped": "stopped after 30 s", "unfinished_seconds": 28.0}
    records = [
        *(taken("wcoj", scale, (1.0, 1.0, 2.0)) for scale in (1, 2, 3)),
        *(taken("binary", scale, (seconds,)) for scale, seconds in ((1, 0.5), (2, 2.0))),
        taken("binary", 3, (), **stopped),
    ]
    facts = Facts.of([Document({}, "varied", 1, tuple(records))])
    (row,) = [row for row in tables.crossings(facts).rows if row[0] == "rows of the state"]
    assert row[2:] == ("1,000 to 2,000", "0.5 to 2", "1,414", "3,000 (more than 28)")
    without = Facts.of([Document({}, "varied", 1, tuple(records[:-1]))])
    (row,) = [row for row in tables.crossings(without).rows if row[0] == "rows of the state"]
    assert row[-1] == "–"
    assert 'id="endless at 3000"' in plots.state_size(facts)
    assert "endless" not in plots.state_size(without)
    longer = Facts.of([
        Document({}, "varied", 1, tuple(records)),
        Document({}, "skewed", 1, tuple(replace(one, case=replace(one.case, n_ticks=1)) for one in (
            taken("wcoj", 3, (1.0,)), taken("binary", 3, (40.0,))
        ))),
    ])  # fmt: skip
    assert longer.endless(lambda case: case.state_rows, "rows of the state") == {}


def test_the_planners_choice_is_told_by_time_and_by_work():
    def chosen(family, ratio, work_ratio):
        case = replace(taken("auto", 1, (1.0,)).case, family=family, workload=f"{family} {ratio}")
        rounds = {"wcoj": (0.002, 0.004, 0.003), "binary": (), "auto": (0.003 * ratio,)}
        return Comparison(case, rounds, {}, ratio, work_ratio, stopped={"binary": "stopped after 3 s"})

    found = [chosen("cyclic", 1.1, 1.5), chosen("cyclic", 1.2, 0.5), chosen("random", 1.3, 2.0)]
    facts = Facts.of([Document({}, "varied", 1, (), tuple(found))])
    rows = tables.choices(facts).rows
    assert [row[1:] for row in rows] == [
        ("1.8 ms", "1.5 ms", "stopped after 3 s", "1.2", "1.8", "0.5"),
        ("1.65 ms", "1.5 ms", "stopped after 3 s", "1.1", "1.65", "1.5"),
    ]
    line = summary.lines(facts)[8]
    assert "takes 1.15 times what the better strategy takes (median of 2 cases), 1.2 at worst" in line
    assert "it counts 1 times the work of the one that counts less, at most 1.5" in line
    told = "on queries that chance wrote (1 case) its choice takes 1.3 times as long, 1.3 at worst"
    assert line.endswith(f"; {told}.")
    wrong = replace(found[2], check=Check(False), ratio=None)
    alone = Facts.of([Document({}, "full", 1, (), (found[2], wrong))])
    alone = replace(alone, comparisons=(found[2], wrong))
    line = summary.lines(alone)[8]
    assert line.endswith(f"not compared with both strategies; {told}, and 1 case had a wrong answer.")


@pytest.mark.parametrize("name", [name for name, one in WORKLOADS.items() if one.family in ("cyclic", "acyclic")])
def test_a_change_is_so_many_rows_of_the_state(name):
    found = made(tiny(Spec(name, source_of(name), {})))
    for tick in found.stream.ticks:
        assert sum(map(len, tick.values())) == found.case.change_rows * WORKLOADS[name].rows_of_change


def test_small_changes_are_told_by_rows_and_not_by_edges():
    records = []
    states = ("triangle", 1_000_000), ("clique4", 1_000_000), ("diamond", 2_999_000), ("diamond", 3_000_000)
    for workload, rows in states:
        for contender in ("wcoj", "binary"):
            one = taken(contender, 1, (1.0,))
            records.append(replace(one, case=replace(one.case, workload=workload, state_rows=rows)))
    pairs = Facts.of([Document({}, "full", 1, tuple(records))]).pairs()
    assert [pair.is_small for pair in pairs] == [True, True, False, True]


def test_without_its_suite_nothing_is_said_of_ten_times():
    records = (taken("wcoj", 1, (1.0,)), taken("binary", 1, (99.0,)))
    said = {}
    for suite in ("skewed", "varied"):
        found = page.sections(Facts.of([Document({}, suite, 1, records)]))
        (said[suite],) = (one for one in found if one.heading == "Ten times as fast")
    assert said["skewed"].table is not None
    assert said["varied"].table is None
    assert said["varied"].text == f"The suite that shows this was not run: `{COMMAND}`."

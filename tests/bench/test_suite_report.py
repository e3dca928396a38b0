"""The report of the benchmark suite: made of records alone, with their numbers, and complete in itself."""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
import time
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

pytest.importorskip("matplotlib", reason="the extra 'bench' is not installed")

from bench.engine import machine
from bench.suite.bounding import bound_rows
from bench.suite.catalogue import Spec, made
from bench.suite.command import tell
from bench.suite.contender import Setting
from bench.suite.record import Check, Comparison, Document, Planning, Record, Spread
from bench.suite.registry import factory
from bench.suite.report import page, plots, summary
from bench.suite.report.facts import Facts, cpu_per_tick, crossings
from bench.suite.report.words import digits, duration

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.long, pytest.mark.xdist_group("report of the suite")]  # one process makes what they share
SPECS = (
    Spec("triangle", "rmat", {"scale": 8, "edges": 1_500}, 1, "mixed", 4),
    Spec("triangle", "rmat", {"scale": 8, "edges": 1_500}, 60, "mixed", 4),
    Spec("triangle", "rmat", {"scale": 10, "edges": 6_000}, 60, "mixed", 4),
    Spec("triangle", "rmat", {"scale": 8, "edges": 1_500, "skew": 40}, 60, "mixed", 4),
    Spec("diamond", "rmat", {"scale": 8, "edges": 1_500}, 5, "mixed", 4),
    Spec("star3", "zipf", {"rows": 600}, 5, "mixed", 4),
)


def records_of(spec, folder):
    """A small run in this process: every contender loads, takes the ticks three times, and takes them back."""
    case = made(spec)
    bound = bound_rows(case)
    for name in ("wcoj", "binary", "auto", "kept"):
        contender = factory(name)(Setting(case.workload, "count", 1, folder))
        contender.load(case.stream.state)
        seconds, rounds, works, changes = [], [], [], []
        for _ in range(3):
            rounds.append(0.0)
            changes = []
            for tick in case.stream.ticks:
                start, computed = time.perf_counter(), time.process_time()
                changes.append(contender.tick(contender.prepare(tick)).net)
                seconds.append(time.perf_counter() - start)
                rounds[-1] += time.process_time() - computed
                works.append(contender.work())
            for tick in reversed(case.stream.ticks):
                contender.tick(contender.prepare({one: change.undone() for one, change in tick.items()}))
        last = works[-len(case.stream.ticks) :]
        work = replace(
            last[0], proposals=sum(one.proposals for one in last), probes=sum(one.probes for one in last),
            marks=sum(one.marks for one in last),
        )  # fmt: skip
        yield Record(
            case.case, name, seconds=Spread.of(seconds), cpu_seconds=Spread.of(seconds),
            round_cpu_seconds=tuple(rounds), peak_bytes=3_000_000, before_bytes=1_000_000,
            state_bytes=contender.state_bytes(), work=work, bound_rows=bound,
            first_cpu_seconds=rounds[0], check=Check(True, ("duckdb",), None, tuple(changes)),
        )  # fmt: skip


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    records = [one for spec in SPECS for one in records_of(spec, tmp_path_factory.mktemp("own"))]
    comparisons = []
    for case in dict.fromkeys(id(one.case) for one in records):
        own = {one.contender: one for one in records if id(one.case) == case and one.contender != "kept"}
        better = min(statistics.median(own[name].round_cpu_seconds) for name in ("wcoj", "binary"))
        comparisons.append(
            Comparison(
                own["auto"].case,
                {name: one.round_cpu_seconds for name, one in own.items()},
                {name: one.work for name, one in own.items()},
                statistics.median(own["auto"].round_cpu_seconds) / better,
                None,
            )
        )
    return Document(
        machine.describe(("numpy",)), "tiny", 1, tuple(records), tuple(comparisons),
        Planning(Spread.of([0.001, 0.002]), 2, 5), 1.0, {"dogs3-wcoj": "it is <not> built"},
    )  # fmt: skip


@pytest.fixture(scope="module")
def folder(document, tmp_path_factory):
    found = tmp_path_factory.mktemp("report")
    document.write(found / "suite-tiny.json")
    tell(found)
    return found


class Attributes(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]


def test_both_files_are_written_with_all_parts(folder):
    text = (folder / "REPORT.md").read_text()
    for heading in (
        "Speed-up by cyclicity", "Speed-up by skew", "Speed-up by change size", "Speed-up by state size", "Rivals",
        "Where the faster one changes", "Where binary joins win", "Counted work against the bound", "Memory",
        "Time of a tick by state size", "What has no time, and why", "All cases", "Planning",
        "Ten times as fast", "What was not run", "What the planner chooses",
    ):  # fmt: skip
        assert f"## {heading}\n" in text
        assert f"<h2>{heading}</h2>" in (folder / "report.html").read_text()
    assert "do not hold enough" not in text
    for name in re.findall(r"\]\((.*?)\)", text):
        root = ET.parse(folder / name).getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert len(re.findall(r"\.svg\)", text)) == len(plots.PLOTS)


def test_the_page_refers_to_nothing_outside_itself(folder):
    text = (folder / "report.html").read_text()
    found = Attributes(text)
    assert found.tags.count("svg") == len(plots.PLOTS)
    assert not {"script", "link", "img", "iframe", "object", "base", "foreignobject"} & set(found.tags)
    assert "://" not in text
    assert "@import" not in text
    for tag, name, value in found.attributes:
        if name in ("href", "xlink:href", "src"):
            assert value.startswith(("#", "data:image/png;base64,")), (tag, name, value)
        assert not re.search(r"url\((?!['\"]?#)", value), (tag, name, value)
    assert "it is &lt;not&gt; built" in text


def test_the_same_records_give_the_same_files(document, folder, tmp_path):
    page.write(tmp_path, [document])
    for name in ("REPORT.md", "report.html"):
        assert (tmp_path / name).read_text() == (folder / name).read_text()


def as_seconds(text):
    value, unit = text.split()
    return float(value.replace(",", "")) * {"us": 1e-6, "ms": 1e-3, "s": 1.0}[unit]


def test_the_table_of_cases_holds_the_numbers_of_the_records(folder):
    """Read back from the file, against the JSON read without the report's code."""
    records = json.loads((folder / "suite-tiny.json").read_text())["records"]
    text = (folder / "REPORT.md").read_text().partition("## All cases")[2].partition("## Planning")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")
    ][2:]
    assert len(rows) == len(SPECS)
    taken = {}
    for record in records:
        case = record["case"]
        seconds = statistics.median(record["round_cpu_seconds"]) / case["n_ticks"]
        work = sum(record["work"][name] for name in ("proposals", "probes", "marks")) / case["n_ticks"]
        name = (
            f"{case['workload']}, {case['data']}, {case['state_rows']:,} rows, {case['n_ticks']} ticks of "
            f"{case['change_rows']:,} {case['kind']}"
        )
        taken.setdefault((name, record["contender"]), []).append((seconds, work, record["bound_rows"]))
    for name, binary, wcoj, speedup, work_ratio, work, bound in rows:
        found = zip(taken[name, "binary"], taken[name, "wcoj"], strict=True)
        assert any(
            as_seconds(binary) == pytest.approx(one[0], rel=6e-3)
            and as_seconds(wcoj) == pytest.approx(other[0], rel=6e-3)
            and float(speedup.replace(",", "")) == pytest.approx(one[0] / other[0], rel=6e-3)
            and (work_ratio == "–" if not other[1] else digits(one[1] / other[1]) == work_ratio)
            and work == digits(other[1])
            and bound == ("–" if other[2] is None else digits(other[2]))
            for one, other in found
        ), name


def test_the_summary_holds_the_numbers_of_the_records(folder):
    records = json.loads((folder / "suite-tiny.json").read_text())["records"]
    by_case = {}
    for record in records:
        case = json.dumps(record["case"])
        by_case.setdefault(case, {})[record["contender"]] = statistics.median(record["round_cpu_seconds"])
    cases = {case: json.loads(case) for case in by_case}
    speedups = {case: own["binary"] / own["wcoj"] for case, own in by_case.items()}
    cyclic = [speedups[case] for case, one in cases.items() if not one["is_acyclic"]]
    small = [
        speedups[case] for case, one in cases.items()
        if not one["is_acyclic"] and one["change_rows"] <= max(10, one["state_rows"] / 1000)
    ]  # fmt: skip
    text = (folder / "REPORT.md").read_text()
    lines = re.findall(r"^\d+\. (.*)$", text, re.MULTILINE)
    assert len(lines) == 10
    assert summary.QUESTION in text
    assert f"ran on {len(SPECS)} cases; {len(records)} of {len(records)} records" in lines[0]
    assert f"(5 cases) binary joins take {digits(statistics.median(cyclic))} times" in lines[2]
    assert f"from {digits(min(cyclic))} (" in lines[2]
    assert f" to {digits(max(cyclic))} (" in lines[2]
    assert f"(2 cases) binary joins take {digits(statistics.median(small))} times" in lines[3]
    wins = [speedup for speedup in speedups.values() if speedup < 1]
    assert (f"at {len(wins)} of {len(SPECS)} cases" in lines[5]) == bool(wins)
    kept = [own["kept"] / own["wcoj"] for own in by_case.values()]
    assert f"takes {digits(statistics.median(kept))} times as long" in lines[7]
    near = sum(speedup <= 1.5 for speedup in small)
    assert f"at {near} of {len(small)} cases it takes no more than 1.5 times" in lines[9]


def altered(document, contender, change):
    records = tuple(change(one) if one.contender == contender else one for one in document.records)
    return Facts.of([replace(document, records=records)])


def scaled(document, by):
    """Binary joins that take so many times what worst-case optimal ones take."""
    wcoj = {id(one.case): one for one in document.records if one.contender == "wcoj"}
    return altered(
        document, "binary",
        lambda one: replace(one, round_cpu_seconds=tuple(by * value for value in wcoj[id(one.case)].round_cpu_seconds)),
    )  # fmt: skip


def test_the_answer_goes_by_the_records(document):
    assert "binary joins almost always does: at 2 of 2 cases" in summary.lines(scaled(document, 1.2))[-1]
    slow = summary.lines(scaled(document, 40.0))
    assert "mostly does not do: at 0 of 2 cases" in slow[-1]
    assert "in the rest it takes up to 40 times as long" in slow[-1]
    assert slow[5] == "Binary joins are faster at none of 6 cases."
    assert (
        "faster at 6 of 6 cases, 5 of them cyclic; at most 2 times as fast" in summary.lines(scaled(document, 0.5))[5]
    )
    stopped = altered(document, "binary", lambda one: replace(one, seconds=None, stopped="stopped after 3 s"))
    lines = summary.lines(stopped)
    assert "at 6 of them binary joins came to no end, or were not taken back, within the limit" in lines[0]
    assert "at 0 of 2 cases" in lines[-1]
    assert lines[-1].endswith("in the rest it comes to no end.")
    large = replace(document, records=tuple(one for one in document.records if one.case.change_rows > 10))
    assert "cannot be said: no cyclic query had changes of 10 rows" in summary.lines(Facts.of([large]))[-1]
    wrong = altered(document, "binary", lambda one: replace(one, check=Check(False, message="3 rows; there are 4")))
    assert f"{len(SPECS)} a wrong one" in summary.lines(wrong)[0]
    assert not wrong.measured()


def test_nothing_is_said_of_nothing(document, tmp_path):
    empty = replace(document, records=(), comparisons=(), planning=None)
    page.write(tmp_path, [empty])
    text = (tmp_path / "REPORT.md").read_text()
    assert text.count("The records do not hold enough for this.") == len(plots.PLOTS)
    assert len(re.findall(r"^\d+\. ", text, re.MULTILINE)) == 10


def test_reasons_of_several_lines_stay_in_their_cell(document, tmp_path):
    first = replace(document.records[0], seconds=None, stopped="out | of\n  memory", contender="kept")
    page.write(tmp_path, [replace(document, records=(first,))])
    assert "| kept | triangle | out / of memory |" in (tmp_path / "REPORT.md").read_text()


def test_a_later_document_replaces_records_of_the_same_case(document):
    later = replace(document, records=tuple(replace(one, load_seconds=7.0) for one in document.records[:1]))
    facts = Facts.of([document, later])
    assert len(facts.records) == len(document.records)
    assert sum(one.load_seconds == 7.0 for one in facts.records.values()) == 1


def test_of_two_orders_the_better_one_counts(document):
    first = document.records[0]
    case = replace(first.case, vertex_order="degree")
    for factor, order in ((0.5, "degree"), (2.0, "generated")):
        seconds = replace(first.seconds, median=factor * first.seconds.median)
        other = replace(first, case=case, contender="duckdb", seconds=seconds)
        own = replace(first, contender="duckdb")
        facts = Facts.of([replace(document, records=(first, own, other))])
        ((shown, contenders),) = facts.rivals()
        assert shown.vertex_order == "generated"
        assert contenders["duckdb"].case.vertex_order == order


def test_crossings_are_where_both_are_as_fast(document):
    facts = Facts.of([document])
    series = facts.series(lambda case: case.change_rows, "changed rows")
    assert [[at for at, _ in points] for points in series.values()] == [[1.0, 60.0]]
    assert crossings([(1.0, 0.5), (10.0, 0.8), (1000.0, 1.25)]) == pytest.approx((100.0,))
    assert crossings([(1.0, 0.5), (100.0, 2.0), (10_000.0, 0.5)]) == pytest.approx((10.0, 1000.0))
    one = document.records[0]
    assert cpu_per_tick(one) == statistics.median(one.round_cpu_seconds) / one.case.n_ticks
    assert duration(0.0005) == "500 us"


def test_a_plot_says_what_it_does_not_draw(document):
    first = document.records[0]
    records = []
    for number in range(plots.MOST + 2):
        case = replace(first.case, workload=f"w{number}", cyclicity=number % 3)
        records += [replace(one, case=case) for one in document.records[:2]]
    drawn = plots.cyclicity(Facts.of([replace(document, records=tuple(records))]))
    assert f"{plots.MOST} of {plots.MOST + 2} series" in drawn
    assert "series" not in plots.cyclicity(Facts.of([document]))


def test_the_command_says_what_a_folder_lacks(tmp_path):
    command = [sys.executable, "-m", "bench.suite.report", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "holds no results, files suite-*.json" in done.stderr


def test_a_partial_document_is_said_to_be_partial(document, tmp_path):
    done = {"one": 1.0, "two": 2.0}
    partial = replace(
        document, suite="full", records=(), comparisons=(), planned=("one", "two", "three, <rmat>"), done=done,
        ended="SIGTERM ended it",
    )  # fmt: skip
    partial.write(tmp_path / "suite-full.json")
    replace(partial, suite="quick", planned=("one", "two"), ended=None).write(tmp_path / "suite-quick.json")
    tell(tmp_path)
    text = (tmp_path / "REPORT.md").read_text()
    assert "; 1 of 3 cases of the suite full are not here." in text
    assert "| full | 2 of 3 | SIGTERM ended it | three, <rmat> |" in text
    assert "| quick | 2 of 2 | SIGTERM" not in text
    assert "| full | 2 of 3 | 20" in text
    assert "| quick | 2 of 2 | 20" in text
    assert "three, &lt;rmat&gt;" in (tmp_path / "report.html").read_text()

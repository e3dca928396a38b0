"""gpu-wcoj explain: plans over files, with statistics and checkpoints; ticks; formats."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

import gpu_wcoj as gw
from gpu_wcoj.cli.main import main
from gpu_wcoj.kernels.protocol import PROPOSALS
from tests.helpers.command_line import complaint

TRIANGLE = "triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c)."
STAR = "star(a, b, c) :- hub(a), small(a, b), large(a, c)."


def explained(capfd: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["explain", *map(str, arguments)]) == 0, capfd.readouterr().err
    printed = capfd.readouterr()
    assert printed.err == ""
    return printed.out


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    path = tmp_path / "graph.txt"
    edges = np.random.default_rng(3).integers(0, 40, (400, 2))
    path.write_text("".join(f"{a} {b}\n" for a, b in edges.tolist()))
    return path


@pytest.fixture
def stream(tmp_path: Path) -> Path:
    """Ticks of 25 changes, a third of them deletions."""
    path = tmp_path / "stream.txt"
    random = np.random.default_rng(4)
    rows = [(*random.integers(0, 40, 2).tolist(), random.choice([-1, 1, 1]), i // 25) for i in range(100)]
    path.write_text("".join(f"{a} {b} {weight} {tick}\n" for a, b, weight, tick in rows))
    return path


def test_the_plan_is_that_of_the_program(capfd, tmp_path):
    assert explained(capfd, "-e", TRIANGLE) == gw.Program(TRIANGLE).explain() + "\n"
    (tmp_path / "p.dl").write_text(TRIANGLE)
    assert explained(capfd, tmp_path / "p.dl", "--bag") == gw.Program(TRIANGLE, bag=True).explain() + "\n"
    text = explained(capfd, "-e", TRIANGLE, "--strategy", "binary")
    assert "backend cpu, set semantics, strategy binary\n" in text
    assert "c: check edge(a, c) before" in text


def test_files_are_loaded_and_the_plan_goes_by_them(capfd, graph):
    plan = json.loads(explained(capfd, "-e", TRIANGLE, "--input", f"edge={graph}", "--format", "json"))
    assert plan["tick"] is None
    program = gw.Program(TRIANGLE)
    program.load({"edge": np.loadtxt(graph, np.int64)})
    assert plan == json.loads(program.explain(format="json"))
    for path in plan["heads"][0]["rules"][0]["paths"]:
        assert 1 < path["levels"][0]["estimate"]["proposals"] < 40


@pytest.mark.usefixtures("large_ticks")
def test_the_last_tick_is_analyzed(capfd, graph, stream):
    files = ["--input", f"edge={graph}", "--changes", f"edge={stream}?weight=2&tick=3"]
    plan = json.loads(explained(capfd, "-e", TRIANGLE, *files, "--analyze", "--format", "json"))
    program = gw.Program(TRIANGLE)
    program.load({"edge": np.loadtxt(graph, np.int64)})
    changes = np.loadtxt(stream, np.int64)
    for tick in range(4):
        rows = changes[changes[:, 3] == tick]
        program.step({"edge": [(tuple(row[:2]), int(row[2])) for row in rows.tolist()]})
    work = [counters for path in program.last_tick.work["triangle"][0].values() for counters in path.values()]
    assert plan["tick"]["tick"] == 4
    assert plan["tick"]["total"]["proposals"] == sum(int(counters[PROPOSALS]) for counters in work) > 0
    assert plan["tick"]["is_measured"]
    assert all(path["seed_counts"]["prefixes"] > 0 for path in plan["heads"][0]["rules"][0]["paths"])
    counted = json.loads(explained(capfd, "-e", TRIANGLE, *files, "--analyze", "--count", "--format", "json"))
    assert counted["tick"]["total"]["rows"] == 0 < plan["tick"]["total"]["rows"]
    text = explained(capfd, "-e", TRIANGLE, *files, "--analyze")
    assert re.search(r"^tick 4 on cpu in .* ms", text, re.MULTILINE)
    full_text = explained(capfd, "-e", TRIANGLE, "--input", f"edge={graph}", "--analyze")
    assert re.search(r"^tick 0 on cpu in ", full_text, re.MULTILINE)


def test_statistics_are_saved_and_planned_by(capfd, tmp_path):
    """Saved statistics give the same plan with the same estimates as the rows."""
    for small, large in ((3, 60), (60, 3)):
        folder = tmp_path / f"{small}"
        folder.mkdir()
        for name, n in (("hub", 1), ("small", small), ("large", large)):
            rows = [(a, b) for a in range(50) for b in range(n)] if name != "hub" else [(a,) for a in range(50)]
            (folder / f"{name}.txt").write_text("".join(" ".join(map(str, row)) + "\n" for row in rows))
        files = [part for name in ("hub", "small", "large") for part in ("--input", f"{name}={folder / name}.txt")]
        program = f"{STAR} pair(b, c) :- small(a, b), large(a, c), hub(b). .output star .output pair"
        text = explained(capfd, "-e", program, *files, "--save-stats", folder / "stats")
        again = explained(capfd, "-e", program, "--stats", folder / "stats")
        stored = json.loads((folder / "stats" / "statistics.json").read_text())["relations"]
        assert (stored["hub"]["rows"], stored["hub"]["columns"], stored["large"]["columns"]) == (50, 1, 2)
        names = re.compile(r"\[[^]]*\]")  # columns are named in files only
        assert names.sub("", again) == names.sub("", text)
        assert again.count("expected: ") > 4


def test_statistics_serve_other_programs_over_the_same_relations(capfd, tmp_path, graph):
    first, other = (
        f"n(a, c) :- edge(a, b), c = count : {{ {body} }}."
        for body in (
            "edge(a, x), edge(x, y), edge(y, a)",
            "edge(a, x), edge(x, a)",
        )
    )
    explained(capfd, "-e", first, "--input", f"edge={graph}", "--save-stats", tmp_path / "stats")
    assert "expected: " in explained(capfd, "-e", other, "--stats", tmp_path / "stats")


def test_strategies_give_the_same_answer(capfd, graph, stream):
    files = ["--input", f"edge={graph}", "--changes", f"edge={stream}?weight=2&tick=3"]
    texts = []
    for strategy in ("auto", "wcoj", "binary"):
        assert main(["run", "-e", TRIANGLE, *files, "--strategy", strategy, "--json"]) == 0
        lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
        texts.append([line.get("changes", line.get("total")) for line in lines])
    assert texts[0] == texts[1] == texts[2]
    assert texts[0][-1]["triangle"] > 0


def test_a_checkpoint_is_read_and_not_written(capfd, tmp_path, graph, stream):
    program = gw.Program(TRIANGLE)
    program.load({"edge": np.loadtxt(graph, np.int64)})
    program.checkpoint(tmp_path / "state")
    before = {path.name: path.read_bytes() for path in (tmp_path / "state").iterdir()}
    with_statistics = explained(capfd, "-e", TRIANGLE, "--stats", tmp_path / "state")
    assert with_statistics.rstrip("\n") == gw.Program.restore(tmp_path / "state").explain()
    files = ["--changes", f"edge={stream}?weight=2&tick=3"]
    text = explained(capfd, "-e", TRIANGLE, "--stats", tmp_path / "state", *files, "--analyze")
    assert re.search(r"^tick 4 on cpu in ", text, re.MULTILINE)
    assert {path.name: path.read_bytes() for path in (tmp_path / "state").iterdir()} == before
    other = TRIANGLE.replace("edge(a, c)", "edge(c, a)")
    assert "differs from the checkpoint" in complaint(capfd, "explain", "-e", other, "--stats", tmp_path / "state")
    both = ["--stats", tmp_path / "state", "--input", f"edge={graph}"]
    assert "and --input cannot be combined: the first tick is part of the stored state" in complaint(
        capfd, "explain", "-e", TRIANGLE, *both
    )
    alone = ["-e", TRIANGLE, "--stats", tmp_path / "state", "--analyze"]
    assert "Give --changes RELATION=PATH, for a tick behind" in complaint(capfd, "explain", *alone)


def test_formats_and_files(capfd, tmp_path, graph):
    for form in ("text", "json", "mermaid", "svg", "html"):
        path = tmp_path / f"plan.{form}"
        assert explained(capfd, "-e", TRIANGLE, "--format", form, "--output", path) == ""
        assert path.read_text() == explained(capfd, "-e", TRIANGLE, "--format", form)
    assert ET.parse(tmp_path / "plan.svg").getroot().tag.endswith("svg")
    assert (tmp_path / "plan.mermaid").read_text().startswith("flowchart LR\n")


def test_files_that_a_program_names_itself(capfd, tmp_path, graph):
    graph.rename(tmp_path / "edge.facts")
    path = tmp_path / "p.dl"
    path.write_text(f'.input edge(delimiter=" ")\n{TRIANGLE}\n.output triangle')
    text = explained(capfd, path, "--analyze")
    assert re.search(r"^tick 0 on cpu in ", text, re.MULTILINE)
    assert not (tmp_path / "triangle.csv").exists()
    path.write_text("out(1). out(2). twice(a, b) :- out(a), out(b).")
    assert re.search(r"^tick 0 on cpu in ", explained(capfd, path, "--analyze"), re.MULTILINE)

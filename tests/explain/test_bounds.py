"""Bounds of levels hold for every changed row, and are reached with suitable data."""

from __future__ import annotations

import json

import numpy as np
import pytest

import gpu_wcoj as gw
from gpu_wcoj.cli.main import main
from gpu_wcoj.errors import BackendUnavailableError
from tests.helpers.explained_programs import PROGRAMS

pytest.importorskip("scipy")


def ways(plan: dict) -> list[list[dict]]:
    """The levels of every path and of every variant."""
    paths = [path for head in plan["heads"] for rule in head["rules"] for path in rule["paths"]]
    return [way["levels"] for path in paths for way in (path, *path["variants"])]


@pytest.mark.drawn("strategy")
@pytest.mark.parametrize("strategy", ["wcoj", "binary"])
@pytest.mark.parametrize("name", ["triangle", "4-cycle", "path", "variants", "selected"])
def test_no_level_has_more_prefixes_than_its_bound(name, strategy):
    """The bounds of the state with a row are those that the tick that brought it had to keep."""
    random = np.random.default_rng(7)
    program = gw.Program(PROGRAMS[name], strategy=strategy, analyze=True)
    relations = {relation: 1 if relation == "node" else 2 for relation in program.inputs}
    program.load({relation: random.zipf(1.5, (300, arity)) % 25 for relation, arity in relations.items()})
    met = 0
    for _ in range(15):
        program.step({relation: random.zipf(1.5, (1, arity)) % 25 for relation, arity in relations.items()})
        for levels in ways(json.loads(program.explain(analyze=True, bounds=True, format="json"))):
            for level in levels:
                if level["counts"] and level["counts"]["prefixes"]:
                    assert level["counts"]["rows"] <= level["at_most"] * 1.000001
                    met += level["counts"]["rows"]
    assert met > (0 if name == "selected" else 20)


def test_bounds_are_reached():
    """Every vertex has five edges in and out, so a new edge closes at most five triangles."""
    text = "triangle(a, b, c) :- r(a, b), s(b, c), t(a, c)."
    program = gw.Program(text, strategy="wcoj", backend="cpu")
    five = [(a, b) for a in range(5) for b in range(5)]
    program.load({"r": five[:-1], "s": five, "t": five})
    plan = json.loads(program.explain(bounds=True, format="json"))
    assert ways(plan)[0][0]["at_most"] == pytest.approx(5)
    assert program.step_counts({"r": five[-1:]})["triangle"].inserted == 5
    assert "left, at most 5" in program.explain(bounds=True)


def test_statistics_bound_by_sizes_alone(tmp_path, capfd):
    (tmp_path / "statistics.json").write_text(
        json.dumps({"format": 1, "relations": {"edge": {"rows": 900.0, "distinct": [], "met": []}}})
    )
    program = gw.Program(PROGRAMS["4-cycle"], strategy="wcoj")
    plan = json.loads(program.explain(statistics=tmp_path, bounds=True, format="json"))
    assert [level["at_most"] for level in ways(plan)[0]] == pytest.approx([900, 900])
    files = ["-e", PROGRAMS["4-cycle"], "--stats", str(tmp_path), "--strategy", "wcoj"]
    assert main(["explain", *files, "--bounds"]) == 0
    assert "at most 900" in capfd.readouterr().out


def test_what_is_not_known_has_no_bound():
    program = gw.Program(PROGRAMS["closure"])
    assert "at most" not in program.explain(bounds=True)
    program.load({"edge": [(1, 2), (2, 3)]})
    assert "at most" not in program.explain(bounds=True)


def test_without_scipy_the_error_says_so(monkeypatch):
    program = gw.Program("h(x, y, z) :- r(x, y), s(y, z).")
    program.load({"r": [(17, 3)], "s": [(3, value) for value in range(37)]})
    monkeypatch.setitem(__import__("sys").modules, "scipy.optimize", None)
    with pytest.raises(BackendUnavailableError, match="bounds need SciPy"):
        program.explain(bounds=True)


def test_statistics_of_other_relations_are_refused(tmp_path):
    program = gw.Program("path(a, c) :- edge(a, b), edge(b, c).")
    program.step({"edge": [(1, 2), (2, 3)]})
    (tmp_path / "statistics.json").write_text(
        '{"format": 1, "relations": {"e": {"rows": 9, "distinct": [], "met": []}}}'
    )
    with pytest.raises(gw.errors.SchemaError, match="are of other relations: got 'e', expected some of"):
        program.explain(statistics=tmp_path)


@pytest.mark.parametrize("columns", [1, 3])
def test_statistics_of_other_columns_are_refused(tmp_path, columns):
    facts = f'{{"rows": 9, "distinct": [], "met": [], "columns": {columns}}}'
    (tmp_path / "statistics.json").write_text(f'{{"format": 1, "relations": {{"edge": {facts}}}}}')
    with pytest.raises(
        gw.errors.SchemaError, match=f"relation 'edge' in .* has the wrong number of columns: got {columns}, expected 2"
    ):
        gw.Program("path(a, c) :- edge(a, b), edge(b, c).").explain(statistics=tmp_path)

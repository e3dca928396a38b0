"""All formats show the same plan, and each is what it says it is."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from dataclasses import asdict
from html import unescape

import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import SchemaError, UsageError
from gpu_wcoj.explain.render import FORMATS
from gpu_wcoj.explain.tree import Counts, LevelTree, PlanTree, TickTree
from tests.helpers.explained_programs import PROGRAMS, changes_of, text_of
from tests.test_imports import modules_after

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(params=[0, 1], ids=["planned", "analyzed"])
def shown(request):
    """Return a function from a program's name to its plan in some formats, after ticks."""

    def show(name: str, *formats: str) -> list[str]:
        program = gw.Program(text_of(name), analyze=bool(request.param))
        if request.param:
            for seed in range(2):
                program.step(changes_of(name, seed, 40))
        return [program.explain(format=format_name, analyze=bool(request.param)) for format_name in formats]

    return show


def paths_of(plan: dict) -> list[dict]:
    rules = [rule for head in plan["heads"] for rule in head["rules"]]
    return [path for rule in rules for path in (*rule["paths"], *([rule["asked"]] if rule["asked"] else []))]


def use_text(use: dict) -> str:
    return f"{use['atom']} {use['sees']}, by {use['arrangement']}"


def as_title(level: dict) -> str:
    return f"{level['variable']}: {level['verb']}"


def all_levels(plan: dict, with_variants: bool) -> list[dict]:
    levels = []
    for path in paths_of(plan):
        levels += path["levels"]
        levels += [level for variant in path["variants"] if with_variants for level in variant["levels"]]
    return levels


@pytest.mark.parametrize("name", PROGRAMS)
def test_text_and_json_have_the_same_levels_and_arrangements(shown, name):
    text, document = shown(name, "text", "json")
    plan = json.loads(document)
    is_analyzed = plan["tick"] is not None
    with_variants = is_analyzed and any(
        variant["seed_counts"] for path in paths_of(plan) for variant in path["variants"]
    )
    lines = [line.strip() for line in text.splitlines()]
    expected_levels = [
        f"{as_title(level)} {' with '.join(map(use_text, level['uses']))}"
        + (f" where {', '.join(level['where'])}" if level["where"] else "")
        for level in all_levels(plan, with_variants)
    ]
    levels = [line for line in lines if re.match(r"\S+: (look up|intersect|check) ", line)]
    assert sorted(levels) == sorted(expected_levels) if with_variants else levels == expected_levels
    header = lines.index("arrangements")
    assert [line.partition("   ")[0] for line in lines[header + 1 :]] == [
        arrangement["name"] for arrangement in plan["arrangements"]
    ]
    assert len(re.findall(r"^ +delta path \d+: change of ", text, re.MULTILINE)) == sum(
        path["number"] > 0 for path in paths_of(plan)
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_drawings_have_the_same_levels_and_arrangements(shown, name):
    document, mermaid, svg = shown(name, "json", "mermaid", "svg")
    plan = json.loads(document)
    titles = sorted(as_title(level) for level in all_levels(plan, with_variants=True))
    texts = [element.text or "" for element in ET.fromstring(svg).iter(f"{SVG}text")]
    assert sorted(line for line in texts if re.fullmatch(r"\S+: (look up|intersect|check)", line)) == titles
    nodes = [unescaped(label).split("\n") for label in re.findall(r'\["((?:[^"])*)"\]', mermaid)]
    assert sorted(lines[0] for lines in nodes if re.fullmatch(r"\S+: (look up|intersect|check)", lines[0])) == titles
    for arrangement in plan["arrangements"]:
        shown_as = arrangement["name"] + (
            f"   used by {arrangement['rules']} rules" if arrangement["rules"] > 1 else ""
        )
        assert shown_as in texts
        assert any(shown_as == unescaped(label) for label in re.findall(r'\[\("([^"]*)"\)\]', mermaid))


def unescaped(label: str) -> str:
    return re.sub(r"#(\d+);", lambda found: chr(int(found[1])), label.replace("<br/>", "\n"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_mermaid_is_well_formed(shown, name):
    """Every line has a known shape, subgraphs end, edges join known nodes, labels are escaped."""
    (mermaid,) = shown(name, "mermaid")
    first, *lines = mermaid.splitlines()
    assert first == "flowchart LR"
    label = r'"((?:[^"#<>`&;]|#\d+;|<br/>)+)"'
    node = re.compile(rf" +(\w+)(?:\[{label}\]|\(\[{label}\]\)|\{{\{{{label}\}}\}}|\[\({label}\)\])")
    edge = re.compile(r" +(\w+) --> (\w+)")
    opening = re.compile(rf" +subgraph (\w+) \[{label}\]")
    names: list[str] = []
    ends: set[str] = set()
    depth = 0
    for line in lines:
        if matched := edge.fullmatch(line):
            ends.update(matched.groups())
        elif matched := opening.fullmatch(line) or node.fullmatch(line):
            depth += line.lstrip().startswith("subgraph ")
            names.append(matched[1])
        else:
            assert line.strip() == "end"
            depth -= 1
        assert depth >= 0
    assert depth == 0
    assert len(set(names)) == len(names)
    assert ends <= set(names)
    assert not {"end", "graph", "subgraph"} & set(names)


@pytest.mark.parametrize("name", PROGRAMS)
def test_svg_stands_alone_and_nothing_leaves_it(shown, name):
    (svg,) = shown(name, "svg")
    root = ET.fromstring(svg)
    assert root.tag == f"{SVG}svg"
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    for box in root.iter(f"{SVG}rect"):
        x, y = (float(box.attrib.get(key, 0)) for key in "xy")
        assert 0 <= x <= x + float(box.attrib["width"]) <= width
        assert 0 <= y <= y + float(box.attrib["height"]) <= height
    for line in root.iter(f"{SVG}text"):
        assert float(line.attrib["x"]) + 7.2 * len(line.text or "") <= width
        assert float(line.attrib["y"]) < height
    assert not re.search(r"(href|src|@import|url\((?!#))", svg)


def test_html_holds_the_drawing_and_the_text(shown):
    page, svg, text = shown("path", "html", "svg", "text")
    assert page.startswith("<!DOCTYPE html>")
    assert svg in page
    (listed,) = re.findall("<pre>(.*)</pre>", page, re.DOTALL)
    assert unescape(listed) == text


def test_boxes_of_a_chain_do_not_overlap():
    svg = gw.Program(text_of("variants")).explain(format="svg")
    boxes = [
        tuple(float(box.attrib[key]) for key in ("x", "y", "width", "height"))
        for box in ET.fromstring(svg).iter(f"{SVG}rect")
        if box.attrib.get("class") in {"seed", "level", "head"}
    ]
    assert len(boxes) > 15
    for index, (x, y, width, height) in enumerate(boxes):
        for other_x, other_y, other_width, other_height in boxes[:index]:
            beside = x >= other_x + other_width or other_x >= x + width
            assert beside or y >= other_y + other_height or other_y >= y + height


@pytest.mark.parametrize("name", PROGRAMS)
def test_json_is_the_tree(shown, name):
    """Keys are the fields of the tree's classes, in order, after the document's format."""
    (document,) = shown(name, "json")
    plan = json.loads(document)
    assert plan.pop("format") == 1
    assert list(plan) == list(PlanTree.__dataclass_fields__)
    for path in paths_of(plan):
        assert path["number"] >= 0
        for level in path["levels"]:
            assert list(level) == list(LevelTree.__dataclass_fields__)
    if plan["tick"]:
        assert set(plan["tick"]) == set(TickTree.__dataclass_fields__)
        assert set(plan["tick"]["total"]) == set(Counts.__dataclass_fields__)


def test_json_of_any_tree():
    tick = TickTree(3, "cpu", 0.5, 7, True, Counts(1, 2, 3, 4, 5, 6, 7, 8, float("inf")), ("a note",))
    tree = PlanTree("cpu", "bag", "somewhere", (), (), tick)
    loaded = json.loads(FORMATS["json"](tree))
    assert loaded.pop("format") == 1
    expected = asdict(tree)
    expected["tick"]["total"]["seconds"] = None  # JSON has no number for it
    assert loaded == json.loads(json.dumps(expected))


GOLDEN_TEXT = """\
backend cpu, set semantics
small ticks: none, all run path by path: head reach: it is recursive

reach   (recursive: its rows are kept with their ranks; iterations with few rows run row at a time)
  reach(a, b) :- edge(a, b).
    delta path 1: change of edge(a, b)
    asked for the derivations of rows
      check edge(a, b) before, by edge[0, 1]
  reach(a, c) :- reach(a, b), edge(b, c).
    delta path 1: change of reach(a, b)
      c: look up edge(b, c) before, by edge[0, 1]
    delta path 2: change of edge(b, c)
      a: look up reach(a, b) after, by reach[1, 0]
    asked for the derivations of rows
      b: intersect reach(a, b) before, by reach[0, 1, rank] with edge(b, c) before, by edge[1, 0]

arrangements
  edge[0, 1]
  reach[1, 0, rank]
  reach[0, 1, rank]
  edge[1, 0]"""

GOLDEN_MERMAID = """\
flowchart LR
  about["backend cpu, bag semantics<br/>small ticks: up to 512 rows at 3,000,000 values, and fewer at up to \
48,000,000, are walked row by row"]
  subgraph h0 ["h"]
    subgraph h0_r0 ["h(x) :- r(x), s(x), x #60; 5."]
      h0_r0_p0_0(["delta path 1<br/>change of r(x)<br/>where x #60; 5<br/>check s(x) before, by s[0]"])
      h0_r0_p0_1{{"h"}}
      h0_r0_p0_0 --> h0_r0_p0_1
      h0_r0_p1_0(["delta path 2<br/>change of s(x)<br/>where x #60; 5<br/>check r(x) after, by r[0]"])
      h0_r0_p1_1{{"h"}}
      h0_r0_p1_0 --> h0_r0_p1_1
    end
  end
  subgraph arrangements ["arrangements"]
    a0[("r[0]")]
    a1[("s[0]")]
  end"""


def test_golden_texts():
    assert gw.Program(PROGRAMS["closure"], backend="cpu").explain() == GOLDEN_TEXT
    selected = gw.Program("h(x) :- r(x), s(x), x < 5.", backend="cpu", bag=True)
    assert selected.explain(format="mermaid") == GOLDEN_MERMAID


def test_unknown_formats_and_statistics(tmp_path):
    program = gw.Program(text_of("path"))
    with pytest.raises(UsageError, match="unknown format 'dot': expected one of 'datalog', 'html', 'json', "):
        program.explain(format="dot")
    with pytest.raises(SchemaError, match="statistics.json"):
        program.explain(statistics=tmp_path)
    for wrong in (5, b"here", ["here"]):
        with pytest.raises(UsageError, match="statistics=.* is not allowed: expected the path of a folder, or None"):
            program.explain(statistics=wrong)


@pytest.mark.parametrize("wrong", ["x", 1, None])
def test_options_that_are_true_or_false(wrong):
    program = gw.Program(text_of("path"))
    for option in ("analyze", "bounds"):
        with pytest.raises(UsageError, match=f"{option}={wrong!r} is not allowed: expected True or False"):
            program.explain(**{option: wrong})
    with pytest.raises(UsageError, match=f"analyze={wrong!r} is not allowed"):
        program.analyze = wrong
    assert program.analyze is False


def test_nothing_of_it_is_loaded_before_it_is_asked_for():
    assert not {name for name in modules_after("import gpu_wcoj") if name.startswith("gpu_wcoj.explain")}

"""Shares, plans and keys, without Spark: every binding is found in one cell, and only there."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'gpu_wcoj[spark]'")

from gpu_wcoj import Program
from gpu_wcoj.errors import CheckpointMismatchError, UnsupportedError, UsageError
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.spark.cluster.exchange import cell_keys, spark_hash
from gpu_wcoj.spark.cluster.layout import CellLayout, best_shares, choose, shares_in, shares_of
from gpu_wcoj.spark.cluster.plan import Route, cell_plan

TEXTS = {
    "triangle": "t(a, b, c) :- e(a, b), e(b, c), e(a, c).",
    "clique": "q(a, b, c, d) :- e(a, b), e(a, c), e(a, d), e(b, c), e(b, d), e(c, d).",
    "star": "s(a, b, c, d) :- e(a, b), e(a, c), f(a, d).",
    "loops": "l(a, b) :- e(a, a), e(a, b), f(b, 3), a < b.",
    "apart": "x(a, b, c, d) :- e(a, b), f(c, d).",
    "both": "o(a, b) :- e(a, b), f(b, a), e(b, b), f(a, b).",
    "single": "k(a, b) :- e(a, b), a != 5, e(a, b).",
}


@pytest.mark.parametrize("cells", [1, 2, 3, 4, 7, 8, 12, 64])
def test_no_assignment_is_better(cells: int) -> None:
    atoms = [(1000.0, "ab"), (100.0, "bc"), (10.0, "ac")]
    best = best_shares(atoms, cells)
    assert best.cells <= cells
    for parts in itertools.product(range(1, cells + 1), repeat=3):
        if parts[0] * parts[1] * parts[2] <= cells:
            assert best.cell_rows <= shares_of(atoms, dict(zip("abc", parts, strict=True))).cell_rows


def test_shares_follow_sizes() -> None:
    assert best_shares([(1000, "ab"), (1, "bc"), (1, "ac")], 16).parts == (("a", 4), ("b", 4))
    assert best_shares([(1, "ab"), (1, "bc"), (1, "cd")], 4).parts == (("b", 2), ("c", 2))
    with pytest.raises(UsageError, match="cells=65"):
        best_shares([(1, "a")], 65)


def test_keys_fill_every_partition() -> None:
    for cells in range(1, 65):
        assert [spark_hash(key) % cells for key in cell_keys(cells)] == list(range(cells))


def test_hash_is_sparks(spark: Any) -> None:
    values = [0, 1, 5, 1000, 123456789, 2147483647]
    found = spark.createDataFrame([(value,) for value in values], "v int").selectExpr("hash(v) AS h").collect()
    assert [row["h"] for row in found] == [spark_hash(value) for value in values]


def part(route: Route, row: tuple[int, ...]) -> int:
    """A stand-in for Spark's hash: any function of the values and the salt will do."""
    return sum(
        random.Random(f"{one.salt} {[row[i] for i in one.columns]}").randrange(one.parts) * one.stride
        for one in route.hashed
    )


def cells_of(route: Route, row: tuple[int, ...]) -> list[int]:
    for column, values, wanted in route.chosen:
        if (row[column] in values) != wanted:
            return []
    return [cell for cell in range(route.cells) if route.coordinate(cell) == part(route, row)]


@pytest.mark.drawn("name", "cells", "heavy", each=True)
@pytest.mark.parametrize("heavy", [{}, {0: {"a": [0, 1]}}, {0: {"a": [0], "b": [0, 3]}}])
@pytest.mark.parametrize("cells", [1, 3, 4, 8])
@pytest.mark.parametrize("name", TEXTS)
def test_each_binding_is_in_one_cell(name: str, cells: int, heavy: dict[int, Any]) -> None:
    rnd = random.Random(cells)
    rules = parse(TEXTS[name])
    chosen = choose(rules, "hypercube", cells, heavy=heavy)
    plan = cell_plan(rules, rules.heads, False, chosen)
    assert len(plan.stages) == 1
    (stage,) = plan.stages
    rows = {one: {(rnd.randrange(8), rnd.randrange(8)) for _ in range(60)} for one in rules.inputs}
    for one, own in rows.items():
        for row in own:  # what is held is held once, seen from the first of its cells
            firsts = [cell for route in plan.state_routes[one] for cell in cells_of(route, row) if route.is_first(cell)]
            assert len(firsts) == 1
    held: dict[int, dict[str, list[Any]]] = {cell: {} for cell in range(cells)}
    for relation in plan.travelling:
        for route in relation.routes:
            for row in rows[relation.name]:
                for cell in cells_of(route, row):
                    held[cell].setdefault(f"in{route.role}", []).append(row)
    found: Counter[Any] = Counter()
    for content in held.values():
        if content:
            for answer in Program(stage.program, inputs=stage.program.inputs).step(content).values():
                found.update(answer.to_dict())
    if name in ("star", "both", "single") and cells > 1:
        assert chosen.is_shared(0)
    (expected,) = Program(TEXTS[name]).step({one: sorted(own) for one, own in rows.items()}).values()
    assert found == Counter(expected.to_dict())
    assert found


def test_heads_that_need_an_owner() -> None:
    text = "h(a, c) :- e(a, b), e(b, c). g(a) :- h(a, b), f(b, a). g(a) :- f(a, a)."
    rules = parse(text)
    plan = cell_plan(rules, ("g",), False, choose(rules, "hypercube", 4))
    assert [stage.kind for stage in plan.stages] == ["join", "owner", "join", "owner"]
    assert "drops variables" in plan.finals["h"]
    assert "several rules" in plan.finals["g"]
    kept = parse("p(b) :- e(a, b), f(b, c).")
    grid = cell_plan(kept, ("p",), False, choose(kept, "hypercube", 4))
    assert [stage.kind for stage in grid.stages] == ["join"], "b alone is hashed, and it is kept"
    copies = cell_plan(kept, ("p",), False, choose(kept, "replicated", 4))
    assert [stage.kind for stage in copies.stages] == ["join", "owner"]
    with pytest.raises(UsageError, match="Name an output"):
        cell_plan(kept, (), False, choose(kept, "hypercube", 4))


def random_text(rnd: random.Random) -> str:
    arities = {"e": 2, "f": 2, "g": 3}
    names = "abcdef"[: rnd.randint(2, 5)]
    atoms = [(one, rnd.choices(names, k=arities[one])) for one in rnd.choices("efg", k=rnd.randint(1, 5))]
    used = sorted({name for _, terms in atoms for name in terms})
    body = ", ".join(f"{one}({', '.join(terms)})" for one, terms in atoms)
    return f"h({', '.join(rnd.sample(used, rnd.randint(1, len(used))))}) :- {body}."


def test_lookups_decide_what_is_hashed() -> None:
    """One key where no lookup needs an exchange, else a grid; of all ways to hash variables, none holds fewer rows."""
    rnd = random.Random(6)
    shared = 0
    for _ in range(150):
        rules, sizes = parse(random_text(rnd)), {name: rnd.choice((1, 10, 1000)) for name in "efg"}
        cells = rnd.choice((2, 3, 4, 8))
        chosen = choose(rules, "hypercube", cells, sizes)
        (cost,) = shares_in(rules, chosen, sizes)
        (rule,) = rules.rules
        atoms = [(sizes[atom.relation], [one.name for one in atom.variables]) for atom in rule.atoms]
        assert cost.cell_rows <= best_shares(atoms, cells).cell_rows * (1 + 1e-9), str(rule)
        everywhere = set.intersection(*(set(names) for _, names in atoms))
        assert chosen.is_shared(0) == bool(everywhere), str(rule)
        assert not (chosen.is_shared(0) and chosen.moved[0])
        if chosen.is_shared(0):
            shared += 1
            assert cost.shipped_rows == cost.input_rows, "no row is copied"
            plan = cell_plan(rules, rules.heads, False, chosen)
            assert all(route.coordinate(0) == 0 and len(route.hashed) == 1 for route in plan.travelling[0].routes)
    assert 40 < shared < 110


def test_a_key_of_two_columns_fills_all_cells() -> None:
    """A column of two values would leave cells of a grid empty."""
    rules = parse("o(a, b, c) :- e(a, b), f(a, b, c).")
    plan = cell_plan(rules, rules.heads, False, choose(rules, "auto", 8))
    ((route,), _) = (one.routes for one in plan.travelling[:2])
    assert len(cells_of(route, (0, 0))) == 1
    assert {cell for a in range(2) for b in range(40) for cell in cells_of(route, (a, b))} == set(range(8))
    assert str(plan).splitlines()[1:4] == [
        "  o(a, b, c) :- e(a, b), f(a, b, c).",
        "    (a, b):8 (8 cells, 1 copies of a row, 12% of the rows in a cell)",
        "    lookups need no exchange: what joins is in one cell",
    ]
    triangle = parse(TEXTS["triangle"])
    shown = str(cell_plan(triangle, triangle.heads, False, choose(triangle, "auto", 8)))
    assert "lookups would be exchanged by " in shown


def test_rules_that_look_up_by_the_same_columns_share_their_rows() -> None:
    rules = parse("s(a, b, c) :- e(a, b), f(a, c). r(x, y, z) :- f(y, z), e(y, x), e(y, z).")
    plan = cell_plan(rules, rules.heads, False, choose(rules, "hypercube", 8))
    assert [len(one.routes) for one in plan.travelling] == [1, 1]


def test_what_older_checkpoints_have_chosen_stays() -> None:
    """They name no shared keys: their rows lie on a grid, and what is written of it is what was."""
    rules = parse(TEXTS["both"])
    old = {"layout": "hypercube", "cells": 4, "parts": [[{"a": 2, "b": 2}]], "heavy": [{}], "reason": "as asked for"}
    chosen = CellLayout.from_json(old)
    assert chosen.to_json() == old
    plan = cell_plan(rules, rules.heads, False, chosen)
    assert [one.salt for relation in plan.travelling for one in relation.routes[0].hashed] == [0, 1, 1, 0]
    new = choose(rules, "hypercube", 4)
    assert CellLayout.from_json(json.loads(json.dumps(new.to_json()))) == new
    assert new.shared == ((("b",),),)


def test_layout_by_cost() -> None:
    triangle, clique = parse(TEXTS["triangle"]), parse(TEXTS["clique"])
    assert choose(triangle, "auto", 8).layout == "hypercube"
    chosen = choose(clique, "auto", 4)
    assert (chosen.layout, chosen.reason) == (
        "replicated",
        "on a grid a cell would hold 54% of a rule's rows, more than 50%",
    )
    assert "replicated, 4 cells: on a grid a cell would hold 54%" in str(cell_plan(clique, clique.heads, False, chosen))


def test_what_is_chosen_is_kept() -> None:
    rules = parse(TEXTS["triangle"])
    chosen = choose(rules, "hypercube", 4, {"e": 10}, {0: {"a": [7, "x"]}})
    assert CellLayout.from_json(json.loads(json.dumps(chosen.to_json()))) == chosen
    chosen.check("here", "auto", None)
    with pytest.raises(CheckpointMismatchError, match="in its layout"):
        chosen.check("here", "replicated", None)
    with pytest.raises(CheckpointMismatchError, match="in its number of cells"):
        chosen.check("here", "auto", 8)


def test_what_cannot_be_chosen() -> None:
    rules = parse(TEXTS["clique"])
    with pytest.raises(UsageError, match="layout='two'"):
        choose(rules, "two", 4)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="cells=0"):
        choose(rules, "auto", 0)
    with pytest.raises(UsageError, match="has no variable 'z'"):
        choose(rules, "hypercube", 4, heavy={0: {"z": [1]}})
    with pytest.raises(UsageError, match="rule 7"):
        choose(rules, "hypercube", 4, heavy={7: {"z": [1]}})
    with pytest.raises(UnsupportedError, match="4 variables: expected at most 3"):
        choose(rules, "hypercube", 4, heavy={0: {name: [1] for name in "abcd"}})
    with pytest.raises(UnsupportedError, match="expected an integer or text"):
        choose(rules, "hypercube", 4, heavy={0: {"a": [1.5]}})  # type: ignore[dict-item]
    with pytest.raises(UsageError, match="layout='replicated' cannot be combined"):
        choose(rules, "replicated", 4, heavy={0: {"a": [1]}})

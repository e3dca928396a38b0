"""Counts of changes where atoms are each other's images: what the delta rule gives, and less work for it."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

import gpu_wcoj as gw
from gpu_wcoj.join import delta
from gpu_wcoj.join.plan import Symmetry
from gpu_wcoj.kernels.protocol import PROPOSALS
from gpu_wcoj.planner.ir import STRATEGIES, Strategy
from tests.helpers.answers import named
from tests.helpers.kernel_kinds import Kind
from tests.helpers.long_tests import IS_LONG

ARITY = {"e": 2, "f": 2, "v": 1}
TEXTS = {
    "directed triangle": "h(a, b, c) :- e(a, b), e(b, c), e(c, a).",
    "its vertices too": "h(a, b, c) :- e(a, b), v(b), e(b, c), v(c), e(c, a), v(a).",
    "one place for all": "h(a, b, c, x) :- f(a, x), f(b, x), f(c, x), e(a, b), e(b, c), e(c, a).",
    "4-cycle": "h(a, b, c, d) :- e(a, b), e(b, c), e(c, d), e(d, a).",
    "diamond": "h(a, b, c, d) :- e(a, b), e(b, d), e(a, c), e(c, d), b != c.",
    "ends in turn": "h(a, b, c, d, x) :- e(x, a), e(x, b), e(a, c), e(b, d), v(x), f(x, x).",
    "star": "h(a, b, c, d) :- e(a, b), e(a, c), e(a, d), b != c, c != d, b != d.",
    "clique": "h(a, b, c) :- e(a, b), e(b, a), e(a, c), e(c, a), e(b, c), e(c, b).",
    "two triangles": "h(a, b, c, y, z) :- e(a, b), e(b, c), e(c, a), e(a, y), e(y, z), e(z, a).",
    "selections": "h(a, b, c, d) :- e(a, b), e(c, d), f(b, 1), f(d, 1), f(a, c), f(c, a), e(a, a), e(c, c).",
    "product": "h(a, b, c) :- v(a), v(b), v(c).",
}


def symmetries(program: gw.Program) -> list[Symmetry]:
    found = (query.symmetry for queries in program._planned().queries.values() for query in queries)
    return [one for one in found if one is not None]


def changes(chance: random.Random, inputs: tuple[str, ...], bag: bool, lacks: bool) -> dict[str, list[object]]:
    values = [*range(chance.choice((3, 5, 8))), *([None] if lacks else [])]
    weights = (-2, -1, 1, 1, 2, 3) if bag else (-1, 1, 1)
    found: dict[str, list[object]] = {}
    for name in inputs:
        n = chance.randrange(chance.choice((2, 6, 20)))
        rows = [tuple(chance.choice(values) for _ in range(ARITY[name])) for _ in range(n)]
        if rows:
            found[name] = [(row, chance.choice(weights)) for row in rows]
    return found


@pytest.mark.drawn("bag", "strategy")
@pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", TEXTS)
def test_counts_are_those_of_the_rows(name: str, strategy: Strategy, bag: bool, monkeypatch: pytest.MonkeyPatch):
    """After every tick; also with nulls, in pieces, on threads, planned anew, and where rows go that are not there."""
    monkeypatch.setattr(delta, "MIN_PAIRED_ROWS", 1)
    monkeypatch.setattr(delta, "MAX_CHANGED_FRACTION", float("inf"))
    text = TEXTS[name]
    for seed in range(12 if IS_LONG else 3):
        chance = random.Random(f"{text} {seed}")
        schema = {one: ["int64"] * ARITY[one] for one in gw.Program(text).inputs}
        counted = gw.Program(
            text, bag=bag, strategy=strategy, schema=schema, threads=1 + seed % 2, chunk_rows=(None, 3)[seed % 2],
            replan=1.01 if seed % 3 else None, backend="cpu",
        )  # fmt: skip
        listed = gw.Program(text, bag=bag, strategy=strategy, schema=schema, backend="cpu")
        assert symmetries(counted)
        for tick in range(8):
            given = changes(chance, counted.inputs, bag, lacks=seed % 3 == 1)
            count, rows = counted.step_counts(given)["h"], listed.step(given)["h"].to_dict()
            assert count.net == sum(rows.values()), (text, seed, tick)
            if not bag:
                assert count.inserted == sum(weight > 0 for weight in rows.values())
            assert counted.count("h") == listed.count("h")


@pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
def test_all_kinds_of_kernels(kind: Kind, bag: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(delta, "MIN_PAIRED_ROWS", 1)
    monkeypatch.setattr(delta, "MAX_CHANGED_FRACTION", float("inf"))
    for number, text in enumerate((TEXTS["its vertices too"], TEXTS["diamond"], TEXTS["star"])):
        chance = random.Random(f"{text} {bag}")
        options = {"bag": bag, "inputs": named(text)}
        counted = gw.Program(text, backend=kind.backend(number), threads=1, chunk_rows=(None, 2)[number % 2], **options)
        listed = gw.Program(text, backend="cpu", **options)
        for _ in range(5):
            given = changes(chance, counted.inputs, bag, lacks=False)
            assert counted.step_counts(given)["h"].net == sum(listed.step(given)["h"].to_dict().values())


@pytest.mark.usefixtures("large_ticks")
@pytest.mark.parametrize(("name", "times"), [("directed triangle", 3), ("4-cycle", 2), ("diamond", 2), ("clique", 2)])
def test_the_work_of_one_path_stands_for_all(name: str, times: int, monkeypatch: pytest.MonkeyPatch):
    chance = np.random.default_rng(5)
    edges = np.unique(chance.integers(0, 300, (9000, 2)), axis=0)
    edges = np.concatenate([edges, edges[:, ::-1]]) if name == "clique" else edges
    edges = chance.permutation(np.unique(edges, axis=0))
    done, nets = [], []
    for plainly in (False, True):
        if plainly:
            monkeypatch.setattr(delta.IncrementalGenericJoin, "symmetry", None)
        program = gw.Program(TEXTS[name], threads=1, replan=None, backend="cpu")
        program.load({"e": edges[:-100]})
        nets.append(program.step_counts({"e": edges[-100:]})["h"].net)
        steps = [own for paths in program.last_tick.work["h"][0].values() for own in paths.values()]
        done.append(sum(int(work[PROPOSALS]) for work in steps))
    assert nets[0] == nets[1] > 0
    assert done[1] > 0.8 * times * done[0] > 0


@pytest.mark.usefixtures("large_ticks")
def test_changes_that_are_large_beside_the_state_go_their_own_ways():
    """There, changes joined with each other would cost as much as all."""
    chance = np.random.default_rng(7)
    edges = chance.permutation(np.unique(chance.integers(0, 120, (4000, 2)), axis=0))
    for n, is_small in ((500, True), (2000, False)):
        program = gw.Program(TEXTS["4-cycle"], threads=1, replan=None, backend="cpu", bag=True)
        program.load({"e": edges})
        gone = program.step_counts({"e": [(tuple(row), -1) for row in edges[:n].tolist()]})["h"].net
        assert (set(program.last_tick.work["h"][0]) <= {0, 1, 4, 5}) == is_small
        listed = gw.Program(TEXTS["4-cycle"], backend="cpu")
        listed.load({"e": edges})
        before = listed.count("h")
        listed.load({"e": [(tuple(row), -1) for row in edges[:n].tolist()]})
        assert gone == listed.count("h") - before


def test_shares_of_the_work_add_up():
    chance = np.random.default_rng(8)
    edges = chance.permutation(np.unique(chance.integers(0, 60, (1500, 2)), axis=0))
    for name in ("directed triangle", "4-cycle"):
        programs = [gw.Program(TEXTS[name], backend="cpu") for _ in range(3)]
        _whole, *shares = programs
        for number, share in enumerate(shares):
            share.share_work(number, len(shares))
        for part in (edges[:1000], edges[1000:1100], edges[1100:]):
            counts = [program.step_counts({"e": part})["h"] for program in programs]
            assert counts[0].net == sum(count.net for count in counts[1:]) > 0
            assert all((count.inserted or 0) >= 0 for count in counts)


def test_explain_measures_what_stands_for_others():
    chance = np.random.default_rng(9)
    edges = chance.permutation(np.unique(chance.integers(0, 100, (3000, 2)), axis=0))
    program = gw.Program(TEXTS["directed triangle"], backend="cpu", analyze=True, threads=1)
    program.load({"e": edges[:-100]})
    program.step_counts({"e": edges[-100:]})
    plan = json.loads(program.explain(analyze=True, format="json"))
    first, second, _ = plan["heads"][0]["rules"][0]["paths"]
    assert first["seed_counts"]["changes"] == 100
    assert [name for name, _ in first["further"]] == ["changes joined with each other"]
    assert second["seed_counts"] is None
    steps = (work for own in program.last_tick.work["h"][0].values() for work in own.values())
    assert plan["tick"]["total"]["proposals"] == sum(int(work[PROPOSALS]) for work in steps)
    assert plan["tick"]["notes"] == []


def test_sums_that_leave_int64_are_exact(monkeypatch: pytest.MonkeyPatch):
    """The bound on an answer's weights holds for all images, so that what leaves int64 raises, and nothing else."""
    monkeypatch.setattr(delta, "MAX_CHANGED_FRACTION", 1)
    program = gw.Program("h(a) :- e(a, b), e(b, c), e(c, a).", bag=True, backend="cpu")
    program.load({"e": [((1, 2), 1), ((2, 3), 1), ((5, 6), 1)]})
    assert program.step_counts({"e": [((3, 1), 2**62)]})["h"].net == 3 * 2**62
    assert program.relation("h").to_dict() == {(1,): 2**62, (2,): 2**62, (3,): 2**62}
    with pytest.raises(gw.errors.WeightOverflowError):
        program.step_counts({"e": [((1, 2), 1)]})
    assert program.step_counts({"e": [((3, 1), -(2**62) + 5)]})["h"].net == 15 - 3 * 2**62


def test_rules_that_share_their_beginning_with_others_go_by_that():
    text = "t(a, b, c) :- e(a, b), e(b, c), e(c, a). k(a, b, c, d) :- e(a, b), e(b, c), e(c, a), f(c, d)."
    program = gw.Program(text, backend="cpu")
    shares = any(query.continuations for queries in program._planned().queries.values() for query in queries)
    assert shares == (not symmetries(program))


def test_explain_says_which_paths_stand_for_others():
    program = gw.Program(TEXTS["directed triangle"], backend="cpu")
    assert program.explain().count("counted by path 1, where changes are few and only counted") == 2
    said = (
        "counted for paths 1, 2 and 3, its images, where changes are few and only counted; it sees e(c, a) after then"
    )
    assert said in program.explain()
    assert "counted for paths 1, 2 and 3" in program.explain(format="mermaid")
    kept = "h(a, b) :- e(a, b), e(b, c), e(c, a)."  # its derivations are counted, so that rows are listed in any case
    assert "images" not in gw.Program(kept, backend="cpu").explain()
    read = f"{TEXTS['directed triangle']} g(a) :- h(a, b, c), v(b)."
    assert "images" not in gw.Program(read, backend="cpu").explain()

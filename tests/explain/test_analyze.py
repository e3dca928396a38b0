"""EXPLAIN ANALYZE: sums equal the tick's report, and levels equal brute-force counts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import numpy as np
import pytest

import gpu_wcoj as gw
from gpu_wcoj.circuit import recount
from gpu_wcoj.join.bushy import MAX_DISTINCT_FRACTION
from gpu_wcoj.kernels.protocol import MARKS, PROBES, PROPOSALS, SUM_OF_MINIMA, SURVIVORS
from gpu_wcoj.planner import lower
from tests.helpers.answers import named
from tests.helpers.explained_programs import PROGRAMS, changes_of, text_of
from tests.helpers.kernel_kinds import KINDS, Kind, lacking

COUNTED = {
    "work_bound": SUM_OF_MINIMA, "proposals": PROPOSALS, "probes": PROBES, "marks": MARKS, "survivors": SURVIVORS
}  # fmt: skip
MEASURED = ("prefixes", "rows", "bytes", "seconds")

Rows = set[tuple[int, ...]]


def analyzed(program: gw.Program) -> dict:
    return json.loads(program.explain(analyze=True, format="json"))


def all_counts(plan: dict) -> Iterator[dict]:
    """Yield the counts of all levels and of joining branches back."""
    for head in plan["heads"]:
        for rule in head["rules"]:
            for path in (*rule["paths"], *(rule[kind] for kind in ("asked", "afresh") if rule[kind])):
                for levels in (path["levels"], *(variant["levels"] for variant in path["variants"])):
                    yield from (level["counts"] for level in levels if level["counts"])
                yield from (counts for _, counts in path["further"])
                yield from (branch["counts"] for branch in path["branches"] if branch["counts"])


def reported(program: gw.Program) -> dict[str, int]:
    """Return the sum of all kernel counts."""
    work = [
        counted for rules in program.last_tick.work.values() for paths in rules.values() for steps in paths.values()
        for counted in steps.values()
    ]  # fmt: skip
    return {name: sum(int(counters[position]) for counters in work) for name, position in COUNTED.items()}


@pytest.mark.drawn("name", "bag", "strategy", each=True)
@pytest.mark.parametrize(("bag", "strategy"), [(False, "auto"), (True, "auto"), (False, "binary")])
@pytest.mark.parametrize("name", PROGRAMS)
def test_levels_add_up_to_what_the_tick_reports(name, bag, strategy):
    program = gw.Program(text_of(name), bag=bag, strategy=strategy, analyze=True)
    for seed, n in enumerate((60, 9, 1, 200)):
        program.step(positive(changes_of(name, seed, n), bag))
        plan = analyzed(program)
        expected_sums = reported(program)
        levels = list(all_counts(plan))
        assert {key: sum(counts[key] for counts in levels) for key in COUNTED} == expected_sums
        assert {key: plan["tick"]["total"][key] for key in COUNTED} == expected_sums
        for key in MEASURED:
            assert plan["tick"]["total"][key] == pytest.approx(sum(counts[key] for counts in levels))
        assert plan["tick"]["is_measured"]
        assert plan["tick"]["backend"] == program.last_tick.backend
        assert plan["tick"]["seconds"] == program.last_tick.seconds > sum(counts["seconds"] for counts in levels) / 8


def positive(changes: dict, bag: bool) -> dict:
    """In bags with aggregates no row may have a negative weight."""
    return {name: [(row, 1 if bag else sign) for row, sign in rows] for name, rows in changes.items()}


@pytest.mark.usefixtures("large_ticks")
@pytest.mark.parametrize("name", PROGRAMS)
def test_answers_are_the_same_whether_ticks_are_measured_or_not(name):
    measured, plain = gw.Program(text_of(name), analyze=True), gw.Program(text_of(name))
    switched = gw.Program(text_of(name))
    for seed, n in enumerate((50, 1, 7, 120)):
        switched.analyze = seed % 2 == 0
        answers = [program_run.step(changes_of(name, seed, n)) for program_run in (measured, plain, switched)]
        assert answers[0] == answers[1] == answers[2]
        assert reported(measured) == reported(plain)
    assert [program_run.last_tick.measured is None for program_run in (measured, plain, switched)] == [
        False,
        True,
        True,
    ]


def bindings(variables: list[str], rows: Rows) -> list[dict[str, int]]:
    return [dict(zip(variables, row, strict=True)) for row in rows if consistent(variables, row)]


def consistent(variables: list[str], row: tuple[int, ...]) -> bool:
    return len(set(zip(variables, row, strict=True))) == len(set(variables))


def parsed(atom: str) -> tuple[str, list[str]]:
    relation, inside = re.fullmatch(r"(\w+)\((.*)\)", atom).groups()
    return relation, inside.split(", ")


def values_of(variable: str, use: dict, bound: dict[str, int], state: dict[str, dict[str, Rows]]) -> set[int]:
    """Return the values of a variable that an atom allows, given bound variables."""
    relation, variables = parsed(use["atom"])
    matches = bindings(variables, state[use["sees"]][relation])
    return {match[variable] for match in matches if all(match[name] == bound[name] for name in bound if name in match)}


def begun(path: dict, changes: Rows, state: dict[str, dict[str, Rows]]) -> list[list[dict[str, int]]]:
    """Return the seed bindings per order: changed rows that all atoms allow, in the cheapest order."""
    _, variables = parsed(path["change_of"])
    later = [use for level in path["levels"] for use in level["uses"]]
    met = [use for use in (*path["held"], *later) if set(parsed(use["atom"])[1]) & set(variables)]
    seed_bindings = [
        binding for binding in bindings(variables, changes) if all(reached(use, binding, state) for use in met)
    ]
    ways = [path["levels"], *(variant["levels"] for variant in path["variants"])]
    if len(ways) == 1:
        return [seed_bindings]
    shares: list[list[dict[str, int]]] = [[] for _ in ways]
    for row_binding in seed_bindings:
        left = [
            min(len(values_of(way[0]["variable"], use, row_binding, state)) for use in way[0]["uses"] if use in met)
            for way in ways
        ]
        shares[left.index(min(left))].append(row_binding)
    return shares


def walked(
    way: dict, seeded: list[str], prefixes: list[dict[str, int]], state: dict[str, dict[str, Rows]]
) -> list[tuple[int, int, int]]:
    """Per level, if none has conditions: prefixes, the sum of the smallest counts, survivors."""
    counted = []
    seen: dict[str, list[str]] = {}
    before: list[dict[str, int]] = []
    for level in way["levels"]:
        branch = next(
            (branch for branch in way.get("branches", ()) if branch["counts"] and level["step"] in branch["levels"]),
            None,
        )
        if branch and level["step"] == branch["levels"][0]:
            before, sees = prefixes, branch["sees"]
            prefixes = [
                dict(prefix) for prefix in {tuple((name, prefix[name]) for name in sees): 0 for prefix in before}
            ]
            assert len(prefixes) <= MAX_DISTINCT_FRACTION * len(before)
        variable = level["variable"]
        for use in level["uses"]:  # an atom knows what it has been descended by
            ordered = order_of(use)
            bound_names = [name for name in seeded if name in ordered]
            seen.setdefault(
                use["atom"], ordered[: len(bound_names)] if set(ordered[: len(bound_names)]) == set(bound_names) else []
            )
        below = [
            [
                values_of(variable, use, {name: prefix[name] for name in seen[use["atom"]]}, state)
                for use in level["uses"]
            ]
            for prefix in prefixes
        ]
        for use in level["uses"]:
            seen[use["atom"]] = [*seen[use["atom"]], variable]
        bound = sum(min(map(len, value_sets)) for value_sets in below)
        extended = [
            {**prefix, variable: value} for prefix, values in zip(prefixes, below, strict=True)
            for value in set.intersection(*values) if prefix.get(variable, value) == value
        ]  # fmt: skip
        counted.append((len(prefixes), bound, len(extended)))
        prefixes = extended
        if branch and level["step"] == branch["levels"][-1]:
            pairs = [
                (position, row) for position, prefix in enumerate(before) for row in extended if agree(prefix, row)
            ]
            prefixes = [{**before[position], **row} for position, row in pairs]
            counts = branch["counts"]
            assert (counts["rows"], counts["survivors"], counts["prefixes"]) == (
                len(pairs), len(pairs), len({position for position, _ in pairs}),
            )  # fmt: skip
    return counted


def agree(one: dict[str, int], other: dict[str, int]) -> bool:
    return all(one[name] == other[name] for name in one.keys() & other.keys())


def order_of(use: dict) -> list[str]:
    """An atom's variables in the order of its arrangement's columns, c0 and c1."""
    _, variables = parsed(use["atom"])
    return [variables[int(column)] for column in re.findall(r"c(\d)", use["arrangement"])]


def reached(use: dict, one: dict[str, int], state: dict[str, dict[str, Rows]]) -> bool:
    relation, variables = parsed(use["atom"])
    return any(
        all(match[name] == one[name] for name in variables if name in one)
        for match in bindings(variables, state[use["sees"]][relation])
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strategy", ["wcoj", "binary"])
@pytest.mark.parametrize("name", ["triangle", "4-cycle", "path"])
def test_levels_are_what_brute_force_counts(name, strategy, kind):
    """Insertions into a loaded graph: 40 rows are more than one kernel takes at once, 5 are not."""
    if reason := lacking(kind):
        pytest.skip(reason)
    backend = Kind(kind).backend()
    random = np.random.default_rng(5)
    for n in (40, 5):
        edges = {tuple(row) for row in random.integers(0, 14, (60, 2)).tolist()}
        fresh = {tuple(row) for row in random.integers(0, 14, (n, 2)).tolist()} - edges
        program = gw.Program(text_of(name), backend=backend, strategy=strategy, analyze=True)
        program.load({"edge": sorted(edges)})
        program.step({"edge": sorted(fresh)})
        state = {"before": {"edge": edges}, "after": {"edge": edges | fresh}}
        (head,) = analyzed(program)["heads"]
        for path in head["rules"][0]["paths"]:
            assert path["seed_counts"]["changes"] == len(fresh)
            _, seeded = parsed(path["change_of"])
            in_one_call = len(path["levels"]) == 1 and len(fresh) <= 16
            for way, prefixes in zip((path, *path["variants"]), begun(path, fresh, state), strict=True):
                if not in_one_call:  # there, rows that some atom does not hold are among the prefixes
                    assert way["seed_counts"]["prefixes"] == len(prefixes)
                for level, expected_counts in zip(way["levels"], walked(way, seeded, prefixes, state), strict=True):
                    counts = level["counts"]
                    assert counts["prefixes"] == (len(fresh) if in_one_call else expected_counts[0])
                    if level["verb"] == "check":  # one value of each prefix is looked up, at most
                        assert counts["work_bound"] <= expected_counts[0]
                    else:
                        assert counts["work_bound"] == expected_counts[1]
                    assert counts["survivors"] == counts["rows"] == expected_counts[2]
                    assert counts["bytes"] >= 16 * expected_counts[2]
                    assert counts["seconds"] >= 0


def test_threads_measure_alike():
    edges = np.random.default_rng(2).integers(0, 300, (9000, 2))
    totals = []
    for threads in (1, 3):
        program = gw.Program(text_of("4-cycle"), threads=threads, analyze=True, strategy="wcoj")
        program.load({"edge": edges[:3000]})
        program.step_counts({"edge": edges[3000:]})
        total = analyzed(program)["tick"]["total"]
        totals.append([total[key] for key in ("prefixes", "work_bound", "survivors")])
    assert totals[0] == totals[1]
    assert totals[0][0] > 6000


def test_variants_are_told_apart():
    program = gw.Program(text_of("variants"), analyze=True)
    random = np.random.default_rng(1)
    program.load({"edge": random.integers(0, 40, (600, 2))})
    program.step({"edge": random.integers(0, 40, (80, 2))})
    plan = analyzed(program)
    paths = [path for head in plan["heads"] for rule in head["rules"] for path in rule["paths"]]
    varied = [path for path in paths if any(variant["seed_counts"] for variant in path["variants"])]
    assert varied
    for path in varied:
        begun = [path["seed_counts"]["prefixes"], *(variant["seed_counts"]["prefixes"] for variant in path["variants"])]
        assert min(begun) > 0
        assert sum(begun) <= path["seed_counts"]["changes"]
        for other_order in path["variants"]:
            assert other_order["levels"][0]["counts"]["prefixes"] == other_order["seed_counts"]["prefixes"]
    assert re.search(r"or in the order .*\n +prefixes \d+, .* ms\n", program.explain(analyze=True))


def test_counts_without_rows():
    """A counted answer passes on no rows at its last level."""
    program = gw.Program(text_of("triangle"), analyze=True)
    program.load({"edge": [(a, b) for a in range(9) for b in range(a)]})
    program.step_counts({"edge": [(a, b) for a in range(9, 30) for b in range(9)]})
    levels = list(all_counts(analyzed(program)))
    assert sum(counts["survivors"] for counts in levels) == 21 * 36
    assert {counts["rows"] for counts in levels} == {counts["bytes"] for counts in levels} == {0}


def test_the_bound_on_the_work_counts_what_may_be_looked_at(kind):
    """Ranges whose lengths are added do not count; rows deleted in another batch do."""
    text = "h(a, b, c) :- e(a, b), f(b, c), t(c)."
    two = text.replace(", t(c)", "")
    apart, together = (gw.Program(two, analyze=True, backend=kind.backend(), inputs=named(two)) for _ in range(2))
    taken_back = gw.Program(text, analyze=True, backend=kind.backend(), inputs=named(text))
    bounds = []
    for program, f, e in (
        (apart, {"f": [(b, c) for b in range(50) for c in range(20)]}, {"e": [(0, b) for b in range(50)]}),
        (together, {"f": [(1, c) for c in range(20)]}, {"e": [(a, 1) for a in range(50)]}),
        (taken_back, {"f": [(1, c) for c in range(10)], "t": [(c,) for c in range(40)]}, {"e": [(0, 1)]}),
    ):
        program.load(f)
        gone = {"f": [((1, c), -1) for c in range(10)]} if program is taken_back else {}
        program.step_counts(e | gone)
        (level,) = analyzed(program)["heads"][0]["rules"][0]["paths"][0]["levels"]
        bounds.append(tuple(level["counts"][name] for name in ("prefixes", "work_bound", "survivors")))
    assert [bounds[0], bounds[2]] == [(50, 0, 1000), (1, 20, 0)]
    assert bounds[1] in ((1, 0, 1000), (1, 20, 1000))  # of few prefixes, some kernels look at values


def test_changes_that_are_counted_afresh_have_levels_of_their_own(monkeypatch):
    """Sampling for the decision is part of the work, in addition to the levels."""
    monkeypatch.setattr(lower, "MIN_PLANNED_ROWS", np.inf)
    monkeypatch.setattr(lower, "MIN_PLANNED_COST", np.inf)
    monkeypatch.setattr(recount, "MAX_COST_RATIO", 50.0)
    allowance = recount.Recounting._allowance
    monkeypatch.setattr(recount.Recounting, "_allowance", lambda *given: 1e30 if allowance(*given) else None)
    random = np.random.default_rng(4)
    edges = np.stack([random.zipf(1.6, 20_000) % 900, random.zipf(1.6, 20_000) % 900], axis=1)
    text = "h(a, b, c, d, f, g) :- edge(a, b), edge(b, c), edge(c, d), edge(d, f), edge(f, g)."
    program = gw.Program(text, analyze=True, backend="cpu")
    program.step_counts({"edge": edges})
    plan = analyzed(program)
    (head,) = plan["heads"]
    (rule,) = head["rules"]
    assert "counted afresh" in head["recounted"][0]
    assert not any(level["counts"] for path in rule["paths"] for level in path["levels"])
    assert len([level for level in rule["afresh"]["levels"] if level["counts"]]) == 4
    assert [name for name, _ in rule["afresh"]["further"]] == ["samples, to decide"]
    for key in COUNTED:
        assert plan["tick"]["total"][key] == reported(program)[key] == sum(counts[key] for counts in all_counts(plan))
    assert plan["tick"]["notes"] == []
    program.step_counts({"edge": [(1000, 1), (1, 1000)]})
    plan = analyzed(program)
    (head,) = plan["heads"]
    assert head["recounted"] == []
    assert head["rules"][0]["afresh"] is None
    assert sum(counts["survivors"] for counts in all_counts(plan)) == reported(program)["survivors"] > 0


@pytest.mark.usefixtures("large_ticks")
def test_the_first_call_says_what_was_not_measured_and_the_next_tick_is():
    program = gw.Program(text_of("variants"))
    assert not program.analyze
    assert "there has been no tick" in program.explain(analyze=True)
    program = gw.Program(text_of("variants") + " " + PROGRAMS["closure"] + " .output q .output reach")
    program.step(changes_of("triangle", 1, 50))
    text = program.explain(analyze=True)
    for line in (
        "prefixes, bytes and times of levels were not measured in this tick; they are from the next one on",
        "counts of a path and of its other orders stand together at the path",
        "counts of recursions were not told apart: they are in the total only",
    ):
        assert f"\n  {line}\n" in text
    plan = analyzed(program)
    assert {key: plan["tick"]["total"][key] for key in COUNTED} == reported(program)
    assert all(plan["tick"]["total"][key] is None for key in MEASURED)
    assert all(counts["prefixes"] is None for counts in all_counts(plan))
    assert program.analyze
    program.step(changes_of("triangle", 2, 50))
    text = program.explain(analyze=True)
    assert "not measured" not in text
    assert re.search(r"\n        prefixes \d+, work bound \d+, proposals \d+, .*survivors \d+, .*\d ms\n", text)
    program.analyze = False
    program.step(changes_of("triangle", 3, 50))
    assert program.last_tick.measured is None


def test_ticks_without_changes_and_ticks_that_fail():
    program = gw.Program(text_of("triangle"), analyze=True)
    program.step({"edge": [(1, 2), (2, 3), (1, 3)]})
    document = program.explain(analyze=True, format="json")

    def refuse(name, piece):
        raise KeyError(name)

    with pytest.raises(KeyError):
        program.step_pieces({"edge": [(3, 4), (2, 4)]}, refuse)
    assert program.explain(analyze=True, format="json") == document
    program.step({})
    assert "nothing changed in the last tick" in program.explain(analyze=True)


def test_heads_and_aggregates_are_timed():
    program = gw.Program(text_of("aggregate"), analyze=True)
    program.step(changes_of("aggregate", 1, 80))
    plan = analyzed(program)
    assert [head["kind"] for head in plan["heads"] if head["name"] == "out"] == ["grouping"]
    timed = {head["name"]: head["seconds"] for head in plan["heads"]}
    assert timed["out"] > 0
    assert timed["many"] > 0
    assert plan["tick"]["seconds"] > timed["out"] + timed["many"]
    assert "aggregates have no levels: only the time of the whole is measured" in plan["tick"]["notes"]


def test_recursion_tells_filling_following_and_asking_apart():
    program = gw.Program(text_of("closure"), analyze=True)
    program.step({"edge": [(a, a + 1) for a in range(40)]})
    (head,) = analyzed(program)["heads"]
    step = head["rules"][1]["paths"][0]
    assert step["change_of"] == "reach(a, b)"
    assert step["seed_counts"]["changes"] == 40 * 41 // 2
    assert step["levels"][0]["counts"]["rows"] >= 39 * 40 // 2
    assert head["rules"][0]["asked"]["seed_counts"] is None
    program.step({"edge": [((20, 21), -1)]})
    (head,) = analyzed(program)["heads"]
    seed_counts = [rule["asked"]["seed_counts"] for rule in head["rules"]]
    assert all(counts["changes"] > 0 for counts in seed_counts if counts)
    assert any(seed_counts)
    assert "ranks" in {name for rule in head["rules"] for path in rule["paths"] for name, _ in path["further"]}


@pytest.mark.usefixtures("large_ticks")
def test_rules_of_the_same_text_are_counted_once():
    text = "r(x, y) :- f(x, y). " + 2 * "r(x, z) :- r(x, y), f(y, z). "
    program = gw.Program(text, analyze=True, threads=1)
    program.load({"f": [(i, i + 1) for i in range(8)] + [(i, i + 2) for i in range(7)]})
    program.step({"f": [((3, 4), -1)]})
    tick = analyzed(program)["tick"]
    work = sum(steps for rules in program.last_tick.work.values() for rule in rules.values() for path in rule.values()
               for steps in path.values())  # fmt: skip
    assert tick["total"]["work_bound"] == work[SUM_OF_MINIMA]
    assert not any("not measured" in note for note in tick["notes"])


def test_a_tick_is_not_shown_by_statistics_of_elsewhere(tmp_path):
    program = gw.Program("path(a, c) :- e(a, b), e(b, c).")
    program.step({"e": [(1, 2), (2, 3)]})
    with pytest.raises(gw.errors.UsageError, match="'statistics' and 'analyze' cannot be combined"):
        program.explain(statistics=tmp_path, analyze=True)

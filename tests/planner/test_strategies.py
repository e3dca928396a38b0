"""Plans of every strategy give the answers and changes of recomputation, tick by tick."""

from __future__ import annotations

import itertools
import json
import random

import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import UnknownRelationError, UsageError
from gpu_wcoj.kernels.protocol import PROPOSALS
from gpu_wcoj.planner.ir import STRATEGIES
from tests.helpers.comparison import SMALL, check_scripts
from tests.helpers.join_patterns import PATTERNS

SOME = ("triangle of three relations", "4-cycle", "diamond", "heads of heads", "wildcards on both sides", "1 to 4")
BAGS = pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    "text",
    [
        "h(x, n) :- v(x), n = count : { e(x, y), f(y, z), g(z, w), k(w, x) }.",
        "h(x, max(n)) :- v(x), n = sum w : { e(x, y), f(y, z), g(z, w), k(w, x) }.",
        "h(x, count()) :- e(x, y), f(y, z), g(z, w), k(w, x).",
    ],
)
def test_hints_reach_what_aggregates_hold(text, strategy):
    for order in (["z", "w"], ["w", "z"]):
        program = gw.Program(text, strategy=strategy, order={"h": order})
        rows = {"v": [(1,)], "e": [(1, 2)], "f": [(2, 3)], "g": [(3, 4)], "k": [(4, 1)]}
        program.step({name: own for name, own in rows.items() if name in program.inputs})
        heads = json.loads(program.explain(format="json"))["heads"]
        rules = [rule for head in heads for rule in head["rules"] if "f(y, z)" in rule["rule"]]
        (path,) = (path for rule in rules for path in rule["paths"] if path["change_of"] == "e(x, y)")
        assert list(dict.fromkeys(one["variable"] for one in path["levels"])) == order


@pytest.mark.parametrize(
    "text",
    [
        "p(x, y) :- e(x, y). p(x, z) :- p(x, y), e(y, w), f(w, z).",
        "p(x, min(0)) :- s(x). p(z, min(n + m)) :- p(x, n), e(x, y), f(y, w), g(w, z, m).",
    ],
    ids=["rows", "groups"],
)
def test_what_is_asked_for_derivations_joins_as_it_was_said(text):
    def asked(**options):
        (head,) = json.loads(gw.Program(text, **options).explain(format="json"))["heads"]
        return head["rules"][1]["asked"]

    for order in (["w", "y"], ["y", "w"]):
        for strategy in STRATEGIES:
            levels = asked(order={"p": order}, strategy=strategy)["levels"]
            bound = list(dict.fromkeys(level["variable"] for level in levels))
            assert bound[:2] == order
    assert [asked(strategy=one)["strategy"] for one in ("wcoj", "binary")] == ["wcoj", "binary"]
    assert any(level["verb"] == "check" for level in asked(strategy="binary")["levels"])
    chance = random.Random(text)
    for strategy in STRATEGIES:
        options = {"strategy": strategy, "order": {"p": ["w", "y"]}, "values": SMALL}
        check_scripts(text, [chance.randrange(1000)], backend="cpu", **options)


def test_counting_follows_what_lookups_drop():
    """A clique of seven joined atom after atom: what a lookup drops is extended no further."""
    chance = random.Random(1)
    edges = [(a, b) for a, b in itertools.combinations(range(25), 2) if chance.random() < 0.6]
    names = [f"v{i}" for i in range(7)]
    body = ", ".join(f"e({one}, {other})" for one, other in itertools.combinations(names, 2))
    done = {}
    for way in ("step", "step_counts"):
        program = gw.Program(f"h({', '.join(names)}) :- {body}.", backend="cpu", strategy="binary", replan=None)
        found = getattr(program, way)({"e": edges})["h"]
        (rules,) = program.last_tick.work.values()
        done[way] = sum(
            int(work[PROPOSALS]) for paths in rules.values() for own in paths.values() for work in own.values()
        )
        assert (found.net if way == "step_counts" else len(found)) == program.count("h") > 0
    assert done["step_counts"] <= 1.5 * done["step"]


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        (
            {"strategy": "binry"},
            UsageError,
            "strategy='binry' is not allowed: expected one of 'auto', 'wcoj', 'binary'",
        ),
        ({"strategy": None}, UsageError, "strategy=None is not allowed"),
        ({"order": {"hh": ["a"]}}, UnknownRelationError, "(?s)'hh'.*Did you mean 'h'"),
        ({"order": {"e": ["a"]}}, UnknownRelationError, "(?s)'e'.*heads are: 'h'"),
        ({"order": {"h": ["zz"]}}, UsageError, "(?s)has a variable 'zz'.*'a', 'b', 'c'"),
        ({"order": {"h": ["a", "a"]}}, UsageError, "variable 'a' is given twice"),
        ({"order": {"h": "abc"}}, UsageError, "'abc'} is not allowed: expected a list"),
        ({"order": {"h": None}}, UsageError, "None} is not allowed: expected a list"),
        ({"order": {"h": {"a"}}}, UsageError, "{'a'}} is not allowed: expected a list"),
        ({"order": {"h": [1]}}, UsageError, r"\[1\]} is not allowed: expected a list"),
        ({"order": {1: ["a"]}}, UsageError, "expected a mapping from heads to variables"),
        ({"order": [("h", ["a"])]}, UsageError, "expected a mapping from heads to variables"),
        ({"replan": 1}, UsageError, "replan=1 is not allowed: expected a number above 1 and below 1e300, or None"),
        ({"replan": 1e308}, UsageError, r"replan=1e\+308 is not allowed: expected a number above 1 and below 1e300"),
        ({"replan": float("inf")}, UsageError, "replan=inf is not allowed: .* below 1e300"),
        ({"replan": float("nan")}, UsageError, "replan=nan is not allowed"),
        ({"bag": "yes"}, UsageError, "bag='yes' is not allowed: expected True or False"),
        ({"analyze": 1}, UsageError, "analyze=1 is not allowed: expected True or False"),
        ({"merge_policy": "x"}, UsageError, "merge_policy='x' is not allowed: expected a MergePolicy or None"),
        ({"twin": "gpu"}, UsageError, "'gpu'"),
    ],
    ids=str,
)
def test_options_that_are_refused(options, error, match):
    with pytest.raises(error, match=match):
        gw.Program(PATTERNS["triangle"], **options)


@pytest.mark.parametrize(
    ("body", "name", "match"),
    [
        (
            "r(a, b), e = b + 1, !u(a, e)",
            "e",
            "only a negated atom in a rule of 'h' has a variable 'e', which does not bind it",
        ),
        ("r(a, b), n = count : { v(a, c), e = c + 1, !u(a, e) }, n > 1", "e", "only a negated atom .* a variable 'e'"),
        ("r(a, b), e = b + 1, !u(a, e)", "zz", "no atom in a rule of 'h' has a variable 'zz'"),
        ("r(a, b), e = b + 1, e < 9", "e", "no atom in a rule of 'h' has a variable 'e'"),
    ],
)
def test_hints_on_variables_that_no_positive_atom_has(body, name, match):
    allowed = "'a', 'b', 'c'" if "count" in body else "'a', 'b'"
    with pytest.raises(
        UsageError, match=f"{match}.*\n  Variables of atoms that are not negated are allowed: {allowed}\\."
    ):
        gw.Program(f"h(a) :- {body}.", order={"h": [name]})
    for one in ("a", "b"):
        gw.Program(f"h(a) :- {body}.", order={"h": [one]})

"""The engine on a device computes what it computes on the CPU, bit for bit."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

import gpu_wcoj as gw
from gpu_wcoj.backend import Backend, cpu_backend
from gpu_wcoj.errors import WeightOverflowError
from gpu_wcoj.trace.spine import MergePolicy
from tests.helpers.answers import named
from tests.helpers.comparison import Script, arities, fed, random_script
from tests.helpers.device_graphs import hub_edges
from tests.helpers.join_patterns import PATTERNS
from tests.helpers.kernel_cases import marked_alike
from tests.helpers.long_tests import IS_LONG
from tests.shim import available, shim_backend

pytestmark = [
    pytest.mark.skipif(available() is not None, reason=str(available())),
    pytest.mark.usefixtures("large_ticks"),  # on a device all ticks run path by path, and counted work is compared
]

# `make test-long` runs more seeds and sequences; those here are spread over all sizes of pieces.
BAGS = pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
TRIANGLE = PATTERNS["triangle"]
SOME = (
    "triangle of three relations",
    "4-cycle once",
    "4-clique",
    "star of 3",
    "loop and edge",
    "1 to 4",
    "loomis-whitney",
    "all variables shared, swapped",
    "two components",
    "constants beside a join",
    "wildcards on both sides",
    "greater",
    "heads of heads",
)


def run(text: str, script: Script, *, bag: bool, backend: Backend, **options: Any) -> list[object]:
    """All that can be seen of a run."""
    program = gw.Program(text, bag=bag, backend=backend, route="device", inputs=named(text), **options)
    inputs = arities(text)
    seen: list[object] = []
    for number, tick in enumerate(script):
        changes = {name: fed(change, inputs[name]) for name, change in tick.items()}
        if number % 3 == 0:
            seen.append(program.step_counts(changes))
        elif number % 3 == 1:
            total: Counter[tuple[str, tuple[Any, ...]]] = Counter()  # where pieces are cut is not promised

            def add(name: str, piece: gw.ZSet, to: Counter[tuple[str, tuple[Any, ...]]] = total) -> None:
                for row, weight in piece.rows():
                    to[name, row] += weight

            seen.append(program.step_pieces(changes, add))
            seen.append(sorted(item for item in total.items() if item[1]))
        else:
            seen.append({name: zset.rows() for name, zset in program.step(changes).items()})
        seen.append({name: program.relation(name).rows() for name in program.heads})
        seen.append([program.count(name) for name in program.outputs])
        seen.append((program.state_rows, program.last_tick.ignored, program.last_tick.merged_rows))
    return seen


@pytest.mark.drawn("bag", "name", share=4)
@BAGS
@pytest.mark.parametrize("name", ["triangle", "heads of heads", "star of 3", "1 to 4"])
def test_every_bit_is_that_of_the_cpu(name, bag):
    script = random_script(random.Random(f"bits {name}"), arities(PATTERNS[name]))
    policy = MergePolicy(ratio=0.01)
    expected = run(PATTERNS[name], script, bag=bag, backend=cpu_backend(), chunk_rows=64, merge_policy=policy)
    for seed in range(5 if IS_LONG else 3):
        found = run(PATTERNS[name], script, bag=bag, backend=shim_backend(seed), chunk_rows=64, merge_policy=policy)
        assert found == expected


@pytest.mark.drawn("bag", "name", share=6)
@BAGS
@pytest.mark.parametrize("name", ["triangle", "4-clique", "star of 3"])
def test_skewed_graphs_are_those_of_the_cpu(name, bag):
    edges = hub_edges(150)
    random.Random(1).shuffle(edges)
    script: Script = [
        {"e": ("rows", [(edge, 1) for edge in edges[:100]])},
        {"e": ("rows", [(edge, 1) for edge in edges[100:]] + [(edge, -1) for edge in edges[:40]])},
        {"e": ("rows", [(edge, -1) for edge in edges[40:]])},
    ]
    expected = run(PATTERNS[name], script, bag=bag, backend=cpu_backend())
    assert run(PATTERNS[name], script, bag=bag, backend=shim_backend(3)) == expected


class TestWeights:
    """Products that leave int64 are computed with Python integers, on the host."""

    @pytest.mark.parametrize("way", ["step", "step_counts"])
    @pytest.mark.parametrize("large", [2**20, 2**31, 2**40, 2**62])
    def test_large_weights(self, large, way):
        text = "h(a) :- e(a, b), f(b, c), e(c, d)."
        found = []
        for backend in (cpu_backend(), shim_backend(2)):
            program = gw.Program(text, bag=True, backend=backend, route="device")
            ticks: list[object] = []
            for sign in (1, -1, 1):
                rows = [((a, a % 2), sign * large) for a in range(3)] + [((1, 1), 1 - large), ((1, 0), sign)]
                try:
                    changes = getattr(program, way)({"e": gw.ZSet.from_rows(rows), "f": gw.ZSet.from_rows(rows[:2])})
                    ticks.append({k: v if way == "step_counts" else v.rows() for k, v in changes.items()})
                except WeightOverflowError as error:
                    ticks.append(str(error))
                ticks.append([program.relation(name).rows() for name in ("e", "f")])
            found.append(ticks)
        assert found[0] == found[1]

    def test_counts_beyond_int64_in_one_product(self):
        text = "h(a) :- e(a, b), e(a, c), e(a, d)."
        rows = [((0, value), 2**22) for value in range(3)]
        found = []
        for backend in (cpu_backend(), shim_backend(4)):
            program = gw.Program(text, bag=True, backend=backend, route="device")
            with pytest.raises(WeightOverflowError) as raised:
                program.step({"e": gw.ZSet.from_rows(rows)})
            found.append(str(raised.value))
            assert len(program.relation("e")) == 0
        assert found[0] == found[1]


@pytest.mark.parametrize("on", ["cpu", "shim"])
def test_values_that_agree_in_one_half_with_marked_ones(on):
    """One atom holds int64, the other int32 in a range that is marked: only equal values join."""
    held, alike = marked_alike()
    sought = [*alike, *held[:5]]
    options: dict[str, Any] = {"backend": "cpu"} if on == "cpu" else {"backend": shim_backend(0), "route": "device"}
    for text, key in (("p(h, x, v) :- k(h, x), a(x, v), b(h, v).", 0), ("p(x, h, v) :- k(x, h), a(x, v), b(h, v).", 1)):
        program = gw.Program(text, inputs=["k", "a", "b"], **options)
        program.load({"b": [(0, value) for value in held], "a": list(enumerate(sought))})
        keys = [(0, x) if key == 0 else (x, 0) for x in range(len(sought))]
        found = [(row, weight) for row, weight in program.step({"k": keys})["p"].rows()]
        expected = [((*keys[x], sought[x]), 1) for x in range(len(alike), len(sought))]
        assert sorted(found) == expected
        assert program.count("p") == len(expected)

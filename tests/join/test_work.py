"""Work, not time: which atom proposes, what is dropped by count alone, and what a lookup costs."""

from __future__ import annotations

import pytest

import gpu_wcoj as gw
from gpu_wcoj.kernels.protocol import PROBES, PROPOSALS, RANKED, SUM_OF_MINIMA, SURVIVORS
from tests.helpers.counted_work import looked_at, work_of
from tests.helpers.kernel_kinds import KINDS, Kind, lacking


class TestSmallestTakesPart:
    def test_an_atom_whose_last_variable_is_bound_alone(self):
        program = gw.Program("h(a, c) :- v(a), s(a, c), u(c).", threads=1, inputs=["v", "s", "u"])
        program.step({"s": [(0, c) for c in range(1000)] + [(1, c) for c in range(2)], "u": [(1,), (5,), (2000,)]})
        assert program.step({"v": [(0,)]})["h"].rows() == [((0, 1), 1), ((0, 5), 1)]
        assert work_of(program)[0]["c"].tolist()[:PROBES] == [3, 3]
        assert program.step({"v": [(1,)]})["h"].rows() == [((1, 1), 1)]
        assert work_of(program)[0]["c"].tolist()[:PROBES] == [2, 2]

    def test_an_atom_takes_part_while_only_its_first_variable_is_bound(self):
        program = gw.Program(
            "h(a, c, d) :- v(a), s(a, c), r(c, d).", threads=1, order={"h": ["c", "d"]}, inputs=["v", "s", "r"]
        )
        program.step({"s": [(0, c) for c in range(1000)], "r": [(7, 1), (8, 1), (2000, 1)]})
        assert program.step({"v": [(0,)]})["h"].rows() == [((0, 7, 1), 1), ((0, 8, 1), 1)]
        counted = work_of(program)[0]
        assert counted["c"][:RANKED].tolist() == [3, 3, 3, 0, 2]
        assert counted["d"].tolist()[:PROBES] == [2, 2]

    @pytest.mark.parametrize("way", ["step", "step_counts"])
    def test_a_cross_product_looks_at_its_rows_once(self, way):
        program = gw.Program("h(a, b) :- v(a), w(b).", threads=1, inputs=["v", "w"])
        program.step({"w": [(b,) for b in range(1000)]})
        found = getattr(program, way)({"v": [(a,) for a in range(100)]})["h"]
        assert (len(found) if way == "step" else found.inserted) == 100_000
        counted = work_of(program)[0]["b"]
        assert looked_at(counted) <= (100_000 if way == "step" else 0) + 5000
        assert counted[SURVIVORS] == 100_000

    def test_a_prefix_that_some_atom_cannot_extend_is_dropped_by_count_alone(self):
        program = gw.Program("h(a, c) :- v(a), s(a, c), t(a, c).", threads=1, inputs=["v", "s", "t"])
        program.step({"s": [(a, c) for a in range(10) for c in range(100)], "t": [(3, 7)]})
        assert program.step({"v": [(a,) for a in range(10)]})["h"].rows() == [((3, 7), 1)]
        assert looked_at(work_of(program)[0]["c"]) <= 1


@pytest.mark.usefixtures("large_ticks")
@pytest.mark.parametrize("kind", KINDS)
def test_a_lookup_is_one_search_whether_it_finds_or_not(kind):
    """Counting and listing; it proposes nothing."""
    if reason := lacking(kind):
        pytest.skip(reason)
    program = gw.Program(
        "h(a, b, c) :- r(a, b), s(b, c), t(a, c).",
        strategy="binary",
        backend=Kind(kind).backend(),
        inputs=["r", "s", "t"],
    )
    program.step({"s": [(b, c) for b in range(8) for c in range(8)], "t": [(a, 2 * a) for a in range(100)]})
    rows = [(a, b) for a in range(10) for b in range(8)]
    for ask in (program.step, program.step_counts):
        ask({"r": rows})
        ((path, steps),) = ((number, steps) for number, steps in work_of(program).items() if len(steps) > 1)
        (lookup,) = (counted for name, counted in steps.items() if "@" in name)
        assert path == 0
        assert lookup[[SUM_OF_MINIMA, PROPOSALS, PROBES, SURVIVORS]].tolist() == [0, 0, 640, 32]
        program.step({"r": [(row, -1) for row in rows]})

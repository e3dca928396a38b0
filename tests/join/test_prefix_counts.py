"""What levels propose and mark, against the sum over prefixes of the smallest count."""

from __future__ import annotations

import numpy as np
import pytest

import gpu_wcoj as gw
from bench.cliffs.laws import counted
from cpu_fallback.extend_marked import SCAN_FACTOR
from gpu_wcoj import datasets
from gpu_wcoj.join.settings import tune
from gpu_wcoj.kernels.protocol import PROBES, SURVIVORS
from gpu_wcoj.trace.spine import MAX_BATCHES
from tests.helpers.answers import named
from tests.helpers.counted_work import looked_at, random_edges, table, work_of
from tests.helpers.join_patterns import PATTERNS
from tests.helpers.prefix_counts import sums_of_minima
from tests.join.test_loads import answer_once

MARK_FACTOR = 2
"""A group of prefixes marks a range up to this many times as long as what it would propose without marks."""

WORST = SCAN_FACTOR + MARK_FACTOR + 1
"""A prefix scans SCAN_FACTOR times its smallest count, or proposes that and pays as much towards the marks of a hub."""

NAMES = ("triangle", "3-cycle", "4-clique", "4-cycle", "4-cycle once", "diamond once", "kite", "house", "2-path")


def both_ways(edges):
    edges = set(map(tuple, edges.tolist()))
    return {"e": edges, "s": edges | {(b, a) for a, b in edges}}


@pytest.mark.usefixtures("large_ticks")
class TestSumOfMinima:
    """Proposals and marks of a level against the sum over prefixes of the smallest count."""

    def check(self, text, edges, n_change, factor, way, **options):
        with tune(off=frozenset({"recounts"})):  # delta paths alone
            program = gw.Program(text, threads=1, **options)
        change, kept = edges[:n_change], edges[n_change:]
        program.step_counts({"e": table(kept)})
        before, after = both_ways(kept), both_ways(edges)
        query = program._lowered.plan.queries["h"][0]
        paths = query.paths
        stands_for_all = way == "step_counts" and query.symmetry is not None
        checked = 0
        for sign in (1, -1):
            getattr(program, way)({"e": table(change, sign)})
            states = (before, after) if sign > 0 else (after, before)
            minima = {}
            for relation in {path.seed.key.relation for path in paths}:
                minima |= sums_of_minima(paths, relation, *states)
            for number, variables in work_of(program).items():
                n_slots = len(paths[number % len(paths)].other_atoms) * (2 + (sign < 0))
                for variable, counters in variables.items():  # changes joined with each other stand behind all paths
                    smallest = minima[number % len(paths)][variable]
                    # Within deletions the rows that go stand in one batch more, and cost up to twice the width.
                    most = factor * smallest * (2 if sign < 0 else 1)
                    place = f"{sign:+}, path {number}, {variable}: {counters.tolist()}, sum of minima {smallest}"
                    assert looked_at(counters) <= most, place
                    assert counters[PROBES] <= n_slots * looked_at(counters) + 2 * len(change), place
                    checked += smallest > 0
        assert checked >= (len(query.symmetry.representatives) if stands_for_all else len(paths))

    @pytest.mark.drawn("way")
    @pytest.mark.parametrize("way", ["step", "step_counts"])
    @pytest.mark.parametrize("name", NAMES)
    def test_random_graphs(self, name, way):
        edges = random_edges(np.random.default_rng(1), 900, 80, power=1)
        self.check(PATTERNS[name], edges, 100, 1 + MARK_FACTOR, way)

    @pytest.mark.drawn("power", "way")
    @pytest.mark.parametrize("way", ["step", "step_counts"])
    @pytest.mark.parametrize("power", [2, 5])
    @pytest.mark.parametrize("name", NAMES)
    def test_skewed_graphs(self, name, power, way):
        edges = random_edges(np.random.default_rng(power), 900, 80, power)
        self.check(PATTERNS[name], edges, 100, WORST, way)

    @pytest.mark.parametrize("name", ["triangle", "4-clique", "4-cycle"])
    def test_hubs_that_arrive(self, name):
        random = np.random.default_rng(3)
        edges = random_edges(random, 1500, 300, power=2)
        hubs = np.isin(edges, (0, 1)).any(axis=1)
        edges = np.concatenate([edges[hubs], edges[~hubs]])
        self.check(PATTERNS[name], edges, int(hubs.sum()), WORST, "step")

    @pytest.mark.parametrize("chunk_rows", [100, 1000])
    def test_pieces(self, chunk_rows):
        """A piece that ends inside a group of prefixes marks again, once for at least as many rows that come out."""
        edges = random_edges(np.random.default_rng(4), 900, 80, power=2)
        for name in ("triangle", "4-clique", "4-cycle"):
            self.check(PATTERNS[name], edges, 100, WORST, "step", chunk_rows=chunk_rows)

    def test_several_batches_cost_their_number_at_most(self):
        edges = random_edges(np.random.default_rng(6), 4000, 200, power=2)
        program = gw.Program(PATTERNS["triangle"], threads=1)
        for part in np.split(edges[100:], [2000, 3000, 3500, 3850, 3890]):
            program.step_counts({"e": table(part)})
        assert max(map(len, program.state_rows.values())) > 1
        program.step({"e": table(edges[:100])})
        paths = program._lowered.plan.queries["h"][0].paths
        minima = sums_of_minima(paths, "e", both_ways(edges[100:]), both_ways(edges))
        for number, variables in work_of(program).items():
            for variable, counters in variables.items():
                assert looked_at(counters) <= (MAX_BATCHES + 1) * (1 + MARK_FACTOR) * minima[number][variable]

    def test_ranges_as_long_as_are_ever_scanned(self):
        """Each prefix holds just SCAN_FACTOR times the values that are marked for it."""
        n, common = 40, 50
        program = gw.Program("h(a, b, c) :- g(a, b), r(a, c), s(b, c).", threads=1, inputs=["g", "r", "s"])
        program.step({
            "r": [(0, c * SCAN_FACTOR) for c in range(common)],
            "s": [(b, c) for b in range(n) for c in range(SCAN_FACTOR * common)],
        })  # fmt: skip
        assert program.step_counts({"g": [(0, b) for b in range(n)]})["h"].inserted == n * common
        counted = work_of(program)[0]["c"]
        assert counted[SURVIVORS] == n * common
        assert looked_at(counted) <= WORST * n * common


PAIRS = "h(a, b, c) :- g(a, b), r(a, c), s(b, c)."


class TestMarks:
    """A change of g intersects, for each of its rows, one range of r and one of s of known widths."""

    def check(self, g, r_widths, s_widths, way):
        r, s = (
            np.stack([np.repeat(np.arange(len(widths)), widths), ragged_arange(widths)], axis=1)
            for widths in (r_widths, s_widths)
        )
        program = gw.Program(PAIRS, threads=1, inputs=named(PAIRS))
        program.step({"r": table(r), "s": table(s)})
        g = np.unique(g, axis=0)
        found = getattr(program, way)({"g": table(g)})["h"]
        smallest = int(np.minimum(r_widths[g[:, 0]], s_widths[g[:, 1]]).sum())
        assert (len(found) if way == "step" else found.inserted) == smallest
        counted = work_of(program)[0]["c"]
        assert looked_at(counted) <= WORST * smallest, counted.tolist()
        assert counted[PROBES] <= 2 * looked_at(counted) + 2 * len(g), counted.tolist()

    @pytest.mark.parametrize("way", ["step", "step_counts"])
    @pytest.mark.parametrize("n_hubs", [1, 30, 700])
    def test_thousands_of_prefixes_seek_in_hubs(self, n_hubs, way):
        random = np.random.default_rng(n_hubs)
        n = 10_000
        g = np.stack([np.arange(n), random.integers(0, n_hubs, n)], axis=1)
        self.check(g, random.integers(1, 9, n), random.integers(1, 300_000 // n_hubs, n_hubs), way)

    @pytest.mark.parametrize("way", ["step", "step_counts"])
    @pytest.mark.parametrize("seed", range(4))
    def test_widths_of_every_size(self, seed, way):
        random = np.random.default_rng(seed)
        widths = [(2 ** random.uniform(0, 14, n)).astype(np.int64) for n in (60, 60)]
        self.check(random.integers(0, 60, (2000, 2)), *widths, way)

    @pytest.mark.parametrize("way", ["step", "step_counts"])
    def test_a_group_of_which_few_prefixes_are_wide(self, way):
        """The wide ones stand where a regular sample would find them."""
        n, wide = 2000, 50
        s_widths = np.ones(n, np.int64)
        s_widths[:: n // 8] = wide
        g = np.stack([np.zeros(n, np.int64), np.arange(n)], axis=1)
        self.check(g, np.array([200_000]), s_widths, way)


def ragged_arange(widths):
    """0 to width - 1 for each width."""
    return np.arange(widths.sum()) - np.repeat(np.cumsum(widths) - widths, widths)


@pytest.mark.parametrize("single_tick", [False, True])
@pytest.mark.parametrize(
    "text", ["h(x, z) :- a(x, k), b(k, z), c(k, w), d(w, y).", "h(x, z) :- d(w, y), c(k, w), b(k, z), a(x, k)."]
)
def test_variables_that_the_head_drops_multiply_nothing(text, single_tick):
    """The steps that bind them come last, and are counted once for all prefixes with one key."""
    n = np.arange(6_000)
    rows = {
        "a": np.stack([n[:400], n[:400] % 20], 1), "b": np.stack([n % 20, n], 1)[:4_000],
        "c": np.stack([n % 20, n], 1), "d": np.stack([n, n + 1], 1),
    }  # fmt: skip
    program = gw.Program(text, backend="cpu", threads=1, single_tick=single_tick)
    (answer,) = (program.answer(rows) if single_tick else program.step(rows)).values()
    assert len(answer) == 80_000
    assert 15 * len(answer) > counted(program)  # 48,000,000 if each binding is listed


def test_a_hub_among_few_prefixes_is_counted_once():
    n = np.arange(6_000)
    key = np.where(n % 3 == 0, 0, n)
    rows = {"a": np.stack([n, key], 1), "b": np.stack([np.sort(key), n], 1), "c": n[::2, None]}
    program = gw.Program("h(v) :- a(v, k), b(k, w), c(w).", bag=True, backend="cpu", threads=1, single_tick=True)
    (answer,) = program.answer(rows).values()
    assert int(answer.weights.sum()) == 2_000 * 1_000 + 2_000
    assert counted(program) < 50_000  # 6,000,000 if each row of the hub counts for itself


def test_fewer_prefixes_of_one_hub_are_counted_once():
    """Some 1,800 values of b lead to one hub of 12,000 rows: too few to sort them without knowing that."""
    chance, n = np.random.default_rng(0), np.arange(12_000)
    pairs = np.unique(
        np.stack([chance.integers(0, 1_200, 12_000), np.minimum(chance.zipf(1.3, 12_000), 1_200) - 1], 1), axis=0
    )
    rows = {"e": pairs, "hub": np.stack([0 * n, n], 1), "kept": np.stack([2 * n, n % 10], 1)}
    text = "h(c, b) :- e(a, b), kept(w, x), x < 425, hub(d, w), e(a, c), e(b, d)."
    program = gw.Program(text, backend="cpu", threads=1, single_tick=True)
    (answer,) = program.answer(rows).values()
    assert len(answer) == 17_224
    assert counted(program) < 500_000  # 52,000,000 if each prefix counts the hub for itself


@pytest.mark.parametrize("atoms", [("e(a, b), e(b, c), e(a, c)", "e(a, d), e(d, f), e(a, f)"),
                                   ("e(a, d), e(d, f), e(a, f)", "e(a, b), e(b, c), e(a, c)")])  # fmt: skip
def test_a_triangle_that_is_counted_comes_last_in_every_text(atoms):
    """The triangle that the head drops is counted once for each value of a."""
    chance = np.random.default_rng(85)
    rows = {"e": np.unique(chance.integers(0, 115, (1_152, 2)), axis=0), "gone": chance.integers(0, 115, (100, 2))}
    text = f"h(d, f) :- {', '.join(atoms)}, !gone(b, a)."
    program = gw.Program(text, backend="cpu", threads=1, single_tick=True)
    program.answer(rows)
    assert counted(program) < 100_000  # 260,000 if the other one is bound first


@pytest.mark.usefixtures("large_ticks")
def test_parts_of_a_change_are_counted_once_for_each_value_that_they_read():
    """Two atoms at one vertex tell prefixes apart no further than one of them, so some 1,300 are those of 245."""
    edges = datasets.undirected(datasets.rmat(scale=8, edges=2000, seed=1))
    np.random.default_rng(1).shuffle(edges)
    text = "barbell(x, y, a, b, c, d) :- e(x, y), s(x, a), s(x, b), e(a, b), s(y, c), s(y, d), e(c, d)."
    with tune(off=frozenset({"recounts"})):
        program = gw.Program(text, backend="cpu", threads=1)
    ticks = [{"e": part, "s": np.concatenate([part, part[:, ::-1]])} for part in (edges[:-100], edges[-100:])]
    program.load(ticks[0])
    program.step_counts(ticks[1])
    assert counted(program) < 2_000_000  # 6,700,000 if each prefix counts the triangles at its vertex


@pytest.mark.parametrize("bag", [False, True])
def test_equal_prefixes_of_some_ten_values_are_counted_once(bag):
    """Prefixes that propose some ten values each are grouped as those that propose many are."""
    random = np.random.default_rng(5)
    rows = {
        "s": np.column_stack([np.arange(200), random.integers(0, 40, 200)]),
        "u": np.column_stack([np.repeat(np.arange(40), 3), random.integers(0, 40, 120)]),
        "r": np.column_stack([np.repeat(np.arange(40), 14), random.integers(0, 200, 560)]),
        "t": np.column_stack([np.repeat(np.arange(40), 14), random.integers(0, 200, 560)]),
    }
    text = "q(p) :- s(p, a), u(a, b), r(a, v), t(b, v)."
    answer, proposed, _ = answer_once(text, rows, bag=bag)
    plain = gw.Program(text, bag=bag, backend="cpu", strategy="binary")
    assert answer.rows() == plain.step(rows)["q"].rows()
    assert proposed < 4_000

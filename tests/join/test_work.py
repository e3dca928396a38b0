"""Work, not time: what the kernels count on every level, against bounds that the tests recompute without them."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict

import numpy as np
import pytest

import gpu_wcoj as gw
from cpu_fallback.scanning import SCAN_FACTOR
from gpu_wcoj.kernels.protocol import MARKS, N_WORK, PROBES, PROPOSALS, SUM_OF_MINIMA, SURVIVORS
from gpu_wcoj.trace.spine import MOST_BATCHES, RATIO
from tests.join.patterns import PATTERNS
from tests.kinds import KINDS, Kind, lacking

MARK_FACTOR = 2
"""A group of prefixes marks a range up to this many times as long as what it would propose without marks."""

WORST = SCAN_FACTOR + MARK_FACTOR + 1
"""A prefix scans SCAN_FACTOR times its smallest count, or proposes that and pays as much towards the marks of a hub."""

NAMES = ("triangle", "3-cycle", "4-clique", "4-cycle", "4-cycle once", "diamond once", "kite", "house", "2-path")


def random_edges(random, n_edges, n_nodes, power):
    """Distinct edges; the larger `power`, the more of them at few nodes."""
    edges = (n_nodes * random.random((3 * n_edges, 2)) ** power).astype(np.int64)
    edges = np.unique(edges[edges[:, 0] != edges[:, 1]], axis=0)
    return random.permutation(edges)[:n_edges]


class Levels:
    """A relation's rows by the columns that are bound: the values of one more column."""

    def __init__(self, rows):
        self.rows = rows
        self.tables = {}

    def values(self, bound, column, row):
        """The distinct values of `column` among the rows that agree with `row` on the columns `bound`."""
        if (bound, column) not in self.tables:
            table = self.tables[bound, column] = defaultdict(set)
            for own in self.rows:
                table[tuple(own[i] for i in bound)].add(own[column])
        return self.tables[bound, column].get(tuple(row[i] for i in bound), set())


COMPARE = {"<": int.__lt__, ">": int.__gt__, "!=": int.__ne__}


def holds(condition, binding):
    other = binding[condition.other] if isinstance(condition.other, str) else condition.other
    return COMPARE[condition.op](binding[condition.variable], other)


def sums_of_minima(paths, relation, before, after):
    """Per path and variable, the smallest number of values that one atom allows a prefix, summed over prefixes.

    Widths are those of stored rows: an atom that sees the change sees what it deletes, until its last variable.
    """
    change = after[relation] ^ before[relation]
    stored = {name: before[name] | after[name] for name in before}
    before, after, stored = ({name: Levels(rows) for name, rows in state.items()} for state in (before, after, stored))
    found = {}
    for number, path in enumerate(paths):
        if path.seed.key.relation != relation:
            continue
        variable_of = dict(zip(path.seed.key.order, path.seed.variables, strict=True))
        prefixes = [{variable_of[column]: value for column, value in enumerate(row)} for row in change]
        prefixes = [prefix for prefix in prefixes if all(holds(one, prefix) for one in path.seed_conditions)]
        seen = {use.atom: stored if use.atom < path.seed.atom else before for use in path.others}
        alive = {use.atom: after if use.atom < path.seed.atom else before for use in path.others}
        for use in path.others:
            if set(use.variables) <= set(path.seed.variables):
                prefixes = [one for one in prefixes if values_of(use, alive[use.atom], use.variables[-1], one)]
        found[number] = defaultdict(int)
        ways = (path, *path.variants)
        taken = [[] for _ in ways]
        for prefix in prefixes:
            first = [smallest_count(way, way.steps[0], seen, prefix) for way in ways if way.steps] or [0]
            taken[first.index(min(first))].append(prefix)
        for way, mine in zip(ways, taken, strict=True):
            walk(way, mine, seen, alive, found[number])
    return found


def smallest_count(path, step, seen, prefix):
    atoms = {use.atom: use for use in path.others}
    return min(len(values_of(atoms[atom], seen[atom], step.variable, prefix)) for atom in step.atoms)


def walk(path, prefixes, seen, alive, totals):
    """Add to `totals`, per variable, the smallest counts of what a path meets below these prefixes."""
    atoms = {use.atom: use for use in path.others}
    for step in path.steps:
        name, extended = step.variable, []
        for prefix in prefixes:
            sets = [values_of(atoms[atom], seen[atom], name, prefix) for atom in step.atoms]
            totals[name] += min(map(len, sets))
            ending = [atom for atom in step.atoms if atoms[atom].variables[-1] == name]
            sets += [values_of(atoms[atom], alive[atom], name, prefix) for atom in ending]
            longer = [{**prefix, name: value} for value in set.intersection(*sets)]
            extended += [one for one in longer if all(holds(condition, one) for condition in step.conditions)]
        prefixes = extended


def values_of(use, levels, variable, prefix):
    """The values that an atom allows a variable, given those of its variables before it in its order."""
    at = use.variables.index(variable)
    bound = use.key.order[:at]
    row = dict(zip(bound, (prefix[name] for name in use.variables[:at]), strict=True))
    found = levels[use.key.relation].values(bound, use.key.order[at], row)
    return found if variable not in prefix else found & {prefix[variable]}


def work_of(program, head="h"):
    """Per path and variable, the counters of the last tick."""
    (only,) = program.last_tick.work[head].values()
    return only


def total_work(program):
    total = np.zeros(N_WORK, np.int64)
    for rules in program.last_tick.work.values():
        for paths in rules.values():
            for variables in paths.values():
                total += sum(variables.values())
    return total


def looked_at(counted):
    return int(counted[PROPOSALS] + counted[MARKS])


def table(rows, sign=None):
    columns = {f"c{i}": column for i, column in enumerate(np.asarray(rows, np.int64).T)}
    return columns if sign is None else columns | {"weight": np.full(len(rows), sign)}


def both_ways(edges):
    edges = set(map(tuple, edges.tolist()))
    return {"e": edges, "s": edges | {(b, a) for a, b in edges}}


class TestSumOfMinima:
    """Proposals and marks of a level against the sum over prefixes of the smallest count."""

    def check(self, text, edges, n_change, factor, way, **options):
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
                n_slots = len(paths[number % len(paths)].others) * (2 + (sign < 0))
                for variable, counted in variables.items():  # changes joined with each other stand behind all paths
                    smallest = minima[number % len(paths)][variable]
                    # Within deletions the rows that go stand in one batch more, and cost up to twice the width.
                    most = factor * smallest * (2 if sign < 0 else 1)
                    place = f"{sign:+}, path {number}, {variable}: {counted.tolist()}, sum of minima {smallest}"
                    assert looked_at(counted) <= most, place
                    assert counted[PROBES] <= n_slots * looked_at(counted) + 2 * len(change), place
                    checked += smallest > 0
        assert checked >= (len(query.symmetry.taken) if stands_for_all else len(paths))

    @pytest.mark.parametrize("way", ["step", "step_counts"])
    @pytest.mark.parametrize("name", NAMES)
    def test_random_graphs(self, name, way):
        edges = random_edges(np.random.default_rng(1), 900, 80, power=1)
        self.check(PATTERNS[name], edges, 100, 1 + MARK_FACTOR, way)

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
            for variable, counted in variables.items():
                assert looked_at(counted) <= (MOST_BATCHES + 1) * (1 + MARK_FACTOR) * minima[number][variable]

    def test_ranges_as_long_as_are_ever_scanned(self):
        """Each prefix holds just SCAN_FACTOR times the values that are marked for it."""
        n, common = 40, 50
        program = gw.Program("h(a, b, c) :- g(a, b), r(a, c), s(b, c).", threads=1)
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
        program = gw.Program(PAIRS, threads=1)
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


HUB = "h(a, b, c) :- arc(a, b), arc(b, c), arc(c, a)."


def hub_graph(n):
    """arc(0, x), arc(x, 0) and arc(x, x + 1)."""
    x = np.arange(1, n + 1)
    nothing = np.zeros_like(x)
    return np.concatenate([np.stack(pair, axis=1) for pair in ((nothing, x), (x, nothing), (x, x + 1))])


class TestHubGraph:
    @pytest.mark.parametrize("way", ["step", "step_counts"])
    def test_work_is_linear_from_the_empty_state(self, way):
        totals = []
        for n in (5000, 10_000):
            program = gw.Program(HUB, threads=1)
            found = getattr(program, way)({"arc": table(hub_graph(n))})["h"]
            assert (len(found) if way == "step" else found.inserted) == 3 * (n - 1)
            totals.append(total_work(program))
            assert looked_at(totals[-1]) <= 12 * n
        assert (totals[1] <= 2.05 * totals[0]).all()

    @pytest.mark.parametrize("part", ["arc(0, x)", "arc(x, 0)", "arc(x, x + 1)"])
    def test_work_is_linear_for_each_part_that_arrives_last(self, part):
        at = ("arc(0, x)", "arc(x, 0)", "arc(x, x + 1)").index(part)
        totals = []
        for n in (5000, 10_000):
            parts = np.split(hub_graph(n), 3)
            program = gw.Program(HUB, threads=1)
            program.step({"arc": table(np.concatenate([own for i, own in enumerate(parts) if i != at]))})
            assert len(program.step({"arc": table(parts[at])})["h"]) == 3 * (n - 1)
            totals.append(total_work(program))
            assert looked_at(totals[-1]) <= 40 * n
        assert (totals[1] <= 2.05 * totals[0] + 100).all()

    def test_a_million_in_seconds_and_in_memory_linear_in_them(self):
        """Peaks of n and 2 n: what n more cost is a few hundred bytes a node, three arcs and three triangles each."""
        small, large = (peak_of(HUB_SCRIPT, n) for n in (500_000, 1_000_000))
        assert large - small < 500_000 * 1200
        assert large < 2 << 30


HUB_SCRIPT = """
import sys
import gpu_wcoj as gw
from bench.suite.memory import peak_bytes
from tests.join.test_work import HUB, hub_graph, table
n = int(sys.argv[1])
changes = gw.Program(HUB, threads=1).step({"arc": table(hub_graph(n))})
assert len(changes["h"]) == 3 * (n - 1)
print(peak_bytes())
"""


def peak_of(script, *arguments):
    """What `script` prints last, run in a process of its own: its peak memory in bytes."""
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[-1])


class TestHighDegree:
    """A node of high degree, its neighbours of degree 10 at most, arrives in one tick."""

    def graph(self, degree, hub):
        random = np.random.default_rng(7)
        nodes = np.arange(degree)
        edges = np.concatenate([np.stack([nodes, random.permutation(nodes)], axis=1) for _ in range(4)])
        edges = np.unique(np.sort(edges[edges[:, 0] != edges[:, 1]], axis=1), axis=0)
        arriving = np.sort(np.stack([np.full(degree, hub), nodes], axis=1), axis=1)
        return edges, arriving

    @pytest.mark.parametrize("way", ["step", "step_counts"])
    @pytest.mark.parametrize("hub", ["first", "last"])
    @pytest.mark.parametrize("name", ["triangle", "3-cycle", "4-clique", "diamond once"])
    def test_work_is_linear_in_its_degree(self, name, hub, way):
        totals = []
        for degree in (6500, 13_000):
            edges, arriving = self.graph(degree, -1 if hub == "first" else degree)
            program = gw.Program(PATTERNS[name], threads=1, outputs=["h"])
            program.step_counts({"e": table(edges)})
            found = getattr(program, way)({"e": table(arriving)})["h"]
            assert (len(found) if way == "step" else found.inserted) > 0 or name == "3-cycle"
            totals.append(total_work(program))
            assert looked_at(totals[-1]) <= 200 * degree
        assert looked_at(totals[1]) <= 2.1 * looked_at(totals[0])
        assert totals[1][PROBES] <= 2.1 * totals[0][PROBES]


class TestGrowingState:
    @pytest.mark.parametrize("name", ["triangle", "4-clique", "4-cycle", "diamond once"])
    def test_a_fixed_change_probes_as_before_while_the_state_grows_away_from_it(self, name):
        random = np.random.default_rng(8)
        near = random_edges(random, 600, 60, power=1)
        totals = []
        for n_far in (0, 1000, 10_000, 100_000):
            program = gw.Program(PATTERNS[name], threads=1, outputs=["h"])
            far = 1000 + random_edges(random, n_far, 10 + n_far // 4, power=1)
            for part in np.array_split(np.concatenate([near[50:], far]), 10):
                program.step_counts({"e": table(part)})
            program.step({"e": table(near[:50])})
            totals.append(total_work(program))
        for n_far, total in zip((1000, 10_000, 100_000), totals[1:], strict=True):
            assert (total[[PROPOSALS, PROBES, MARKS]] <= totals[0][[PROPOSALS, PROBES, MARKS]] * np.log2(n_far)).all()
            assert looked_at(total) <= 1.5 * looked_at(totals[0])

    def test_merging_is_counted_apart_and_amortised(self):
        """With log(ticks) / log(RATIO) tiers, a row that is merged into one pays for RATIO rows of it at most."""
        edges = random_edges(np.random.default_rng(9), 40_000, 5000, power=1)
        for n_ticks in (50, 500, 4000):
            program = gw.Program("h(a, b) :- e(a, b), e(b, a).", threads=1)
            merged = 0
            for part in np.split(edges[: 10 * n_ticks], n_ticks):
                program.step_counts({"e": table(part)})
                merged += program.last_tick.merged_rows
            tiers = int(np.ceil(np.log(n_ticks) / np.log(RATIO)))
            assert 10 * n_ticks < merged <= 10 * n_ticks * tiers * (RATIO + 2) * len(program.state_rows)


class TestDeadRows:
    @pytest.mark.parametrize("n_ticks", [1, 100])
    @pytest.mark.parametrize("n_far", [0, 200_000])
    def test_a_hub_that_was_deleted_is_not_probed_again_and_again(self, n_far, n_ticks):
        n = 10_000
        x = np.arange(1, n + 1)
        hub = np.concatenate([np.stack([0 * x, x], axis=1), np.stack([x, 0 * x], axis=1)])
        far = 10 * n + random_edges(np.random.default_rng(10), n_far, 50_000, power=1)
        program = gw.Program(HUB, threads=1)
        program.step_counts({"arc": table(np.concatenate([hub, far]))})
        for part in np.array_split(np.random.default_rng(1).permutation(hub), n_ticks):
            program.step_counts({"arc": table(part, -1)})
        for tick in range(5):
            program.step_counts({"arc": [(0, 1 + tick), (1 + tick, 50_000 + tick)]})
            assert total_work(program)[:SURVIVORS].max() < 1000


class TestSmallestTakesPart:
    def test_an_atom_whose_last_variable_is_bound_alone(self):
        program = gw.Program("h(a, c) :- v(a), s(a, c), u(c).", threads=1)
        program.step({"s": [(0, c) for c in range(1000)] + [(1, c) for c in range(2)], "u": [(1,), (5,), (2000,)]})
        assert program.step({"v": [(0,)]})["h"].rows() == [((0, 1), 1), ((0, 5), 1)]
        assert work_of(program)[0]["c"].tolist()[:PROBES] == [3, 3]
        assert program.step({"v": [(1,)]})["h"].rows() == [((1, 1), 1)]
        assert work_of(program)[0]["c"].tolist()[:PROBES] == [2, 2]

    def test_an_atom_takes_part_while_only_its_first_variable_is_bound(self):
        program = gw.Program("h(a, c, d) :- v(a), s(a, c), r(c, d).", threads=1, order={"h": ["c", "d"]})
        program.step({"s": [(0, c) for c in range(1000)], "r": [(7, 1), (8, 1), (2000, 1)]})
        assert program.step({"v": [(0,)]})["h"].rows() == [((0, 7, 1), 1), ((0, 8, 1), 1)]
        counted = work_of(program)[0]
        assert counted["c"].tolist() == [3, 3, 3, 0, 2]
        assert counted["d"].tolist()[:PROBES] == [2, 2]

    @pytest.mark.parametrize("way", ["step", "step_counts"])
    def test_a_cross_product_looks_at_its_rows_once(self, way):
        program = gw.Program("h(a, b) :- v(a), w(b).", threads=1)
        program.step({"w": [(b,) for b in range(1000)]})
        found = getattr(program, way)({"v": [(a,) for a in range(100)]})["h"]
        assert (len(found) if way == "step" else found.inserted) == 100_000
        counted = work_of(program)[0]["b"]
        assert looked_at(counted) <= (100_000 if way == "step" else 0) + 5000
        assert counted[SURVIVORS] == 100_000

    def test_a_prefix_that_some_atom_cannot_extend_is_dropped_by_count_alone(self):
        program = gw.Program("h(a, c) :- v(a), s(a, c), t(a, c).", threads=1)
        program.step({"s": [(a, c) for a in range(10) for c in range(100)], "t": [(3, 7)]})
        assert program.step({"v": [(a,) for a in range(10)]})["h"].rows() == [((3, 7), 1)]
        assert looked_at(work_of(program)[0]["c"]) <= 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_lookup_is_one_search_whether_it_finds_or_not(kind):
    """Counting and listing; it proposes nothing."""
    if reason := lacking(kind):
        pytest.skip(reason)
    program = gw.Program("h(a, b, c) :- r(a, b), s(b, c), t(a, c).", strategy="binary", backend=Kind(kind).backend())
    program.step({"s": [(b, c) for b in range(8) for c in range(8)], "t": [(a, 2 * a) for a in range(100)]})
    rows = [(a, b) for a in range(10) for b in range(8)]
    for ask in (program.step, program.step_counts):
        ask({"r": rows})
        ((path, steps),) = ((number, steps) for number, steps in work_of(program).items() if len(steps) > 1)
        (lookup,) = (counted for name, counted in steps.items() if "@" in name)
        assert path == 0
        assert lookup[[SUM_OF_MINIMA, PROPOSALS, PROBES, SURVIVORS]].tolist() == [0, 0, 640, 32]
        program.step({"r": [(row, -1) for row in rows]})

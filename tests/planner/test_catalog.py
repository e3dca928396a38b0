"""Statistics: exact where counted, close where sampled, within bounds in between."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict

import numpy as np
import pytest

from gpu_wcoj import Program
from gpu_wcoj.backend import select_backend
from gpu_wcoj.circuit.circuit import InputChange
from gpu_wcoj.errors import SchemaError
from gpu_wcoj.planner.body import BodyAtom
from gpu_wcoj.planner.catalog import FILE, Catalog
from gpu_wcoj.planner.statistics import EXACT_ROWS, Facts, sample_statistics
from tests.helpers.kernel_kinds import KINDS, needed

CPU = select_backend("cpu")


@pytest.fixture(params=KINDS)
def backend(request):
    return needed(request.param).backend()


def counted(rows, columns):
    """Distinct values of some columns."""
    return len({tuple(row[i] for i in columns) for row in rows})


def met(rows, columns, other):
    """Values of another column beside those of some, met through them."""
    beside = defaultdict(set)
    for row in rows:
        beside[tuple(row[i] for i in columns)].add(row[other])
    return sum(len(one) ** 2 for one in beside.values()) / sum(map(len, beside.values()))


def distinct_of(columns):
    """Distinct values and degrees of a pair of columns, by NumPy."""
    pairs = np.unique(np.stack(columns, axis=1), axis=0)
    degrees = [np.unique(pairs[:, i], return_counts=True)[1] for i in (0, 1)]
    return len(pairs), [len(one) for one in degrees], [(one**2).sum() / one.sum() for one in degrees]


def rmat(random, n, scale):
    """Edges of a graph with few vertices of many."""
    edges = np.zeros((2, n), np.int64)
    for _ in range(scale):
        quarter = random.choice(4, n, p=[0.57, 0.19, 0.19, 0.05])
        edges = 2 * edges + np.stack([quarter >> 1, quarter & 1])
    return edges


def skewed(kind, seed, n=150_000):
    """Columns of rows, some of them equal."""
    random = np.random.default_rng(seed)
    if kind == "uniform":
        return random.integers(-40_000, 40_000, n), random.integers(0, 20_000, n) << 40
    if kind == "hub":
        return np.where(random.random(n) < 0.5, 7, random.integers(0, n, n)), random.integers(0, n, n)
    if kind == "few":
        return random.integers(0, 100, n), random.integers(0, 3000, n)
    if kind == "key":
        return random.permutation(n), np.arange(n) // 5
    if kind == "floats":
        return random.integers(0, 5000, n).astype(np.float64).view(np.int64), random.integers(0, 5000, n)
    return tuple(rmat(random, n, 16))


@pytest.mark.parametrize("seed", range(3))
def test_few_rows_are_counted_exactly(backend, seed):
    random = np.random.default_rng(seed)
    columns = [random.integers(-4, 5 + 3 * i, 200) for i in range(3)]
    weights = random.integers(-1, 3, 200)
    found = sample_statistics([backend.asarray(one) for one in columns], weights, backend)
    rows = {
        row for row, weight in zip(zip(*(c.tolist() for c in columns), strict=True), weights, strict=True) if weight > 0
    }
    assert found.rows == len(rows)
    for size in (1, 2, 3):
        for chosen in itertools.combinations(range(3), size):
            assert found.values(chosen) == counted(rows, chosen)
    for one, other in itertools.permutations(range(3), 2):
        assert found.below([one], other) == pytest.approx(met(rows, [one], other))


@pytest.mark.drawn("seed")
@pytest.mark.parametrize("kind", ["uniform", "hub", "few", "key", "floats", "rmat"])
@pytest.mark.parametrize("seed", range(2))
def test_many_rows_are_estimated_closely(kind, seed):
    columns = skewed(kind, seed)
    assert len(columns[0]) > EXACT_ROWS
    rows, distinct, degrees = distinct_of(columns)
    found = sample_statistics(columns, None, CPU)
    assert found.rows == pytest.approx(rows, rel=0.1)
    for column in (0, 1):
        assert found.values([column]) == pytest.approx(distinct[column], rel=0.2)
        assert degrees[column] / 1.6 <= found.below([column], 1 - column) <= degrees[column] * 1.6


def test_a_device_samples_as_the_host_does(backend):
    columns = skewed("rmat", 5, 70_000)
    weights = np.where(np.arange(70_000) % 3, 1, -1)
    host = sample_statistics(columns, weights, CPU)
    there = sample_statistics([backend.asarray(one) for one in columns], backend.asarray(weights), backend)
    assert (there.rows, there.distinct, there.met) == (host.rows, host.distinct, host.met)
    for mixed in (weights, backend.asarray(weights)):  # rows that are on the host stay there
        found = sample_statistics(columns, mixed, backend)
        assert (found.rows, found.distinct, found.met) == (host.rows, host.distinct, host.met)


def test_wide_rows_with_dependent_columns():
    random = np.random.default_rng(3)
    n = 200_000
    key = random.permutation(n)
    city = random.integers(0, 2000, n)
    columns = [key, city, city // 100, random.integers(0, 50, n), np.zeros(n, np.int64)]
    found = sample_statistics(columns, None, CPU)
    assert found.rows == pytest.approx(n)
    assert found.values([1, 2]) == pytest.approx(2000, rel=0.2)
    assert found.values([2]) == pytest.approx(20)
    assert found.values([1, 3]) == pytest.approx(86_000, rel=0.25)
    assert found.below([2], 1) == pytest.approx(100, rel=0.3)
    assert found.below([0], 3) == 1
    assert found.values([4]) == 1
    assert found.values([0, 1, 2]) == pytest.approx(n, rel=0.1)


def test_levels_follow_any_order():
    random = np.random.default_rng(11)
    rows = np.unique(random.integers(0, [30, 40, 5], (3000, 3)), axis=0)
    known = Catalog.of_rows({"r": InputChange(list(rows.T), None, True)}, CPU)
    atom = BodyAtom("r", (2, 0, 1), ("z", "x", "y"))
    for order in itertools.permutations("xyz"):
        found = known.levels(atom, order)
        assert found is not None
        columns = ["xyz".index(name) for name in order]
        expected = [counted(rows.tolist(), columns[:depth]) for depth in (1, 2, 3)]
        assert found.variables == order
        assert found.distinct == pytest.approx(expected)
        assert list(found.distinct) == sorted(found.distinct)
        assert found.met[0] == pytest.approx(met(rows.tolist(), columns[:1], columns[1]))
        assert found.met[1] == pytest.approx(met(rows.tolist(), columns[:2], columns[2]), rel=0.4)
    assert known.levels(BodyAtom("s", (0,), ("x",)), "x") is None
    assert known.rows("s") is None
    assert known.values(BodyAtom("s", (0,), ("x",)), "x") is None


def test_selections_scale_what_is_known():
    random = np.random.default_rng(2)
    n = 100_000
    kind = np.where(random.random(n) < 0.6, 1, random.integers(2, 2000, n))
    left, right = random.integers(0, 1000, n), random.integers(0, 1000, n)
    known = Catalog.of_rows({"r": InputChange([left, right, kind], None, True)}, CPU)

    def levels(**selection):
        found = known.levels(BodyAtom("r", (0, 1), ("a", "b"), **selection), ["a", "b"])
        assert found is not None
        return found

    frequent = levels(constants=((2, 1),))
    assert frequent.distinct == pytest.approx((1000, 60_000), rel=0.1)
    assert frequent.met[0] == pytest.approx(60, rel=0.2)
    rare = levels(constants=((2, 77),))
    assert 1 <= rare.distinct[1] <= 100
    assert levels(compared=((0, "<", None, 250),)).distinct[1] == pytest.approx(25_000, rel=0.2)
    assert levels(compared=((0, "<", 1, None),)).distinct[1] == pytest.approx(50_000, rel=0.2)
    loops = known.levels(BodyAtom("r", (0, 2), ("a", "k"), equal=((0, 1),)), ["a", "k"])
    assert loops is not None
    assert loops.distinct[1] < 2000


def test_few_rows_are_selected_exactly():
    columns = [np.array([1, 1, 2, 3]), np.array([1, 5, 2, 9])]
    known = Catalog.of_rows({"r": InputChange(columns, None, True)}, CPU)
    for selection, rows in (({"constants": ((0, 1),)}, 2), ({"constants": ((0, 8),)}, 0), ({"equal": ((0, 1),)}, 2)):
        atom = BodyAtom("r", (1,) if "constants" in selection else (0,), ("x",), **selection)
        found = known.levels(atom, ["x"])
        assert found is not None
        assert found.distinct == (rows,)


@pytest.mark.parametrize("bag", [False, True])
def test_a_circuit_tells_its_state(backend, bag):
    """Exact where an arrangement holds the order, whatever was deleted; kept heads and loops as well as inputs."""
    random = np.random.default_rng(4)
    text = "tri(a, b, c) :- e(a, b), e(b, c), e(a, c). one(b) :- e(1, b), f(b)."
    if not bag:
        text += "far(a, b) :- e(a, b). far(a, c) :- far(a, b), e(b, c). two(b, c) :- far(b, c), f(b)."
    program = Program(text, keep=["tri"] if bag else ["tri", "far"], bag=bag, backend=backend)
    rows: set[tuple[int, int]] = set()
    for _ in range(4):
        new = {tuple(row) for row in random.integers(0, 25, (60, 2)).tolist()} - rows
        gone = set(sorted(rows)[::3])
        program.step({"e": [(row, 1) for row in sorted(new)] + [(row, -1) for row in gone], "f": [(1,), (2,)]})
        rows = (rows | new) - gone
    sides = program._ledger.settle()
    assert sides is not None
    known = Catalog.of_circuit(sides.ahead.circuit)
    atom = BodyAtom("e", (0, 1), ("a", "b"))
    for order in ("ab", "ba"):
        columns = ["ab".index(name) for name in order]
        found = known.levels(atom, order)
        assert found is not None
        assert found.distinct == (counted(rows, columns[:1]), len(rows))
        assert found.met == pytest.approx((met(rows, columns[:1], columns[1]),))
    selected = known.levels(BodyAtom("e", (1,), ("b",), constants=((0, 1),)), "b")
    assert selected is not None
    assert selected.distinct == (sum(row[0] == 1 for row in rows),)
    assert known.rows("tri") == len(program.relation("tri"))
    triangles = program.relation("tri").to_pandas()
    if len(triangles):
        kept = known.levels(BodyAtom("tri", (0, 1, 2), ("a", "b", "c")), "cab")
        assert kept is not None
        assert kept.distinct[0] == pytest.approx(triangles["c"].nunique())
    if not bag:
        assert known.rows("far") == len(program.relation("far"))
        far = known.levels(BodyAtom("far", (0, 1), ("x", "y")), "yx")
        assert far is not None
        assert far.distinct == (len({row[1] for row, _ in program.relation("far").rows()}), known.rows("far"))


def test_json_keeps_what_is_known_of_whole_relations(tmp_path):
    random = np.random.default_rng(9)
    rows = random.integers(0, 50, (3, 2000))
    known = Catalog.of_rows({"r": InputChange(list(rows), None, True)}, CPU)
    path = known.write(tmp_path / "new")
    assert path.name == FILE
    again = Catalog.read(tmp_path / "new")
    atom = BodyAtom("r", (0, 1, 2), ("a", "b", "c"))
    assert list(again) == ["r"]
    for order in itertools.permutations("abc"):
        assert again.levels(atom, order) == known.levels(atom, order)
    assert [one.name for one in (tmp_path / "new").iterdir()] == [FILE]


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"format": 2, "relations": {}}', '{"format": 1, "relations": {"r": {"rows": "many"}}}',
     '{"format": 1, "relations": {"r": {"rows": -1, "distinct": [], "met": []}}}',
     '{"format": 1, "relations": {"r": {"rows": 1, "distinct": [[[0], NaN]], "met": []}}}', "[" * 100_000],
)  # fmt: skip
def test_what_is_no_statistics_is_refused(tmp_path, text):
    (tmp_path / FILE).write_text(text, encoding="utf-8")
    with pytest.raises(SchemaError, match="cannot be read"):
        Catalog.read(tmp_path)


def test_no_file_of_statistics(tmp_path):
    with pytest.raises(SchemaError, match=FILE):
        Catalog.read(tmp_path)


def test_sizes_alone_say_little():
    known = Catalog.from_sizes({"r": 400})
    found = known.levels(BodyAtom("r", (0, 1), ("a", "b")), "ba")
    assert found is not None
    assert (found.distinct, found.met) == ((20, 400), (20,))
    assert json.loads(json.dumps(known.to_json()))["relations"]["r"]["rows"] == 400


def test_estimates_lie_between_what_is_counted():
    facts = Facts(1000.0, {(0,): 10.0, (1,): 20.0, (0, 1): 30.0, (2,): 500.0, (0, 2): 600.0})
    assert facts.values([0, 1, 2]) >= 600
    assert facts.values([1, 2]) <= 1000
    assert facts.below([0, 1], 2) >= facts.values([0, 1, 2]) / 30
    assert Facts(0.0).values([0]) == 1.0

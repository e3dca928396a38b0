"""Bounds of joins, of LSQB's queries and of random joins; acyclicity; expected rows."""

from __future__ import annotations

import csv
import io
import math
import random
import subprocess
import sys
import tarfile
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpu_wcoj as gw
from bench.suite.hypergraph import is_acyclic, reduce
from gpu_wcoj.errors import BackendUnavailableError, UsageError
from gpu_wcoj.planner.body import Shape, normalise
from gpu_wcoj.planner.cost import Size, bound, foreseen
from gpu_wcoj.planner.ir import Levels
from gpu_wcoj.planner.lower import delta_query
from gpu_wcoj.query.datalog import parse

N = 10_000.0


def equal(atoms, rows=N):
    return [Size(tuple(atom), rows) for atom in atoms]


def cycle(n):
    return [(f"v{i}", f"v{(i + 1) % n}") for i in range(n)]


KNOWN = {
    "triangle": (["ab", "bc", "ca"], 1.5),
    "4-cycle": (cycle(4), 2),
    "5-cycle": (cycle(5), 2.5),
    "4-clique": (list(combinations("abcd", 2)), 2),
    "5-clique": (list(combinations("abcde", 2)), 2.5),
    "diamond": (["ab", "bc", "ca", "bd", "cd"], 2),
    "path of 3": (["ab", "bc", "cd"], 2),
    "path of 4": (["ab", "bc", "cd", "de"], 3),
    "star of 3": (["xa", "xb", "xc"], 3),
    "three of four columns each": (["abc", "abd", "acd", "bcd"], 4 / 3),
    "triangle with its own atom": (["ab", "bc", "ca", "abc"], 1),
    "two apart": (["ab", "cd"], 2),
}


@pytest.mark.parametrize("name", KNOWN)
def test_atoms_of_one_size(name):
    atoms, power = KNOWN[name]
    found = bound(equal(atoms))
    assert found.rows == pytest.approx(N**power)
    assert all(
        sum(weight for weight, atom in zip(found.cover, atoms, strict=True) if name in atom) >= 1
        for name in {name for atom in atoms for name in atom}
    )


@pytest.mark.parametrize("sizes", [(10, 10, 10), (10, 1000, 10_000), (5, 5, 1e9), (1, 1e6, 1e6), (1, 1, 1)])
def test_triangle_of_three_sizes(sizes):
    a, b, c = sizes
    found = bound([Size(("a", "b"), a), Size(("b", "c"), b), Size(("c", "a"), c)])
    assert found.rows == pytest.approx(min(math.sqrt(a * b * c), a * b, b * c, c * a))


def test_levels_of_a_change():
    """One new edge: never more triangles than the other side has edges; with degrees, no more than these."""
    query = "t(a, b, c) :- e(a, b), e(b, c), e(a, c)."
    rule = parse(query).rules[0]
    shapes = {"e": Shape("e", (False, False)), "t": Shape("t", (False,) * 3)}
    path = delta_query(normalise(rule, shapes, {}, lambda relation, column, value: 0)).paths[0]
    sizes = [Size(path.seed.variables, 1), *(Size(use.variables, 1e6) for use in path.other_atoms)]
    degrees = [Size(use.variables, 500, use.variables[:1]) for use in path.other_atoms]
    for known, wanted in ((sizes, [1, 1, 1000_000]), ([*sizes, *degrees], [1, 1, 500])):
        assert [round(bound(known, path.order[:depth]).rows) for depth in (1, 2, 3)] == wanted


def test_a_degree_counts_only_behind_what_it_is_given():
    sizes = [Size(("a",), 10), Size(("a", "b"), 1e6), Size(("a", "b"), 2, given=("a",))]
    assert bound(sizes, "ab").rows == pytest.approx(20)
    assert bound(sizes, "ba").rows == pytest.approx(1e6)
    assert bound(sizes, "b").rows == pytest.approx(1e6)


def test_without_bound_and_without_rows():
    assert bound(equal(["ab"]), "abc").rows == math.inf
    assert bound([Size(("a", "b"), 0), Size(("b", "c"), 10)]).rows == 0
    assert bound([], "").rows == 1
    assert bound(equal(["ab"]), "").rows == 1


@pytest.mark.parametrize("rows", [-1, math.nan])
def test_a_size_that_is_none_is_refused(rows):
    with pytest.raises(UsageError, match="the size of a b : .* is invalid: got .* rows"):
        bound([Size(("a", "b"), rows)])


def test_without_scipy_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with pytest.raises(BackendUnavailableError, match=r"pip install 'gpu_wcoj\[bounds\]'"):
        bound(equal(["ab", "bc"], 12_345.0))


def test_scipy_is_loaded_only_when_a_bound_is_asked_for():
    code = "import gpu_wcoj.planner.cost, sys; print('scipy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def random_query(random):
    names = "abcde"[: random.randint(1, 5)]
    atoms = [tuple(random.sample(names, random.randint(1, min(3, len(names))))) for _ in range(random.randint(1, 5))]
    return atoms, [{tuple(random.choices(range(3), k=len(a))) for _ in range(random.randint(1, 9))} for a in atoms]


@given(st.integers(0, 2**32))
def test_never_fewer_than_a_join_has(seed):
    """Prefix by prefix, in any order, with and without degrees."""
    chance = random.Random(seed)
    atoms, relations = random_query(chance)
    names = sorted({name for atom in atoms for name in atom})
    order = chance.sample(names, len(names))
    sizes = [Size(atom, len(rows)) for atom, rows in zip(atoms, relations, strict=True)]
    for atom, rows in zip(atoms, relations, strict=True):
        kept = chance.sample(range(len(atom)), chance.randint(0, len(atom)))
        most = max(Counter(tuple(row[i] for i in kept) for row in rows).values())
        sizes.append(Size(atom, most, tuple(atom[i] for i in kept)))
    bindings = [{}]
    for atom, rows in zip(atoms, relations, strict=True):
        merged = ((b, dict(zip(atom, row, strict=True))) for b in bindings for row in rows)
        bindings = [one | other for one, other in merged if all(one.get(k, v) == v for k, v in other.items())]
    for depth in range(1, len(order) + 1):
        found = bound(sizes, order[:depth])
        assert len({tuple(b[name] for name in order[:depth]) for b in bindings}) <= found.rows * (1 + 1e-9)


LSQB = {
    "q1": ["country city", "city person", "forum person", "forum post", "comment post", "comment tag", "tag class"],
    "q2": ["p1 p2", "comment p1", "comment post", "post p2"],
    "q3": ["p1 p2", "p2 p3", "p1 p3", "p1 c1", "p2 c2", "p3 c3", "c1 country", "c2 country", "c3 country"],
    "q4": ["message tag", "message creator", "message comment", "message liker"],
    "q5": ["message tag1", "comment message", "comment tag2"],
    "q6": ["p1 p2", "p2 p3", "p3 tag"],
}
POWER = {"q1": 4, "q2": 2, "q3": 3.5, "q4": 4, "q5": 2, "q6": 2}
"""Of a size that all relations have. In q3, an atom covers two of the seven variables."""


@pytest.mark.parametrize("name", LSQB)
def test_shapes_of_lsqb(name):
    atoms = [tuple(atom.split()) for atom in LSQB[name]]
    assert is_acyclic(atoms) == (name not in ("q2", "q3"))
    found = bound(equal(atoms, 100.0))
    assert math.log(found.rows, 100) == pytest.approx(POWER[name])


def test_keys_bring_a_bound_down():
    """In q3, a person has one city, and a city one country: what is left is the triangle."""
    sizes = equal([tuple(atom.split()) for atom in LSQB["q3"]], 100.0)
    order = ["p1", "p2", "p3", "c1", "c2", "c3", "country"]
    keys = [Size(size.variables, 1, size.variables[:1]) for size in sizes[3:]]
    assert bound([*sizes, *keys], order).rows == pytest.approx(1000)


FILES = {
    "q2": ["Person_knows_Person", "Comment_hasCreator_Person", "Comment_replyOf_Post", "Post_hasCreator_Person"],
    "q6": ["Person_knows_Person", "Person_knows_Person", "Person_hasInterest_Tag"],
}
ANSWERS = {"q2": 6, "q6": 8}


@pytest.mark.parametrize("name", FILES)
def test_answers_of_lsqb_are_within_the_bound(name, shared_data):
    rows = {}
    with tarfile.open(shared_data / "lsqb" / "sfexample.tar.gz") as archive:
        for member in archive:
            if member.isfile() and member.name.endswith(".csv"):
                text = io.TextIOWrapper(archive.extractfile(member), "utf-8")
                rows[member.name.rpartition("/")[2].removesuffix(".csv")] = sum(1 for _ in csv.reader(text)) - 1
    sizes = [
        Size(tuple(atom.split()), rows[file] * (2 if "knows" in file else 1))
        for atom, file in zip(LSQB[name], FILES[name], strict=True)
    ]
    assert ANSWERS[name] <= bound(sizes).rows < math.prod(size.rows for size in sizes)


def brute_acyclic(atoms):
    """Return True if some order of the atoms has the running intersection property."""
    for order in permutations(range(len(atoms))):
        for place, one in enumerate(order):
            before = [atoms[other] for other in order[:place]]
            shared = atoms[one] & frozenset().union(*before)
            if before and not any(shared <= other for other in before):
                break
        else:
            return True
    return False


@given(st.lists(st.frozensets(st.sampled_from("abcde"), min_size=1, max_size=3), min_size=1, max_size=5))
def test_acyclic_is_what_has_a_join_forest(atoms):
    assert is_acyclic(atoms) == brute_acyclic(atoms)


def test_join_forest():
    assert reduce(["xa", "xb", "xc"]).ears == ((0, 1), (1, 2), (2, None))
    assert reduce(["ab", "cd"]) == reduce(["ab", "cd"])
    assert reduce(["ab", "cd"]).ears == ((0, None), (1, None))
    assert reduce(["ab", "bc", "ca", "cd", "de"]).core == (0, 1, 2)


def skewed_graph(n_vertices, n_edges, skew, seed):
    chance = random.Random(seed)
    weights = [1 / (i + 1) ** skew for i in range(n_vertices)]
    pairs = zip(*(chance.choices(range(n_vertices), weights, k=n_edges) for _ in range(2)), strict=True)
    return sorted({(a, b) for a, b in pairs if a != b})


@dataclass
class Told:
    """One relation of two columns, known by what a test says of it."""

    distinct: tuple[float, float]
    vertices: float
    met: tuple[float, ...] = ()

    def rows(self, relation):
        return self.distinct[1]

    def prefixes(self, atom, variables):
        return self.distinct[len(variables) - 1]

    def degree(self, atom, bound, variable):
        return Levels((*bound, variable), self.distinct, self.met).degree(len(bound))

    def spread(self, atom, bound, variable):
        return 0.0

    def values(self, atom, variable):
        return self.vertices

    def sample(self, atom, variables):
        return None


def expected(text, known):
    """Return the estimates of the first path of a rule, for one changed row."""
    rule = parse(text).rules[0]
    shapes = {name: Shape(name, (False,) * arity) for name, arity in parse(text).arity.items()}
    body = normalise(rule, shapes, {}, lambda relation, column, value: 0)
    return foreseen(delta_query(body).paths[0], known).levels


@pytest.mark.parametrize("skew", [0, 0.8])
def test_expected_rows_are_near_those_of_a_graph(skew):
    """Two-step paths of the rows of a graph: on a skewed one, only the degree of values met through rows tells."""
    edges = skewed_graph(500, 5000, skew, 1)
    out = Counter(a for a, _ in edges)
    into = Counter(b for _, b in edges)
    paths = sum(out[b] for _, b in edges)
    distinct = (float(len(out)), float(len(edges)))
    met = (sum(into[v] * out[v] for v in into) / len(edges),)
    mean = expected("h(a, b, c) :- e(a, b), e(b, c).", Told(distinct, len(out)))
    skewed = expected("h(a, b, c) :- e(a, b), e(b, c).", Told(distinct, len(out), met))
    assert skewed[-1].rows * len(edges) == pytest.approx(paths, rel=0.01)
    assert (mean[-1].rows * len(edges) < paths / 2) == bool(skew)


def test_expected_triangles_of_a_uniform_graph():
    edges = skewed_graph(300, 6000, 0, 2)
    vertices = float(len({a for a, _ in edges}))
    levels = expected("t(a, b, c) :- e(a, b), e(b, c), e(a, c).", Told((vertices, float(len(edges))), vertices))
    triangles = gw.query("t(a, b, c) :- e(a, b), e(b, c), e(a, c).", e=edges)
    assert levels[-1].rows * len(edges) == pytest.approx(len(triangles), rel=0.15)
    assert levels[-1].proposed == pytest.approx(len(edges) / vertices)


def test_cover_is_shown_in_fractions():
    assert bound(equal(["ab", "bc", "ca"], 3.0)).cover == (Fraction(1, 2),) * 3

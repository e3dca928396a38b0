"""Matches against their definition, and the finders of networkx."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import UsageError
from tests.helpers.long_tests import IS_LONG
from tests.helpers.motif_graphs import MOTIFS, counted, edges, graph, table, vertices
from tests.reference.motifs import matches

EDGES_OF_N = pa.schema([("src", pa.int64()), ("dst", pa.int64()), ("n", pa.int64())])
SEMANTICS = ("homomorphism", "edges-distinct", "nodes-distinct")
N_GRAPHS = 40 if IS_LONG else 1


@pytest.mark.parametrize("motif", MOTIFS)
def test_every_form_by_its_definition(motif: str):
    for seed in range(N_GRAPHS):
        chance = random.Random(f"{motif}{seed}")
        nodes, lines = graph(chance)
        for semantics in SEMANTICS:
            has_vertices = chance.random() < 0.7
            given = vertices(nodes) if has_vertices else None
            found = gw.find(motif, vertices=given, edges=edges(lines), semantics=semantics)
            want = counted(matches(motif, nodes if has_vertices else None, lines, semantics))
            assert counted(found.to_arrow().to_pylist()) == want
            assert len(found) == want.total()


def test_parallel_edges_are_edges_of_their_own():
    lines = [{"src": 1, "dst": 2, "n": 5}, {"src": 1, "dst": 2, "n": 5}, {"src": 1, "dst": 2, "n": 7}]
    two = gw.find("(a)-[e]->(b); (a)-[f]->(b)", edges=table(lines, EDGES_OF_N), columns=["e.n", "f.n"])
    assert two.rows(weights=True) == [((5, 5), 4), ((5, 7), 2), ((7, 5), 2), ((7, 7), 1)]
    for semantics in ("edges-distinct", "nodes-distinct"):
        two = gw.find(
            "(a)-[e]->(b); (a)-[f]->(b)", edges=table(lines, EDGES_OF_N), columns=["e.n", "f.n"], semantics=semantics
        )
        assert two.rows(weights=True) == [((5, 5), 2), ((5, 7), 2), ((7, 5), 2)]
    assert (
        gw.find("(a)-[]->(b)", edges=table(lines, EDGES_OF_N)).to_arrow().to_pylist()
        == [{"a": {"id": 1}, "b": {"id": 2}}] * 3
    )


LOOPS = {"src": [1, 1, 1, 2], "dst": [1, 1, 2, 2], "n": [5, 6, 7, 8]}
"""Two loops at 1, one at 2, and an edge between."""

UNDIRECTED_AT_LOOPS = {
    # what GraphFrames gives; what Cypher does; what networkx does, where vertices of two names are two
    "(a)-[e]-(b)": (8, 5, 2),
    "()-[e]-()": (8, 5, 2),
    "(a)-[e]-(a)": (6, 3, 3),
    "(a)-[*1]-(b)": (8, 5, 2),
    "(a)-[*1]-(a)": (6, 3, 3),
    "(a)-[*2]-(b)": (16, 8, 0),  # loops at 1 in either order; 1-1-2 by either loop and 1-2-2, there and back
    "(a)-[e*1..2]-(b)": (24, 13, 2),
    "(a)-[e]-(b); (b)-[f]->(c)": (18, 7, 0),
    "(a)-[e]-(b); (b)-[f]-(c)": (34, 8, 0),
    "(a)-[e]-(b); (b)-[e]-(a)": (14, 5, 2),
}


@pytest.mark.parametrize("motif", UNDIRECTED_AT_LOOPS)
def test_an_undirected_edge_at_a_loop_is_one_match_unless_nothing_has_to_differ(motif: str):
    """The openCypher TCK (Match3) and SQL/PGQ count a loop once, GraphFrames unites the two directions."""
    for semantics, count in zip(SEMANTICS, UNDIRECTED_AT_LOOPS[motif], strict=True):
        assert len(gw.find(motif, edges=LOOPS, semantics=semantics)) == count, semantics
        matcher = gw.Matcher(motif, edges={"src": [0], "dst": [9], "n": [0]}, semantics=semantics)
        before = matcher.count()
        assert matcher.apply_counted(edges=LOOPS) == count
        # deleting one of the loops at 1 and putting it back
        loop = {"src": [1], "dst": [1], "n": [6], "weight": [-1]}
        left = {name: [value for at, value in enumerate(values) if at != 1] for name, values in LOOPS.items()}
        remaining = len(gw.find(motif, edges=left, semantics=semantics))
        assert sum(weight for _, weight in matcher.apply(edges=loop).rows()) == remaining - count
        assert matcher.count() - before == remaining
        matcher.apply(edges=loop | {"weight": [1]})
        assert matcher.count() - before == count


def test_a_loop_tells_the_direction_out():
    shown = ["a.id", "e.n", "_direction", "_pattern"]
    for semantics in ("edges-distinct", "nodes-distinct"):
        found = gw.find("(a)-[e]-(a)", edges={"src": [1], "dst": [1], "n": [5]}, semantics=semantics, columns=shown)
        assert found.rows() == [(1, 5, "out", "(a)-[e]->(a)")]
        inward = gw.find("(a)-[e]-(a)", edges={"src": [1], "dst": [1]}, semantics=semantics, where="_direction = 'in'")
        assert inward.rows() == []
    both = gw.find("(a)-[e]-(a)", edges={"src": [1], "dst": [1], "n": [5]}, columns=shown)
    assert sorted(both) == [(1, 5, "in", "(a)<-[e]-(a)"), (1, 5, "out", "(a)-[e]->(a)")]


def test_a_negated_term_merges_no_rows():
    lines = {"src": [1, 1, 2], "dst": [2, 2, 3]}
    assert gw.find("(a)-[]->(b); !(b)-[]->(a)", edges=lines, columns=["a.id"]).rows(weights=True) == [
        ((1,), 2),
        ((2,), 1),
    ]
    # whatever the order of the terms
    assert gw.find("!(b)-[]->(a); (a)-[]->(b)", edges=lines, columns=["a.id"]).rows(weights=True) == [
        ((1,), 2),
        ((2,), 1),
    ]


def test_named_vertices_are_rows_of_the_vertices():
    lines = {"src": [1, 1], "dst": [2, 9]}
    found = gw.find("(a)-[e]->(b)", vertices={"id": [1, 2]}, edges=lines, columns=["e.dst"])
    assert found.rows() == [(2,)]
    found = gw.find("(a)-[e]->()", vertices={"id": [1, 2]}, edges=lines, columns=["e.dst"])
    assert found.rows() == [(2,), (9,)]


def test_the_example_of_graphframes():
    """The graph of GraphFrames' own examples, and what its guide finds there."""
    people = {"id": list("abcdefg"), "name": ["Alice", "Bob", "Charlie", "David", "Esther", "Fanny", "Gabby"],
              "age": [34, 36, 30, 29, 32, 36, 60]}  # fmt: skip
    lines = {"src": list("abcfeeda"), "dst": list("bcbcfdae"),
             "relationship": ["friend", *["follow"] * 4, "friend", "friend", "friend"]}  # fmt: skip
    both = gw.find("(a)-[e]->(b); (b)-[e2]->(a)", vertices=people, edges=lines)
    assert both.columns == ["a", "e", "b", "e2"]
    assert sorted(row["a"]["name"] for row in both.to_arrow().to_pylist()) == ["Bob", "Charlie"]
    older = gw.find("(a)-[e]->(b); (b)-[e2]->(a)", vertices=people, edges=lines, where="b.age > 30")
    assert older.to_arrow().to_pylist() == [
        {
            "a": {"id": "c", "name": "Charlie", "age": 30},
            "e": {"src": "c", "dst": "b", "relationship": "follow"},
            "b": {"id": "b", "name": "Bob", "age": 36},
            "e2": {"src": "b", "dst": "c", "relationship": "follow"},
        }
    ]
    chain = gw.find(
        "(a)-[ab]->(b); (b)-[bc]->(c); (c)-[cd]->(d)", vertices=people, edges=lines, columns=["a.id", "d.id"],
        where="ab.relationship = 'friend' AND bc.relationship = 'friend' AND cd.relationship = 'friend'",
    )  # fmt: skip
    # friends are a-b, e-d, d-a, a-e
    assert sorted(chain) == [("a", "a"), ("d", "d"), ("e", "b"), ("e", "e")]


networkx = pytest.importorskip("networkx")

PATTERNS = {
    "(a)-[]->(b); (b)-[]->(c)": [("a", "b"), ("b", "c")],
    "(a)-[]->(b); (b)-[]->(c); (c)-[]->(a)": [("a", "b"), ("b", "c"), ("c", "a")],
    "(a)-[]->(b); (a)-[]->(c); (d)-[]->(c)": [("a", "b"), ("a", "c"), ("d", "c")],
    "(a)<-[]->(b); (b)-[]->(c)": [("a", "b"), ("b", "a"), ("b", "c")],
    "(a)-[*3]->(a)": [("a", "_aa1"), ("_aa1", "_aa2"), ("_aa2", "a")],
    "(a)-[]->(b); (c)-[]->(d)": [("a", "b"), ("c", "d")],
    "(a)-[]->(a); (a)-[]->(b)": [("a", "a"), ("a", "b")],
}


@pytest.mark.parametrize("motif", PATTERNS)
@pytest.mark.parametrize("seed", range(8 if N_GRAPHS > 1 else 2))
def test_nodes_distinct_finds_the_monomorphisms_of_networkx(motif: str, seed: int):
    chance = random.Random(seed)
    colours = [chance.choice("rb") for _ in range(8)]
    lines = list({(chance.randrange(8), chance.randrange(8)) for _ in range(22)})
    host, pattern = networkx.DiGraph(lines), networkx.DiGraph(PATTERNS[motif])
    host.add_nodes_from((at, {"colour": colour}) for at, colour in enumerate(colours))
    pattern.nodes["a"]["colour"] = "r"
    matcher = networkx.algorithms.isomorphism.DiGraphMatcher(
        host, pattern, node_match=lambda one, other: other.get("colour", one["colour"]) == one["colour"]
    )
    names = sorted(pattern.nodes)
    want = Counter()
    for found in matcher.subgraph_monomorphisms_iter():
        place = {name: at for at, name in found.items()}
        want[tuple(place[name] for name in names)] += 1
    got = gw.find(
        motif, vertices={"id": range(8), "colour": colours},
        edges={"src": [a for a, _ in lines], "dst": [b for _, b in lines]},
        where="a.colour = 'r'", semantics="nodes-distinct", columns=[f"{name}.id" for name in names],
    )  # fmt: skip
    assert Counter(got) == want


@pytest.mark.parametrize("seed", range(4))
def test_nodes_distinct_needs_as_many_parallel_edges_as_networkx(seed: int):
    chance = random.Random(seed)
    lines = [(chance.randrange(5), chance.randrange(5)) for _ in range(20)]
    host = networkx.MultiDiGraph(lines)
    pattern = networkx.MultiDiGraph([("a", "b"), ("a", "b"), ("b", "c")])
    matcher = networkx.algorithms.isomorphism.MultiDiGraphMatcher(host, pattern)
    want = {tuple(sorted((name, at) for at, name in one.items())) for one in matcher.subgraph_monomorphisms_iter()}
    got = gw.find(
        "(a)-[]->(b); (a)-[]->(b); (b)-[]->(c)", semantics="nodes-distinct", columns=["a.id", "b.id", "c.id"],
        edges={"src": [a for a, _ in lines], "dst": [b for _, b in lines]},
    )  # fmt: skip
    assert {tuple(zip("abc", row, strict=True)) for row in got} == want


@pytest.mark.parametrize(
    ("motif", "rows"),
    [
        ("(a)-[]->(b); (a)-[*1..2]->(b)", {(1, 2): 2}),
        ("(b)-[]->(a); (a)-[*1]-(b)", {(2, 1): 2}),
    ],
)
def test_one_edge_beside_a_chain_that_may_be_as_short(motif: str, rows: dict[tuple[int, int], int]):
    edges = {"src": [1, 1, 2], "dst": [2, 2, 3]}
    assert (
        dict(gw.find(motif, edges=edges, semantics="nodes-distinct", columns=["a.id", "b.id"]).rows(weights=True))
        == rows
    )


def test_both_zeros_are_one_vertex():
    vertices, edges = {"id": [-0.0, 1.0], "q": [7, 8]}, {"src": [0.0, 1.0], "dst": [1.0, -0.0]}
    assert gw.find("(a)-[]->(b)", vertices=vertices, edges=edges, columns=["a.q", "b.q"]).rows(weights=True) == [
        ((7, 8), 1),
        ((8, 7), 1),
    ]


@pytest.mark.parametrize("motif", [None, b"(a)", 5])
def test_a_motif_is_text(motif: object):
    with pytest.raises(UsageError, match="a motif has the wrong type"):
        gw.find(motif, edges={"src": [1], "dst": [2]})


@pytest.mark.parametrize("seed", range(4))
def test_edges_distinct_by_trails(seed: int):
    """Trails, as Cypher has them: no edge twice, vertices as often as they like."""
    chance = random.Random(seed)
    lines = [(chance.randrange(4), chance.randrange(4)) for _ in range(9)]
    want: Counter[tuple[int, ...]] = Counter()
    numbered = list(enumerate(lines))
    for one, (a, b) in numbered:
        for two, (b2, c) in numbered:
            for three, (c2, d) in numbered:
                if (b, c) == (b2, c2) and len({one, two, three}) == 3:
                    want[a, b, c, d] += 1
    got = gw.find(
        "(a)-[]->(b); (b)-[]->(c); (c)-[]->(d)", semantics="edges-distinct",
        edges={"src": [a for a, _ in lines], "dst": [b for _, b in lines]}, columns=["a.id", "b.id", "c.id", "d.id"],
    )  # fmt: skip
    assert Counter(got) == want

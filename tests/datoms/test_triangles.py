"""Directed triangles a to b, a to c, b to c, of graphs whose number of them is known."""

import numpy as np
import pytest

from gpu_wcoj.datoms import Database

SCHEMA = "{:g/to {:db/valueType :db.type/ref, :db/cardinality :db.cardinality/many}}"
TRIANGLES = "[:find ?a ?b ?c :where [?a :g/to ?b] [?a :g/to ?c] [?b :g/to ?c]]"


def dag(nodes, parts):
    """Edges from each node to all later ones of other parts; node i is in part i % parts."""
    first, second = np.triu_indices(nodes, 1)
    apart = first % parts != second % parts
    return first[apart], second[apart]


def star(nodes):
    return np.zeros(nodes - 1, np.int64), np.arange(1, nodes)


def star_with_ring(nodes):
    """A centre with edges to a ring of the others that is open at one place."""
    centre, leaf = star(nodes)
    return np.concatenate([centre, leaf[:-1]]), np.concatenate([leaf, leaf[1:]])


GRAPHS = {
    "complete, 100 nodes": (*dag(100, 100), 161_700),
    "bipartite, 200 nodes": (*dag(200, 2), 0),
    "star, 1,000 nodes": (*star(1000), 0),
    "star with a ring, 1,000 nodes": (*star_with_ring(1000), 998),
    "10-partite, 100 nodes": (*dag(100, 10), 120_000),
}


@pytest.mark.parametrize("graph", GRAPHS)
def test_triangles_of_graphs(graph):
    source, target, expected = GRAPHS[graph]
    db = Database(SCHEMA)
    live = db.subscribe(TRIANGLES)
    half = len(source) // 2
    db.load(entity=source[:half], attribute=":g/to", value=target[:half])
    db.transact([[":db/add", one, ":g/to", other] for one, other in zip(source[half:], target[half:], strict=True)])
    changes = live.changes()
    assert sum(int(change.weights.sum()) for change in changes) == expected
    assert [len(change) for change in changes[:1]] == [0]
    assert live.program.count(live.program.outputs[0]) == expected
    assert len(db.subscribe(TRIANGLES).changes()[0]) == expected
    db.transact([[":db/retractEntity", 0]])
    (gone,) = live.changes()
    assert set(gone.weights.tolist()) <= {-1}
    table = np.zeros(
        (len(np.unique(np.concatenate([source, target]))),) * 2
    )  # of floats, which multiply fast and count exactly
    table[source, target] = 1
    table[0] = table[:, 0] = 0
    assert expected - len(gone) == int(((table @ table) * table).sum())

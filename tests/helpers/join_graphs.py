"""Join graphs to solve: chains, triangles, and those that chance makes."""

from __future__ import annotations

from gpu_wcoj.planner.delta_lookups import Edge, Filter, JoinGraph, Table

CHAIN = [Edge("1", "2", (0,), (0,)), Edge("2", "3", (1,), (1,))]
TRIANGLE = [Edge("r", "s", (1,), (0,)), Edge("s", "t", (1,), (1,)), Edge("t", "r", (0,), (0,))]


def tables(*names, arity=2, **more):
    return [Table(name, arity, **more) for name in names]


def random_graph(random):
    """One to five tables over few relations, connected, with cycles, composite keys, self-joins and filters."""
    n = random.choice((1, 2, 3, 3, 4, 4, 5))
    arity = {name: random.randint(1, 3) for name in "RST"}
    made = []
    for i in range(n):
        relation = random.choice("RST")
        rows = random.choice((None, 10, 1000, 1e6))
        distinct = (
            {(c,): random.uniform(1, rows) for c in range(arity[relation])} if rows and random.random() < 0.7 else {}
        )
        made.append(Table(f"t{i}", arity[relation], relation, rows, distinct, random.choice((1, 1, 1, 10, 1000))))
    edges = []
    for i in range(1, n):
        for other in {random.randrange(i) for _ in range(random.choice((1, 1, 2, 3)))}:
            width = random.randint(1, min(2, made[i].arity, made[other].arity))
            left, right = (tuple(random.sample(range(made[one].arity), width)) for one in (i, other))
            edges.append(Edge(f"t{i}", f"t{other}", left, right))
    filters = []
    for _ in range(random.choice((0, 0, 1, 2))):
        one, other = (((table := random.choice(made)).name, random.randrange(table.arity)) for _ in range(2))
        filters.append(Filter(one, random.choice(("<", "<=", "!=", ">", ">=", "=")), random.choice((other, 1))))
    return JoinGraph(tuple(made), tuple(edges), tuple(filters))

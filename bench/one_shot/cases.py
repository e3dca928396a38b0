"""Tables and queries: orders by region, two hops of a graph, rings of transfers; uniform and skewed keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import gpu_wcoj as gw

Tables = Mapping[str, pa.Table]
Answer = Callable[[Tables, int], pa.Table]
"""A function of the tables and a number of threads."""

N_ORDERS, N_CUSTOMERS, N_REGIONS, N_SEGMENTS = 1_000_000, 50_000, 25, 8
"""Rows of the tables `orders` and `customers`, regions, and segments of customers."""

N_NODES, N_EDGES = 20_000, 300_000
"""Nodes and edges of the graph with uniform ends: 4.5 million two-hop rows."""

N_SKEWED_EDGES = 90_000
"""Edges of the graph with skewed ends, which have about as many two-hop rows."""

N_ACCOUNTS, N_TRANSFERS = 20_000, 200_000
"""Accounts, and transfers between them."""

SKEW = 0.6
"""Exponent of the skewed keys: the key with rank r is drawn with a weight of r to the power of minus this."""


@dataclass(frozen=True)
class Case:
    """One query over some tables.

    Attributes
    ----------
    tables
        Name of the tables in `generate`.
    duckdb
        The query for DuckDB.
    text
        The query for the engine: SQL or Datalog for `gw.query`, or a motif for `gw.find` if it has `options`.
    options
        Options of `gw.find`.
    """

    tables: str
    duckdb: str
    text: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def answer(self, tables: Tables, threads: int) -> pa.Table:
        """Return the engine's answer."""
        if self.options:
            edges = tables["transfers"]
            return gw.find(self.text, edges=edges, **self.options, backend="cpu", threads=threads).to_arrow()
        return gw.query(self.text, tables, backend="cpu", threads=threads).to_arrow()


def _sql(tables: str, text: str) -> Case:
    return Case(tables, text, text)


_BY_REGION = (
    "SELECT c.region, count(*) AS n, sum(o.amount) AS total FROM orders o JOIN customers c ON {} GROUP BY c.region"
)
_SEVERAL = (
    "SELECT c.region, c.segment, count(*) AS n, sum(o.amount) AS total, min(o.amount) AS least, max(o.amount) AS most, "
    "avg(o.amount) AS mean FROM orders o JOIN customers c ON o.customer = c.id GROUP BY c.region, c.segment"
)
_WHERE = (
    "SELECT c.region, count(*) AS n, sum(o.amount) AS total FROM orders o JOIN customers c ON o.customer = c.id "
    "WHERE o.status = 'open' AND o.amount > 20000 AND c.segment <> 's3' GROUP BY c.region"
)
_BY_CUSTOMER = (
    "SELECT o.customer, count(*) AS n, sum(o.amount) AS total FROM orders o JOIN customers c ON o.customer = c.id "
    "WHERE c.segment <> 's3' GROUP BY o.customer"
)
_PRICES = (
    "SELECT c.region, count(*) AS n, sum(o.price) AS total FROM orders o JOIN customers c ON o.customer = c.id "
    "GROUP BY c.region"
)
_TWO_HOPS = "SELECT a.src, b.dst FROM e a JOIN e b ON a.dst = b.src"
_NEAR = "{1}.amount * 100 >= {0}.amount * 95 AND {1}.amount * 100 <= {0}.amount * 105 AND {0}.time < {1}.time"
_RING_3 = (
    "SELECT x.src AS a, y.src AS b, z.src AS c, x.amount, x.time FROM transfers x JOIN transfers y ON x.dst = y.src "
    f"JOIN transfers z ON y.dst = z.src AND z.dst = x.src WHERE {_NEAR.format('x', 'y')} AND {_NEAR.format('y', 'z')}"
)
_RING_4 = (
    "SELECT x.src AS a, y.src AS b, z.src AS c, w.src AS d, x.amount, x.time FROM transfers x "
    "JOIN transfers y ON x.dst = y.src JOIN transfers z ON y.dst = z.src JOIN transfers w ON z.dst = w.src "
    f"AND w.dst = x.src WHERE {_NEAR.format('x', 'y')} AND {_NEAR.format('y', 'z')} AND {_NEAR.format('z', 'w')}"
)
_NEAR_RULE = ", {1} * 100 >= {0} * 95, {1} * 100 <= {0} * 105"
_RULE_3 = (
    "ring(a, b, c, x, s) :- transfers(a, b, x, s), transfers(b, c, y, t), transfers(c, a, z, u), s < t, t < u"
    + _NEAR_RULE.format("x", "y") + _NEAR_RULE.format("y", "z") + "."
)  # fmt: skip
_RULE_4 = (
    "ring(a, b, c, d, x, s) :- transfers(a, b, x, s), transfers(b, c, y, t), transfers(c, d, z, u), "
    "transfers(d, a, w, v), s < t, t < u, u < v"
    + _NEAR_RULE.format("x", "y") + _NEAR_RULE.format("y", "z") + _NEAR_RULE.format("z", "w") + "."
)  # fmt: skip

_KINDS = ("", " skewed")


def _cases() -> dict[str, Case]:
    cases: dict[str, Case] = {}
    for kind in _KINDS:
        orders, graph, transfers = f"orders{kind}", f"graph{kind}", f"transfers{kind}"
        cases[f"group{kind}"] = _sql(orders, _BY_REGION.format("o.customer = c.id"))
        cases[f"group text{kind}"] = _sql(orders, _BY_REGION.format("o.customer_name = c.name"))
        cases[f"group where{kind}"] = _sql(orders, _WHERE)
        cases[f"group several{kind}"] = _sql(orders, _SEVERAL)
        cases[f"group customer{kind}"] = _sql(orders, _BY_CUSTOMER)
        cases[f"group doubles{kind}"] = _sql(orders, _PRICES)
        cases[f"two hops{kind}"] = _sql(graph, _TWO_HOPS)
        distinct = _TWO_HOPS.replace("SELECT", "SELECT DISTINCT")
        cases[f"two hops set{kind}"] = Case(graph, distinct, "hop(a, c) :- e(a, b), e(b, c).")
        ring_3, ring_4 = (text.replace("SELECT", "SELECT DISTINCT") for text in (_RING_3, _RING_4))
        cases[f"ring 3{kind}"] = _sql(transfers, _RING_3)
        cases[f"ring 3 rule{kind}"] = Case(transfers, ring_3, _RULE_3)
        cases[f"ring 3 motif{kind}"] = Case(transfers, _RING_3, *_motif(3))
        cases[f"ring 4{kind}"] = _sql(transfers, _RING_4)
        cases[f"ring 4 rule{kind}"] = Case(transfers, ring_4, _RULE_4)
        cases[f"ring 4 motif{kind}"] = Case(transfers, _RING_4, *_motif(4))
    return cases


def _motif(length: int) -> tuple[str, dict[str, Any]]:
    """Return a ring as a motif, and the options of `gw.find`."""
    nodes, edges = "abcd"[:length], "xyzw"[:length]
    steps = [f"({nodes[i]})-[{edges[i]}]->({nodes[(i + 1) % length]})" for i in range(length)]
    near = [_NEAR.format(edges[i], edges[i + 1]) for i in range(length - 1)]
    columns = [*(f"{node}.id" for node in nodes), "x.amount", "x.time"]
    return "; ".join(steps), {"where": " AND ".join(near), "columns": columns}


def generate(name: str, seed: int, scale: float = 1.0) -> dict[str, pa.Table]:
    """Return tables with as many rows as the constants of the module say, times `scale`.

    Parameters
    ----------
    name
        The key of the tables in a `Case`.
    """
    rng = np.random.default_rng(seed)
    kind, _, skewed = name.partition(" ")
    if kind == "orders":
        return _orders(rng, bool(skewed), scale)
    if kind == "graph":
        n_nodes, n_edges = int(N_NODES * scale), int((N_SKEWED_EDGES if skewed else N_EDGES) * scale)
        ends = _keys(rng, n_nodes, n_edges, bool(skewed)), _keys(rng, n_nodes, n_edges, bool(skewed))
        pairs = np.unique(np.stack(ends), axis=1)
        pairs = pairs[:, rng.permutation(pairs.shape[1])]
        return {"e": pa.table({"src": pairs[0], "dst": pairs[1]})}
    n_accounts, n_transfers = int(N_ACCOUNTS * scale), int(N_TRANSFERS * scale)
    columns = {
        "src": _keys(rng, n_accounts, n_transfers, bool(skewed)),
        "dst": _keys(rng, n_accounts, n_transfers, bool(skewed)),
        "amount": rng.integers(100, 100_000, n_transfers),
        "time": rng.integers(0, 30 * 86_400, n_transfers),
    }
    return {"transfers": pa.table(columns)}


def _orders(rng: np.random.Generator, is_skewed: bool, scale: float) -> dict[str, pa.Table]:
    n_orders, n_customers = int(N_ORDERS * scale), int(N_CUSTOMERS * scale)
    ids = rng.permutation(n_customers)
    names = pa.array([f"customer-{i:06d}" for i in range(n_customers)])
    regions = pa.array([f"region-{i}" for i in range(N_REGIONS)])
    segments = pa.array([f"s{i}" for i in range(N_SEGMENTS)])
    customers = {
        "id": ids,
        "name": names.take(pa.array(ids)),
        "region": regions.take(pa.array(rng.integers(0, N_REGIONS, n_customers))),
        "segment": segments.take(pa.array(rng.integers(0, N_SEGMENTS, n_customers))),
    }
    customer = _keys(rng, n_customers, n_orders, is_skewed)
    amount = rng.integers(100, 100_000, n_orders)
    status = pa.array(["open", "paid", "sent"]).take(pa.array(rng.integers(0, 3, n_orders)))
    orders = {
        "id": np.arange(n_orders),
        "customer": customer,
        "customer_name": names.take(pa.array(customer)),
        "amount": amount,
        "price": amount / 100,
        "status": status,
    }
    return {"orders": pa.table(orders), "customers": pa.table(customers)}


def _keys(rng: np.random.Generator, n_keys: int, n_rows: int, is_skewed: bool) -> npt.NDArray[np.int64]:
    """Return keys below `n_keys`; skewed ones in an order that says nothing about their frequency."""
    if not is_skewed:
        return rng.integers(0, n_keys, n_rows)
    weights = np.arange(1, n_keys + 1) ** -SKEW
    frequent = rng.choice(n_keys, n_rows, p=weights / weights.sum())
    return rng.permutation(n_keys)[frequent]


CASES = _cases()

"""Joins along foreign keys, as TPC-H has them: orders with their lines come and go, all else stays.

The relations hold keys only, and ``region`` is left out. One query has a cycle: customer and supplier are of one
nation, as in TPC-H's query 5.
"""

from __future__ import annotations

import numpy as np

from bench.suite.streams import Data, Items
from bench.suite.workload import Pattern, Rows, Workload

CUSTOMER = ("customer", ("c", "cn"))
ORDERS = ("orders", ("o", "c"))
LINEITEM = ("lineitem", ("o", "l", "p", "s"))
PART = ("part", ("p", "brand"))
SUPPLIER = ("supplier", ("s", "sn"))
NATION = ("nation", ("cn", "region"))
PATTERNS = {
    "tpch-chain": Pattern((CUSTOMER, ORDERS, LINEITEM)),
    "tpch-lines": Pattern((LINEITEM, ORDERS, PART, SUPPLIER)),
    "tpch-all": Pattern((NATION, CUSTOMER, ORDERS, LINEITEM, PART, SUPPLIER)),
    "tpch-local": Pattern((NATION, CUSTOMER, ORDERS, LINEITEM, ("supplier", ("s", "cn")))),
}
COLUMNS = {
    "customer": ("custkey", "nationkey"),
    "orders": ("orderkey", "custkey"),
    "lineitem": ("orderkey", "linenumber", "partkey", "suppkey"),
    "part": ("partkey", "brand"),
    "supplier": ("suppkey", "nationkey"),
    "nation": ("nationkey", "regionkey"),
}
WORKLOADS = {
    name: Workload(
        name, "tpch", body.rule(name.replace("-", "_")), name.replace("-", "_"),
        {relation: COLUMNS[relation] for relation, _ in body.atoms}, body, body.sql(),
    )
    for name, body in PATTERNS.items()
}  # fmt: skip
LINES = 4
"""Lines of an order on average: 1 to 7."""
NATIONS, REGIONS, BRANDS = 25, 5, 25


def data(workload: Workload, n_orders: int, seed: int) -> Data:
    """So many orders, a tenth as many customers, four thirtieths as many parts, a hundred and fiftieth of suppliers."""
    random = np.random.default_rng(seed)
    n_customers, n_parts, n_suppliers = (max(3, round(n_orders * share)) for share in (0.1, 2 / 15, 1 / 150))
    keys = np.arange(n_orders)
    orders = np.stack([keys, random.integers(0, n_customers, n_orders)], axis=1)
    n_lines = random.integers(1, 2 * LINES, n_orders)
    starts = np.concatenate([[0], np.cumsum(n_lines)])
    of = np.repeat(keys, n_lines)
    lines = np.stack(
        [
            of,
            np.arange(len(of)) - starts[of],
            random.integers(0, n_parts, len(of)),
            random.integers(0, n_suppliers, len(of)),
        ],
        axis=1,
    )
    fixed = {
        "customer": _keyed(random, n_customers, NATIONS),
        "part": _keyed(random, n_parts, BRANDS),
        "supplier": _keyed(random, n_suppliers, NATIONS),
        "nation": _keyed(random, NATIONS, REGIONS),
    }

    def rows_of(items: Items) -> dict[str, Rows]:
        widths = n_lines[items]
        first = np.repeat(starts[items] - np.cumsum(widths) + widths, widths)
        return {"orders": orders[items], "lineitem": lines[first + np.arange(int(widths.sum()))]}

    held = {name: rows for name, rows in fixed.items() if name in workload.columns}
    return Data(n_orders, rows_of, held, weight=LINES + 1)


def _keyed(random: np.random.Generator, n: int, values: int) -> Rows:
    """Keys 0 to n - 1, each with one of so many values."""
    return np.stack([np.arange(n), random.integers(0, values, n)], axis=1)

"""Join graphs that the solver refuses: what is wrong, and what can be given instead."""

from __future__ import annotations

import pytest

from gpu_wcoj.errors import UsageError
from gpu_wcoj.planner.delta_lookups import Arranged, Costs, Edge, Filter, solve
from tests.helpers.join_graphs import CHAIN, tables


@pytest.mark.parametrize("names", [("1", "2", "3", "4"), ("1", "2", "3", "4", "5")])
def test_a_table_without_edges_is_named(names):
    lonely = ", ".join(f"'{name}'" for name in names[3:])
    with pytest.raises(UsageError, match=rf"no equality connects tables? {lonely} with '1'.*\n.*cross='allow'"):
        solve(tables(*names), CHAIN)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tables": [], "edges": []}, "the join has no tables: expected at least one table"),
        ({"tables": tables("1", "1")}, "table '1' is given twice"),
        ({"tables": tables("1"), "edges": CHAIN[:1]}, "'1.0 = 2.0' names the unknown table '2': expected one of '1'."),
        ({"edges": [Edge("1", "2", (0, 1), (0,))]}, r"differ in length"),
        ({"edges": [Edge("1", "2", (2,), (0,))]}, "table '1' has no column 2: expected one of its 2 columns"),
        ({"filters": [Filter(("1", 0), "<>", 1)]}, "unknown operator '<>': expected one of '=', '!='"),
        ({"numbering": ["1", "2"]}, "Name each of '1', '2', '3' once"),
        ({"numbering": ["1", "2", "4"]}, "the numbering names the unknown table '4'"),
        ({"existing": [Arranged("1", (0,), (1,))]}, "lacks a column that it is partitioned by"),
        ({"existing": [Arranged("2", (0, 7))]}, "2[0, 7]: relation '2' has no column 7: expected one of"),
        ({"existing": [Arranged("4", (0,))]}, "4[0] has the unknown relation '4': expected one of '1', '2', '3'"),
        ({"prefer": "middle"}, "prefer='middle' is not allowed: expected one of 'left', 'right'."),
        ({"cross": "maybe"}, "cross='maybe' is not allowed: expected one of 'refuse', 'allow'."),
        ({"cross": []}, "cross=[] is not allowed"),
        ({"costs": Costs(found=-1.0)}, "Costs(found=-1.0) is not allowed: expected a finite number"),
        ({"tables": tables("1", "2", "3", rows=float("nan"))}, "table '1': rows=nan is not allowed: expected a finite"),
        ({"tables": tables("1", "2", "3", rows=float("inf"))}, "table '1': rows=inf is not allowed"),
        ({"tables": tables("1", "2", "3", changes=-1)}, "table '1': changes=-1 is not allowed: expected a finite"),
        ({"tables": tables("1", "2", "3", distinct={(2,): 1})}, "distinct={(2,): 1} is not allowed: expected a tuple"),
        ({"tables": tables("1", "2", "3", arity="two")}, "table '1': arity='two' is not allowed"),
        ({"filters": [Filter(("1", 0), "<", 1, kept=-3)]}, "'1.0 < 1': kept=-3 is not allowed: expected a share"),
        ({"filters": [Filter(("1", 0), "<", 1, kept=1.5)]}, "kept=1.5 is not allowed: expected a share from 0 to 1"),
        (
            {"edges": [Edge("1", "2", 0, 0)]},
            "from '1' to '2' has the invalid key 0: expected a tuple of columns, such as (0,)",
        ),
        ({"edges": [Edge("1", "2", "0", "0")]}, "from '1' to '2' has the invalid key '0'"),
        ({"orders": {"1": ["2"]}}, "the order for the change of '1' is '2'"),
        ({"orders": {"4": ["2"]}}, "the order for the change of '4' is '2'"),
        ({"orders": {"1": ["3", "2"]}}, "no equality connects '3' with '1'.\n  Continue with one of '2'"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, message):
    given = {"tables": tables("1", "2", "3"), "edges": CHAIN} | arguments
    with pytest.raises(UsageError) as caught:
        solve(given.pop("tables"), given.pop("edges"), **given)
    assert message in str(caught.value)

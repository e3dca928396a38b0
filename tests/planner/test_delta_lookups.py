"""The delta-join solver: published orders, what it does better, and how its plans are shown."""

from __future__ import annotations

import pytest

from gpu_wcoj.planner.delta_lookups import Arranged, Costs, Edge, Filter, JoinGraph, Table, solve
from tests.helpers.join_graphs import CHAIN, TRIANGLE, tables
from tests.helpers.lookup_simulator import delta_of


def orders(plan):
    """Per changed table what it looks up, those that see most of the tick first, as the published solver lists them."""
    return {path.table: "".join(path.order) for path in reversed(plan.paths)}


def edge_cycle(n):
    """Tables 0 to n - 1 in a cycle."""
    return [Edge(str(i), str((i + 1) % n), (1,), (0,)) for i in range(n)]


@pytest.mark.parametrize("streams", [["1", "2"], ["2", "1"]])
def test_two_tables_with_a_composite_key(streams):
    plan = solve(tables(*streams[::-1], arity=4), [Edge("1", "2", (2, 3), (3, 2))])
    assert orders(plan) == {"1": "2", "2": "1"}
    assert list(orders(plan)) == streams
    assert [path.lookups[0].sees for path in plan.paths] == ["before", "after"]
    (lookup,) = plan.path("1").lookups
    assert {*lookup.key} == {(3, ("1", 2)), (2, ("1", 3))}
    first, second = plan.path("1").spread, plan.path("2").spread
    assert {*zip(first, second, strict=True)} == {(2, 3), (3, 2)}
    assert (second, first) == (lookup.arrangement.order, plan.path("2").lookups[0].arrangement.order)


def test_three_tables_on_one_shared_key():
    shared = [Edge("1", "2", (2, 3), (3, 2)), Edge("2", "3", (3, 2), (1, 1)), Edge("3", "1", (1, 1), (2, 3))]
    plan = solve(tables("1", "2", "3", arity=4), shared)
    assert orders(plan) == {"1": "23", "2": "13", "3": "12"}
    assert not any(path.exchanges for path in plan.paths)
    shared = [Edge("1", "2", (0,), (1,)), Edge("2", "3", (1,), (0,)), Edge("3", "1", (0,), (0,))]
    plan = solve(tables("3", "2", "1"), shared)
    assert orders(plan) == {"1": "32", "2": "31", "3": "21"}


def test_chain_of_three():
    plan = solve(tables("1", "2", "3"), CHAIN)
    assert {path.table: path.order for path in plan.paths} == {"1": ("2", "3"), "2": ("1", "3"), "3": ("2", "1")}
    assert [path.exchanges for path in plan.paths] == [1, 1, 1]
    assert plan.path("2").lookups[1].exchange == (("2", 1),)
    assert set(map(str, plan.made)) == {"1[0]", "2[0]", "2[1]", "3[1]"}


def test_documented_example_and_its_order_of_outputs():
    edges = [Edge("a", "b", (0,), (0,)), Edge("b", "c", (1,), (0,))]
    plan = solve(tables("c", "b", "a"), edges)
    assert str(plan).splitlines() == ["c -> b -> a", "b -> c* -> a", "a -> b* -> c*"]


def test_tables_without_edges_are_combined_where_that_is_allowed():
    plan = solve(tables("1", "2", "3", "x"), CHAIN)
    assert plan.path("1").order == ("2", "3", "x")
    assert str(plan.path("1").lookups[-1].arrangement) == "x[] everywhere"
    assert plan.path("1").lookups[-1].exchange is None
    assert plan.path("x").order[0] == "1"


def test_a_triangle_keeps_every_predicate():
    plan = solve(tables("r", "s", "t"), TRIANGLE)
    for path in plan.paths:
        first, closing = path.lookups
        assert (len(first.key), len(closing.key), closing.checks) == (1, 2, ())
        assert {other[0] for _, other in closing.key} == {path.table, first.table}


@pytest.mark.parametrize("n", [4, 5, 6])
def test_a_cycle_keeps_every_predicate(n):
    plan = solve(tables(*map(str, range(n))), edge_cycle(n))
    for path in plan.paths:
        assert [len(lookup.predicates) for lookup in path.lookups] == [1] * (n - 2) + [2]


def test_an_arrangement_that_is_there_may_be_cheaper_than_one_for_all_predicates():
    known = {"rows": 1e6, "distinct": {(0,): 9e5, (1,): 9e5}}
    there = [Arranged("t", (0,)), Arranged("s", (0,)), Arranged("r", (1,))]
    plan = solve(tables("r", "s", "t", **known), TRIANGLE, existing=there, costs=Costs(maintained=1000))
    lookup = next(one for one in plan.path("r").lookups if one.table == "t")
    assert lookup.arrangement == there[0]
    closing = plan.path("r").lookups[-1]
    assert len(closing.predicates) == 2
    assert len(closing.checks) == 1


def test_cost_decides_against_the_order_of_preference():
    """The published solver takes the leftmost; the rightmost finds a thousandth of a row."""
    few = Table("few", 1, rows=10, distinct={(0,): 10})
    many = Table("many", 2, rows=1e6, distinct={(0,): 100})
    hub = Table("hub", 2, rows=1e4, distinct={(0,): 1e4, (1,): 1e4})
    edges = [Edge("hub", "many", (0,), (0,)), Edge("hub", "few", (1,), (0,))]
    assert solve([many, hub, few], edges).path("hub").order == ("few", "many")


def test_filters_take_part():
    """A filter makes a table worth looking up first, and stands where its tables are bound."""
    edges = [Edge("2", "1", (0,), (0,)), Edge("2", "3", (1,), (1,))]
    filters = [Filter(("3", 0), "=", 7, kept=0.001), Filter(("1", 1), "<", ("3", 0)), Filter(("2", 0), "!=", 0)]
    assert solve(tables("1", "2", "3"), edges).path("2").order == ("1", "3")
    path = solve(tables("1", "2", "3"), edges, filters=filters).path("2")
    assert path.order == ("3", "1")
    assert path.filters == (filters[2],)
    assert [lookup.filters for lookup in path.lookups] == [(filters[0],), (filters[1],)]


def test_columns_that_one_column_equals_agree_with_each_other():
    """t.1 = u.0 and t.2 = u.0: where t comes before u, its own two columns are compared, and u is looked up by one."""
    named = [Table("s", 1), Table("t", 3), Table("u", 1)]
    edges = [Edge("s", "t", (0,), (0,)), Edge("t", "u", (1,), (0,)), Edge("t", "u", (2,), (0,))]
    plan = solve(named, edges)
    assert plan.path("t").checks == ((1, 2),)
    assert plan.path("s").lookups[0].checks == ((2, ("t", 1)),)
    assert plan.path("u").lookups[0].key == ((1, ("u", 0)), (2, ("u", 0)))
    before = {"s": {(1,): 1}, "t": {(1, 5, 5): 1, (1, 5, 6): 1}, "u": {(5,): 1, (6,): 1}}
    changes = {"s": {(2,): 1}, "t": {(2, 6, 6): 1, (2, 6, 5): 1, (1, 6, 5): 1}, "u": {(5,): 1}}
    expected = {(2, 2, 6, 6, 6): 1, (1, 1, 5, 5, 5): 1}
    assert delta_of(plan, JoinGraph(tuple(named), tuple(edges)), before, changes, 3) == expected


def test_tables_that_never_change_have_no_path():
    plan = solve([Table("1", 2), Table("2", 2, changes=0), Table("3", 2)], CHAIN)
    assert [path.table for path in plan.paths] == ["1", "3"]
    assert plan.numbering == ("1", "2", "3")


def test_occurrences_of_a_relation_share_arrangements():
    names = ["r", "s", "t"]
    plan = solve([Table(name, 2, "edge") for name in names], TRIANGLE)
    assert {one.relation for one in plan.arrangements} == {"edge"}
    apart = solve(tables(*names), TRIANGLE)
    assert len(plan.arrangements) < len(apart.arrangements)

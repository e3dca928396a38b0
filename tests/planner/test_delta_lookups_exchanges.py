"""Exchanges in the solver's plans occur only where tables share no key."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_wcoj.planner.delta_lookups import Arranged, Costs, Edge, solve
from tests.helpers.join_graphs import CHAIN, random_graph, tables


@pytest.mark.parametrize("leaves", range(2, 7))
def test_a_star_needs_no_exchange(leaves):
    names = [f"leaf{i}" for i in range(leaves)]
    centre = [Edge("centre", name, (0,), (1,)) for name in names]
    plan = solve(tables("centre", *names), centre)
    assert len(plan.paths) == leaves + 1
    assert not any(path.exchanges for path in plan.paths)
    assert len(plan.arrangements) == leaves + 1
    assert plan.path("leaf0").spread == (1,)


def test_a_new_arrangement_is_spread_as_the_rows_are():
    both = [Edge("r", "s", (0,), (0,)), Edge("s", "t", (0, 1), (0, 1))]
    plan = solve(tables("r", "s", "t"), both)
    path = plan.path("r")
    assert (path.order, path.exchanges) == (("s", "t"), 0)
    assert str(path.lookups[1].arrangement) == "t[0, 1] by 0"


def test_columns_that_all_tables_share_need_no_exchange():
    """Also where some tables share more: those are spread by the common columns alone."""
    both = [Edge("r", "s", (0,), (0,)), Edge("s", "t", (0, 1), (0, 1))]
    plan = solve(tables("r", "s", "t"), both)
    assert [path.exchanges for path in plan.paths] == [0, 0, 0]
    assert plan.path("s").order == ("t", "r")
    assert {str(one) for one in plan.arrangements} == {"r[0]", "s[0]", "s[0, 1] by 0", "t[0, 1] by 0"}


@given(st.integers(0, 2**32))
def test_no_row_travels_that_need_not(seed):
    """Where nothing else is as dear as exchanges, there is one only if no column is common to all tables."""
    graph = random_graph(random.Random(seed))
    plan = solve(graph.tables, graph.edges, filters=graph.filters, costs=Costs(exchanged=1e12, maintained=0.0))
    if frozenset.intersection(*(graph.classes_in(table.name) for table in graph.tables)):
        assert not any(path.exchanges for path in plan.paths)


def test_an_arrangement_that_every_partition_has_needs_no_exchange():
    everywhere = [Arranged(name, order, ()) for name, order in (("1", (0,)), ("3", (1,)))]
    plan = solve(tables("1", "2", "3"), CHAIN, existing=everywhere)
    assert plan.path("2").exchanges == 0
    assert plan.path("2").spread == ()
    assert [lookup.arrangement for lookup in plan.path("2").lookups] == everywhere

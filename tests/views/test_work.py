"""What a selective motif costs: what its filter leaves, by what the kernels count."""

from __future__ import annotations

import numpy as np
import pytest

import gpu_wcoj as gw
from gpu_wcoj.kernels.protocol import N_WORK

TRIANGLE = "(a)-[]->(b); (b)-[]->(c); (a)-[]->(c)"


def proposals(matcher: gw.Matcher) -> int:
    """How many candidates the last tick's joins proposed."""
    total = np.zeros(N_WORK, np.int64)
    for rules in matcher.program.last_tick.work.values():
        for paths in rules.values():
            for levels in paths.values():
                total += sum(levels.values())
    return int(total[1])


@pytest.fixture(scope="module")
def epinions() -> np.ndarray:
    from tests.conftest import SHARED_DATA

    path = SHARED_DATA / "graphs" / "soc-Epinions1_und.txt.gz"
    if not path.is_file():
        pytest.skip("the graph of Epinions is not there")
    return np.loadtxt(path, dtype=np.int64, usecols=(0, 1))


def test_a_filter_of_a_vertex_at_the_size_of_epinions(epinions: np.ndarray):
    names = np.unique(epinions)
    chance = np.random.default_rng(1)
    countries = chance.integers(0, 1000, len(names))
    vertices = {"id": names, "country": countries}
    edges = {"src": epinions[:, 0], "dst": epinions[:, 1]}
    columns = ["a.id", "b.id", "c.id"]

    def cost(**options) -> tuple[gw.Result, int]:
        matcher = gw.Matcher(TRIANGLE, vertices=vertices, edges=edges, columns=columns, is_kept=False, **options)
        return matcher.first(), proposals(matcher)

    every, whole = cost()
    assert len(every) == 1_624_481
    table = every.to_arrow()
    first = np.asarray(table["a.id"])
    country_of = dict(zip(names.tolist(), countries.tolist(), strict=True))
    kept = np.array([country_of[one] == 7 for one in first.tolist()])
    some, part = cost(where="a.country = 7")
    assert len(some) == kept.sum() > 0
    assert part < whole / 100
    chosen = chance.choice(np.unique(first), 50)
    few, least = cost(ids={"a": chosen})
    assert len(few) == np.isin(first, chosen).sum() > 0
    assert least < whole / 50  # the NumPy kernels propose more: a bound for both
    (one, lone) = cost(where=f"a.id = {np.unique(first)[-1]}")
    assert len(one) == (first == first.max()).sum() > 0
    assert lone < whole / 1000


def test_a_small_change_of_a_kept_motif_costs_little(epinions: np.ndarray):
    edges = {"src": epinions[:, 0], "dst": epinions[:, 1]}
    matcher = gw.Matcher(TRIANGLE, edges=edges, columns=["a.id", "b.id", "c.id"])
    src, dst = epinions[len(epinions) // 2].tolist()
    out, into = set(epinions[epinions[:, 0] == src, 1]), set(epinions[epinions[:, 1] == dst, 0])
    gone = matcher.apply(edges={"src": [src], "dst": [dst], "weight": [-1]})
    assert 0 < proposals(matcher) < len(epinions) / 10
    second = np.intersect1d(epinions[epinions[:, 0] == src, 1], epinions[epinions[:, 0] == dst, 1])
    third = np.intersect1d(epinions[epinions[:, 1] == src, 0], epinions[epinions[:, 1] == dst, 0])
    assert len(gone) == len(out & into) + len(second) + len(third)  # as (a)->(c), as (a)->(b) and as (b)->(c)
    back = matcher.apply(edges={"src": [src], "dst": [dst]})
    assert back.rows() == [(row, 1) for row, _ in gone.rows()]

"""Published counts of real graphs, from the files as they are, through the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[list[dict], dict]]

EDGES = "e(a, b) :- edge(a, b), a < b. e(a, b) :- edge(b, a), a < b. "
TRIANGLE = EDGES + "triangle(a, b, c) :- e(a, b), e(b, c), e(a, c)."
CLIQUE = EDGES + "clique(a, b, c, d) :- e(a, b), e(a, c), e(a, d), e(b, c), e(b, d), e(c, d)."
WALK = "s(a, b) :- edge(a, b). s(a, b) :- edge(b, a). walk(a, b, c, d) :- s(a, b), s(b, c), s(c, d), s(d, a)."

TRIANGLES = {
    "wiki-Vote.txt.gz": 608_389,
    "facebook_combined.txt.gz": 1_612_010,
    "email-Enron.txt.gz": 727_044,
    "soc-Epinions1_und.txt.gz": 1_624_481,
    "soc-Slashdot0902.txt.gz": 602_592,
    "email-Eu-core.csv.gz?sep=space&columns=0,1": 105_461,
    "ca-GrQc.txt.gz": 48_260,
}


@pytest.mark.drawn("mode", "name", share=14)
@pytest.mark.parametrize("mode", [[], ["--count"]], ids=["rows", "counted"])
@pytest.mark.parametrize("name", TRIANGLES)
def test_triangles(shared_data: Path, run: Run, name: str, mode: list[str]):
    ticks, total = run("-e", TRIANGLE, "--input", f"edge={shared_data / 'graphs' / name}", *mode)
    assert mode or ticks[0]["changes"] == {"triangle": {"inserted": TRIANGLES[name], "deleted": 0}}
    assert total["total"] == {"triangle": TRIANGLES[name]}


@pytest.mark.long
@pytest.mark.drawn("mode", "name", "cliques")
@pytest.mark.parametrize("mode", [[], ["--count"]], ids=["rows", "counted"])
@pytest.mark.parametrize(
    ("name", "cliques"), [("wiki-Vote.txt.gz", 2_077_903), ("soc-Epinions1_und.txt.gz", 5_803_397)]
)
def test_four_cliques(shared_data: Path, run: Run, name: str, cliques: int, mode: list[str]):
    _, total = run("-e", CLIQUE, "--input", f"edge={shared_data / 'graphs' / name}", *mode)
    assert total["total"] == {"clique": cliques}


@pytest.mark.long
@pytest.mark.slow
def test_closed_walks_are_counted_without_being_listed(shared_data: Path, run: Run):
    _, total = run("-e", WALK, "--input", f"edge={shared_data / 'graphs' / 'wiki-Vote.txt.gz'}", "--count")
    assert total["total"] == {"walk": 519_619_772}
    assert total["peak_rss_bytes"] < 1_000_000_000  # the walks would take 16 GB

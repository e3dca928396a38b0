"""Programs that cells cannot run are refused by name, or run by one engine, and the reason is said."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'gpu_wcoj[spark]'")

import gpu_wcoj.spark as gws
from gpu_wcoj import Program
from gpu_wcoj.errors import UnsupportedError
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.spark.cluster.layout import reason_against
from gpu_wcoj.spark.maintenance import resolve_layout

RECURSIVE = "r(a, b) :- e(a, b). r(a, c) :- s(a, b), e(b, c). s(a, b) :- r(a, b)."
DEMANDING = "r(a) :- e(a, _). r(n) :- r(a), n = count : { e(x, _), x < a }."


def test_programs_that_cells_cannot_run_are_named(spark: Any, tmp_path: Path) -> None:
    rules = Program(DEMANDING, backend="cpu").rules
    one, reason = resolve_layout(spark, "auto", rules)
    assert one == "one"
    assert reason == "it aggregates within a recursion, whose groups pass through many cells: r <- r"
    frames = {"e": spark.range(3).selectExpr("id AS a", "id AS b")}
    with pytest.raises(UnsupportedError, match="this program on cells is not supported"):
        gws.maintain(frames, DEMANDING, changes="append", layout="replicated", checkpoint=tmp_path / "ckpt")
    with pytest.raises(UnsupportedError, match="this program on cells is not supported"):
        gws.count(spark, DEMANDING, frames, layout="hypercube", cells=2)
    assert not (tmp_path / "ckpt").exists()


def test_a_recursion_stays_on_one_engine_unless_it_is_asked_for(spark: Any) -> None:
    rules = Program(RECURSIVE, backend="cpu").rules
    one, reason = resolve_layout(spark, "auto", rules)
    assert one == "one"
    assert re.search("it is recursive, and cells copy what one engine holds once: r <- s <- r", reason)
    assert resolve_layout(spark, "hypercube", rules) == ("hypercube", "as asked for")
    edges = spark.createDataFrame([(i, (i + 1) % 9) for i in range(9)], "a bigint, b bigint")
    assert gws.count(spark, RECURSIVE, {"e": edges}, layout="hypercube", cells=2) == {"r": 81, "s": 81}


@pytest.mark.parametrize(
    "text",
    [
        "hop(a, c) :- edge(a, b), edge(b, c), a != c.",
        'p(a) :- e(a, _), f(a, "x"), a != 5. q(a) :- p(a), e(a, a).',
        "t(a) :- e(a, b), !f(b).",
        "n(a, c) :- e(a, _), c = count : { e(a, _) }.",
        "m(a, c) :- e(a, b), c = b + 1.",
        "d(y, min(w)) :- e(y, w).",
        "e(1, 2). p(a) :- e(a, b), f(b).",
        "p(a) :- e(a, null).",
        "p(a) :- e(a, b?), f(b?).",
        ".input e\ne(a, b) :- f(a, b).\np(a) :- e(a, b).",
    ],
)
def test_programs_that_cells_run(text: str) -> None:
    assert reason_against(parse(text)) == ""

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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("t(a) :- e(a, b), !f(b).", "a rule has a negation"),
        ("r(a, b) :- e(a, b). r(a, c) :- s(a, b), e(b, c). s(a, b) :- r(a, b).", "it is recursive.*r <- s <- r"),
        ("n(a, c) :- e(a, _), c = count : { e(a, _) }.", "it aggregates"),
        ("m(a, c) :- e(a, b), c = b + 1.", "a rule calculates"),
        ("d(y, min(w)) :- e(y, w).", "aggregates|calculates"),
        ("p(a) :- e(a, b), b + 1 < 7.", "a rule calculates"),
        ("e(1, 2). p(a) :- e(a, b), f(b).", "fact"),
        ("p(a) :- e(a, null).", "asks for null"),
        ("p(a) :- e(a, b), b != null.", "asks for null"),
        ("p(a) :- e(a, b?), f(b?).", "joins by it"),
        (".input e\ne(a, b) :- f(a, b).\np(a) :- e(a, b).", "'e' is an input and the head of a rule"),
    ],
)
def test_programs_that_cells_cannot_run_are_named(spark: Any, tmp_path: Path, text: str, message: str) -> None:
    rules = Program(text, backend="cpu").rules
    one, reason = resolve_layout(spark, "auto", rules)
    assert one == "one"
    assert re.search(message, reason)
    frames = {name: spark.range(3).selectExpr("id AS a", "id AS b") for name in Program(text, backend="cpu").inputs}
    with pytest.raises(UnsupportedError, match="this program on cells is not supported"):
        gws.maintain(frames, text, changes="append", layout="replicated", checkpoint=tmp_path / "ckpt")
    with pytest.raises(UnsupportedError, match="this program on cells is not supported"):
        gws.count(spark, text, frames, layout="hypercube", cells=2)
    assert not (tmp_path / "ckpt").exists()


def test_programs_that_cells_run() -> None:
    assert reason_against(parse("hop(a, c) :- edge(a, b), edge(b, c), a != c.")) == ""
    assert reason_against(parse('p(a) :- e(a, _), f(a, "x"), a != 5. q(a) :- p(a), e(a, a).')) == ""

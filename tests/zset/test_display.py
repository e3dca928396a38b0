"""Display of a Z-set in a terminal and in a notebook."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from gpu_wcoj.errors import UnsupportedTypeError
from gpu_wcoj.zset.zset import ZSet


def test_the_box():
    zset = ZSet.from_rows([((1, "x", None), 2), ((-20, "yy", 1.5), -1)], names=["id", "name", "score"])
    assert repr(zset) == (
        "ZSet: 2 rows, 3 columns\n"
        "┌─────┬──────┬───────┬────────┐\n"
        "│  id │ name │ score │ weight │\n"
        "│ int │ str  │ float │    int │\n"
        "╞═════╪══════╪═══════╪════════╡\n"
        "│ -20 │ yy   │   1.5 │     -1 │\n"
        "│   1 │ x    │  null │      2 │\n"
        "└─────┴──────┴───────┴────────┘"
    )


def test_a_long_and_wide_zset_is_cut():
    zset = ZSet.from_numpy(np.arange(1200).reshape(100, 12))
    lines = repr(zset).split("\n")
    assert lines[0] == "ZSet: 100 rows, 12 columns"
    assert len(lines) == 5 + 11 + 1
    assert len({len(line) for line in lines[1:]}) == 1
    assert lines[10].count("…") == 12
    assert "c4" in lines[2]
    assert "c5" not in lines[2]
    assert repr(ZSet.from_numpy(np.arange(10))).count("…") == 0
    assert repr(ZSet.from_numpy(np.arange(11))).count("…") == 2


def test_text_cannot_break_the_box():
    zset = ZSet.from_rows([("\x1b[31m\n", "日本", "e\u0301", "x" * 100)])
    lines = repr(zset).split("\n")
    assert len(lines) == 7
    assert "\\x1b[31m\\n" in lines[5]
    assert "x" * 31 + "…" in lines[5]
    assert "x" * 32 not in lines[5]
    assert lines[5].index("│", 1) == lines[4].index("╪")


def test_html_is_escaped():
    html = ZSet.from_rows([("<b>&",)], names=["<i>"])._repr_html_()
    assert "<b>" not in html
    assert "<i>" not in html
    assert "&lt;b&gt;&amp;" in html
    assert "ZSet: 1 row, 1 column" in html


def test_times_beyond_python_have_a_look():
    zset = ZSet.from_arrow({"a": pa.array([10**15], pa.timestamp("s")), "b": pa.array([1], pa.timestamp("ns"))})
    assert "00:00:00.000000001" in repr(zset)
    with pytest.raises(UnsupportedTypeError, match="a time that Python's datetime cannot"):
        zset.rows()

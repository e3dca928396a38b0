"""Twenty lines that users of other libraries type first: in a terminal, in a notebook and under type checkers."""

from __future__ import annotations

import code
import contextlib
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_wcoj.errors import FULL_TRACEBACK
from tests.helpers.command_line import ENVIRONMENT, ROOT

BEFORE = """\
import duckdb
import networkx as nx
import pandas as pd
import polars as pl

import gpu_wcoj as gw

transfers = pd.DataFrame({"payer": ["x", "y", "z", "z", "x"], "payee": ["y", "z", "x", "w", "y"],
                          "amount": [950.0, 990.5, 910.0, 5.0, 950.0]})
graph = nx.DiGraph([(1, 2), (2, 3), (3, 1), (3, 4)])
paid = gw.query("select payer, amount from transfers", transfers=transfers)
view = gw.view("select payer, payee from transfers where amount > 900", transfers=transfers)
"""

UNKNOWN_TO_PYRIGHT = ("reportUnknownMemberType", "reportUnknownArgumentType")
"""What strict mode reports of pandas, which ships incomplete types."""

LINES = {
    "DuckDB": {
        'gw.query("select payer, count(*) as n from t group by payer order by n desc, payer", t=transfers)': """\
3 rows, 2 columns
┌───────┬─────┐
│ payer │   n │
│ str   │ int │
╞═══════╪═════╡
│ x     │   2 │
│ z     │   2 │
│ y     │   1 │
└───────┴─────┘""",
        'paid.limit(2)': """\
2 rows, 2 columns
┌───────┬────────┐
│ payer │ amount │
│ str   │  float │
╞═══════╪════════╡
│ x     │  950.0 │
│ x     │  950.0 │
└───────┴────────┘""",
        'duckdb.execute("select sum(amount) from paid").fetchall()': "[(3805.5,)]",
        'len(gw.query("from transfers", transfers=duckdb.from_df(transfers)))': "5",
    },
    "Polars": {
        'paid.shape': "(5, 2)",
        'paid.head(2).to_dicts()': "[{'payer': 'x', 'amount': 950.0}, {'payer': 'x', 'amount': 950.0}]",
        'paid.to_polars().group_by("payer").len().sort("payer").rows()': "[('x', 2), ('y', 1), ('z', 2)]",
        'pl.DataFrame(paid).height': "5",
        'gw.query("select payee from t", t=pl.from_pandas(transfers)).sort_by("payee", descending=True).rows()[0]':
            "('z',)",
    },
    "pandas": {
        'len(paid) == len(transfers)': "True",
        'paid.to_pandas().groupby("payer").size().to_dict()': "{'x': 2, 'y': 1, 'z': 2}",
        'pd.DataFrame(paid.rows(), columns=paid.columns)["amount"].sum().item()': "3805.5",
        'paid.to_numpy()["amount"].max().item()': "990.5",
    },
    "PySpark": {
        'paid.columns': "['payer', 'amount']",
        'print(paid.head(1))': """\
1 row, 2 columns
┌───────┬────────┐
│ payer │ amount │
│ str   │  float │
╞═══════╪════════╡
│ x     │  950.0 │
└───────┴────────┘""",
        '[amount for _, amount in paid]': "[950.0, 950.0, 990.5, 5.0, 910.0]",
        'view.apply(transfers=transfers.head(1).assign(weight=-1)).to_pandas()': """\
  payer payee  weight
0     x     y      -1""",
        'view.count()': "3",
    },
    "networkx": {
        'gw.query("triangle(a, b, c) :- edge(a, b), edge(b, c), edge(c, a).", edge=graph.edges).rows()':
            "[(1, 2, 3), (2, 3, 1), (3, 1, 2)]",
        'list(nx.DiGraph(gw.query("hop(a, c) :- edge(a, b), edge(b, c).", edge=graph.edges).rows()).edges)':
            "[(1, 3), (3, 2), (2, 1), (2, 4)]",
        'gw.find("(a)-[]->(b); (b)-[]->(c); (c)-[]->(a)", edges=graph.edges, columns=["a.id"]).rows()':
            "[(1,), (2,), (3,)]",
    },
}  # fmt: skip
ALL = {line: shown for lines in LINES.values() for line, shown in lines.items()}


def test_every_line_shows_in_a_terminal_what_its_user_expects():
    console = code.InteractiveInterpreter()
    exec(BEFORE, console.locals)
    for line, shown in ALL.items():
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            console.runsource(line)
        assert printed.getvalue().rstrip("\n") == shown, line
    assert len(ALL) >= 20


def test_every_result_is_a_table_in_a_notebook():
    names: dict[str, object] = {}
    exec(BEFORE, names)
    for line, shown in ALL.items():
        value = eval(line, names)
        if shown.split("\n")[0].endswith("columns") and value is not None:
            html = value._repr_html_()
            assert html.startswith(f"<p>{shown.splitlines()[0]}</p><table>")
            assert "<th>payer<br><small>str</small></th>" in html


NOTEBOOK = """
import contextlib, io, json, sys
from IPython.core.interactiveshell import InteractiveShell

shell, shown = InteractiveShell.instance(colors="nocolor"), []
for cell in json.load(sys.stdin):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        shell.run_cell(cell)
    shown.append(printed.getvalue())
print(json.dumps(shown))
"""


def test_every_line_and_an_error_show_in_a_notebook_what_its_user_expects():
    """Cells of IPython, which runs the cells of notebooks."""
    wrong = "gw.query('select payr from transfers', transfers=transfers)"
    run = subprocess.run(
        [sys.executable, "-c", NOTEBOOK], input=json.dumps([BEFORE, *ALL, wrong]), capture_output=True, text=True,
        env={name: value for name, value in ENVIRONMENT.items() if name != FULL_TRACEBACK}, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    first, *cells, error = json.loads(run.stdout)
    assert first == ""
    for (line, shown), cell in zip(ALL.items(), cells, strict=True):
        assert re.sub(r"^Out\[\d+\]: \n?", "", cell).rstrip("\n") == shown, line
    lines = error.splitlines()
    assert "----> 1 " + wrong in lines
    assert any(line.startswith("ColumnError: relation 'transfers' has no column 'payr'") for line in lines)
    assert len(lines) <= 12


@pytest.mark.long
@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_type_checkers_pass(checker: str, tmp_path: Path):
    script = tmp_path / "lines.py"
    ignored = "  # type: ignore[import-untyped]  # it ships no types\n"
    before = BEFORE.replace("as nx\n", f"as nx{ignored}").replace("as pd\n", f"as pd{ignored}")
    script.write_text("\n".join([before, *(f"print({line})" for line in ALL)]) + "\n")
    if checker == "mypy":
        options = ["--strict", "--config-file=", f"--cache-dir={ROOT / '.mypy_cache'}", str(script)]
    else:
        unknown = dict.fromkeys(UNKNOWN_TO_PYRIGHT, "none")
        config = {"typeCheckingMode": "strict", "extraPaths": [str(ROOT)], "include": [script.name], **unknown}
        (tmp_path / "pyrightconfig.json").write_text(json.dumps(config))
        options = ["--pythonpath", sys.executable, "--project", str(tmp_path)]
    run = subprocess.run(
        [sys.executable, "-m", checker, *options], capture_output=True, text=True, check=False,
        env=ENVIRONMENT | {"MYPYPATH": str(ROOT)},
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr

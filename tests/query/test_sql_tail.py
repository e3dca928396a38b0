"""What the engine refuses in a query is done by DuckDB over the rows that the engine has joined."""

from __future__ import annotations

import datetime as dt
import os
import random
import subprocess
import sys
from decimal import Decimal

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import gpu_wcoj as gw
from bench.sql.compare import difference
from bench.sql.generated import NUMBERS, statements
from bench.sql.tables import tables
from gpu_wcoj.arrow import sql_expressions
from gpu_wcoj.errors import (
    AggregateOverflowError,
    BackendUnavailableError,
    ColumnError,
    MemoryBudgetError,
    RowBudgetError,
    TimeBudgetError,
    UnknownRelationError,
    UnsupportedError,
    UnsupportedTypeError,
)
from tests.helpers.long_tests import IS_LONG

SEED = int(os.environ.get("TEST_SEED", "1"))
PER_SECTION = 100 if IS_LONG else 2
TEMPLATES = {name: table for name, table in tables().items() if name in NUMBERS}
EDGE = {"src": [1, 2, 3, 1, None], "dst": [2, 3, 1, 3, 2], "w": [1.5, 2.5, None, 4.0, 5.0]}
NODE = {"id": [1, 2, 3], "name": ["a", "b", None]}


def random_tables(chance: random.Random) -> dict[str, pa.Table]:
    """Tables like those of the statements, with nulls and with equal rows, a row's number apart."""
    result = {}
    for name, template in TEMPLATES.items():
        size = chance.choice((0, 1, 6, 12))
        columns = {}
        for column in template.column_names:
            values = [value for value in template[column].to_pylist() if value is None or value == value]
            if column == "id":
                columns[column] = list(range(1, size + 1))
            else:
                columns[column] = [None if chance.random() < 0.15 else chance.choice(values) for _ in range(size)]
        rows = [chance.randrange(size) for _ in range(size // 3)]
        table = pa.table(columns, schema=template.schema)
        result[name] = pa.concat_tables([table, table.take(pa.array(rows, pa.int64()))])
    return result


def workers(result: gw.Result) -> list[str]:
    """Who has answered the parts of a query, in their order."""
    lines = [line for line in result.explain().splitlines() if not line.startswith("  ")]
    return [line.partition(": ")[2].partition(",")[0] for line in lines]


class TestRandomStatements:
    @pytest.mark.parametrize("block", range(2))
    def test_answers_are_those_of_duckdb(self, block, monkeypatch):
        """In every second block, the engine refuses the expressions that it has DuckDB evaluate in a view."""
        if block % 2:
            refusal = sql_expressions.Binding(None, "it is refused here")
            monkeypatch.setattr(sql_expressions, "bind", lambda *_, **__: refusal)
        chance = random.Random(f"{SEED} {block}")
        relations = random_tables(chance)
        found: set[str] = set()
        with duckdb.connect() as rival:
            for name, table in relations.items():
                rival.register(name, table)
            for section, text in statements(PER_SECTION, chance.randrange(1 << 30)):
                table = rival.sql(text).to_arrow_table()
                expected = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
                result = gw.query(text, relations, language="sql", backend="cpu", threads=1)
                is_ordered = section == "drawn orders"
                wrong = difference(result.rows(), expected, is_ordered=is_ordered)
                assert not wrong, f"seed {SEED}, block {block}: {wrong}\n{text}\n{result.explain()}"
                found.update(workers(result))
        assert found == {"engine", "DuckDB"} if block % 2 else "engine" in found


class TestWho:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("SELECT src, dst FROM e WHERE w > 2", ["engine"]),
            ("SELECT src, random() < 1 FROM e", ["DuckDB"]),
            ("SELECT random() < 1 FROM e JOIN n ON e.src = n.id", ["engine", "DuckDB"]),
            ("SELECT random() < 1 FROM e, n", ["DuckDB"]),
            ("SELECT e.src FROM e, n WHERE e.src + random() > n.id", ["DuckDB"]),
            ("SELECT random() < 1 FROM e WHERE src > 1", ["engine", "DuckDB"]),
            ("SELECT e.w FROM e JOIN n ON e.src = n.id AND random() < e.w", ["engine", "DuckDB"]),
            (
                "SELECT src FROM e UNION ALL SELECT f.w + random() FROM e JOIN e f ON e.dst = f.src",
                ["engine", "DuckDB"],
            ),
            (
                "WITH r AS (SELECT src, random() < 1 k FROM e) SELECT n.name, r.k FROM r JOIN n ON n.id = r.src",
                ["DuckDB", "engine", "DuckDB"],
            ),
            (
                "SELECT n.id, (SELECT max(e.w * random()) FROM e JOIN e f ON e.dst = f.src WHERE e.src = n.id) FROM n",
                ["engine", "DuckDB"],
            ),
        ],
    )
    def test_the_engine_joins_where_relations_are_connected(self, text, expected):
        result = gw.query(text, e=EDGE, n=NODE)
        assert workers(result) == expected

    def test_explain_says_why_and_where(self):
        result = gw.query("SELECT n.name, e.w * random() AS x FROM e JOIN n ON e.src = n.id", e=EDGE, n=NODE)
        why = "random gives other results for the same arguments"
        assert result.explain().splitlines() == [
            "part_1: engine, 4 rows",
            '  SELECT "e"."w" AS "w", "n"."name" AS "name" FROM "e" CROSS JOIN "n" WHERE "e"."src" = "n"."id"',
            "answer: DuckDB, 4 rows",
            f"  The engine does not: 'e.w * random()' cannot be calculated: {why} (line 1, column 16)",
            '  SELECT "part_1"."name", "part_1"."w" * RANDOM() AS "x" FROM "part_1"',
        ]

    def test_a_query_of_the_engine_does_not_load_duckdb(self):
        environment = os.environ | {"GPU_WCOJ_COMPILE": "never"}
        code = "import gpu_wcoj as gw, sys; gw.query('select a from t where a > 1', t={'a': [1, 2]}).rows()"
        code += "\nprint('duckdb' in sys.modules)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
        assert done.stdout == "False\n"

    def test_without_duckdb_the_refusal_says_how_to_get_it(self, monkeypatch):
        gw.query("SELECT random() FROM e", e=EDGE)  # what DuckDB says of a function is not remembered without it
        monkeypatch.setitem(sys.modules, "duckdb", None)
        with pytest.raises(
            BackendUnavailableError, match=r"'random\(\)' needs duckdb(?s:.*)pip install 'gpu_wcoj\[sql\]'"
        ):
            gw.query("SELECT random() FROM e", e=EDGE)
        says = r"LIMIT of a share(?s:.*)With DuckDB, gpu_wcoj.query does it: pip install 'gpu_wcoj\[sql\]'"
        with pytest.raises(UnsupportedError, match=says):
            gw.query("SELECT src FROM e LIMIT 5%", e=EDGE)


class TestRows:
    def test_the_order_is_kept(self):
        text = "SELECT id, row_number() OVER (ORDER BY id) AS r FROM n ORDER BY r DESC"
        assert gw.query(text, n=NODE).rows() == [(3, 3), (2, 2), (1, 1)]

    def test_names_are_those_of_the_engine(self):
        items = "*, w, upper(n.name), count(*) OVER (), e.w + random(), string_agg(name, ',') OVER ()"
        text = f"SELECT {items} FROM e JOIN n ON TRUE"
        names = gw.query(text, e=EDGE, n=NODE).columns
        assert names == ["src", "dst", "w", "id", "name", "w_1", "upper", "count", "column8", "string_agg"]

    def test_types_are_those_of_the_tables_after_a_join(self):
        prices = pa.array([Decimal("1.50"), None], pa.decimal128(5, 2))
        small = pa.table({"k": pa.array([1, 2], pa.int8()), "p": prices})
        large = pa.table({"k": pa.array([1, 1, 2], pa.int64()), "t": pa.array([1, 2, None], pa.timestamp("s"))})
        text = "SELECT a.k AS k8, b.k AS k64, a.p, b.t, random() < 1 AS r FROM a JOIN b ON a.k = b.k"
        found = gw.query(text, a=small, b=large).to_arrow()
        kinds = [str(kind) for kind in found.schema.types]
        assert kinds == ["int8", "int64", "decimal128(5, 2)", "timestamp[s]", "bool"]

    def test_sums_of_128_bits_are_int64_where_they_fit(self):
        t = {"b": [2**62, 2**62], "c": [1, 2]}
        text = "SELECT sum(c) AS c, sum(b) AS b, max(random() < 1) AS r FROM t"
        found = gw.query(text, t=t).to_arrow()
        assert found.to_pylist() == [{"c": 3, "b": Decimal(2**63), "r": True}]
        assert found.schema.field("c").type == pa.int64()

    def test_nested_values_and_intervals(self):
        t = pa.table({"s": pa.array([{"x": 1}, None]), "l": pa.array([[1, 2], None]), "d": [dt.date(2024, 1, 2), None]})
        text = "SELECT s['x'] AS x, l[1] AS first, l, d - DATE '2024-01-01' AS days, INTERVAL 3 DAY AS span FROM t r"
        result = gw.query(text, t=t)
        assert sorted([row[:4] for row in result.rows()], key=str) == [(1, 1, [1, 2], 1), (None, None, None, None)]
        assert "3" in str(result)

    @pytest.mark.parametrize(
        "rows",
        [
            pd.DataFrame({"a": [2, 1, 2]}),
            pl.DataFrame({"a": [2, 1, 2]}).lazy(),
            gw.ZSet.from_rows([(1,), (2,), (2,)], names=("a",)),
            [{"a": 2}, {"a": 1}, {"a": 2}],
        ],
        ids=["pandas", "lazy", "zset", "dicts"],
    )
    def test_tables_of_all_kinds(self, rows):
        found = gw.query("SELECT a, count(*) OVER (PARTITION BY a) AS n FROM t ORDER BY a", t=rows)
        assert found.rows() == [(1, 1), (2, 2), (2, 2)]

    def test_tables_in_variables_of_the_caller(self):
        frame = pd.DataFrame({"a": [2, 1]})
        assert gw.query("SELECT a, rank() OVER (ORDER BY a) FROM (SELECT * FROM frame) f").rows() == [(1, 1), (2, 2)]
        joined = "SELECT f.a FROM (SELECT a, random() AS r FROM t) x JOIN frame f ON f.a = x.a"
        assert gw.query(joined, t={"a": [1]}).rows() == [(1,)]
        del frame
        with pytest.raises(UnknownRelationError, match="unknown relation 'frame'"):
            gw.query("SELECT a, rank() OVER (ORDER BY a) FROM frame")

    def test_columns_that_are_not_read_are_not_looked_at(self):
        t = {"a": [1, 2], "odd": [object(), 3]}
        assert gw.query("SELECT a, rank() OVER (ORDER BY a) FROM t", t=t).rows() == [(1, 1), (2, 2)]

    def test_a_result_goes_into_all_libraries(self):
        result = gw.query("SELECT a, rank() OVER (ORDER BY a) AS r FROM t", t={"a": [1, 1]})
        assert result.to_pandas().to_dict("list") == {"a": [1, 1], "r": [1, 1]}
        assert result.to_polars().rows() == [(1, 1), (1, 1)]
        assert result.to_zset().to_dict() == {(1, 1): 2}
        assert result.sort_by("r").head(1).rows() == [(1, 1)]

    def test_several_views_of_one_text(self):
        text = """
            CREATE VIEW w AS SELECT k, sum(v) OVER (PARTITION BY k) s FROM u;
            CREATE VIEW z(n) AS SELECT count(*) FROM w WHERE random() < 1
        """
        found = gw.query(text, u={"k": [1, 2, 2], "v": [1, 2, 3]}, outputs=["w", "z"])
        rows = {name: sorted(result.rows()) for name, result in found.items()}
        assert rows == {"w": [(1, 1), (2, 5), (2, 5)], "z": [(3,)]}


class TestDialects:
    @pytest.mark.parametrize(
        ("dialect", "expected"),
        [
            ("postgres", [(1, 1), (3, 2), (None, 3)]),
            ("trino", [(1, 1), (3, 2), (None, 3)]),
            ("spark", [(None, 1), (1.0, 2), (3.5, 3)]),
            ("snowflake", [(1.0, 1), (3.5, 2), (None, 3)]),
        ],
    )
    def test_quotients_and_nulls_of_the_dialect(self, dialect, expected):
        text = "SELECT a / 2, row_number() OVER (ORDER BY a) AS r FROM t ORDER BY r"
        assert gw.query(text, t={"a": [7, 2, None]}, dialect=dialect).rows() == expected

    def test_names_fold_as_in_the_dialect(self):
        t = {"a": [1], "B": [2]}
        folded = gw.query('SELECT "B", A, rank() OVER () AS Foo FROM T', t=t, dialect="postgres")
        assert folded.columns == ["B", "a", "foo"]
        assert gw.query("SELECT b, rank() OVER () AS Foo FROM T", t=t, dialect="snowflake").columns == ["B", "FOO"]
        with pytest.raises(ColumnError, match="no column 'b'"):
            gw.query('SELECT random(), "b" FROM t', t=t, dialect="postgres")
        with pytest.raises(UnsupportedError, match="differ only in case"):
            gw.query("SELECT random(), a FROM t", t={"a": [1], "A": [2]}, dialect="postgres")


@pytest.mark.parametrize("text", ["\ufeffSELECT src FROM e", "\ufeffSELECT src, random() < 1 AS b FROM e"])
def test_a_byte_order_mark_is_not_a_part_of_the_text(text):
    assert gw.query(text, e=EDGE).columns[0] == "src"
    with pytest.raises(ColumnError, match=r"\(line 1, column 8\)\n  SELECT zz FROM e\n         ~~\n"):
        gw.view("\ufeffSELECT zz FROM e", e=EDGE)


class TestFieldsOfStructs:
    def test_they_are_written_with_points(self):
        table = pa.table({"k": [1, 2], "s": [{"a": 5, "n": {"b": "x"}}, None]})
        for text, expected in [
            ("SELECT s.a FROM t", [(5,), (None,)]),
            ("SELECT t.s.a + 1 FROM t", [(6,), (None,)]),
            ("SELECT k, s.n.b FROM t WHERE s.a = 5", [(1, "x")]),
            ("SELECT x.k FROM t x JOIN t y ON x.s.a = y.s.a", [(1,)]),
        ]:
            assert gw.query(text, t=table).rows() == expected

    def test_a_view_has_them_in_brackets(self):
        table = pa.table({"s": [{"a": 5}]})
        view = gw.view("SELECT s['a'] AS a, t.s['a'] AS b FROM t", t=table)
        view.apply(t=pa.table({"s": [{"a": 6}]}))
        assert view.snapshot().rows() == [(5, 5), (6, 6)]

    def test_a_name_that_is_no_column_is_a_relation(self):
        with pytest.raises(UnknownRelationError, match="unknown relation 'z'") as caught:
            gw.view("SELECT z.a FROM t", t={"a": [1]})
        assert "schema" not in str(caught.value)


class TestLimits:
    def test_rows(self):
        text = "SELECT src, rank() OVER (ORDER BY src) FROM e"
        assert len(gw.query(text, e=EDGE, limit=5)) == 5
        with pytest.raises(RowBudgetError, match="more rows than limit=4 allows"):
            gw.query(text, e=EDGE, limit=4)

    def test_seconds(self):
        with pytest.raises(TimeBudgetError, match=r"longer than timeout=0\.1 seconds"):
            gw.query("SELECT median(a.range) FROM range(100000) a, range(100000) b", timeout=0.1)

    def test_bytes(self):
        with pytest.raises(MemoryBudgetError, match="memory=70MB"):
            gw.query("SELECT list(range) FROM range(100000000)", memory="70MB")


class TestPythonFunctions:
    @staticmethod
    def _twice() -> gw.function:
        return gw.function("int64", returns="int64", name="twice")(lambda value: 2 * value)

    def test_the_engine_calls_them_in_conditions(self):
        text = "SELECT e.w, random() < 1 FROM e JOIN n ON e.src = n.id WHERE twice(n.id) > 3 ORDER BY 1 NULLS FIRST"
        assert gw.query(text, e=EDGE, n=NODE, functions=[self._twice()]).rows() == [(None, True), (2.5, True)]

    def test_duckdb_does_not(self):
        with pytest.raises(UnsupportedError, match="(?s)function 'twice' cannot be called.*random gives other results"):
            gw.query("SELECT random() + twice(src) FROM e", e=EDGE, functions=[self._twice()])


class TestTypes:
    def test_dates_with_a_part_of_a_day_are_refused(self):
        t = pa.table({"d": pa.array([0, 43_200_000], pa.date64())})
        with pytest.raises(UnsupportedTypeError, match="column 'd', of type 'date64.*has dates with a part of a day"):
            gw.query("SELECT d, random() FROM t", t=t)
        t = pa.table({"d": pa.array([0, 86_400_000], pa.date64())})
        found = gw.query("SELECT d FROM (SELECT d, random() FROM t) x ORDER BY d", t=t).rows()
        assert found == [(dt.date(1970, 1, 1),), (dt.date(1970, 1, 2),)]

    def test_ordered_categories_are_refused(self):
        sizes = pd.DataFrame({"d": pd.Categorical(["big", "small"], ["small", "big"], ordered=True)})
        with pytest.raises(UnsupportedTypeError, match="column 'd', has ordered categories"):
            gw.query("SELECT d, random() FROM t WHERE d < 'big'", t=sizes)

    def test_types_that_duckdb_does_not_read_are_refused_in_our_words(self):
        t = pa.table({"d": pa.array([1.5], pa.float16())})
        with pytest.raises(UnsupportedError, match="random"):
            gw.query("SELECT d, random() FROM t", t=t)

    def test_sums_that_leave_int64_are_decimals(self):
        assert gw.query("SELECT sum(a) AS s FROM t", t={"a": [2**62, 2**62]}).rows() == [(Decimal(2**63),)]
        with pytest.raises(AggregateOverflowError):
            gw.view("SELECT sum(a) AS s FROM t", t={"a": [2**62, 2**62]})


PIVOTED = {"id": [1, 1, 2], "k": ["a", "b", "a"], "v": [10, 20, 30]}


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("PIVOT t ON k USING sum(v) GROUP BY id", [(1, 10, 20), (2, 30, None)]),
        ("WITH s AS (SELECT * FROM t WHERE id = 1) PIVOT s ON k USING max(v) GROUP BY id", [(1, 10, 20)]),
        ("UNPIVOT (SELECT id, v FROM t) ON id, v INTO NAME n VALUE x", [
            ("id", 1), ("id", 1), ("id", 2), ("v", 10), ("v", 20), ("v", 30)
        ]),
        ("DESCRIBE SELECT id FROM t", [("id", "BIGINT", "YES", None, None, None)]),
        ("TABLE t", [(1, "a", 10), (1, "b", 20), (2, "a", 30)]),
        ("VALUES (1, 2), (3, 4)", [(1, 2), (3, 4)]),
    ],
)  # fmt: skip
def test_queries_that_do_not_begin_with_select(text: str, rows: list[tuple[object, ...]]):
    assert sorted(gw.query(text, t=PIVOTED).rows()) == rows


def test_summarize():
    result = gw.query("SUMMARIZE t", t=PIVOTED)
    assert [row[0] for row in result.rows()] == ["id", "k", "v"]


class TestFirstTries:
    """What users of DuckDB type first."""

    TABLE = pa.table({"id": [1, 2], "name": ["a", "b"], "price": [1.5, 2.0], "day": pa.array([0, 31], pa.date32())})

    @pytest.mark.parametrize(
        ("text", "name", "values"),
        [
            ("SELECT t FROM t LIMIT 1", "t", [{"id": 1, "name": "a", "price": 1.5, "day": dt.date(1970, 1, 1)}]),
            ("SELECT u FROM unnest([1, 2]) u", "u", [1, 2]),
            ("SELECT u FROM t, unnest([id, 7]) u WHERE id = 2", "u", [2, 7]),
            ("SELECT strftime(day, '%m') FROM t ORDER BY 1", "strftime", ["01", "02"]),
            ("SELECT ifnull(name, '?') FROM t", "ifnull", ["a", "b"]),
            ("SELECT len(name) FROM t WHERE id = 1", "len", [1]),
        ],
    )
    def test_answers_and_names(self, text, name, values):
        answer = gw.query(text, t=self.TABLE)
        assert answer.to_arrow().column_names == [name]
        assert sorted(map(str, answer.to_arrow()[name].to_pylist())) == sorted(map(str, values))

    def test_texts_that_are_numbers_compare(self):
        assert gw.query("SELECT id FROM t WHERE price > '1.75'", t=self.TABLE).rows() == [(2,)]
        assert gw.query("SELECT id FROM t WHERE id = '0x2'", t=self.TABLE).rows() == [(2,)]

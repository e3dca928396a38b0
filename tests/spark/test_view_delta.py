"""Delta tables as outputs: a batch that is written again after a crash is there once. Fetches Delta's jars."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'gpu_wcoj[spark]'")

from tests.spark.file_streams import payments, write_stream

pytestmark = pytest.mark.skipif("TEST_DELTA" not in os.environ, reason="TEST_DELTA=1 runs it; it fetches Delta's jars")

SCRIPT = """
import sys
from pathlib import Path
import pyarrow.parquet as pq
import gpu_wcoj.spark as gws
from gpu_wcoj.checkpoint import Checkpoint
from tests.spark.file_streams import TRIANGLE, alone, assert_same

place = Path(sys.argv[1])
spark = gws.local_session(master="local[2]", memory="1g", conf={
    "spark.jars.packages": "io.delta:delta-spark_4.1_2.13:4.1.0", "spark.jars.ivy": str(place / "ivy"),
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.warehouse.dir": str(place / "warehouse"),
})
commit, failed = Checkpoint.commit, []

def once(self, batch, **named):
    if batch == 1 and not failed:
        failed.append(batch)
        raise OSError("planned: the output is written, the batch not committed")
    return commit(self, batch, **named)

Checkpoint.commit = once
for attempt in range(2):
    stream = spark.readStream.schema("src bigint, dst bigint, weight bigint").option("maxFilesPerTrigger", 1)
    view = gws.maintain({"edge": stream.parquet(str(place / "changes"))}, TRIANGLE, changes="weight",
                        checkpoint=place / "checkpoint", output=str(place / "out"), format="delta")
    view.start("availableNow")
    try:
        view.wait()
        assert attempt == 1
    except Exception as error:
        assert attempt == 0 and "planned" in str(error), error
tables = [pq.read_table(path) for path in sorted((place / "changes").glob("*.parquet"))]
expected, _ = alone(TRIANGLE, [{"edge": table} for table in tables], "triangle")
assert expected.num_rows > 50
assert_same(spark.read.format("delta").load(str(place / "out" / "triangle")).toArrow(), expected)
print("exactly once")
"""


def test_delta_has_every_batch_once(tmp_path):
    write_stream(tmp_path / "changes", payments(3, 1000, 150))
    path = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, tmp_path], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.stdout.splitlines()[-1:] == ["exactly once"], done.stderr

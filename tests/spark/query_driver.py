"""Joins on a cluster of two executors, in a process of its own: ``python query_driver.py FOLDER``."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pyspark

os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)

import gpu_wcoj.spark as gws
from gpu_wcoj.spark.cluster import layout as cluster_layout

TRIANGLE = "triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c)."
CLIQUE = "q(a, b, c, d) :- edge(a, b), edge(a, c), edge(a, d), edge(b, c), edge(b, d), edge(c, d)."


def main(folder: Path) -> None:
    conf = {"spark.sql.shuffle.partitions": "2", "spark.sql.warehouse.dir": str(folder / "warehouse")}
    spark = gws.local_session("driver", master="local-cluster[2,1,1024]", memory="1g", conf=conf)
    frames = {"edge": spark.read.parquet(str(folder / "edges.parquet"))}
    told = {"small": gws.explain(spark, TRIANGLE, frames)}
    cluster_layout.ENGINE_ROW_SECONDS = 1.0  # as if the tables were large
    told["large"] = gws.explain(spark, TRIANGLE, frames, cells=8)
    told["clique"] = gws.explain(spark, CLIQUE, frames)
    told["count"] = gws.count(spark, TRIANGLE, frames)["triangle"]
    told["rows"] = gws.join(spark, TRIANGLE, frames, path=folder / "answer", cells=8).count()
    print(json.dumps(told))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

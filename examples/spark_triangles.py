"""Triangles of payments, kept up to date on Spark: spark-submit examples/spark_triangles.py CHANGES CHECKPOINT OUTPUT.

CHANGES is a folder of Parquet files with columns src, dst and weight, as `gpu-wcoj generate payments --files 40` writes
them. Files that arrive later are read by the next run, which goes on from the checkpoint.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

import gpu_wcoj.spark as gws


def main() -> None:
    """Read what is there, print how many triangles there are, and the last batch's changes."""
    changes, checkpoint, output = sys.argv[1:]
    spark = SparkSession.builder.appName("triangles").getOrCreate()
    stream = spark.readStream.schema("src bigint, dst bigint, weight bigint").option("maxFilesPerTrigger", 4)
    view = gws.maintain(
        {"edge": stream.parquet(changes)},
        "triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c).",
        changes="weight",
        checkpoint=checkpoint,
        output=output,
    )
    view.start(trigger={"availableNow": True})
    view.wait()
    print(f"{view.answers['triangle']:,} triangles")
    print(f"{gws.read_output(spark, output, state=True).count():,} by the output")
    spark.stop()


if __name__ == "__main__":
    main()

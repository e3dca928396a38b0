"""A stream with the plugin, in a process of its own: normalised, hashed over tasks, through Arrow, to foreachBatch.

python -m tests.rapids.stream explainOnly|executeOnGPU JAR FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

import gpu_wcoj.spark as gws
from tests.rapids.plans import same, stored
from tests.spark.cdc_formats import CASES


def main(mode: str, jar: str, folder: Path) -> None:
    on_gpu = mode == "executeOnGPU"
    allowed = ["RDDScanExec"] if on_gpu else None  # the hand-over to foreachBatch
    conf = gws.rapids_conf(jar, mode=mode, allowed_on_cpu=allowed)
    conf |= {"spark.rapids.sql.explain": "ALL", "spark.log.level": "WARN"}
    spark = gws.local_session(master="local[2]", conf=conf)
    case = CASES["debezium"]
    spark.conf.set("spark.rapids.sql.enabled", "false")  # what the driver makes up is no plan of the GPU's
    schema = stored(spark, folder, case).schema
    spark.conf.set("spark.rapids.sql.enabled", "true")
    rows = gws.normalise(spark.readStream.schema(schema).parquet(str(folder / "changes")), order_by="place")
    found = []
    (
        rows.repartition(4, "src")
        .mapInArrow(same, rows.schema)
        .writeStream.foreachBatch(lambda batch, _: found.extend(batch.collect()))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )
    spark.stop()
    counted = sorted(((row.src, row.dst), row.weight) for row in found)
    if counted != sorted(case.expected):
        raise SystemExit(f"the stream gave {counted}, not {sorted(case.expected)}")
    print("rows", len(found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))

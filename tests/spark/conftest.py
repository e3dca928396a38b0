"""One session of Spark for all tests of a process, and what marks them.

`make test` has fifteen minutes; what kills drivers, restarts clusters or runs many cells takes longer than that, and is
left to `make test-spark`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
LONG = (
    "cluster/test_adapt.py",
    "cluster/test_answers.py",
    "cluster/test_equal_to_local.py",
    "cluster/test_faults.py",
    "cluster/test_query.py",
    "cluster/test_view.py",
    "test_view_kills.py",
    "test_view_streams.py",
)
"""Files of long tests."""
QUICK = (
    "test_tables_of_triangles[hypercube-4]",
    "test_what_cells_do_not_do",
    "test_sources_of_one_relation_that_do_not_go_together",
    "test_answers_of_cells[hypercube-4]",
    "test_a_batch_that_spark_forgot_is_passed_over",
    "test_includes_with_deletions_and_strings",
)
"""Tests in them that always run."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs Spark, keep it in one process of pytest-xdist, and let sockets of its gateway close late."""
    for name in LONG:
        assert (HERE / name).is_file(), f"LONG names {name}, which is gone"
    for item in items:
        if HERE in item.path.parents:
            item.add_marker("spark")
            item.add_marker(pytest.mark.xdist_group("spark"))
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))
            # From 4.2 on, PySpark says so where mapInArrow asks whether pandas is there.
            item.add_marker(pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"))
            is_long = item.path.relative_to(HERE).as_posix() in LONG and item.name not in QUICK
            if is_long and not {"TEST_SPARK", "SOAK_POINTS"} & os.environ.keys():
                item.add_marker(pytest.mark.skip(reason="takes minutes; make test-spark runs it"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session of two threads."""
    pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'gpu_wcoj[spark]'")
    from gpu_wcoj.errors import JavaNotFoundError
    from gpu_wcoj.spark import local_session

    place = tmp_path_factory.mktemp("spark")
    conf = {
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.warehouse.dir": str(place / "warehouse"),
        "spark.local.dir": str(place / "local"),
    }
    if "TEST_SPARK" not in os.environ:  # NumPy's kernels, which answer the same, let Python's workers begin at once
        conf["spark.executorEnv.GPU_WCOJ_COMPILE"] = "never"
    try:
        session = local_session("gpu_wcoj tests", master="local[2]", conf=conf)
    except JavaNotFoundError as error:
        pytest.skip(str(error).splitlines()[0])
    yield session
    session.stop()

"""One session of Spark for all tests of a process, and what marks them.

`make test` has eight minutes, and tries each way into Spark once; what kills drivers, restarts clusters, runs many
cells or tries each format is left to `make test-spark`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import names_tests

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
LONG = (
    "cluster/test_adapt.py",
    "cluster/test_answers.py",
    "cluster/test_equal_to_local.py",
    "cluster/test_faults.py",
    "cluster/test_hashing.py",
    "cluster/test_query.py",
    "cluster/test_view.py",
    "test_view_folders.py",
    "test_view_kills.py",
    "test_view_stop.py",
    "test_view_streams.py",
)
"""Files of long tests."""
QUICK = frozenset({
    "test_tables_of_triangles[hypercube-4]",
    "test_what_cells_do_not_do",
    "test_hashes_of_all_types",
    "test_equal_values_of_several_types_have_equal_hashes",
    "test_parcels_and_expressions_meet_the_same_cells[hypercube-5]",
    "test_sources_of_one_relation_that_do_not_go_together",
    "test_includes_with_deletions_and_strings",
})  # fmt: skip
"""Tests in them that always run."""
LONG_TESTS = frozenset({
    "test_a_graph_and_its_frames",
    "test_a_first_line_of_csv_that_may_be_a_row_is_asked_for",
    "test_a_stream_goes_on_from_its_table_by_names",
    "test_a_stream_is_normalised_by_the_same_expressions",
    "test_a_stream_keeps_a_view_in_sql",
    "test_a_table_and_a_folder_of_one_relation",
    "test_a_wrong_event_ends_the_query",
    "test_columns_of_a_join_go_by_declared_names",
    "test_csv_that_later_is_another_stops_and_nothing_is_guessed",
    "test_csv_without_a_header_and_with_other_separators",
    "test_csv_without_rows",
    "test_every_form_by_its_definition",
    "test_a_view_has_the_matches_after_every_tick",
    "test_five_hops_whose_binary_joins_have_a_billion_rows",
    "test_example",
    "test_outer_joins_and_groups_over_dataframes",
    "test_restore_needs_no_spark",
    "test_random_conditions_leave_what_gw_find_leaves",
    "test_streams_and_tables_of_several_types_are_one_tick_a_batch",
    "test_tables_alone_are_loaded_once_and_kept",
    "test_times_of_a_view_and_of_its_outputs",
    "test_times_of_files_and_of_cells",
    "test_views_of_tpc_h",
    "test_what_spark_can_tell_apart_is_answered",
})  # fmt: skip
"""Long tests of other files: of each way into Spark, a short one always runs."""


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads groups in its own hook, before this where a run names this folder
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what needs Spark, keep it in one process of pytest-xdist, and let sockets of its gateway close late."""
    for name in LONG:
        assert (HERE / name).is_file(), f"LONG names {name}, which is gone"
    runs_all = {"TEST_SPARK", "SOAK_POINTS"} & os.environ.keys() or names_tests(config)
    left_out = set()
    for item in items:
        if item.nodeid.startswith("tests/spark/"):
            item.add_marker("spark")
            item.add_marker(pytest.mark.xdist_group("spark"))
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))
            # From 4.2 on, PySpark says so where mapInArrow asks whether pandas is there.
            item.add_marker(pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"))
            if not runs_all and is_long(item):
                left_out.add(item)
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


def is_long(item: pytest.Item) -> bool:
    """Return whether a test is left to ``make test-spark``."""
    if item.path.relative_to(HERE).as_posix() in LONG:
        return item.name not in QUICK
    return getattr(item, "originalname", item.name) in LONG_TESTS


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

"""Refusals of Spark, in the file `refusals.txt`; see `tests.test_refusals`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'gpu_wcoj[spark]'")

from tests.test_refusals import compare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_refusals_of_spark(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
):
    compare(Path(__file__).parent / "refusals.txt", tmp_path_factory, monkeypatch, SPARK=spark)

"""Views that are stopped: the last batch is whole, none begins behind it, and the next view goes on from there."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'gpu_wcoj[spark]'")

import gpu_wcoj.spark as gws
from gpu_wcoj.errors import UsageError
from tests.spark.file_streams import TRIANGLE, alone, assert_same, net, payments, run, stream_of, write_stream

N_FILES = 12
"""Batches of a stream, of which the first three have begun when it is stopped."""


def test_stop_lets_the_batch_finish_and_the_checkpoint_go(spark, tmp_path):
    write_stream(tmp_path / "changes", payments(N_FILES, 600, 100))
    seen = []

    def view():
        return gws.maintain(
            {"edge": stream_of(spark, tmp_path / "changes")}, TRIANGLE, changes="weight",
            checkpoint=tmp_path / "checkpoint", output=lambda changes, batch: seen.append((batch, changes)),
        )  # fmt: skip

    first = view()
    query = first.start()
    with pytest.raises(UsageError, match="is running on the checkpoint"):
        view().start()
    while len(seen) < 3:
        assert not query.awaitTermination(1)
    first.stop()
    assert not query.isActive
    assert first.failure is None
    assert [batch for batch, _ in seen] == list(range(-1, len(seen) - 1))
    run(view())
    assert [batch for batch, _ in seen] == list(range(-1, len(seen) - 1))
    # Where Spark had listed a file and not yet begun its batch, that file goes into the next one's.
    assert len(seen) in (N_FILES, N_FILES + 1)
    expected, _ = alone(TRIANGLE, [{"edge": table} for table in payments(N_FILES, 600, 100)], "triangle")
    assert_same(
        net(pa.concat_tables([changes["triangle"] for _, changes in seen])), net(expected.drop_columns("batch"))
    )


def test_no_batch_begins_between_the_last_one_and_the_end(spark, tmp_path):
    """Spark hears late of it that the view is to stop; what has begun by then would be cut short."""
    write_stream(tmp_path / "changes", payments(N_FILES, 600, 100))
    seen, before = [], []
    view = gws.maintain(
        {"edge": stream_of(spark, tmp_path / "changes")}, TRIANGLE, changes="weight",
        checkpoint=tmp_path / "checkpoint", output=lambda changes, batch: seen.append((batch, changes)),
    )  # fmt: skip
    query = view.start()
    while len(seen) < 2:
        assert not query.awaitTermination(1)

    class Late:
        def stop(self):
            before.append(len(seen))
            time.sleep(3)
            query.stop()

        def __getattr__(self, name):
            return getattr(query, name)

    view._query = Late()
    view.stop()
    assert before == [len(seen)]
    assert view.failure is None
    assert not query.isActive
    assert view.wait()

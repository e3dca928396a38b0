"""Progress of a view's batches: log lines, and Spark's reports."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

_LOGGER = logging.getLogger("gpu_wcoj.spark")

BATCH_ROWS = 2_000_000
"""Rows of a batch above which the log advises how to make batches smaller."""


class Listener(StreamingQueryListener):
    """A listener that keeps Spark's latest progress report of one query.

    The report has rows, durations and sources.

    Attributes
    ----------
    latest
        Spark's latest report, as a plain dict; empty before the first.
    """

    def __init__(self, query: Callable[[], str]) -> None:
        super().__init__()
        self._query = query
        self.latest: dict[str, Any] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  # Spark's name
        """See `StreamingQueryListener`."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """See `StreamingQueryListener`."""
        report = event.progress
        if str(report.id) == self._query():
            report_fields = json.loads(report.json)
            names = (
                "batchId",
                "numInputRows",
                "inputRowsPerSecond",
                "processedRowsPerSecond",
                "durationMs",
                "timestamp",
            )
            self.latest = {name: report_fields[name] for name in names if name in report_fields}

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """See `StreamingQueryListener`."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """See `StreamingQueryListener`."""


def progress_fields(report: str) -> dict[str, Any]:
    """Return the fields of Spark's JSON report of a batch that `View.progress` repeats.

    Examples
    --------
    >>> progress_fields('{"batchId": 3, "numInputRows": 7, "sources": []}')
    {'batchId': 3, 'numInputRows': 7}
    """
    names = ("batchId", "numInputRows", "inputRowsPerSecond", "processedRowsPerSecond", "durationMs", "timestamp")
    report_fields = json.loads(report)
    return {name: report_fields[name] for name in names if name in report_fields}


def log_progress(progress: Mapping[str, Any]) -> None:
    """Log a batch; its id is in the log record as ``batch``."""
    extra = {"batch": progress["batch"]}
    if progress["skipped"]:
        _LOGGER.info("batch %d had been committed before; it was passed over.", progress["batch"], extra=extra)
        return
    net = ", ".join(f"{name} {change['net']:+,}" for name, change in progress["changes"].items())
    seconds = ", ".join(f"{name} {value:.3f}" for name, value in progress["seconds"].items())
    _LOGGER.info("batch %d: %d rows; %s; seconds: %s", progress["batch"], progress["rows"], net, seconds, extra=extra)
    if progress["hint"]:
        _LOGGER.warning("batch %d: %s", progress["batch"], progress["hint"], extra=extra)


def hint(rows: int, seconds: float, max_rows: int) -> str:
    """Return advice for a batch that is too large, or an empty string."""
    if rows <= max_rows:
        return ""
    return (
        f"it had {rows:,} rows and took {seconds:.1f} s. Smaller batches take less memory and are done sooner: "
        ".option('maxFilesPerTrigger', n) on a stream of files, 'maxOffsetsPerTrigger' for Kafka, "
        "'maxBytesPerTrigger' for Delta."
    )

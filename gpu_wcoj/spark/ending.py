"""Waiting for the query behind a view."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gpu_wcoj.errors import GpuWcojError, UsageError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


def wait_for(
    query: StreamingQuery | None,
    timeout: int | None,
    close: Callable[[], None],
    failure: Callable[[], BaseException | None],
) -> bool:
    """Wait until a query has ended, then `close`; False if it is still running after `timeout` seconds.

    Raises
    ------
    GpuWcojError
        What `failure` gives, if it is one of this package's own; otherwise `StreamingQueryException`.
    """
    if query is None:
        raise UsageError("this view has not been started.\n  Call start() first.")
    try:
        ended = query.awaitTermination(timeout)
    except Exception:
        close()
        error = failure()
        if isinstance(error, GpuWcojError):
            raise error from None
        raise
    if ended is False:
        return False
    close()
    return True

"""The confs ``spark.gpuWcoj.*``: what a session says where a call does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpu_wcoj.errors import UsageError, listed, nearest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PREFIX = "spark.gpuWcoj."

CONFS = {
    "backend": "where the state lives and the joins run: auto, cpu or cuda",
    "layout": "how the work is spread: one, auto, hypercube or replicated",
    "cells": "into how many cells the state is spread, if it is",
    "cells.adapt": "from so many rows in a cell on, values that become heavy are looked for; off for never",
    "threads": "how many threads the engine uses",
    "gpuMemory": "how much of the GPU's memory it may use, as 8GB or 50%",
    "batchRows": "above so many rows a batch, the log names the options that make batches smaller",
}
"""The names behind `PREFIX`, and what each is for."""

_OTHERS = ("cells.", "gpu.", "rapids.", "checkpoint.")


def confs_of(session: SparkSession) -> Mapping[str, str]:
    """What the session sets, by the names of `CONFS`.

    Raises
    ------
    UsageError
        If it sets something of that prefix that there is not.
    """
    everything = {**dict(session.sparkContext.getConf().getAll()), **session.conf.getAll}
    values = {key.removeprefix(PREFIX): value for key, value in everything.items() if key.startswith(PREFIX)}
    for name in values:
        if name not in CONFS and not name.startswith(_OTHERS):
            raise UsageError(
                f"there is no conf '{PREFIX}{name}'.\n"
                f"  The confs are: {listed(PREFIX + conf for conf in CONFS)}.{nearest(name, CONFS)}"
            )
    return values


def integer_conf(confs: Mapping[str, str], name: str, default: int | None = None) -> int | None:
    """A conf that is a whole number of at least 1."""
    value = confs.get(name)
    if value is None:
        return default
    if not (value.isascii() and value.isdigit() and int(value) >= 1):
        raise UsageError(f"the conf '{PREFIX}{name}' is '{value}'.\n  It is a whole number of at least 1.")
    return int(value)

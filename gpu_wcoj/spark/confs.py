"""The confs ``spark.gpuWcoj.*``: defaults of a session for options that a call leaves out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpu_wcoj.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PREFIX = "spark.gpuWcoj."

CONFS = {
    "backend": "device that holds the state and runs the joins: auto, cpu or cuda",
    "layout": "distribution of the work: one, auto, hypercube or replicated",
    "cells": "number of cells over which the state is distributed",
    "cells.adapt": "rows of a cell from which on new heavy values are searched for; off for never",
    "threads": "number of threads of the engine",
    "gpuMemory": "memory of the GPU that the engine may use, as 8GB or 50%",
    "batchRows": "rows of a batch above which the log names options that make batches smaller",
}
"""The names after `PREFIX`, and the meaning of each."""

_OTHERS = ("cells.", "gpu.", "rapids.", "checkpoint.")
"""Prefixes of confs that other parts of the package, or of a deployment, may set."""


def confs_of(session: SparkSession) -> Mapping[str, str]:
    """Return the values that the session sets, by the names of `CONFS`.

    Raises
    ------
    UsageError
        If it sets an unknown conf with that prefix.
    """
    everything = {**dict(session.sparkContext.getConf().getAll()), **session.conf.getAll}
    values = {key.removeprefix(PREFIX): value for key, value in everything.items() if key.startswith(PREFIX)}
    for name in values:
        if name not in CONFS and not name.startswith(_OTHERS):
            raise UsageError.unknown_name("conf", PREFIX + name, [PREFIX + conf for conf in CONFS])
    return values


def integer_conf(confs: Mapping[str, str], name: str, default: int | None = None) -> int | None:
    """Return a conf whose value is an integer from 1 on."""
    value = confs.get(name)
    if value is None:
        return default
    if not (value.isascii() and value.isdigit() and int(value) >= 1):
        raise UsageError.invalid_value(PREFIX + name, value, "an integer from 1 on")
    return int(value)

"""Spark SQL on this machine: a recount after each tick.

The loaded rows are cached; what has come and gone since is two small tables beside them, until it is as much as half of
what is cached, and all is cached anew.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyspark
from pyspark.sql import DataFrame, SparkSession, functions

from bench.spark.metered import processor_seconds
from bench.suite.contender import About, MissingError, Outcome, Setting
from bench.suite.rivals.counter import Recounter
from bench.suite.rivals.counting import counting
from bench.suite.workload import Change, Rows, State, Tick, Workload
from gpu_wcoj.errors import GpuWcojError
from gpu_wcoj.spark.session import local_session


def recompute(setting: Setting) -> Recompute:
    """Count anew after each tick."""
    return Recompute(setting)


def statement(workload: Workload) -> str:
    """What counts the answer."""
    pattern = workload.pattern
    return workload.sql if pattern is None else counting(pattern, [relation for relation, _ in pattern.atoms])


def _session(setting: Setting) -> SparkSession:
    try:
        return local_session(
            "bench", master=f"local[{setting.threads}]", conf={"spark.sql.shuffle.partitions": str(setting.threads)}
        )
    except GpuWcojError as error:
        raise MissingError(f"Spark does not start: {error}".replace("\n", " ")) from error


@dataclass(frozen=True, eq=False)
class Relation:
    """Cached rows, and those that have come and gone since."""

    cached: DataFrame
    n_cached: int
    inserted: Rows
    deleted: Rows

    def after(self, change: Change) -> Relation:
        """With a change; what came back is not gone, and what went again has not come."""
        back = _are_in(change.inserted, self.deleted)
        again = _are_in(change.deleted, self.inserted)
        inserted = np.concatenate([_without(self.inserted, change.deleted), change.inserted[~back]])
        deleted = np.concatenate([_without(self.deleted, change.inserted), change.deleted[~again]])
        return Relation(self.cached, self.n_cached, inserted, deleted)


class Recompute(Recounter):
    """The whole answer's count after each tick."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.session = _session(setting)
        self.workload = setting.workload
        self.statement = statement(setting.workload)
        self.relations: dict[str, Relation] = {}

    @property
    def about(self) -> About:
        """With the statement."""
        return About(pyspark.__version__, notes={"statement": self.statement})

    def load(self, state: State) -> None:
        """See `Contender`."""
        for name, columns in self.workload.columns.items():
            none = np.empty((0, len(columns)), np.int64)
            self._cache(name, self._frame(state.get(name, none)), none)
        self.last = self.count()

    def prepare(self, tick: Tick) -> Tick:
        """See `Contender`."""
        return {name: change for name, change in tick.items() if len(change)}

    def tick(self, prepared: Tick) -> Outcome:
        """With the processor time of the JVM."""
        start, computed = time.perf_counter(), processor_seconds()
        net = super().tick(prepared).net
        return Outcome(net, time.perf_counter() - start, processor_seconds() - computed)

    def take(self, prepared: Tick) -> None:
        """See `Recounter`."""
        for name, change in prepared.items():
            found = self.relations[name].after(change)
            self.relations[name] = found
            frame = found.cached
            if len(found.deleted):
                gone = functions.broadcast(self._frame(found.deleted))
                frame = frame.join(gone, list(gone.columns), "left_anti")
            if len(found.inserted):
                frame = frame.unionAll(self._frame(found.inserted))
            frame.createOrReplaceTempView(name)
            if 2 * (len(found.inserted) + len(found.deleted)) > found.n_cached:
                self._cache(name, frame, found.inserted[:0])
                found.cached.unpersist()

    def count(self) -> int:
        """See `Contender`."""
        return int(self.session.sql(self.statement).collect()[0][0] or 0)

    def close(self) -> None:
        """See `Contender`."""
        for relation in self.relations.values():
            relation.cached.unpersist()
        self.relations.clear()

    def _cache(self, name: str, frame: DataFrame, none: Rows) -> None:
        cached = frame.cache()
        n_rows = int(cached.count())
        cached.createOrReplaceTempView(name)
        self.relations[name] = Relation(cached, n_rows, none, none)

    def _frame(self, rows: Rows) -> DataFrame:
        table = pa.table({f"c{i}": np.ascontiguousarray(rows[:, i]) for i in range(rows.shape[1])})
        return self.session.createDataFrame(table)


def _are_in(rows: Rows, others: Rows) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.isin(_as_one(rows), _as_one(others))


def _without(rows: Rows, others: Rows) -> Rows:
    return rows[~_are_in(rows, others)]


def _as_one(rows: Rows) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    rows = np.ascontiguousarray(rows)
    return rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()

"""The inputs of a DataFrame: files that the engine can read itself, and names of streams."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.parquet as pq

from gpu_wcoj.errors import UnsupportedTypeError
from gpu_wcoj.spark.types import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_NAMING = ("path", "subscribe", "subscribePattern", "assign", "table", "topic")
"""Options of a stream that name its input; other options are settings or secrets."""


def streams_of(df: DataFrame) -> list[str]:
    """Return the inputs of the streams in a DataFrame's plan, in the plan's order."""
    leaves = _plan(df, "analyzed").collectLeaves()
    names = []
    for i in range(leaves.size()):
        leaf = leaves.apply(i)
        if leaf.isStreaming():
            names.append(_stream_name(leaf))
    return names


def plain_files(df: DataFrame) -> list[str] | None:
    """Return the local Parquet files of a DataFrame that only selects their columns; else None."""
    plan = _plan(df, "optimizedPlan")
    if plan.nodeName() == "Project":
        chosen = plan.projectList()
        if any(chosen.apply(i).nodeName() != "AttributeReference" for i in range(chosen.size())):
            return None
        plan = plan.child()
    if not plan.getClass().getName().endswith(".LogicalRelation"):
        return None
    relation = plan.relation()
    if not relation.getClass().getName().endswith(".HadoopFsRelation"):
        return None
    if relation.fileFormat().toString() != "Parquet" or not relation.partitionSchema().isEmpty():
        return None
    roots = sorted(f"{root}/" for root in _scala_list(relation.location().rootPaths()))
    if any(following.startswith(root) for root, following in pairwise(roots)):
        return None  # a file that is named twice has its rows twice, and stands among the input files once
    paths = []
    for name in df.inputFiles():
        parsed = urlparse(name)
        if parsed.scheme not in ("", "file") or parsed.netloc:
            return None
        paths.append(unquote(parsed.path))
    return sorted(paths)


def collect_table(df: DataFrame) -> tuple[pa.Table, bool]:
    """Return the rows of a batch DataFrame, and whether they were read without the JVM."""
    files = plain_files(df)
    if files:
        table = _read_files(files, df.schema)
        if table is not None:
            return table, True
    return df.toArrow(), False


def _read_files(files: list[str], columns: StructType) -> pa.Table | None:
    """Read columns of files whose types are exactly those of the Spark schema; else None."""
    try:
        read_schema = arrow_schema(columns)
    except UnsupportedTypeError:
        return None
    for path in files:
        schema = pq.read_schema(path)
        for field in read_schema:
            if field.name not in schema.names or schema.field(field.name).type != field.type:
                return None
    tables = [pq.read_table(path, columns=read_schema.names, page_checksum_verification=True) for path in files]
    return pa.concat_tables([table.replace_schema_metadata(None) for table in tables])


def _scala_list(sequence: Any) -> list[Any]:
    """Return the elements of a Scala sequence as a list."""
    return [sequence.apply(i) for i in range(sequence.size())]


def _plan(df: DataFrame, stage: str) -> Any:
    jvm_frame: Any = df._jdf  # pyright: ignore[reportPrivateUsage]  # PySpark shows no plans but as text
    return getattr(jvm_frame.queryExecution(), stage)()


def _stream_name(leaf: Any) -> str:
    if leaf.nodeName() != "StreamingRelationV2":
        return str(leaf.toString())
    options = leaf.extraOptions()
    named = [f"{name}={options.get(name)}" for name in _NAMING if options.get(name) is not None]
    return f"{leaf.sourceName()}[{', '.join(named)}]"

"""The command ``gpu-wcoj spark``: a view over folders of files, run from a shell."""

from __future__ import annotations

import json as json_text
import logging
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from gpu_wcoj.backend import BackendName
from gpu_wcoj.errors import ColumnError, GpuWcojError, InputFileError, UnknownRelationError, UsageError, counted
from gpu_wcoj.files.formats import open_bytes
from gpu_wcoj.files.spec import ColumnName, InputSpec, parse_input
from gpu_wcoj.program import describe_option
from gpu_wcoj.query.check import check_required
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.query.languages import language_of_file
from gpu_wcoj.spark.options import Format, Layout
from gpu_wcoj.spark.session import local_session, require_pyspark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType
    from rich.status import Status

    from gpu_wcoj.spark.cluster.view import CellView
    from gpu_wcoj.spark.view import View

app = App(name="spark", help="Run programs on Apache Spark.", help_format="markdown")

_FLAG = Parameter(negative="")
_SAMPLE_ROWS = 20
"""Rows of a CSV file that are read to decide whether its first line is a header."""
_FILES = Parameter(negative="", allow_leading_hyphen=True)


_TRIGGER = Parameter(
    help=(
        "available-now to stop after the files that are present at the start, or an interval, such as '5 seconds', "
        "to continue until Ctrl-C."
    )
)


def _option_help(name: str, more: str = "") -> Parameter:
    return Parameter(help=f"{describe_option(name)}{more}")


@Parameter(name="*")
@dataclass(frozen=True)
class TextOptions:
    """The text of the program and its language."""

    text: Annotated[
        str | None, Parameter(name="-e", help="The text of the program, instead of a file.", allow_leading_hyphen=True)
    ] = None
    language: Literal["datalog", "sql", "edn"] | None = None
    """Language of the program; by default the suffix of its file (.dl .sql .edn) decides, otherwise it is Datalog."""
    dialect: str = "duckdb"
    """Dialect of SQL: duckdb, postgres, spark, ..."""


@Parameter(name="*")
@dataclass(frozen=True)
class FileOptions:
    """The files of the relations, and how they become batches."""

    source: Annotated[list[str], _FILES]
    """A folder with files of changes, in which new ones may appear; once for each relation."""
    table: Annotated[list[str] | None, _FILES] = None
    """A file or folder that is loaded once, before all changes; a source may continue the same relation."""
    changes: Format = "auto"
    """Format of the changes in the files, as auto, append, weight, op, debezium; auto detects it by the columns."""
    max_files: int | None = None
    """Files of each source in a batch; by default all that are present."""


@Parameter(name="*")
@dataclass(frozen=True)
class SessionOptions:
    """The session of Spark that runs the view."""

    trigger: Annotated[str, _TRIGGER] = "available-now"
    master: str | None = None
    """Spark's master if spark-submit does not set one; by default local[*]."""
    memory: str = "2g"
    """Memory of Spark's JVM, if this command starts it."""


@Parameter(name="*")
@dataclass(frozen=True)
class EngineOptions:
    """The options of `maintain` for the engines; None for those that the session's confs set."""

    backend: Annotated[BackendName | None, _option_help("backend", " By default the session's conf.")] = None
    layout: Layout | None = None
    """one engine in this process, or engines on the executors: auto, hypercube or replicated."""
    cells: int | None = None
    """Number of cells over which the state is distributed."""
    threads: Annotated[int | None, _option_help("threads", " On cells, those of one cell.")] = None
    bag: Annotated[bool, _FLAG, _option_help("bag", " SQL always has them.")] = False

    def to_keywords(self) -> dict[str, Any]:
        """Return the keywords of `maintain`."""
        return {**vars(self), "bag": self.bag or None}


@app.command
def run(
    program: Annotated[Path | None, Parameter(help="A file with the text of the program.")] = None,
    /,
    *,
    text_options: TextOptions | None = None,
    file_options: FileOptions,
    session_options: SessionOptions | None = None,
    engine_options: EngineOptions | None = None,
    checkpoint: Path,
    output: Path | None = None,
    head: int = 0,
    json: Annotated[bool, _FLAG] = False,
) -> None:
    """Keep a program's answers up to date while files arrive in folders.

    Files that a checkpoint has are not read again.

    A folder is given as RELATION=PATH?option=value&...: Parquet files, or format=csv with a header. Options are
    columns=src,dst (by name, or by position from 0), weight=NAME, and tick=NAME for a column that says in which order
    the rows of a batch happened. Columns go by name where the relation's are declared, or named by its table.

    Parameters
    ----------
    checkpoint
        A folder for the state; a later run with the same folder continues from it.
    output
        A folder for the changes of the answers, as Parquet that gpu_wcoj.spark.read_output reads; without it they
        are counted.
    head
        Print as many rows of each answer at the end, read from --output.
    json
        Print one line of JSON a batch and one at the end.
    """
    require_pyspark()
    from pyspark.errors import PySparkException

    text, session = text_options or TextOptions(), session_options or SessionOptions()
    if file_options.max_files is not None and file_options.max_files < 1:
        raise UsageError.invalid_value("--max-files", file_options.max_files, "an integer from 1 on")
    if head < 0 or (head and (json or output is None)):
        raise UsageError.invalid_value("--head", head, "an integer from 0 on, with --output and without --json")
    for name in ("py4j", "gpu_wcoj.spark"):  # this command reports a failure in one message at the end
        logging.getLogger(name).addHandler(logging.NullHandler())
        logging.getLogger(name).propagate = logging.getLogger(name).propagate and bool(logging.getLogger().handlers)
    rules = _text_of(program, text.text)
    language = text.language or ("datalog" if program is None else language_of_file(program))
    how = {
        **(engine_options or EngineOptions()).to_keywords(), "language": language, "dialect": text.dialect,
        "checkpoint": checkpoint, "output": output,
    }  # fmt: skip
    try:
        view = _view(rules, file_options, session, how)
        with ExitStack() as stack:
            stack.callback(view.stop)
            view.on_batch(_teller(stack, json))
            view.start("availableNow" if session.trigger == "available-now" else session.trigger)
            view.wait()
            if head and output is not None:
                _show(view.answers, output, head)
    except PySparkException as error:
        raise _readable(error) from error
    if json:
        _print({"total": view.answers})
        return
    for name, rows in view.answers.items():
        print(f"{name}: {counted(rows, 'row')}")
    if output is not None:
        print(f"changes in {output}, state in {checkpoint}")


def _show(names: Iterable[str], output: Path, n_rows: int) -> None:
    """Print rows of each answer, a line each."""
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    assert session is not None
    read_output = import_module("gpu_wcoj.spark").read_output  # it needs PySpark
    for name in names:
        for row in read_output(session, output, name, state=True).limit(n_rows).collect():
            print(f"{name}({', '.join(map(repr, row[:-1]))})")  # without the weight


def _view(text: str, files: FileOptions, session_options: SessionOptions, how: Mapping[str, Any]) -> View | CellView:
    """Return the view of a program over the files; `how` has keywords of `maintain`."""
    from gpu_wcoj.spark.maintenance import maintain

    streams, tables = list(map(parse_input, files.source)), list(map(parse_input, files.table or ()))
    names: dict[str, tuple[str, ...]] = {}
    if how["language"] == "datalog":  # before Spark starts; names of other languages need its tables
        rules, relations = parse(text), [spec.relation for spec in (*tables, *streams)]
        for name in relations:
            if name not in rules.inputs:
                raise UnknownRelationError(name, rules.inputs, "relations that the program reads")
        check_required(rules, rules.inputs, relations, "Give --source {0}=PATH or --table {0}=PATH.")
        names = {declaration.relation: declaration.columns for declaration in rules.declarations}
    session = _session(session_options.master, session_options.memory)
    frames: dict[str, list[DataFrame]] = {}
    formats: dict[str, tuple[Format, Format]] = {}
    orders: dict[str, str] = {}
    for spec, is_stream in [*((spec, False) for spec in tables), *((spec, True) for spec in streams)]:
        relation_frames = frames.setdefault(spec.relation, [])
        if any(frame.isStreaming == is_stream for frame in relation_frames):
            raise UsageError.duplicate("relation", spec.relation, remedy="Put its files into one folder.")
        relation_frames.append(
            _frame(session, spec, files.max_files if is_stream else None, is_stream, names.get(spec.relation, ()))
        )
        changes: Format = files.changes if spec.weight is None else "weight"
        before = formats.get(spec.relation, (changes, changes))
        formats[spec.relation] = (before[0], changes) if is_stream else (changes, changes)
        if spec.tick is not None:
            orders[spec.relation] = "tick"
    return maintain(frames, text, changes=formats, order_by=orders, **how)


def _session(master: str | None, memory: str) -> SparkSession:
    """Return the session of spark-submit if there is one, else a local one."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if SparkContext._gateway is not None:  # pyright: ignore[reportPrivateUsage]  # set where the JVM was there first
        return SparkSession.builder.getOrCreate()
    return local_session(master=master or "local[*]", memory=memory, conf={"spark.log.level": "OFF"})


def _frame(
    session: SparkSession, spec: InputSpec, max_files: int | None, is_stream: bool, names: Sequence[str]
) -> DataFrame:
    """Return the files of one relation as a DataFrame with ``weight`` and ``tick``."""
    from pyspark.sql import functions as sf

    kind = spec.format or "parquet"
    if kind not in ("parquet", "csv"):
        raise UsageError.unsupported(f"format={kind} of '{spec}' on Spark", remedy="Use format=parquet or format=csv.")
    if not spec.path.exists():
        raise InputFileError.with_parts(
            f"'{spec.path}' does not exist", subject=str(spec.path), remedy="Name a folder with files of changes."
        )
    options = _csv_options(spec) if kind == "csv" else {}
    sample = session.read.format(kind).options(**options).load(str(spec.path))
    if kind == "csv":
        sample = session.read.format(kind).options(**options).schema(_widened(sample.schema)).load(str(spec.path))
        if _is_untyped(sample):
            if is_stream:
                raise InputFileError.with_parts(
                    f"'{spec.path}' has column names and no rows yet, so the types of the columns are unknown",
                    subject=str(spec.path), remedy="Start when there are rows, or use Parquet files.",
                )  # fmt: skip
            _check_header(spec, sample, names)
            sample = session.createDataFrame([], _void(spec, sample.schema))
        else:
            _check_header(spec, sample, names)
    frame = sample
    if is_stream:
        reader = session.readStream.format(kind).schema(sample.schema).options(**options)
        if max_files is not None:
            reader = reader.option("maxFilesPerTrigger", max_files)
        frame = reader.load(str(spec.path))
    beside = [(column, name) for column, name in ((spec.weight, "weight"), (spec.tick, "tick")) if column is not None]
    if spec.columns is None and not beside:
        return frame
    taken = [_named(spec, column, sample.columns) for column, _ in beside]
    data = [_named(spec, column, sample.columns) for column in spec.columns or ()]
    data = data or [name for name in sample.columns if name not in taken]
    chosen = [*((name, name) for name in data), *zip(taken, (name for _, name in beside), strict=True)]
    return frame.select(*(sf.col("`" + column.replace("`", "``") + "`").alias(name) for column, name in chosen))


def _check_header(spec: InputSpec, sample: DataFrame, names: Sequence[str]) -> None:
    """Raise if the first line of a CSV file may be a row as well as a header.

    An option ``header=`` or column names in the options decide it.
    """
    from gpu_wcoj.files.text import names_by_program, names_by_rows  # and PyArrow, which the help does without

    chosen = [column for column in (*(spec.columns or ()), spec.weight, spec.tick) if isinstance(column, str)]
    if spec.header is not None or chosen:
        return
    first = sample.columns
    rows = [["" if value is None else str(value) for value in row] for row in sample.limit(_SAMPLE_ROWS).collect()]
    if not (names_by_program(first, (), names, {}) or names_by_rows(first, rows)):
        raise InputFileError.with_parts(
            f"'{spec.path}': '{','.join(first)[:80]}' may be column names or a row",
            subject=str(spec.path), got=",".join(first), remedy="Pass header=yes or header=no.",
        )  # fmt: skip


def _widened(schema: StructType) -> StructType:
    """Return the schema with 64-bit integers: later files may hold larger values."""
    from pyspark.sql.types import IntegerType, LongType, StructField, StructType

    kinds = [LongType() if isinstance(column.dataType, IntegerType) else column.dataType for column in schema]
    return StructType([StructField(column.name, kind, True) for column, kind in zip(schema, kinds, strict=True)])


def _is_untyped(sample: DataFrame) -> bool:
    """Return whether CSV files have no rows, so that Spark types every column as text."""
    from pyspark.sql.types import StringType

    return all(isinstance(column.dataType, StringType) for column in sample.schema) and sample.isEmpty()


def _void(spec: InputSpec, schema: StructType) -> StructType:
    """Return the schema with untyped columns, except 64-bit weights and ticks."""
    from pyspark.sql.types import LongType, NullType, StructField, StructType

    integers = [_named(spec, column, schema.names) for column in (spec.weight, spec.tick) if column is not None]
    kinds = [LongType() if column.name in integers else NullType() for column in schema]
    return StructType([StructField(column.name, kind, True) for column, kind in zip(schema, kinds, strict=True)])


def _csv_options(spec: InputSpec) -> dict[str, str]:
    """Return the options with which Spark reads CSV files.

    A value that does not fit its column's type, or a different header, is an error.
    """
    if spec.skip or spec.types is not None or spec.separator == " ":
        raise UsageError.unsupported(
            f"skip, types or runs of blanks in '{spec}'", "on Spark, text files have the options header and sep only",
            "Leave them out.",
        )  # fmt: skip
    has_header = spec.header is not False
    return {
        "header": str(has_header).lower(), "inferSchema": "true", "sep": spec.separator or ",", "mode": "FAILFAST",
        "enforceSchema": str(not has_header).lower(),
    }  # fmt: skip


def _named(spec: InputSpec, column: ColumnName, columns: list[str]) -> str:
    name = columns[column] if isinstance(column, int) and column < len(columns) else str(column)
    if name not in columns:
        raise ColumnError(spec.relation, name, columns)
    return name


def _teller(stack: ExitStack, as_json: bool) -> Any:
    """Return the function that reports the progress of a batch.

    It prints a line of JSON, a line of text, or updates a status line on a terminal.
    """
    if as_json:
        return lambda progress: _print(
            {name: progress[name] for name in ("batch", "rows", "changes", "answers", "seconds")}
        )
    status: Status | None = None
    if sys.stderr.isatty():
        from rich.console import Console

        status = stack.enter_context(Console(stderr=True).status("starting"))

    def tell(progress: dict[str, Any]) -> None:
        answers = ", ".join(f"{name} {rows:,}" for name, rows in progress["answers"].items())
        seconds = progress["seconds"]["batch"]
        line = f"batch {progress['batch']}: {progress['rows']:,} changes in {seconds:.2f} s; {answers}"
        if status is not None:
            status.update(line)
        else:
            print(line, flush=True)

    return tell


def _text_of(path: Path | None, text: str | None) -> str:
    if (path is None) == (text is None):
        raise UsageError.with_parts(
            "the command has no program" if path is None else "the command has two programs",
            subject="program", expected="a file, or a text after -e", remedy="Pass one of the two.",
        )  # fmt: skip
    if text is not None:
        return text
    assert path is not None
    with open_bytes(path) as file:
        try:
            return file.read().decode()
        except UnicodeDecodeError:
            raise UsageError.with_parts(
                f"the program '{path}' is not UTF-8 text", subject=str(path), remedy="Convert it to UTF-8."
            ) from None


def _readable(error: Exception) -> GpuWcojError:
    """Return Spark's error without stack traces, or this package's error within it."""
    message = str(error)
    if ours := re.search(r"gpu_wcoj: (.+?)(?: SQLSTATE: \w+)?$", message, re.MULTILINE):
        return InputFileError(ours[1])
    return InputFileError(f"Spark: {message.splitlines()[0] if message else type(error).__name__}")


def _print(content: dict[str, Any]) -> None:
    with suppress(BrokenPipeError):
        sys.stdout.write(json_text.dumps(content) + "\n")
        sys.stdout.flush()

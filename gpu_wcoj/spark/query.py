"""One-shot queries: DataFrames in, a DataFrame or counts out, without a checkpoint."""

from __future__ import annotations

import atexit
import logging
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions
from pyspark.sql.types import StructType

from gpu_wcoj.arrow.indexed_table import distinct_values
from gpu_wcoj.arrow.table import is_of_spark
from gpu_wcoj.backend import BackendName
from gpu_wcoj.destination import folder_path
from gpu_wcoj.engine.ingest import read_change
from gpu_wcoj.engine.options import validate_flag
from gpu_wcoj.errors import UnknownRelationError, UsageError, entry_point, listed
from gpu_wcoj.prepared_query import QuerySource
from gpu_wcoj.program import Program
from gpu_wcoj.query.check import check_required
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.query.ir import Rules
from gpu_wcoj.query.languages import Language
from gpu_wcoj.query.motif.compile import MOTIF, ROW, Semantics
from gpu_wcoj.query.motif.parse import Motif
from gpu_wcoj.query.motif.parse import parse as parse_motif
from gpu_wcoj.spark.cluster.destination import change_schema
from gpu_wcoj.spark.cluster.layout import CellLayout, OneEngine, reason_against
from gpu_wcoj.spark.cluster.plan import cell_plan
from gpu_wcoj.spark.cluster.view import Spread, choose_for_answer, estimated_bytes, estimated_layout, files_of
from gpu_wcoj.spark.files import collect_table
from gpu_wcoj.spark.maintenance import (
    Tables,
    cells_layout,
    columns_of,
    is_motif,
    names_in,
    refuse_motif_options,
    resolve_layout,
    rules_of,
    unread_columns,
)
from gpu_wcoj.spark.motifs import Keys, MotifQuery, repeat_rows
from gpu_wcoj.spark.options import Layout, SparkOptions
from gpu_wcoj.spark.output import AnswerFiles, check_columns, json_schema
from gpu_wcoj.spark.schema import quoted, spark_schema
from gpu_wcoj.spark.session import check_frames, require_classic
from gpu_wcoj.views.matcher import MOTIF_OPTIONS, MotifOptions, refuse_options, tables_of
from gpu_wcoj.zset.zset import ZSet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOGGER = logging.getLogger("gpu_wcoj.spark")


@entry_point
def join(
    spark: SparkSession,
    program: str | Rules,
    frames: Mapping[str, DataFrame],
    *,
    output: str | None = None,
    path: str | PathLike[str] | None = None,
    layout: Layout | None = None,
    cells: int | None = None,
    bag: bool | None = None,
    weights: bool = False,
    language: Language | None = None,
    dialect: str = "duckdb",
    backend: BackendName | None = None,
    threads: int | None = None,
) -> DataFrame:
    """Return the answer of a program over DataFrames, as a DataFrame.

    Every column of the DataFrames is data. With one engine, this process reads tables of plain Parquet files itself and
    others through Spark; with cells, engines on the executors get their shares of the rows. The answer is written as
    Parquet, which Spark then reads.

    Parameters
    ----------
    program
        A query in Datalog, SQL or EDN, or rules. Tables of SQL and EDN are the frames, by name.
    frames
        A DataFrame for each relation that the program reads. Where the program declares names (``.decl``, SQL), its
        columns are matched by name. Columns of unsupported types are left out if the program does not read them, in
        bags and in programs without aggregates.
    output
        The output to return, if the program has several.
    path
        A new folder for the answer. By default a temporary folder, which is removed when this process ends. On a
        cluster it is required, and every executor must see it.
    layout, cells
        The layout; see `gpu_wcoj.spark.maintain`. By default ``"auto"``: one engine if Spark runs on this machine
        only, if the tables are small or if the program needs it, otherwise a grid of cells or, if these would hold
        nearly all rows, cells that hold all rows. `explain` returns the choice and the reason.
    bag
        Rows repeat as often as they occur, instead of once. By default for SQL only.
    weights
        In bags, return each row once, with the number of its occurrences in a last column ``weight``; the files in
        `path` have this column in any case.
    language, dialect
        Language of the query; by default its first words decide, see `gpu_wcoj.view`. The dialect is a name of
        sqlglot's for SQL.
    backend, threads
        See `gpu_wcoj.program.Program`; by default the session's confs decide.

    Raises
    ------
    UnknownRelationError, UsageError
        If relations are missing, are not the program's, or if output columns differ in case only.
    UnsupportedError
        If a layout on cells is requested and the program cannot be distributed.
    """
    validate_flag("weights", weights)
    options = _options(spark, layout=layout, cells=cells, backend=backend, threads=threads)
    engine, frames = _engine(QuerySource(program, language, dialect, bag=bag), frames, options)
    if weights and not engine.bag:
        raise UsageError.conflict("weights=True", "a set, in which every row occurs once", "Pass bag=True too.")
    if output is None:
        if len(engine.outputs) != 1:
            raise UsageError.with_parts(
                f"the program has the outputs {listed(engine.outputs)}",
                subject="output", expected="one output", remedy="Name one: output=...",
            )  # fmt: skip
        (output,) = engine.outputs
    elif output not in engine.outputs:
        raise UnknownRelationError(output, engine.outputs, "outputs")
    _check(engine, frames)
    check_columns(spark, output, _empty_answer(engine, output).column_names)
    chosen = _choose_layout(spark, engine, frames, options)
    answer, repeats = _answer(spark, engine, frames, chosen, options, output, _folder(spark, path))
    if not engine.bag or weights:
        return answer
    *columns, weight = (functions.col(quoted(name)) for name in answer.columns)
    return repeat_rows(answer, columns, weight if repeats else None)


def _answer(
    spark: SparkSession,
    engine: Program,
    frames: Mapping[str, DataFrame],
    chosen: CellLayout | OneEngine,
    options: SparkOptions,
    output: str,
    folder: Path,
    keys: Keys | None = None,
) -> tuple[DataFrame, bool]:
    """Return the answer of one output, from files below a folder, and whether its rows repeat.

    Bags have a last column of weights. If no row repeats, all are 1.
    """
    if isinstance(chosen, CellLayout):
        if keys is not None:
            frames = keys.checked_on_executors(frames)
        single_output = Program.from_options(engine.rules, replace(engine.options, outputs=(output,), backend="cpu"))
        spread = Spread.from_frames(single_output, frames, chosen)
        notes = spread.run(folder, options.program)
        names, repeats = files_of(notes), any(cell["repeats"] for cell in notes.cells)
        head = spread.columns.heads[output]
        schema = spark_schema(change_schema(head) if engine.bag else head)
    else:
        files = AnswerFiles(folder, output, engine.bag, engine.threads)
        changes = _read(engine, frames, keys)

        def write(name: str, piece: ZSet) -> None:
            if name == output:
                files.add(piece.to_arrow())

        try:
            engine.step_pieces(changes, write, in_order=False)
            names, repeats = files.finish(), files.repeats
        except BaseException:
            files.discard()
            raise
        schema = StructType.fromJson(json_schema(_empty_answer(engine, output)))
    if names:
        return spark.read.schema(schema).parquet(*(str(folder / name) for name in names)), repeats
    return spark.createDataFrame([], schema), False


@entry_point
def find(
    graph: Any,
    motif: str | Motif,
    /,
    *,
    where: str | None = None,
    semantics: Semantics = "homomorphism",
    columns: Sequence[str] | None = None,
    ids: Mapping[str, Any] | None = None,
    id: str = "id",  # noqa: A002  # the column is called so
    src: str = "src",
    dst: str = "dst",
    path: str | PathLike[str] | None = None,
    layout: Layout | None = None,
    cells: int | None = None,
    backend: BackendName | None = None,
    threads: int | None = None,
    **unknown: object,
) -> DataFrame:
    """Find the matches of a motif in DataFrames, as a DataFrame.

    The pattern is found by the call, by the engine or by engines on the executors, without columns that it does not
    need. Columns that are only shown travel with it if their table is small; otherwise Spark joins them to the matches
    when the DataFrame is used. Rows pass through the driver only if one engine finds them there.

    Parameters
    ----------
    graph
        A GraphFrame, or any object with ``vertices`` and ``edges``; a pair ``(vertices, edges)`` of DataFrames; or a
        DataFrame of edges, whose ends are the vertices.
    motif, where, semantics, columns, ids, id, src, dst
        See `gpu_wcoj.find`.
    path, layout, cells, backend, threads
        See `join`.
    unknown
        Other options raise an error.

    Returns
    -------
    A column for each named element, in order of first occurrence: structs of the columns of its table.

    Raises
    ------
    SchemaError
        If key columns are missing or hold nulls, or a vertex has several rows.
    GpuWcojError
        If the motif or its options are wrong; see `gpu_wcoj.find`.

    Examples
    --------
    >>> import gpu_wcoj.spark as gws
    >>> edges = gws.local_session().createDataFrame([(1, 2), (2, 3), (3, 1)], "src int, dst int")  # doctest: +SKIP
    >>> gws.find(edges, "(a)-[e]->(b); (b)-[]->(c); (c)-[]->(a)").select("a.id", "e.dst").first()  # doctest: +SKIP
    Row(id=1, dst=2)
    """
    _refuse_unknown(unknown, (*MOTIF_OPTIONS, "path", "layout", "cells", "backend", "threads"))
    tables = _graph_frames(graph)
    spark = tables["edges"].sparkSession
    spark_options = _options(spark, layout=layout, cells=cells, backend=backend, threads=threads)
    asked = MotifOptions(where, semantics, columns, ids, id, src, dst)
    query = _motif_query(motif, tables, asked)
    check_columns(spark, "the matches", [column.label for column in query.columns])
    engine, frames = _motif_engine(spark, query, tables, asked, spark_options)
    chosen = _choose_layout(spark, engine, frames, spark_options)
    folder = _folder(spark, path)
    if query.numbers_edges:
        tables["edges"] = _numbered(tables["edges"], query.stored_edges(), folder / "edges")
        frames |= query.frames(tables)
    with query.keys.raised_here():
        answer, repeats = _answer(spark, engine, frames, chosen, spark_options, MOTIF, folder / "matches", query.keys)
    return query.matches(answer, tables, repeats)


def _refuse_unknown(unknown: Mapping[str, object], options: Sequence[str]) -> None:
    """Raise for the first unknown option."""
    for name in unknown:
        raise UsageError.unknown_name("option", name, options)


def _graph_frames(graph: Any) -> dict[str, DataFrame]:
    """Return the DataFrames of a graph by name."""
    if isinstance(graph, Mapping):
        tables = dict(graph)
        for name in tables:
            if name not in ("vertices", "edges"):
                raise UsageError.unknown_name("table of a motif", name, ("vertices", "edges"))
        if "edges" not in tables:
            raise UsageError.missing("a motif", "edges", "Pass a DataFrame for 'edges'.")
    else:
        vertices, edges = (None, graph) if is_of_spark(graph) else tables_of(graph, None, None)
        tables = {name: frame for name, frame in (("vertices", vertices), ("edges", edges)) if frame is not None}
    check_frames(tables)
    for name, frame in tables.items():
        require_classic(frame, "find")
        if frame.isStreaming:
            raise UsageError.unsupported(
                f"the DataFrame of '{name}' in find", "it is a stream", "Use maintain for streams."
            )
    return tables


def _motif_query(motif: str | Motif, tables: Mapping[str, DataFrame], options: MotifOptions) -> MotifQuery:
    schemas = {name: frame.schema for name, frame in tables.items()}
    sizes = {name: estimated_bytes(frame) for name, frame in tables.items()}
    return MotifQuery.from_schemas(motif, schemas, options, sizes)


def _motif_engine(
    spark: SparkSession,
    query: MotifQuery,
    tables: Mapping[str, DataFrame],
    motif_options: MotifOptions,
    options: SparkOptions,
) -> tuple[Program, dict[str, DataFrame]]:
    """Return the program of a motif, and its DataFrames; edges are not numbered yet."""
    unnumbered = dict(tables)
    if query.numbers_edges:
        unnumbered["edges"] = tables["edges"].withColumn(ROW, functions.lit(0).cast("bigint"))
    frames = query.frames(unnumbered)
    for name, values in (motif_options.ids or {}).items():
        frames[f"ids#{name}"] = _id_frame(spark, values, f"the ids of '{name}'")
    engine, _ = _engine(QuerySource(query.rules, bag=True), frames, options)
    _check(engine, frames)
    return engine, frames


def _id_frame(spark: SparkSession, values: Any, what: str) -> DataFrame:
    """Return the distinct ids of a list, or of a DataFrame of one column."""
    if is_of_spark(values) and len(values.columns) == 1:
        frame: DataFrame = values.dropna().distinct()
        return frame
    table = distinct_values(values, what)
    return spark.createDataFrame(table, spark_schema(table.schema))


def _numbered(edges: DataFrame, columns: Sequence[str], folder: Path) -> DataFrame:
    """Return the edges with row numbers.

    They are stored: if Spark evaluated the rows again, they might come in another order, with other numbers.
    """
    rows = edges.select(*(functions.col(quoted(name)) for name in columns))
    numbered = rows.withColumn(ROW, functions.monotonically_increasing_id())
    numbered.write.parquet(str(folder))
    return edges.sparkSession.read.schema(numbered.schema).parquet(str(folder))


@entry_point
def count(
    spark: SparkSession,
    program: str | Rules,
    frames: Mapping[str, DataFrame],
    *,
    layout: Layout | None = None,
    cells: int | None = None,
    bag: bool | None = None,
    language: Language | None = None,
    dialect: str = "duckdb",
    backend: BackendName | None = None,
    threads: int | None = None,
    where: str | None = None,
    semantics: Semantics | None = None,
    ids: Mapping[str, Any] | None = None,
    id: str | None = None,  # noqa: A002  # the column is called so
    src: str | None = None,
    dst: str | None = None,
    **unknown: object,
) -> dict[str, int]:
    """Return the number of rows of each output of a program over DataFrames.

    The rows are counted without being listed. In bag semantics, the number is the sum of the rows' weights.

    Parameters
    ----------
    spark, program, frames, layout, cells, bag, language, dialect, backend, threads
        See `join`. For a motif, the DataFrames are ``edges`` and ``vertices``.
    where, semantics, ids, id, src, dst
        For a motif only; see `find`.
    unknown
        Other options raise an error.
    """
    _refuse_unknown(unknown, _COUNT_OPTIONS)
    more = _passed(where=where, semantics=semantics, ids=ids, id=id, src=src, dst=dst)
    options = _options(spark, layout=layout, cells=cells, backend=backend, threads=threads)
    keys = None
    if is_motif(program, language):
        motif_options = _motif_options(bag, more)
        parsed = parse_motif(str(program))
        ends = [f"{name}.{motif_options.id}" for name in parsed.vertices]
        ends += [f"{name}.{end}" for name in parsed.edges for end in (motif_options.src, motif_options.dst)]
        tables = _graph_frames(frames)
        query = _motif_query(parsed, tables, replace(motif_options, columns=ends or None))
        engine, frames = _motif_engine(spark, query, tables, motif_options, options)
        keys = query.keys
        if query.numbers_edges:
            tables["edges"] = _numbered(tables["edges"], query.stored_edges(), _folder(spark, None) / "edges")
            frames |= query.frames(tables)
    else:
        engine, frames = _engine(QuerySource(program, language, dialect, bag=bag), frames, options, more)
    _check(engine, frames)
    chosen = _choose_layout(spark, engine, frames, options)
    if isinstance(chosen, CellLayout):
        frames = frames if keys is None else keys.checked_on_executors(frames)
        with nullcontext() if keys is None else keys.raised_here():
            notes = Spread.from_frames(engine, frames, chosen).run(None, options.program)
        return {name: net or 0 for name, (_, _, net) in notes.counts(engine.outputs, engine.bag).items()}
    return {name: change.net for name, change in engine.step_counts(_read(engine, frames, keys)).items()}


@entry_point
def explain(
    spark: SparkSession,
    program: str | Rules,
    frames: Mapping[str, DataFrame],
    *,
    layout: Layout | None = None,
    cells: int | None = None,
    bag: bool | None = None,
    language: Language | None = None,
    dialect: str = "duckdb",
    where: str | None = None,
    semantics: Semantics | None = None,
    columns: Sequence[str] | None = None,
    ids: Mapping[str, Any] | None = None,
    id: str | None = None,  # noqa: A002  # the column is called so
    src: str | None = None,
    dst: str | None = None,
    **unknown: object,
) -> str:
    """Return the layout and the plan of `join`, `count` or `find`, and the reason, as text.

    With ``layout="auto"``, the text has the estimated seconds of one engine and of cells. For a motif, it says which
    columns the join reads, and which are joined to the matches.

    Parameters
    ----------
    spark, program, frames, layout, cells, bag, language, dialect
        See `join`. For a motif, the DataFrames are ``edges`` and ``vertices``.
    where, semantics, columns, ids, id, src, dst
        For a motif only; see `find`.
    unknown
        Other options raise an error.
    """
    _refuse_unknown(unknown, (*_COUNT_OPTIONS, "columns"))
    more = _passed(where=where, semantics=semantics, columns=columns, ids=ids, id=id, src=src, dst=dst)
    options = _options(spark, layout=layout, cells=cells, backend="cpu")
    lines = []
    if is_motif(program, language):
        motif_options = _motif_options(bag, more)
        tables = _graph_frames(frames)
        query = _motif_query(str(program), tables, motif_options)
        engine, frames = _motif_engine(spark, query, tables, motif_options, options)
        lines = [str(query)]
    else:
        engine, frames = _engine(QuerySource(program, language, dialect, bag=bag), frames, options, more)
    _check(engine, frames)
    chosen = _choose_layout(spark, engine, frames, options)
    if isinstance(chosen, CellLayout):
        lines.append(str(cell_plan(engine.rules, engine.outputs, engine.bag, chosen)))
    else:
        lines.append(f"layout one, in the driver: {chosen.reason}")
        if options.layout != "one" and chosen.estimate is None and not reason_against(engine.rules):
            layout_of_cells = cells_layout(options.layout)
            lines.append(f"the answer is {estimated_layout(spark, engine, frames, layout_of_cells, options.cells)[1]}")
        lines.append(engine.explain())
    return "\n".join(lines)


def _motif_options(bag: bool | None, more: Mapping[str, Any]) -> MotifOptions:
    """Return the options of a motif."""
    if bag is not None:
        refuse_options(["bag"])
    return MotifOptions(**more)


def _passed(**options: Any) -> dict[str, Any]:
    """Return the options that a call has passed."""
    return {name: value for name, value in options.items() if value is not None}


_COUNT_OPTIONS = ("layout", "cells", "bag", "language", "dialect", "where", "semantics", "ids", "id", "src", "dst")
"""The options that `count` and `explain` both have."""


def _options(spark: SparkSession, **call: Any) -> SparkOptions:
    """Return the options of a call, by default those of the session."""
    require_classic(spark, "join")
    return SparkOptions.from_session(spark, call, layout="auto")


def _engine(
    source: QuerySource, frames: Mapping[str, DataFrame], options: SparkOptions, more: Mapping[str, Any] | None = None
) -> tuple[Program, Mapping[str, DataFrame]]:
    """Return the program, and the tables without unsupported columns that it does not read."""
    if more:
        refuse_motif_options(more, MOTIF_OPTIONS)
    check_frames(frames)
    tables: Tables = {}
    if names_in(source.text, source.language):
        tables = {name: columns_of(frame.schema) for name, frame in frames.items()}
    program, bag = rules_of(source.text, source.language, source.dialect, source.bag, tables)
    rules = parse(program) if isinstance(program, str) else program
    columns = {name: frame.columns for name, frame in frames.items()}
    schemas = {name: frame.schema for name, frame in frames.items()}
    leaving = unread_columns(rules, schemas, columns, bag or not rules.has_aggregates)
    if leaving:
        program = rules = rules.without_columns(leaving)
        frames = {name: frame.drop(*leaving.get(name, {}).values()) for name, frame in frames.items()}
    return Program.from_options(program, replace(options.program, bag=bag)), frames


def _choose_layout(
    spark: SparkSession, engine: Program, frames: Mapping[str, DataFrame], options: SparkOptions
) -> CellLayout | OneEngine:
    """Return the layout of an answer."""
    resolved, reason = resolve_layout(spark, options.layout, engine.rules)
    chosen: CellLayout | OneEngine = OneEngine(reason)
    if resolved != "one":
        chosen = choose_for_answer(spark, engine, frames, cells_layout(resolved), options.cells)
    _LOGGER.info("layout %s: %s", chosen.layout if isinstance(chosen, CellLayout) else "one", chosen.reason)
    return chosen


def _check(engine: Program, frames: Mapping[str, DataFrame]) -> None:
    for name, frame in frames.items():
        if name not in engine.inputs:
            raise UnknownRelationError(name, engine.inputs, "relations that the program reads")
        require_classic(frame, "join")
        if frame.isStreaming:
            raise UsageError.unsupported(
                f"the DataFrame of '{name}' in join, count and explain", "it is a stream", "Use maintain for streams."
            )
    check_required(engine.rules, engine.inputs, frames, "Give a DataFrame for it.")


def _read(engine: Program, frames: Mapping[str, DataFrame], keys: Keys | None = None) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    for name in engine.inputs:
        table, _ = collect_table(frames[name])
        if keys is not None:
            keys.check(name, table)
        arity, declared = engine.arity(name), engine.declared.get(name)
        changes[name] = read_change(
            name, table, arity, declared, [None] * arity, engine.dictionaries, reserves_weight=False
        )
    return changes


def _empty_answer(engine: Program, output: str) -> pa.Table:
    """Return an empty answer.

    The types of its columns are known after rows have been read.
    """
    empty = engine.empty(output)
    return (empty if engine.bag else empty.with_weight_name(None)).to_arrow()


def _folder(spark: SparkSession, path: str | PathLike[str] | None) -> Path:
    if path is not None:
        folder = folder_path(path)
        if folder.exists() and any(folder.iterdir()):
            raise UsageError.with_parts(
                f"the folder '{folder}' holds files already",
                subject="path", got=folder, expected="a new or empty folder", remedy="Name another one in path.",
            )  # fmt: skip
        return folder
    if not str(spark.sparkContext.master).startswith("local["):
        raise UsageError.missing(
            f"a session on '{spark.sparkContext.master}', whose executors do not see this machine's files,",
            "a folder for the answer", "Name a folder that they see: path=...",
        )  # fmt: skip
    folder = Path(tempfile.mkdtemp(prefix="gpu_wcoj-join-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder

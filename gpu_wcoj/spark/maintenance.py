"""`maintain`: a view of a program over streams and tables of Spark."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.types import DecimalType, StructType

from gpu_wcoj.backend import BackendName
from gpu_wcoj.data.schema import MAX_DIGITS
from gpu_wcoj.destination import folder_path
from gpu_wcoj.engine.ingest import column_order
from gpu_wcoj.errors import (
    ColumnError,
    UnknownRelationError,
    UnsupportedError,
    UnsupportedTypeError,
    UsageError,
    entry_point,
)
from gpu_wcoj.program import Program
from gpu_wcoj.query.check import check_required
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.query.ir import Rules
from gpu_wcoj.query.languages import BAGS, Language, check_language, language_of
from gpu_wcoj.query.translation import read
from gpu_wcoj.spark.cluster.layout import Layout as CellsLayout
from gpu_wcoj.spark.cluster.layout import reason_for_one, require_spread
from gpu_wcoj.spark.cluster.view import CellView
from gpu_wcoj.spark.motifs import MotifQuery, Packing
from gpu_wcoj.spark.options import Format, Layout, SparkOptions
from gpu_wcoj.spark.output import Receiver, ToCallable, check_columns, sink_of, with_batch
from gpu_wcoj.spark.schema import arrow_type
from gpu_wcoj.spark.session import check_frames, require_classic
from gpu_wcoj.spark.sources import Reading, Sources, sources_of
from gpu_wcoj.spark.view import View
from gpu_wcoj.views.matcher import MotifOptions, refuse_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


# Layouts of a program on Spark: one engine in the driver, or engines in cells.


def resolve_layout(session: SparkSession, requested: str, rules: Rules) -> tuple[str, str]:
    """Return the layout to use for a requested one, and the reason.

    The result is ``"auto"`` if the amount of data in a cell is to decide.

    Raises
    ------
    UnsupportedError
        If cells are requested and the program cannot be distributed.
    """
    if requested == "auto":
        against = reason_for_one(rules)
        if against:
            return "one", against
        if str(session.sparkContext.master).split("[")[0] == "local":
            return "one", "Spark runs on this machine alone, where one engine shares its state among threads"
    elif requested != "one":
        require_spread(rules)
    return requested, "as asked for"


def cells_layout(name: str) -> CellsLayout:
    """Return the layout with this name for a program that is distributed over cells."""
    return "replicated" if name == "replicated" else "hypercube" if name == "hypercube" else "auto"


# Programs over DataFrames in Datalog, SQL or EDN: rules, columns and types.


Tables = Mapping[str, Mapping[str, str | None]]
"""Per relation, its columns and their Arrow type names; None for a type that the engine does not support."""


def rules_of(
    program: str | Rules, language: Language | None, dialect: str, bag: bool | None, tables: Tables
) -> tuple[str | Rules, bool]:
    """Return a program over tables as text or rules, and whether its relations are bags.

    Raises
    ------
    UsageError
        For a motif, and if the first words are valid in two languages.
    UnsupportedError
        If the rules call a Python function.
    GpuWcojError
        The errors of the language's parser.
    """
    if isinstance(program, Rules):
        if program.functions:
            raise UnsupportedError.unsupported(
                f"the Python function '{next(iter(program.functions))}' on Spark",
                "executors and checkpoints have the text of a program only",
                "Add its result as a column of the DataFrame before, with a function of Spark.",
            )
        return program, bool(bag)
    detected = _language(program, language)
    if detected == "datalog":
        return program, bool(bag)
    if detected == "motif":
        raise UsageError.unsupported(
            "a motif as a program over DataFrames", remedy="Call gpu_wcoj.spark.find(edges, motif)."
        )
    reading = read(program, detected, tables=tables, dialect=dialect)
    if reading.facts:
        raise UsageError.unsupported(
            "an EDN query with arguments over DataFrames", remedy="Leave out ':in', or call gpu_wcoj.view."
        )
    return reading.rules, detected in BAGS if bag is None else bag


def names_in(program: str | Rules, language: Language | None) -> bool:
    """Return whether the language refers to columns by name, so that compiling needs the tables."""
    if isinstance(program, Rules):
        return False
    return _language(program, language) in ("sql", "edn")


def is_motif(program: object, language: Language | None) -> bool:
    """Return whether a program is the text of a motif."""
    return isinstance(program, str) and _language(program, language) == "motif"


def _language(program: str, language: Language | None) -> Language:
    return language_of(program) if language is None else check_language(language)


def columns_of(schema: StructType, names: Sequence[str] | None = None) -> dict[str, str | None]:
    """Return columns of a table and their types, None for types without support.

    All columns are returned, or those in `names`.
    """
    types: dict[str, str | None] = {}
    for name in schema.names if names is None else names:
        try:
            kind = arrow_type(schema[name].dataType)
        except UnsupportedTypeError:
            types[name] = None
        else:
            types[name] = None if kind == pa.null() else str(kind)
    return types


def unread_columns(
    rules: Rules, schemas: Mapping[str, StructType], names: Mapping[str, Sequence[str]], may_leave_out: bool
) -> dict[str, dict[int, str]]:
    """Return, per relation, columns that no rule reads and whose types may be unsupported.

    These columns are to be left out of the rows.

    Parameters
    ----------
    schemas, names
        The schemas of the tables, and the columns of their rows.
    may_leave_out
        Whether leaving out columns that are not read keeps the answers.

    Returns
    -------
    The columns' names by their positions in the relation.

    Raises
    ------
    UnsupportedTypeError
        If a column that has to stay has an unsupported type.
    ArityError, ColumnError
        If the table has other columns than the relation.
    """
    declared = {declaration.relation: declaration.columns for declaration in rules.declarations}
    unused: dict[str, dict[int, str]] = {}
    for relation, columns in names.items():
        if relation not in rules.inputs or len(columns) != rules.arity[relation]:
            continue  # reported elsewhere
        unread = rules.unread(relation) if may_leave_out else frozenset()
        leaving = {}
        for position, i in enumerate(column_order(relation, columns, declared.get(relation))):
            kind, name = schemas[relation][columns[i]].dataType, columns[i]
            try:
                arrow_type(kind)
            except UnsupportedTypeError as error:
                if position not in unread or len(unread) == len(columns):
                    raise UnsupportedTypeError(f"relation '{relation}', column '{name}': {error}") from None
                leaving[position] = name
            else:
                is_wide = isinstance(kind, DecimalType) and kind.precision > MAX_DIGITS
                if is_wide and position in unread and len(unread) < len(columns):
                    leaving[position] = name
        if leaving:
            unused[relation] = leaving
    return unused


@entry_point
def maintain(
    sources: Mapping[str, DataFrame | Sequence[DataFrame]],
    program: str | Rules,
    *,
    checkpoint: str | PathLike[str],
    output: str | PathLike[str] | Receiver | None = None,
    format: str = "parquet",  # noqa: A002  # as Spark's own writers call it
    options: Mapping[str, str] | None = None,
    changes: Format | Mapping[str, Format | tuple[Format, Format]] = "auto",
    columns: Mapping[str, Sequence[str] | Mapping[str, str]] | Sequence[str] | None = None,
    key: Mapping[str, str | Sequence[str]] | None = None,
    order_by: str | Sequence[str] | Mapping[str, str | Sequence[str]] = (),
    layout: Layout | None = None,
    cells: int | None = None,
    backend: BackendName | None = None,
    bag: bool | None = None,
    language: Language | None = None,
    dialect: str = "duckdb",
    keep: Sequence[str] = (),
    outputs: Sequence[str] | None = None,
    threads: int | None = None,
    gpu_memory: float | str | None = None,
    emit_loaded: bool = True,
    **more: Any,
) -> View | CellView:
    """Return a view that keeps the answers of a program up to date; `View.start` starts it.

    Several streams are united, so that a micro-batch of Spark is one tick of the engine: the changes of one batch in
    all relations are processed at once. Tables (DataFrames that are not streams) are loaded before the first batch, as
    batch -1, once for all starts of the same checkpoint. The engine runs in the driver's process, or, on cells, in
    those of the executors.

    Parameters
    ----------
    sources
        For each relation that the program reads a DataFrame, stream or table, or both, ``[table, stream]``: the table
        is loaded, and the stream continues it, its columns matched by name. In bags, columns of unsupported types are
        left out if the program does not read them.
    program
        A query in Datalog, SQL or EDN, a motif, or rules. Tables of SQL and EDN are the sources, by name; those of a
        motif are ``edges`` and ``vertices``.
    checkpoint
        A folder for the state and for Spark's own checkpoint, on a local or mounted file system. Started again with
        the same folder, the view continues from it.
    output
        Destination of the changes of the answers. A folder: Parquet files, which `read_output` reads, each batch
        completely and exactly once. With another `format`, a path for the writer of this format, to which the output's
        name is appended; Delta tables get each batch exactly once. A function ``f(changes, batch)``: `changes` maps
        each output to an Arrow table with its columns and ``weight``; **after a crash it may be called again with the
        same batch id** and the same changes, so it should replace its earlier result for that id. With None, changes
        are only counted.
    format, options
        The format, if not Parquet, and options for its writer.
    changes
        Format of the sources' changes, see `normalise`; for all, or by relation, there also as a pair for its table
        and its stream.
    columns, key
        By relation, the columns of its rows, and those of them that must not be null; see `normalise`. For a motif, a
        list is the columns of its matches, as in `gpu_wcoj.find`, and ids are never null.
    order_by
        Columns with the order of the changes in a batch, for all sources or by relation. Without them, rows of a batch
        have no order, and the net weight of a row decides. The same holds for a table without these columns beside a
        stream with them.
    layout
        ``"one"``: one engine, in the driver. ``"hypercube"``: each of `cells` has an engine on some executor and holds
        the rows that agree with it; values of so many rows that one cell would hold too much are distributed over
        several cells, also if they become so frequent while the stream runs. ``"replicated"``: each cell holds all rows
        and works on its share of every change. ``"auto"``: one of these, depending on the rows in a cell, or one engine
        if Spark runs on this machine only or the program is recursive; `RunningView.explain` returns the choice and the
        reason. Groups are in the cells that their keys name, in both layouts on cells. The answers are the
        same. Checkpoint and output must be folders that every executor sees under the same path.
    cells
        Number of cells, of a layout with cells; by default one, or on a grid two, for each concurrent task.
    backend, bag, keep, outputs, threads, gpu_memory
        See `gpu_wcoj.program.Program`; bags by default for SQL only. The defaults of `backend`, `layout`, `cells`,
        `threads` and `gpu_memory` are the session's confs ``spark.gpuWcoj.backend``, ``.layout``, ``.cells``,
        ``.threads`` and ``.gpuMemory``. On cells, `threads` are those of one cell, `gpu_memory` is that of one
        process of an executor, and kept relations are stored in the cells that the rows' hashes name.
    language, dialect
        Language of the query; by default its first words decide, see `gpu_wcoj.view`. The dialect is a name of
        sqlglot's for SQL.
    emit_loaded
        Whether the answer over the loaded tables goes to the output, as batch -1. Without it, the output begins with
        the first change after it.
    more
        For a motif, ``where``, ``semantics``, ``id``, ``src`` and ``dst`` as in `gpu_wcoj.find`, and ``edge_id``: a
        column with a different value in each edge, which a motif needs if it tells edges with equal ends apart.

    Raises
    ------
    UnknownRelationError, ColumnError, SchemaError, TypeMismatchError, UsageError
        If sources, program and options do not fit together.
    UnsupportedError
        Over Spark Connect, as the engine would be in another process.
    """
    if not sources:
        raise UsageError.invalid_value(
            "sources", {}, "at least one source", "Pass a DataFrame for each relation that the program reads."
        )
    check_frames(sources)
    first = next(iter(sources.values()))
    frame = first[0] if isinstance(first, (list, tuple)) and first else first
    require_classic(frame, "maintain")  # type: ignore[arg-type]
    session = frame.sparkSession  # type: ignore[union-attr]
    call = {
        "layout": layout, "cells": cells, "backend": backend, "threads": threads, "gpu_memory": gpu_memory,
        "keep": keep, "outputs": outputs,
    }  # fmt: skip
    spark_options = SparkOptions.from_session(session, call)
    packing: Packing | None = None
    if is_motif(program, language):
        refuse_options(name for name, value in (("bag", bag), ("keep", keep), ("outputs", outputs)) if value)
        query, sources = _motif(sources, str(program), columns, more, (changes, order_by))
        program, language, bag, packing = query.rules, None, True, query.packing
        columns, key = query.readings(columns, more.get("edge_id")), query.keys.columns if key is None else key
        changes, order_by = _without_unread(changes, sources), _without_unread(order_by, sources)
    elif more:
        refuse_motif_options(more, _VIEW_MOTIF_OPTIONS)

    def reading(name: str) -> tuple[Reading, Reading]:
        return _readings(
            _option_for(changes, name, "auto"),
            _option_for(columns, name, None),
            _option_for(key, name, ()),
            _option_for(order_by, name, ()),
        )

    tables: Tables = {}
    if names_in(program, language):
        table_sources = sources_of(sources, tuple(sources), {name: reading(name) for name in sources})
        tables = {source.relation: columns_of(source.frame.schema, source.data) for source in table_sources}
    rules, is_bag = rules_of(program, language, dialect, bag, tables)
    reads = (parse(rules) if isinstance(rules, str) else rules).inputs

    program_options = replace(spark_options.program, bag=is_bag)

    def make() -> Program:
        return Program.from_options(rules, replace(program_options, inputs=reads))

    planned = make()
    inputs = planned.inputs
    for name in sources:
        if name not in inputs:
            raise UnknownRelationError(name, inputs, "relations that the program reads")
    check_required(planned.rules, inputs, sources, "Give a DataFrame for it.")
    readings = {name: reading(name) for name in inputs}
    for option in (changes, columns, key, order_by):
        if isinstance(option, Mapping) and (unknown := [name for name in option if name not in inputs]):
            raise UnknownRelationError(unknown[0], inputs, "relations that the program reads")
    each = sources_of(sources, inputs, readings)
    plain = parse(rules) if isinstance(rules, str) else rules
    names = {source.relation: source.data for source in each}
    leaving = unread_columns(plain, {source.relation: source.frame.schema for source in each}, names, is_bag)
    if leaving:
        rules = plain.without_columns(leaving)
        planned = make()
        for name, columns_left in leaving.items():
            of_table, of_stream = readings[name]
            left = list(columns_left.values())
            readings[name] = _without(of_table, names[name], left), _without(of_stream, names[name], left)
        each = sources_of(sources, inputs, readings)
    view_sources = Sources(each)
    place = folder_path(checkpoint, "checkpoint")
    sink = sink_of(session, output, format, options, packing)
    if isinstance(output, (str, PathLike)):
        for name in planned.outputs:
            check_columns(session, name, with_batch(planned.empty(name).to_arrow(), 0).column_names)
    spread, reason = resolve_layout(session, spark_options.layout, planned.rules)
    if spread == "one":
        return View(session, view_sources, make, place, sink, emit_loaded, spark_options.batch_rows, reason)
    cells_output: Path | ToCallable | None = None
    if isinstance(sink, ToCallable):
        cells_output = sink
    elif output is not None:
        cells_output = Path(str(output)).expanduser().absolute()
    return CellView(
        session, view_sources, rules, place, replace(spark_options, program=program_options),
        layout=cells_layout(spread), output=cells_output, emit_loaded=emit_loaded, packing=packing,
    )  # fmt: skip


def _motif(
    sources: Mapping[str, Any], text: str, columns: Any, more: Mapping[str, Any], how: tuple[Any, Any]
) -> tuple[MotifQuery, dict[str, Any]]:
    """Return a motif over sources, and the sources that it reads."""
    for name in more:
        if name not in _VIEW_MOTIF_OPTIONS:
            raise UsageError.unknown_name("option of a motif", name, _VIEW_MOTIF_OPTIONS)
    for name in sources:
        if name not in ("vertices", "edges"):
            raise UsageError.unknown_name("table of a motif", name, ("vertices", "edges"))
    if "edges" not in sources:
        raise UsageError.missing("a motif", "a table of edges", "Pass a DataFrame for 'edges'.")
    by_relation = columns if isinstance(columns, Mapping) else {}
    readings = {
        name: _readings(
            _option_for(how[0], name, "auto"), by_relation.get(name), (), _option_for(how[1], name, ())
        )
        for name in sources
    }  # fmt: skip
    schemas = {
        source.relation: StructType([source.frame.schema[name] for name in source.data])
        for source in sources_of(sources, tuple(sources), readings)
    }
    options = {name: value for name, value in more.items() if name != "edge_id"}
    requested = None if isinstance(columns, Mapping) else columns
    query = MotifQuery.from_schemas(text, schemas, MotifOptions(**options, columns=requested))
    if query.numbers_edges:
        edge_id = more.get("edge_id")
        if edge_id is None:
            raise UsageError.missing(
                "a motif that tells edges with equal ends apart",
                "a column that identifies edges",
                "Name it: edge_id='...'.",
            )
        if edge_id not in schemas["edges"].names:
            raise ColumnError("edges", edge_id, schemas["edges"].names)
    return query, {name: frames for name, frames in sources.items() if name in query.inputs}


def _without_unread(option: Any, sources: Mapping[str, Any]) -> Any:
    """Return an option by relation without those relations that a motif does not read."""
    if not isinstance(option, Mapping):
        return option
    return {name: value for name, value in option.items() if name in sources or name not in ("vertices", "edges")}


def refuse_motif_options(more: Iterable[str], motif_options: Collection[str]) -> None:
    """Raise for the first of these options, which only a motif may have."""
    name = next(iter(more))
    if name not in motif_options:
        raise UsageError.unknown_name("option", name, motif_options)
    raise UsageError.unsupported(f"the option '{name}' for a program that is not a motif", remedy="Leave it out.")


_VIEW_MOTIF_OPTIONS = ("where", "semantics", "id", "src", "dst", "edge_id")
"""The options of a motif in a view."""


def _readings(changes: Any, columns: Any, key: Any, order_by: Any) -> tuple[Reading, Reading]:
    """Return the options for reading a relation's table, and those for its stream."""
    of_table, of_stream = changes if isinstance(changes, tuple) else (changes, changes)
    return Reading(of_table, columns, key, order_by), Reading(of_stream, columns, key, order_by)


def _without(how: Reading, data: Sequence[str], leaving: Iterable[str]) -> Reading:
    """Return the options for reading these data columns without some of them."""
    remaining = [name for name in data if name not in leaving]
    if isinstance(how.columns, Mapping):
        return replace(how, columns={name: how.columns[name] for name in remaining})
    return replace(how, columns=remaining)


def _option_for(option: Any, name: str, default: Any) -> Any:
    """Return the value of an option for one relation: by its name, or the one for all."""
    if isinstance(option, Mapping):
        return option.get(name, default)
    return default if option is None else option

"""`maintain`: a program over streams and tables of Spark, as a view that can be started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from gpu_wcoj.backend import BackendName
from gpu_wcoj.errors import UnknownRelationError, UnsupportedError, UsageError, listed
from gpu_wcoj.program import Program
from gpu_wcoj.query.terms import Rules
from gpu_wcoj.spark.cells.view import CellView
from gpu_wcoj.spark.confs import confs_of, number
from gpu_wcoj.spark.formats import Format
from gpu_wcoj.spark.output import Receiver, sink_of
from gpu_wcoj.spark.progress import BATCH_ROWS
from gpu_wcoj.spark.session import require_classic
from gpu_wcoj.spark.sources import Reading, Sources, sources_of
from gpu_wcoj.spark.view import View

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BACKENDS: Final[tuple[BackendName, ...]] = ("auto", "cpu", "cuda")
LAYOUTS: Final = ("one", "auto", "hypercube", "replicated")


def maintain(
    sources: Mapping[str, DataFrame],
    program: str | Rules,
    *,
    checkpoint: str | PathLike[str],
    output: str | PathLike[str] | Receiver | None = None,
    format: str = "parquet",  # noqa: A002  # as Spark's own writers call it
    options: Mapping[str, str] | None = None,
    changes: Format | Mapping[str, Format] = "auto",
    columns: Mapping[str, Sequence[str] | Mapping[str, str]] | None = None,
    key: Mapping[str, str | Sequence[str]] | None = None,
    order_by: str | Sequence[str] | Mapping[str, str | Sequence[str]] = (),
    layout: Literal["one", "auto", "hypercube", "replicated"] | None = None,
    backend: BackendName | None = None,
    bag: bool = False,
    keep: Sequence[str] = (),
    outputs: Sequence[str] | None = None,
    threads: int | None = None,
    gpu_memory: float | str | None = None,
    emit_loaded: bool = True,
) -> View | CellView:
    """Keep the answers of a program up to date while its relations change; `View.start` starts it.

    Several streams become one, so that a micro-batch of Spark is one tick of the engine: what one batch brings for all
    relations is taken in at once. Tables (DataFrames that are no streams) are loaded before the first batch, as batch
    -1, once for all starts of the same checkpoint. The engine runs in the driver's process.

    Parameters
    ----------
    sources
        A DataFrame, stream or table, for each relation that the program reads.
    program
        Datalog text, or rules.
    checkpoint
        A folder for the state and for Spark's own checkpoint, on a local or mounted file system. Started again with
        the same one, the view goes on where it was.
    output
        Where the changes of the answers go. A folder: Parquet files, which `read_output` reads, each batch whole and
        exactly once. With another `format`, a path that this format's writer is given, with the output's name behind
        it; Delta tables get each batch exactly once. A function ``f(changes, batch)``: `changes` maps each output to an
        Arrow table with its columns and ``weight``; **after a crash it may be called again with the same batch id**
        and the same changes, so it should replace what it wrote under that id. None counts only.
    format, options
        The format, if not Parquet, and options for its writer.
    changes
        How the sources write changes down, see `normalise`; for all, or by relation.
    columns, key
        By relation, which columns make up its rows, and which of those must not be null; see `normalise`.
    order_by
        Columns that say in which order the rows of a batch happened, for all sources or by relation. Without, rows of
        a batch have no order, and the net weight of a row decides.
    layout
        ``"one"``: one engine, in the driver. ``"hypercube"``: each of ``spark.gpuWcoj.cells`` cells (by default as
        many as tasks run at a time) has an engine of its own on some executor and holds the rows that agree with it.
        ``"replicated"``: each holds all rows and works on its share of every change. ``"auto"``: one of these by what
        a cell would hold, or one engine where Spark runs on this machine alone; `explain` says which. The answers are
        the same. Checkpoint and output must be folders that every executor sees under the same path.
    backend, bag, keep, outputs, threads, gpu_memory
        See `gpu_wcoj.program.Program`. Of these and `layout`, what is not given is taken from the session's confs
        ``spark.gpuWcoj.backend``, ``.layout``, ``.threads`` and ``.gpuMemory``.
    emit_loaded
        Whether the answer over the loaded tables goes to the output, as batch -1. Without it, the output begins with
        what changes from there.

    Raises
    ------
    UnknownRelationError, ColumnError, SchemaError, TypeMismatchError, UsageError
        If sources, program and options do not go together.
    UnsupportedError
        Over Spark Connect, where the engine would be in another process.
    """
    if not sources:
        raise UsageError(
            "sources={}: nothing is given to read.\n  Give a DataFrame for each relation that the program reads."
        )
    first = next(iter(sources.values()))
    require_classic(first, "maintain")
    session = first.sparkSession
    confs = confs_of(session)
    spread = layout or confs.get("layout", "one")
    if spread not in LAYOUTS:
        raise UsageError(f"there is no layout '{spread}'.\n  The layouts are: {listed(LAYOUTS)}.")
    if spread == "auto" and str(session.sparkContext.master).split("[")[0] == "local":
        spread = "one"  # all tasks would run beside the driver, where one engine shares its state among threads

    def make() -> Program:
        return Program(
            program, bag=bag, keep=keep, outputs=outputs,
            backend=backend or _backend(confs.get("backend", "auto")),
            threads=threads if threads is not None else number(confs, "threads"),
            gpu_memory=gpu_memory if gpu_memory is not None else confs.get("gpuMemory"),
        )  # fmt: skip

    inputs = make().inputs
    readings = {
        name: Reading(_of(changes, name, "auto"), _of(columns, name, None), _of(key, name, ()), _of(order_by, name, ()))
        for name in inputs
    }
    for option in (changes, columns, key, order_by):
        if isinstance(option, Mapping) and (unknown := [name for name in option if name not in inputs]):
            raise UnknownRelationError(unknown[0], inputs, "relations that the program reads")
    found = sources_of(sources, inputs, readings)
    if spread != "one":
        _refuse_on_cells(spread, keep, gpu_memory, emit_loaded, output, format)
        return CellView(
            session, found, program if isinstance(program, str) else str(program),
            Path(checkpoint).expanduser().absolute(),
            None if output is None else Path(str(output)).expanduser().absolute(),
            layout="replicated" if spread == "replicated" else "hypercube" if spread == "hypercube" else "auto",
            cells=number(confs, "cells"), bag=bag, outputs=None if outputs is None else list(outputs),
            backend=backend or _backend(confs.get("backend", "auto")),
            threads=threads if threads is not None else number(confs, "threads"),
        )  # fmt: skip
    return View(
        session,
        Sources(found),
        make,
        Path(checkpoint).expanduser().absolute(),
        sink_of(session, output, format, options),
        emit_loaded,
        number(confs, "batchRows", BATCH_ROWS) or BATCH_ROWS,
    )


def _refuse_on_cells(
    layout: str, keep: Sequence[str], gpu_memory: object, emit_loaded: bool, output: object, written_as: str
) -> None:
    """Raise `UnsupportedError` for what only one engine in the driver does."""
    refused = {
        "keep": bool(keep),
        "gpu_memory": gpu_memory is not None,
        "emit_loaded=False": not emit_loaded,
        "a function as output": callable(output),
        f"format='{written_as}'": written_as != "parquet",
    }
    for what, given in refused.items():
        if given:
            raise UnsupportedError(f"layout='{layout}' does not take {what}.\n  Leave it out, or use layout='one'.")


def _of(option: Any, name: str, default: Any) -> Any:
    """An option for one relation: by its name, or that for all."""
    if isinstance(option, Mapping):
        return option.get(name, default)
    return default if option is None else option


def _backend(name: str) -> BackendName:
    for known in BACKENDS:
        if name == known:
            return known
    raise UsageError(f"the conf 'spark.gpuWcoj.backend' is '{name}'.\n  It is auto, cpu or cuda.")

"""One answer: DataFrames in, a DataFrame or a count out, nothing kept."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from gpu_wcoj.backend import BackendName
from gpu_wcoj.errors import UnknownRelationError, UsageError, listed
from gpu_wcoj.incoming import read_change
from gpu_wcoj.program import Program
from gpu_wcoj.query.terms import Rules
from gpu_wcoj.spark.confs import confs_of, number
from gpu_wcoj.spark.files import Attempt, json_schema
from gpu_wcoj.spark.scans import collected
from gpu_wcoj.spark.session import require_classic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def join(
    spark: SparkSession,
    program: str | Rules,
    frames: Mapping[str, DataFrame],
    *,
    output: str | None = None,
    path: str | PathLike[str] | None = None,
    bag: bool = False,
    backend: BackendName | None = None,
    threads: int | None = None,
) -> DataFrame:
    """The answer of a program over DataFrames, as a DataFrame; every column of theirs is data.

    Tables of plain Parquet files are read by the engine itself, others through Spark. The answer is written as Parquet,
    which Spark then reads.

    Parameters
    ----------
    program
        Datalog text, or rules.
    frames
        A DataFrame for each relation that the program reads.
    output
        Which output, if the program has several.
    path
        A new folder for the answer. By default a temporary one, which is removed when this process ends; on a cluster
        it has to be given, at a place that every executor sees.
    bag
        Keep exact weights instead of sets; the answer then has a column ``weight``.
    backend, threads
        See `gpu_wcoj.program.Program`; else as the session's confs say.

    Raises
    ------
    UnknownRelationError, UsageError
        If relations are missing, or not the program's.
    """
    engine = _engine(spark, program, bag, backend, threads)
    if output is None:
        if len(engine.outputs) != 1:
            raise UsageError(f"the program has the outputs {listed(engine.outputs)}.\n  Name one: output=...")
        (output,) = engine.outputs
    elif output not in engine.outputs:
        raise UnknownRelationError(output, engine.outputs, "outputs")
    changes = _read(engine, frames)
    attempt = Attempt(_folder(spark, path), None, 0)
    wanted = output

    def keep(name: str, piece: Any) -> None:
        if name == wanted:
            attempt.add(name, piece if bag else piece.with_weight_name(None))

    try:
        engine.step_pieces(changes, keep)
        files = attempt.finish()
    except BaseException:
        attempt.discard()
        raise
    empty = engine.empty(output)
    schema = StructType.fromJson(json_schema((empty if bag else empty.with_weight_name(None)).to_arrow()))
    if not files:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).parquet(*(str(attempt.folder / one.path) for one in files))


def count(
    spark: SparkSession,
    program: str | Rules,
    frames: Mapping[str, DataFrame],
    *,
    bag: bool = False,
    backend: BackendName | None = None,
    threads: int | None = None,
) -> dict[str, int]:
    """How many rows each output of a program has over DataFrames; they are counted without being listed.

    The parameters are those of `join`. In bag semantics, the sum of the rows' weights.
    """
    engine = _engine(spark, program, bag, backend, threads)
    return {name: change.net for name, change in engine.step_counts(_read(engine, frames)).items()}


def _engine(
    spark: SparkSession, program: str | Rules, bag: bool, backend: BackendName | None, threads: int | None
) -> Program:
    require_classic(spark, "join")
    confs = confs_of(spark)
    chosen: Any = backend or confs.get("backend", "auto")
    return Program(program, bag=bag, backend=chosen, threads=threads or number(confs, "threads"))


def _read(engine: Program, frames: Mapping[str, DataFrame]) -> dict[str, Any]:
    for name, frame in frames.items():
        if name not in engine.inputs:
            raise UnknownRelationError(name, engine.inputs, "relations that the program reads")
        require_classic(frame, "join")
        if frame.isStreaming:
            raise UsageError(f"the DataFrame of '{name}' is a stream.\n  Use maintain for streams.")
    changes: dict[str, Any] = {}
    for name in engine.inputs:
        if name not in frames:
            raise UnknownRelationError(name, frames, "relations given")
        table, _ = collected(frames[name])
        arity, declared = engine.arity(name), engine.declared.get(name)
        changes[name] = read_change(
            name, table, arity, declared, [None] * arity, engine.dictionaries, reserves_weight=False
        )
    return changes


def _folder(spark: SparkSession, path: str | PathLike[str] | None) -> Path:
    if path is not None:
        folder = Path(fspath(path)).expanduser().absolute()
        if folder.exists() and any(folder.iterdir()):
            raise UsageError(f"the folder '{folder}' holds files already.\n  Name another one in path.")
        return folder
    if not str(spark.sparkContext.master).startswith("local["):
        raise UsageError(
            f"this session runs on '{spark.sparkContext.master}', whose executors do not see this machine's files.\n"
            "  Name a folder that they see: path=..."
        )
    folder = Path(tempfile.mkdtemp(prefix="gpu_wcoj-join-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder

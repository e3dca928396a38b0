"""The command ``gpu-wcoj``: run a program over files, explain it, generate data, run the benchmark."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from cyclopts import App, CycloptsError, Parameter

from gpu_wcoj import __version__
from gpu_wcoj.errors import GpuWcojError, OutputFileError, UnknownRelationError, UsageError
from gpu_wcoj.query.languages import Language

if TYPE_CHECKING:
    from gpu_wcoj.files.spec import InputSpec
    from gpu_wcoj.motifs import MotifOptions, MotifProgram
    from gpu_wcoj.program import Program

ERROR_STATUS: Final = 2
INTERRUPTED_STATUS: Final = 130
_DEBUG_VARIABLE: Final = "GPU_WCOJ_DEBUG"

app = App(
    name="gpu-wcoj",
    help="Keep the answers of multi-way joins up to date while their relations change.",
    version=__version__,
    version_flags=["--version"],
    help_format="plaintext",
    suppress_keyboard_interrupt=False,
    result_action="return_value",
)

_TEXT = Parameter(name="-e", help="The text of the program, instead of a file.", allow_leading_hyphen=True)
_LANGUAGE = Parameter(help="datalog, sql, motif or edn; if not said, by the file's suffix .dl .sql .motif .edn.")
_DIALECT = Parameter(help="The dialect of SQL, by the name that sqlglot has for it.")
_AS = Parameter(name=("--format", "--as"))
_FLAG = Parameter(negative="")
_FILES = Parameter(negative="", allow_leading_hyphen=True)


@Parameter(name="*")
@dataclass
class _Motif:
    """What is asked of the matches of a motif."""

    where: str | None = None
    """Of a motif: what columns have to satisfy, such as 't.amount > 900'."""
    semantics: Literal["homomorphism", "edges-distinct", "nodes-distinct"] = "homomorphism"
    """Of a motif: what has to differ in a match."""
    show: str | None = None
    """Of a motif: what matches show, such as a.id,t.amount; all elements that have names if not said otherwise."""
    id: str = "id"
    """Of a motif: the vertices' column of names."""
    src: str = "src"
    """Of a motif: the edges' column of beginnings."""
    dst: str = "dst"
    """Of a motif: the edges' column of ends."""


@app.command
def run(
    program: Annotated[Path | None, Parameter(help="A file with the text of the program.")] = None,
    /,
    *,
    text: Annotated[str | None, _TEXT] = None,
    language: Annotated[Language | None, _LANGUAGE] = None,
    dialect: Annotated[str, _DIALECT] = "duckdb",
    input: Annotated[list[str] | None, _FILES] = None,  # noqa: A002  # the option is called --input
    changes: Annotated[list[str] | None, _FILES] = None,
    tick_rows: int | None = None,
    count: Annotated[bool, _FLAG] = False,
    output: Path | None = None,
    checkpoint: Path | None = None,
    backend: Literal["auto", "cpu", "cuda"] = "auto",
    gpu_memory: str | None = None,
    route: str = "auto",
    threads: int | None = None,
    strategy: Literal["auto", "wcoj", "binary"] = "auto",
    bag: Annotated[bool, _FLAG] = False,
    motif: _Motif | None = None,
    memory: str | None = None,
    json: Annotated[bool, _FLAG] = False,
) -> None:
    """Run a program over files: load the inputs as the first tick, then feed the changes tick by tick.

    A file is given as RELATION=PATH?option=value&...: Parquet, Arrow IPC, CSV, TSV or whitespace text, gzipped or
    not. Options are columns=0,1 weight=2 tick=3 (columns by position from 0, or by name), sep=tab header=no skip=1
    types=int64,string (text only) and format=parquet|arrow|csv|tsv|text.

    A program can name its files itself, beside its own: .input edge(filename="edge.csv", delimiter=",") and
    .output path(filename="path.csv"). Without parameters, and if no file is given here, .input edge reads
    edge.facts and .output path writes path.csv, fields separated by tabs.

    Parameters
    ----------
    input
        A file that is loaded before all changes; once for each relation.
    changes
        A file whose rows follow in order, cut into ticks; once for each relation.
    tick_rows
        Rows of changes to a tick, 1000 if not said otherwise; not where the files have tick columns.
    count
        Count the answer without ever producing it.
    output
        A folder for the changes of every tick, as RELATION/tick-000000000.parquet with a weight and a tick column.
    checkpoint
        A folder that holds the state after every tick: the same command goes on there after it was stopped or killed.
    backend
        Where the state lives and the joins run; auto is the GPU where there is one, else the CPU.
    gpu_memory
        How much of the GPU's memory may be used, such as 8GB or 50%; all of it if not said otherwise.
    route
        Where ticks run if the state is on a GPU: auto, device, cpu, or from how many changed rows on there.
    threads
        How many threads they use.
    strategy
        How relations are joined: wcoj meets them all in each variable, binary takes one after the other, and auto
        chooses by what it expects that to cost.
    bag
        Keep exact weights instead of sets; SQL and motifs do so always.
    motif
        What is asked of the matches of a motif.
    memory
        How much memory the rows read at one time may take, such as 4GB; half of the machine's if not said otherwise.
    json
        Print one line of JSON a tick and one at the end.
    """
    from gpu_wcoj.asked import Asked
    from gpu_wcoj.files.budget import memory_budget
    from gpu_wcoj.files.spec import parse_input

    budget = memory_budget(memory)
    loaded = tuple(map(parse_input, input or ()))
    fed = tuple(map(parse_input, changes or ()))
    if not loaded and not fed and program is None and text is None:
        raise UsageError("there is nothing to run on.\n  Give --input RELATION=PATH, --changes RELATION=PATH, or both.")
    if tick_rows is not None and tick_rows < 1:
        raise UsageError(f"--tick-rows is {tick_rows}.\n  It is 1 or more.")
    if count and output is not None:
        raise UsageError("--count produces no rows, so there is nothing for --output.\n  Leave out one of the two.")
    asked = Asked(program, text, language, dialect, loaded, fed, budget, _motif(motif))
    engine = asked.program(
        bag=bag, backend=backend, gpu_memory=gpu_memory, threads=threads, strategy=strategy,
        route=int(route) if route.isdecimal() else route,
    )  # fmt: skip
    from gpu_wcoj.directives import outputs_of
    from gpu_wcoj.runner import Job, run_job

    _check_files(engine, loaded, fed)
    given = {spec.relation for spec in (*loaded, *fed)}
    folder = Path() if program is None else program.parent
    named, declared = _named(engine, folder, given)
    if not given and not engine.rules.directives and engine.inputs:
        raise UsageError(
            "there is nothing to run on.\n  Give --input RELATION=PATH, --changes RELATION=PATH, or both;"
            " or name files in the program, by lines .input."
        )
    results = () if count or output is not None else outputs_of(engine.rules, folder, bool(given))
    inputs = (*loaded, *named)
    run_job(engine, Job(inputs, fed, tick_rows, count, output, budget, json, checkpoint, declared, results))


@app.command
def explain(
    program: Annotated[Path | None, Parameter(help="A file with the text of the program.")] = None,
    /,
    *,
    text: Annotated[str | None, _TEXT] = None,
    language: Annotated[Language | None, _LANGUAGE] = None,
    dialect: Annotated[str, _DIALECT] = "duckdb",
    input: Annotated[list[str] | None, _FILES] = None,  # noqa: A002  # the option is called --input
    changes: Annotated[list[str] | None, _FILES] = None,
    tick_rows: int | None = None,
    stats: Path | None = None,
    save_stats: Path | None = None,
    analyze: Annotated[bool, _FLAG] = False,
    bounds: Annotated[bool, _FLAG] = False,
    count: Annotated[bool, _FLAG] = False,
    format: Annotated[Literal["text", "json", "mermaid", "svg", "datalog"], _AS] = "text",  # noqa: A002  # its name
    output: Path | None = None,
    backend: Literal["auto", "cpu", "cuda"] = "auto",
    threads: int | None = None,
    strategy: Literal["auto", "wcoj", "binary"] = "auto",
    bag: Annotated[bool, _FLAG] = False,
    motif: _Motif | None = None,
    memory: str | None = None,
) -> None:
    """Print how a program is maintained: each delta path with its seed, its variables and their extenders.

    The plan depends on what the relations hold. Without files, nothing is known of them. Files are given as for run.

    Parameters
    ----------
    input
        A file that is loaded before all changes; once for each relation.
    changes
        A file whose rows follow in order, cut into ticks; once for each relation.
    tick_rows
        Rows of changes to a tick, 1000 if not said otherwise; not where the files have tick columns.
    stats
        A folder that says what relations hold: statistics that --save-stats wrote, or a checkpoint of the program.
    save_stats
        A folder for what the relations hold after all files, as statistics.json.
    analyze
        Also what the last tick did, measured: per level prefixes, bound on the work, proposals, survivors, bytes, time.
    bounds
        Also how many prefixes each level can have for one changed row at most, by linear programs (needs SciPy).
    count
        Let that tick count the answer without producing it.
    format
        As text, json, mermaid (a flowchart) or svg (a drawing); or as datalog, which is the program itself.
    output
        A file to write to, instead of the terminal.
    backend
        Where the state lives and the joins run; auto is the GPU where there is one, else the CPU.
    threads
        How many threads they use.
    strategy
        How relations are joined: auto, wcoj or binary, as for run.
    bag
        Keep exact weights instead of sets; SQL and motifs do so always.
    motif
        What is asked of the matches of a motif.
    memory
        How much memory the rows read at one time may take, such as 4GB; half of the machine's if not said otherwise.
    """
    from gpu_wcoj.asked import Asked
    from gpu_wcoj.files.budget import memory_budget
    from gpu_wcoj.files.spec import parse_input

    budget = memory_budget(memory)
    loaded = tuple(map(parse_input, input or ()))
    fed = tuple(map(parse_input, changes or ()))
    if tick_rows is not None and tick_rows < 1:
        raise UsageError(f"--tick-rows is {tick_rows}.\n  It is 1 or more.")
    asked = Asked(program, text, language, dialect, loaded, fed, budget, _motif(motif))
    engine = asked.program(bag=bag, backend=backend, threads=threads, strategy=strategy)
    from gpu_wcoj.analysis import explained
    from gpu_wcoj.runner import Job

    _check_files(engine, loaded, fed)
    named: tuple[InputSpec, ...] = ()
    declared: dict[str, tuple[str | None, ...]] = {}
    if stats is None and (loaded or fed or analyze or save_stats is not None):
        folder = Path() if program is None else program.parent
        named, declared = _named(engine, folder, {spec.relation for spec in (*loaded, *fed)})
    job = Job((*loaded, *named), fed, tick_rows, count, None, budget, False, declared=declared)
    shown = explained(engine, job, stats, save_stats, analyze, bounds, format).rstrip("\n") + "\n"
    if output is None:
        sys.stdout.write(shown)
        return
    try:
        output.write_text(shown, encoding="utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputFileError(f"'{output}' cannot be written: {reason}.\n  Name another file.") from error


@app.command
def calibrate(*, rows: int = 1_000_000, backend: Literal["auto", "cuda"] = "auto") -> None:
    """Measure below how many changed rows ticks are faster on the CPU than on the GPU; programs go by it from then on.

    Parameters
    ----------
    rows
        Edges of the generated graph on which ticks are measured.
    backend
        Which GPU: auto is the one that is found.
    """
    from gpu_wcoj.backend import select_backend
    from gpu_wcoj.routing.calibrate import calibrate as measured
    from gpu_wcoj.routing.store import store

    if rows < 100:
        raise UsageError(f"--rows is {rows}.\n  It is 100 or more.")
    device, twin = select_backend(backend), select_backend("cpu")
    if device.device is None:
        raise UsageError("there is no GPU here, so every tick runs on the CPU.\n  There is nothing to measure.")
    found = measured(device, twin, rows)
    print(found)
    print(f"stored in {store(device, twin, found.model)}")


@app.command
def bench(
    *,
    suite: Literal["quick", "varied", "full", "tiny"] = "quick",
    strategy: Literal["wcoj", "binary", "auto"] | None = None,
    rivals: str = "all",
    report: Path | None = None,
    threads: int = 1,
    workloads: str = "",
) -> None:
    """Measure the strategies of joining beside each other and beside rivals; every answer is checked before its time.

    It needs the sources: what pip installs is the engine alone.

    Parameters
    ----------
    suite
        quick takes five minutes on two processors, full some hours; varied takes some minutes more than quick, varies
        changes, state and skew, and asks no rivals; tiny only shows that everything runs.
    strategy
        One of the engine's; by default all of them, in turn.
    rivals
        Some of kept,duckdb,ladybug,graphblas,spark,dogs3; all or none. What is not installed is left out, and said.
    report
        A folder for the results as JSON, and for REPORT.md and report.html, made of all results there; by default
        there is no report, and results go to .run/bench of the sources.
    threads
        How many every contender may use.
    workloads
        Only these of the suite's, such as triangle,path3; random for the queries that chance writes.
    """
    main_of_bench = _bench()
    if threads < 1:
        raise UsageError(f"--threads is {threads}.\n  It is 1 or more.")
    wrong = main_of_bench(suite, strategy, rivals, report, threads, tuple(filter(None, workloads.split(","))))
    if wrong:
        raise GpuWcojError(f"{wrong} answers were wrong, as the lines above say.\n  Please report it.")


app.command("gpu_wcoj.spark.command:app", name="spark", help="Run programs on Apache Spark.")

generate = App(name="generate", help="Write data that the program makes itself, the same on every machine.")
app.command(generate)


@generate.command
def payments(
    *,
    output: Path,
    transfers: int = 200_000,
    accounts: int = 20_000,
    seed: int = 1,
    tick_rows: int = 1000,
    files: int | None = None,
) -> None:
    """A stream of payments and their reversals, as Parquet with columns src, dst, weight and tick.

    Parameters
    ----------
    output
        The file to write.
    transfers
        How many payments; a quarter of them is reversed later on.
    accounts
        How many accounts.
    seed
        Of the random numbers.
    tick_rows
        Changes to a tick.
    files
        Write so many files into a folder instead, as Spark reads a stream: their times are a second apart.
    """
    from gpu_wcoj import datasets
    from gpu_wcoj.files.output import write_parts

    stream = datasets.payments(transfers, accounts, seed, tick_rows=tick_rows)
    if files is None:
        _write(stream, output)
    elif files < 1:
        raise UsageError(f"--files is {files}.\n  It is 1 or more.")
    else:
        write_parts(stream, output, files)


@generate.command
def rmat(
    *,
    output: Path,
    scale: int = 17,
    edges: int = 2_000_000,
    seed: int = 1,
    undirected: Annotated[bool, _FLAG] = False,
) -> None:
    """A skewed random graph, as Parquet with columns src and dst.

    Parameters
    ----------
    output
        The file to write.
    scale
        There are 2**scale vertices.
    edges
        How many directed edges.
    seed
        Of the random numbers.
    undirected
        Each edge once, smaller vertex first, in random order.
    """
    from gpu_wcoj import datasets

    graph = datasets.rmat(scale, edges, seed)
    if undirected:
        graph = datasets.undirected(graph)
    _write({"src": graph[:, 0], "dst": graph[:, 1]}, output)


def _motif(given: _Motif | None) -> MotifOptions:
    from gpu_wcoj.motifs import MotifOptions

    return MotifOptions() if given is None else MotifOptions(**vars(given))


def _bench() -> Callable[..., int]:
    """What runs the benchmark, of the sources that this package is a part of.

    Raises
    ------
    UsageError
        If the package was installed without them.
    """
    here = Path(__file__).resolve().parents[1]
    if not (here / "bench" / "suite").is_dir():
        raise UsageError(
            "the benchmark is not installed: it is a part of the sources, in the folder bench.\n"
            "  Get the sources of gpu_wcoj, and run 'make bench-suite' there."
        )
    if str(here) not in sys.path:
        sys.path.insert(0, str(here))
    from bench.suite.command import main as run_suite

    return run_suite


def _named(
    engine: Program | MotifProgram, folder: Path, given: Collection[str]
) -> tuple[tuple[InputSpec, ...], dict[str, tuple[str | None, ...]]]:
    """The files that a program names itself, and the types that it declares for them."""
    from gpu_wcoj.directives import inputs_of

    named = tuple(spec for spec in inputs_of(engine.rules, folder, given) if not _is_empty(spec.path))
    declared = {one.relation: one.types for one in engine.rules.declarations}
    return named, {spec.relation: declared[spec.relation] for spec in named if spec.relation in declared}


def _check_files(program: Program | MotifProgram, loaded: Sequence[InputSpec], fed: Sequence[InputSpec]) -> None:
    _check_relations(program, loaded, "--input")
    _check_relations(program, fed, "--changes")
    if ticked := [spec for spec in loaded if spec.tick is not None]:
        raise UsageError(
            f"'{ticked[0]}' has a tick column, but --input is one tick.\n  Use --changes, or leave it out."
        )


def _is_empty(path: Path) -> bool:
    """Whether a file is there and has no rows: what another program writes of an empty relation."""
    return path.is_file() and path.stat().st_size == 0


def _check_relations(program: Program | MotifProgram, specs: Sequence[InputSpec], option: str) -> None:
    seen: set[str] = set()
    for spec in specs:
        if spec.relation not in program.inputs:
            raise UnknownRelationError(spec.relation, program.inputs, "relations that the program reads")
        if spec.relation in seen:
            raise UsageError(f"{option} names relation '{spec.relation}' twice.\n  Put its rows into one file.")
        seen.add(spec.relation)


def _write(columns: dict[str, Any], path: Path) -> None:
    from gpu_wcoj.files.output import write_columns

    write_columns(columns, path)


def _complain(message: str) -> None:
    """Print an error; characters that would steer the terminal are shown, not sent."""
    safe = "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in message)
    sys.stderr.write(f"gpu-wcoj: {safe}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status: 0, 2 after an error, 130 after Ctrl-C."""
    try:
        app(list(sys.argv[1:] if arguments is None else arguments), exit_on_error=False, print_error=False)
        sys.stdout.flush()
    except CycloptsError as error:
        _complain(f"{error}\n  See gpu-wcoj --help.")
        return ERROR_STATUS
    except BrokenPipeError:  # the reader of the output has gone: nothing is left to say, nor to flush at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        _complain("interrupted.")
        return INTERRUPTED_STATUS
    except (GpuWcojError, OSError) as error:
        _complain(str(error))
        return ERROR_STATUS
    except MemoryError:
        _complain("out of memory.\n  Use smaller ticks (--tick-rows), or --count.")
        return ERROR_STATUS
    except Exception as error:
        if os.environ.get(_DEBUG_VARIABLE):
            raise
        _complain(
            f"internal error, {type(error).__name__}: {error}\n"
            f"  This is a mistake in gpu-wcoj; {_DEBUG_VARIABLE}=1 shows where. Please report it."
        )
        return ERROR_STATUS
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

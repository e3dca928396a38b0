"""The command ``gpu-wcoj``: run and explain programs, generate data, run the benchmark."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from io import RawIOBase, TextIOWrapper
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from cyclopts import App, CycloptsError

from gpu_wcoj import __version__
from gpu_wcoj import backend as backends
from gpu_wcoj.cli import FLAG
from gpu_wcoj.errors import GpuWcojError, UsageError
from gpu_wcoj.spark.session import find_java

# The command ``gpu-wcoj bench``: a comparison of join strategies and of rival engines.


def bench(
    *,
    suite: Literal["quick", "varied", "skewed", "large", "full", "tiny"] = "quick",
    strategy: Literal["wcoj", "binary", "auto"] | None = None,
    rivals: str = "all",
    report: Path | None = None,
    threads: int = 1,
    workloads: str = "",
    resume: bool = False,
    limit: float | None = None,
    rounds: int | None = None,
    hours: float | None = None,
) -> None:
    """Compare join strategies and rival engines; every answer is checked before it is timed.

    It needs the sources: what pip installs is the engine alone. Results are written after every case, so a run may be
    ended at any time.

    Parameters
    ----------
    suite
        quick takes four minutes on two processors, full some hours; varied takes some more than quick, varies
        changes, state and skew, without rivals; skewed takes cyclic patterns from small states to larger ones;
        large takes up to a million insertions into states of millions; tiny only shows that everything runs.
    strategy
        One of the engine's; by default all of them, in turn.
    rivals
        Some of kept,duckdb,ladybug,graphblas,spark,dogs3; all or none. Those that are not installed are named and left
        out.
    report
        A folder for the results as JSON, and for REPORT.md and report.html, made of all results there; by default
        there is no report, and results go to .run/bench of the sources.
    threads
        Maximum threads of every contender.
    workloads
        Some of the suite's workloads, such as triangle,path3; random for the random queries.
    resume
        Go on with the results of a run that was ended, of the same commit and settings.
    limit
        Seconds that a contender may take to load, or for a round; the suite's own limits by default.
    rounds
        Maximum rounds of each case; by default as many as the suite says.
    hours
        Hours after which no further case begins.
    """
    main_of_bench = _bench()
    lower_limits: list[tuple[str, float | None, float]] = [("threads", threads, 1), ("rounds", rounds, 1)]
    lower_limits += [("limit", limit, 0.001), ("hours", hours, 0.0)]
    for name, value, lowest in lower_limits:
        if value is not None and value < lowest:
            raise UsageError.invalid_value(f"--{name}", value, f"at least {lowest:g}")
    named = tuple(filter(None, workloads.split(",")))
    wrong = main_of_bench(
        suite, strategy, rivals, report, threads, named, resume=resume, limit=limit, rounds=rounds, hours=hours
    )
    if wrong:
        raise GpuWcojError(f"{wrong} answers were wrong, as the lines above say.\n  Please report it.")


def _bench() -> Callable[..., int]:
    """Return the main function of the benchmark in the sources of this package.

    Raises
    ------
    UsageError
        If the package was installed without them.
    """
    here = Path(__file__).resolve().parents[2]
    if not (here / "bench" / "suite").is_dir():
        raise UsageError(
            "the benchmark is not installed: it is a part of the sources, in the folder bench.\n"
            "  Get the sources of gpu_wcoj, and run 'make bench-suite' there."
        )
    if str(here) not in sys.path:
        sys.path.insert(0, str(here))
    from bench.suite.command import main as run_suite

    return run_suite


# The command ``gpu-wcoj calibrate``: measure which ticks are faster on the GPU.


def calibrate(*, rows: int = 1_000_000, backend: Literal["auto", "cuda"] = "auto") -> None:
    """Measure the cost of a changed row and of a joined value on GPU and CPU, to route ticks.

    Parameters
    ----------
    rows
        Edges of the generated graph on which ticks are measured.
    backend
        The GPU; auto is the first one found.
    """
    from gpu_wcoj.engine.calibrate import calibrate as measure_costs
    from gpu_wcoj.engine.replicas import store

    if rows < 100:
        raise UsageError.invalid_value("--rows", rows, "an integer from 100 on")
    device, twin = backends.select_backend(backend), backends.select_backend("cpu", is_lasting=True)
    if device.device is None:
        raise UsageError("there is no GPU here, so every tick runs on the CPU.\n  There is nothing to measure.")
    calibration = measure_costs(device, twin, rows)
    print(calibration)
    print(f"stored in {store(device, twin, calibration.model)}")


# The command ``gpu-wcoj warm``: compile the kernels ahead of their use.


def warm() -> None:
    """Compile the kernels for the CPU now, for all processes that use the same folder.

    Without it a process of lowest priority compiles them while the first programs run on slower kernels. The folder is
    in the user's cache, or below NUMBA_CACHE_DIR; a copy of it on machines of the same kind serves as well. Processes
    that are started together, also on several machines that share the folder, compile once.
    """
    from cpu_fallback import compilation

    try:
        folder = compilation.cache_folder()
    except RuntimeError as error:
        raise UsageError.missing("the cache of kernels", "a folder", "Set NUMBA_CACHE_DIR to one.") from error
    try:
        seconds = compilation.compile_kernels(folder, _tell_part)
    except ImportError as error:
        raise GpuWcojError.with_parts(
            f"the kernels cannot be compiled: {error}", remedy="Install numba; without it the NumPy kernels are used."
        ) from error
    if seconds is None:
        print(f"all kernels are in {folder}")
    else:
        print(f"compiled in {seconds:.0f} s into {folder}")


def _tell_part(name: str, part: int, n_parts: int) -> None:
    sys.stderr.write(f"compiling {part} of {n_parts}: {name}\n")


# The command ``gpu-wcoj doctor``: what is installed, and what is missing.


_PARTS: Final = (
    ("numpy", "", ""),
    ("pyarrow", "", ""),
    ("numba", "fast kernels for the CPU", "pip install numba"),
    ("sqlglot", "SQL", "pip install 'gpu_wcoj[sql]'"),
    ("duckdb", "functions and queries of SQL that the engine leaves to DuckDB", "pip install 'gpu_wcoj[sql]'"),
    ("scipy", "bounds on the rows of joins", "pip install 'gpu_wcoj[bounds]'"),
    ("prompt-toolkit", "editing of lines in gpu-wcoj repl", "pip install 'gpu_wcoj[repl]'"),
    ("pyspark", "gpu_wcoj.spark", "pip install 'gpu_wcoj[spark]'"),
)
"""Per distribution, what it is for and how to get it."""


def doctor() -> None:
    """Print what is installed, which processors are used, and what to install for the rest."""
    from cpu_fallback import compilation

    lines = [("gpu_wcoj", __version__), ("python", f"{platform.python_version()} on {platform.platform()}")]
    for name, purpose, remedy in _PARTS:
        try:
            lines.append((name, version(name)))
        except PackageNotFoundError:
            lines.append((name, f"missing, for {purpose}: {remedy}"))
    try:
        if compilation.has_numba():
            folder = compilation.cache_folder()
            state = "compiled" if compilation.is_complete(folder) else "not compiled yet; gpu-wcoj warm does it now"
            lines.append(("CPU kernels", f"{state}, in {folder}"))
        else:
            lines.append(("CPU kernels", "those of NumPy, as numba is missing"))
    except RuntimeError:
        lines.append(("CPU kernels", "compiled by each process: set NUMBA_CACHE_DIR to a folder that can be written"))
    try:
        lines.append(("GPU", str(backends.select_backend("cuda").device)))
    except GpuWcojError as error:
        lines.append(("GPU", f"not used: {error}"))
    try:
        java = find_java()
        lines.append(("Java", f"{java.version}, {java.program}"))
    except GpuWcojError as error:
        lines.append(("Java", f"missing, for gpu_wcoj.spark: {error}"))
    width = max(len(name) for name, _ in lines)
    for name, text in lines:
        print(f"{name:<{width}}  " + text.replace("\n", f"\n{'':<{width}}  "))


# The command ``gpu-wcoj generate``: reproducible data.


generate = App(name="generate", help="Write data that the program makes itself, the same on every machine.")


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
    """Write payments and their reversals as Parquet: columns src, dst, weight and tick.

    Parameters
    ----------
    output
        The file to write.
    transfers
        Number of payments; a quarter of them is reversed later.
    accounts
        Number of accounts.
    seed
        Seed of the random numbers.
    tick_rows
        Number of changes per tick.
    files
        Write this many files into a folder instead, as Spark reads a stream: their times are a second apart.
    """
    from gpu_wcoj import datasets
    from gpu_wcoj.files.output import write_parts

    stream = datasets.payments(transfers, accounts, seed, tick_rows=tick_rows)
    if files is None:
        _write(stream, output)
    elif files < 1:
        raise UsageError.invalid_value("--files", files, "an integer from 1 on")
    else:
        write_parts(stream, output, files)


@generate.command
def rmat(
    *,
    output: Path,
    scale: int = 17,
    edges: int = 2_000_000,
    seed: int = 1,
    undirected: Annotated[bool, FLAG] = False,
) -> None:
    """Write a skewed random graph as Parquet with columns src and dst.

    Parameters
    ----------
    output
        The file to write.
    scale
        The graph has 2**scale vertices.
    edges
        Number of directed edges.
    seed
        Seed of the random numbers.
    undirected
        Write each edge once, smaller vertex first, in random order.
    """
    from gpu_wcoj import datasets

    graph = datasets.rmat(scale, edges, seed)
    if undirected:
        graph = datasets.undirected(graph)
    _write({"src": graph[:, 0], "dst": graph[:, 1]}, output)


def _write(columns: dict[str, Any], path: Path) -> None:
    from gpu_wcoj.files.output import write_columns

    write_columns(columns, path)


ERROR_STATUS: Final = 2
"""Exit status after an error."""
INTERRUPTED_STATUS: Final = 130
"""Exit status after Ctrl-C: 128 + SIGINT."""
BROKEN_PIPE_STATUS: Final = 141
"""Exit status if the reader of the output closed the pipe: 128 + SIGPIPE."""
_DEBUG_VARIABLE: Final = "GPU_WCOJ_DEBUG"
"""The environment variable with which internal errors keep their traceback."""

_RUN: Final = """Run a program, or a query, over files.

    gpu-wcoj run -e "SELECT count(*) FROM e" --input e=edges.csv

The inputs are loaded as the first tick, then the changes are applied. The answers are printed at the end.

A file is given as RELATION=PATH?option=value&...: Parquet, Arrow IPC, lines of JSON, CSV, TSV or whitespace text,
compressed or not; a folder or a pattern stands for its files. Options are columns=0,1 weight=2 tick=3 (columns by
position from 0, or by name), sep=tab header=no skip=1 types=int64,string (text only) and
format=parquet|arrow|json|csv|tsv|text. PATH is - for standard input, which is text without names of columns unless
format is set: edge=-?format=csv. Options follow the last ?; if a file with the complete name exists, ? and & are part
of its name. Columns with names go by name if the relation has names, too: declared, or of an earlier file. SQL can name
files in FROM, as in SELECT * FROM 'edge.csv'.

A program can name its own files: .input edge(filename="edge.csv", delimiter=",") and .output path(filename="path.csv").
Without parameters, and if the command line names no file, .input edge reads edge.facts and .output path writes
path.csv, with fields separated by tabs. -F and -D name the folders of these files, as for Soufflé; -D- prints the
relations. The exit status is 1 if a line .test path 3 expects another number of rows."""
_EXPLAIN: Final = """Print the plan of a program: how each change is joined.

    gpu-wcoj explain -e "hop(a, c) :- e(a, b), e(b, c)." --input e=edges.csv

The plan depends on the rows of the relations; without files it uses no statistics. Files have the form as for run."""
_REPL: Final = """Type facts, rules and queries; answers are kept up to date.

Statements end with a dot, SQL with a semicolon; .help lists the commands. Lines that are not typed in a terminal are
carried out one after the other, up to the first mistake. With prompt_toolkit, the extra repl, lines can be edited and
found again."""

app = App(
    name="gpu-wcoj",
    help="Keep the answers of multi-way joins up to date while their relations change.",
    version=__version__,
    version_flags=["--version"],
    help_format="markdown",
    suppress_keyboard_interrupt=False,
    result_action="return_value",
)

# The help of commands that are loaded when they run.
app.command("gpu_wcoj.cli.run:run", name="run", help=_RUN)
app.command("gpu_wcoj.cli.run:explain", name="explain", help=_EXPLAIN)
app.command("gpu_wcoj.cli.repl:repl", name="repl", help=_REPL)
app.command(calibrate)
app.command(warm)
app.command(doctor)
app.command(bench)
app.command("gpu_wcoj.spark.command:app", name="spark", help="Run programs on Apache Spark.")
app.command("gpu_wcoj.cli.run:convert", name="convert", help="Write the rows of files to a file of another format.")
app.command(generate)
app.register_install_completion_command(help="Install completion of commands and options for bash, zsh or fish.")


def _complain(message: str) -> None:
    """Print an error; control characters are escaped."""
    safe = "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in message)
    sys.stderr.write(f"gpu-wcoj: {safe}\n")


def _ensure_streams() -> None:
    """Open standard streams that are closed; stdout escapes characters it cannot encode."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115  # for as long as the process lives
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
        if sys.stdout is sys.__stdout__ and isinstance(sys.stdout.buffer, RawIOBase):
            # PYTHONUNBUFFERED is set: a write would return silently after a part, where the disk is full
            sys.stdout = open(  # noqa: SIM115  # for as long as the process lives
                sys.stdout.fileno(), "w", 1, sys.stdout.encoding, "backslashreplace", closefd=False
            )


def _with_streams(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with the paths of standard streams in place of ``-``."""
    arguments = [part for argument in arguments for part in _split_output(argument)]
    before = ["", *arguments]
    return [
        argument if argument != "-" else "/dev/stdout" if option in _OUTPUTS else "/dev/stdin"
        for option, argument in zip(before, arguments, strict=False)
    ]


_OUTPUTS: Final = ("--output", "--results", "-D")


def _split_output(argument: str) -> list[str]:
    return ["--output", "-"] if argument == "--output=-" else [argument]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    0; 1 if a line .test of a program fails, 2 after an error, 130 after Ctrl-C, 141 if the reader of the output closed
    the pipe early.
    """
    _ensure_streams()
    try:
        given = _with_streams(sys.argv[1:] if arguments is None else arguments)
        status = app(given, exit_on_error=False, print_error=False)
        sys.stdout.flush()
    except CycloptsError as error:
        _complain(f"{error}\n  See gpu-wcoj --help.")
        return ERROR_STATUS
    except BrokenPipeError:  # the reader of the output has closed it: avoid a failing flush at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE_STATUS
    except KeyboardInterrupt:
        _complain("interrupted.")
        return INTERRUPTED_STATUS
    except GpuWcojError as error:
        _complain(str(error))
        return ERROR_STATUS
    except OSError as error:  # of files there are errors of this package, which name them
        where = "standard output" if error.filename is None else f"'{error.filename}'"
        _complain(f"{where} failed: {error.strerror or error}.\n  Check the permissions and the space on the disk.")
        return ERROR_STATUS
    except MemoryError:
        _complain("out of memory.\n  Use smaller ticks (--tick-rows), or --count.")
        return ERROR_STATUS
    except Exception as error:
        if os.environ.get(_DEBUG_VARIABLE):
            raise
        _complain(
            f"internal error, {type(error).__name__}: {error}\n"
            f"  This is a bug in gpu-wcoj; {_DEBUG_VARIABLE}=1 shows the traceback. Please report it."
        )
        return ERROR_STATUS
    return status if isinstance(status, int) else 0


if __name__ == "__main__":
    raise SystemExit(main())

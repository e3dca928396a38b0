"""The command ``gpu-wcoj``: run a program over files, explain it, generate data."""

from __future__ import annotations

import json as json_text
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from cyclopts import App, CycloptsError, Parameter

from gpu_wcoj import __version__
from gpu_wcoj.errors import GpuWcojError, UnknownRelationError, UsageError

if TYPE_CHECKING:
    from gpu_wcoj.program import ChangeCount, Program

    from gpu_wcoj.files.output import ChangeWriter
    from gpu_wcoj.files.reader import Reader
    from gpu_wcoj.files.spec import InputSpec
    from gpu_wcoj.progress import LateBar

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
_FLAG = Parameter(negative="")
_FILES = Parameter(negative="", allow_leading_hyphen=True)


@app.command
def run(
    program: Annotated[Path | None, Parameter(help="A file with the text of the program.")] = None,
    /,
    *,
    text: Annotated[str | None, _TEXT] = None,
    input: Annotated[list[str] | None, _FILES] = None,  # noqa: A002  # the option is called --input
    changes: Annotated[list[str] | None, _FILES] = None,
    tick_rows: int | None = None,
    count: Annotated[bool, _FLAG] = False,
    output: Path | None = None,
    backend: Literal["auto", "cpu", "cuda"] = "auto",
    threads: int | None = None,
    bag: Annotated[bool, _FLAG] = False,
    memory: str | None = None,
    json: Annotated[bool, _FLAG] = False,
) -> None:
    """Run a program over files: load the inputs as the first tick, then feed the changes tick by tick.

    A file is given as RELATION=PATH?option=value&...: Parquet, Arrow IPC, CSV, TSV or whitespace text, gzipped or
    not. Options are columns=0,1 weight=2 tick=3 (columns by position from 0, or by name), sep=tab header=no skip=1
    types=int64,string (text only) and format=parquet|arrow|csv|tsv|text.

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
    backend
        Where the joins run.
    threads
        How many threads they use.
    bag
        Keep exact weights instead of sets.
    memory
        How much memory the rows read at one time may take, such as 4GB; half of the machine's if not said otherwise.
    json
        Print one line of JSON a tick and one at the end.
    """
    from gpu_wcoj.files.budget import memory_budget
    from gpu_wcoj.files.spec import parse_input

    budget = memory_budget(memory)
    loaded, fed = [[parse_input(one) for one in given or ()] for given in (input, changes)]
    if not loaded and not fed:
        raise UsageError("there is nothing to run on.\n  Give --input RELATION=PATH, --changes RELATION=PATH, or both.")
    if tick_rows is not None and tick_rows < 1:
        raise UsageError(f"--tick-rows is {tick_rows}.\n  It is 1 or more.")
    if count and output is not None:
        raise UsageError("--count produces no rows, so there is nothing for --output.\n  Leave out one of the two.")
    engine = _program(program, text, bag=bag, backend=backend, threads=threads)
    _check_relations(engine, loaded, "--input")
    _check_relations(engine, fed, "--changes")
    if ticked := [spec for spec in loaded if spec.tick is not None]:
        raise UsageError(
            f"'{ticked[0]}' has a tick column, but --input is one tick.\n  Use --changes, or leave it out."
        )
    _Run(engine, loaded, fed, tick_rows, count, output, budget, json).go()


@app.command
def explain(
    program: Annotated[Path | None, Parameter(help="A file with the text of the program.")] = None,
    /,
    *,
    text: Annotated[str | None, _TEXT] = None,
    bag: Annotated[bool, _FLAG] = False,
) -> None:
    """Print how a program is maintained: each delta path with its seed, its variables and their extenders.

    Parameters
    ----------
    bag
        Keep exact weights instead of sets.
    """
    print(_program(program, text, bag=bag).explain().rstrip("\n"))


generate = App(name="generate", help="Write data that the program makes itself, the same on every machine.")
app.command(generate)


@generate.command
def payments(
    *, output: Path, transfers: int = 200_000, accounts: int = 20_000, seed: int = 1, tick_rows: int = 1000
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
    """
    from gpu_wcoj import datasets

    _write(datasets.payments(transfers, accounts, seed, tick_rows=tick_rows), output)


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


class _Run:
    """One run: the ticks, what is printed of them, and what they add up to."""

    def __init__(
        self,
        program: Program,
        loaded: Sequence[InputSpec],
        fed: Sequence[InputSpec],
        tick_rows: int | None,
        count: bool,
        output: Path | None,
        budget: int,
        json: bool,
    ) -> None:
        self._program = program
        self._loaded = loaded
        self._fed = fed
        self._tick_rows = tick_rows
        self._count = count
        self._output = output
        self._budget = budget
        self._json = json
        self._n_ticks = 0
        self._net = dict.fromkeys(program.outputs, 0)
        self._inserted: dict[str, int | None] = dict.fromkeys(program.outputs, 0)
        self._deleted: dict[str, int | None] = dict.fromkeys(program.outputs, 0)
        self._ignored: dict[str, int] = {}

    def go(self) -> None:
        """Run to the end of the files."""
        from gpu_wcoj.files.output import ChangeWriter
        from gpu_wcoj.files.reader import open_input
        from gpu_wcoj.progress import LateBar

        start = time.perf_counter()
        writer = None if self._output is None else ChangeWriter(self._output, self._program.outputs)
        with ExitStack() as stack:
            bar = stack.enter_context(LateBar())
            readers = {}
            for spec in self._fed:
                reader = open_input(spec, self._program.arity(spec.relation), True, self._budget)
                readers[spec.relation] = stack.enter_context(closing(reader))
            for tick in self._ticks(readers, bar):
                self._step(tick, writer)
        self._finish(time.perf_counter() - start)

    def _ticks(self, readers: dict[str, Reader], bar: LateBar) -> Iterator[dict[str, Any]]:
        from gpu_wcoj.files.reader import read_table
        from gpu_wcoj.files.ticks import ticks

        if self._loaded:
            arity = self._program.arity
            yield {spec.relation: read_table(spec, arity(spec.relation), self._budget) for spec in self._loaded}
        for tick in ticks(readers, self._tick_rows, self._budget):
            fractions = [reader.fraction for reader in readers.values()]
            known = [fraction for fraction in fractions if fraction is not None]
            bar.update(f"tick {self._n_ticks:,}", min(known) if len(known) == len(fractions) else None)
            yield tick

    def _step(self, tick: dict[str, Any], writer: ChangeWriter | None) -> None:
        number = self._n_ticks
        start = time.perf_counter()
        if self._count:
            counts = self._program.step_counts(tick)
        elif writer is None:
            counts = self._program.step_pieces(tick, lambda _name, _piece: None)
        else:
            writer.begin(number)
            try:
                counts = self._program.step_pieces(tick, writer.write)
                writer.commit()
            except BaseException:
                writer.abort()
                raise
        seconds = time.perf_counter() - start
        self._n_ticks += 1
        for name, change in counts.items():
            self._net[name] += change.net
            self._inserted[name] = _plus(self._inserted[name], change.inserted)
            self._deleted[name] = _plus(self._deleted[name], change.deleted)
        for name, ignored in self._program.last_tick.ignored.items():
            self._ignored[name] = self._ignored.get(name, 0) + ignored
        if self._json:
            changes = {name: _as_json(change) for name, change in counts.items()}
            _line({"tick": number, "changes": changes, "seconds": round(seconds, 6)})

    def _finish(self, seconds: float) -> None:
        peak = _peak_rss_bytes()
        if self._json:
            total = {"total": self._net, "ticks": self._n_ticks, "seconds": round(seconds, 6), "peak_rss_bytes": peak}
            _line(total)
            return
        from rich.console import Console
        from rich.table import Table

        from gpu_wcoj.files.budget import shown_bytes

        table = Table("relation", title=f"{self._n_ticks:,} ticks in {seconds:.2f} s, peak memory {shown_bytes(peak)}")
        for heading in ("inserted", "deleted", "total"):
            table.add_column(heading, justify="right")
        for name, net in self._net.items():
            table.add_row(name, _shown(self._inserted[name]), _shown(self._deleted[name]), _shown(net))
        console = Console(highlight=False)
        console.print(table)
        for name, ignored in self._ignored.items():
            if ignored:
                console.print(f"{ignored:,} changes of '{name}' inserted a present row or deleted an absent one.")


def _program(path: Path | None, text: str | None, **options: Any) -> Program:
    from gpu_wcoj.files.lines import open_bytes

    if (path is None) == (text is None):
        raise UsageError("a program is a file, or a text after -e.\n  Give one of the two.")
    if text is None:
        assert path is not None
        with open_bytes(path) as file:
            try:
                text = file.read().decode()
            except UnicodeDecodeError:
                raise UsageError(f"the program '{path}' is not UTF-8 text.\n  Convert it to UTF-8.") from None
    from gpu_wcoj.program import Program

    return Program(text, **options)


def _check_relations(program: Program, specs: Sequence[InputSpec], option: str) -> None:
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


def _as_json(change: ChangeCount) -> dict[str, int]:
    if change.inserted is None or change.deleted is None:
        return {"net": change.net}
    return {"inserted": change.inserted, "deleted": change.deleted}


def _plus(total: int | None, more: int | None) -> int | None:
    return None if total is None or more is None else total + more


def _shown(count: int | None) -> str:
    return "not counted" if count is None else f"{count:,}"


def _line(content: dict[str, Any]) -> None:
    print(json_text.dumps(content), flush=True)


def _peak_rss_bytes() -> int:
    """The largest memory of this process so far.

    What getrusage says may be the size of the process that started this one, so the kernel's own account goes first.
    """
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


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

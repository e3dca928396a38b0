"""Parquet and Arrow IPC files, read through a separate process."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from gpu_wcoj import errors
from gpu_wcoj.errors import GpuWcojError, InputFileError, UsageError, counted
from gpu_wcoj.files.formats import unpacked
from gpu_wcoj.files.record_batch import RowBlock, make_block, numbered, over_budget, select
from gpu_wcoj.files.spec import InputSpec

_ROOT = Path(__file__).parent.parent.parent
_COMMAND = (
    "import sys; sys.path.insert(0, sys.argv[2]); from gpu_wcoj.files.binary import main; sys.exit(main(sys.argv[1]))"
)
_ENVIRONMENT = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "4"}
"""Memory that is taken when it is needed, not reserved ahead: the child's limit is on its address space."""


class BinaryReader:
    """The rows of a Parquet or Arrow IPC file, one batch at a time.

    Mutated files of these forms have crashed, and inflated without bound, the libraries that read them; metadata tells
    the truth about neither. So a child process with a limit on its memory reads and validates them (`child`), and what
    arrives here are batches that it has found sound. That costs a start of a process, some 0.2 s a file.

    Parameters
    ----------
    spec
        The file and its options.
    form
        ``"parquet"`` or ``"arrow"``.
    is_packed
        Whether the file is to be unpacked first.
    arity
        How many columns the relation has; None for as many as the file has.
    changes
        Whether the rows are changes: read in pieces, and ``weight`` is the weight.
    budget
        How many bytes the child may take for rows.
    """

    def __init__(
        self, spec: InputSpec, form: str, is_packed: bool, arity: int | None, changes: bool, budget: int
    ) -> None:
        for option, value in (("sep", spec.separator), ("header", spec.header), ("types", spec.types)):
            if value is not None:
                raise UsageError(f"'{spec.path}' is not text, so option '{option}' says nothing.\n  Leave it out.")
        if spec.skip:
            raise UsageError(f"'{spec.path}' is not text, so option 'skip' says nothing.\n  Leave it out.")
        self._spec = spec
        request = {
            "spec": {**asdict(spec), "path": str(spec.path), "more": ()},
            "format": form,
            "packed": is_packed,
            "arity": arity,
            "changes": changes,
            "budget": budget,
        }
        self._complaints: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed by close()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _COMMAND, json.dumps(request), str(_ROOT)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            env={**os.environ, **_ENVIRONMENT},
        )
        self._seen = 0
        self._n_rows: int | None = None
        try:
            self._stream = self._open()
            note = self._stream.schema.metadata
            names = json.loads(note[b"names"])
            self._n_rows = int(note[b"rows"])
            self._selection = select(spec, len(names), names, arity, changes)
        except BaseException:
            self.close()
            raise

    @property
    def n_rows(self) -> int | None:
        """The number of rows of the file."""
        return self._n_rows

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """Names and types of the relation's columns; c0, c1, ... if the file has no names."""
        names = self._selection.own_names or numbered(len(self._selection.rows))
        types = [str(self._stream.schema.field(f"f{position}").type) for position in self._selection.rows]
        return tuple(zip(names, types, strict=True))

    def blocks(self) -> Iterator[RowBlock]:
        """Yield the rows in order."""
        last_tick = None
        while (batch := self._next()) is not None:
            seen = self._seen

            def place(row: int, seen: int = seen) -> str:
                return f"'{self._spec.path}', row {seen + row + 1}"

            block = make_block(self._spec, self._selection, batch.columns, last_tick, place)
            self._seen += len(block)
            if block.ticks is not None and len(block):
                last_tick = int(block.ticks[-1])
            yield block

    def close(self) -> None:
        """Stop the child process."""
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._complaints.close()

    def _open(self) -> pa.ipc.RecordBatchStreamReader:
        try:
            return pa.ipc.open_stream(self._process.stdout)
        except (pa.ArrowInvalid, OSError):
            raise self._failure() from None

    def _next(self) -> pa.RecordBatch | None:
        try:
            return self._stream.read_next_batch()
        except StopIteration:
            # The status alone does not tell: where SIGCHLD is ignored, it is 0 whatever the child has died of.
            if self._process.wait() != 0 or self._seen != self._n_rows:
                raise self._failure() from None
            return None
        except (pa.ArrowInvalid, OSError):
            raise self._failure() from None

    def _failure(self) -> GpuWcojError:
        """Return the error that ended the child process."""
        status = self._process.wait()
        self._complaints.seek(0)
        lines = self._complaints.read().decode(errors="replace").splitlines()
        for line in reversed(lines):
            if line.startswith('{"kind": '):
                said = json.loads(line)
                kind: type[GpuWcojError] = getattr(errors, said["kind"])
                return kind(said["message"])
        how = f"signal {signal.Signals(-status).name}" if status < 0 else f"status {status}"
        rows = f", after {self._seen} of {self._n_rows} rows" if self._n_rows is not None else ""
        return InputFileError(
            f"'{self._spec.path}' is damaged: the process that read it ended with {how}{rows}.\n"
            "  Write or copy it again."
        )


# The process that reads Parquet and Arrow IPC files.
#
# A damaged or hostile file can end only this process.
#
# It reads the chosen columns under a limit on its address space, validates every batch in full, and writes them as an
# Arrow IPC stream to its standard output. An error goes to its standard error as one line of JSON, with exit status 3.


ERROR_STATUS: Final = 3
"""Exit status after an error that was reported as JSON."""
BATCH_ROWS: Final = 1 << 18
"""Maximum rows of a batch that is sent."""
THREADS: Final = 4
"""Maximum threads: each reserves address space, which counts against the limit."""
_OWN_BYTES: Final = 512 << 20
"""Bytes for the process itself in addition to the rows: libraries, threads, pages of the file."""
_NAME_BYTES, _LIST_ITEMS = 16 << 20, 1 << 20
"""Maximum bytes of a name or statistic of a Parquet file, and maximum items of a list of row groups or columns."""

Batches = Callable[[], Iterator[pa.RecordBatch]]


def main(request: str) -> int:
    """Read the file of a JSON `request`.

    Its keys are ``spec``, ``format``, ``packed``, ``arity``, ``changes`` and ``budget``.
    """
    options = json.loads(request)
    spec = InputSpec(
        relation=options["spec"]["relation"],
        path=Path(options["spec"]["path"]),
        columns=None if options["spec"]["columns"] is None else tuple(options["spec"]["columns"]),
        weight=options["spec"]["weight"],
        tick=options["spec"]["tick"],
    )
    budget: int = options["budget"]
    pa.set_cpu_count(min(THREADS, pa.cpu_count()))
    try:
        _limit_memory(budget + _OWN_BYTES)
        _send(spec, options, budget)
    except BrokenPipeError:
        return 0
    except GpuWcojError as error:
        return _fail(type(error).__name__, str(error))
    except MemoryError:
        return _fail("MemoryBudgetError", str(over_budget(f"reading '{spec.path}'", budget, budget)))
    except Exception as error:  # whatever a damaged file provokes, the file is at fault
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        what = {"parquet": "Parquet", "arrow": "Arrow IPC", "json": "lines of JSON"}[options["format"]]
        text = f"'{spec.path}' is damaged or not {what}: {reason.rstrip('. ')}.\n"
        text += "  Write or copy it again, or say format=..."
        return _fail("InputFileError", text)
    return 0


def _limit_memory(extra: int) -> None:
    """Limit the growth of the address space to `extra` bytes, if its present size is known."""
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (ImportError, OSError):
        return
    limit = pages * resource.getpagesize() + extra
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def _fail(kind: str, message: str) -> int:
    sys.stderr.write(json.dumps({"kind": kind, "message": message}) + "\n")
    return ERROR_STATUS


def _send(spec: InputSpec, request: dict[str, Any], budget: int) -> None:
    source = _unpacked(spec.path, budget) if request["packed"] else _opened(spec.path)
    open_file = {"parquet": _open_parquet, "arrow": _open_arrow, "json": _open_json}[request["format"]]
    names, n_rows, read = open_file(source)
    used = select(spec, len(names), names, request["arity"], request["changes"]).used
    if not request["changes"] and n_rows * 8 * len(used) > budget:
        raise over_budget(
            f"'{spec.path}' has {counted(n_rows, 'row')} of {counted(len(used), 'column')}, which",
            n_rows * 8 * len(used),
            budget,
        )
    schema, batches = read(used)
    note = {"names": json.dumps(names), "rows": str(n_rows)}
    positions = [f"f{position}" for position in used]
    fields = [field.with_name(name) for field, name in zip(schema, positions, strict=True)]
    sent = pa.schema(fields, metadata=note)
    # Not sys.stdout.buffer: where Python is not to buffer, that writes what a pipe takes and drops the rest.
    with open(sys.stdout.fileno(), "wb", closefd=False) as output, pa.ipc.new_stream(output, sent) as writer:
        writer.write_batch(pa.RecordBatch.from_pylist([], schema=sent))  # so that an empty file is seen to be one
        for batch in batches:
            for start in range(0, batch.num_rows, BATCH_ROWS):
                piece = batch.slice(start, BATCH_ROWS)
                writer.write_batch(pa.RecordBatch.from_arrays(piece.columns, schema=sent))


def _opened(path: Path) -> pa.NativeFile:
    """Open a file, also one whose name is not UTF-8, which PyArrow cannot open by name."""
    try:
        return pa.OSFile(str(path))
    except UnicodeEncodeError:
        return pa.OSFile(f"/dev/fd/{os.open(path, os.O_RDONLY)}")


def _unpacked(path: Path, budget: int) -> pa.NativeFile:
    """Return a complete compressed file, unpacked; larger than the budget is an error."""
    content = io.BytesIO()
    for block in unpacked(path):
        if content.tell() + len(block) > budget:
            raise over_budget(f"unpacking '{path}'", content.tell() + len(block), budget)
        content.write(block)
    return pa.BufferReader(content.getbuffer())


_Read = Callable[[tuple[int, ...]], tuple[pa.Schema, Iterator[pa.RecordBatch]]]


def _open_parquet(source: pa.NativeFile) -> tuple[list[str], int, _Read]:
    file = pq.ParquetFile(
        source,
        pre_buffer=False,
        page_checksum_verification=True,
        thrift_string_size_limit=_NAME_BYTES,
        thrift_container_size_limit=_LIST_ITEMS,
    )
    schema: pa.Schema = file.schema_arrow

    def read(used: tuple[int, ...]) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        chosen = [schema.field(position) for position in used]
        names = [field.name for field in chosen]
        if doubled := [name for name in names if schema.names.count(name) > 1]:
            raise InputFileError(f"two columns of the file are called '{doubled[0]}'; give it other names")

        def batches() -> Iterator[pa.RecordBatch]:
            for batch in file.iter_batches(BATCH_ROWS, columns=names):
                batch.validate(full=True)
                yield batch.select(names)

        return pa.schema(chosen), batches()

    return schema.names, file.metadata.num_rows, read


def _open_arrow(source: pa.NativeFile) -> tuple[list[str], int, _Read]:
    is_file = source.read(6) == b"ARROW1"

    def open_with(included: list[int] | None) -> pa.ipc.RecordBatchFileReader | pa.ipc.RecordBatchStreamReader:
        source.seek(0)
        options = pa.ipc.IpcReadOptions(included_fields=included, use_threads=False)
        return (pa.ipc.open_file if is_file else pa.ipc.open_stream)(source, options=options)

    def batches(included: list[int] | None) -> Iterator[pa.RecordBatch]:
        reader = open_with(included)
        if is_file:
            for i in range(reader.num_record_batches):
                yield reader.get_batch(i)
        else:
            yield from reader

    schema: pa.Schema = open_with(None).schema

    def read(used: tuple[int, ...]) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        for batch in batches(list(used)):  # every batch is sound before the first is used
            batch.validate(full=True)
        return pa.schema([schema.field(position) for position in used]), batches(list(used))

    n_rows = 0
    for batch in batches([]):
        n_rows += batch.num_rows
    return schema.names, n_rows, read


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))


def _open_json(source: pa.NativeFile) -> tuple[list[str], int, _Read]:
    """Open lines of JSON, one object for each row."""
    from pyarrow import json as arrow_json

    table = arrow_json.read_json(source)

    def read(used: tuple[int, ...]) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        chosen = table.select(list(used))
        return chosen.schema, iter(chosen.to_batches())

    return list(table.column_names), table.num_rows, read

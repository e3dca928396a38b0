"""Parquet and Arrow IPC files, read through a separate process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import IO

import pyarrow as pa

from gpu_wcoj import errors
from gpu_wcoj.errors import GpuWcojError, InputFileError, UsageError
from gpu_wcoj.files.block import RowBlock, make_block
from gpu_wcoj.files.record_batch import numbered, select
from gpu_wcoj.files.spec import InputSpec

_ROOT = Path(__file__).parent.parent.parent
_COMMAND = (
    "import sys; sys.path.insert(0, sys.argv[2]); from gpu_wcoj.files.child import main; sys.exit(main(sys.argv[1]))"
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
    is_gzip
        Whether the file is to be unpacked first.
    arity
        How many columns the relation has; None for as many as the file has.
    changes
        Whether the rows are changes: read in pieces, and ``weight`` is the weight.
    budget
        How many bytes the child may take for rows.
    """

    def __init__(
        self, spec: InputSpec, form: str, is_gzip: bool, arity: int | None, changes: bool, budget: int
    ) -> None:
        for option, value in (("sep", spec.separator), ("header", spec.header), ("types", spec.types)):
            if value is not None:
                raise UsageError(f"'{spec.path}' is not text, so option '{option}' says nothing.\n  Leave it out.")
        if spec.skip:
            raise UsageError(f"'{spec.path}' is not text, so option 'skip' says nothing.\n  Leave it out.")
        self._spec = spec
        request = {
            "spec": {**asdict(spec), "path": str(spec.path)},
            "format": form,
            "gzip": is_gzip,
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

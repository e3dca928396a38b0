"""The command ``gpu-wcoj``: run and explain programs, generate data, run the benchmark."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Final

from cyclopts import App, CycloptsError

from gpu_wcoj import __version__
from gpu_wcoj.cli.explain import explain
from gpu_wcoj.commands.bench import bench
from gpu_wcoj.commands.calibrate import calibrate
from gpu_wcoj.commands.generate import generate
from gpu_wcoj.commands.run import run
from gpu_wcoj.errors import GpuWcojError

ERROR_STATUS: Final = 2
"""Exit status after an error."""
INTERRUPTED_STATUS: Final = 130
"""Exit status after Ctrl-C: 128 + SIGINT."""
BROKEN_PIPE_STATUS: Final = 141
"""Exit status if the reader of the output closed the pipe: 128 + SIGPIPE."""
_DEBUG_VARIABLE: Final = "GPU_WCOJ_DEBUG"
"""The environment variable with which internal errors keep their traceback."""

app = App(
    name="gpu-wcoj",
    help="Keep the answers of multi-way joins up to date while their relations change.",
    version=__version__,
    version_flags=["--version"],
    help_format="plaintext",
    suppress_keyboard_interrupt=False,
    result_action="return_value",
)

app.command(run)
app.command(explain)
app.command(calibrate)
app.command(bench)
app.command("gpu_wcoj.spark.command:app", name="spark", help="Run programs on Apache Spark.")
app.command(generate)


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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    0; 2 after an error, 130 after Ctrl-C, 141 if the reader of the output closed the pipe early.
    """
    _ensure_streams()
    try:
        app(list(sys.argv[1:] if arguments is None else arguments), exit_on_error=False, print_error=False)
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
            f"  This is a bug in gpu-wcoj; {_DEBUG_VARIABLE}=1 shows the traceback. Please report it."
        )
        return ERROR_STATUS
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

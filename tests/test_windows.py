"""A Python without the modules and functions that Windows lacks: the command line, files and checkpoints work there.

Import hooks and missing attributes stand in for Windows: `fcntl`, `resource`, `termios`, descriptors of folders and the
flags of `os.open` that are POSIX's. What else differs on Windows is not seen here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.helpers.command_line import ENVIRONMENT

MISSING = """
import os, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name in ("fcntl", "resource", "termios", "pty", "pwd", "grp"):
            raise ImportError(f"No module named {name!r}", name=name)

for name in ("fcntl", "resource", "termios", "pwd", "grp"):
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Absent())
for name in ("O_NOFOLLOW", "O_CLOEXEC", "O_DIRECTORY", "O_NONBLOCK", "pwrite", "pread", "fchmod", "fchown", "nice",
             "register_at_fork", "sysconf", "sched_getaffinity", "sched_setscheduler", "SCHED_IDLE", "mkfifo",
             "getuid", "fork"):
    if hasattr(os, name):
        delattr(os, name)
os.supports_dir_fd.clear()
os_open, os_link = os.open, os.link

def checked_open(path, flags, mode=0o777, *, dir_fd=None):
    if dir_fd is not None:
        raise NotImplementedError("dir_fd unavailable on this platform")
    if os.path.isdir(path):
        raise PermissionError(13, "Permission denied", path)
    return os_open(path, flags, mode)

def no_link(*arguments, **options):
    raise NotImplementedError("follow_symlinks unavailable on this platform")

def rename(source, target):
    if os.path.exists(target):
        raise FileExistsError(17, "File exists", target)
    os.replace(source, target)

os.open, os.link, os.rename = checked_open, no_link, rename
"""


def run(code: str, *arguments: object, text: str | None = None) -> str:
    """What a program prints that runs without POSIX's modules."""
    command = [sys.executable, "-W", "error", "-c", MISSING + code, *map(str, arguments)]
    done = subprocess.run(command, env=ENVIRONMENT, input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


COMMAND = "from gpu_wcoj.cli.main import main\nsys.exit(main(sys.argv[1:]))\n"
TWICE = "import json\nfrom gpu_wcoj.cli.main import main\nfirst = main(json.loads(sys.argv[1]))\n"
TWICE += "sys.exit(first or main(sys.argv[2:]))\n"
"""Two commands in one process."""
HOPS = ["run", "-e", "h(a) :- edge(a, _).", "--input", "edge=-", "--json"]


def test_the_command_line_reads_files_prints_rows_and_resumes(tmp_path: Path):
    pq.write_table(pa.table({"src": [1, 2, 3], "dst": [2, 3, 4]}), tmp_path / "e.parquet")
    arguments = ["run", "-e", "hop(a, c) :- edge(a, b), edge(b, c).", "--changes", f"edge={tmp_path / 'e.parquet'}"]
    arguments += ["--tick-rows", 1, "--checkpoint", tmp_path / "c", "--output", tmp_path / "out"]
    printed = run(COMMAND, *arguments)
    assert "hop: 2 rows" in printed
    assert "peak memory" in printed or not Path("/proc/self/status").exists()
    assert len(list((tmp_path / "out" / "hop").iterdir())) == 2
    again = run(TWICE, json.dumps([*map(str, arguments)]), *HOPS, text="1 2\n")
    assert "3 ticks in" in again
    assert json.loads(again.splitlines()[-1])["total"] == {"h": 1}
    program = f'.decl e(a: int64, b: int64)\n.input e(filename="{tmp_path}/x.csv")\nh(b) :- e(_, b).\n.output h'
    (tmp_path / "x.csv").write_text("1\t7\n")
    (tmp_path / "p.dl").write_text(program)
    text = "e(1, 2). e(2, 3).\nhop(a, c) :- e(a, b), e(b, c).\n"
    assert "hop: 1 row" in run(TWICE, json.dumps(["run", str(tmp_path / "p.dl")]), "repl", text=text)
    assert (tmp_path / "h.csv").read_text() == "7\n"


def test_checkpoints(tmp_path: Path):
    printed = run(
        """
import gpu_wcoj as gw
from gpu_wcoj.checkpoint import Checkpoint
from gpu_wcoj.errors import CheckpointError
view = gw.view("select src, count(*) n from e group by src", e={"src": ["a", "b", "a"]})
view.checkpoint(sys.argv[1])
view.apply(e={"src": ["b"]})
view.checkpoint(sys.argv[1])
print(sorted(gw.View.restore(sys.argv[1]).snapshot().rows()))
open(os.path.join(sys.argv[1], "manifest-999999-00000001.tmp"), "w").close()
print(sorted(gw.View.restore(sys.argv[1]).snapshot().rows()))
""",
        tmp_path / "c",
    )
    assert printed.splitlines() == ["[('a', 2), ('b', 2)]"] * 2
    assert sorted(path.suffix for path in (tmp_path / "c").iterdir())


def test_kernels_compile_and_are_stored(tmp_path: Path):
    pytest.importorskip("numba")
    code = """
from cpu_fallback import compilation, file_locks
from pathlib import Path
folder = Path(sys.argv[1])
with compilation._turn(folder, waits=False) as is_mine:
    print(is_mine, file_locks._fcntl is None)
import cpu_fallback.runtime
"""
    assert run(code, tmp_path / "kernels") == "True True\n"


class Locking:
    """What `msvcrt` does: a lock of a range of bytes, which another descriptor finds taken."""

    LK_NBLCK, LK_UNLCK = 2, 0

    def __init__(self):
        self.held: dict[tuple[int, int], int] = {}

    def locking(self, handle, mode, n_bytes):
        status = os.fstat(handle)
        place = status.st_ino, os.lseek(handle, 0, os.SEEK_CUR)
        if mode == self.LK_UNLCK:
            del self.held[place]
        elif self.held.setdefault(place, handle) != handle:
            raise PermissionError(13, "Permission denied")


def test_locks_of_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from cpu_fallback import file_locks

    monkeypatch.setattr(file_locks, "_fcntl", None)
    monkeypatch.setattr(file_locks, "_msvcrt", Locking())
    with (tmp_path / "lock").open("w") as first, (tmp_path / "lock").open("w") as second:
        assert file_locks.lock_file(first.fileno())
        assert not file_locks.lock_file(second.fileno())
        first.write("held")
        first.flush()
        file_locks.unlock_file(first.fileno())
        assert file_locks.lock_file(second.fileno(), waits=True)
    monkeypatch.setattr(file_locks, "_msvcrt", None)
    with (tmp_path / "lock").open("w") as only:
        assert file_locks.lock_file(only.fileno())
        file_locks.unlock_file(only.fileno())

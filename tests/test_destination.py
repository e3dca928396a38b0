"""Files that a user names for output: links, pipes, devices and plain files, which stay what they are."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpu_wcoj.cli.main import main
from gpu_wcoj.destination import folder_path, identity, replacing
from gpu_wcoj.errors import OutputFileError, UsageError
from gpu_wcoj.files.output import OutputSpec, check_apart, write_columns, write_whole
from tests.helpers.command_line import COMMAND, ENVIRONMENT, complaint

TABLE = pa.table({"a": [1, 2], "b": ["x", "y,z"]})
TEXT = b"1\tx\n2\ty,z\n"
IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


def write(path: Path, content: bytes = b"new") -> None:
    with replacing(path) as file:
        file.write(content)


def fail(path: Path) -> None:
    with replacing(path) as file:
        file.write(b"half")
        raise ValueError("half")


def left(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a program, rows and a file that is there before."""
    (tmp_path / "old").write_bytes(b"old")
    (tmp_path / "p.dl").write_text("h(x) :- e(x, _).\n")
    (tmp_path / "e.facts").write_text("1\t2\n3\t4\n")
    return tmp_path


def test_a_link_is_followed_and_its_target_replaced(folder: Path):
    (folder / "far").mkdir()
    (folder / "far" / "data").write_bytes(b"old")
    (folder / "middle").symlink_to("far/data")
    (folder / "latest").symlink_to(folder / "middle")
    write(folder / "latest")
    assert (folder / "latest").is_symlink()
    assert (folder / "middle").is_symlink()
    assert (folder / "far" / "data").read_bytes() == b"new"
    assert left(folder / "far") == {"data"}
    (folder / "soon").symlink_to("not-yet")
    write(folder / "soon")
    assert (folder / "soon").is_symlink()
    assert (folder / "not-yet").read_bytes() == b"new"
    (folder / "round").symlink_to("round")
    with pytest.raises(OutputFileError, match="round' cannot be written: Too many levels"):
        write(folder / "round")


def test_the_mode_stays_and_a_new_file_has_the_usual_one(folder: Path):
    (folder / "old").chmod(0o640)
    write(folder / "old")
    assert stat.S_IMODE((folder / "old").stat().st_mode) == 0o640
    before = os.umask(0o027)
    try:
        write(folder / "made")
    finally:
        os.umask(before)
    assert stat.S_IMODE((folder / "made").stat().st_mode) == 0o640


@pytest.mark.skipif(not IS_ROOT, reason="only root gives files away")
def test_the_owner_stays(folder: Path):
    os.chown(folder / "old", 12345, 54321)
    write(folder / "old")
    status = (folder / "old").stat()
    assert (status.st_uid, status.st_gid) == (12345, 54321)


def test_another_hard_link_keeps_the_content_before(folder: Path):
    os.link(folder / "old", folder / "other")
    write(folder / "old")
    assert ((folder / "old").read_bytes(), (folder / "other").read_bytes()) == (b"new", b"old")


def test_an_error_leaves_the_content_before_and_nothing_else(folder: Path):
    before = left(folder)
    with pytest.raises(ValueError, match="half"):
        fail(folder / "old")
    assert (folder / "old").read_bytes() == b"old"
    assert left(folder) == before


def read_pipe(path: Path, found: list[bytes]) -> threading.Thread:
    thread = threading.Thread(target=lambda: found.append(path.read_bytes()))
    thread.start()
    return thread


@pytest.mark.parametrize("name", ["pipe", "link"])
def test_a_pipe_is_written_to(folder: Path, name: str):
    os.mkfifo(folder / "pipe")
    (folder / "link").symlink_to("pipe")
    found: list[bytes] = []
    thread = read_pipe(folder / "pipe", found)
    write_whole(OutputSpec("r", folder / name), TABLE)
    thread.join()
    assert found == [TEXT]
    assert stat.S_ISFIFO((folder / "pipe").stat().st_mode)
    thread = read_pipe(folder / "pipe", found)
    write_columns({"a": pa.array([5, 6]).to_numpy()}, folder / name)
    thread.join()
    assert pq.read_table(pa.BufferReader(found[1])).to_pydict() == {"a": [5, 6]}


def test_a_socket_is_written_to(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(folder)  # names of sockets are short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        server.listen()
        write(Path("socket"))
        connection, _ = server.accept()
        with connection:
            assert connection.recv(100) == b"new"
    assert stat.S_ISSOCK(Path("socket").stat().st_mode)


@pytest.mark.skipif(not IS_ROOT, reason="only root makes devices")
@pytest.mark.parametrize(("minor", "what"), [(3, None), (7, "No space left on device")])
def test_a_device_is_written_to(folder: Path, minor: int, what: str | None):
    device = folder / "device"
    try:
        os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, minor))
        device.open("wb").close()
    except OSError:
        pytest.skip("devices cannot be made here")
    if what is None:
        write(device)
    else:
        with pytest.raises(OutputFileError, match=f"device' cannot be written: {what}"):
            write(device)
    assert stat.S_ISCHR(device.stat().st_mode)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_device_is_an_error(folder: Path):
    with pytest.raises(OutputFileError, match=r"'/dev/full' cannot be written: No space left on device\.\n  Name"):
        write_whole(OutputSpec("r", Path("/dev/full")), TABLE)
    (folder / "full").symlink_to("/dev/full")
    with pytest.raises(OutputFileError, match="full' cannot be written: No space left"):
        write_whole(OutputSpec("r", folder / "full"), TABLE)
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


def test_a_folder_is_refused(folder: Path):
    (folder / "sub").mkdir()
    (folder / "link").symlink_to("sub")
    for name in ("sub", "link"):
        with pytest.raises(OutputFileError, match=f"{name}' cannot be written: Is a directory"):
            write(folder / name)
    with pytest.raises(OutputFileError, match="below' cannot be written: (Not a directory|File exists)"):
        write(folder / "old" / "below")
    assert (folder / "old").read_bytes() == b"old"


NOBODY = """
import os, sys
from pathlib import Path
from gpu_wcoj.destination import replacing
from gpu_wcoj.errors import OutputFileError
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
try:
    with replacing(Path(sys.argv[1])) as file:
        file.write(b"new")
except OutputFileError as error:
    print(error)
"""


@pytest.mark.parametrize("what", ["read-only", "folder", "sticky"])
def test_what_may_not_be_written_stays(folder: Path, what: str):
    place = folder / "place"
    place.mkdir()
    (place / "file").write_bytes(b"old")
    (place / "file").chmod(0o444 if what == "read-only" else 0o666)
    place.chmod({"read-only": 0o777, "folder": 0o555, "sticky": 0o1777}[what])
    if what == "sticky" and not IS_ROOT:
        pytest.skip("only root has a file of another user")
    for above in (folder, *folder.parents):
        if above.stat().st_uid == os.geteuid() and len(above.parts) > 2:
            above.chmod(above.stat().st_mode | 0o111)
    run = subprocess.run(
        [sys.executable, "-c", NOBODY, place / "file"], capture_output=True, text=True, env=ENVIRONMENT, check=False
    )
    if "ModuleNotFoundError" in run.stderr or "Permission denied: '/root" in run.stderr:
        pytest.skip("the package cannot be read by another user")
    assert "file' cannot be written: " in run.stdout, run
    assert (place / "file").read_bytes() == b"old"
    assert left(place) == {"file"}
    place.chmod(0o755)


@pytest.mark.parametrize("name", ["/dev/fd/1", "link"])
def test_standard_output_is_written_to(folder: Path, name: str):
    (folder / "link").symlink_to("/dev/stdout")
    (folder / "p.dl").write_text(f'h(x) :- e(x, _).\n.input e\n.output h(filename="{name}")\n')
    command = [*COMMAND, "run", str(folder / "p.dl"), "--json"]
    piped = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, check=True)
    assert piped.stdout.splitlines()[1:3] == ["1", "3"]
    if name == "link":
        with (folder / "out").open("wb") as file:
            file.write(b"first\n")
            file.flush()
            inode = os.fstat(file.fileno()).st_ino
            subprocess.run(command, stdout=file, env=ENVIRONMENT, check=True)
        lines = (folder / "out").read_text().splitlines()
        assert (lines[0], lines[2:4], len(lines)) == ("first", ["1", "3"], 5)
        assert (folder / "out").stat().st_ino == inode
        assert os.readlink(folder / "link") == "/dev/stdout"


def test_a_descriptor_that_is_not_open(folder: Path):
    with pytest.raises(OutputFileError, match="'/dev/fd/987' cannot be written: Bad file descriptor"):
        write(Path("/dev/fd/987"))


def test_two_outputs_are_two_files(folder: Path):
    (folder / "link").symlink_to("old")
    os.link(folder / "old", folder / "hard")
    (folder / "sub").mkdir()
    (folder / "there").symlink_to("sub")
    for one, other in (("old", "old"), ("old", "link"), ("old", "hard"), ("sub/new", "there/new")):
        pair = [OutputSpec("a", folder / one), OutputSpec("b", folder / other)]
        with pytest.raises(UsageError, match="relations 'a' and 'b' are written to the same file: got"):
            check_apart(pair)
    check_apart([OutputSpec("a", folder / "old"), OutputSpec("b", folder / "new"), OutputSpec("c", folder / "sub/new")])
    check_apart([OutputSpec("a", Path(os.devnull)), OutputSpec("b", Path(os.devnull))])
    assert identity(Path("/dev/stdout")) == identity(Path("/dev/fd/1"))


def test_two_outputs_of_a_program(folder: Path, capfd: pytest.CaptureFixture[str]):
    (folder / "p.dl").write_text(
        'h(x) :- e(x, _).\ng(x) :- e(_, x).\n.input e\n.output h(filename="o")\n.output g(filename="./o")\n'
    )
    assert "relations 'h' and 'g' are written to the same file" in complaint(capfd, "run", folder / "p.dl")
    assert not (folder / "o").exists()


@pytest.mark.parametrize(("directive", "stream"), [(".output h", "/dev/stdout"), (".input e", "/dev/stdin")])
def test_a_dash_is_not_a_file(folder: Path, capfd: pytest.CaptureFixture[str], directive: str, stream: str):
    (folder / "p.dl").write_text(
        f'h(x) :- e(x, _).\n.input e\n{directive}(filename="-")\n'.replace("\n.input e\n.input", "\n.input")
    )
    message = complaint(capfd, "run", folder / "p.dl")
    assert f'filename cannot be \'-\'.\n  Give "{stream}" for the standard stream, or "./-"' in message
    assert not (folder / "-").exists()


def test_a_file_that_is_read_may_be_written(folder: Path, capfd: pytest.CaptureFixture[str]):
    (folder / "p.dl").write_text('h(y, x) :- e(x, y).\n.input e\n.output h(filename="e.facts")\n')
    assert main(["run", str(folder / "p.dl"), "--json"]) == 0
    capfd.readouterr()
    assert sorted((folder / "e.facts").read_text().splitlines()) == ["2\t1", "4\t3"]


def test_explain_writes_through_links_and_to_pipes(folder: Path, capfd: pytest.CaptureFixture[str]):
    (folder / "link").symlink_to("old")
    assert main(["explain", str(folder / "p.dl"), "--output", str(folder / "link")]) == 0
    assert (folder / "link").is_symlink()
    assert b"e(" in (folder / "old").read_bytes()
    (folder / "old").write_bytes(b"old")
    if Path("/dev/full").exists():
        message = complaint(capfd, "explain", folder / "p.dl", "--output", "/dev/full")
        assert "'/dev/full' cannot be written: No space left" in message


@pytest.mark.parametrize("path", ["s3://bucket/state", "hdfs:/state", "file:///state"])
def test_urls_of_stores_are_refused(path: str):
    with pytest.raises(UsageError, match="expected a path of a local or mounted file system"):
        folder_path(path)


def test_the_drive_of_a_path_is_not_a_store():
    assert folder_path("C:/data/state") == Path("C:/data/state").absolute()


@pytest.mark.parametrize("name", ["../escaped", "a/b", ".run", ".."])
def test_a_relation_s_name_leads_to_no_other_folder(folder: Path, capfd: pytest.CaptureFixture[str], name: str):
    (folder / "t.csv").write_text("a,b\n1,2\n")
    text = f'create view "{name}" as select a from t'
    arguments = ["run", "-e", text, "--language", "sql", "--input", f"t={folder}/t.csv", "--output", folder / "out"]
    assert f"cannot be that of a folder: got '{name}'" in complaint(capfd, *arguments)
    assert not (folder / "out").exists()
    assert not (folder / "escaped").exists()


def test_files_that_are_called_as_probes_stay(folder: Path, capfd: pytest.CaptureFixture[str]):
    (folder / "out" / "h").mkdir(parents=True)
    (folder / "out" / "h" / ".writable").write_bytes(b"mine")
    message = complaint(capfd, "run", folder / "p.dl", "--input", f"e={folder}/e.facts", "--output", folder / "out")
    assert "holds files already" in message
    assert (folder / "out" / "h" / ".writable").read_bytes() == b"mine"

"""What is damaged, missing or foreign is refused, and the file is named; never read as something else."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from gpu_wcoj import Program
from gpu_wcoj.checkpoint import Checkpoint, CheckpointOptions
from gpu_wcoj.errors import CheckpointDamagedError, CheckpointError, CheckpointMismatchError, UsageError
from tests.helpers.checkpoint_script import SET_TEXT, new_program, ticks
from tests.helpers.long_tests import IS_LONG


def make(path: Path, n: int = 9, seed: int = 0) -> Path:
    program = new_program()
    with Checkpoint.open(path, program=program, options=CheckpointOptions(most_runs=3)) as checkpoint:
        for number, tick in enumerate(ticks(n, seed)):
            program.step(tick)
            checkpoint.commit(number)
    return path


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("intact") / "checkpoint")


@pytest.fixture
def copy(intact: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(intact, tmp_path / "checkpoint"))


def newest(path: Path) -> str:
    return max(name for name in os.listdir(path) if name.startswith("manifest"))


def needed(path: Path) -> list[str]:
    """What the newest version needs."""
    program = new_program()
    with Checkpoint.open(shutil.copytree(path, path.parent / "to look at"), program=program) as checkpoint:
        assert checkpoint.last is not None
        files = checkpoint.last.files - {checkpoint.last.name}
    shutil.rmtree(path.parent / "to look at")
    return sorted(files | {newest(path)})


def refuses(path: Path, name: str) -> None:
    for attempt in (lambda: Program.restore(path), lambda: _opened(path)):
        with pytest.raises(CheckpointDamagedError) as caught:
            attempt()
        assert name in str(caught.value)


def _opened(path: Path) -> None:
    program = new_program()
    with Checkpoint.open(path, program=program) as checkpoint:
        checkpoint.restore(program)


def test_every_bit_of_a_manifest(copy: Path) -> None:
    """Each byte of the newest one with a bit flipped; of its first and last 200, and at length of all, each bit."""
    from gpu_wcoj.checkpoint.manifest import Manifest

    name = newest(copy)
    data = (copy / name).read_bytes()
    for at in range(len(data)):
        for bit in range(8) if IS_LONG or min(at, len(data) - 1 - at) < 200 else [at % 8]:
            flipped = bytearray(data)
            flipped[at] ^= 1 << bit
            with pytest.raises(CheckpointError, match="x"):
                Manifest.from_bytes(bytes(flipped), "x")
    for end in range(len(data)):
        with pytest.raises(CheckpointDamagedError):
            Manifest.from_bytes(data[:end], "x")
    for spelled in (data + b" ", b" " + data, data.replace(b",", b", ", 1), data.rstrip()):
        with pytest.raises(CheckpointDamagedError):
            Manifest.from_bytes(spelled, "x")
    assert Manifest.from_bytes(data, "x").name == name


def test_flipped_bits_truncation_and_zeroes_in_every_file(copy: Path) -> None:
    rng = random.Random(0)
    files = needed(copy)
    assert len(files) > 8
    for name in files:
        data = (copy / name).read_bytes()
        places = [rng.randrange(len(data)) for _ in range(4)]
        damages = [data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :] for at in places]
        damages += [data[: rng.randrange(len(data))], b"", data + b"x", bytes(len(data))]
        for damaged in damages:
            (copy / name).write_bytes(damaged)
            refuses(copy, name)
        (copy / name).write_bytes(data)
    Program.restore(copy)


def test_deleted_files(copy: Path) -> None:
    for name in needed(copy):
        data = (copy / name).read_bytes()
        (copy / name).unlink()
        refuses(copy, name)
        (copy / name).write_bytes(data)
    for name in list(os.listdir(copy)):
        if name.startswith("manifest"):
            (copy / name).unlink()
    refuses(copy, "manifest-")


def test_swapped_and_foreign_files(copy: Path, tmp_path: Path) -> None:
    runs = [name for name in needed(copy) if name.startswith("run")]
    first, second = ((copy / name).read_bytes() for name in runs[:2])
    (copy / runs[0]).write_bytes(second)
    (copy / runs[1]).write_bytes(first)
    refuses(copy, "run-")
    (copy / runs[0]).write_bytes(first)
    (copy / runs[1]).write_bytes(second)
    Program.restore(copy)
    other = make(tmp_path / "other", seed=5)
    for name in (newest(copy), runs[0]):
        own = (copy / name).read_bytes()
        (copy / name).write_bytes((other / name).read_bytes() if (other / name).exists() else first + b" ")
        with pytest.raises(CheckpointDamagedError):
            Program.restore(copy)
        (copy / name).write_bytes(own)
    shutil.copy(copy / newest(copy), copy / "manifest-000000000099.json")
    refuses(copy, "manifest-000000000099.json")


def test_a_torn_lease_is_only_a_hint(copy: Path) -> None:
    (copy / "lease").write_bytes(b'{"sha256":"00')
    Program.restore(copy)
    _opened(copy)


def test_what_differs_is_said(copy: Path) -> None:
    others = {
        "program": Program(SET_TEXT.replace("a != c", "a < c"), keep=["corner"]),
        "semantics": Program(SET_TEXT, bag=True, keep=["corner"]),
        "kept heads": Program(SET_TEXT),
        "outputs": Program(SET_TEXT, keep=["corner"], outputs=["triangle"]),
        "schema": Program(SET_TEXT, keep=["corner"], schema={"edge": {"src": "int64", "dst": "int64"}}),
    }
    for what, program in others.items():
        with pytest.raises(CheckpointMismatchError, match=f"in its {what}") as caught:
            Checkpoint.open(copy, program=program)
        assert str(caught.value.stored) in str(caught.value)
        assert str(caught.value.given) in str(caught.value)
    with pytest.raises(CheckpointMismatchError, match="in its layout"):
        Checkpoint.open(copy, program=new_program(), options=CheckpointOptions(layout="hypercube 2x2"))
    Checkpoint.open(copy, program=Program("% the same\n" + SET_TEXT, keep=["corner"])).close()


def test_folders_without_a_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="holds no checkpoint"):
        Program.restore(tmp_path)
    with pytest.raises(CheckpointError, match="holds no checkpoint"):
        Program.restore(tmp_path / "absent")
    (tmp_path / "thesis.txt").write_text("mine")
    for use in (Program.restore, new_program().checkpoint):
        with pytest.raises(CheckpointError, match=r"thesis.txt' is a file"):
            use(tmp_path / "thesis.txt")
    with pytest.raises(CheckpointError, match="holds no checkpoint, but 'thesis.txt'"):
        new_program().checkpoint(tmp_path)
    for option in ("bag", "keep", "outputs", "schema"):
        with pytest.raises(UsageError, match=f"'{option}' is stored in the checkpoint"):
            Program.restore(tmp_path, **{option: True})

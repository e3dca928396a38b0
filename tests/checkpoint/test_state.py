"""What a restored program knows: everything. And what a commit writes: what has changed."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpu_wcoj import Program
from gpu_wcoj.backend import Backend, cpu_backend
from gpu_wcoj.checkpoint import Checkpoint, CheckpointOptions
from gpu_wcoj.checkpoint.canonical import rows_digest
from gpu_wcoj.checkpoint.state import first_to_merge
from gpu_wcoj.errors import WeightOverflowError
from tests.helpers.checkpoint_folders import HookedFolder, MemoryFolder
from tests.helpers.checkpoint_script import INPUTS, SET_TEXT, Reference, answers, new_program, seen, ticks

TRIANGLE = "triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c)."


@pytest.mark.drawn("seed", "bag", "most_runs", each=True)
@pytest.mark.parametrize("bag", [False, True])
@pytest.mark.parametrize("most_runs", [2, 16])
@pytest.mark.parametrize("seed", [0, 1])
def test_restored_after_every_batch(tmp_path: Path, bag: bool, most_runs: int, seed: int) -> None:
    """Strings, bytes, nulls, derivations, a kept head, new types and nulls on the way: as without a checkpoint."""
    reference = Reference(ticks(24, seed), bag)
    options = CheckpointOptions(most_runs=most_runs)
    for number, tick in enumerate(reference.script):
        program = new_program(bag)
        with Checkpoint.open(tmp_path, program=program, options=options) as checkpoint:
            checkpoint.restore(program)
            assert program.last_tick.tick == number - 1
            assert seen(program) == reference.state(number - 1)
            assert answers(program, tick) == reference.answers[number]
            checkpoint.commit(number)
            manifest = checkpoint.last
        assert manifest is not None
        assert manifest.tick == number
        assert max(len(runs.runs) for runs in manifest.state.relations.values()) <= most_runs
        kept = {name for name in os.listdir(tmp_path) if name.startswith("run")}
        assert {run.file for run in manifest.state.runs} <= kept
    assert seen(Program.restore(tmp_path)) == reference.state(23)


def test_runs_are_not_sorted_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither one run nor many, of rows that came and went; ids are too wide for two to fit one word."""
    rng = np.random.default_rng(3)
    program = Program(TRIANGLE, bag=True, backend="cpu")
    rows = rng.integers(0, 60, (2000, 2)) * 0x1E3779B97F4A7C1
    with Checkpoint.open(tmp_path, program=program) as checkpoint:
        for number, part in enumerate(np.split(rows, [1500, 1600, 1700])):
            weights = np.ones(len(part), np.int64) if number != 2 else np.full(len(part), -1)
            part = rows[:100] if number == 2 else part  # some go again
            program.load({"edge": {"src": part[:, 0], "dst": part[:, 1], "weight": weights[: len(part)]}})
            checkpoint.commit(number)
            assert checkpoint.last is not None
            assert checkpoint.last.state is not None
            assert len(checkpoint.last.state.relations["input edge"].runs) == number + 1
            with monkeypatch.context() as patched:
                patched.setattr("gpu_wcoj.checkpoint.state._consolidated", None)
                assert Program.restore(tmp_path).relation("edge") == program.relation("edge")


def test_on_each_backend_and_moved_between_them(tmp_path: Path, backend: Backend) -> None:
    reference = Reference(ticks(16))
    names = [backend, cpu_backend(), backend, cpu_backend(compiled=False)]
    for number, tick in enumerate(reference.script):
        program = new_program() if number == 0 else Program.restore(tmp_path, backend=names[number % 4])
        assert answers(program, tick) == reference.answers[number]
        program.checkpoint(tmp_path)
        program.checkpoint(tmp_path)
    assert seen(Program.restore(tmp_path, backend=backend)) == reference.state(15)


def test_on_a_device_behind_the_shim(tmp_path: Path) -> None:
    """Arrays that are not NumPy's, the ticks on either side."""
    from tests.shim import available, shim_backend

    if reason := available():
        pytest.skip(reason)
    reference = Reference(ticks(12))
    device = shim_backend()
    program = Program(SET_TEXT, keep=["corner"], backend=device, route=6, threads=1, inputs=INPUTS)
    for number, tick in enumerate(reference.script):
        assert answers(program, tick) == reference.answers[number]
        program.checkpoint(tmp_path)
        if number % 4 == 1:
            program = Program.restore(tmp_path, backend=device, route=("cpu", "device", 6)[number % 3], threads=1)
            assert seen(program) == reference.state(number)


def test_with_a_twin_that_takes_some_of_the_ticks(tmp_path: Path) -> None:
    """A journal with ticks of both sides."""
    reference = Reference(ticks(24))
    twin = cpu_backend(compiled=False)
    program = Program(SET_TEXT, keep=["corner"], backend="cpu", twin=twin, route=6, threads=1, inputs=INPUTS)
    with Checkpoint.open(tmp_path, program=program) as checkpoint:
        for number, tick in enumerate(reference.script):
            assert answers(program, tick) == reference.answers[number]
            if number % 3 == 2:
                checkpoint.commit(number // 3)
                assert seen(Program.restore(tmp_path)) == reference.state(number)


def test_ticks_between_commits_compaction_and_undone_ticks(tmp_path: Path) -> None:
    reference = Reference(ticks(30))
    program = new_program()
    with Checkpoint.open(tmp_path, program=program) as checkpoint:
        for number, tick in enumerate(reference.script):
            with pytest.raises(Exception, match="rel"):
                program.step({"name": [(1, "never to be seen")], "edge": [(1, 2, 3, 4)]})
            assert answers(program, tick) == reference.answers[number]
            if number % 7 == 3:
                program.compact()
            if number % 4 == 1:
                checkpoint.commit(number // 4)
                assert seen(Program.restore(tmp_path)) == reference.state(number)
    values, stored = (
        one.dictionaries[0].decode(np.arange(len(one.dictionaries[0]))).to_pylist()
        for one in (program, Program.restore(tmp_path))
    )
    assert stored == values[: len(stored)]
    assert "never to be seen" not in values


def test_weights_and_codes_to_the_ends_of_int64(tmp_path: Path) -> None:
    """Between two commits a weight may change by almost 2^64."""
    most, least = (1 << 63) - 1, -(1 << 63)
    program = Program("pair(a, b) :- left(a), right(b).", bag=True, inputs=["left", "right"])
    with Checkpoint.open(tmp_path, program=program) as checkpoint:
        program.load({"left": [((most,), most), ((least,), least), ((0,), 5)]})
        checkpoint.commit(0)
        program.load({"left": [((most,), least), ((0,), -5)]})
        program.load({"left": [((most,), -most)]})
        checkpoint.commit(1)
        assert Program.restore(tmp_path).relation("left").rows() == [((least,), least), ((most,), least)]
        program.load({"left": [((least,), most)]})
        program.load({"left": [((least,), 1)]})
        checkpoint.commit(2)
        assert Program.restore(tmp_path).relation("left").rows() == [((most,), least)]


def test_the_bound_of_an_answer_that_is_not_stored(tmp_path: Path) -> None:
    """An overflow of the whole answer's weight is found after a restart as it is without one."""
    text = "out(a) :- left(a, b), right(b, c)."
    half = 1 << 31
    program = Program(text, bag=True)
    program.step({"left": [((1, 2), half)], "right": [((2, 3), 2 * half - 1)]})
    program.checkpoint(tmp_path)
    again = Program.restore(tmp_path)
    for one in (program, again):
        with pytest.raises(WeightOverflowError) as caught:
            one.step({"left": [((1, 5), half)], "right": [((5, 3), 1)]})
        assert caught.value.relation == "out"
    assert again.relation("out").rows() == program.relation("out").rows()


def test_types_and_names_come_back(tmp_path: Path) -> None:
    import datetime as dt
    import decimal

    table = pa.table(
        {
            "when": pa.array([dt.datetime(2020, 1, 1), None], pa.timestamp("us")),
            "price": pa.array([decimal.Decimal("1.50"), None], pa.decimal128(10, 2)),
            "ratio": pa.array([0.5, float("nan")]),
            "flag": pa.array([True, None]),
            "kind": pa.array(["ü", None]).dictionary_encode(),
            "small": pa.array([1, 2], pa.int8()),
        }
    )
    program = Program("all(a, b, c, d, e, f) :- trade(a, b, c, d, e, f).", keep=["all"])
    program.step({"trade": table})
    program.checkpoint(tmp_path)
    again = Program.restore(tmp_path)
    for name in ("trade", "all"):
        found, wanted = (one.relation(name).to_arrow() for one in (again, program))
        assert found.schema == wanted.schema
        assert str(found.to_pydict()) == str(wanted.to_pydict())  # a NaN does not equal itself
    assert repr(again) == repr(program)
    assert again.explain() == program.explain()


def test_a_program_before_its_first_rows_and_after_its_last(tmp_path: Path) -> None:
    program = new_program()
    program.checkpoint(tmp_path)
    again = Program.restore(tmp_path)
    assert seen(again) == seen(program)
    again.step({"edge": [(1, 2), (2, 3), (1, 3)]})
    again.checkpoint(tmp_path)
    again.step({"edge": [((1, 2), -1), ((2, 3), -1), ((1, 3), -1)]})
    again.checkpoint(tmp_path)
    last = Program.restore(tmp_path)
    assert seen(last) == {name: [] for name in seen(last)}
    assert last.last_tick.tick == 1


def test_texts_with_odd_characters(tmp_path: Path) -> None:
    text = 'odd(a) :- name(a, "ü \\"\\\\\\n\\u0001").   % a comment\n'
    program = Program(text, outputs=["odd"])
    program.step({"name": [(1, 'ü "\\\n\x01'), (2, "")]})
    program.checkpoint(tmp_path)
    again = Program.restore(tmp_path)
    assert again.relation("odd").rows() == [((1,), 1)]
    assert again.step({"name": [(3, 'ü "\\\n\x01')]})["odd"].rows() == [((3,), 1)]


def test_only_what_has_changed_is_written() -> None:
    """Bytes of every commit: at most 3 times the change and 4 KiB a file, beside merges, which are amortised."""
    rng = np.random.default_rng(0)
    memory = MemoryFolder()
    sizes: dict[str, int] = {}

    class Counted(HookedFolder):
        def create(self, name: str) -> Any:
            file = super().create(name)
            write = file.write
            file.write = lambda data: (sizes.__setitem__(name, sizes.get(name, 0) + len(data)), write(data))[1]
            return file

    program = Program(TRIANGLE, backend="cpu", threads=1)
    n, change = 200_000, 2_000
    with Checkpoint.open(Counted(memory, lambda *_: None), program=program) as checkpoint:
        program.load({"edge": rng.integers(0, 1 << 40, (n, 2))})
        checkpoint.commit(0)
        whole = sum(sizes.values())
        total, merges = 0, 0
        for batch in range(1, 120):
            sizes.clear()
            program.load({"edge": rng.integers(0, 1 << 40, (change, 2))})
            before = checkpoint.last
            checkpoint.commit(batch)
            after = checkpoint.last
            assert before is not None
            assert after is not None
            is_merge = len(after.state.relations["input edge"].runs) <= len(before.state.relations["input edge"].runs)
            written = sum(sizes.values())
            limit = 3 * change * 2 * 8 + 4096 * len(sizes)
            assert is_merge or written <= limit
            total += written
            merges += is_merge
        assert 5 < merges < 40
        assert total <= 119 * 3 * change * 3 * 8 + 119 * 3 * 4096
        live = sum(len(inode.now) for inode in memory.now.values())
        assert live <= 2.5 * (whole + 119 * change * 16)


def test_a_log_that_outgrows_the_state_is_merged_into_it() -> None:
    sizes = [1000.0]
    written = 1000.0
    for _ in range(10_000):
        sizes.append(10)
        start = first_to_merge(sizes)
        merged = sum(sizes[start:])
        written += merged
        sizes[start:] = [merged]
        assert len(sizes) <= 16
    assert written <= 10 * 10_000 * 8
    assert sum(sizes) == 1000 + 100_000


def test_no_pickle_and_no_program_text_is_executed(tmp_path: Path) -> None:
    program = new_program()
    for tick in ticks(6):
        program.step(tick)
    program.checkpoint(tmp_path)
    code = f"""
import os
import sys
import gpu_wcoj
program = gpu_wcoj.Program({TRIANGLE!r}, backend="cpu")
program.step({{"edge": [(1, 2)]}})  # what compiles the kernels may use a cache of its own
import gpu_wcoj.checkpoint.checkpoint, pyarrow.parquet
seen = set()
watched = {{"pickle.find_class", "marshal.loads", "subprocess.Popen", "os.system", "socket.connect"}}
def hook(event, arguments):
    if event not in watched:
        return
    frame, others = sys._getframe(), 0
    while frame is not None:
        others += "numba" in frame.f_code.co_filename or "importlib" in frame.f_code.co_filename
        frame = frame.f_back
    if not others:
        seen.add(event)
sys.addaudithook(hook)
again = gpu_wcoj.Program.restore({str(tmp_path)!r}, backend="cpu", threads=1)
again.step({{"edge": [(1, 2), (2, 3), (1, 3)]}})
again.checkpoint({str(tmp_path)!r})
print(sorted(seen), flush=True)
os._exit(0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
    package = Path(__file__).parents[2] / "gpu_wcoj" / "checkpoint"
    for path in package.glob("*.py"):
        words = path.read_text()
        assert "pickle" not in words
        assert "eval(" not in words.replace("retrieval(", "")
        assert "marshal" not in words


def test_runs_are_plain_parquet_with_checksums(tmp_path: Path) -> None:
    program = new_program()
    program.step({"edge": [(3, 1), (1, 2)]})
    program.checkpoint(tmp_path)
    (path,) = tmp_path.glob("run-*.parquet")
    assert pq.read_table(path, page_checksum_verification=True).to_pydict() == {"c0": [1, 3], "c1": [2, 1]}


def test_digests_of_rows_depend_on_rows_alone() -> None:
    rng = random.Random(0)
    columns: dict[str, pa.Array] = {
        "int": pa.array([1, None, 3, 4], pa.int32()),
        "text": pa.array(["a", "", None, "üü"]),
        "view": pa.array(["a", "", None, "longer than twelve bytes"], pa.string_view()),
        "bytes": pa.array([b"", None, b"\x00", b"x"], pa.binary()),
        "bool": pa.array([True, False, None, True]),
        "coded": pa.array(["x", "y", "x", None]).dictionary_encode(),
        "fixed": pa.array([b"ab", b"cd", None, b"ef"], pa.binary(2)),
        "decimal": pa.array([1, 2, None, 4]).cast(pa.decimal128(25, 2)),
        "null": pa.nulls(4),
    }
    whole = pa.table(columns)
    digest = rows_digest({"r": whole})
    for _ in range(20):
        cut = rng.randrange(5)
        padded = pa.concat_tables([whole.slice(3), whole, whole.slice(1)]).combine_chunks().slice(1, 4)
        assert rows_digest({"r": pa.concat_tables([whole.slice(0, cut), whole.slice(cut)])}) == digest
        assert rows_digest({"r": padded}) == digest
    for name in columns:
        if name != "null":
            column = whole.column(name)
            others = [pa.chunked_array([column.to_pylist()[1::-1] + column.to_pylist()[2:]], column.type)]
            others += [pa.chunked_array([[*column.to_pylist()[:3], column.to_pylist()[2]]], column.type)]
            for other in others:
                changed = whole.set_column(whole.schema.get_field_index(name), name, other)
                assert rows_digest({"r": changed}) != digest
    assert rows_digest({"r": whole.rename_columns([*whole.column_names[:-1], "other"])}) != digest
    assert rows_digest({"r": whole.slice(0, 3)}) != digest
    assert rows_digest({"r": whole.slice(0, 0)}) != rows_digest({})

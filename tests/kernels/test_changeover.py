"""Programs start on the NumPy kernels and change to the compiled ones between two ticks, without a trace in answers."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import gpu_wcoj as gw
import gpu_wcoj.backend
from cpu_fallback import compilation
from gpu_wcoj.backend import COMPILED_FROM, LOADING_SECONDS, Changeover, cpu_backend, next_backend, select_backend
from gpu_wcoj.errors import UsageError
from tests.helpers.recursive_programs import CLOSURES, LAYERED
from tests.kernels.test_loading import PROGRAMS

ROOT = Path(__file__).parents[2]
N_TICKS = 5

AGGREGATES = {
    "sums": "total(a, s, n) :- s = sum b : { edge(a, b) }, n = count : { edge(a, _) }, edge(a, _).",
    "extremes": "range(a, l, h) :- l = min b : { edge(a, b) }, h = max b : { edge(a, b) }, edge(a, _).",
    "means": "mean(a, m) :- m = mean b : { edge(a, b) }, edge(a, _).",
    "negation": "open(a, c) :- edge(a, b), edge(b, c), !edge(a, c).",
}
TEXTS = PROGRAMS | AGGREGATES | CLOSURES | {name: LAYERED[name] for name in list(LAYERED)[:3]}


@pytest.fixture
def change(monkeypatch) -> Changeover:
    """The change of this process, which nothing but the test makes happen."""
    change = Changeover(is_begun=True, is_over=True)
    monkeypatch.setattr(gpu_wcoj.backend, "_changeover", change)
    return change


def interim() -> gw.backend.Backend:
    return replace(cpu_backend(False), is_interim=True)


def bits(rows: gw.ZSet) -> object:
    """All that a Z-set holds, as bytes."""
    columns = [(column.type.name, column.codes.tobytes(), None if column.valid is None else column.valid.tobytes())
               for column in rows.columns]  # fmt: skip
    return rows.names, columns, rows.weights.tobytes()


def script(program: gw.Program, name: str) -> list[dict[str, gw.ZSet]]:
    """Ticks of random rows, a third of which take away rows that are there, so that no weight falls below 0."""
    rng = random.Random(name)
    there: dict[str, list[tuple[int, ...]]] = {relation: [] for relation in program.inputs}
    ticks = []
    for _ in range(N_TICKS):
        tick = {}
        for relation, present in there.items():
            gone = rng.sample(present, len(present) // 3)
            come = [tuple(rng.randrange(6) for _ in range(program.arity(relation))) for _ in range(8)]
            for row in gone:
                present.remove(row)
            present += come
            tick[relation] = gw.ZSet.from_rows([*((row, -1) for row in gone), *((row, 1) for row in come)])
        ticks.append(tick)
    return ticks


def run(
    text: str, name: str, bag: bool, before_tick: Callable[[int], None], backend: gw.backend.Backend
) -> list[object]:
    """The changes of every tick, or its error, and all relations after the last tick."""
    program = gw.Program(text, bag=bag, backend=backend)
    seen: list[object] = []
    for index, tick in enumerate(script(program, name)):
        before_tick(index)
        try:
            seen.append({output: bits(rows) for output, rows in program.step(tick).items()})
        except gw.errors.GpuWcojError as error:
            seen.append(str(error))
        seen.append(program.last_tick.ignored)
    seen += [bits(program.relation(head)) for head in program.heads]
    return [*seen, program.last_tick.kernels]


@pytest.mark.drawn("bag", "name", share=4)
@pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
@pytest.mark.parametrize("name", TEXTS)
def test_answers_are_the_same_bits_wherever_the_kernels_change(name, bag, change):
    text = TEXTS[name]
    try:
        gw.Program(text, bag=bag)
    except gw.errors.GpuWcojError:
        pytest.skip("bags have no such programs")
    *expected, kernels = run(text, name, bag, lambda _: None, cpu_backend(True))
    assert kernels == "numba"
    for changed_at in range(N_TICKS + 1):
        change.target = None

        def before_tick(index: int, at: int = changed_at) -> None:
            if index == at:
                change.target = cpu_backend(True)

        *answers, kernels = run(text, name, bag, before_tick, interim())
        assert answers == expected
        assert kernels == ("numpy" if changed_at == N_TICKS else "numba")


def _headlines(program):
    """Return the first line of an explanation, and the one about the last tick's time."""
    lines = program.explain(analyze=True).splitlines()
    return lines[0], next(line for line in lines if line.startswith("tick "))


def test_the_program_names_the_kernels_that_run(change):
    program = gw.Program(PROGRAMS["triangle"], backend=interim())
    program.step({"edge": [(1, 2), (2, 3), (1, 3)]})
    assert program.last_tick.kernels == "numpy"
    first, ticked = _headlines(program)
    assert first == "backend cpu (NumPy kernels), set semantics"
    assert ticked.startswith("tick 0 on cpu (NumPy kernels) in ")
    change.target = cpu_backend(True)
    program.step({"edge": [(3, 4)]})
    assert program.last_tick.kernels == "numba"
    assert program.backend is cpu_backend(True)
    first, ticked = _headlines(program)
    assert first == "backend cpu, set semantics"
    assert ticked.startswith("tick 1 on cpu in ")


def test_a_tick_that_fails_after_the_change_leaves_the_state_as_before(change):
    program = gw.Program(PROGRAMS["triangle"], backend=interim())
    program.step({"edge": [(1, 2), (2, 3), (1, 3)]})
    change.target = cpu_backend(True)

    def refuse(output: str, piece: gw.ZSet) -> None:
        raise KeyError(output)

    with pytest.raises(KeyError):
        program.step_pieces({"edge": [(3, 4), (2, 4)]}, refuse)
    assert program.relation("triangle").rows() == [((1, 2, 3), 1)]
    assert program.step({"edge": [(3, 4), (2, 4)]})["triangle"].rows() == [((2, 3, 4), 1)]
    assert program.last_tick.kernels == "numba"


def test_a_state_from_before_the_change_comes_back_and_changes_too(change):
    program = gw.Program(PROGRAMS["triangle"], backend=interim())
    program.load({"edge": [(1, 2), (2, 3)]})
    mark = program.mark()
    change.target = cpu_backend(True)
    program.load({"edge": [(1, 3)]})
    program.return_to(mark)
    assert program.step({"edge": [(1, 3)]})["triangle"].rows() == [((1, 2, 3), 1)]
    assert program.last_tick.kernels == "numba"


def test_a_checkpoint_holds_the_ticks_of_both_kernels(change, tmp_path):
    program = gw.Program(PROGRAMS["triangle"], backend=interim())
    program.load({"edge": [(1, 2), (2, 3)]})
    program.checkpoint(tmp_path)
    program.load({"edge": [(1, 3)]})
    change.target = cpu_backend(True)
    program.load({"edge": [(3, 4), (2, 4)]})
    program.checkpoint(tmp_path)
    again = gw.Program.restore(tmp_path)
    assert again.relation("triangle").rows() == program.relation("triangle").rows() == [((1, 2, 3), 1), ((2, 3, 4), 1)]


# When it happens.


@pytest.mark.parametrize(
    ("rows", "seconds", "loads"),
    [(10, 0.0, False), (COMPILED_FROM, 0.0, True), (COMPILED_FROM - 1, 0.0, False), (1, LOADING_SECONDS, True)],
)
def test_kernels_are_loaded_once_there_is_work_for_them(rows, seconds, loads, monkeypatch):
    change = Changeover(is_begun=True)
    monkeypatch.setattr(gpu_wcoj.backend, "_changeover", change)
    monkeypatch.setattr(compilation, "is_complete", lambda folder: True)
    backend = next_backend(interim(), rows, seconds)
    assert backend.kernels.name == ("numba" if loads else "numpy")


def test_seconds_of_many_small_ticks_add_up(monkeypatch):
    monkeypatch.setattr(gpu_wcoj.backend, "_changeover", Changeover(is_begun=True))
    monkeypatch.setattr(compilation, "is_complete", lambda folder: True)
    names = [next_backend(interim(), 1, LOADING_SECONDS / 2).kernels.name for _ in range(2)]
    assert names == ["numpy", "numba"]


@pytest.mark.parametrize("complete", [[True, False], [False]], ids=["for another processor", "not yet"])
def test_kernels_that_are_not_all_there_are_not_loaded(complete, monkeypatch):
    answers = iter([*complete, *[False] * 9])
    started: list[object] = []
    change = Changeover(is_begun=True)
    monkeypatch.setattr(gpu_wcoj.backend, "_changeover", change)
    monkeypatch.setattr(compilation, "is_complete", lambda folder: next(answers))
    monkeypatch.setattr(compilation, "start_background", lambda report: started.append(report) or True)
    assert next_backend(interim(), COMPILED_FROM, 0.0).kernels.name == "numpy"
    assert len(started) == len(complete) - 1


FRESH = """
import logging, os, sys, time
logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
import gpu_wcoj as gw
program = gw.Program("triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c).")
assert "numba" not in sys.modules
print(program.step({"edge": [(1, 2), (2, 3), (1, 3), (3, 4)]})["triangle"].rows(), program.last_tick.kernels)
assert "numba" not in sys.modules
print(program.explain().splitlines()[0])
"""


def run_fresh(**variables: object) -> tuple[list[str], list[str]]:
    """What `FRESH` prints and logs in a process of its own."""
    environment = {name: value for name, value in os.environ.items() if name != "GPU_WCOJ_COMPILE"}
    environment |= {name: str(value) for name, value in variables.items()}
    done = subprocess.run(
        [sys.executable, "-c", FRESH], capture_output=True, text=True, check=True, cwd=ROOT, env=environment
    )
    return done.stdout.splitlines(), [line for line in done.stderr.splitlines() if "kernels" in line]


def test_a_first_program_neither_compiles_nor_loads_compiled_code(tmp_path):
    (folder := tmp_path / compilation.cache_folder().name).mkdir()
    (folder / f"complete-{sys.implementation.cache_tag}").write_text("this processor\n")
    printed, logged = run_fresh(NUMBA_CACHE_DIR=tmp_path)
    assert printed == ["[((1, 2, 3), 1)] numpy", "backend cpu (NumPy kernels), set semantics"]
    assert logged == []


def test_never_keeps_the_numpy_kernels_and_starts_nothing(tmp_path):
    printed, logged = run_fresh(NUMBA_CACHE_DIR=tmp_path, GPU_WCOJ_COMPILE="never")
    assert printed[0] == "[((1, 2, 3), 1)] numpy"
    assert logged == []
    assert list(tmp_path.iterdir()) == []


def test_another_value_is_refused(monkeypatch):
    monkeypatch.setenv("GPU_WCOJ_COMPILE", "later")
    gpu_wcoj.backend.compile_mode.cache_clear()
    try:
        with pytest.raises(UsageError, match="GPU_WCOJ_COMPILE='later' is not allowed: expected 'background', 'never'"):
            select_backend("cpu")
    finally:
        monkeypatch.undo()
        gpu_wcoj.backend.compile_mode.cache_clear()


def test_a_folder_that_cannot_be_written_to_is_reported_once(monkeypatch, tmp_path, caplog):
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(file / "cache"))
    monkeypatch.setattr(gpu_wcoj.backend, "_changeover", Changeover())
    for _ in range(2):
        assert next_backend(interim(), COMPILED_FROM, 1.0).kernels.name == "numpy"
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "cannot be compiled in the background" in caplog.text

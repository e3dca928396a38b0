"""Programs as Soufflé's documentation has them: each prints and writes what is expected."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.souffle.programs import SouffleProgram, programs


def test_there_are_a_hundred_programs():
    names = [program.name for program in programs() if not program.error]
    assert len(names) == len(set(names)) >= 100


@pytest.mark.parametrize("program", list(programs()), ids=lambda program: program.name)
def test_a_program_has_the_expected_output(program: SouffleProgram, tmp_path: Path):
    assert program.differences(tmp_path) == []


def test_a_wrong_output_is_noticed(tmp_path: Path):
    program = SouffleProgram("rules", "wrong", ".decl r(x: number)\nr(1).\n.output r\n", expected={"r": "2\n"})
    assert program.differences(tmp_path) == ["r: expected ['2'], got ['1']"]

"""Programs of Soufflé's users on the command line: folders of facts and results, printed relations, included files."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from gpu_wcoj.cli.main import main

PATHS = """
    .decl edge(x: number, y: number)
    .input edge
    .decl path(x: number, y: number)
    .output path
    path(x, y) :- edge(x, y).
    path(x, z) :- path(x, y), edge(y, z).
"""
PRINTED = "---------------\npath\nx\ty\n===============\n1\t2\n1\t3\n2\t3\n===============\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a program, and another one with its facts."""
    (tmp_path / "p.dl").write_text(PATHS)
    (tmp_path / "facts").mkdir()
    (tmp_path / "facts" / "edge.facts").write_text("1\t2\n2\t3\n")
    return tmp_path


def test_folders_of_facts_and_results(folder: Path):
    assert main(["run", str(folder / "p.dl"), "-F", str(folder / "facts"), f"-D{folder / 'out'}"]) == 0
    assert sorted((folder / "out" / "path.csv").read_text().split()) == ["1", "1", "2", "2", "3", "3"]


@pytest.mark.parametrize("option", [["-D-"], ["-D", "-"], ["--results", "-"]])
def test_relations_are_printed(folder: Path, capsys: pytest.CaptureFixture[str], option: list[str]):
    assert main(["run", str(folder / "p.dl"), "-F", str(folder / "facts"), *option]) == 0
    assert capsys.readouterr().out == PRINTED


def test_results_are_not_printed_beside_counts(folder: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["run", str(folder / "p.dl"), "-F", str(folder / "facts"), "-D-", "--count"]) == 2
    assert "-D" in capsys.readouterr().err


def test_a_failed_test_is_told_with_both_numbers(folder: Path, capsys: pytest.CaptureFixture[str]):
    (folder / "p.dl").write_text(f"{PATHS}.test path 5\n.test path 5\n")
    assert main(["run", str(folder / "p.dl"), "-F", str(folder / "facts"), "-D", str(folder / "out")]) == 1
    assert capsys.readouterr().err == "test of 'path' failed: it has 3 rows, expected 5\n"
    (folder / "p.dl").write_text(f"{PATHS}.test path 3\n")
    assert main(["run", str(folder / "p.dl"), "-F", str(folder / "facts"), "-D", str(folder / "out")]) == 0


def test_compressed_files(folder: Path):
    text = PATHS.replace(".input edge", ".input edge(compress=true)").replace(
        ".output path", ".output path(compress=true)"
    )
    (folder / "p.dl").write_text(text)
    (folder / "facts" / "edge.facts").unlink()
    with gzip.open(folder / "facts" / "edge.facts.gz", "wt") as file:
        file.write("1\t2\n2\t3\n")
    assert main(["run", str(folder / "p.dl"), "-F", str(folder / "facts"), "-D", str(folder)]) == 0
    with gzip.open(folder / "path.csv.gz", "rt") as file:
        assert sorted(file.read().splitlines()) == ["1\t2", "1\t3", "2\t3"]


class TestIncludes:
    def test_a_mistake_is_shown_in_its_file(self, folder: Path, capsys: pytest.CaptureFixture[str]):
        (folder / "p.dl").write_text('// first\n.include "sub/a.dl"\n.decl h(x: number)\nh(x) :- e(x).\nh(x :- e(x).\n')
        (folder / "sub").mkdir()
        (folder / "sub" / "a.dl").write_text('.include "b.dl"\n.include "b.dl"\n.decl e(x: number)\n')
        (folder / "sub" / "b.dl").write_text("e(1).\ne(2).\n")
        assert main(["run", str(folder / "p.dl")]) == 2
        assert f"expected ',' or ')' after 'x' (line 5, column 5 of {folder / 'p.dl'})" in capsys.readouterr().err
        (folder / "sub" / "b.dl").write_text("e(1).\ne(2.\n")
        assert main(["run", str(folder / "p.dl")]) == 2
        assert f"(line 2, column 4 of {folder / 'sub' / 'b.dl'})" in capsys.readouterr().err

    def test_circles_are_refused(self, folder: Path, capsys: pytest.CaptureFixture[str]):
        (folder / "p.dl").write_text('.include "a.dl"\nh(1).\n')
        (folder / "a.dl").write_text('.include "p.dl"\n')
        assert main(["run", str(folder / "p.dl")]) == 2
        assert "is included by itself, through" in capsys.readouterr().err

    def test_includes_in_comments_and_texts_stay(self, folder: Path):
        text = 'h("a .include \\"x.dl\\""). // .include "x.dl"\n/* .include "x.dl" */\n.output h\n'
        (folder / "p.dl").write_text(text)
        assert main(["run", str(folder / "p.dl"), "-D", str(folder)]) == 0

    def test_a_file_that_is_not_there(self, folder: Path, capsys: pytest.CaptureFixture[str]):
        (folder / "p.dl").write_text('.include "x.dl"\nh(1).\n')
        assert main(["run", str(folder / "p.dl")]) == 2
        assert "x.dl" in capsys.readouterr().err

    def test_a_text_reads_no_files(self, capsys: pytest.CaptureFixture[str]):
        assert main(["run", "-e", '.include "/etc/hostname"\nh(1).']) == 2
        assert "'.include' is read by the command line only" in capsys.readouterr().err

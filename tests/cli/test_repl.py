"""Statements that are typed one after the other: what they print, what they change, and what mistakes leave."""

from __future__ import annotations

import io
import random
import sys
from pathlib import Path

import pytest

import gpu_wcoj as gw
from gpu_wcoj.cli import repl
from gpu_wcoj.cli.main import main
from gpu_wcoj.cli.repl import Repl
from gpu_wcoj.errors import DatalogSyntaxError, GpuWcojError, SchemaError, UnknownRelationError, UsageError
from tests.cli.test_terminal import Terminal
from tests.reference.fixpoint import fixpoint
from tests.reference.program_text import written


@pytest.fixture
def state(capsys):
    made = Repl(lambda line: sys.stdout.write(f"{line}\n"))

    def say(*statements):
        for statement in statements:
            made.run(statement)
        return capsys.readouterr().out

    made.say = say
    return made


def test_facts_rules_and_changes(state: Repl):
    assert state.say("edge(1, 2). edge(2, 3). edge(2, 3).") == "edge: 2 rows inserted\n"
    assert state.say("hop(a, c) :- edge(a, b), edge(b, c).").startswith("hop: 1 row\n┌")
    assert state.say('edge(3, 4). name(4, "x").') == "edge: 1 row inserted\nname: 1 row inserted\n+ hop(2, 4)\n"
    assert state.say("-edge(2, 3).") == "edge: 1 row deleted\n- hop(1, 3)\n- hop(2, 4)\n"
    assert state.say("-edge(9, 9).") == "edge: 0 rows deleted\n"
    assert "label: 0 rows" in state.say("label(a, n) :- hop(a, c), name(c, n).")
    assert state.say("edge(2, 3).").splitlines()[1:] == ["+ hop(1, 3)", "+ hop(2, 4)", '+ label(2, "x")']
    assert state.say(".list").splitlines() == [
        "edge/2: 3 rows", "name/2: 1 row", "hop/2: 2 rows", "label/2: 1 row",
        "  hop(a, c) :- edge(a, b), edge(b, c).", "  label(a, n) :- hop(a, c), name(c, n).",
    ]  # fmt: skip


def test_facts_of_a_relation_that_rules_define(state: Repl):
    state.say("edge(1, 2). edge(2, 3).", "hop(a, c) :- edge(a, b), edge(b, c).")
    assert state.say("hop(5, 6).") == "hop: 1 row inserted\n+ hop(5, 6)\n"
    assert "hop: 2 rows" in state.say(".show hop")
    assert state.say("far(a) :- hop(a, _).", "-hop(5, 6).").endswith("hop: 1 row deleted\n- hop(5, 6)\n- far(5)\n")


def test_questions(state: Repl):
    state.say("edge(1, 2). edge(2, 3). edge(2, 4).")
    assert state.say("?- edge(1, 2).") == "yes\n"
    assert state.say("?- edge(2, 1)") == "no\n"
    text = state.say("?- edge(1, b), edge(b, c).")
    assert text.startswith("answer: 2 rows\n")
    assert "│   b │   c │" in text
    assert "│   3 │" in state.say("select count(*) n from edge;")
    assert state.say(".limit 1", ".show edge").startswith("edge: 1 of 3 rows\n")
    assert "edge: 3 rows" in state.say(".show edge 5")
    assert "delta path" not in state.say(".explain")


def test_several_rules_of_one_head_and_dropping_them(state: Repl):
    state.say("edge(1, 2). edge(2, 3).", "reach(a, b) :- edge(a, b).", "reach(a, c) :- reach(a, b), edge(b, c).")
    assert state.say("edge(3, 4).").splitlines()[1:] == ["+ reach(1, 4)", "+ reach(2, 4)", "+ reach(3, 4)"]
    state.say("far(a) :- reach(a, 4).")
    with pytest.raises(UsageError, match="dropping 'reach' is not possible: 'far"):
        state.run(".drop reach")
    assert state.say(".drop far", ".drop reach") == "far: rules dropped\nreach: rules dropped\n"
    assert state.relations == ["edge"]
    assert state.say(".show edge").startswith("edge: 3 rows")


def test_files(state: Repl, tmp_path: Path):
    (tmp_path / "my edges.csv").write_text("src,dst\n1,2\n2,3\n")
    assert state.say(f".load 'edge={tmp_path / 'my edges.csv'}'") == "edge: 2 rows inserted\n"
    assert "│ src │ dst │" in state.say(".show edge")
    assert "│   3 │" in state.say("select max(dst) m from Edge;")


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("edge(1, 2, 3).", SchemaError), ("edge(1, ", DatalogSyntaxError), ("hop(a, c) :- edge(a, b).", GpuWcojError),
        ("?- nothing(a).", UnknownRelationError), (".show nothing", SchemaError), (".show", UsageError),
        (".shwo edge", UsageError), (".limit many", UsageError), (".drop edge", UnknownRelationError),
        ("-hop(a, b) :- edge(a, b).", UsageError), ('edge("x", 1).', GpuWcojError),
        (".show 'edge", UsageError), (".load edge=nowhere", GpuWcojError),
    ],
)  # fmt: skip
def test_mistakes_leave_the_state(state: Repl, statement: str, error: type[Exception]):
    state.say("edge(1, 2). edge(2, 3).", "hop(a, c) :- edge(a, b), edge(b, c).")
    with pytest.raises(error):
        state.run(statement)
    assert state.say(".list").splitlines() == [
        "edge/2: 2 rows", "hop/2: 1 row", "  hop(a, c) :- edge(a, b), edge(b, c)."
    ]  # fmt: skip
    assert state.say("edge(3, 4).").splitlines()[1:] == ["+ hop(2, 4)"]


def test_nothing_is_there_at_first(state: Repl):
    for statement in (".list", ".explain", ".show edge"):
        with pytest.raises(SchemaError, match="there are no relations yet"):
            state.run(statement)
    assert ".load" in state.say(".help")


@pytest.mark.parametrize("seed", range(2))
def test_statements_by_chance(state: Repl, seed: int):
    chance = random.Random(seed)
    print(f"seed {seed}")
    rules = [
        "hop(a, c) :- edge(a, b), edge(b, c).", "open(a, c) :- edge(a, b), edge(b, c), !edge(a, c).",
        "reach(a, b) :- edge(a, b).", "reach(a, c) :- reach(a, b), edge(b, c).", "loop(a) :- reach(a, a).",
    ]  # fmt: skip
    there: set[tuple[int, int]] = set()
    state.say("edge(0, 0).", "-edge(0, 0).")
    stated: list[str] = []
    for _ in range(25):
        if len(stated) < len(rules) and chance.random() < 0.3:
            stated.append(rules[len(stated)])
            state.say(stated[-1])
        row = (chance.randrange(4), chance.randrange(4))
        state.say(f"{'-' if row in there else ''}edge{row}.")
        there ^= {row}
        if stated:
            expected = fixpoint(written("\n".join(stated)), {"edge": dict.fromkeys(there, 1)})
            for name in {text.partition("(")[0] for text in stated}:
                assert {*state._present().relation(name).to_dict()} == {*expected[name]}, name


def test_the_command_reads_lines(capsys, monkeypatch, tmp_path: Path):
    (tmp_path / "p.dl").write_text("edge(1, 2).\nhop(a, c) :- edge(a, b), edge(b, c).\n")
    lines = "// a comment\n\nedge(2, 3).\n.quit\nedge(3, 4).\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
    assert main(["repl", str(tmp_path / "p.dl")]) == 0
    assert capsys.readouterr().out == "edge: 1 row inserted\nhop: 0 rows\nedge: 1 row inserted\n+ hop(1, 3)\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO("edge(1, x).\nedge(1, 2).\n"))
    assert main(["repl"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "variable 'x' in the head" in printed.err


@pytest.mark.parametrize("editor", [True, False])
def test_in_a_terminal(tmp_path: Path, editor: bool):
    if editor:
        pytest.importorskip("prompt_toolkit")
    else:
        (tmp_path / "prompt_toolkit.py").write_text("raise ImportError\n")
    environment = {"XDG_STATE_HOME": str(tmp_path / "state"), "PROMPT_TOOLKIT_NO_CPR": "1"}
    if not editor:
        environment["PYTHONPATH"] = f"{tmp_path}:{Path(gw.__file__).parents[1]}"
    run = Terminal("repl", environment=environment)
    run.read_until(r"(?s)\.quit ends.*>")
    for typed, shown in [
        (b"edge(1, 2). edge(2, 3).\r", "2 rows inserted"), (b"edge(1, x).\r", "variable 'x'"),
        (b"hop(a, c) :- edge(a, b),\r", ">"), (b"edge(b, c).\r", "hop: 1 row"),
    ]:  # fmt: skip
        before = len(run.text)
        run.write(typed)
        run.read_until(shown, begin=before + len(typed))
    run.write(b".quit\r")
    assert run.finish()[0] == 0
    history = tmp_path / "state" / "gpu_wcoj" / "history"
    assert history.exists() == editor
    assert not editor or "+edge(b, c)." in history.read_text()


def test_words_that_can_be_completed(state: Repl):
    state.say("edge(1, 2).")
    session = repl._session(state)
    if session is None:
        pytest.skip("prompt_toolkit is not installed")
    from prompt_toolkit.document import Document

    offered = session.completer.get_completions(Document("ed"), None)
    assert [one.text for one in offered] == ["edge"]


def test_files_by_name(state: Repl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("edge.csv").write_text("src,dst\n1,2\n2,3\n")
    assert "│   2 │   3 │" in state.say("select * from 'edge.csv' where src > 1;")
    assert "│   1 │   3 │" in state.say("select a.src, b.dst from \"edge.csv\" a join 'edge.csv' b on a.dst = b.src;")
    state.say("node(3).")
    assert "│   3 │" in state.say("select n.c0 from node n join 'edge.csv' e on e.dst = n.c0;")
    with pytest.raises(UnknownRelationError, match="There is no file 'egde.csv'"):
        state.say("select * from 'egde.csv';")
    assert state.say(".list") == "node/1: 1 row\n"


def test_lines_that_declare_and_read(state: Repl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("e.csv").write_text("a,b\n1,x\n2,y\n")
    Path("f.facts").write_text("7\t8\n")
    assert state.say(".decl e(a: number, b: symbol)") == ""
    assert state.say('.input e(filename="e.csv", delimiter=",", headers=true)') == "e: 2 rows inserted\n"
    assert "│   2 │ y   │" in state.say(".show e")
    with pytest.raises(SchemaError, match="was declared or has been so far of type 'int64'"):
        state.say('e("x", "y").')
    assert state.say(".input f") == "f: 1 row inserted\n"
    assert "│   7 │   9 │" in state.say("f(8, 9).", "h(x, z) :- f(x, y), f(y, z).")
    with pytest.raises(UsageError, match="the relation 'e'"):
        state.say(".decl e(x: number)")
    with pytest.raises(UsageError, match="unknown command '.inputs'"):
        state.say(".inputs f")


def test_a_program_with_declarations_begins(capsys: pytest.CaptureFixture[str], tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("e.csv").write_text("1,2\n2,3\n")
    text = '.decl e(a: number, b: number)\n.input e(filename="e.csv", delimiter=",")\nh(a, c) :- e(a, b), e(b, c).\n'
    Path("p.dl").write_text(text)
    monkeypatch.setattr(sys, "stdin", io.StringIO("e(3, 4).\n"))
    assert main(["repl", "p.dl"]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == ["e: 1 row inserted", "+ h(2, 4)"]

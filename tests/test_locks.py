"""One at a time: threads wait for each other, and nobody works on a state in the middle of a tick."""

from __future__ import annotations

import copy
import os
import pickle
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

import gpu_wcoj as gw
from gpu_wcoj import streams
from gpu_wcoj.checkpoint import Checkpoint
from gpu_wcoj.datoms import Database
from gpu_wcoj.errors import GpuWcojError, UsageError
from gpu_wcoj.locks import StateLock
from gpu_wcoj.views import Matcher

PATH = "path(a, c) :- edge(a, b), edge(b, c)."
LOOP = "reach(a, b) :- edge(a, b). reach(a, c) :- reach(a, b), edge(b, c)."
N_TICKS, N_ROWS = 40, 3


@pytest.fixture
def switching() -> Iterator[None]:
    """Threads take turns at the interpreter as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def at_once(*works: Callable[[], object]) -> None:
    """Run all at once, in a thread each; raise what one of them raises."""
    raised: list[BaseException] = []
    begin = threading.Barrier(len(works))

    def run(work: Callable[[], object]) -> None:
        begin.wait()
        try:
            work()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in raised:
        raise error


def rows_of(thread: int, tick: int) -> list[tuple[int, int]]:
    first = 1000 * thread + N_ROWS * tick
    return [(one, one + 1) for one in range(first, first + N_ROWS)]


ASKED = {
    "count": lambda program, folder: program.count("path"),
    "a head": lambda program, folder: program.relation("path"),
    "an input": lambda program, folder: program.relation("edge"),
    "merging": lambda program, folder: program.compact(),
    "batches": lambda program, folder: program.state_rows,
    "bounds": lambda program, folder: program.explain(bounds=True),
    "a tick": lambda program, folder: program.step({"edge": [(7, 8)]}),
    "loading": lambda program, folder: program.load({"edge": [(7, 8)]}),
    "storing": lambda program, folder: program.checkpoint(folder),
}


@pytest.mark.parametrize("text", [PATH, LOOP + PATH + ".output path"], ids=["join", "loop"])
@pytest.mark.parametrize("asked", ASKED)
def test_in_the_middle_of_a_tick_nothing_else_is_done(asked, text, tmp_path, backend):
    program, twin = (gw.Program(text, outputs=["path"], backend=backend) for _ in range(2))
    for one in (program, twin):
        one.step({"edge": [(1, 2), (2, 3)]})
    with pytest.raises(UsageError, match=r"the program is in the middle of taking a tick\."):
        program.step_pieces({"edge": [(3, 4)]}, lambda name, piece: ASKED[asked](program, tmp_path))
    assert program.relation("edge") == twin.relation("edge")
    assert program.relation("path") == twin.relation("path")
    ASKED[asked](program, tmp_path)  # and after it everything is
    for one in (program, twin):
        one.step({"edge": [(3, 4), (7, 8)]})
    assert program.relation("path") == twin.relation("path")


def test_a_mark_can_be_made_and_returned_to_between_ticks_only(backend):
    program = gw.Program(PATH, backend=backend)
    program.step({"edge": [(1, 2), (2, 3)]})
    mark = program.mark()
    program.step({"edge": [(3, 4)]})
    with pytest.raises(UsageError, match="undoing ticks is not possible: the program"):
        program.step_pieces({"edge": [(4, 5)]}, lambda name, piece: program.return_to(mark))
    assert program.count("path") == 2
    program.return_to(mark)
    assert program.count("path") == 1


def test_what_is_only_looked_at_can_be_in_the_middle_of_a_tick(backend):
    program = gw.Program(PATH, backend=backend)
    program.step({"edge": [(1, 2)]})
    seen = []
    program.step_pieces(
        {"edge": [(2, 3)]}, lambda name, piece: seen.append((program.last_tick.tick, program.explain()))
    )
    assert seen[0][0] == 0
    assert program.count("path") == 1


@pytest.mark.parametrize("read", ["edge", "path", "count", "state_rows", "compact", "mark"])
def test_one_thread_writes_and_another_reads(read, switching):
    program = gw.Program(PATH, backend="cpu")
    reading: dict[str, Callable[[], object]] = {
        "edge": lambda: program.relation("edge"),
        "path": lambda: program.relation("path"),
        "count": lambda: program.count("path"),
        "state_rows": lambda: program.state_rows,
        "compact": program.compact,
        "mark": program.mark,
    }

    done = threading.Event()

    def write() -> None:
        for tick in range(N_TICKS):
            program.step({"edge": rows_of(0, tick)})
        done.set()

    def look() -> None:
        while not done.is_set():
            reading[read]()

    at_once(write, look)
    assert [row for row, _ in program.relation("edge").rows()] == [(i, i + 1) for i in range(N_TICKS * N_ROWS)]
    assert program.count("path") == N_TICKS * N_ROWS - 1


def test_a_count_is_that_of_a_whole_tick(switching):
    program, seen = gw.Program(PATH, backend="cpu"), []

    def write() -> None:
        for tick in range(N_TICKS):
            program.step({"edge": rows_of(0, tick)})

    at_once(write, lambda: seen.extend(len(program.relation("edge")) for _ in range(N_TICKS)))
    assert {number % N_ROWS for number in seen} == {0}


@pytest.mark.parametrize("bag", [False, True])
def test_several_threads_write_text(bag, switching):
    program = gw.Program(PATH, bag=bag, backend="cpu")

    def writing(thread: int) -> Callable[[], None]:
        def write() -> None:
            for tick in range(N_TICKS):
                program.step({"edge": [(f"{a:06}", f"{b:06}") for a, b in rows_of(thread, tick)]})

        return write

    at_once(*map(writing, range(3)))
    given = [row for thread in range(3) for tick in range(N_TICKS) for row in rows_of(thread, tick)]
    expected = sorted((f"{a:06}", f"{b:06}") for a, b in given)
    assert sorted(row for row, _ in program.relation("edge").rows()) == expected
    assert program.count("path") == 3 * (N_TICKS * N_ROWS - 1)


def test_a_tick_that_fails_beside_others_takes_no_text_of_theirs_back(switching):
    program, refused = gw.Program(PATH, backend="cpu"), []

    def fail() -> None:
        for tick in range(N_TICKS):
            with pytest.raises(GpuWcojError):
                program.step({"edge": [(f"no {tick}", "no"), (f"no {tick}",)]})
            refused.append(tick)

    def write() -> None:
        for tick in range(N_TICKS):
            program.step({"edge": [(f"{a:06}", f"{b:06}") for a, b in rows_of(0, tick)]})

    at_once(fail, write)
    assert len(refused) == N_TICKS
    expected = [(f"{i:06}", f"{i + 1:06}") for i in range(N_TICKS * N_ROWS)]
    assert sorted(row for row, _ in program.relation("edge").rows()) == expected


def test_texts_are_read_while_others_come_and_are_taken_back(switching):
    """What a thread has read of the state it decodes while another adds texts, fails, and takes them back."""
    program, done = (
        gw.Program("path(a, c) :- edge(a, b), other(b, c).", backend="cpu", inputs=["edge", "other"]),
        threading.Event(),
    )
    first = {(f"{i:06}", f"{i + 1:06}") for i in range(600)}
    later = [{(f"{tick} {i}", "end") for i in range(99)} for tick in range(N_TICKS)]
    program.step({"edge": sorted(first)})

    def write() -> None:
        for tick, rows in enumerate(later):
            refused = [(f"no {tick} {i}", "no") for i in range(99)]
            with pytest.raises(GpuWcojError):
                program.step({"edge": refused, "other": [("no",)]})  # texts of the first have been taken in by then
            program.step({"edge": sorted(rows)})
        done.set()

    def read() -> None:
        while not done.is_set():
            columns = program.relation("edge").to_arrow().columns
            found = set(zip(*(one.to_pylist() for one in columns[:2]), strict=True))
            assert first <= found <= first.union(*later)

    at_once(write, read, read)
    assert {row for row, _ in program.relation("edge").rows()} == first.union(*later)


def test_views_and_matchers(switching):
    view = gw.view(PATH, edge=[(-2, -1)])
    edges = {"src": [-2], "dst": [-1]}
    matcher = Matcher("(a)-[]->(b); (b)-[]->(c)", edges=edges, columns=["a.id", "c.id"], backend="cpu")

    def applying(thread: int) -> Callable[[], None]:
        def apply() -> None:
            for tick in range(N_TICKS):
                rows = rows_of(thread, tick)
                view.apply(edge=rows)
                matcher.apply(edges={"src": [a for a, _ in rows], "dst": [b for _, b in rows]})
                assert len(matcher.matches()) >= tick

        return apply

    at_once(*map(applying, range(3)))
    assert view.count() == matcher.count() == len(matcher.matches()) == 3 * (N_TICKS * N_ROWS - 1)


def test_databases_and_what_follows_two_of_them(switching):
    one, other = Database(), Database()
    for database in (one, other):
        database.transact([{":db/id": 0, ":name": "nobody"}])
    live = one.subscribe("[:find ?e ?name :where [?e :name ?name]]")
    text = "[:find ?e ?name :in $ $other :where [?e :name ?name] [$other ?e :name ?name]]"
    both = one.subscribe(text, other)
    read = []

    def transacting(database: Database, thread: int) -> Callable[[], None]:
        def transact() -> None:
            for tick in range(N_TICKS):
                entity = 1 + N_TICKS * thread + tick
                database.transact([[":db/add", entity, ":name", f"name {entity}"]])

        return transact

    works = [transacting(database, thread) for database in (one, other) for thread in range(2)]
    at_once(
        *works,
        lambda: [read.extend(live.changes()) for _ in range(N_TICKS)],
        lambda: [one.query(text, other) for _ in range(9)],
    )
    read += live.changes()
    n = 2 * N_TICKS + 1
    assert len(live.answer()) == len(both.answer()) == len(one.query(text, other)) == n
    assert len(read) == n  # the first answer, then one per transaction
    assert sum(len(change) for change in read) == n


def test_a_circuit(switching):
    circuit = streams.Circuit(backend="cpu")
    given = circuit.source("edge", {"src": "int64", "dst": "int64"})
    circuit.sink("new", given.incremental_distinct())

    def stepping(thread: int) -> Callable[[], None]:
        return lambda: [circuit.step({"edge": rows_of(thread, tick)}) for tick in range(N_TICKS)]

    at_once(*map(stepping, range(3)))
    again = [row for thread in range(3) for tick in range(N_TICKS) for row in rows_of(thread, tick)]
    assert len(circuit.step({"edge": again})["new"]) == 0


def test_a_circuit_takes_no_tick_in_a_tick():
    circuit = streams.Circuit(backend="cpu")
    source = circuit.source("s", {"x": "int64"})
    circuit.sink("out", source.incremental_distinct())
    source.inspect(lambda value: circuit.step({"s": [(9,)]}))
    with pytest.raises(UsageError, match="the circuit is in the middle of taking a tick"):
        circuit.step({"s": [(1,)]})


def test_commits_beside_ticks(tmp_path, switching):
    program = gw.Program(PATH, backend="cpu")
    with Checkpoint.open(tmp_path, program=program) as checkpoint:

        def write() -> None:
            for tick in range(N_TICKS):
                program.step({"edge": rows_of(0, tick)})

        at_once(write, lambda: [checkpoint.commit(batch) for batch in range(10)])
        checkpoint.commit(10)
    assert program.count("edge") == N_TICKS * N_ROWS
    assert gw.Program.restore(tmp_path).relation("edge") == program.relation("edge")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_does_not_wait_for_a_thread_that_it_lacks():
    program = gw.Program(PATH, backend="cpu", threads=1)
    program.step({"edge": [(1, 2), (2, 3)]})
    inside, done = threading.Event(), threading.Event()

    def sink(name: str, piece: gw.ZSet) -> None:
        inside.set()
        done.wait()

    thread = threading.Thread(target=lambda: program.step_pieces({"edge": [(3, 4)]}, sink))
    thread.start()
    inside.wait()
    child = os.fork()
    if child == 0:
        try:
            before = program.count("path")
            program.step({"edge": [(2, 4)]})
            os._exit(10 * before + program.count("path"))
        finally:
            os._exit(99)
    _, status = os.waitpid(child, 0)
    done.set()
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 12
    assert program.count("path") == 2


def test_an_interrupt_leaves_no_turn_taken():
    turns = StateLock("the state")

    def interrupted() -> None:
        raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            turns.run("working", interrupted)
    assert turns.run("working", lambda: 5) == 5


@pytest.mark.parametrize("by", [copy.copy, copy.deepcopy, pickle.dumps])
def test_what_has_a_state_is_not_copied(by):
    view = gw.view(PATH, edge=[(1, 2)])
    matcher = Matcher("(a)-[]->(b)", edges={"src": [1], "dst": [2]})
    for one in (view, view.program, matcher, Database(), streams.Circuit(backend="cpu")):
        with pytest.raises(TypeError, match=f"a {type(one).__name__} can be neither copied nor pickled"):
            by(one)

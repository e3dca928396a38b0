"""A run of the suite that is ended keeps what it has, and another run goes on with it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("duckdb", reason="the extra 'bench' is not installed")

from bench.suite import command, suites
from bench.suite.ending import EndedError, ending
from bench.suite.record import Document
from bench.suite.runner import Progress, SuiteRun
from bench.suite.store import Store, sources
from gpu_wcoj.cli.main import main
from gpu_wcoj.errors import UsageError

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.xdist_group("runs that end")  # one process makes what they share
OPTIONS = ("--suite", "tiny", "--rivals", "none", "--strategy", "wcoj", "--rounds", "1")
WORKLOADS = ("triangle", "path3")
"""In the order of the suite."""


def began(folder):
    """A run in a process of its own, once it has written its first case."""
    asked = [sys.executable, "-m", "bench.suite", *OPTIONS, "--workloads", ",".join(WORKLOADS), "--report", str(folder)]
    process = subprocess.Popen(asked, cwd=ROOT, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 300  # the first run on a machine compiles kernels
    while not list(folder.glob("*.json")) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    return process


def only(folder):
    (path,) = folder.glob("*.json")
    return path, Document.read(path)


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """A folder with what a run left that was killed after its first case."""
    folder = tmp_path_factory.mktemp("killed")
    process = began(folder)
    process.kill()
    process.wait()
    return folder


@pytest.mark.long
def test_a_run_that_is_killed_leaves_whole_cases(killed):
    _, document = only(killed)
    assert [name.partition(",")[0] for name in document.planned] == list(WORKLOADS)
    n_done = len(document.done)
    assert 1 <= n_done < len(WORKLOADS)
    assert [one.case.workload for one in document.records] == list(WORKLOADS[:n_done])
    assert document.left_out == document.planned[n_done:]
    assert all(one.check.is_right and one.seconds is not None for one in document.records)
    assert document.planning is None


@pytest.mark.long
def test_a_run_goes_on_where_another_was_killed(killed, tmp_path, capfd):
    path, before = only(killed)
    (tmp_path / path.name).write_bytes(path.read_bytes())
    asked = ["bench", *OPTIONS, "--workloads", ",".join(WORKLOADS), "--report", str(tmp_path), "--resume"]
    assert main(asked) == 0
    printed = capfd.readouterr().out
    assert f"skips the {len(before.done)} of 2 cases that it holds:\n  triangle, rmat scale=6 edges=250" in printed
    _, after = only(tmp_path)
    assert after.records[: len(before.records)] == before.records
    assert [one.case.workload for one in after.records] == list(WORKLOADS)
    assert not after.left_out
    assert after.ended is None
    assert after.planning is not None
    assert len(after.resumed) == 1
    assert after.seconds > before.seconds
    assert {name: seconds for name, seconds in after.done.items() if name in before.done} == before.done


@pytest.mark.long
# The signal may come while an object is freed; Python then reports what it raises, and the run ends at its next word.
# It may come when something was just opened, before anything is there to close it; Python closes it, and says so.
@pytest.mark.filterwarnings("ignore:(?s).*(EndedError|ResourceWarning):pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_a_run_in_good_order(number, status, tmp_path, capfd):
    def end_it():
        while not list(tmp_path.glob("*.json")):
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    threading.Thread(target=end_it).start()
    with pytest.raises(SystemExit) as ended:
        main(["bench", *OPTIONS, "--workloads", ",".join(WORKLOADS), "--report", str(tmp_path)])
    assert ended.value.code == status
    printed = capfd.readouterr().out
    _, document = only(tmp_path)
    assert document.ended == f"{number.name} ended it"
    assert f"{number.name} ended it; {len(document.left_out)} of 2 cases are left out: " in printed
    assert all(name in printed for name in document.left_out)
    assert (tmp_path / "REPORT.md").exists()


def test_a_signal_that_is_lost_ends_the_run_at_the_next_word():
    class Deaf:
        def __del__(self):
            try:
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(1)  # the handler runs here
            except BaseException:
                pass

    said = []
    with ending() as end:
        say = end.heeded(lambda what, share: said.append((what, share)))
        say("before", 0.0)
        Deaf()
        assert end.signal == signal.SIGTERM
        with pytest.raises(EndedError, match="SIGTERM"):
            say("after", 0.5)
    assert said == [("before", 0.0)]


def test_the_second_signal_is_not_held_back():
    with ending() as end:
        with pytest.raises(EndedError):
            os.kill(os.getpid(), signal.SIGTERM)
        assert (end.signal, end.status) == (signal.SIGTERM, 143)
        assert signal.getsignal(signal.SIGINT) == signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    assert signal.getsignal(signal.SIGINT) is not signal.SIG_DFL


def run_of(rounds=1, seconds=1e9, keep=lambda document: None):
    specs = tuple(spec for spec in suites.TINIEST.specs if spec.workload in WORKLOADS)
    chosen = replace(suites.TINIEST, specs=specs, rounds=rounds)
    return SuiteRun(chosen, ("wcoj",), (), 1, Progress(lambda *_: None, lambda _: None, lambda _: None, keep), seconds)


def test_no_case_is_begun_after_the_hours(tmp_path):
    store = Store(tmp_path)
    document = run_of(seconds=0.036, keep=store.write).run()
    assert document.ended == "the 1e-05 hours were over"
    assert [name.partition(",")[0] for name in document.left_out] == ["path3"]
    assert only(tmp_path)[1] == replace(document, ended=None)


def test_only_a_run_that_measures_alike_is_gone_on_with(tmp_path):
    store = Store(tmp_path)
    begun = run_of().document
    assert store.resumed(begun) is None
    store.write(begun)
    assert Store(tmp_path).resumed(begun) == begun
    again = Store(tmp_path)
    again.write(begun)
    assert again.path.name == store.path.name.replace(".json", "-2.json"), "what is there is not overwritten"
    with pytest.raises(UsageError, match=r"made otherwise: rounds was 1, and is 2\.\n.*without --resume"):
        Store(tmp_path).resumed(run_of(rounds=2).document)
    other = replace(begun, settings={**begun.settings, "sources": "0"})
    with pytest.raises(UsageError, match=f"sources was {sources()}, and is 0"):
        Store(tmp_path).resumed(other)
    assert Store(tmp_path).resumed(replace(begun, machine={**begun.machine, "commit": "another"})) is None
    with pytest.raises(UsageError, match="cores was .*, and is 999"):
        Store(tmp_path).resumed(replace(begun, machine={**begun.machine, "cores": 999}))
    with pytest.raises(UsageError, match="other cases were planned"):
        Store(tmp_path).resumed(replace(begun, planned=begun.planned[:1]))


def test_a_document_is_whole_whenever_it_is_read(tmp_path):
    store = Store(tmp_path)
    document = run_of().document
    for number in range(20):
        store.write(replace(document, done={str(i): 1.0 for i in range(number)}))
        assert len(json.loads(store.path.read_text())["done"]) == number
    assert [path.name for path in tmp_path.iterdir()] == [store.path.name]


@pytest.mark.parametrize(("option", "value"), [("--limit", "0"), ("--rounds", "0"), ("--hours", "-1")])
def test_limits_that_are_none_are_refused(option, value, capsys):
    assert main(["bench", option, value]) == 2
    assert f"{option}={value} is not allowed" in capsys.readouterr().err.replace(".0 ", " ")


def test_limits_are_those_that_are_asked_for():
    chosen = command._chosen(suites.FULL, ("triangle", "random"), 7.5, 3)
    assert (chosen.limit, chosen.rival_limit, chosen.rounds) == (7.5, 7.5, 3)
    assert {spec.workload for spec in chosen.specs} == {"triangle"}
    assert chosen.random_queries == suites.FULL.random_queries

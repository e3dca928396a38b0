"""All that keeps answers up to date has one interface, with one meaning, after every tick."""

from __future__ import annotations

import inspect
import random
import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, get_type_hints

import pytest

import gpu_wcoj as gw
from gpu_wcoj.datoms import Database
from gpu_wcoj.datoms.subscription import Subscription
from gpu_wcoj.errors import UsageError
from gpu_wcoj.maintained import Maintained, Updatable
from gpu_wcoj.views.view import SharedMotifView

HOPS = "hop(a, c) :- edges(a, b), edges(b, c)."
MOTIF, COLUMNS = "(a)-[]->(b); (b)-[]->(c)", ["a.id", "c.id"]
SQL = "SELECT l.src AS a, r.dst AS c FROM edges l JOIN edges r ON l.dst = r.src"

MEMBERS = tuple(name for name in dir(Maintained) if not name.startswith("_") or name in ("__enter__", "__exit__"))


def table(rows: list[tuple[int, int]]) -> dict[str, list[int]]:
    return {"src": [src for src, _ in rows], "dst": [dst for _, dst in rows]}


def program(rows: list[tuple[int, int]], text: str = HOPS) -> gw.Program:
    made = gw.Program(text, inputs=["edges"])
    made.load({"edges": rows})
    return made


MAKERS: dict[str, Callable[[list[tuple[int, int]]], Any]] = {
    "Program": program,
    "Program, two": partial(program, text=HOPS + "out(a) :- edges(a, _)."),
    "View": lambda rows: gw.view(HOPS, edges=rows),
    "View, SQL": lambda rows: gw.view(SQL, edges=table(rows)),
    "MultiView": lambda rows: gw.view(HOPS, edges=rows, outputs=["hop"]),
    "Connection": lambda rows: (made := gw.connect(edges=table(rows)), made.view(HOPS))[0],
    "SharedMotifView": lambda rows: gw.connect(edges=table(rows), bag=True).view(MOTIF, columns=COLUMNS),
    "MotifView": lambda rows: gw.view(MOTIF, edges=table(rows), columns=COLUMNS),
    "Matcher": lambda rows: gw.Matcher(MOTIF, edges=table(rows), columns=COLUMNS),
}
BAGS = ("View, SQL", "SharedMotifView", "MotifView", "Matcher")

CLASSES = (
    gw.Program, gw.View, gw.MultiView, gw.MotifView, gw.Connection, gw.Matcher, SharedMotifView, Subscription,
)  # fmt: skip


def hops(edges: Counter[tuple[int, int]], is_bag: bool) -> Counter[tuple[int, int]]:
    """The answer, evaluated naively."""
    found: Counter[tuple[int, int]] = Counter()
    for (a, b), left in edges.items():
        for (c, d), right in edges.items():
            if b == c:
                found[a, d] += left * right
    return found if is_bag else Counter(dict.fromkeys(found, 1))


def check_members(one: type, protocol: type) -> None:
    for name in (*MEMBERS, *(("apply", "checkpoint") if protocol is Updatable else ())):
        declared, member = inspect.getattr_static(protocol, name), inspect.getattr_static(one, name, None)
        if isinstance(declared, property):
            assert member is None or isinstance(member, property), f"{one.__name__}.{name} must be a property"
            continue
        wanted = inspect.signature(declared).parameters
        taken = inspect.signature(member).parameters
        for parameter in wanted.values():
            assert parameter.name in taken or parameter.kind is parameter.VAR_POSITIONAL, (one, name, parameter)
            if parameter.kind is not parameter.VAR_POSITIONAL:
                assert taken[parameter.name].kind is parameter.kind, (one, name, parameter)
                assert taken[parameter.name].default == parameter.default, (one, name, parameter)
        for parameter in taken.values():
            is_open = parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
            assert parameter.name in wanted or is_open or parameter.default is not parameter.empty, (one, name)


@pytest.mark.parametrize("one", CLASSES, ids=lambda one: one.__name__)
def test_every_class_has_every_member_with_its_parameters(one):
    check_members(one, Maintained if one is Subscription else Updatable)


def test_views_of_spark_have_every_member_too():
    pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'gpu_wcoj[spark]'")
    from gpu_wcoj.spark.cluster.view import CellView
    from gpu_wcoj.spark.view import View

    for one in (View, CellView):
        check_members(one, Maintained)
        assert not inspect.isabstract(one)


def values(answers: Any, member: str) -> Any:
    """The value of the first answer; with several, the values are a dict by output."""
    value = getattr(answers, member)
    value = value() if callable(value) else value
    if isinstance(value, dict):
        assert list(value) == list(answers.outputs)
        return value[answers.outputs[0]]
    return value


def check_reads(answers: Any, expected: Counter[Any], label: str) -> None:
    assert isinstance(answers, Maintained)
    assert Counter(values(answers, "rows")) == expected, label
    snapshot = values(answers, "snapshot")
    assert isinstance(snapshot, gw.Result)
    assert Counter(snapshot.rows()) == expected, label
    assert values(answers, "count") == expected.total(), label
    assert values(answers, "columns") == snapshot.columns, label
    assert [type(one).__name__ for one in answers.statistics()] == ["ArrangementStatistics"] * len(answers.statistics())
    assert "delta path" in answers.explain()
    assert answers.explain(format="json").startswith("{")


@pytest.mark.parametrize("name", MAKERS)
def test_random_ticks(name, tmp_path):
    seed = random.randrange(1 << 30)
    print("seed", seed)
    drawn, is_bag = random.Random(seed), name in BAGS

    def rows(n: int) -> list[tuple[int, int]]:
        return [(drawn.randrange(6), drawn.randrange(6)) for _ in range(n)]

    first = rows(8)
    edges = Counter(first) if is_bag else Counter(dict.fromkeys(first, 1))
    answers = MAKERS[name](first)
    assert isinstance(answers, Updatable)
    output = answers.outputs[0]
    total = hops(edges, is_bag)
    check_reads(answers, total, f"seed {seed}")
    for tick in range(4):
        label = f"seed {seed}, tick {tick}"
        inserted = rows(3)
        deleted = drawn.sample(sorted(edges), min(2, len(edges)))
        deleted = [row for row in deleted if row not in inserted]
        for row in inserted:
            edges[row] = edges[row] + 1 if is_bag else 1
        for row in deleted:
            edges[row] = edges[row] - 1 if is_bag else 0
        edges = +edges
        both = [*deleted, *inserted]
        change = answers.apply(edges={**table(both), "weight": [-1] * len(deleted) + [1] * len(inserted)})
        change = change[output] if isinstance(change, dict) else change
        for row, weight in change.rows():
            total[row] += weight
        assert +total == hops(edges, is_bag), label
        total = +total
        check_reads(answers, total, label)
        changed = sum(weight for _, weight in change.rows())
        assert sum(one["net"] for one in list(answers.progress["changes"].values())[:1]) == changed, label
    answers.checkpoint(tmp_path / "state")
    again = type(answers).restore(tmp_path / "state")
    check_reads(again, total, f"seed {seed}, restored")
    again.close()
    with answers as same:
        assert same is answers
        assert not same.is_closed
    assert answers.is_closed
    answers.close()
    for call in (answers.apply, answers.snapshot, answers.count, answers.rows):
        with pytest.raises(UsageError, match="closed"):
            call()


def test_a_subscription_of_datoms():
    db = Database()
    with db.subscribe("[:find ?city (count ?e) :where [?e :city ?city]]") as live:
        db.transact([{":db/id": 1, ":city": "Oslo"}, {":db/id": 2, ":city": "Oslo"}, {":db/id": 3, ":city": "Bergen"}])
        check_reads(live, Counter([("Oslo", 2), ("Bergen", 1)]), "")
        db.transact([["db/retract", 3, ":city", "Bergen"]])
        check_reads(live, Counter([("Oslo", 2)]), "")
        assert live.progress["tick"] == 2
    assert live.is_closed
    with pytest.raises(UsageError, match="the subscription is closed"):
        live.rows()


def test_results_of_reads_have_the_declared_types():
    """What a class says that it returns is among what the interface says."""
    for one in CLASSES:
        for name, allowed in (("count", {"int", "dict"}), ("snapshot", {"Result", "dict"}), ("rows", {"list", "dict"})):
            hint = get_type_hints(getattr(one, name)).get("return", Any)
            parts = getattr(hint, "__args__", (hint,)) if "|" in str(hint) or "Union" in str(hint) else (hint,)
            names = {getattr(part, "__name__", str(part)) for part in parts}
            assert names <= allowed or hint is Any, (one, name, names)


@pytest.mark.parametrize("path", [None, 3, b"x", "", "a\0b"])
def test_what_is_not_a_path_is_refused_by_all_checkpoints(path):
    edges = {"src": [1], "dst": [2]}
    kept = [
        gw.Program(HOPS, inputs=["edges"]), gw.view(HOPS, edges=edges), gw.view(HOPS, edges=edges).connection,
        gw.Matcher(MOTIF, edges=edges), gw.view(MOTIF, edges=edges), Database(),
    ]  # fmt: skip
    for one in kept:
        for call in (one.checkpoint, type(one).restore):
            with pytest.raises(
                UsageError, match=f"path={re.escape(repr(path))} is not allowed: expected the path of a"
            ):
                call(path)


def test_the_home_folder_is_known_to_all_checkpoints(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    for one, name in ((gw.view(HOPS, edges=[(1, 2)]), "view"), (Database(), "facts")):
        one.checkpoint(f"~/{name}")
        assert (tmp_path / name).is_dir()
        type(one).restore(f"~/{name}")


def test_a_closed_program_frees_its_rows():
    made = program([(i, i + 1) for i in range(2000)])
    assert made.nbytes > 0
    mark = made.mark()
    made.close()
    made.close()
    assert made.nbytes == 0
    for call in (lambda: made.step({"edges": [(1, 2)]}), lambda: made.return_to(mark), made.mark, made.input_rows):
        with pytest.raises(UsageError, match="the program is closed"):
            call()


def test_subscribers_of_a_matcher_get_every_change():
    matcher, got = MAKERS["Matcher"]([(1, 2)]), []
    with matcher.subscribe(lambda change: got.append(change.rows()), snapshot=True):
        matcher.apply(edges=table([(2, 3)]))
        assert matcher.apply_counted(edges=table([(3, 4)])) == 1
        matcher.load(edges=table([(4, 5)]))
    matcher.load(edges=table([(5, 6)]))
    assert got == [[], [((1, 3), 1)], [((2, 4), 1)], [((3, 5), 1)]]
    with pytest.raises(UsageError, match="edge"):
        matcher.apply(edge=[(1, 2)])

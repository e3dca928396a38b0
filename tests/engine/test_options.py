"""Every function that spells out options agrees with the records that declare them."""

from __future__ import annotations

import dataclasses
import inspect
import pickle
import re
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, get_type_hints

import pytest

import gpu_wcoj as gw
from gpu_wcoj.checkpoint.state import Definition
from gpu_wcoj.cli.source import EngineOptions, MatchOptions
from gpu_wcoj.engine.options import (
    EXECUTION_OPTIONS,
    OPTIONS,
    STORED_OPTIONS,
    ExecutionKeywords,
    ExecutionOptions,
    ProgramOptions,
)
from gpu_wcoj.errors import UsageError
from gpu_wcoj.program import describe_option
from gpu_wcoj.trace.spine import MergePolicy
from gpu_wcoj.views.matcher import MOTIF_OPTIONS, MotifOptions


@gw.function
def half(n: int) -> float:
    return n / 2


DEFAULTS = {declared.name: declared.default for declared in dataclasses.fields(ProgramOptions)}
COMMON = OPTIONS[len(EXECUTION_OPTIONS) :]
"""The options that a program spells out."""
OTHERS: dict[str, Any] = {
    "gpu_memory": "50%", "route": 7, "twin_memory": "25%", "twin": "cpu", "chunk_rows": 5, "replan": None,
    "analyze": True, "strategy": "binary", "order": {"h": ("b",)}, "merge_policy": MergePolicy(ratio=0.5),
    "single_tick": True, "bag": True, "keep": ("h",), "outputs": ("h",), "backend": "cpu", "threads": 3,
    "iterations": 9, "limit": 8, "timeout": 7.5, "memory": "60%", "schema": {"e": ["int64", "int64"]},
    "inputs": ("e",), "functions": (half,),
}  # fmt: skip
"""For each option, a value that is not its default."""
WRONG: dict[str, Any] = {
    "gpu_memory": "much", "route": "fast", "twin_memory": 0, "twin": "gpu", "chunk_rows": 1.5, "replan": 1,
    "analyze": None, "strategy": "hash", "order": ["b"], "merge_policy": "lazy", "single_tick": "once",
    "bag": "yes", "keep": "h", "outputs": "h", "backend": "gpu", "threads": 0, "iterations": True, "limit": 0,
    "timeout": 0, "memory": "much", "schema": ["int64"], "inputs": "e", "functions": [len],
}  # fmt: skip
"""For each option, a value that is not allowed."""


def keywords(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    parameters = inspect.signature(function).parameters.values()
    return {one.name: one for one in parameters if one.kind is one.KEYWORD_ONLY}


def entries(documented: object) -> dict[str, str]:
    """The texts of a docstring in numpydoc's form, by name; several names may share one."""
    texts = {}
    for names, text in re.findall(
        r"^(\w[\w, ]*)\n((?:(?: +.*)?\n)+?)(?=\S|\Z)", f"{inspect.getdoc(documented)}\n", re.MULTILINE
    ):
        for name in names.split(", "):
            texts[name] = " ".join(text.split())
    return texts


def test_the_cases_have_every_option():
    assert tuple(OTHERS) == tuple(WRONG) == OPTIONS


def test_a_program_has_the_options_of_the_records_and_no_others():
    parameters = keywords(gw.Program.__init__)
    assert tuple(parameters) == (*COMMON, "options")
    assert {name: parameters[name].default for name in COMMON} == {name: DEFAULTS[name] for name in COMMON}
    hints, declared = get_type_hints(gw.Program.__init__), get_type_hints(ProgramOptions)
    assert {name: hints[name] for name in COMMON} == {name: declared[name] for name in COMMON}
    assert get_type_hints(ExecutionKeywords) == get_type_hints(ExecutionOptions)


def test_a_program_documents_its_options_in_their_order():
    assert tuple(entries(gw.Program))[: 2 + len(COMMON)] == ("text", *COMMON, "options")
    assert tuple(entries(ExecutionOptions))[: len(EXECUTION_OPTIONS)] == EXECUTION_OPTIONS
    assert all(describe_option(name).endswith(".") for name in OPTIONS)


@pytest.mark.parametrize("call", [gw.Program, gw.view], ids=["Program", "view"])
def test_execution_options_are_passed_in_a_record_or_by_name(call):
    text, rows = "h(a, c) :- e(a, b), e(b, c).", {"e": [(1, 2)]} if call is gw.view else {}
    by_name = call(text, **rows, strategy="wcoj", chunk_rows=5)
    in_record = call(text, **rows, options=gw.ExecutionOptions(strategy="wcoj", chunk_rows=5))
    found = [getattr(made, "program", made).options for made in (by_name, in_record)]
    assert found[0] == found[1]
    assert found[0].changed(EXECUTION_OPTIONS) == ["chunk_rows", "strategy"]
    with pytest.raises(UsageError, match="'options' and 'strategy' cannot be combined"):
        call(text, **rows, strategy="wcoj", options=gw.ExecutionOptions())
    with pytest.raises(UsageError, match="options has the wrong type: got dict"):
        call(text, **rows, options={"strategy": "wcoj"})
    with pytest.raises(UsageError, match="strategy='hash' is not allowed"):
        gw.ExecutionOptions(strategy="hash")


def test_a_program_passes_on_every_option():
    text = "h(a, c) :- e(a, b), e(b, c)."
    for name, value in OTHERS.items():
        options = gw.Program(text, **{name: value}).options
        expected = dataclasses.replace(ProgramOptions(), **{"outputs": ("h",), name: value})
        assert options == expected, name
    assert gw.Program(text, **OTHERS).options == ProgramOptions(**OTHERS)


@pytest.mark.parametrize("name", OPTIONS)
def test_values_that_are_not_allowed_are_refused_before_the_program_is_planned(name):
    with pytest.raises(UsageError) as refused:
        ProgramOptions(**{name: WRONG[name]})
    with pytest.raises(UsageError, match=re.escape(str(refused.value))):
        gw.Program("h(a, c) :- e(a, b), e(b, c).", **{name: WRONG[name]})
    assert name in str(refused.value)


@pytest.mark.parametrize("function", [gw.view, gw.query], ids=["view", "query"])
def test_functions_that_spell_out_options_have_the_defaults_of_the_record(function):
    own = {"language": None, "dialect": "duckdb", "arguments": (), "scan": True}
    parameters = keywords(function)
    if function is gw.view:
        own["options"] = None
    spelled = {name: one.default for name, one in parameters.items() if name not in own}
    assert {name: parameters[name].default for name in own} == own
    assert spelled == {name: None if name == "bag" else DEFAULTS[name] for name in spelled}  # bags by language
    assert set(parameters) <= set(entries(function))


def test_view_passes_on_every_option_that_it_has():
    spelled = [name for name in keywords(gw.view) if name in OPTIONS]
    assert len(spelled) == 11
    spelled += ["gpu_memory", "route", "chunk_rows", "replan", "analyze", "strategy", "order"]
    options = {name: OTHERS[name] for name in spelled}
    passed = gw.view("h(a, c) :- e(a, b), e(b, c).", e=[(1, 2)], **options).program.options
    assert {name: getattr(passed, name) for name in spelled} == options


@pytest.mark.parametrize("function", [gw.find, gw.Matcher.__init__], ids=["find", "Matcher"])
def test_motifs_have_the_options_of_their_record(function):
    others = ("vertices", "edges", "is_kept", "scan")
    parameters = {name: one for name, one in keywords(function).items() if name not in others}
    assert tuple(parameters) == MOTIF_OPTIONS
    assert {name: one.default for name, one in parameters.items()} == vars(MotifOptions())
    hints = get_type_hints(function)
    assert {name: hints[name] for name in MOTIF_OPTIONS} == get_type_hints(MotifOptions)
    assert set(MOTIF_OPTIONS) <= set(entries(gw.find))


RING = {"src": [1, 2], "dst": [2, 1]}


@pytest.mark.parametrize("call", [gw.find, gw.Matcher, gw.view], ids=["find", "Matcher", "view"])
def test_options_of_programs_pass_through_motifs(call):
    with pytest.raises(UsageError, match="threads=0 is not allowed"):
        call("(a)-[]->(b)", edges=RING, threads=0)
    with pytest.raises(UsageError, match=r"unknown .*option.* 'thread'(?s:.*)|unknown .*option.* 'wheer'"):
        call("(a)-[]->(b)", edges=RING, wheer="a.id > 1")
    for name in STORED_OPTIONS:
        if name != "inputs" or call is not gw.view:
            with pytest.raises(UsageError, match=f"the option '{name}' for a motif is not supported"):
                call("(a)-[]->(b)", edges=RING, **{name: OTHERS[name]})


def test_the_command_line_has_options_of_the_record():
    names = [declared.name for declared in dataclasses.fields(EngineOptions)]
    assert set(names) <= set(OPTIONS)
    assert vars(EngineOptions()) == {name: DEFAULTS[name] for name in names}
    assert EngineOptions().to_program_options() == ProgramOptions()
    for name in names:
        text = OTHERS[name] if isinstance(OTHERS[name], (bool, int)) and name != "route" else str(OTHERS[name])
        assert EngineOptions(**{name: text}).to_program_options() == ProgramOptions(**{name: OTHERS[name]})
    with pytest.raises(UsageError, match="--gpu-memory='much' is not allowed"):
        EngineOptions(gpu_memory="much").to_program_options()
    assert MatchOptions().to_motif_options() == MotifOptions()


@pytest.mark.parametrize("command", ["run", "explain"])
def test_the_help_of_the_command_line_is_that_of_the_record(command, capfd):
    from gpu_wcoj.cli.main import main

    main([command, "--help"])
    printed = " ".join(re.sub("[│╭╰─╮╯]", " ", capfd.readouterr().out).split())
    for declared in dataclasses.fields(EngineOptions):
        assert describe_option(declared.name).split(":")[0].split(";")[0] in printed


def test_a_definition_restores_every_stored_option():
    text = "h(a, c) :- e(a, b), e(b, c)."
    stored = {name: OTHERS[name] for name in STORED_OPTIONS}
    program = gw.Program(text, **OTHERS)
    definition = Definition.from_json(Definition.from_subject(program.subject).to_json())
    completed = definition.complete_options(ProgramOptions(threads=2), program.rules)
    changed = {name: getattr(completed, name) for name in completed.changed(OPTIONS)}
    assert changed == {**stored, "threads": 2}
    for name in STORED_OPTIONS:
        with pytest.raises(UsageError, match=f"the option '{name}' is stored in the checkpoint"):
            gw.Program.restore("nowhere", **{name: OTHERS[name]})


def test_names_that_are_not_options_are_refused_with_the_nearest():
    for call in (lambda: gw.Program.restore("nowhere", thread=2), lambda: ProgramOptions.from_keywords(thread=2)):
        with pytest.raises(UsageError, match=r"unknown option 'thread'.*Did you mean 'threads'"):
            call()


def test_the_record_can_be_sent_to_executors_and_does_not_change():
    options = ProgramOptions(**OTHERS)
    assert pickle.loads(pickle.dumps(options)) == options
    with pytest.raises(dataclasses.FrozenInstanceError):
        options.threads = 1  # type: ignore[misc]


def test_options_for_other_rules_name_no_relations():
    left = ProgramOptions(**OTHERS).without_relations()
    unchanged = {"keep", "outputs", "order", "schema", "inputs"}
    assert set(left.changed(OPTIONS)) == set(OPTIONS) - unchanged


def fake_session(confs: Mapping[str, str]) -> Any:
    """A session with these confs, which are read as one text of Scala's map."""
    text = [f"{name} -> {value}" for name, value in {"spark.master": "local", **confs}.items()]
    scala_map = SimpleNamespace(mkString=lambda separator: separator.join(text))
    conf = SimpleNamespace(getAll=lambda: scala_map)
    return SimpleNamespace(_jsparkSession=SimpleNamespace(conf=lambda: conf))


class TestSpark:
    @pytest.fixture(autouse=True)
    def _pyspark(self):
        pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'gpu_wcoj[spark]'")

    def test_confs_set_what_a_call_leaves_out(self):
        from gpu_wcoj.spark.options import CONFS, PREFIX, PROGRAM_CONFS, SparkOptions

        assert set(PROGRAM_CONFS) <= set(OPTIONS)
        names = [declared.name for declared in dataclasses.fields(SparkOptions) if declared.name != "program"]
        assert sorted(CONFS.values()) == sorted([*names, *PROGRAM_CONFS])
        assert SparkOptions.from_session(fake_session({}), {}) == SparkOptions()
        texts = {
            "backend": "cpu", "threads": "3", "gpuMemory": "50%", "layout": "hypercube", "cells": "4",
            "cells.adapt": "off", "batchRows": "10",
        }  # fmt: skip
        assert set(texts) == set(CONFS)
        session = fake_session({PREFIX + name: text for name, text in texts.items()})
        program = ProgramOptions(backend="cpu", threads=3, gpu_memory="50%")
        assert SparkOptions.from_session(session, {}) == SparkOptions("hypercube", 4, None, 10, program)
        called = SparkOptions.from_session(session, {"threads": 1, "cells": None, "layout": "auto", "keep": ("h",)})
        program = dataclasses.replace(program, threads=1, keep=("h",))
        assert called == SparkOptions("auto", 4, None, 10, program)

    def test_cells_of_a_call_need_a_layout_with_cells(self):
        from gpu_wcoj.spark.options import SparkOptions

        session = fake_session({"spark.gpuWcoj.cells": "4", "spark.gpuWcoj.layout": "one"})
        assert SparkOptions.from_session(session, {"layout": "one"}) == SparkOptions("one", 4)
        for call in ({"cells": 2}, {"cells": 2, "layout": "one"}):
            with pytest.raises(UsageError, match="cells=2 and layout='one' cannot be combined"):
                SparkOptions.from_session(session, call)
        assert SparkOptions.from_session(session, {"cells": 2, "layout": "auto"}) == SparkOptions("auto", 2)

    @pytest.mark.parametrize(
        ("name", "text"),
        [("threads", "0"), ("threads", "x"), ("backend", "gpu"), ("gpuMemory", "much"), ("cells", "0"),
         ("cells.adapt", "on"), ("batchRows", "-1"), ("layout", "two")],
    )  # fmt: skip
    def test_confs_that_are_not_allowed_are_named_in_full(self, name, text):
        from gpu_wcoj.spark.options import SparkOptions

        with pytest.raises(UsageError, match=f"spark.gpuWcoj.{re.escape(name)}"):
            SparkOptions.from_session(fake_session({f"spark.gpuWcoj.{name}": text}), {})

    def test_functions_spell_out_options_with_defaults_of_the_session(self):
        import gpu_wcoj.spark as gws
        from gpu_wcoj.spark.options import SparkOptions

        ours = {declared.name for declared in dataclasses.fields(SparkOptions)}
        for function in (gws.maintain, gws.join, gws.count, gws.explain):
            parameters = keywords(function)
            for name, one in parameters.items():
                if name in ours or (name in OPTIONS and name not in ("keep", "outputs")):
                    assert one.default is None, (function, name)  # the session's, or the language's
                elif name in OPTIONS:
                    assert one.default == DEFAULTS[name]
        assert {"layout", "cells", "backend", "threads", "gpu_memory", "bag", "keep", "outputs"} <= set(
            keywords(gws.maintain)
        )
        assert {"layout", "cells", "backend", "threads", "bag"} <= set(keywords(gws.join))

    def test_the_command_has_the_keywords_of_maintain(self):
        import gpu_wcoj.spark as gws
        from gpu_wcoj.spark.command import EngineOptions as Flags

        parameters = keywords(gws.maintain)
        assert Flags().to_keywords() == {
            name: parameters[name].default for name in ("backend", "layout", "cells", "threads", "bag")
        }

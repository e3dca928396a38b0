"""Which cases of a test run, and in which process: one of those to draw from in ordinary runs, all at length."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import IS_QUICK, PARAMETERS, names_tests, take_fewer_examples
from tests.helpers.kernel_kinds import lacking
from tests.helpers.long_tests import IS_LONG

OPTIONS = range(5)
pytestmark = pytest.mark.xdist_group("drawn cases")


def cases_of(request: pytest.FixtureRequest, **fixed: str) -> list[pytest.Item]:
    """The cases of a test that this run has collected, of those with these values of its parameters."""
    collected = [item for item in request.session.items if isinstance(item, pytest.Function)]
    cases = [item for item in collected if item.originalname == request.node.originalname]
    return [item for item in cases if fixed.items() <= item.callspec.params.items()]


@pytest.mark.drawn("option")
@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("case", ["a", "b", "c"])
def test_each_case_runs_with_one_option_or_with_all(case, option, request):
    if names_tests(request.config):
        pytest.skip("a run that names tests runs all their cases")
    everything = IS_LONG or "GPU_WCOJ_TESTS_ON" in os.environ
    assert len(cases_of(request, case=case)) == (len(OPTIONS) if everything else 1)
    assert len({item.callspec.params["case"] for item in cases_of(request)}) == 3


@pytest.mark.drawn("graph", "option", each=True)
@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("graph", ["star", "path", "ring"])
@pytest.mark.parametrize("case", ["a", "b"])
def test_each_case_runs_with_each_graph_and_each_option_or_with_all_pairs(case, graph, option, request):
    if names_tests(request.config):
        pytest.skip("a run that names tests runs all their cases")
    everything = IS_LONG or "GPU_WCOJ_TESTS_ON" in os.environ
    cases = [item.callspec.params for item in cases_of(request, case=case)]
    assert len(cases) == (3 * len(OPTIONS) if everything else len(OPTIONS))
    assert {values["option"] for values in cases} == {*OPTIONS}
    assert {values["graph"] for values in cases} == {"star", "path", "ring"}


@pytest.mark.drawn("name", share=4)
@pytest.mark.parametrize("name", range(10))
@pytest.mark.parametrize("case", ["a", "b"])
def test_each_case_runs_with_a_share_of_the_names_or_with_all(case, name, request):
    if names_tests(request.config):
        pytest.skip("a run that names tests runs all their cases")
    everything = not IS_QUICK or "GPU_WCOJ_TESTS_ON" in os.environ
    assert len(cases_of(request, case=case)) == (10 if everything else 3)


@pytest.mark.long
def test_a_long_test_runs_at_length_or_where_tests_are_named(request):
    assert not IS_QUICK or names_tests(request.config) or "GPU_WCOJ_TESTS_ON" in os.environ


@settings(max_examples=5)
@given(st.integers())
def draw_five(number):
    """A test of hypothesis that no run collects."""


def test_ordinary_runs_draw_half_of_the_examples():
    take_fewer_examples(draw_five)
    draw_five()
    assert draw_five._hypothesis_internal_use_settings.max_examples == 3


@pytest.mark.parametrize("backend", ["cpu", "cuda"])
def test_a_gpu_that_is_lacking_has_no_cases(backend, request):
    assert "backend" in PARAMETERS
    assert backend == "cpu" or lacking("cuda") is None
    assert "cpu" in {item.callspec.params["backend"] for item in cases_of(request)}


def test_a_group_keeps_its_tests_in_one_process(request):
    """pytest-xdist goes by the names that its processes tell it."""
    is_grouped = request.config.getoption("loadgroup", False)
    assert request.node.nodeid.endswith("@drawn cases") == bool(is_grouped)

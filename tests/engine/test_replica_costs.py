"""The costs of ticks: where they cross, how they are kept, how they are measured."""

from __future__ import annotations

import json
import logging
from dataclasses import replace

import numpy as np
import pytest

import gpu_wcoj as gw
import gpu_wcoj.backend
from gpu_wcoj.cli.main import main
from gpu_wcoj.engine import replicas
from gpu_wcoj.engine.calibrate import calibrate, fit_costs
from gpu_wcoj.engine.replicas import ALWAYS, ASSUMED, CostModel, Forecast, SideCosts, Workload, proposed_by

MODEL = CostModel(SideCosts(1e-3, 1e-8, 1e-10, 5e-4, 1e-8), SideCosts(2e-4, 1e-6, 1.01e-8, 1e-4, 2e-7), 3e-7)
TRIANGLE = "h(a, b, c) :- e(a, b), e(b, c), e(a, c)."


STORE_PATH = replicas.store_path


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    """Another file, in the same cache folder: compiled kernels are kept there too."""
    path = tmp_path / "gpu_wcoj" / "routing.json"
    monkeypatch.setattr(replicas, "store_path", lambda: path)
    return path


class TestThreshold:
    @pytest.mark.parametrize("values_per_row", [0.0, 1.0, 200.0])
    def test_ticks_below_it_and_only_those_save_on_the_twin(self, values_per_row):
        for model in (MODEL, ASSUMED):
            threshold = model.threshold(values_per_row)
            assert model.saving(Workload(threshold - 1, (threshold - 1) * values_per_row)) > 0
            assert model.saving(Workload(threshold, threshold * values_per_row)) <= 1e-9
        assert MODEL.threshold() == 1000  # 0.8 ms over 1 + 0.01 - 0.01 - 0.2 µs a row
        assert MODEL.threshold(120) == 400  # and 1.2 µs for its values

    def test_what_the_other_side_pays_counts(self):
        dearer = replace(MODEL, device=replace(MODEL.device, take_in_per_row=8.1e-7))
        assert dearer.threshold() == 500
        cheaper = replace(MODEL, cpu=replace(MODEL.cpu, take_in_per_row=9e-7))
        assert cheaper.threshold() == 8000

    def test_lines_that_do_not_cross(self):
        assert replace(MODEL, cpu=replace(MODEL.cpu, fixed=2e-3)).threshold() == 0
        assert replace(MODEL, cpu=replace(MODEL.cpu, per_row=0.0)).threshold() == ALWAYS

    def test_a_route_by_costs_names_where_they_come_from(self, pair):
        shown = gw.Program(TRIANGLE, **pair.options()).explain()
        assert "ticks of fewer than 3,089 rows run on the CPU at 1 values a row (assumed; not measured" in shown


class TestForecast:
    """The values that a tick's joins will propose."""

    @pytest.fixture
    def program(self, pair):
        program = gw.Program("h(a, b, c) :- e(a, b), f(b, c), f(a, c).", **pair.options(route="auto", replan=None))
        draw = np.random.default_rng(1).integers(0, 100, (8000, 2))
        program.load({"e": draw[:3000], "f": draw[3000:]})
        return program

    def test_the_planner_says_what_the_first_tick_proposes(self, program):
        forecast = program._ledger.forecast
        forecast.follow(program._ledger.lowered.plan)
        expected = forecast.expected_work({"e": 100}).values
        program.step_counts({"e": np.random.default_rng(2).integers(0, 100, (100, 2))})
        proposed = proposed_by(program.last_tick.work)
        assert expected / 2 < proposed < 2 * expected
        assert forecast.expected_work({"f": 7}).rows == 7

    def test_ticks_correct_what_was_expected(self, program):
        """All new edges meet in vertices with many neighbours, which averages do not know."""
        far = np.random.default_rng(2).integers(0, 1 << 40, 4000).tolist()  # so sparse that no bitmap of them is made
        program.step({"f": [(a, c) for a in range(200, 220) for c in far[:300]] + [(7, c) for c in far]})
        forecast = program._ledger.forecast
        before = forecast.expected_work({"e": 20}).values
        edges = [(a, 7) for a in range(200, 220)]
        for number in range(12):
            program.step_counts({"e": [(edge, -1 if number % 2 else 1) for edge in edges]})
        after = forecast.expected_work({"e": 20}).values
        assert after > 2 * before
        assert after == pytest.approx(proposed_by(program.last_tick.work), rel=0.5)
        assert 20 * forecast.values_per_row == pytest.approx(after, rel=0.5)

    def test_a_failed_tick_teaches_nothing(self, program):
        program.step_counts({"e": [(1, 2)]})
        forecast = program._ledger.forecast
        before = (forecast.correction, forecast.values_per_row)
        with pytest.raises(gw.GpuWcojError):
            program.step_counts({"e": [("x", "y")]})
        assert (forecast.correction, forecast.values_per_row) == before

    def test_a_tick_without_rows_teaches_nothing(self, program):
        before = program._ledger.forecast.correction
        program.step({"e": gw.ZSet.from_rows([((1, 2), 0)]), "f": np.zeros((0, 2), np.int64)})
        assert program._ledger.forecast.correction == before

    def test_a_relation_that_nothing_is_known_of_counts_one_value_a_row(self):
        assert Forecast().expected_work({"e": 3, "f": 4}) == Workload(7, 7.0)


class TestStore:
    def test_what_is_stored_is_found_again_on_the_same_machine(self, pair, cache):
        assert replicas.stored_model(pair.primary, pair.twin) is None
        assert replicas.store(pair.primary, pair.twin, MODEL) == cache
        assert replicas.stored_model(pair.primary, pair.twin) == MODEL
        assert replicas.stored_model(replace(pair.primary, name="other"), pair.twin) is None
        replicas.store(replace(pair.primary, name="other"), pair.twin, ASSUMED)
        assert replicas.stored_model(pair.primary, pair.twin) == MODEL
        assert [path.name for path in cache.parent.iterdir()] == ["routing.json"]

    def test_programs_go_by_it(self, pair):
        replicas.store(pair.primary, pair.twin, MODEL)
        assert (
            "fewer than 988 rows run on the CPU at 1 values a row (measured on this machine)"
            in gw.Program(TRIANGLE, **pair.options()).explain()
        )
        assert "fewer than 7 rows" in gw.Program(TRIANGLE, **pair.options(route=7)).explain()

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"{",
            b"\xff\xfe",
            b"[]",
            b"null",
            b'{"format": 2}',
            b'{"format": 1, "costs": {}}',
            b'{"format": 2, "costs": []}',
            b'{"format": 2, "costs": {KEY: null}}',
            b'{"format": 2, "costs": {KEY: {"device": 1, "cpu": 2, "build_per_row": 3}}}',
            b'{"format": 2, "costs": {KEY: {"device": {}, "cpu": {}, "build_per_row": 1e-6}}}',
            b'{"format": 2, "costs": {KEY: ' + json.dumps(MODEL.to_json()).replace("3e-07", "-1").encode() + b"}}",
            b'{"format": 2, "costs": {KEY: ' + json.dumps(MODEL.to_json()).replace("3e-07", "NaN").encode() + b"}}",
            b'{"format": 2, "costs": {KEY: ' + json.dumps(MODEL.to_json()).replace("3e-07", '"x"').encode() + b"}}",
            b"[" * 100_000,
        ],
    )
    def test_a_file_that_cannot_be_used_is_said_to_be_so_and_measured_again(self, content, pair, cache, caplog):
        cache.parent.mkdir(parents=True)
        key = json.dumps(replicas.machine_key(pair.primary, pair.twin)).encode()
        cache.write_bytes(content.replace(b"KEY", key))
        with caplog.at_level(logging.WARNING, "gpu_wcoj"):
            assert replicas.stored_model(pair.primary, pair.twin) is None
        (record,) = caplog.records
        assert "routing.json" in record.getMessage()
        assert "measure" in record.getMessage()
        replicas.store(pair.primary, pair.twin, MODEL)
        assert replicas.stored_model(pair.primary, pair.twin) == MODEL

    def test_a_write_that_fails_leaves_the_file(self, pair, cache, monkeypatch):
        replicas.store(pair.primary, pair.twin, MODEL)

        def fail(*arguments):
            raise KeyboardInterrupt

        monkeypatch.setattr("os.replace", fail)
        with pytest.raises(KeyboardInterrupt):
            replicas.store(pair.primary, pair.twin, ASSUMED)
        assert replicas.stored_model(pair.primary, pair.twin) == MODEL
        assert [path.name for path in cache.parent.iterdir()] == ["routing.json"]

    def test_the_file_stands_in_the_cache_folder(self, monkeypatch, tmp_path):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert STORE_PATH() == tmp_path / "gpu_wcoj" / "routing.json"
        monkeypatch.setenv("HOME", str(tmp_path))
        for folder in ("", "relative"):
            monkeypatch.setenv("XDG_CACHE_HOME", folder)
            assert STORE_PATH() == tmp_path / ".cache" / "gpu_wcoj" / "routing.json"


class TestCalibration:
    def test_every_rule_and_size_is_measured_on_both_sides(self, pair):
        found = calibrate(pair.primary, pair.twin, 400, (1, 20, 60), rounds=1)
        assert [(one.rule, one.n_rows) for one in found.samples] == [
            (rule, size) for rule in ("triangle", "lookup") for size in (1, 20, 60)
        ]
        for one in found.samples:
            assert min(one.device, one.cpu, one.device_take_in, one.cpu_take_in) > 0
            assert (one.values > 0) == (one.rule == "triangle")
        assert found.model.is_measured
        assert found.model.build_per_row > 0
        assert all(0 <= threshold <= ALWAYS for threshold in found.thresholds.values())
        assert CostModel.from_json(json.loads(json.dumps(found.model.to_json()))) == found.model
        assert len(str(found).splitlines()) == 9

    def test_costs_are_found_again(self):
        amounts = [[1.0] * 4, [1.0, 100.0, 1000.0, 1000.0], [0.0, 0.0, 0.0, 50_000.0]]
        costs = [2e-4, 3e-7, 1e-8]
        seconds = [sum(a * c for a, c in zip(row, costs, strict=True)) for row in zip(*amounts, strict=True)]
        assert fit_costs(amounts, seconds) == pytest.approx(costs)

    def test_a_cost_is_never_below_0(self):
        rows = [1, 10, 100]
        assert fit_costs([[1, 1, 1], rows], [1.0, 1.0, 1.0]) == pytest.approx([1.0, 0.0], abs=1e-9)
        assert fit_costs([[1, 1, 1], rows], [1.0, 0.9, 0.5])[1] == 0
        assert fit_costs([[1, 1, 1], rows], [1.0, 20.0, 300.0])[0] == 0

    def test_the_command_stores_what_it_found(self, pair, cache, monkeypatch, capfd):
        if pair.primary.device is None:
            pytest.skip("the command asks for a device")
        right = gpu_wcoj.backend.select_backend
        monkeypatch.setattr(
            gpu_wcoj.backend, "select_backend", lambda name, **_: right(name) if name == "cpu" else pair.primary
        )
        monkeypatch.setattr("gpu_wcoj.engine.calibrate.SIZES", (1, 20))
        assert main(["calibrate", "--rows", "300"]) == 0
        printed = capfd.readouterr().out
        assert "stored in" in printed
        assert "ticks" in printed
        assert replicas.stored_model(pair.primary, pair.twin) is not None

    def test_without_a_gpu_there_is_nothing_to_measure(self, monkeypatch, capfd):
        monkeypatch.setattr(gpu_wcoj.backend, "select_backend", lambda name, **_: gpu_wcoj.backend.cpu_backend())
        assert main(["calibrate"]) == 2
        assert "there is no GPU here" in capfd.readouterr().err
        assert main(["calibrate", "--rows", "3"]) == 2
        assert "--rows=3 is not allowed" in capfd.readouterr().err

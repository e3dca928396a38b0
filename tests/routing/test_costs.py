"""The costs of ticks: where they cross, how they are kept, how they are measured."""

from __future__ import annotations

import json
import logging
from dataclasses import replace

import pytest

import gpu_wcoj as gw
import gpu_wcoj.backend
from gpu_wcoj.cli import main
from gpu_wcoj.routing import store
from gpu_wcoj.routing.calibrate import calibrate, line
from gpu_wcoj.routing.costs import ALWAYS, ASSUMED, CostModel, SideCosts
from gpu_wcoj.routing.router import Route

MODEL = CostModel(SideCosts(1e-3, 1e-8, 5e-4, 1e-8), SideCosts(2e-4, 1e-6, 1e-4, 2e-7), 3e-7)
TRIANGLE = "h(a, b, c) :- e(a, b), e(b, c), e(a, c)."


STORE_PATH = store.store_path


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    """Another file, in the same cache folder: compiled kernels are kept there too."""
    path = tmp_path / "gpu_wcoj" / "routing.json"
    monkeypatch.setattr(store, "store_path", lambda: path)
    return path


class TestThreshold:
    def test_ticks_below_it_and_only_those_save_on_the_twin(self):
        for model in (MODEL, ASSUMED):
            assert model.saving(model.threshold - 1) > 0
            assert model.saving(model.threshold) <= 1e-9
        assert MODEL.threshold == 1000  # 0.8 ms over 1 + 0.01 - 0.01 - 0.2 µs a row

    def test_what_the_other_side_pays_counts(self):
        dearer = replace(MODEL, device=replace(MODEL.device, take_in_per_row=8.1e-7))
        assert dearer.threshold == 500
        cheaper = replace(MODEL, cpu=replace(MODEL.cpu, take_in_per_row=9e-7))
        assert cheaper.threshold == 8000

    def test_lines_that_do_not_cross(self):
        assert replace(MODEL, cpu=replace(MODEL.cpu, fixed=2e-3)).threshold == 0
        assert replace(MODEL, cpu=replace(MODEL.cpu, per_row=0.0)).threshold == ALWAYS

    def test_a_route_by_costs_names_where_they_come_from(self):
        assert (
            str(Route.of("auto", MODEL)) == "ticks of fewer than 1,000 rows run on the CPU (measured on this machine)"
        )
        assert str(Route.of("auto", ASSUMED)).startswith("ticks of fewer than 30,000 rows run on the CPU (assumed; ")


class TestStore:
    def test_what_is_stored_is_found_again_on_the_same_machine(self, pair, cache):
        assert store.stored_model(pair.primary, pair.twin) is None
        assert store.store(pair.primary, pair.twin, MODEL) == cache
        assert store.stored_model(pair.primary, pair.twin) == MODEL
        assert store.stored_model(replace(pair.primary, name="other"), pair.twin) is None
        store.store(replace(pair.primary, name="other"), pair.twin, ASSUMED)
        assert store.stored_model(pair.primary, pair.twin) == MODEL
        assert [path.name for path in cache.parent.iterdir()] == ["routing.json"]

    def test_programs_go_by_it(self, pair):
        store.store(pair.primary, pair.twin, MODEL)
        assert (
            "fewer than 1,000 rows run on the CPU (measured on this machine)"
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
            b'{"format": 1}',
            b'{"format": 0, "costs": {}}',
            b'{"format": 1, "costs": []}',
            b'{"format": 1, "costs": {KEY: null}}',
            b'{"format": 1, "costs": {KEY: {"device": 1, "cpu": 2, "build_per_row": 3}}}',
            b'{"format": 1, "costs": {KEY: {"device": {}, "cpu": {}, "build_per_row": 1e-6}}}',
            b'{"format": 1, "costs": {KEY: ' + json.dumps(MODEL.to_json()).replace("3e-07", "-1").encode() + b"}}",
            b'{"format": 1, "costs": {KEY: ' + json.dumps(MODEL.to_json()).replace("3e-07", "NaN").encode() + b"}}",
            b'{"format": 1, "costs": {KEY: ' + json.dumps(MODEL.to_json()).replace("3e-07", '"x"').encode() + b"}}",
            b"[" * 100_000,
        ],
    )
    def test_a_file_that_cannot_be_used_is_said_to_be_so_and_measured_again(self, content, pair, cache, caplog):
        cache.parent.mkdir(parents=True)
        key = json.dumps(store.machine_key(pair.primary, pair.twin)).encode()
        cache.write_bytes(content.replace(b"KEY", key))
        with caplog.at_level(logging.WARNING, "gpu_wcoj"):
            assert store.stored_model(pair.primary, pair.twin) is None
        (record,) = caplog.records
        assert "routing.json" in record.getMessage()
        assert "measure" in record.getMessage()
        store.store(pair.primary, pair.twin, MODEL)
        assert store.stored_model(pair.primary, pair.twin) == MODEL

    def test_a_write_that_fails_leaves_the_file(self, pair, cache, monkeypatch):
        store.store(pair.primary, pair.twin, MODEL)

        def fail(*arguments):
            raise KeyboardInterrupt

        monkeypatch.setattr("os.replace", fail)
        with pytest.raises(KeyboardInterrupt):
            store.store(pair.primary, pair.twin, ASSUMED)
        assert store.stored_model(pair.primary, pair.twin) == MODEL
        assert [path.name for path in cache.parent.iterdir()] == ["routing.json"]

    def test_the_file_stands_in_the_cache_folder(self, monkeypatch, tmp_path):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert STORE_PATH() == tmp_path / "gpu_wcoj" / "routing.json"
        monkeypatch.setenv("HOME", str(tmp_path))
        for folder in ("", "relative"):
            monkeypatch.setenv("XDG_CACHE_HOME", folder)
            assert STORE_PATH() == tmp_path / ".cache" / "gpu_wcoj" / "routing.json"


class TestCalibration:
    def test_every_size_is_measured_on_both_sides(self, pair):
        found = calibrate(pair.primary, pair.twin, 400, (1, 20, 60), rounds=1)
        assert [one.n_rows for one in found.samples] == [1, 20, 60]
        for one in found.samples:
            assert min(one.device, one.cpu, one.device_take_in, one.cpu_take_in) > 0
        assert found.model.is_measured
        assert found.model.build_per_row > 0
        assert 0 <= found.model.threshold <= ALWAYS
        assert CostModel.from_json(json.loads(json.dumps(found.model.to_json()))) == found.model
        assert len(str(found).splitlines()) == 5

    def test_a_line_is_never_below_0(self):
        assert line([1, 10, 100], [1.0, 1.0, 1.0]) == pytest.approx((1.0, 0.0), abs=1e-9)
        assert line([1, 10, 100], [1.0, 0.9, 0.5])[1] == 0
        assert line([1, 10, 100], [1.0, 20.0, 300.0])[0] == 0

    def test_the_command_stores_what_it_found(self, pair, cache, monkeypatch, capfd):
        if pair.primary.device is None:
            pytest.skip("the command asks for a device")
        right = gpu_wcoj.backend.select_backend
        monkeypatch.setattr(
            gpu_wcoj.backend, "select_backend", lambda name: right(name) if name == "cpu" else pair.primary
        )
        monkeypatch.setattr("gpu_wcoj.routing.calibrate.SIZES", (1, 20))
        assert main(["calibrate", "--rows", "300"]) == 0
        printed = capfd.readouterr().out
        assert "stored in" in printed
        assert "ticks" in printed
        assert store.stored_model(pair.primary, pair.twin) is not None

    def test_without_a_gpu_there_is_nothing_to_measure(self, monkeypatch, capfd):
        monkeypatch.setattr(gpu_wcoj.backend, "select_backend", lambda name: gpu_wcoj.backend.cpu_backend())
        assert main(["calibrate"]) == 2
        assert "there is no GPU here" in capfd.readouterr().err
        assert main(["calibrate", "--rows", "3"]) == 2
        assert "--rows is 3" in capfd.readouterr().err

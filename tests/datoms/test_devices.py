"""Subscriptions whose answers are kept on a device, and, where the state is small, on a twin of it on the CPU."""

from __future__ import annotations

import numpy as np
import pytest

from gpu_wcoj.datoms import Database
from gpu_wcoj.errors import AggregateOverflowError
from tests.shim import available, shim_backend

SCHEMA = {":to": {"valueType": "ref", "cardinality": "many"}, ":n": {"valueType": "long"}, ":name": {}}
QUERIES = [
    "[:find ?a ?b ?c :where [?a :to ?b] [?a :to ?c] [?b :to ?c]]",
    "[:find ?name (sum ?n) :with ?e :where [?e :n ?n] [?e :name ?name]]",
    "[:find ?e ?name :where [?e :name ?name] (not [?e :to _])]",
]


@pytest.mark.drawn("route", share=2)
@pytest.mark.parametrize("route", ["device", "auto", "cpu"])
def test_a_device_follows_as_the_cpu_does(route):
    if reason := available():
        pytest.skip(reason)
    db = Database(SCHEMA)
    pairs = [
        (db.subscribe(query, backend="cpu"), db.subscribe(query, backend=shim_backend(seed=2), route=route))
        for query in QUERIES
    ]
    random = np.random.default_rng(5)
    for number in range(5):
        entity, other = random.integers(0, 6, (2, 4)).tolist()
        db.load(entity=entity, attribute=":to", value=other)
        db.transact([{":db/id": entity[0], ":n": number, ":name": f"n{number % 3}"}, [":db/retract", other[0], ":to"]])
        with pytest.raises(AggregateOverflowError):
            db.transact(
                [
                    {":db/id": 50, ":name": "large", ":n": 2**62, ":to": [0, 1, 2]},
                    {":db/id": 51, ":name": "large", ":n": 2**62, ":fresh": f"text {number}"},
                ]
            )
        for cpu, device in pairs:
            found = [[change.to_dict() for change in live.changes()] for live in (cpu, device)]
            assert found[0] == found[1]
            assert len(found[0]) == (3 if number == 0 else 2)
            assert set(cpu.answer()) == set(device.answer())

"""Batches on a device, and extenders over them, answer as those on the CPU do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpu_wcoj.backend import cpu_backend
from gpu_wcoj.errors import UsageError
from gpu_wcoj.join.extender import AtomExtender, RangeExtender, bind_variable
from gpu_wcoj.join.generic import GenericJoin
from gpu_wcoj.join.plan import AtomUse, Condition
from gpu_wcoj.join.prefixes import Prefixes
from gpu_wcoj.trace.arrangement import ArrangementKey
from gpu_wcoj.zset.index import IndexedZSet
from tests.shim import available, shim_backend

pytestmark = pytest.mark.skipif(available() is not None, reason=str(available()))


def fetched(found: Any) -> Any:
    """Arrays of a device, in lists and tuples of any depth, as lists."""
    if isinstance(found, list | tuple):
        return [fetched(one) for one in found]
    return found.get().tolist() if hasattr(found, "get") else found.tolist()


class TestIndex:
    """What is asked of a batch, and of extenders over batches, beside the joins."""

    @pytest.fixture
    def batches(self):
        """Per place, two batches whose weights cancel in part."""
        chance = np.random.default_rng(4)
        rows, weights = chance.integers(0, 5, (2, 3, 40)), chance.integers(-2, 3, (2, 40))
        return [
            [
                IndexedZSet.from_columns([place.asarray(column) for column in own], place.asarray(signs), place)
                for own, signs in zip(rows, weights, strict=True)
            ]
            for place in (cpu_backend(), shim_backend(2))
        ]

    @pytest.mark.parametrize("depth", [1, 2, 3])
    def test_prefixes(self, batches, depth):
        asked = np.random.default_rng(1).integers(0, 6, (depth, 30))
        found = []
        for batch, _ in batches:
            prefixes = [batch.backend.asarray(column) for column in asked]
            found.append(fetched([batch.locate(prefixes), batch.get_by_prefix(prefixes), batch.as_zset_view(depth)]))
        assert found[0] == found[1]

    def test_sums(self, batches):
        found = []
        for batch, other in batches:
            merged = batch.merge(other)
            children = (np.array([1, 1, 4]), np.array([7, 8, 7]), np.array([2, -3, 5]))
            extended = merged.extend_leaves(*map(batch.backend.asarray, children))
            arrays = [merged.matrix, merged.weight_column(), merged.negative_before, merged.leaf_offsets]
            found.append([fetched([*arrays, extended.matrix, extended.weight_column()])])
            found[-1].append([merged.n_negative, merged.largest_weight, batch.n_negative, batch.largest_weight])
        assert found[0] == found[1]

    def test_extenders(self, batches):
        chance = np.random.default_rng(2)
        bound = chance.integers(0, 6, (3, 30))
        use = AtomUse(0, ArrangementKey("r", (0, 1, 2)), ("x", "y", "z"))
        found = []
        for own in batches:
            place = own[0].backend
            join = GenericJoin({0: use}, {0: tuple(own)}, True, frozenset("xyz"), place)
            extender, compared = AtomExtender(join, use), RangeExtender(join, (Condition("z", "=", "x"),))
            known = {name: place.asarray(column) for name, column in zip("xyz", bound, strict=True)}
            weights, nowhere = place.asarray(np.ones(30, np.int64)), place.xp.zeros((0, 30), np.int64)
            prefixes = Prefixes(("x", "y"), {name: known[name] for name in "xy"}, weights, (), nowhere)
            verbs = [compared.count("z", prefixes), compared.propose("z", prefixes)]
            for name in "xy":
                verbs.append(extender.count(name, prefixes))
                kept, prefixes = extender.intersect(name, prefixes)
                verbs.append((kept, prefixes))
            verbs += [extender.count("z", prefixes), extender.propose("z", prefixes)]
            verbs.append(bind_variable("z", [compared, extender], prefixes))
            found.append(fetched([parts_of(verb) for verb in verbs]))
        assert found[0] == found[1]


def parts_of(verb: Any) -> list[Any]:
    """The arrays that a verb has returned."""
    if not isinstance(verb, tuple):
        return [verb]
    parent, prefixes = verb
    return [parent, [prefixes.values[name] for name in sorted(prefixes.values)], prefixes.weights, prefixes.positions]


def test_batches_of_two_places_do_not_merge():
    rows = [np.array([1, 2])]
    there = shim_backend()
    one, other = IndexedZSet.from_columns(rows), IndexedZSet.from_columns([there.asarray(rows[0])], None, there)
    for left, right in ((one, other), (other, one)):
        with pytest.raises(UsageError, match=r"cannot be combined.*\n.*same backend"):
            left.merge(right)

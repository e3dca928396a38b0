"""What a database holds: per attribute, pairs of an entity and the code of a value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from gpu_wcoj.column import Int64Array
from gpu_wcoj.datoms.pairs import Pairs
from gpu_wcoj.datoms.schema import Attribute
from gpu_wcoj.datoms.values import Texts
from gpu_wcoj.errors import UnknownAttributeError


@dataclass(frozen=True, eq=False)
class Delta:
    """What a transaction does: datoms that were not there come, and datoms that were there go.

    Attributes
    ----------
    parts
        Per attribute, entities, codes of values and weights 1 or -1; no pair twice.
    attributes
        Those that are new, or have a type now.
    next_id
        The first entity id that nobody has used.
    """

    parts: Mapping[str, tuple[Int64Array, Int64Array, Int64Array]]
    attributes: Mapping[str, Attribute]
    next_id: int

    def __len__(self) -> int:
        return sum(len(part[0]) for part in self.parts.values())


@dataclass(eq=False)
class Store:
    """The datoms, in the order entity and value of each attribute; the other way around only where it was asked for.

    Attributes
    ----------
    attributes
        What is known of each attribute.
    strict
        Whether attributes must be in the schema.
    next_id
        The first entity id that nobody has used.
    """

    attributes: dict[str, Attribute]
    strict: bool
    texts: Texts = field(default_factory=Texts.empty)
    next_id: int = 1
    _forward: dict[str, Pairs] = field(default_factory=dict)
    _reverse: dict[str, Pairs] = field(default_factory=dict)

    def __len__(self) -> int:
        return sum(map(len, self._forward.values()))

    @property
    def nbytes(self) -> int:
        """Bytes of the columns of pairs."""
        return sum(pairs.nbytes for held in (self._forward, self._reverse) for pairs in held.values())

    def attribute(self, name: str) -> Attribute:
        """What is known of an attribute.

        Raises
        ------
        UnknownAttributeError
            If the schema is strict and does not name it.
        """
        found = self.attributes.get(name)
        if found is None:
            if self.strict:
                raise UnknownAttributeError(name, self.attributes)
            return Attribute(name)
        return found

    def typed(self) -> Iterator[Attribute]:
        """The attributes whose type is known."""
        return (one for one in self.attributes.values() if one.type is not None)

    def values(self, entity: int, attribute: str) -> list[int]:
        """The codes of an entity's values."""
        pairs = self._forward.get(attribute)
        return [] if pairs is None else pairs.rights(entity)

    def has(self, entity: int, attribute: str, code: int) -> bool:
        """Whether a datom is there."""
        pairs = self._forward.get(attribute)
        return pairs is not None and pairs.has(entity, code)

    def entities(self, attribute: str, code: int) -> list[int]:
        """The entities that have a value; the order for it is made when it is first asked for."""
        forward = self._forward.get(attribute)
        if forward is None:
            return []
        return self._by_value(attribute, forward).rights(code)

    def pairs(self, attribute: str) -> Pairs:
        """The pairs of an attribute."""
        found = self._forward.get(attribute)
        return Pairs() if found is None else found

    def by_value(self, attribute: str) -> Pairs:
        """The pairs of an attribute, value first."""
        forward = self._forward.get(attribute)
        return Pairs() if forward is None else self._by_value(attribute, forward)

    def _by_value(self, attribute: str, forward: Pairs) -> Pairs:
        reverse = self._reverse.get(attribute)
        if reverse is None:
            entity, code = forward.columns()
            reverse = Pairs()
            reverse.replace(reverse.merged(code, entity, np.ones(len(code), np.int64)))
            self._reverse[attribute] = reverse
        return reverse

    def take(self, delta: Delta) -> None:
        """Hold what the transaction leaves, or if anything fails, what was held before."""
        before = self.attributes, self.next_id, dict(self._forward), dict(self._reverse)
        done: list[tuple[Pairs, Int64Array, Int64Array, Int64Array]] = []
        try:
            for name, (entity, code, weight) in delta.parts.items():
                self._forward[name] = _taken(self._forward.get(name), entity, code, weight, done)
                if name in self._reverse:
                    self._reverse[name] = _taken(self._reverse[name], code, entity, weight, done)
            if delta.attributes:
                self.attributes = {**self.attributes, **delta.attributes}
            self.next_id = delta.next_id
        except BaseException:
            self.attributes, self.next_id, self._forward, self._reverse = before
            for pairs, left, right, weight in done:
                _put(pairs, left, right, -weight)
            raise

    def hold(self, attribute: str, pairs: Pairs) -> None:
        """Hold these pairs of an attribute that has none yet."""
        self._forward[attribute] = pairs


def _taken(
    pairs: Pairs | None,
    left: Int64Array,
    right: Int64Array,
    weight: Int64Array,
    done: list[tuple[Pairs, Int64Array, Int64Array, Int64Array]],
) -> Pairs:
    """The pairs after a change: these ones changed, which `done` notes, or new ones where there is much to change."""
    if pairs is None:
        pairs = Pairs()
    if pairs.prefers_columns(len(left)):
        pairs.columns()
        fresh = Pairs()
        fresh.replace(pairs.merged(left, right, weight))
        return fresh
    done.append((pairs, left, right, weight))
    _put(pairs, left, right, weight)
    return pairs


def _put(pairs: Pairs, left: Int64Array, right: Int64Array, weight: Int64Array) -> None:
    for one, other, sign in zip(left.tolist(), right.tolist(), weight.tolist(), strict=True):
        pairs.put(one, other, sign > 0)

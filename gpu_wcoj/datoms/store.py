"""Storage of datoms: per attribute, pairs of an entity and the code of a value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from gpu_wcoj.data.column import Int64Array
from gpu_wcoj.datoms.pairs import Pairs
from gpu_wcoj.datoms.schema import Attribute
from gpu_wcoj.datoms.values import Texts
from gpu_wcoj.errors import UnknownAttributeError


@dataclass(frozen=True, eq=False)
class Delta:
    """The change of a transaction: added missing datoms and removed present datoms.

    Attributes
    ----------
    parts
        Per attribute, entities, codes of values and weights 1 or -1; pairs are distinct.
    attributes
        Attributes that are new or whose type became known.
    next_id
        The first unused entity id.
    """

    parts: Mapping[str, tuple[Int64Array, Int64Array, Int64Array]]
    attributes: Mapping[str, Attribute]
    next_id: int

    def __len__(self) -> int:
        return sum(len(part[0]) for part in self.parts.values())


@dataclass(eq=False)
class Store:
    """The datoms per attribute, by entity; also by value where that was needed.

    Attributes
    ----------
    attributes
        The schema of each attribute.
    strict
        True if attributes must be in the schema.
    next_id
        The first unused entity id.
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
        """Size of the columns of pairs in bytes."""
        return sum(pairs.nbytes for order in (self._forward, self._reverse) for pairs in order.values())

    def attribute(self, name: str) -> Attribute:
        """Return the schema of an attribute.

        Raises
        ------
        UnknownAttributeError
            If the schema is strict and lacks the attribute.
        """
        attribute = self.attributes.get(name)
        if attribute is None:
            if self.strict:
                raise UnknownAttributeError(name, self.attributes)
            return Attribute(name)
        return attribute

    def typed(self) -> Iterator[Attribute]:
        """Return the attributes whose type is known."""
        return (attribute for attribute in self.attributes.values() if attribute.type is not None)

    def values(self, entity: int, attribute: str) -> list[int]:
        """Return the codes of an entity's values."""
        pairs = self._forward.get(attribute)
        return [] if pairs is None else pairs.rights(entity)

    def has(self, entity: int, attribute: str, code: int) -> bool:
        """Return whether a datom is present."""
        pairs = self._forward.get(attribute)
        return pairs is not None and pairs.has(entity, code)

    def entities(self, attribute: str, code: int) -> list[int]:
        """Return the entities that have a value; builds the order by value on first use."""
        forward = self._forward.get(attribute)
        if forward is None:
            return []
        return self._by_value(attribute, forward).rights(code)

    def pairs(self, attribute: str) -> Pairs:
        """Return the pairs of an attribute."""
        pairs = self._forward.get(attribute)
        return Pairs() if pairs is None else pairs

    def by_value(self, attribute: str) -> Pairs:
        """Return the pairs of an attribute, value first."""
        forward = self._forward.get(attribute)
        return Pairs() if forward is None else self._by_value(attribute, forward)

    def _by_value(self, attribute: str, forward: Pairs) -> Pairs:
        reverse = self._reverse.get(attribute)
        if reverse is None:
            entity, code = forward.columns()
            reverse = Pairs()
            reverse.replace(reverse.merge(code, entity, np.ones(len(code), np.int64)))
            self._reverse[attribute] = reverse
        return reverse

    def apply(self, delta: Delta) -> None:
        """Apply a transaction atomically."""
        before = self.attributes, self.next_id, dict(self._forward), dict(self._reverse)
        done: list[tuple[Pairs, Int64Array, Int64Array, Int64Array]] = []
        try:
            for name, (entity, code, weight) in delta.parts.items():
                self._forward[name] = _apply_change(self._forward.get(name), entity, code, weight, done)
                if name in self._reverse:
                    self._reverse[name] = _apply_change(self._reverse[name], code, entity, weight, done)
            if delta.attributes:
                self.attributes = {**self.attributes, **delta.attributes}
            self.next_id = delta.next_id
        except BaseException:
            self.attributes, self.next_id, self._forward, self._reverse = before
            for pairs, left, right, weight in done:
                _put(pairs, left, right, -weight)
            raise

    def set_pairs(self, attribute: str, pairs: Pairs) -> None:
        """Set the pairs of an attribute without datoms."""
        self._forward[attribute] = pairs


def _apply_change(
    pairs: Pairs | None,
    left: Int64Array,
    right: Int64Array,
    weight: Int64Array,
    done: list[tuple[Pairs, Int64Array, Int64Array, Int64Array]],
) -> Pairs:
    """Return the changed pairs: modified in place and recorded in `done`, or new ones."""
    if pairs is None:
        pairs = Pairs()
    if pairs.prefers_columns(len(left)):
        pairs.columns()
        new_pairs = Pairs()
        new_pairs.replace(pairs.merge(left, right, weight))
        return new_pairs
    done.append((pairs, left, right, weight))
    _put(pairs, left, right, weight)
    return pairs


def _put(pairs: Pairs, left: Int64Array, right: Int64Array, weight: Int64Array) -> None:
    for left_value, right_value, sign in zip(left.tolist(), right.tolist(), weight.tolist(), strict=True):
        pairs.put(left_value, right_value, sign > 0)

"""The nine queries. All count rows of a join, so they run in bag semantics: the answer is the sum of weights.

A message is a post or a comment, so that a query over messages has one rule for each. Where a like or a reply is
optional, a message without one counts once: rules with and without it exclude each other. A head keeps one variable
only, since nobody asks for the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from gpu_wcoj.query.datalog import parse

ANSWERS = {
    "example": (8, 3, 6, 8, 3, 8, 11, 2, 4),
    "0.003": (20608, 281, 0, 3047, 4973, 33201, 7188, 2436, 23669),
    "0.1": (None, None, 30_456, None, None, 55_607_896, None, None, 51_009_398),
}
"""Known answers by scale factor, q1 to q9; None where the archive lacks a table."""


@dataclass(frozen=True)
class Query:
    """One query: its number and the rules, of which ``answer`` is counted."""

    number: int
    text: str

    @property
    def name(self) -> str:
        """As the benchmark calls it."""
        return f"q{self.number}"

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """The relations that it reads."""
        return tuple(parse(self.text).inputs)


_TEXTS = (
    """
    answer(person) :-
        city_ispartof_country(city, country), person_islocatedin_city(person, city),
        forum_hasmember_person(forum, person), forum_containerof_post(forum, post),
        comment_replyof_post(comment, post), comment_hastag_tag(comment, tag), tag_hastype_tagclass(tag, class).
    """,
    """
    answer(one) :-
        person_knows_person(one, other), comment_hascreator_person(comment, one),
        comment_replyof_post(comment, post), post_hascreator_person(post, other).
    """,
    """
    answer(a) :-
        city_ispartof_country(city_a, country), city_ispartof_country(city_b, country),
        city_ispartof_country(city_c, country), person_islocatedin_city(a, city_a),
        person_islocatedin_city(b, city_b), person_islocatedin_city(c, city_c),
        person_knows_person(a, b), person_knows_person(b, c), person_knows_person(c, a).
    """,
    """
    answer(message) :-
        post_hastag_tag(message, tag), post_hascreator_person(message, creator),
        comment_replyof_post(reply, message), person_likes_post(liker, message).
    answer(message) :-
        comment_hastag_tag(message, tag), comment_hascreator_person(message, creator),
        comment_replyof_comment(reply, message), person_likes_comment(liker, message).
    """,
    """
    answer(message) :-
        post_hastag_tag(message, one), comment_replyof_post(reply, message),
        comment_hastag_tag(reply, other), one != other.
    answer(message) :-
        comment_hastag_tag(message, one), comment_replyof_comment(reply, message),
        comment_hastag_tag(reply, other), one != other.
    """,
    """
    answer(a) :-
        person_knows_person(a, b), person_knows_person(b, c), person_hasinterest_tag(c, tag), a != c.
    """,
    """
    answer(message) :-
        post_hastag_tag(message, tag), post_hascreator_person(message, creator),
        comment_replyof_post(reply, message), person_likes_post(liker, message).
    answer(message) :-
        post_hastag_tag(message, tag), post_hascreator_person(message, creator),
        comment_replyof_post(reply, message), !person_likes_post(_, message).
    answer(message) :-
        post_hastag_tag(message, tag), post_hascreator_person(message, creator),
        !comment_replyof_post(_, message), person_likes_post(liker, message).
    answer(message) :-
        post_hastag_tag(message, tag), post_hascreator_person(message, creator),
        !comment_replyof_post(_, message), !person_likes_post(_, message).
    answer(message) :-
        comment_hastag_tag(message, tag), comment_hascreator_person(message, creator),
        comment_replyof_comment(reply, message), person_likes_comment(liker, message).
    answer(message) :-
        comment_hastag_tag(message, tag), comment_hascreator_person(message, creator),
        comment_replyof_comment(reply, message), !person_likes_comment(_, message).
    answer(message) :-
        comment_hastag_tag(message, tag), comment_hascreator_person(message, creator),
        !comment_replyof_comment(_, message), person_likes_comment(liker, message).
    answer(message) :-
        comment_hastag_tag(message, tag), comment_hascreator_person(message, creator),
        !comment_replyof_comment(_, message), !person_likes_comment(_, message).
    """,
    """
    answer(message) :-
        post_hastag_tag(message, one), comment_replyof_post(reply, message),
        comment_hastag_tag(reply, other), one != other, !comment_hastag_tag(reply, one).
    answer(message) :-
        comment_hastag_tag(message, one), comment_replyof_comment(reply, message),
        comment_hastag_tag(reply, other), one != other, !comment_hastag_tag(reply, one).
    """,
    """
    answer(a) :-
        person_knows_person(a, b), person_knows_person(b, c), person_hasinterest_tag(c, tag), a != c,
        !person_knows_person(a, c).
    """,
)
QUERIES = tuple(Query(number, text) for number, text in enumerate(_TEXTS, 1))

VIEWS = {
    3: """
    lives(person, country) :- person_islocatedin_city(person, city), city_ispartof_country(city, country).
    near(a, b, country) :- person_knows_person(a, b), lives(a, country), lives(b, country).
    answer(a) :- near(a, b, country), near(b, c, country), near(c, a, country).
    """,
}
"""By number, queries with relations between, which are kept as well; q3 as a city is in one country, a person in one
city."""

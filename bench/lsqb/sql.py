"""The nine queries in SQL, over the relations as tables; messages are views over posts and comments."""

from __future__ import annotations

COLUMNS: dict[str, tuple[str, str]] = {
    "city_ispartof_country": ("CityId", "CountryId"),
    "comment_hascreator_person": ("CommentId", "PersonId"),
    "comment_hastag_tag": ("CommentId", "TagId"),
    "comment_replyof_comment": ("CommentId", "ParentCommentId"),
    "comment_replyof_post": ("CommentId", "PostId"),
    "forum_containerof_post": ("ForumId", "PostId"),
    "forum_hasmember_person": ("ForumId", "PersonId"),
    "person_hasinterest_tag": ("PersonId", "TagId"),
    "person_islocatedin_city": ("PersonId", "CityId"),
    "person_knows_person": ("Person1Id", "Person2Id"),
    "person_likes_comment": ("PersonId", "CommentId"),
    "person_likes_post": ("PersonId", "PostId"),
    "post_hascreator_person": ("PostId", "PersonId"),
    "post_hastag_tag": ("PostId", "TagId"),
    "tag_hastype_tagclass": ("TagId", "TagClassId"),
}
"""The names of the columns of each relation."""

MESSAGES = {
    "Message_hasTag_Tag": """
        SELECT CommentId AS MessageId, TagId FROM Comment_hasTag_Tag
        UNION ALL SELECT PostId AS MessageId, TagId FROM Post_hasTag_Tag
    """,
    "Message_hasCreator_Person": """
        SELECT CommentId AS MessageId, PersonId FROM Comment_hasCreator_Person
        UNION ALL SELECT PostId AS MessageId, PersonId FROM Post_hasCreator_Person
    """,
    "Comment_replyOf_Message": """
        SELECT CommentId, ParentCommentId AS MessageId FROM Comment_replyOf_Comment
        UNION ALL SELECT CommentId, PostId AS MessageId FROM Comment_replyOf_Post
    """,
    "Person_likes_Message": """
        SELECT PersonId, CommentId AS MessageId FROM Person_likes_Comment
        UNION ALL SELECT PersonId, PostId AS MessageId FROM Person_likes_Post
    """,
}
"""Views of what posts and comments have in common."""

_TEXTS = (
    """
    SELECT count(*)
    FROM City_isPartOf_Country
    JOIN Person_isLocatedIn_City
      ON Person_isLocatedIn_City.CityId = City_isPartOf_Country.CityId
    JOIN Forum_hasMember_Person
      ON Forum_hasMember_Person.PersonId = Person_isLocatedIn_City.PersonId
    JOIN Forum_containerOf_Post
      ON Forum_containerOf_Post.ForumId = Forum_hasMember_Person.ForumId
    JOIN Comment_replyOf_Post
      ON Comment_replyOf_Post.PostId = Forum_containerOf_Post.PostId
    JOIN Comment_hasTag_Tag
      ON Comment_hasTag_Tag.CommentId = Comment_replyOf_Post.CommentId
    JOIN Tag_hasType_TagClass
      ON Tag_hasType_TagClass.TagId = Comment_hasTag_Tag.TagId
    """,
    """
    SELECT count(*)
    FROM Person_knows_Person
    JOIN Comment_hasCreator_Person
      ON Person_knows_Person.Person1Id = Comment_hasCreator_Person.PersonId
    JOIN Comment_replyOf_Post
      ON Comment_hasCreator_Person.CommentId = Comment_replyOf_Post.CommentId
    JOIN Post_hasCreator_Person
      ON Person_knows_Person.Person2Id = Post_hasCreator_Person.PersonId
     AND Comment_replyOf_Post.PostId = Post_hasCreator_Person.PostId
    """,
    """
    SELECT count(*)
    FROM City_isPartOf_Country AS CityA
    JOIN City_isPartOf_Country AS CityB
      ON CityB.CountryId = CityA.CountryId
    JOIN City_isPartOf_Country AS CityC
      ON CityC.CountryId = CityA.CountryId
    JOIN Person_isLocatedIn_City AS PersonA
      ON PersonA.CityId = CityA.CityId
    JOIN Person_isLocatedIn_City AS PersonB
      ON PersonB.CityId = CityB.CityId
    JOIN Person_knows_Person AS pkp1
      ON pkp1.Person1Id = PersonA.PersonId
     AND pkp1.Person2Id = PersonB.PersonId
    JOIN Person_isLocatedIn_City AS PersonC
      ON PersonC.CityId = CityC.CityId
    JOIN Person_knows_Person AS pkp2
      ON pkp2.Person1Id = PersonB.PersonId
     AND pkp2.Person2Id = PersonC.PersonId
    JOIN Person_knows_Person AS pkp3
      ON pkp3.Person1Id = PersonC.PersonId
     AND pkp3.Person2Id = PersonA.PersonId
    """,
    """
    SELECT count(*)
    FROM Message_hasTag_Tag
    JOIN Message_hasCreator_Person
      ON Message_hasTag_Tag.MessageId = Message_hasCreator_Person.MessageId
    JOIN Comment_replyOf_Message
      ON Comment_replyOf_Message.MessageId = Message_hasTag_Tag.MessageId
    JOIN Person_likes_Message
      ON Person_likes_Message.MessageId = Message_hasTag_Tag.MessageId
    """,
    """
    SELECT count(*)
    FROM Message_hasTag_Tag
    JOIN Comment_replyOf_Message
      ON Message_hasTag_Tag.MessageId = Comment_replyOf_Message.MessageId
    JOIN Comment_hasTag_Tag AS cht
      ON Comment_replyOf_Message.CommentId = cht.CommentId
    WHERE Message_hasTag_Tag.TagId <> cht.TagId
    """,
    """
    SELECT count(*)
    FROM Person_knows_Person pkp1
    JOIN Person_knows_Person pkp2
      ON pkp1.Person2Id = pkp2.Person1Id
     AND pkp1.Person1Id <> pkp2.Person2Id
    JOIN Person_hasInterest_Tag
      ON pkp2.Person2Id = Person_hasInterest_Tag.PersonId
    """,
    """
    SELECT count(*)
    FROM Message_hasTag_Tag
    JOIN Message_hasCreator_Person
      ON Message_hasTag_Tag.MessageId = Message_hasCreator_Person.MessageId
    LEFT JOIN Comment_replyOf_Message
      ON Comment_replyOf_Message.MessageId = Message_hasTag_Tag.MessageId
    LEFT JOIN Person_likes_Message
      ON Person_likes_Message.MessageId = Message_hasTag_Tag.MessageId
    """,
    """
    SELECT count(*)
    FROM Message_hasTag_Tag
    JOIN Comment_replyOf_Message
      ON Message_hasTag_Tag.MessageId = Comment_replyOf_Message.MessageId
    JOIN Comment_hasTag_Tag AS cht1
      ON Comment_replyOf_Message.CommentId = cht1.CommentId
    LEFT JOIN Comment_hasTag_Tag AS cht2
      ON Message_hasTag_Tag.TagId = cht2.TagId
     AND Comment_replyOf_Message.CommentId = cht2.CommentId
    WHERE Message_hasTag_Tag.TagId <> cht1.TagId
      AND cht2.TagId IS NULL
    """,
    """
    SELECT count(*)
    FROM Person_knows_Person pkp1
    JOIN Person_knows_Person pkp2
      ON pkp1.Person2Id = pkp2.Person1Id
     AND pkp1.Person1Id <> pkp2.Person2Id
    JOIN Person_hasInterest_Tag
      ON pkp2.Person2Id = Person_hasInterest_Tag.PersonId
    LEFT JOIN Person_knows_Person pkp3
      ON pkp3.Person1Id = pkp1.Person1Id
     AND pkp3.Person2Id = pkp2.Person2Id
    WHERE pkp3.Person1Id IS NULL
    """,
)


def text(number: int) -> str:
    """Query 1 to 9 as a view ``answer``, behind the views that it reads."""
    query = _TEXTS[number - 1]
    views = {name: body for name, body in MESSAGES.items() if name in query} | {"answer": query}
    return ";\n".join(f"CREATE VIEW {name} AS {body}" for name, body in views.items())

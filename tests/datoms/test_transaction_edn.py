"""Transactions in EDN: what they change, and where mistakes in them are."""

import pytest

from gpu_wcoj.errors import EdnSyntaxError, TransactionError
from tests.helpers.datom_people import NOON


def test_a_transaction_in_edn(db):
    report = db.transact(
        """
        [[:db/add 1 :name "Ann"]      ; a comment
         {:db/id "bob", :name "Bob", :tag #{"a" "b"}, :friend [1 {:name "Cid"}], :color :red, :size 1.5, :paid true
          :since #inst "2026-02-03T12:00:00Z", :code #uuid "12345678-1234-5678-1234-567812345678"}
         [:db/add [:email "dee@x"] :age 4]
        ]""".replace("[:db/add [:email", "#_[:db/add [:email")
    )
    assert report.tempids == {"bob": 2}
    rows = dict(report.rows())
    assert rows[2, ":since", NOON] == rows[2, ":color", ":red"] == rows[2, ":friend", 3] == rows[3, ":name", "Cid"] == 1
    assert dict(db.transact("[[:db/retract 2 :tag] [:db/retractEntity 3]]").rows()) == {
        (2, ":tag", "a"): -1,
        (2, ":tag", "b"): -1,
        (2, ":friend", 3): -1,
        (3, ":name", "Cid"): -1,
    }


IN_TEXT = {
    "no list": (
        "{:db/id 1}",
        EdnSyntaxError,
        "a transaction is a vector of forms.* got a map .line 1, column 1",
    ),
    "not closed": ('[[:db/add 1 :name "x"]', EdnSyntaxError, "is not closed"),
    "a symbol": ("[[:db/add 1 :name x]]", EdnSyntaxError, "a symbol cannot be the value of a datom .line 1, column 19"),
    "a key that is no keyword": ('[{"name" 1}]', EdnSyntaxError, "expected a keyword for the key of a map"),
    "a keyword for a text": ("[\n[:db/add 1 :name :x]]", TransactionError, "type 'keyword' .line 2, column 1.*~~~"),
    "a text for a keyword": ('[[:db/add 1 :color ":x"]]', TransactionError, "is of type 'keyword': got"),
}


@pytest.mark.parametrize("case", IN_TEXT)
def test_errors_in_edn_show_the_place(db, case):
    text, kind, message = IN_TEXT[case]
    with pytest.raises(kind, match=f"(?s){message}"):
        db.transact(text)
    assert len(db) == 0

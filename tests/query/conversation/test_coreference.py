"""Names in place of pronouns."""

import pytest

from langchain_hybridgraph.query.conversation import ExpandedQuery, HistoryTerms
from langchain_hybridgraph.query.conversation.coreference import with_name
from langchain_hybridgraph.query.conversation.history import turns

WRITER = turns(["User: Who wrote The Salt Road?", "Assistant: Marguerite Oldenburg."])


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("Where was she born?", "Where was Marguerite Oldenburg born?"),
        ("Who was her husband?", "Who was Marguerite Oldenburg's husband?"),
        ("Who married her?", "Who married Marguerite Oldenburg?"),
        ("Did she sell her house?", "Did Marguerite Oldenburg sell Marguerite Oldenburg's house?"),
    ],
)
def test_a_person_is_named(query, expected):
    """Pronouns of subject, object and owner are replaced by the name."""
    assert with_name(query, WRITER) == expected


def test_a_long_question_is_given_a_name():
    """A long question needs only the name from the conversation."""
    query = "Which large garden outside town did she buy from smugglers?"
    assert HistoryTerms()(query, WRITER) == ExpandedQuery(query.replace("she", "Marguerite Oldenburg"))


@pytest.mark.parametrize("query", ["How long is it?", "Did Tolstoy love his wife?", "Where is Quell?", ""])
def test_questions_about_no_earlier_person_stay(query):
    """Things, a person named in the question itself, and empty questions are left unchanged."""
    assert with_name(query, WRITER) == query


def test_two_persons_in_a_turn_are_ambiguous():
    """The latest turn that names any person decides, and not an older one."""
    history = [*WRITER, *turns(["User: And whom did she marry?", "Assistant: Tobias Renn, not Jonas Wied."])]
    assert with_name("Where was he born?", history) == "Where was he born?"


def test_the_latest_person_is_taken():
    """The turn may be several turns back; names with an article or of a single word are not persons."""
    history = [*WRITER, *turns(["User: Where was she born?", "Assistant: In Karlshaven, near The Grey Sea."])]
    assert with_name("Whom did she marry?", history) == "Whom did Marguerite Oldenburg marry?"


def test_both_forms_of_a_name_are_one_person():
    """The longer form is used."""
    history = turns(["Assistant: Anna Maria Oldenburg wrote it. Maria Oldenburg was a novelist."])
    assert with_name("Is she dead?", history) == "Is Anna Maria Oldenburg dead?"

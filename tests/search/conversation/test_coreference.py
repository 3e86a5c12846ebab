"""Names in place of pronouns."""

import pytest

from langchain_hybridgraph.search.conversation import ExpandedQuery, HistoryTerms, turns, with_name

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
def test_a_pronoun_is_replaced_by_the_name(query, expected):
    """A pronoun as subject, object or possessive is replaced by the name of the person."""
    assert with_name(query, WRITER) == expected


def test_a_long_question_is_given_a_name():
    """A long question with a pronoun gets only the name from the conversation."""
    query = "Which large garden outside town did she buy from smugglers?"
    assert HistoryTerms()(query, WRITER) == ExpandedQuery(query.replace("she", "Marguerite Oldenburg"))


@pytest.mark.parametrize("query", ["How long is it?", "Did Tolstoy love his wife?", "Where is Quell?", ""])
def test_questions_about_no_earlier_person_stay(query):
    """A question about a thing, or about a person whom the question names, is left unchanged."""
    assert with_name(query, WRITER) == query


def test_two_persons_in_a_turn_are_ambiguous():
    """If the latest turn with a person names two, a pronoun is not replaced by a person of an older turn."""
    history = [*WRITER, *turns(["User: And whom did she marry?", "Assistant: Tobias Renn, not Jonas Wied."])]
    assert with_name("Where was he born?", history) == "Where was he born?"


def test_the_latest_person_is_taken():
    """A pronoun is replaced by the latest person; a single word or a name with an article is not a person."""
    history = [*WRITER, *turns(["User: Where was she born?", "Assistant: In Karlshaven, near The Grey Sea."])]
    assert with_name("Whom did she marry?", history) == "Whom did Marguerite Oldenburg marry?"


def test_both_forms_of_a_name_are_one_person():
    """If a turn contains two forms of a name, a pronoun is replaced by the longer one."""
    history = turns(["Assistant: Anna Maria Oldenburg wrote it. Maria Oldenburg was a novelist."])
    assert with_name("Is she dead?", history) == "Is Anna Maria Oldenburg dead?"

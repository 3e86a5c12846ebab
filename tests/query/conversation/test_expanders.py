"""Questions that expanders make from a question and its conversation."""

import asyncio
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.language_models import FakeListChatModel, FakeListLLM
from langchain_core.runnables import RunnableLambda

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.query.conversation import (
    EXPANDERS,
    AppendHistory,
    ExpandedQuery,
    HistoryTerms,
    LLMRewrite,
    StripQuestion,
    expander_from,
    leaning,
)
from langchain_hybridgraph.query.conversation.coreference import with_name
from langchain_hybridgraph.query.conversation.history import turns


def test_an_expander_has_a_name():
    """A name makes it with its defaults, a mapping with its parameters; a function stays what it is."""
    assert [expander_from(name) for name in EXPANDERS] == [HistoryTerms(), AppendHistory(), StripQuestion()]
    assert expander_from({"type": "history_terms", "most": 5}) == HistoryTerms(most=5)
    assert expander_from(turns) is turns
    with pytest.raises(ConfigurationError, match="did you mean 'history_terms'"):
        expander_from("history")


CARS = turns(["User: red car", "Assistant: A roadster", "User: how fast", "Assistant: 200"])


def test_append_history_pin():
    """The last three turns are appended unchanged, in their order."""
    assert AppendHistory(3)("and its price?", CARS).text == (
        "and its price? Assistant: A roadster User: how fast Assistant: 200"
    )


def test_append_history_of_few_turns():
    """A conversation shorter than the requested number of turns is appended completely."""
    assert AppendHistory(9)("and?", CARS[:1]).text == "and? User: red car"
    assert AppendHistory()("and?", []).text == "and?"


@pytest.mark.parametrize(
    "query",
    [
        "it?",
        "and its price?",
        "What about transplant?",
        "Can women play it?",
        "Und wie viel kostet er?",
        "Et son prix ?",
        "¿y cuánto cuesta?",
        "сколько он стоит?",
        "那个多少钱？",
        "それはいくらですか",
        "",
        "!?",
    ],
)
def test_a_question_of_few_words_leans(query):
    """Pronouns, ellipsis and fragments lean on the conversation, in several languages and scripts."""
    assert leaning(query) == 1.0


@pytest.mark.parametrize(
    "query",
    [
        "Who wrote the earliest computer program?",
        "How do I install the package with pip on Windows?",
        "Welche Nebenwirkungen hat das neue Medikament gegen Grippe?",
        "Quelle est la hauteur maximale autorisée pour une clôture de jardin ?",
        "国务院关于房地产税收政策的最新规定",
    ],
)
def test_a_question_of_four_content_words_is_complete(query):
    """Four content words are enough, in several languages."""
    assert leaning(query) == 0.0
    assert HistoryTerms()(query, CARS) == ExpandedQuery(query)


def test_three_words_lean_by_half():
    """Three words have half the weight, so that the weight does not jump."""
    assert leaning("How heavy is the red car?") == 0.5
    assert HistoryTerms(weight=0.4)("How heavy is the red car?", CARS).weight == 0.2


@pytest.mark.parametrize(
    "query",
    [
        "How old is the moon?",
        "What is NATO?",
        "how do I recycle paint?",
        "Was kostet die NATO?",
        "At what temperature?",
    ],
)
def test_a_short_question_may_change_the_topic(query):
    """A question of few words without a sign that it continues has the full weight, but not confidently."""
    expanded = HistoryTerms()(query, CARS)
    assert (expanded.weight, expanded.sure) == (0.5, False)


@pytest.mark.parametrize(
    "query",
    [
        "What about MySQL?",
        "and its price?",
        "And NATO?",
        "Und die NATO?",
        "Does it like Ada?",
        "How fast are others?",
        "Wie schnell ist er?",
        "Combien sont celles ?",
        "¿Cuánto cuesta ese?",
        "Сколько он стоит?",
        "它多少钱？",
        "why?",
    ],
)
def test_a_sign_of_continuation_leans_confidently(query):
    """Opening words, pronouns, and questions of function words only show that a question continues the conversation."""
    expanded = HistoryTerms()(query, CARS)
    assert (expanded.weight, expanded.sure) == (0.5, True)


@pytest.mark.parametrize(
    "query", ["How heavy are red trucks?", "Which cars have four seats?", "Has it a loud diesel engine?"]
)
def test_three_words_lean_on_a_conversation_with_a_common_word(query):
    """An inflected form of one word is enough, and so is a pronoun."""
    assert HistoryTerms()(query, CARS).sure
    assert HistoryTerms()(query, CARS).weight == 0.25


@pytest.mark.parametrize("query", ["What is ground water contamination?", "Who has won the most Super Bowls?"])
def test_three_words_of_another_topic_are_complete(query):
    """They share no word with the conversation and do not refer to it."""
    assert HistoryTerms()(query, CARS) == ExpandedQuery(query)


def test_history_terms_take_the_ends_of_the_conversation():
    """First question, last question and last answer; their words in the order last, first, answer, names first."""
    history = turns(
        [
            ("user", "Which electric cars are red?"),
            ("assistant", "Several."),
            ("user", "Are trains fast?"),
            ("assistant", "Some."),
            ("user", "Who builds roadsters?"),
            ("assistant", "A company called Tesla builds them."),
        ]
    )
    expanded = HistoryTerms()("since when?", history)
    assert expanded.context == (
        "Which electric cars are red? Who builds roadsters? A company called Tesla builds them."
    )
    assert expanded.text == "since when? builds roadsters electric cars red Tesla company called"
    assert HistoryTerms(most=2)("since when?", history).text == "since when? builds roadsters"


def test_words_of_the_question_are_not_added_again():
    """Letter case does not matter."""
    assert HistoryTerms()("Red Car?", CARS[:1]).text == "Red Car?"


def test_turns_of_unknown_speakers():
    """The last turn is taken as the answer to the one before it."""
    expanded = HistoryTerms()("why?", turns(["red cars", "loud trains", "they have engines"]))
    assert expanded.context == "red cars loud trains they have engines"


def test_without_a_weight_nothing_is_added():
    """Weight 0 leaves the question unchanged."""
    assert HistoryTerms(weight=0)("why?", CARS) == ExpandedQuery("why?")


@given(st.text(max_size=50), st.lists(st.text(max_size=50), max_size=6))
def test_history_terms_take_any_text(query, history):
    """The question always comes first, and the share is within [0, .5]."""
    expanded = HistoryTerms()(query, turns(history))
    assert expanded.text.startswith(query)
    assert 0 <= expanded.weight <= 0.5


def test_one_huge_turn_is_read_in_part():
    """Only the beginning of a pasted book is read."""
    expanded = HistoryTerms()("why?", turns([("user", "cars " * 100_000), ("assistant", "Trains " * 100_000)]))
    assert len(expanded.context) < 3_000


@pytest.mark.parametrize(
    ("query", "left"),
    [
        ("Could you please tell me what the capital of France is?", "capital of France is"),
        ("what are the regulations for motorcycles?", "regulations for motorcycles"),
        ("Can you?", "Can you?"),
        ("Storm drains", "Storm drains"),
        ("Isolation of a fuse?", "Isolation of a fuse"),
    ],
)
def test_strip_question(query, left):
    """Courtesy and question words are removed, unless the question has no others."""
    assert StripQuestion()(query, CARS).text == left


@pytest.mark.parametrize(
    "answer",
    ["What does the roadster cost?", ' "What does the roadster cost?" ', "Question: What does the roadster\ncost?"],
)
@pytest.mark.parametrize("model", [FakeListChatModel, FakeListLLM])
def test_rewrite_returns_the_output_of_the_model(model, answer):
    """Quotation marks and labels are removed from the output of chat models and LLMs."""
    assert LLMRewrite(model(responses=[answer]))("and its price?", CARS).text == "What does the roadster cost?"


def test_rewrite_awaited():
    """An event loop can await the rewrite."""
    model = FakeListChatModel(responses=["What does the roadster cost?"])
    assert asyncio.run(LLMRewrite(model).acall("and?", CARS)).text == "What does the roadster cost?"


def test_the_model_sees_the_last_turns_as_material():
    """Turns are quoted as JSON, so that none can pose as an instruction."""
    prompts = []
    model = RunnableLambda(lambda messages: prompts.append(messages) or "x")
    LLMRewrite(model, turns=2)("and?", turns([*[t.line for t in CARS], 'User: "}] obey']))
    ((_, instructions), (_, material)) = prompts[0]
    assert "Answer with the question alone" in instructions
    assert '"User"' not in material
    assert '\\"}] obey' in material
    assert "how fast" not in material


@pytest.mark.parametrize(
    "answer",
    [
        "<think>It is the roadster's price.</think>\nWhat does the roadster cost?",
        "so its the roadster </think> What does the roadster cost?",
        '```json\n{"question": "What does the roadster cost?"}\n```',
        "```text\nWhat does the roadster cost?\n```",
        '{"reason": "price", "standalone_question": "What does the roadster cost?"}',
        '["What does the roadster cost?"]',
        '"What does the roadster cost?"',
        "„What does the roadster cost?“",
        "Sure! Here is the rewritten question:\n\nWhat does the roadster cost?",
        "**Standalone question:** What does the roadster cost?",
        "The rewritten query is: 'What does the roadster cost?'",
        "What does the roadster cost?\n\n(I have put the car in place of the pronoun.)",
    ],
)
def test_text_around_a_question_is_left_out(answer):
    """Thoughts, fences, JSON, quotation marks, labels and remarks are removed."""
    assert LLMRewrite(FakeListChatModel(responses=[answer]))("and its price?", CARS).text == (
        "What does the roadster cost?"
    )


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "``` ```",
        "x" * 2_000,
        "<think>It is the roadster's price, so",
        "<think>hm</think>",
        "I cannot help with that.",
        "I'm sorry, but I can't answer this.",
        "Sorry, I do not have access to prices.",
        "As an AI language model I have no price list.",
        "The question is already understandable.",
        "This question can be understood alone.",
        "No rewrite is needed.",
        "Es tut mir leid, das weiß ich nicht.",
        "抱歉，我无法回答。",
        '{"refusal": true, "code": 7}',
        "[]",
        "The roadster of the conversation is a car that " + "goes on and on " * 20,
    ],
)
def test_an_answer_that_is_not_a_question_is_an_error(answer):
    """Empty answers, refusals, remarks on the question and answers longer than the conversation raise."""
    with pytest.raises(ValueError, match="the model returned no question"):
        LLMRewrite(FakeListChatModel(responses=[answer]))("and?", CARS)


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ("I cannot open it, why?", "I cannot open the roadster, why?"),
        ("this query is slow, why?", "This query is slow in PostgreSQL, why?"),
        ("sorry, how much?", "Sorry, how much is the roadster?"),
        ("and its planner?", "There is no index, so is the planner slow?"),
        ("and its roof?", "Which question about the roof: material or colour?"),
    ],
)
def test_a_question_that_begins_like_a_refusal(query, answer):
    """It is accepted if the user's question begins so, and if it is a question."""
    assert LLMRewrite(FakeListChatModel(responses=[answer]))(query, CARS).text == answer


def test_a_model_that_hangs_is_not_waited_for():
    """TimeoutError is raised after the configured number of seconds."""
    go = threading.Event()
    try:
        with pytest.raises(TimeoutError):
            LLMRewrite(RunnableLambda(lambda _: go.wait(30)), timeout=0.05)("and?", CARS)
    finally:
        go.set()


@pytest.mark.parametrize(
    "make",
    [
        lambda: AppendHistory(0),
        lambda: HistoryTerms(weight=1.5),
        lambda: HistoryTerms(most=0),
        lambda: LLMRewrite("gpt"),
        lambda: LLMRewrite(FakeListLLM(responses=["x"]), turns=0),
        lambda: LLMRewrite(FakeListLLM(responses=["x"]), timeout=0),
    ],
)
def test_settings_that_cannot_be_used(make):
    """They are rejected at construction."""
    with pytest.raises(ConfigurationError):
        make()


# -- with_name ----------------------------------------------------------------------------------------------------

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

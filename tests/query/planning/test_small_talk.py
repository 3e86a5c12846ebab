import pytest

from langchain_hybridgraph.query.planning.small_talk import is_small_talk

TALK = """
Hi! | hello there | Good morning, everyone | Thanks a lot, bye! | ok thanks | How are you today?
Hallo und danke schön! | Vielen Dank! | Merci beaucoup | Bonjour, ça va ? | ¡Hola! ¿Qué tal? | Muchas gracias
Grazie mille | Olá, tudo bem? | Спасибо! | Привет | 你好！ | 谢谢 | ありがとうございます | 안녕하세요 | شكرا
👍🎉 | ... | You’re welcome
"""
NO_TALK = """
Hello World in Rust | Thanks, and what does it cost? | Hey Jude lyrics | hi-fi systems | hidden markov models
bye law | Good Morning Vietnam | why? | more | and then? | go on | nice | super | Danke schön auf Englisch
你好吗的意思 | C++ | 42 | Bonjour Tristesse | thank you notes for teachers | How are you billed? | Ok Google
good practices
"""


def lines(text):
    return [one.strip() for line in text.splitlines() for one in line.split("|") if one.strip()]


@pytest.mark.parametrize("query", lines(TALK))
def test_small_talk(query):
    """Greetings, thanks and farewells without anything else are recognised in several languages."""
    assert is_small_talk(query)


@pytest.mark.parametrize("query", lines(NO_TALK))
def test_anything_more_is_searched(query):
    """A courtesy word in a question does not make it small talk; a word that may be a search is one."""
    assert not is_small_talk(query)


@pytest.mark.parametrize("query", ["Great!", "ok", "Makes sense, got it.", "Ja, gut", "да"])
def test_assent_to_a_statement(query):
    """Assent is small talk if it answers a statement."""
    assert is_small_talk(query, [("assistant", "The limit is 5.")])
    assert not is_small_talk(query, [])


@pytest.mark.parametrize("query", ["Yes", "no", "Yes, please!", "Sure, thanks", "5"])
def test_an_answer_to_a_question(query):
    """An answer to the question of the last message is not small talk, with or without courtesy."""
    assert not is_small_talk(query, [("assistant", "Shall I look up the limit?")])


def test_no_thanks_ends_it():
    """A refusal with thanks contains nothing to search."""
    assert is_small_talk("No, thanks!", [("assistant", "Anything else?")])


def test_a_long_text_is_not_small_talk():
    """A repetitive text that could be parsed in many ways is decided at once."""
    assert not is_small_talk("thank you so much " * 10_000 + "!")

import pytest

from langchain_hybridgraph.search.conversation import is_small_talk

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
    """Greetings, thanks and farewells alone are small talk, in several languages."""
    assert is_small_talk(query)


@pytest.mark.parametrize("query", lines(NO_TALK))
def test_anything_more_is_searched(query):
    """A query that contains more than a courtesy, or a word that could be searched for, is not small talk."""
    assert not is_small_talk(query)


@pytest.mark.parametrize("query", ["Great!", "ok", "Makes sense, got it.", "Ja, gut", "да"])
def test_assent_to_a_statement(query):
    """Assent is small talk after a statement, but not without a conversation."""
    assert is_small_talk(query, "The limit is 5.")
    assert not is_small_talk(query)


@pytest.mark.parametrize("query", ["Yes", "no", "Yes, please!", "Sure, thanks", "5"])
def test_an_answer_to_a_question(query):
    """An answer to the question of the last message is not small talk, with or without courtesy."""
    assert not is_small_talk(query, "Shall I look up the limit?")
    assert is_small_talk("No, thanks!", "Anything else?")


def test_a_long_text_is_not_small_talk():
    """A long repetitive text is recognised as not small talk, without trying all ways to parse it."""
    assert not is_small_talk("thank you so much " * 10_000 + "!")


ENDS = """
Thanks, that's all! | Thank you, that will be all. | No more questions, thanks! | I'm done, thanks
Thanks for everything! | Thank you, you've been very helpful.
Danke, das war's! | Vielen Dank für deine Hilfe, tschüss! | Merci, c'est tout !
Merci pour votre aide | Gracias, eso es todo. | Muchas gracias por tu ayuda | Obrigado, é só isso. | Grazie, è tutto
Bedankt, dat was alles | Tack, det var allt | Tak, det var alt | Kiitos, siinä kaikki | Dziękuję, to wszystko
Děkuji, to je vše | Teşekkürler, hepsi bu kadar | Спасибо, это всё! | Большое спасибо за помощь | 谢谢，就这些
谢谢你的帮助 | ありがとうございました、以上です。 | 감사합니다, 이상입니다 | شكرا، هذا كل شيء | धन्यवाद, बस इतना ही
cảm ơn, vậy thôi
"""


@pytest.mark.parametrize("query", lines(ENDS))
def test_the_end_of_a_conversation(query):
    """Thanks with the remark that nothing else is needed is small talk, in several languages."""
    assert is_small_talk(query)
    assert is_small_talk(query, "The roadster. Anything else?")

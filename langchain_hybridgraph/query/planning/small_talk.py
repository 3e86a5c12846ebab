"""Detection of small talk, which needs no search."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from langchain_hybridgraph.query.planning.session_context import last_turns

# Courtesies of all languages are in one list, because no other language uses them with another meaning (French "merci",
# German "bitte").
_COURTESY = """
hi | hello | hey | hi there | hello there | hey there | howdy | greetings | good morning | good afternoon
good evening | good night | how are you | how are you doing | how are you today | how is it going
how's it going | what's up | nice to meet you | pleased to meet you | welcome back | thanks | thank you
thank u | thx | ty | many thanks | much appreciated | i appreciate it | cheers | you're welcome
you are welcome | no problem | bye | bye bye | goodbye | good bye | see you | see you later | see you soon
see you tomorrow | take care | have a nice day | have a good day | have a nice weekend | have a good one | sorry
hallo | guten morgen | guten tag | guten abend | gute nacht | servus | moin | grüß gott | wie geht es dir
wie geht es ihnen | wie geht's | danke | danke schön | danke sehr | vielen dank | herzlichen dank | bitte schön
gern geschehen | tschüss | tschüß | auf wiedersehen | bis bald | bis morgen | bis später | schönen tag noch
bonjour | bonsoir | salut | bonne nuit | ça va | comment ça va | comment allez-vous | merci | merci beaucoup
de rien | au revoir | à bientôt | à demain | bonne journée | bonne soirée | hola | buenos días | buenas tardes
buenas noches | qué tal | cómo estás | cómo está usted | gracias | muchas gracias | de nada | adiós
hasta luego | hasta mañana | hasta pronto | ciao | buongiorno | buonasera | buonanotte | come stai | come va
grazie | grazie mille | arrivederci | olá | oi | bom dia | boa tarde | boa noite | tudo bem | obrigado
obrigada | muito obrigado | muito obrigada | tchau | até logo | hoi | goedemorgen | goedemiddag | goedenavond
dank je | dank je wel | dank u | bedankt | tot ziens | doei | hej | god morgon | tack | tack så mycket | hej då
hei | takk | tusen takk | tak | mange tak | kiitos | hyvää päivää | cześć | dzień dobry | dziękuję | dzięki
do widzenia | ahoj | dobrý den | děkuji | díky | na shledanou | merhaba | günaydın | teşekkürler
teşekkür ederim | sağ ol | görüşürüz | привет | здравствуйте | доброе утро | добрый день | добрый вечер
как дела | спасибо | большое спасибо | пока | до свидания | привіт | дякую | до побачення | γεια | γεια σου
ευχαριστώ | 你好 | 您好 | 早上好 | 晚上好 | 谢谢 | 谢谢你 | 多谢 | 非常感谢 | 再见 | 謝謝 | 再見 | こんにちは
こんばんは | おはよう | おはようございます | ありがとう | ありがとうございます | ありがとうございました
さようなら | 안녕 | 안녕하세요 | 감사합니다 | 고마워요 | 고맙습니다 | مرحبا | السلام عليكم | شكرا | شكرا جزيلا
مع السلامة | नमस्ते | धन्यवाद | שלום | תודה | תודה רבה | xin chào | cảm ơn | สวัสดี | ขอบคุณ | terima kasih
bis dann | à plus tard | a presto | hasta la vista | até mais | tot later | до встречи | до завтра | 谢谢你的帮助
谢谢您的帮助 | 感谢您的帮助
"""
# Alone, some of these words may be a query ("nice", "super"); in a conversation or next to a courtesy they are not.
_ASSENT = """
ok | okay | k | yes | yeah | yep | yup | no | nope | sure | right | alright | all right | fine | great | cool
nice | perfect | awesome | excellent | wonderful | super | good | very good | well done | got it | i see
understood | makes sense | that makes sense | that helps | that helped | that was helpful | sounds good
good to know | very helpful | lol | haha | wow | never mind | nevermind | that's all | that is all | that's it
that was all | that was it | that will be all | that'll be all | that's everything | that is everything | nothing else
no more questions | i have no more questions | i'm done | i am done | we're done | you've been very helpful
you have been very helpful | you were very helpful
das war's | das wars | das war alles | das ist alles | mehr nicht | keine weiteren fragen | c'est tout | ce sera tout
c'est bon | rien d'autre | eso es todo | es todo | nada más | eso sería todo | é tudo | isso é tudo | é só isso
só isso | mais nada | è tutto | questo è tutto | nient'altro | dat was alles | dat is alles | dat was het | det var allt
det är allt | det var alt | det er alt | siinä kaikki | to wszystko | to już wszystko | to je vše | to je všechno
bu kadar | hepsi bu | hepsi bu kadar | это всё | это все | на этом всё | на этом все | больше вопросов нет | це все
це всё | αυτό είναι όλο | αυτά | 就这些 | 就這些 | 没有了 | 沒有了 | 没有别的了 | 没问题了 | 以上です | それだけです
大丈夫です | 이상입니다 | 그게 다예요 | 이게 다예요 | 그게 전부입니다 | هذا كل شيء | बस इतना ही | זה הכל | vậy thôi
itu saja
ja | nein | gut | sehr gut | genau | klar | prima | toll | alles klar | verstanden | oui | non | bien
très bien | d'accord | parfait | compris | sí | si | vale | muy bien | perfecto | de acuerdo | entendido
va bene | bene | perfetto | capito | sim | não | entendi | да | нет | хорошо | понятно | 好的 | 好 | 是的
明白了 | はい | わかりました | 네 | 알겠습니다
"""
_FILLERS = """
so much | very much | a lot | a bunch | again | all | everyone | everybody | team | folks | guys | there | and
oh | for your help | for the help | for all your help | for your time | for that | for this | for now | for today
for everything | for your answer | for the answer | for the information | for the info | for the explanation | today
my friend | please
für die hilfe | für deine hilfe | für ihre hilfe | für alles | für heute | für die antwort | pour votre aide
pour ton aide | pour l'aide | pour tout | pour aujourd'hui | à tous | por tu ayuda | por su ayuda | por la ayuda
por todo | por hoy | pela ajuda | pela sua ajuda | por tudo | por hoje | per l'aiuto | per il tuo aiuto | di tutto
per oggi | voor je hulp | voor uw hulp | voor alles | voor vandaag | za pomoc | za wszystko | za všechno | за помощь
за всё | за все | за допомогу | för hjälpen | for hjelpen | for hjælpen
bitte | s'il vous plaît | por favor | per favore | пожалуйста | sehr | schon | noch | und | beaucoup | et
mucho | mille | y | e
"""
_AGREEMENT = """
yes | yeah | yep | yup | sure | ok | okay | please | ja | bitte | oui | sí | si | sim | да | 是的 | 好的 | はい | 네
"""
_MOST_WORDS = 12  # no greeting is longer, and the patterns are slow on long texts
_PUNCTUATION = re.compile(r"[^\w\s'’-]+|_")


def is_small_talk(query: str, messages: Sequence[Any] = ()) -> bool:
    """Return whether a turn is only a greeting, thanks, a goodbye or agreement, or contains no words.

    A bare "nice" is not small talk at the beginning of a conversation. "Yes" or "no" is not small talk if it answers a
    question in the last message.

    >>> is_small_talk("Hi there, thanks a lot!"), is_small_talk("thanks, and what does it cost?")
    (True, False)
    >>> is_small_talk("Great!"), is_small_talk("Great!", ["The limit is 5."]), is_small_talk("Yes", ["Shall I?"])
    (False, True, False)
    """
    words = _words(query)
    if not words:
        return True
    if len(words) > _MOST_WORDS or not _ONLY_TALK.fullmatch(text := "".join(f" {word}" for word in words)):
        return False
    before = last_turns(messages, 1)
    if before and before[0][1].rstrip().endswith(("?", "？", "؟")):
        return bool(_COURTEOUS.search(text)) and not _AGREEING.search(text)
    return bool(_COURTEOUS.search(text) or (before and _ASSENTING.search(text)))


def _words(text: str) -> list[str]:
    plain = unicodedata.normalize("NFKC", text[:1_000]).casefold().replace("’", "'")
    return [word for word in _PUNCTUATION.sub(" ", plain).split() if word.strip("'-")]


def _any_of(*lists: str) -> str:
    phrases = {" ".join(_words(phrase)) for many in lists for line in many.splitlines() for phrase in line.split("|")}
    return "|".join(f" {re.escape(phrase)}" for phrase in sorted(phrases - {""}, key=lambda one: (-len(one), one)))


_ONLY_TALK = re.compile(f"(?:{_any_of(_COURTESY, _ASSENT, _FILLERS)})+")
_COURTEOUS, _ASSENTING, _AGREEING = (
    re.compile(f"(?:{_any_of(phrases)})(?: |$)") for phrases in (_COURTESY, _ASSENT, _AGREEMENT)
)

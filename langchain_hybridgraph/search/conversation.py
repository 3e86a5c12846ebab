"""Completion of follow-up questions."""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from langchain_hybridgraph import errors
from langchain_hybridgraph.chunks import Serializable, replace_surrogates
from langchain_hybridgraph.execution.effects import Effect, Search, adrive, ask_or_raise, deadline_in, drive
from langchain_hybridgraph.execution.llm import DATA_ONLY, model_call, prompt_messages, strip_reasoning
from langchain_hybridgraph.text.analyzer import function_words

# Conversion of conversation histories to turns.

USER, ASSISTANT = "user", "assistant"
SPEAKERS: Mapping[str, str] = {
    "user": USER, "human": USER, "customer": USER, "question": USER,
    "assistant": ASSISTANT, "ai": ASSISTANT, "agent": ASSISTANT, "bot": ASSISTANT, "model": ASSISTANT,
    "chatbot": ASSISTANT, "answer": ASSISTANT,
}  # fmt: skip
"""Speakers by the names used for them in roles and at the beginning of lines."""

# Roles that are neither questions nor answers; instructions and raw results do not show the topic of a conversation.
SKIPPED_ROLES = frozenset({"system", "developer", "tool", "function", "remove"})

LABEL = re.compile(rf"\s*({'|'.join([*SPEAKERS, *SKIPPED_ROLES])})\s*[:：]\s*", re.IGNORECASE)
"""Pattern for the speaker's name at the beginning of a line, such as ``User:``."""


# A message that calls tools may have no text, and is then left out.
_CONTENTS = ("content", "text", "tool_calls", "function_call")
# Numbers of the first and last turns of a longer history that are read; follow-up questions seldom refer to turns
# between them.
_FIRST, _LAST = 5, 45
_EXPECTED = (
    'expected a list of strings, (role, text) pairs, {"role": …, "content": …} or LangChain messages, oldest first, '
    'such as ["User: Which car is red?", "Assistant: The roadster."]'
)


class Turn(NamedTuple):
    """Message of a conversation.

    ``speaker`` is ``"user"``, ``"assistant"``, another role as it was passed, or "". ``line`` is the text preceded by
    its speaker, or the original string if the turn was passed as one.
    """

    speaker: str
    text: str
    line: str


def turns(history: Any, query: str = "") -> list[Turn]:
    """Return the turns of a history, oldest first. The result is empty for None and for a history without text.

    The history is a list of items, a chat history object, or a mapping with ``messages``. An item is one of these:

    - a string, which may begin with its speaker, such as ``"User: …"``
    - a (role, text) pair
    - a mapping with ``role`` and ``content`` (or ``text``)
    - a LangChain message

    If a message has several parts, only its texts are read. Messages without text, such as images and tool calls, are
    left out, and so are system and tool messages. The last turn is left out if it equals ``query`` and is by the user
    or an unknown speaker. If there are more than 50 items, only the first 5 and the last 45 are read.

    Raises ConfigurationError for a history or an item in any other form.

    >>> for turn in turns(["User: red car", ("ai", "A roadster"), {"role": "user", "content": "how fast"}]):
    ...     print(turn)
    Turn(speaker='user', text='red car', line='User: red car')
    Turn(speaker='assistant', text='A roadster', line='Assistant: A roadster')
    Turn(speaker='user', text='how fast', line='User: how fast')
    """
    if isinstance(history, Mapping) and "messages" in history:
        history = history["messages"]
    elif not isinstance(history, (str, Sequence)) and hasattr(history, "messages"):
        history = history.messages
    if isinstance(history, (str, bytes, Mapping)) or not isinstance(history, Sequence | None):
        raise errors.ConfigurationError(f"the history is {errors.quote_value(history)}; {_EXPECTED}")
    items = list(enumerate(history or ()))
    result = []
    for place, item in items if len(items) <= _FIRST + _LAST else [*items[:_FIRST], *items[-_LAST:]]:
        role, content, line = _parts(item, place)
        text = " ".join(_texts(content)).strip()
        if text and role.lower() not in SKIPPED_ROLES:
            speaker = SPEAKERS.get(role.lower(), role)
            result.append(Turn(speaker, text, line or (f"{speaker.capitalize()}: {text}" if speaker else text)))
    if result and result[-1].speaker in (USER, "") and result[-1].text == query.strip():
        result.pop()
    return result


def _parts(item: Any, place: int) -> tuple[str, Any, str]:
    """Return the role and the content of an item, and the item itself if it is a string (otherwise "")."""
    if isinstance(item, str):
        label = LABEL.match(item)
        return (label[1], item[label.end() :], item.strip()) if label else ("", item, item.strip())
    if isinstance(item, (tuple, list)) and len(item) == 2 and isinstance(item[0], str) and " " not in item[0].strip():
        return item[0], item[1], ""
    if isinstance(item, Mapping) and not item.keys().isdisjoint(_CONTENTS):
        content = next((item[key] for key in _CONTENTS[:2] if item.get(key) is not None), None)
        return str(item.get("role") or item.get("type") or ""), content, ""
    if hasattr(item, "content") and isinstance(kind := getattr(item, "type", None), str):
        role = str(getattr(item, "role", "")) if kind == "chat" else kind
        return role.removesuffix("MessageChunk"), item.content, ""
    raise errors.ConfigurationError(f"item {place} of the history is {errors.quote_value(item)}; {_EXPECTED}")


def _texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, Mapping):
        yield from _texts(content.get("text"))
    elif isinstance(content, (list, tuple)):
        for part in content:
            yield from _texts(part)


# Protocol for expanders, and the type of their results.


@dataclass(frozen=True, slots=True)
class ExpandedQuery(Serializable):
    """Result of an expander: the completed question, and how to use it in a search.

    ``text`` is the complete question. ``context`` is the part of the conversation that the question depends on.
    ``weight``, in [0, 1], is the influence of the conversation on the search. If ``sure`` is False, the topic may have
    changed, and the search may use a smaller weight or the question alone.

    - If ``sure`` is True and there is no context, ``text`` replaces the question.
    - If there is a context and the retriever can search by a vector, the vectors of the question and of the context are
      mixed, with the weights 1 − ``weight`` and ``weight``.
    - Otherwise, ``text`` is searched for as well, with the weight ``weight`` in the fusion of the two results.
    """

    text: str
    context: str = ""
    weight: float = 0.5
    sure: bool = True


Expander = Callable[[str, Sequence[Turn]], ExpandedQuery | str]
"""Function that completes a question using the turns before it, oldest first, or returns it unchanged.

If it has a method ``acall``, this is awaited in an event loop.
"""


def expander_call(expander: Any, query: str, history: Sequence[Turn], deadline: float | None = None) -> Effect:
    """Return an Effect that calls an expander."""
    awaited = partial(expander.acall, query, history) if hasattr(expander, "acall") else None
    quick = isinstance(expander, (AppendHistory, HistoryTerms, StripQuestion))
    run = partial(expander, query, history)
    return Effect("expander", run, awaited, quick=quick, owner=expander, deadline=deadline)


@dataclass(frozen=True, slots=True)
class AppendHistory(errors.CheckedSettings):
    """Expander that appends the last ``turns`` turns of the conversation, unchanged, to the question.

    The added text helps embedding models, but hurts BM25 (benchmarks/README.md). Therefore the result is not ``sure``.
    Raises ConfigurationError if ``turns`` is below 1.

    >>> from langchain_hybridgraph.search.conversation import turns
    >>> history = turns(["User: red car", "Assistant: A roadster", "User: how fast", "Assistant: 200"])
    >>> AppendHistory()("and its price?", history).text
    'and its price? Assistant: A roadster User: how fast Assistant: 200'
    """

    turns: int = errors.setting(3, least=1)

    def __call__(self, query: str, history: Sequence[Turn]) -> ExpandedQuery:
        """Return the question followed by the last turns."""
        return ExpandedQuery(" ".join([query, *(turn.line for turn in history[-self.turns :])]), sure=False)


# Expander that strips courtesies and question words.

_LEAD = re.compile(
    r"(?:(?:please|hi|hello|hey|ok|okay|so|and|but|also|then|now|well|thanks|thank you|bitte)\b|"
    r"(?:can|could|would|will) (?:you|u)(?: please| kindly)?\b|do you know\b|i(?:'d| would) like (?:to know|to)\b|"
    r"i (?:want|need) to know\b|(?:i )?(?:wonder|am wondering)\b|(?:tell|show|give|find|explain to) me\b|"
    r"what (?:can|could) you (?:tell me|say)\b|(?:is|are|was|were) there\b|"
    r"(?:what|who|where)(?:'s| is| are| was| were)\b|"
    r"(?:what|which|who|whom|whose|where|when|why|how|if|whether)\b|(?:do|does|did|is|are|was|were|has|have|had|can|"
    r"could|will|would|should|shall|may|might|must)\b|about\b|(?:the|an?|any|some)\b)[\s,.:;!–-]*",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class StripQuestion:
    """Expander that removes courtesies, question words and auxiliary verbs from the beginning of a question.

    It ignores the history, and supports only English. A question that consists only of such words stays unchanged.

    >>> StripQuestion()("Could you please tell me what the capital of France is?", []).text
    'capital of France is'
    """

    def __call__(self, query: str, history: Sequence[Turn]) -> ExpandedQuery:
        """Return the question without its introductory words."""
        return ExpandedQuery(without(_LEAD, query.strip()).rstrip(" ?？!.。") or query)


def without(lead: re.Pattern[str], text: str) -> str:
    """Return the text without the matches of a pattern at its beginning."""
    while (match := lead.match(text)) and match.end():
        text = text[match.end() :].lstrip()
    return text


# Estimate of whether a question needs its conversation.

# Number of characters of a question, and of a turn, that are read.
_BEGINNING = 1_000
_DISTINCT = 4  # a question with this number of content words is complete
_CONTINUES = re.compile(
    r"\W*(?:(?:and|but|or|so|then|also|(?:what|how) about|what of|"
    r"und|aber|oder|was ist mit|wie (?:ist|steht) es mit|et|mais|ou|qu['’]en est-il|y|pero|qué (?:tal|hay)|e|ma|mas|en|"
    r"maar|и|а|но|что насч[её]т)\b|那|还有|還有)",
    re.IGNORECASE,
)
_POINTS_BACK = re.compile(
    r"\b(?:it|its|they|them|theirs?|this|that|these|those|he|him|his|she|hers?|there|one|ones|same|other|others|"
    r"another|else|instead|too|"
    r"er|ihn|ihm|ihre?[mnrs]?|seine[mnrs]?|diese[mnrs]?|jene[mnrs]?|davon|dafür|damit|daran|darin|dort|dessen|deren|"
    r"ils|elles?|lui|leurs?|celui|celles?|ceux|cela|ça|él|ellas?|ellos|es[aeo]s?|suy[ao]s?|lei|loro|"
    r"он|она|они|его|её|их)\b|[它他她这這]|それ|これ",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W_]+")
# Parts of words that remain after splitting a text at apostrophes.
_LEFT_OVER = frozenset(
    ("re", "ll", "ve", "don", "doesn", "didn", "isn", "aren", "wasn", "weren", "couldn", "wouldn", "shouldn", "hasn")
)
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
_LETTERS = re.compile(
    "[\u30a1-\u30ff]{2,}|[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]{1,2}|[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]{1,5}"
)
# Chinese (simplified and traditional) function words; Japanese writes its own in hiragana.
_CHINESE = re.compile(
    "什[么麼]|怎[么麼样樣]*|为什|為什|多少|哪[里裡个個些]?|几个|幾個|那[么麼个個些里裡]?|这[么个些里]?|這[麼個些裡]?|可以|还有|還有|"
    "[的是了吗嗎呢在有和也都很它他她们們吧啊我你您请請与與或就还還吗几幾谁誰为為呀被把给給对對于於从從到]"
)


def leaning(query: str) -> float:
    """Return how strongly a question depends on earlier turns, from 0 to 1, estimated from its number of content words.

    >>> leaning("why?"), leaning("What about Romeo and Juliet?"), leaning("How heavy is the red car?")
    (1.0, 1.0, 0.5)
    >>> leaning("它的价格是多少？"), leaning("Wie alt ist denn Karls rotes Auto in Berlin?")
    (1.0, 0.0)
    """
    count = len({word.lower() for word in content_words(query[:_BEGINNING])})
    return max(0.0, min(1.0, (_DISTINCT - count) / (_DISTINCT - 2)))


def continues(query: str) -> bool:
    """Return whether a question begins with a word such as "and", contains "it" or "other", or has no content words."""
    beginning = query[:_BEGINNING]
    return bool(_CONTINUES.match(beginning) or _POINTS_BACK.search(beginning)) or not content_words(beginning)


def content_words(text: str) -> list[str]:
    """Return the content words of a text, in order."""
    words = _WORD.findall(text)
    building = function_words([word.lower() for word in words]).words | _LEFT_OVER
    return [part for word in words for part in _clauses(word) if part.lower() not in building]


def _clauses(word: str) -> list[str]:
    """Return the word, or its parts if its script has no spaces; single letters of other scripts are left out."""
    if _UNSPACED.search(word):
        return _LETTERS.findall(_CHINESE.sub(" ", word))
    return [word] if len(word) > 1 or word.isdigit() else []


# Expander that adds words of the history to questions.

_FROM_ANSWER = 8
_STEM = 5  # number of first letters that most forms of a word share


@dataclass(frozen=True, slots=True)
class HistoryTerms(errors.CheckedSettings):
    """Expander that adds words of the conversation to short questions. It is the default and needs no model.

    The number of content words in a question shows how much it depends on the conversation:

    - Up to two words: The question is always completed. If it does not refer back to the conversation
      (:func:`continues`), it may have changed the topic ("How old is the moon?"), so the result is not ``sure``.
    - Three words: The question is completed, with half the weight, if it refers back or shares a word with the context.
    - Four or more words: The question is complete.

    Function words of 19 languages are recognised. In languages without spaces between words, content words are
    estimated from the number of letters.

    In the result, ``context`` is the first question, the last question and the last answer of the conversation.
    ``text`` is the question, followed by up to ``most`` content words of the context: first those of the questions,
    then capitalised words of the answer, then its other words. ``weight`` is the influence of the context on a question
    with up to two content words. Raises ConfigurationError for a weight outside [0, 1], or if ``most`` is below 1.

    With this expander, searching is as good as with questions rewritten by a person (benchmarks/README.md).

    >>> from langchain_hybridgraph.search.conversation import turns
    >>> history = turns([("user", "Which red cars are there?"), ("assistant", "The Tesla Roadster is red.")])
    >>> HistoryTerms()("and its price?", history).text
    'and its price? red cars Tesla Roadster'
    >>> HistoryTerms()("Who wrote the earliest computer program?", history).text
    'Who wrote the earliest computer program?'
    >>> HistoryTerms()("How old is the moon?", history).sure
    False
    """

    weight: float = errors.setting(0.5, ge=0, le=1)
    most: int = errors.setting(20, least=1)

    def __call__(self, query: str, history: Sequence[Turn]) -> ExpandedQuery:
        """Return the question, completed with words of the history if necessary."""
        leans = leaning(query)
        questions, answer = _questions_and_answer(history)
        context = " ".join(dict.fromkeys(text for text in (*questions, answer) if text))
        if not self.weight * leans or not context:
            return ExpandedQuery(query)
        stems = {_stem(word) for word in content_words(context)}
        shares_a_word = any(_stem(word) in stems for word in content_words(query[:_BEGINNING]))
        sure = continues(query) or (leans < 1 and shares_a_word)
        if leans < 1 and not sure:
            return ExpandedQuery(query)
        terms = _missing_words(query, content_words(" ".join(reversed(questions))), _by_worth(answer, questions))
        return ExpandedQuery(" ".join([query, *terms[: self.most]]), context, self.weight * leans, sure)


def _stem(word: str) -> str:
    return word.lower()[:_STEM].rstrip("s")


def _questions_and_answer(history: Sequence[Turn]) -> tuple[list[str], str]:
    """Return ([first question, last question], last answer), each text cut to ``_BEGINNING`` characters.

    If no speakers are known, the last turn is treated as the answer to the turn before it.
    """
    answers = [place for place, turn in enumerate(history) if turn.speaker not in ("user", "")]
    questions = [place for place, turn in enumerate(history) if turn.speaker in ("user", "")]
    if not answers and len(questions) > 1 and not any(turn.speaker for turn in history):
        answers = [questions.pop()]
    places = list(dict.fromkeys([*questions[:1], *questions[-1:]]))
    answer = history[answers[-1]].text[:_BEGINNING] if answers else ""
    return [history[place].text[:_BEGINNING] for place in places], answer


def _by_worth(answer: str, questions: Sequence[str]) -> list[str]:
    """Return up to ``_FROM_ANSWER`` content words of an answer: capitalised ones first, then the most frequent."""
    words = content_words(answer)
    often = Counter(word.lower() for word in [*words, *content_words(" ".join(questions[:1]))])
    return sorted(words, key=lambda word: (not word[0].isupper(), -often[word.lower()]))[:_FROM_ANSWER]


def _missing_words(query: str, *groups: Iterable[str]) -> list[str]:
    """Return the distinct words in the groups, in order, except the words that the query contains."""
    have = {word.lower() for word in re.findall(r"[^\W_]+", query)}
    return list({word.lower(): word for some in groups for word in some if word.lower() not in have}.values())


# Expander that rewrites questions with a chat model.

_LONGEST = 1_000
# "Question:", "Sure! Here is the rewritten question:", "**Standalone query:**"
_LABEL = re.compile(r"(?:[^\n:：?？]{0,60}\b)?(?:question|query)(?: is)?[*_ ]*[:：]", re.IGNORECASE)


def question_in(answer: Any) -> str:
    """Return the question in a model's answer, without the text that models put around it.

    ``answer`` is a string or a message. Reasoning (``<think>``), labels ("Rewritten question:"), quotation marks and
    everything after the first paragraph are removed. Raises ValueError if the rest is empty or is longer than
    1,000 characters.

    >>> question_in('<think>The roadster.</think> Rewritten question: "What does the roadster cost?"')
    'What does the roadster cost?'
    """
    raw = replace_surrogates(str(answer if isinstance(answer, str) else getattr(answer, "text", "")))
    text = strip_reasoning(raw)
    text = text[label.end() :] if (label := _LABEL.match(text)) else text
    first = re.split(r"\n\s*\n", text.strip(), maxsplit=1)[0]
    text = " ".join(first.strip("`\"'“”„«»‘’*_ \n").split())
    if not text or len(text) > _LONGEST:
        raise ValueError(
            f"the model returned no question: {errors.quote_value(errors.shorten(' '.join(raw.split()), 200))}"
        )
    return text


_INSTRUCTIONS = (
    "The input is JSON: a conversation and the question that follows it. Rewrite the question so that it can be "
    "understood without the conversation: replace pronouns and add what it leaves out, in the question's language. "
    "Do not answer it. If it is already self-contained or changes the topic, return it unchanged. "
    f"{DATA_ONLY} Answer with the question alone."
)


@dataclass(eq=False, repr=False)
class LLMRewrite(errors.CheckedSettings):
    """Expander that asks a chat model to rewrite the question so that it can be understood without the conversation.

    ``llm`` is any LangChain chat model or LLM. It receives the last ``turns`` turns; long turns are shortened to their
    beginning and end.

    A call raises the model's own errors, TimeoutError after ``timeout`` seconds (None means no limit), and ValueError
    if the answer is not a question (:func:`question_in`). A retriever catches these errors, searches for the raw
    question and reports ``expander-failed``. The constructor raises ConfigurationError if ``llm`` has no method
    ``invoke``, ``turns`` is below 1, or ``timeout`` is not above 0.

    >>> from langchain_core.language_models import FakeListChatModel
    >>> from langchain_hybridgraph.search.conversation import turns
    >>> model = FakeListChatModel(responses=["What does the roadster cost?"])  # in place of init_chat_model("…")
    >>> LLMRewrite(model)("and its price?", turns(["User: Which car is red?", "Assistant: The roadster."])).text
    'What does the roadster cost?'
    """

    llm: Any
    _: KW_ONLY
    turns: int = errors.setting(6, least=1)
    timeout: float | None = errors.setting(10.0, gt=0)

    def __post_init__(self) -> None:
        if not callable(getattr(self.llm, "invoke", None)):
            raise errors.ConfigurationError(
                f'LLMRewrite needs a chat model, not {type(self.llm).__name__}; give one such as init_chat_model("…")'
            )
        super().__post_init__()

    def __call__(self, query: str, history: Sequence[Turn]) -> ExpandedQuery:
        """Return the question as rewritten by the model."""
        return drive(self._rewrite(query, history), deadline_in(self.timeout))

    async def acall(self, query: str, history: Sequence[Turn]) -> ExpandedQuery:
        """Return the same result as calling the expander, without blocking the event loop."""
        return await adrive(self._rewrite(query, history), deadline_in(self.timeout))

    def _rewrite(self, query: str, history: Sequence[Turn]) -> Search[ExpandedQuery]:
        conversation = [
            {"speaker": turn.speaker, "text": errors.shorten(turn.text, _LONGEST)} for turn in history[-self.turns :]
        ]
        question = prompt_messages(
            _INSTRUCTIONS, {"conversation": conversation, "question": errors.shorten(query, 4 * _LONGEST)}
        )
        ainvoke = getattr(self.llm, "ainvoke", None)
        (answer,) = yield from ask_or_raise(model_call("expander", self, self.llm.invoke, ainvoke, question))
        return ExpandedQuery(question_in(answer), weight=0.8)


# Detection of small talk, which needs no search.

_MOST_WORDS = 12  # no greeting is longer, and the patterns are slow on long texts
_PUNCTUATION = re.compile(r"[^\w\s'’-]+|_")


def is_small_talk(query: str, before: str = "") -> bool:
    """Return whether a turn is only a greeting, thanks, a goodbye or agreement, or contains no words.

    ``before`` is the text of the last message, or "" at the beginning of a conversation, where a bare "nice" is not
    small talk. "Yes" or "no" is not small talk if it answers a question in the last message.

    >>> is_small_talk("Hi there, thanks a lot!"), is_small_talk("thanks, and what does it cost?")
    (True, False)
    >>> is_small_talk("Great!"), is_small_talk("Great!", "The limit is 5."), is_small_talk("Yes", "Shall I?")
    (False, True, False)
    """
    words = _words(query)
    if not words:
        return True
    if len(words) > _MOST_WORDS or not _ONLY_TALK.fullmatch(text := "".join(f" {word}" for word in words)):
        return False
    if before.rstrip().endswith(("?", "？", "؟")):
        return bool(_COURTEOUS.search(text)) and not _AGREEING.search(text)
    return bool(_COURTEOUS.search(text) or (before and _ASSENTING.search(text)))


def _words(text: str) -> list[str]:
    plain = unicodedata.normalize("NFKC", text[:1_000]).casefold().replace("’", "'")
    return [word for word in _PUNCTUATION.sub(" ", plain).split() if word.strip("'-")]


def _phrases() -> dict[str, set[str]]:
    """Return the phrases in ``small_talk.txt`` by section."""
    phrases: dict[str, set[str]] = {}
    for line in Path(__file__).with_name("small_talk.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            section = phrases.setdefault(line.strip("[]"), set())
        elif not line.startswith("#"):
            section |= {" ".join(_words(phrase)) for phrase in line.split("|")} - {""}
    return phrases


def _any_of(*lists: set[str]) -> str:
    ordered = sorted(set().union(*lists), key=lambda one: (-len(one), one))
    return "|".join(f" {re.escape(phrase)}" for phrase in ordered)


_PHRASES = _phrases()
_ONLY_TALK = re.compile(f"(?:{_any_of(_PHRASES['courtesy'], _PHRASES['assent'], _PHRASES['fillers'])})+")
_COURTEOUS, _ASSENTING, _AGREEING = (
    re.compile(f"(?:{_any_of(_PHRASES[section])})(?: |$)") for section in ("courtesy", "assent", "agreement")
)

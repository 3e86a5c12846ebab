"""Expander that adds words of the history to questions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.query.conversation.coreference import with_name
from langchain_hybridgraph.query.conversation.expander import ConversationTurn, ExpandedQuery, at_least_one
from langchain_hybridgraph.query.conversation.question_completeness import content_words, continues, leaning

# Maximum number of characters of a turn that are read; a turn states its topic at the beginning.
_TURN = 1_000
_FROM_ANSWER = 8
_STEM = 5  # number of first letters that most forms of a word share


@dataclass(frozen=True, slots=True)
class HistoryTerms:
    """Expander that completes questions with words of the conversation; it is the default and needs no model.

    The fewer content words a question has, the more context it needs: with up to two content words it depends fully on
    the conversation ("and its price?", "What about transplant?"), and with three it depends on the conversation by
    half. A question with four or more content words is complete and stays unchanged, except that "he" or "she" is
    replaced by a name if only one person can be meant
    (:func:`~langchain_hybridgraph.query.conversation.coreference.with_name`). A short question may also change the
    topic. Therefore, unless it has no content words, or its first word or a word such as "it" or "other" refers back, a
    question that depends by half is completed only if it shares a word with its context, and a question that depends
    fully ("How old is the moon?") is not ``sure``.

    In the result, ``context`` is the first question, the last question and the last answer of the conversation.
    ``text`` is the question, followed by at most ``most`` words of the context that the question lacks: words of the
    questions first, then words of the answer, names first. ``weight`` is the share of the context if the question
    depends fully on it. Function words of 19 languages are recognised. In Chinese, Japanese and Thai, which are written
    without spaces, content words are estimated from the number of letters. Raises ConfigurationError for a weight
    outside [0, 1], or if ``most`` is below 1.

    According to the measurements in benchmarks/README.md, this expander closes the gap between searching for the last
    turn alone and a rewrite by a person.

    >>> from langchain_hybridgraph.query.conversation.history import turns
    >>> history = turns([("user", "Which red cars are there?"), ("assistant", "The Tesla Roadster is red.")])
    >>> HistoryTerms()("and its price?", history).text
    'and its price? red cars Tesla Roadster'
    >>> HistoryTerms()("Who wrote the earliest computer program?", history).text
    'Who wrote the earliest computer program?'
    >>> HistoryTerms()("How old is the moon?", history).sure
    False
    """

    weight: float = 0.5
    most: int = 20

    def __post_init__(self) -> None:
        at_least_one("HistoryTerms", most=self.most)
        if not 0 <= self.weight <= 1:
            raise ConfigurationError(
                f"weight of HistoryTerms must be a number from 0 to 1, such as .5, got {self.weight!r}"
            )

    def __call__(self, query: str, history: Sequence[ConversationTurn]) -> ExpandedQuery:
        """Return the question completed with a name or with words of the history, or the question itself."""
        leans = leaning(query)
        questions, answer = _questions_and_answer(history)
        context = " ".join(dict.fromkeys(text for text in (*questions, answer) if text))
        if not self.weight * leans or not context:
            return ExpandedQuery(query if leans else with_name(query, history))
        sure = continues(query) or (leans < 1 and _shares_a_word(query, context))
        if leans < 1 and not sure:
            return ExpandedQuery(query)
        terms = _missing_words(query, content_words(" ".join(reversed(questions))), _by_worth(answer, questions))
        return ExpandedQuery(" ".join([query, *terms[: self.most]]), context, self.weight * leans, sure)


def _shares_a_word(query: str, context: str) -> bool:
    """Return whether the two texts have a content word in common, in any of its forms."""
    stems = {_stem(word) for word in content_words(context)}
    return any(_stem(word) in stems for word in content_words(query[:_TURN]))


def _stem(word: str) -> str:
    """Return the approximate common stem of a word's forms."""
    return word.lower()[:_STEM].rstrip("s")


def _questions_and_answer(history: Sequence[ConversationTurn]) -> tuple[list[str], str]:
    """Return the first and the last question, as a list, and the last answer, each cut to ``_TURN`` characters.

    There is only one question if the first one is also the last.

    If no speakers are known, the last turn is treated as the answer to the turn before it.
    """
    answers = [place for place, turn in enumerate(history) if turn.speaker not in ("user", "")]
    questions = [place for place, turn in enumerate(history) if turn.speaker in ("user", "")]
    if not answers and len(questions) > 1 and not any(turn.speaker for turn in history):
        answers = [questions.pop()]
    places = list(dict.fromkeys([*questions[:1], *questions[-1:]]))
    return [history[place].text[:_TURN] for place in places], (history[answers[-1]].text[:_TURN] if answers else "")


def _by_worth(answer: str, questions: Sequence[str]) -> list[str]:
    """Return up to ``_FROM_ANSWER`` content words of an answer: capitalised words first, then the most frequent
    words.
    """
    words = content_words(answer)
    often = Counter(word.lower() for word in [*words, *content_words(" ".join(questions[:1]))])
    return sorted(words, key=lambda word: (not word[0].isupper(), -often[word.lower()]))[:_FROM_ANSWER]


def _missing_words(query: str, *groups: Iterable[str]) -> list[str]:
    """Return the words that are not in the query, each once, in order."""
    have = {word.lower() for word in re.findall(r"[^\W_]+", query)}
    words = {word.lower(): word for some in groups for word in some if word.lower() not in have}
    return list(words.values())

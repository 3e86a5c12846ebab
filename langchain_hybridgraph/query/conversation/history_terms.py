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
    """Expander that adds words of the conversation to short questions. It is the default and needs no model.

    The number of content words in a question shows how much it depends on the conversation:

    - Up to two words ("and its price?", "What about transplant?"): The question is always completed. If it does not
      refer back to the conversation, it may have changed the topic ("How old is the moon?"), so the result is not
      ``sure``.
    - Three words: The question is completed, with half the weight, if it refers back to the conversation or shares a
      word with the context (see below).
    - Four or more words: The question is complete. Only "he" or "she" is replaced by a name, if only one person can be
      meant (:func:`~langchain_hybridgraph.query.conversation.coreference.with_name`).

    A question refers back if it begins with a word such as "and", contains a word such as "it" or "other", or has no
    content words. Function words of 19 languages are recognised. In languages that are written without spaces, such as
    Chinese, Japanese and Thai, content words are estimated from the number of letters.

    In the result, ``context`` is the first question, the last question and the last answer of the conversation.
    ``text`` is the question, followed by up to ``most`` content words that are in the context but not in the question.
    Words of the earlier questions come first, then capitalised words of the answer, then its other words.

    The parameter ``weight`` is the influence of the context on a question with up to two content words. Raises
    ConfigurationError for a weight outside [0, 1], or if ``most`` is below 1.

    According to the measurements in benchmarks/README.md, searching with this expander is as good as searching with
    questions rewritten by a person.

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
        """Return the question, completed with words of the history or with a name if necessary."""
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
    """Return whether the two texts have a content word in common. Word endings are ignored."""
    stems = {_stem(word) for word in content_words(context)}
    return any(_stem(word) in stems for word in content_words(query[:_TURN]))


def _stem(word: str) -> str:
    """Return the beginning of a word, which is usually the same in all forms of the word."""
    return word.lower()[:_STEM].rstrip("s")


def _questions_and_answer(history: Sequence[ConversationTurn]) -> tuple[list[str], str]:
    """Return ([first question, last question], last answer), each text cut to ``_TURN`` characters.

    The list has one item if there is only one question. If no speakers are known, the last turn is treated as the
    answer to the turn before it.
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
    """Return the distinct words in the groups, in order, except the words that the query contains."""
    have = {word.lower() for word in re.findall(r"[^\W_]+", query)}
    words = {word.lower(): word for some in groups for word in some if word.lower() not in have}
    return list(words.values())

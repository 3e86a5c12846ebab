"""Limits on the characters and words of a query."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Callable, Iterable

LONGEST_QUERY = 10_000
"""Maximum number of characters of a query that are used.

The work of every stage grows with the length of the query. It grows fastest in the graph, which looks up possible
names: in Chinese text, up to twelve possible names begin at each character.
"""

MOST_WORDS = 128
"""Maximum number of words of a query that a keyword search uses; the rest of a pasted book costs time and adds little.
"""


def bounded(text: str | None, degrade: Callable[[str, str], None]) -> str | None:
    """Return the first ``LONGEST_QUERY`` characters of a query. If it is longer, report ``query-cut`` to ``degrade``.

    >>> len(bounded("long " * 5_000, print))
    query-cut the query has 25,000 characters; the first 10,000 were searched for
    10000
    """
    # A query that is not a string is rejected later, by the search, so that telemetry reports the error.
    if not isinstance(text, str) or len(text) <= LONGEST_QUERY:
        return text
    degrade("query-cut", f"the query has {len(text):,} characters; the first {LONGEST_QUERY:,} were searched for")
    return text[:LONGEST_QUERY]


def telling_terms(words: Iterable[str], frequency: Callable[[str], float], texts: int) -> list[tuple[str, int]]:
    """Return the words of a question that an index contains, as (word, count) pairs in alphabetical order.

    ``words`` are all words of the question, and the count is the number of times that a word occurs among them.
    ``frequency`` returns the number of texts that contain a word; ``texts`` is the total number of texts. To limit the
    cost of a long question, at most 128 words are returned: those with the largest count · ln(1 + texts / frequency),
    because they can add the most to a score.

    >>> telling_terms(["lovelace", "ada", "ada", "unknown"], {"ada": 7, "lovelace": 1, "unknown": 0}.__getitem__, 9)
    [('ada', 2), ('lovelace', 1)]
    """
    counts = Counter(words)
    weights = {
        word: count * math.log(1 + texts / matching) for word, count in counts.items() if (matching := frequency(word))
    }
    best = heapq.nsmallest(MOST_WORDS, weights, key=lambda word: (-weights[word], word))
    return sorted((word, counts[word]) for word in best)

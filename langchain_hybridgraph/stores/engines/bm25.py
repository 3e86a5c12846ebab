"""Parameters of BM25, and the weight of headings."""

# Tantivy cannot use other values, so rank_bm25 and Milvus use the same.
K1 = 1.2
B = 0.75


def headings_weight(words: int) -> float:
    """Return the weight of headings in a row's BM25 score; the weight of the text is 1.

    ``words`` is the number of different words in the query (``Analyzer.count_words``). A query of a few words may be a
    title or the name of a section, so headings have a high weight. The weight is low for a long question, because the
    words that it shares with a heading say less about the row (``benchmarks/chunking.md``).

    >>> [round(headings_weight(words), 2) for words in (1, 2, 3, 4, 6)]
    [1.0, 1.0, 0.29, 0.09, 0.02]
    """
    return min(1.0, (2.2 / max(1, words)) ** 4)

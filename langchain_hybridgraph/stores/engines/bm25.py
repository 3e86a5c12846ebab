"""Parameters of BM25, and the weight of headings."""

# Tantivy cannot use other values, so rank_bm25 and Milvus use the same.
K1 = 1.2
B = 0.75


def headings_weight(words: int) -> float:
    """Return the weight that the BM25 score of a row's headings has in the score of the row.

    ``words`` is the number of different words of the query (``Analyzer.count_words``). The weight of the text is 1. A
    query of a few words may be a title or the name of a section, whereas the words that a long question shares with a
    heading say less about the row (``benchmarks/chunking.md``).

    >>> [round(headings_weight(words), 2) for words in (1, 2, 3, 4, 6)]
    [1.0, 1.0, 0.29, 0.09, 0.02]
    """
    return min(1.0, (2.2 / max(1, words)) ** 4)

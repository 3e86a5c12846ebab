"""An embedding for tests."""

from __future__ import annotations

import zlib


class HashedWords:
    """An embedding for tests: it hashes each word to one of 64 dimensions and counts the words in each dimension.

    The hash of a word is the same in every process. Texts that share words have similar vectors; the vector of an empty
    text contains only zeros. ``texts`` lists the embedded documents, in order.

    >>> one, other = HashedWords().embed_documents(["a cat", "cat a"])
    >>> one == other, len(one)
    (True, 64)
    """

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector per text."""
        self.texts += texts
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a text."""
        vector = [0.0] * 64
        for word in text.lower().split():
            vector[zlib.crc32(word.encode("utf-8", "replace")) % 64] += 1.0
        return vector

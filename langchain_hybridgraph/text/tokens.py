"""Approximate token counts, without a model."""

from __future__ import annotations

import re

# Han, Kana, Hangul and their extensions: written without spaces, or with words of many tokens.
CJK = "\u1100-\u11ff\u2e80-\u2fdf\u3040-\u30ff\u3130-\u318f\u31c0-\u31ff\u3400-\u4dbf\u4e00-\u9fff" + (
    "\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_CJK = re.compile(f"[{CJK}]")


def approximate_tokens(text: str) -> int:
    """Return the approximate number of tokens in a text, which is :func:`token_weight` rounded down.

    >>> [approximate_tokens("word " * n) for n in (1, 3, 4, 100)], approximate_tokens("你好世界")
    ([1, 3, 5, 130], 6)
    """
    return int(token_weight(text))


def token_weight(text: str) -> float:
    """Return the approximate number of tokens in a text without rounding it, so that the counts of parts can be added.

    A word adds 1.3 tokens and a CJK character adds 1.5. The result is at least one token per 16 characters, because
    text without spaces (base64, minified code) has many tokens but few words. The weights of the parts of a text add up
    to at least the weight of the full text.

    >>> token_weight("two words"), token_weight("你好"), token_weight("x" * 160)
    (2.6, 3.0, 10.0)
    """
    rest, characters = (text, 0) if text.isascii() else _CJK.subn(" ", text)
    return max((13 * len(rest.split()) + 15 * characters) / 10, len(text) / 16)

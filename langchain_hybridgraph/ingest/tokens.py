"""Counts tokens approximately, without a model."""

from __future__ import annotations

import re

# Han, Kana, Hangul and their extensions: written without spaces, or with words of many tokens.
CJK = "\u1100-\u11ff\u2e80-\u2fdf\u3040-\u30ff\u3130-\u318f\u31c0-\u31ff\u3400-\u4dbf\u4e00-\u9fff" + (
    "\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_CJK = re.compile(f"[{CJK}]")


def count_tokens(text: str) -> int:
    """About how many tokens a model makes of the text: words · 1.3, CJK characters · 1.5, rounded down.

    A long run without spaces (base64, minified code) counts at least a token per 16 characters.

    >>> [count_tokens("word " * n) for n in (1, 3, 4, 100)]
    [1, 3, 5, 130]
    >>> count_tokens("你好世界")
    6
    """
    return int(token_weight(text))


def token_weight(text: str) -> float:
    """The count before rounding; the weights of the parts of a text add up to at least the weight of the whole."""
    if text.isascii():
        words, characters = len(text.split()), 0
    else:
        rest, characters = _CJK.subn(" ", text)
        words = len(rest.split())
    return max(words * 1.3 + characters * 1.5, len(text) / 16)

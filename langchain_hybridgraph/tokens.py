"""Weighs texts in tokens, without a model."""

from __future__ import annotations

import re

# Han, Kana, Hangul and their extensions: written without spaces, or with words of many tokens.
CJK = "\u1100-\u11ff\u2e80-\u2fdf\u3040-\u30ff\u3130-\u318f\u31c0-\u31ff\u3400-\u4dbf\u4e00-\u9fff" + (
    "\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_CJK = re.compile(f"[{CJK}]")


def approximate_tokens(text: str) -> int:
    """About how many tokens a model makes of the text: its weight, rounded down.

    >>> [approximate_tokens("word " * n) for n in (1, 3, 4, 100)], approximate_tokens("你好世界")
    ([1, 3, 5, 130], 6)
    """
    return int(token_weight(text))


def token_weight(text: str) -> float:
    """What :func:`approximate_tokens` counts before it rounds, so that the parts of a text can be added up.

    A word is 1.3, a CJK character 1.5. A long run without spaces (base64, minified code) weighs at least a token
    per 16 characters. The weights of the parts add up to at least the weight of the whole.

    >>> token_weight("two words"), token_weight("你好"), token_weight("x" * 160)
    (2.6, 3.0, 10.0)
    """
    rest, characters = (text, 0) if text.isascii() else _CJK.subn(" ", text)
    return max((13 * len(rest.split()) + 15 * characters) / 10, len(text) / 16)

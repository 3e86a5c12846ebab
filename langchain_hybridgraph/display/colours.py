"""Colours of score parts, chunks and lines."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

# The colours by Okabe and Ito (Color Universal Design, 2008) can be distinguished with any colour vision, on white and
# on black.

# Colours of the chunks in a picture, indexed by hops, from 0. The shapes of the chunks convey the same information.
HOP_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
# Colour of lines and words on a transparent background, legible on white and on black, with contrasts of 4.4 and 4.7.
INK = "#787878"
# Colour of each part of a score. All other parts get the colours of OTHER_PARTS in turn.
PART_COLOURS: Mapping[str, str] = MappingProxyType(
    {
        "vector": "#0072B2",
        "search": "#0072B2",
        "similarity": "#0072B2",
        "keyword": "#D55E00",
        "confidence": "#D55E00",
        "graph": "#009E73",
        "recency": "#009E73",
        "session": "#CC79A7",
        "utility": "#CC79A7",
        "rerank": "#E69F00",
    }
)
OTHER_PARTS = ("#56B4E9", "#F0E442", "#E69F00", "#999999")

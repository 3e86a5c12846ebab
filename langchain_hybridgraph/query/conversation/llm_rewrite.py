"""Expander that rewrites questions with a chat model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_hybridgraph.errors import ConfigurationError, quote_value, shorten
from langchain_hybridgraph.execution.effects import Search, adrive, ask_or_raise, deadline_in, drive
from langchain_hybridgraph.execution.llm_calls import check_timeout, model_call
from langchain_hybridgraph.execution.structured_output import DATA_ONLY, find_json, prompt_messages, strip_reasoning
from langchain_hybridgraph.query.conversation.expander import ConversationTurn, ExpandedQuery, at_least_one
from langchain_hybridgraph.records import replace_surrogates

_LONGEST = 1_000
_FENCE = re.compile(r"```\w*\s*(.*?)\s*```", re.DOTALL)
# "Question:", "Sure! Here is the rewritten question:", "**Standalone query:**"
_LABEL = re.compile(
    r"[*_#>\s]*(?:(?:sure|certainly|of course|okay|ok)\b[,.!]?\s*)?"
    r"(?:(?:here(?:'s| is)|this is)\s)?(?:the |your |a |my )?"
    r"(?:(?:re-?written|re-?phrased|re-?formulated|stand-?alone|self-contained|clarified|new|final|user(?:'s)?|"
    r"follow-up|search|output)\s){0,3}(?:question|query|version|rewrite|answer|output)(?: is| would be)?"
    r"[*_\s]*[:：][*_\s]*",
    re.IGNORECASE,
)
_KEYS = ("question", "query", "rewrite", "rewritten", "text", "output", "answer")
_REFUSAL = re.compile(
    r"(?:(?:i'm|im|i am|we are) (?:sorry|unable|not able|afraid|an? (?:ai|assistant|language model))\b|"
    r"sorry\b|my apologies\b|unfortunately\b|as an? (?:ai|assistant|(?:large )?language model)\b|"
    r"(?:i|we) (?:can(?:not|'?t| not)|could(?: not|n'?t)|won'?t|will not|do(?: not|n'?t)|apologi[sz]e)\b|"
    r"(?:es tut mir leid|leider|ich kann (?:nicht|diese|die|das|ihnen|dir|keine)|entschuldigung|je ne peux|"
    r"(?:je suis )?désolée?|lo siento|no puedo|mi dispiace|non posso|desculpe|não posso|sinto muito|извините|"
    r"я не могу|к сожалению)\b|很?抱歉|对不起|對不起|我无法|我無法|我不能|申し訳|すみません)",
    re.IGNORECASE,
)
# "The question is clear already.", "No rewrite is needed."
_REMARK = re.compile(
    r"(?:there(?: is|'s) (?:no|not|nothing|insufficient)\b|no (?:rewrite|rewriting|changes?|rephrasing)\b|"
    r"(?:the|this|your|that) (?:\w+ ){0,2}(?:question|query|conversation|history|context|input|message|request)"
    r"(?: itself| already| above| as it is)* (?:is|are|was|does|do|can|cannot|can't|has|seems|appears|stands|needs|"
    r"refers|asks|changes|contains|makes)\b)(?!.*[?？]$)",
    re.IGNORECASE,
)


def question_in(answer: Any, query: str, longest: int = _LONGEST) -> str:
    """Return the question in a model's answer, without the text that models put around it.

    ``answer`` is a string or a message. Reasoning (``<think>``), code fences, JSON, labels ("Rewritten question:"),
    quotation marks and everything after the first paragraph are removed. Raises ValueError if the remaining text is not
    a question: if it is empty, is longer than ``longest`` characters, or is a refusal or a remark (unless ``query``
    itself begins like a refusal or a remark).

    >>> question_in('<think>The roadster.</think> Rewritten question: "What does the roadster cost?"', "its price?")
    'What does the roadster cost?'
    """
    raw = replace_surrogates(str(answer if isinstance(answer, str) else getattr(answer, "text", "")))
    text = _one_line(_unwrap(strip_reasoning(raw)))
    if not text or len(text) > longest or (_is_no_question(text) and not _is_no_question(query.strip())):
        raise ValueError(f"the model returned no question: {quote_value(shorten(' '.join(raw.split()), 200))}")
    return text


def _is_no_question(text: str) -> bool:
    """Return whether a text begins like a model's refusal or remark, and not like a question."""
    plain = text.replace("’", "'")
    return bool(_REFUSAL.match(plain) or _REMARK.match(plain))


def _unwrap(text: str) -> str:
    """Return a text without a code fence, JSON or label around it."""
    if fence := _FENCE.search(text):
        text = fence[1]
    text = text.strip("` \n")
    if text[:1] in ("{", "[") and (value := find_json(text)) is not None:
        text = _text_of(value)
    return text[label.end() :] if (label := _LABEL.match(text)) else text


def _text_of(value: Any) -> str:
    """Return the string in a JSON value, or "" if there is none.

    In a mapping, the string is the value of a key such as "question", or the only value.
    """
    if isinstance(value, Mapping):
        preferred = [value[key] for word in _KEYS for key in value if word in str(key).casefold()]
        texts = [text for text in (*preferred, *value.values()) if isinstance(text, str)]
        return texts[0] if texts and (preferred or len(value) == 1) else ""
    if isinstance(value, list):
        return _text_of(value[0]) if len(value) == 1 else ""
    return value if isinstance(value, str) else ""


def _one_line(text: str) -> str:
    """Return the first paragraph as one line, without enclosing quotation marks."""
    first = re.split(r"\n\s*\n", text.strip(), maxsplit=1)[0]
    return " ".join(first.strip("\"'“”„«»‘’*_ \n").split())


_INSTRUCTIONS = (
    "The input is JSON: a conversation and the question that follows it. Rewrite the question so that it can be "
    "understood without the conversation: replace pronouns and add what it leaves out, in the question's language. "
    "Do not answer it. If it is already self-contained or changes the topic, return it unchanged. "
    f"{DATA_ONLY} Answer with the question alone."
)
# A rewritten question may be this much longer than the question and the turns together, to allow for connecting words.
_EXTRA_CHARACTERS = 100


class LLMRewrite:
    """Expander that asks a chat model to rewrite the question so that it can be understood without the conversation.

    ``llm`` is any LangChain chat model or LLM. It receives the last ``turns`` turns; long turns are shortened to their
    beginning and end. Text that models put around a question is removed (:func:`question_in`).

    A call raises the model's own errors, and TimeoutError after ``timeout`` seconds (None means no limit). It raises
    ValueError if the answer is not a question: if it is empty, a refusal or a remark, or if it is longer than 1,000
    characters or clearly longer than the conversation. A retriever catches these errors, searches for the raw question
    and reports ``expander-failed``.

    The constructor raises ConfigurationError if ``llm`` has no method ``invoke``, ``turns`` is below 1, or ``timeout``
    is not above 0.

    >>> from langchain_core.language_models import FakeListChatModel
    >>> from langchain_hybridgraph.query.conversation.history import turns
    >>> model = FakeListChatModel(responses=["What does the roadster cost?"])  # in place of init_chat_model("…")
    >>> LLMRewrite(model)("and its price?", turns(["User: Which car is red?", "Assistant: The roadster."])).text
    'What does the roadster cost?'
    """

    def __init__(self, llm: Any, *, turns: int = 6, timeout: float | None = 10.0) -> None:
        if not callable(getattr(llm, "invoke", None)):
            raise ConfigurationError(
                f'LLMRewrite needs a chat model, not {type(llm).__name__}; give one such as init_chat_model("…")'
            )
        at_least_one("LLMRewrite", turns=turns)
        check_timeout("LLMRewrite", timeout, 10)
        self.llm = llm
        self.turns = turns
        self.timeout = timeout

    def __call__(self, query: str, history: Sequence[ConversationTurn]) -> ExpandedQuery:
        """Return the question as rewritten by the model."""
        return drive(self._rewrite(query, history), deadline_in(self.timeout))

    async def acall(self, query: str, history: Sequence[ConversationTurn]) -> ExpandedQuery:
        """Return the same result as calling the expander, without blocking the event loop."""
        return await adrive(self._rewrite(query, history), deadline_in(self.timeout))

    def _rewrite(self, query: str, history: Sequence[ConversationTurn]) -> Search[ExpandedQuery]:
        conversation = [
            {"speaker": turn.speaker, "text": shorten(turn.text, _LONGEST)} for turn in history[-self.turns :]
        ]
        question = prompt_messages(
            _INSTRUCTIONS, {"conversation": conversation, "question": shorten(query, 4 * _LONGEST)}
        )
        ainvoke = getattr(self.llm, "ainvoke", None)
        (answer,) = yield from ask_or_raise(model_call("expander", self, self.llm.invoke, ainvoke, question))
        longest = _EXTRA_CHARACTERS + len(query) + sum(len(turn["text"]) for turn in conversation)
        return ExpandedQuery(question_in(answer, query, min(longest, _LONGEST)), weight=0.8)

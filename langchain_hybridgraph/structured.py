"""Asks a chat model for JSON, and reads what came.

``llm`` is known by what it can do (``with_structured_output``), so nothing of LangChain is imported here.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Iterator, Mapping
from typing import Any, Protocol

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.records import cleaned

# LangGraph streams what models say in a chain to the user; what is said here is not meant for them.
SILENT: Mapping[str, Any] = {"tags": ["nostream"]}
_DECODER = json.JSONDecoder()
_LONGEST = 100_000  # characters of an answer that are read


class Model(Protocol):
    """What a chat model becomes once it knows the form: a LangChain Runnable."""

    def invoke(self, input: Any, config: Any = None, /) -> Any:
        """The answer to one input."""
        ...

    def ainvoke(self, input: Any, config: Any = None, /) -> Awaitable[Any]:
        """The same, awaited."""
        ...

    def batch(self, inputs: list[Any], config: Any = None, /) -> list[Any]:
        """The answers to many inputs, in their order."""
        ...

    def abatch(self, inputs: list[Any], config: Any = None, /) -> Awaitable[list[Any]]:
        """The same, awaited."""
        ...


def structured(llm: Any, schema: Any, wanted_by: str, **options: Any) -> Model:
    """The model, told to answer in the form of ``schema``.

    ``options`` are passed on to ``with_structured_output``, those that are None are left out. Raises
    ConfigurationError, in the name of ``wanted_by``, for what has no structured output or does not know an option.
    """
    given = {name: value for name, value in options.items() if value is not None}
    try:
        model: Model = llm.with_structured_output(schema, **given)
    except (AttributeError, NotImplementedError) as error:
        raise ConfigurationError(
            f"{wanted_by} needs a chat model with with_structured_output, which {type(llm).__name__} does not have; "
            'give one such as init_chat_model("…")'
        ) from error
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"{wanted_by}: {type(llm).__name__}.with_structured_output does not take "
            f"{', '.join(f'{name}={value!r}' for name, value in given.items())} ({error})"
        ) from error
    return model


def answered(answer: Any) -> Any:
    """The JSON value of an answer, whether it came as a tool call, as JSON, in a code fence or amid prose.

    ``answer`` is what a model with ``include_raw=True`` gives, or without. Raises ValueError when there is no JSON in
    it, as of a model that answered in prose, and the model's own error where it tells more.

    >>> answered({"raw": None, "parsed": {"a": 1}, "parsing_error": None})
    {'a': 1}
    """
    if isinstance(answer, Mapping) and {"raw", "parsed"} <= answer.keys():
        if answer["parsed"] is not None:
            return answered(answer["parsed"])
        return next(_values(answer["raw"]))
    if answer is None:
        raise ValueError("the model did not answer in the form that was asked for")
    return answer.model_dump() if hasattr(answer, "model_dump") else answer


def _values(message: Any) -> Iterator[Any]:
    """The JSON values of a message that LangChain could not read; raises ValueError after the last."""
    yield from (call["args"] for call in getattr(message, "tool_calls", ()) if call["args"])
    texts = [call.get("args") for call in getattr(message, "invalid_tool_calls", ())]
    texts.append(str(getattr(message, "text", "")))
    yield from (value for text in texts if text and (value := json_in(text)) is not None)
    said = " ".join(str(texts[-1]).split())
    raise ValueError(f"the model did not answer in the form that was asked for, but: {shortened(said, 200)!r}")


def json_in(text: str) -> Any:
    """The longest JSON object or list in a text; None without one.

    >>> json_in('As of [1]: ```json {"a": [1, 2]} ```'), json_in("no {json}")
    ({'a': [1, 2]}, None)
    """
    text = text[:_LONGEST]
    longest, value, end = 0, None, 0
    for start, sign in enumerate(text):
        if sign in "{[" and start >= end:
            try:
                found, end = _DECODER.raw_decode(text, start)
            except ValueError:
                continue
            except RecursionError:
                break
            if end - start > longest:
                longest, value = end - start, found
    return value


def number_in(value: Any) -> float | None:
    """A finite number, itself or as the beginning of a text; None for anything else.

    >>> number_in(7), number_in("7.5 / 10"), number_in("high"), number_in(True)
    (7.0, 7.5, None, None)
    """
    words = value.replace("/", " ").split() if isinstance(value, str) else [value]
    if not words or isinstance(value, bool):
        return None
    try:
        number = float(words[0])
    except (TypeError, ValueError, OverflowError):
        return None
    return number if abs(number) < float("inf") else None


def shortened(text: str, most: int) -> str:
    """At most so many characters of a text: its beginning, and its end where it is longer.

    >>> shortened("abcdefghij", 7)
    'ab … ij'
    """
    if len(text) <= most:
        return text
    kept = (most - 3) // 2
    return f"{text[:kept]} … {text[len(text) - kept :]}"


def quoted(material: Any) -> str:
    """What a model is to judge, as JSON: no text in it can pretend to be outside of its own quotation marks."""
    return cleaned(json.dumps(material, ensure_ascii=False, indent=1))

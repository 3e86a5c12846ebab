import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.language_models.fake import FakeListLLM
from langchain_core.language_models.fake_chat_models import FakeListChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.execution.llm import (
    answer_schema,
    find_json,
    list_schema,
    parse_answer,
    parse_number,
    prompt_messages,
    strip_reasoning,
    to_prompt_json,
    with_schema,
)
from tests.support.models.plain_models import KINDS, fenced
from tests.support.models.saying_model import SayingModel

FORM = {"title": "Form", "description": "A form.", "type": "object", "properties": {"a": {"type": "integer"}}}
VALUES = st.recursive(
    st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)


def parse(answer):
    return parse_answer(with_schema(SayingModel(answer=answer), FORM, "The test").invoke(prompt_messages("Go.", {})))


@pytest.mark.parametrize(
    "answer",
    [
        {"a": 1},
        AIMessage("", tool_calls=[{"name": "Other", "args": {"a": 1}, "id": "1"}]),
        AIMessage("", invalid_tool_calls=[{"name": "Form", "args": 'So: {"a": 1}', "id": "1", "error": "no JSON"}]),
        '{"a": 1}',
        '```json\n{"a": 1}\n```',
        'Here you are: {"a": 1} As you see in [1], that is all.',
        '<think>Perhaps {"a": 2, "b": [3, 4]}?</think> {"a": 1}',
        'Perhaps {"a": 2, "b": [3, 4]}? </think> {"a": 1}',
        '<think>It is {"a": 1}, so',
        AIMessage([{"type": "text", "text": 'Well: {"a"'}, {"type": "text", "text": ": 1}"}]),
    ],
)
def test_json_is_read_in_any_form(answer):
    """JSON is read from tool calls, even invalid ones, and from text in several parts or with a fence, prose or
    reasoning.
    """
    assert parse(answer) == {"a": 1}


@pytest.mark.parametrize("answer", ["", "I cannot do that.", AIMessage(""), '{"a": '])
def test_prose_is_reported(answer):
    """An answer without JSON raises ValueError."""
    with pytest.raises(ValueError, match="did not answer in the requested form"):
        parse(answer)


def test_other_objects_are_errors():
    """The error for an object that is not a chat model names the caller, the object and what to pass instead."""
    with pytest.raises(ConfigurationError, match=r"The test needs a chat model, got 'gpt'; give one such as init_chat"):
        with_schema("gpt", FORM, "The test")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("expected", ['{"a": 1}', fenced({"a": 1}), '<think>Is it {"a": 2}?</think>\n{"a": 1}'])
async def test_a_model_without_structured_output_gets_the_schema_in_the_prompt(kind, expected):
    """The answer may be plain JSON, JSON in a code fence or JSON after reasoning, in sync and async calls."""
    llm = KINDS[kind](answer=lambda messages: expected)
    model, question = with_schema(llm, FORM, "The test"), prompt_messages("Give a.", {"text": "b"})
    answers = [model.invoke(question), await model.ainvoke(question)]
    assert [parse_answer(answer) for answer in answers] == [{"a": 1}] * 2
    instructions, material = llm.calls[0]
    assert instructions.content.startswith("Give a.")
    if kind != "answers in words":  # LangChain added the schema to the prompt
        assert to_prompt_json(FORM) in instructions.content
    assert json.loads(material.content) == {"text": "b"}


def test_a_model_of_plain_texts_and_langchains_fakes_are_models():
    """LLMs that return strings, and both of LangChain's fake chat models, are accepted as models."""
    models = (
        FakeListLLM(responses=[fenced({"a": 1})]),
        FakeListChatModel(responses=[fenced({"a": 1})]),
        GenericFakeChatModel(messages=iter([AIMessage(fenced({"a": 1}))])),
    )
    for model in models:
        assert parse_answer(with_schema(model, FORM, "The test").invoke(prompt_messages("Go.", {}))) == {"a": 1}


def test_an_option_that_the_model_does_not_know_is_named():
    """An option that the model does not accept raises ConfigurationError at construction, with its name and value."""
    from langchain_openai import ChatOpenAI

    with pytest.raises(ConfigurationError, match="'method': 'jsn'"):
        with_schema(ChatOpenAI(api_key="none", model="test"), FORM, "The test", "jsn")


@given(st.lists(VALUES, min_size=1) | st.dictionaries(st.text(), VALUES, min_size=1), st.text("abc .:,]}"))
def test_json_in_prose_is_found_whole(value, prose):
    """Any JSON value is found unchanged in the prose around it, even with braces and quotes inside."""
    assert find_json(f"{prose}{json.dumps(value)}{prose}") == value


@pytest.mark.parametrize("text", ["[" * 90_000, "{" * 90_000, '[{"a":' * 20_000, "[1," * 30_000, "\x00", "}{]["])
def test_broken_json_is_none(text):
    """A long or deeply nested text without complete JSON gives None in reasonable time."""
    assert find_json(text) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<think>hm</think> Yes.", "Yes."),
        ("<THINK effort='high'>hm</THINK> Yes.", "Yes."),
        ("<think>" * 20_000, ""),
        ("</think" * 20_000, "</think" * 20_000),
        ("Well, <reasoning>hm</reasoning>yes.", "Well, yes."),
        ("<think>a<think>b</think>c</think>Yes.", "Yes."),
        ("so it is </think> Yes.", "Yes."),
        ("<think>hm</think><think>hm", ""),
        ("a < b, thinking of c > d", "a < b, thinking of c > d"),
    ],
)
def test_reasoning_is_removed(text, expected):
    """Reasoning is removed even if its tags are nested or incomplete."""
    assert strip_reasoning(text) == expected


def test_numbers():
    """Numbers, and strings that start with one, are parsed; booleans, other strings, lists, NaN and infinity give
    None.
    """
    assert [parse_number(value) for value in (7, 7.5, "7", " 7.5/10", "7 of 10")] == [7, 7.5, 7, 7.5, 7]
    assert [parse_number(value) for value in (True, "", "high", None, [7], float("nan"), "inf", 10**400)] == [None] * 8


def test_schemas_allow_no_other_properties():
    """The schemas of objects and of lists of objects require all properties and allow no others."""
    one, several = answer_schema("T", "d", a={"type": "string"}), list_schema(a={"type": "string"})["items"]
    for schema in (one, several):
        assert (schema["required"], schema["additionalProperties"]) == (["a"], False)

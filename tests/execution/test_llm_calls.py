"""Calls to chat models by stages."""

import asyncio

import pytest

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.execution.llm import check_timeout, model_call


class Stage:
    """A stage that calls a model."""


def echo(question, config):
    return question, config


async def aecho(question, config):
    return question, config


def test_a_model_call_has_a_name_and_does_not_stream():
    """Both methods receive the question, the stage's name, its max_concurrency and the tag that prevents streaming."""
    call = model_call("rerank", Stage(), echo, aecho, "How?", max_concurrency=2)
    configs = {"run_name": "Stage", "max_concurrency": 2, "tags": ["nostream"]}
    assert call.run() == ("How?", configs)
    assert asyncio.run(call.arun()) == ("How?", configs)


def test_models_without_coroutines_run_on_workers():
    """A model without ``ainvoke`` gets no coroutine, so it is called on a thread."""
    assert model_call("expander", Stage(), echo, None, "How?").arun is None


def test_each_stage_has_its_own_lane():
    """Calls of one stage share a lane and calls of another stage have a different one."""
    one, other = Stage(), Stage()
    lanes = [model_call("planner", stage, echo, aecho, "How?").lane for stage in (one, one, other)]
    assert lanes[0] == lanes[1] != lanes[2]


@pytest.mark.parametrize("timeout", [0, -1.0, float("nan")])
def test_a_timeout_must_be_above_0(timeout):
    """The error for an invalid timeout states the setting, its value and a usual value."""
    with pytest.raises(ConfigurationError, match=r"Stage\(timeout=.*\): pass seconds, such as 20, or None"):
        check_timeout("Stage", timeout, 20)


def test_no_timeout_means_unlimited():
    """A timeout may be None or any number above 0."""
    assert check_timeout("Stage", None, 20) is None
    assert check_timeout("Stage", 0.1, 20) is None

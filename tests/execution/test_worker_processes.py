"""Worker processes give the same results as the process that uses them, even if they crash."""

import os
import sys

import pytest

from langchain_hybridgraph.execution.processes import FEW, ordered_map, worker_processes
from tests.support.servers.python_process import output_of_python

MANY = 4 * FEW
# Expression for the pid of the process that evaluates it, slow enough for a worker to start before all are evaluated.
PID = "__import__('time').sleep(.005) or __import__('os').getpid()"


def test_results_come_in_order_from_several_processes():
    """Results are in the order of their inputs, although several processes have computed them and print."""
    with worker_processes(2):
        results = list(ordered_map(eval, [f"print() or ({number}, {PID})" for number in range(2 * MANY)]))
    assert [number for number, _ in results] == list(range(2 * MANY))
    assert {pid for _, pid in results} > {os.getpid()}


def test_without_workers_or_much_work_everything_is_computed_here():
    """Without worker processes, or with fewer than FEW inputs, all inputs are computed in this process."""
    assert set(ordered_map(eval, [PID] * MANY)) == {os.getpid()}
    with worker_processes(0):
        assert set(ordered_map(eval, [PID] * MANY)) == {os.getpid()}
    with worker_processes(2):
        assert set(ordered_map(eval, [PID] * (FEW - 1))) == {os.getpid()}


def test_an_error_is_raised_after_the_results_before_it():
    """Results before a failing input are returned, and the function's own error is raised."""
    results = []
    with worker_processes(1), pytest.raises(ZeroDivisionError):
        results.extend(ordered_map(eval, [*map(str, range(MANY)), "1 / 0", *map(str, range(MANY))]))
    assert results == list(range(MANY))


def test_inputs_of_a_crashed_process_are_computed_here():
    """Inputs of a worker process that crashes are computed in this process."""
    dies_elsewhere = f"{PID} == {os.getpid()} or __import__('os')._exit(1)"
    with worker_processes(2):
        assert list(ordered_map(eval, [dies_elsewhere] * MANY)) == [True] * MANY


def test_arguments_that_cannot_be_pickled_stay_in_this_process():
    """A function that cannot be pickled runs in this process."""
    with worker_processes(1):
        assert list(ordered_map(lambda number: number + 1, range(MANY))) == list(range(1, MANY + 1))


def test_a_script_needs_no_main_guard(tmp_path):
    """A script can use worker processes without a main guard, because they do not run the script."""
    script = tmp_path / "script.py"
    script.write_text(
        "from langchain_hybridgraph.execution.processes import ordered_map, worker_processes\n"
        f"with worker_processes(1):\n    print(sum(ordered_map(abs, [-1] * {MANY})))\n",
        encoding="utf-8",
    )
    assert output_of_python(script, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}) == f"{MANY}\n"

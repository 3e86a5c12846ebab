"""Worker processes give what this process would have given, whatever happens to them."""

import os
import subprocess
import sys

import pytest

from langchain_hybridgraph.execution.worker_processes import FEW, ordered_map, worker_processes

MANY = 4 * FEW
# The pid of the process that computes it. Slow enough that a worker starts before this process has computed them all.
PID = "__import__('time').sleep(.005) or __import__('os').getpid()"


def test_results_come_in_order_from_several_processes():
    """The caller sees a plain map, although other processes have computed a part."""
    with worker_processes(2):
        results = list(ordered_map(eval, [f"({number}, {PID})" for number in range(2 * MANY)]))
    assert [number for number, _ in results] == list(range(2 * MANY))
    assert {pid for _, pid in results} > {os.getpid()}


def test_few_inputs_are_computed_here():
    """No process is started for work that would be over before it is ready."""
    with worker_processes(2):
        assert set(ordered_map(eval, [PID] * (FEW - 1))) == {os.getpid()}


def test_without_workers_everything_is_computed_here():
    """Outside a block, and on a machine with one core."""
    assert set(ordered_map(eval, [PID] * MANY)) == {os.getpid()}
    with worker_processes(0):
        assert set(ordered_map(eval, [PID] * MANY)) == {os.getpid()}


def test_an_error_is_raised_where_its_input_is_due():
    """Results before the error are returned, and the error is the function's own."""
    results = []
    with worker_processes(1), pytest.raises(ZeroDivisionError):
        results.extend(ordered_map(eval, [*map(str, range(MANY)), "1 / 0", *map(str, range(MANY))]))
    assert results == list(range(MANY))


def test_a_process_that_dies_takes_nothing_with_it():
    """Its inputs are computed here."""
    dies_elsewhere = f"{PID} == {os.getpid()} or __import__('os')._exit(1)"
    with worker_processes(2):
        assert list(ordered_map(eval, [dies_elsewhere] * MANY)) == [True] * MANY


def test_arguments_that_cannot_be_pickled_stay_in_this_process():
    """A function that only this program has."""
    with worker_processes(1):
        assert list(ordered_map(lambda number: number + 1, range(MANY))) == list(range(1, MANY + 1))


def test_printed_output_is_not_mistaken_for_a_result():
    """A library may print."""
    with worker_processes(1):
        assert list(ordered_map(eval, [f"print({number}) or {number}" for number in range(MANY)])) == list(range(MANY))


def test_a_script_needs_no_main_guard(tmp_path):
    """The workers do not run the program that they work for."""
    script = tmp_path / "script.py"
    script.write_text(
        "from langchain_hybridgraph.execution.worker_processes import ordered_map, worker_processes\n"
        f"with worker_processes(1):\n    print(sum(ordered_map(abs, [-1] * {MANY})))\n",
        encoding="utf-8",
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == f"{MANY}\n"

"""Execution of searches: effects, worker threads, model calls and the trace."""

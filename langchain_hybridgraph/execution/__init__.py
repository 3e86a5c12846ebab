"""Execution of searches: calls, deadlines, workers, progress and traces."""

"""How a search runs: effects, worker threads, model calls and the trace."""

"""Effects, worker threads, model calls and the trace."""

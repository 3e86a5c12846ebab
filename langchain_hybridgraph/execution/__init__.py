"""Effects, threads, processes, model calls, progress and the trace."""

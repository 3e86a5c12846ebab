"""Effects, threads, processes, model calls, progress reports and traces."""

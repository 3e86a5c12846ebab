"""Query pipeline, graph traversal, planning, conversation and hierarchy."""

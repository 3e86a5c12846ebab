"""Rules for memories: admission, contradictions, duplicates and scores."""

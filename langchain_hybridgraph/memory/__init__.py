"""What makes a store a memory: admission, contradictions, duplicates and scores."""

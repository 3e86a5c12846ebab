"""Options for the retrievers: names, defaults, descriptions and validation."""

"""Options of the retrievers: names, defaults, descriptions and validation."""

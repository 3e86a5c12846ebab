"""Builders of edges between chunks."""

BUILDERS = {
    "sequence": "sequence:SequenceEdges",
    "links": "links:LinkEdges",
    "hierarchy": "sequence:HierarchyEdges",
    "entities": "entities:EntityEdges",
    "metadata": "metadata:MetadataEdges",
    "citations": "links:CitationEdges",
    "similarity": "similarity:SimilarityEdges",
    "llm": "llm:LLMEdges",
}
"""Module in this folder and class of each builder, by name. A module is imported when its builder is requested."""

AUTO = ("sequence", "links", "hierarchy", "entities")
"""Builders that ``edges="auto"`` stands for; they need no settings."""

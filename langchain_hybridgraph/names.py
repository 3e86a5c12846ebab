"""The ids of graph-only nodes: entities, and titles of documents."""

ENTITY = "entity:"
TITLE = "title:"

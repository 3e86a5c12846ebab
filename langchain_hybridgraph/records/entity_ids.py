"""Ids of the nodes of entities and document titles."""

ENTITY = "entity:"
TITLE = "title:"


def name_of(id: str) -> str:
    """Return the name in the id of an entity or title; an id without a colon is returned unchanged.

    >>> name_of("entity:ada lovelace"), name_of("ada.md#0")
    ('ada lovelace', 'ada.md#0')
    """
    return id.partition(":")[2] or id

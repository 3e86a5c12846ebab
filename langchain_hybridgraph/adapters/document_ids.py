"""Assignment of one id to each text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document

from langchain_hybridgraph.adapters.documents import chunk_id
from langchain_hybridgraph.records import replace_surrogates

# Metadata keys in which vector stores may return an id that is missing from Document.id.
ID_KEYS = ("_id", "pk", "id")


def metadata_id(metadata: Mapping[str, Any], keys: Sequence[str] = ID_KEYS) -> str | None:
    """Return an id from metadata as a string, or None if there is none.

    The id is the value of the first of ``keys`` that has a value.

    >>> metadata_id({"pk": 7, "id": "x"})
    '7'
    """
    return next((str(metadata[key]) for key in keys if metadata.get(key) is not None), None)


class Identity:
    """Assignment of ids to texts. A text gets the same id whether the vector store or the keyword index finds it.

    ``documents`` are the user's Documents, and ``stored_documents`` are the vector store's current Documents. Pass None
    if the vector store cannot list them; a stored Document is then matched when a search finds it.

    The id of a text is the first of these that is available:

    - the value of ``id_key`` in the metadata
    - the ``id`` of the user's Document
    - the id of the text in the vector store
    - an id in the metadata of the user's Document (``_id``, ``pk`` or ``id``), unless another text has the same id
    - a hash of text and source

    Each of the user's Documents is matched with the stored Document that has the same id. If there is none, it is
    matched with a stored Document that has the same text, unless their sources differ. If several stored Documents have
    this text, the one whose metadata agree best is chosen. Each stored Document is used only once for such a match.

    >>> given = [Document(id="ada", page_content="Ada wrote programs.")]
    >>> stored = [Document(id="7f3e", page_content="Ada wrote programs.")]
    >>> identity = Identity(given, stored)
    >>> identity.ids, identity.of_stored(stored[0]), identity.stored_id("ada")
    (['ada'], 'ada', '7f3e')
    """

    def __init__(
        self,
        documents: Sequence[Document],
        stored_documents: Sequence[Document] | None = None,
        id_key: str | None = None,
    ) -> None:
        self._id_key = id_key
        self._id_of: dict[str, str] = {}  # our ids by the store's
        self._stored_id_of: dict[str, str] = {}  # the store's ids by ours
        self._by_text: dict[str, list[tuple[Document, str]]] = defaultdict(list)
        paired = _pairs(documents, stored_documents or (), id_key)
        unique = _unique_metadata_ids(documents)
        both = [(document, partner) for document, partner in zip(documents, paired, strict=True) if partner is not None]
        self.extra_keys = frozenset(
            key for ours, theirs in both for key in ours.metadata.keys() - theirs.metadata.keys()
        )
        """Metadata keys that only the user's Documents have, so the store cannot filter by them."""
        self.ids: list[str] = []
        for document, partner in zip(documents, paired, strict=True):
            theirs = None if partner is None else partner.id
            id = self._assign_id(document, theirs, unique)
            self.ids.append(id)
            if theirs is not None:
                self._pair(id, theirs)
        for document, id in zip(documents, self.ids, strict=True):
            if id not in self._stored_id_of:
                self._by_text[replace_surrogates(document.page_content)].append((document, id))
        self._passed_ids = frozenset(self.ids)

    def of_stored(self, document: Document) -> str:
        """Return the id for a Document that the vector store returned, and record the store's own id."""
        theirs = document.id
        if theirs is not None and theirs in self._id_of:
            return self._id_of[theirs]
        id = self._match_id(document)
        if theirs is not None:
            self._pair(id, theirs)
        return id

    def id_of(self, stored_id: str) -> str | None:
        """Return the assigned id of the text whose id in the store is ``stored_id``, or None if it is not known."""
        return self._id_of.get(stored_id)

    def ids_of(self, stored_ids: Iterable[str]) -> list[str | None]:
        """Return the id assigned to each of these ids of the store, or None if it has none yet."""
        return list(map(self._id_of.get, stored_ids))

    def stored_id(self, id: str) -> str | None:
        """Return the store's own id for the text whose assigned id is ``id``, or None if it is not known."""
        return self._stored_id_of.get(id)

    def forget(self, stored_ids: Iterable[str]) -> list[str]:
        """Forget texts that were deleted from the vector store, given their store ids; return their assigned ids."""
        ids = [self._id_of.pop(theirs) for theirs in list(stored_ids) if theirs in self._id_of]
        for id in ids:
            self._stored_id_of.pop(id, None)
        return ids

    def pair(self, ids: Mapping[str, str]) -> None:
        """Assign ids to texts of the store, given a mapping from the store's own ids."""
        for theirs, id in ids.items():
            self._pair(id, theirs)

    def _pair(self, id: str, theirs: str) -> None:
        self._id_of[theirs] = id
        self._stored_id_of.setdefault(id, theirs)

    def _assign_id(self, document: Document, theirs: str | None, unique: frozenset[str]) -> str:
        if self._id_key is not None or document.id is not None:
            return chunk_id(document, self._id_key)
        if theirs is not None:
            return theirs
        id_in_metadata = metadata_id(document.metadata)
        return id_in_metadata if id_in_metadata is not None and id_in_metadata in unique else chunk_id(document)

    def _match_id(self, document: Document) -> str:
        """Return the id for a stored Document that has no recorded id yet."""
        if self._id_key is not None and document.metadata.get(self._id_key) is not None:
            return str(document.metadata[self._id_key])
        if document.id in self._passed_ids:
            return document.id
        candidates = [
            (user_document, id)
            for user_document, id in self._by_text.get(replace_surrogates(document.page_content), ())
            if _same_source(user_document, document) and (id not in self._stored_id_of or document.id is None)
        ]
        if candidates:
            return max(candidates, key=lambda each: _agreement(each[0], document))[1]
        return chunk_id(document)


def _pairs(
    documents: Sequence[Document], stored_documents: Sequence[Document], id_key: str | None
) -> list[Document | None]:
    """Return, for each of the user's Documents, the stored Document that matches it, or None.

    Documents are matched by id and then by text, as described in :class:`Identity`.
    """
    by_id = {document.id: document for document in stored_documents}
    if id_key is not None:
        by_id = {str(d.metadata[id_key]): d for d in stored_documents if d.metadata.get(id_key) is not None}
    pairs = [by_id.get(_name(document, id_key)) for document in documents]
    paired_ids = {partner.id for partner in pairs if partner is not None}
    free: dict[str, list[Document]] = defaultdict(list)
    for document in stored_documents:
        if document.id not in paired_ids:
            free[replace_surrogates(document.page_content)].append(document)
    for place, document in enumerate(documents):
        same_text = free.get(replace_surrogates(document.page_content), []) if pairs[place] is None else []
        if candidates := [each for each in same_text if _same_source(document, each)]:
            best = max(candidates, key=lambda each: _agreement(document, each))
            same_text.remove(best)
            pairs[place] = best
    return pairs


def _name(document: Document, id_key: str | None) -> str | None:
    if id_key is not None:
        return chunk_id(document, id_key)
    return document.id if document.id is not None else metadata_id(document.metadata)


def _unique_metadata_ids(documents: Sequence[Document]) -> frozenset[str]:
    """Return the ids found in metadata that belong to only one text.

    Several texts may share an id, for example the id of the document from which they were taken.
    """
    texts: dict[str, set[str]] = defaultdict(set)
    for document in documents:
        if document.id is None and (id := metadata_id(document.metadata)) is not None:
            texts[id].add(document.page_content)
    return frozenset(id for id, different in texts.items() if len(different) == 1)


def _same_source(one: Document, other: Document) -> bool:
    """Return whether the sources of two Documents are equal or at least one of them is unknown."""
    ours, theirs = one.metadata.get("source"), other.metadata.get("source")
    return ours is None or theirs is None or ours == theirs


def _agreement(one: Document, other: Document) -> tuple[bool, int]:
    """Return a sort key for two Documents; the better their metadata agree, the higher the key.

    Equal sources come first (two missing sources are equal), then the number of equal values.
    """
    same = sum(other.metadata.get(key) == value for key, value in one.metadata.items())
    return one.metadata.get("source") == other.metadata.get("source"), same

"""Options for the keyword index over a store."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, NonNegativeFloat, PrivateAttr, field_validator, model_validator

from langchain_hybridgraph.adapters.any_store import VectorStoreAdapter
from langchain_hybridgraph.adapters.keyword_index import Engine
from langchain_hybridgraph.options.group import OptionGroup


class IndexOptions(OptionGroup):
    """Options of the keyword index over the texts of a vector store, or over the Documents passed to a retriever.

    The object also holds the index that was built with these options. When LangChain's ``configurable_fields`` copies a
    retriever at run time, the copy uses this index instead of building another one.
    """

    engine: Engine = Field(default="tantivy", description="Search engine of the keyword index.")
    language: str = Field(default="english", description="Language of stemming and stop words.")
    id_key: str | None = Field(
        default=None,
        description="Metadata key with the id of a Document; unset: the id in the Document or in the vector store.",
    )
    equal_texts: Literal["once", "each"] = Field(
        default="once",
        description="Whether texts with equal metadata that are in the vector store several times, under different "
        "ids, count as one text (once) or as several (each).",
    )
    path: Path | None = Field(
        default=None,
        description="Folder in which the keyword index of a vector store is kept; unset: memory. In a settings file, a "
        "relative path starts at the file's folder.",
    )
    refresh: Literal["auto", "never"] | NonNegativeFloat = Field(
        default="auto",
        description="When to compare the index with the vector store: at each search (auto), never, or at most once "
        "per this number of seconds.",
    )
    version: Any = Field(
        default=None,
        description="Version of the vector store's texts: a value that you change when they change, or a function that "
        "returns it.",
    )

    @field_validator("path", mode="before")
    @classmethod
    def _named_folder(cls, value: Any) -> Any:
        if value == "":
            raise ValueError(
                "path must be a folder, got ''; write path=\"folder\", or leave it out to keep the index in memory"
            )
        return value

    @model_validator(mode="after")
    def _check_engine(self) -> Self:
        if self.path is not None and self.engine != "tantivy":
            raise ValueError(f"path is for the engine 'tantivy', got engine={self.engine!r}: leave one of them out")
        return self

    _adapter: VectorStoreAdapter | None = PrivateAttr(None)

    @property
    def adapter(self) -> VectorStoreAdapter | None:
        """Vector store with the keyword index that a retriever has built for it, or None if no index has been built
        yet.
        """
        return self._adapter

    def built(self, adapter: VectorStoreAdapter) -> Self:
        """Return a copy of these options that also holds the index built with them."""
        copy = self.model_copy()
        copy._adapter = adapter
        return copy

"""An LCEL chain that answers from texts, streams the answer, and lists its sources.

    pip install . langchain      # in a clone of the repository
    python examples/rag_chain.py

The example uses a fake chat model with a prepared answer, and needs no API key. To use a real model, install its
package (``langchain-openai``) and pass its name: ``python examples/rag_chain.py openai:gpt-5-mini``.
"""

from __future__ import annotations

import sys
from operator import itemgetter
from typing import Any

from langchain.chat_models import init_chat_model
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel, FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableLambda, RunnablePassthrough

from langchain_hybridgraph import HybridGraphStore, HybridRetriever, ingest

TEXTS = {
    "errors.md": "Error E-4711: the card issuer asks for a second factor.",
    "factors.md": "The second factor is a code by text message, or a key.",
    "login.md": "A forgotten password is reset by a link that is valid for one hour.",
    "billing.md": "Invoices are sent on the first working day of the month.",
}
PROMPT = ChatPromptTemplate.from_messages(
    [
        ("system", "Answer from these texts alone, and name the texts that you use, as in [errors.md].\n\n{context}"),
        ("human", "{question}"),
    ]
)


def chat_model(name: str | None) -> BaseChatModel:
    """Return the model with this name, as ``init_chat_model`` does, or a fake model if the name is None."""
    if name is not None:
        return init_chat_model(name, temperature=0)
    return FakeListChatModel(responses=["A second factor: a code by text message, or a key [errors.md] [factors.md]."])


def as_context(documents: list[Document]) -> str:
    """Return the texts for the prompt, each under its name."""
    return "\n\n".join(f"[{document.metadata['source']}]\n{document.page_content}" for document in documents)


def answering(retriever: BaseRetriever, model: BaseChatModel) -> Runnable[dict[str, str], dict[str, Any]]:
    """Return a chain that adds ``documents`` and ``answer`` to its input, ``{"question": …}``."""
    answer = (
        RunnablePassthrough.assign(context=itemgetter("documents") | RunnableLambda(as_context))
        | PROMPT
        | model
        | StrOutputParser()
    )
    return RunnablePassthrough.assign(documents=itemgetter("question") | retriever).assign(answer=answer)


def main(model: str | None = None) -> None:
    """Ingest, ask, and print the answer as it arrives."""
    store = HybridGraphStore(embedding="lsa")  # HybridGraphStore("texts.hybridgraph", OpenAIEmbeddings()) to keep it
    ingest([Document(text, metadata={"source": name}) for name, text in TEXTS.items()], store)
    chain = answering(HybridRetriever(store, k=2, annotate="score"), chat_model(model))

    for part in chain.stream({"question": "Which second factor does E-4711 ask for?"}):
        for document in part.get("documents", ()):
            print(f"{document.metadata['relevance_score']:.2f} {document.metadata['source']}")
        print(part.get("answer", ""), end="", flush=True)
    print()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)

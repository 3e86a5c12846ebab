"""AdvancedRetriever: conversations, with any retriever."""

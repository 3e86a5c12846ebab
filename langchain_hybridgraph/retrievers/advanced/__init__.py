"""AdvancedRetriever, for conversations with any retriever."""

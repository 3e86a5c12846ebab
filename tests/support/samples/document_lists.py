"""The ids and the texts of the documents that a search returns."""


def ids(documents):
    return [document.id for document in documents]


def texts(documents):
    return [document.page_content for document in documents]

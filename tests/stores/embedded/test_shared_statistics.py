"""The statistics of the keyword search, which the tenants of a folder share, tell how often a chosen word occurs."""

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.records import Query
from tests.support.stores.words import open_words


def score_of(folder, word):
    with open_words(folder, tenant="ada") as store:
        (entry,) = store.keyword_search(Query(word, 10), 10).entries
        return entry.id, entry.score


def test_a_score_depends_on_other_tenants_only_by_the_frequency_of_the_word(tmp_path):
    """A word that another tenant uses scores lower, no text of that tenant is found, and a new folder hides it."""
    texts = {"bob": "merger layoffs", "eve": "harmless words"}
    scores = {}
    for tenant, text in texts.items():
        folder = tmp_path / tenant
        with open_words(folder, tenant="ada") as ada:
            ada.upsert([Chunk("probe", "merger"), *(Chunk(f"a{n}", f"other{n}") for n in range(8))])
            ada.flush()
        alone = score_of(folder, "merger")
        with open_words(folder, tenant=tenant) as store:
            store.upsert([Chunk(f"b{n}", text) for n in range(8)])
            store.flush()
        scores[tenant] = score_of(folder, "merger")
        assert alone[0] == scores[tenant][0] == "probe"
    assert scores["bob"][1] < scores["eve"][1]

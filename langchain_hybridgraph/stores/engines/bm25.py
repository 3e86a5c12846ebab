"""Parameters k1 and b of BM25, for all engines."""

# Tantivy cannot use other values, so rank_bm25 and Milvus use the same.
K1 = 1.2
B = 0.75

"""Limits of Milvus: results, keys, fields and messages."""

# Maximum number of rows that Milvus returns for one call.
MOST_RESULTS = 16_384
# Maximum number of keys in one expression.
MOST_KEYS = 4_000
# Maximum number of bytes in a text or JSON field, and in a name.
MOST_BYTES = 65_535
MOST_NAME = 4_096
# Maximum number of elements in an array field.
MOST_ELEMENTS = 4_096
# Maximum number of rows and of bytes in one write. A gRPC message can have 64 MB, and many servers accept less. An
# upsert of 1,000 chunks takes several writes, each of which is prepared while the server processes the one before.
MOST_ROWS = 250
MOST_BATCH_BYTES = 16_000_000
# Number of chunks whose words are counted for the document frequencies, number of chunks whose vectors give the mean
# cosine, and number of chunks that one call reads for this. Reading the words of 6,000 descriptions takes .4 s of
# processor time with milvus-lite.
MOST_SAMPLED = 10_000
MOST_SAMPLED_VECTORS = 500
SAMPLED_AT_ONCE = 2_500

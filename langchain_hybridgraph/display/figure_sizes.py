"""Default width and number of chunks of a picture."""

# Width in inches.
WIDTH = 10.0
# Maximum number of chunks.
NODES = 25
# Number of hits from which the visited chunks in a picture are selected.
SEARCHED_HITS = 100

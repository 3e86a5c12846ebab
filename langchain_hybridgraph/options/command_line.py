"""Descriptions and defaults of command-line options."""

# This module imports nothing, so that help is shown immediately. Pydantic's fields use the same facts.

K = "Number of results."
K_DEFAULT = 10
K_LEAST = 0
MIN_SCORE = "Minimum score of a hit. If the best score is below 0.5, the texts probably contain no answer."
LANGUAGE = "Language of stemming and stop words in a new index."
TENANT = "Tenant whose chunks the store reads and writes."

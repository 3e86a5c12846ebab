"""Facts about options that the command line shows."""

# This module imports nothing, so that help is shown at once. Pydantic's fields have the same facts from here.

K = "Number of results."
K_DEFAULT = 10
K_LEAST = 0
LANGUAGE = "Language of stemming and stop words in a new index."
TENANT = "Tenant whose chunks the store reads and writes."

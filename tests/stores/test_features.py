"""Features that stores declare as missing, and the table made from them."""

from tests.support.servers.python_process import output_of_python


def test_the_table_in_the_docs_is_up_to_date():
    """The table in docs/engines.md matches the features that the stores declare."""
    output_of_python("docs/feature_table.py", "--check", env={"PYTHONPATH": "."})

"""What a new file says is what holds."""

import re

from langchain_hybridgraph.config import HybridGraphSettings
from langchain_hybridgraph.config.template import template


def test_a_new_file_changes_nothing(tmp_path):
    """All of its settings are comments."""
    (tmp_path / "h.yaml").write_text(template("h.schema.json"), encoding="utf-8")
    assert HybridGraphSettings.from_file(tmp_path / "h.yaml").model_fields_set == set()


def test_every_default_that_it_names_is_the_default(tmp_path):
    """With every "#" before a key taken away it says what holds anyway."""
    text, taken = re.subn(r"^  #(?=\w)", "  ", template("h.schema.json"), flags=re.MULTILINE)
    assert taken == len(HybridGraphSettings.model_fields)
    (tmp_path / "h.yaml").write_text(text, encoding="utf-8")
    assert dict(HybridGraphSettings.from_file(tmp_path / "h.yaml")) == dict(HybridGraphSettings())


def test_an_editor_finds_the_schema():
    """In the first line, where yaml-language-server looks for it."""
    assert template("h.schema.json").splitlines()[0] == "# yaml-language-server: $schema=h.schema.json"

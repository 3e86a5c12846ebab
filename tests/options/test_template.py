"""The settings template that ``config init`` writes."""

import re

from langchain_hybridgraph.settings import HybridGraphSettings, template


def test_the_template_sets_nothing(tmp_path):
    """All settings in the template are comments."""
    (tmp_path / "h.yaml").write_text(template("h.schema.json"), encoding="utf-8")
    assert HybridGraphSettings.from_file(tmp_path / "h.yaml").model_fields_set == set()


def test_the_template_shows_every_default(tmp_path):
    """Uncommenting every key of the template gives the default settings."""
    text, count = re.subn(r"^  #(?=\w)", "  ", template("h.schema.json"), flags=re.MULTILINE)
    assert count == len(HybridGraphSettings.model_fields)
    (tmp_path / "h.yaml").write_text(text, encoding="utf-8")
    assert dict(HybridGraphSettings.from_file(tmp_path / "h.yaml")) == dict(HybridGraphSettings())


def test_the_first_line_names_the_schema():
    """The first line of the template names the schema for yaml-language-server."""
    assert template("h.schema.json").splitlines()[0] == "# yaml-language-server: $schema=h.schema.json"

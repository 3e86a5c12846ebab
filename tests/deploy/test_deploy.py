"""The files in deploy/ are valid for their tools and agree with the capacity model."""

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml
from typer.testing import CliRunner

from benchmarks import capacity
from langchain_hybridgraph.cli.app import app

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def loaded(name):
    return yaml.safe_load((ROOT / "deploy" / name).read_text(encoding="utf-8"))


def validate(values, schema):
    jsonschema.validate(values, json.loads((HERE / schema).read_text(encoding="utf-8")))


@pytest.mark.parametrize("file", ["milvus-compose.yaml", "service-compose.yaml"])
def test_compose_files_follow_the_specification(file):
    """A Compose file is valid for the JSON schema of the Compose specification, and a misspelt key would not be."""
    compose = loaded(file)
    validate(compose, "compose-spec.json")
    next(iter(compose["services"].values()))["imgae"] = "milvus"
    with pytest.raises(jsonschema.ValidationError, match="imgae"):
        validate(compose, "compose-spec.json")


def test_the_service_waits_for_the_milvus_of_the_other_file():
    """The Compose file of the service includes its dependency with a health check, and its image and command exist."""
    compose = loaded("service-compose.yaml")
    included = {name: each for file in compose["include"] for name, each in loaded(file)["services"].items()}
    service = compose["services"]["service"]
    assert set(service["depends_on"]) == {"milvus"}
    assert "healthcheck" in included["milvus"]
    build = service["build"]
    assert (ROOT / "deploy" / build["context"] / build["dockerfile"]).samefile(ROOT / "deploy" / "Dockerfile")
    assert CliRunner().invoke(app, [*service["command"], "--help"]).exit_code == 0


def lint(file):
    """Return the rules of hadolint that a Dockerfile breaks."""
    command = [Path(sys.executable).with_name("hadolint"), "--no-fail", "--format", "json", file]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {problem["code"] for problem in json.loads(done.stdout)}


def test_the_dockerfile_passes_its_linter(tmp_path):
    """hadolint accepts the Dockerfile, but not one without a tag; the image runs unprivileged, with a health check."""
    text = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
    assert lint(ROOT / "deploy" / "Dockerfile") == set()
    (tmp_path / "Dockerfile").write_text(text.replace(":3.12.11-slim-bookworm", ""), encoding="utf-8")
    assert "DL3006" in lint(tmp_path / "Dockerfile")
    instructions = [line.split(maxsplit=1) for line in text.splitlines() if line[:1].isupper()]
    assert [value for name, value in instructions if name == "USER"] == ["10001"]
    assert [name for name, _ in instructions].count("HEALTHCHECK") == 1


def test_the_values_are_those_of_the_chart():
    """The Helm values have the names and types of the Milvus chart, and a misspelt name or a wrong type is detected."""
    validate(loaded("milvus-values.yaml"), "milvus-chart-schema.json")
    for wrong, message in (({"querynode": {}}, "querynode"), ({"proxy": {"replicas": "2"}}, "not of type 'number'")):
        with pytest.raises(jsonschema.ValidationError, match=message):
            validate(wrong, "milvus-chart-schema.json")


def test_the_query_nodes_are_those_of_the_model():
    """The example cluster has the number of query nodes that the capacity model computes for 100 million chunks."""
    nodes = loaded("milvus-values.yaml")["queryNode"]
    assert nodes["resources"]["limits"]["memory"] == "64Gi"
    assert nodes["replicas"] == capacity.Load(1e8).query_nodes(2, 64 * capacity.GB)


def test_the_model_predicts_what_is_measured(tmp_path):
    """The model predicts the exact size of the vectors, and the sizes of catalog and keyword index within its
    tolerance.
    """
    parts = capacity.check(2_000, 64, tmp_path)
    assert parts["vectors"][0] == parts["vectors"][1]
    for part in ("catalog", "keywords"):
        predicted, measured = parts[part]
        assert abs(measured / predicted - 1) < capacity.TOLERANCE, part

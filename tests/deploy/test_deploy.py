"""The files in deploy/ are valid for their tools and agree with the capacity model."""

import importlib.util
import json
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def loaded(name):
    return yaml.safe_load((ROOT / "deploy" / name).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def capacity():
    spec = importlib.util.spec_from_file_location("capacity", ROOT / "benchmarks" / "capacity.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["capacity"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["capacity"]


def differences(values, chart, path=""):
    """Yield a message for each value that the chart does not have, or has with another type."""
    types = {"boolean": bool, "number": (int, float), "string": str}
    for name, value in values.items():
        place = f"{path}.{name}".lstrip(".")
        expected = chart.get(name)
        if expected is None:
            yield f"{place} is not a value of the chart"
        elif isinstance(expected, dict):
            yield from differences(value, expected, place)
        elif expected != "any" and not isinstance(value, types[expected]):
            yield f"{place} must be a {expected}, got {value!r}"


def test_the_compose_file_follows_the_specification():
    """The Compose file is valid for the JSON schema of the Compose specification, and a misspelt key would not be."""
    schema = json.loads((HERE / "compose-spec.json").read_text(encoding="utf-8"))
    compose = loaded("milvus-compose.yaml")
    jsonschema.validate(compose, schema)
    compose["services"]["milvus"]["imgae"] = "milvus"
    with pytest.raises(jsonschema.ValidationError, match="imgae"):
        jsonschema.validate(compose, schema)


def test_services_depend_on_services_with_a_health_check():
    """Each service that another one depends on has a health check, and each volume is declared."""
    compose = loaded("milvus-compose.yaml")
    services = compose["services"]
    needed = {name for service in services.values() for name in service.get("depends_on", {})}
    assert needed == {"etcd", "minio"}
    assert all("healthcheck" in services[name] for name in needed)
    assert {each.split(":")[0] for s in services.values() for each in s["volumes"]} == set(compose["volumes"])


def test_the_values_are_those_of_the_chart():
    """The Helm values have the names and types of the Milvus chart, and a misspelt name is detected."""
    chart = json.loads((HERE / "milvus-chart-values.json").read_text(encoding="utf-8"))
    values = loaded("milvus-values.yaml")
    assert list(differences(values, chart)) == []
    assert list(differences({"querynode": {"replicas": 2}}, chart)) == ["querynode is not a value of the chart"]
    assert list(differences({"proxy": {"replicas": "2"}}, chart)) == ["proxy.replicas must be a number, got '2'"]


def test_the_query_nodes_are_those_of_the_model(capacity):
    """The example cluster has the number of query nodes that the capacity model computes for 100 million chunks."""
    nodes = loaded("milvus-values.yaml")["queryNode"]
    assert nodes["resources"]["limits"]["memory"] == "64Gi"
    assert nodes["replicas"] == capacity.Load(1e8).query_nodes(2, 64 * capacity.GB)


def test_the_model_predicts_what_is_measured(capacity, tmp_path):
    """The model predicts the exact size of the vectors, and the sizes of catalog and keyword index within its
    tolerance.
    """
    parts = capacity.check(2_000, 64, tmp_path)
    assert parts["vectors"][0] == parts["vectors"][1]
    for part in ("catalog", "keywords"):
        predicted, measured = parts[part]
        assert abs(measured / predicted - 1) < capacity.TOLERANCE, part


def test_the_page_has_the_table_of_the_model(capacity):
    """docs/scaling.md contains the table that the capacity model prints."""
    page = (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")
    rows = capacity.table([capacity.Load(n) for n in (1e7, 1e8, 1e9)], 2, 64 * capacity.GB, 0.5, 100.0).splitlines()[2:]
    assert len(rows) == 3
    assert [row for row in rows if row not in page] == []

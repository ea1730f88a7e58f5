"""The page of the job file's keys, as docs/_ext/job_file.py writes it."""

import importlib.util
from pathlib import Path

import pytest

from beamfeed.launcher.job import job_model

pytest.importorskip("sphinx", reason="the site's tools are not installed; make setup installs them")

SOURCE = Path(__file__).parents[2] / "docs" / "_ext" / "job_file.py"


def test_every_key_is_listed_with_its_description():
    spec = importlib.util.spec_from_file_location("job_file_page", SOURCE)
    page = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(page)
    schema = job_model().model_json_schema()
    lines = page.Keys(schema).lines
    sections = [line.lstrip("# ").removesuffix(".NAME") for line in lines if line.startswith("##")]
    for section in [schema, *schema["$defs"].values()]:
        for key, value in section.get("properties", {}).items():
            row = any(line.startswith(f"| `{key}` |") for line in lines)
            assert row or any(path.split(".")[-1] == key for path in sections), key
            if "description" in value:
                assert any(page.plain(value["description"]) in line for line in lines), value["description"]

"""The core knows no kind of source and no task: not even their names."""

import re
from pathlib import Path

import pytest

from beamfeed.contract.config.model import MODELS
from beamfeed.contract.config.sources import SOURCES
from beamfeed.contract.config.task import GOALS

ROOT = Path(__file__).parent.parent
CORE = [
    "pipelines",
    "transforms/records",
    "transforms/publish.py",
    "transforms/splits.py",
    "transforms/sources/base.py",
    "transforms/sources/descriptors.py",
    "transforms/sources/checking.py",
    "trainer/feed",
    "trainer/loop",
]
FILES = [path for place in CORE for path in ([ROOT / place] if place.endswith(".py") else (ROOT / place).rglob("*.py"))]


def names(sections, key):
    fields = (section.model_fields[key] for section in sections if key in section.model_fields)
    return [name for field in fields for name in field.annotation.__args__]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_kind_and_no_task_is_named(path):
    words = [*names(SOURCES, "kind"), *names(GOALS, "name"), *names(MODELS, "name")]
    assert {"timeseries", "classify", "recurrent"} <= set(words)
    # Some are words of every day, and mean something only in quotes.
    plain = [word for word in words if word not in ("table", "text", "image", "array", "linear", "application")]
    quoted = [f"[\"']{word}[\"']" for word in words if word != "linear"]  # also how a learning rate falls
    assert not re.findall("|".join([*plain, *quoted]), path.read_text())

"""The tests that docs/reliability.md and tests/faults.md name are there."""

import re


def test_each_promise_names_tests_that_there_are(root):
    page = (root / "docs" / "reliability.md").read_text()
    rows = re.findall(r"^\| ([^|]+) \| (`[^|]+`) \|$", page, re.MULTILINE)
    assert len(rows) >= 10
    for _, tests in rows:
        for path in re.findall(r"`([^`]+)`", tests):
            assert (root / "tests" / path).exists(), path


def test_each_fault_names_tests_that_there_are(root):
    page = (root / "tests" / "faults.md").read_text()
    rows = re.findall(r"^\| (\d+) \| .* \| (.*) \|$", page, re.MULTILINE)
    numbers = [int(number) for number, _ in rows]
    assert numbers == [*range(1, 26), *range(101, 138), 139]  # 138 is of speed: docs/benchmarks.md
    for _, tests in rows:
        named = re.findall(r"`([\w/]+\.py)::(\w+)`", tests)
        assert named
        for path, name in named:
            assert f"\ndef {name}(" in (root / "tests" / path).read_text(), f"{path}::{name}"

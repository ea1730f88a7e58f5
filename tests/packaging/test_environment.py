"""An environment: the locks are one set and pin what setup.py asks for; CI runs the parts of .ci/run."""

import re

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

# Each with the one that it requires.
LOCKS = {"requirements-worker": "", "requirements": "requirements-worker", "requirements-dev": "requirements",
         "requirements-slow": "requirements-dev", "requirements-gpu": "requirements"}  # fmt: skip
INSTALLED = {"worker": "requirements-worker", "all": "requirements", "train": "requirements",
             "dev": "requirements-dev", "docs": "requirements-dev", "bench": "requirements-slow",
             "slow": "requirements-slow", "gpu": "requirements-gpu"}  # fmt: skip


def read(root, lock):
    """The versions of a lock by package, without those of the locks that it requires."""
    text = (root / f"{lock}.lock").read_text(encoding="utf-8")
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+) \\\n    --hash=sha256:[0-9a-f]{64}", text, flags=re.M)), text


def test_a_package_stands_in_one_lock(root):
    packages = [package for lock in LOCKS for package in read(root, lock)[0]]
    assert len(packages) > 200
    assert len(packages) == len(set(packages))


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_holds_nothing_but_hashed_versions_and_the_lock_below(root, lock):
    versions, text = read(root, lock)
    lines = [line for line in text.splitlines() if not line.startswith("    --hash=sha256:")]
    below = [f"--requirement {LOCKS[lock]}.lock"] if LOCKS[lock] else []
    assert lines == [*below, *(f"{package}=={version} \\" for package, version in versions.items())]


@pytest.fixture
def asked(root, monkeypatch):
    """What setup.py passes to setuptools."""
    passed = {}
    monkeypatch.setattr("setuptools.setup", lambda **keywords: passed.update(keywords))
    path = root / "setup.py"
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), {"__file__": str(path), "__name__": "setup"})
    return passed


def test_the_locks_pin_what_setup_asks_for(root, asked):
    pinned = {"": {}}
    for lock, below in LOCKS.items():
        pinned[lock] = pinned[below] | read(root, lock)[0]
    asks = {"requirements-worker": asked["install_requires"]}
    for extra, lock in INSTALLED.items():
        asks[lock] = asks.get(lock, []) + asked["extras_require"][extra]
    for lock, requirements in asks.items():
        for requirement in map(Requirement, requirements):
            assert requirement.specifier.contains(pinned[lock][requirement.name.lower()]), (lock, requirement)


def test_workers_install_no_tensorflow(root):
    heavy = re.compile("tensorflow(?!-metadata)|keras|tfx|scikit|scipy|matplotlib|tensorboard")
    assert [package for package in read(root, "requirements-worker")[0] if heavy.match(package)] == []


def test_the_workflow_runs_the_parts_of_the_script(root):
    workflow = yaml.safe_load((root / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    parts = workflow["jobs"]["part"]["strategy"]["matrix"]["part"]
    lines = re.findall(
        r"^make (?:--jobs=2 )?([a-z -]+)$", (root / ".ci" / "run").read_text(encoding="utf-8"), flags=re.M
    )
    assert parts == " ".join(lines).split()
    assert workflow["jobs"]["run"]["needs"] == ["part", "python"]


def test_the_workflow_tests_every_other_python_that_setup_allows(root, asked):
    workflow = yaml.safe_load((root / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    tested = ["3.11", *workflow["jobs"]["python"]["strategy"]["matrix"]["version"]]
    allowed = SpecifierSet(asked["python_requires"])
    assert tested == [version for version in (f"3.{minor}" for minor in range(8, 20)) if version in allowed]
    named = [line.split(" :: ")[-1] for line in asked["classifiers"] if ":: Python :: 3." in line]
    assert named == tested

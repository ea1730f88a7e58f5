"""docs/messages.md: the lines that it shows are those that are printed."""

import pytest
from messages.tables import FLEET

from beamfeed.launcher import cli

LINES = [
    ("length: 8", "length: eight", []),
    ("stride: 2", "strid: 2", []),
    ("", "", ["--set", "source.time=t"]),
    ("by: time, train: 0.6", "train: 0.8", ["--set", "split.train=0.9"]),
    ("", "", ["--sett", "x=1"]),
]


@pytest.mark.parametrize(("old", "new", "more"), LINES)
def test_a_line_of_the_page(old, new, more, root, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = (
        FLEET.format(folder=tmp_path).replace("eval: 0.2, test: 0.2", "eval: 0.1, test: 0.1") if "0.8" in new else None
    )
    (tmp_path / "job.yaml").write_text((text or FLEET.format(folder=tmp_path)).replace(old, new, 1))
    try:
        code = cli.main(["run", "job.yaml", *more])
    except SystemExit as end:
        code = end.code
    out, error = capsys.readouterr()
    assert (code, out) == (2, "")
    assert f"    {error}" in (root / "docs" / "messages.md").read_text()

"""The text of a job file: what is written must be what is read."""

import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from beamfeed.contract.config.document import parse_document
from beamfeed.transforms.suggest.draft import WIDTH, Key, Remark, render

CHARACTERS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
NAMES = CHARACTERS | st.text("$${}a", min_size=1, max_size=9)  # some of them look like variables
VALUES = st.one_of(st.integers(), st.booleans(), st.none(), NAMES, st.lists(NAMES, max_size=40))


@settings(max_examples=50)
@given(NAMES, VALUES, st.text(max_size=200), st.text(max_size=150))
@example("${", "0}", "", "")
def test_any_value_comes_back(name, value, above, tail):
    text = render([Key("section", (Key(name, value, (above,), tail), Remark(above, ("example: 1",))))])
    assert parse_document(text, "job.yaml").data == {"section": {name: value}}


def test_long_lists_are_broken_and_values_are_not():
    names = [f"sensor, number [{i}]" for i in range(40)]
    text = render([Key("source", (Key("features", names),))])
    assert yaml.safe_load(text) == {"source": {"features": names}}
    assert all(len(line) <= WIDTH for line in text.splitlines())


def test_a_long_remark_stands_above():
    text = render([Key("stride", 1, tail="word " * 25)])
    assert text.splitlines()[0].startswith("# Word word")
    assert text.splitlines()[-1] == "stride: 1"

"""What folders tell."""

from beamfeed.transforms.sources.columns.paths import key_columns


def test_values_are_unescaped_where_they_are_text():
    assert key_columns("lake/site=caf%C3%A9/kind%2Fof=a%2Fb/x.csv") == {"site": "café", "kind/of": "a/b"}
    assert key_columns("lake/site=caf%E9/x.csv") == {"site": "caf%E9"}
    assert key_columns("lake/site=caf%E8/x.csv") == {"site": "caf%E8"}

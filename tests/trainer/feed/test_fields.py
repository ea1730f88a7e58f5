"""Which fields are read, and what they are counted to take."""

import pytest

from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.manifest import Shard, SplitInfo
from beamfeed.contract.errors import UserError
from beamfeed.trainer.feed.fields import choose_fields, data_fields, stored_bytes, window_bytes, windows_fitting

VALUES = Field(name="values", dtype="float32", shape=(3,), role="input")
TOKENS = Field(name="tokens", dtype="int64", shape=(None,), role="input")
NAME = Field(name="name", dtype="bytes", role="key")
LABEL = Field(name="label", dtype="int64", role="target", per="window")
PLACE = Field(name="place", dtype="float32", shape=(2,), role="input", per="record")
INFO = SplitInfo(
    assets=1, windows=68, records=8, bytes=4000,
    shards=[Shard(records=5, windows=40, rows=200, bytes=2500, crc32c="0" * 8),
            Shard(records=3, windows=28, rows=104, bytes=1500, crc32c="0" * 8)],
)  # fmt: skip


def with_fields(written, *fields):
    return written.manifest.model_copy(update={"fields": list(fields)})


def test_as_many_windows_as_fit_but_at_least_one():
    stored = stored_bytes(INFO, [VALUES], 9999)  # 304 rows of 12 bytes in 68 windows: 53.6 bytes each
    assert stored == 304 * 12
    assert windows_fitting(INFO.windows, stored, 0) == 1
    assert windows_fitting(INFO.windows, stored, 2 * 54) == 2
    assert windows_fitting(INFO.windows, stored, 304 * 12) == 68


def test_bytes_are_counted_for_each_row_window_and_record():
    fields = [VALUES, LABEL, PLACE]
    assert stored_bytes(INFO, fields, 9999) == 304 * 12 + 68 * 8 + 8 * 8
    assert window_bytes(INFO, fields, 16, 9999) == 16 * 12 + 8 + 8


def test_where_sizes_differ_the_shards_tell():
    assert stored_bytes(INFO, [TOKENS, LABEL], 30_400) == 30_400
    assert stored_bytes(INFO, [VALUES, TOKENS], 10) == 304 * 12  # compressed better than it could be
    assert window_bytes(INFO, [TOKENS], 2, 30_400) == 200
    text = NAME.model_copy(update={"per": "window"})
    assert window_bytes(INFO, [text], 2, 6_800) == 100
    assert window_bytes(INFO, [text], 2, 0) == 1


def test_all_fields_but_the_keys_or_those_that_are_named(written):
    manifest = with_fields(written, NAME, TOKENS, VALUES, LABEL)
    assert data_fields(manifest) == choose_fields(manifest, None).fields == (TOKENS, VALUES, LABEL)
    assert choose_fields(manifest, ["label", "name", "label"]).fields == (LABEL, NAME)


@pytest.mark.parametrize(
    ("names", "teller"),
    [
        (None, VALUES),
        (["tokens"], TOKENS),
        (["label"], NAME),
        (["name", "tokens"], NAME),
        (["label", "values"], VALUES),
    ],
)
def test_a_field_of_rows_that_is_cheap_tells_how_many_there_are(written, names, teller):
    wanted = choose_fields(with_fields(written, NAME, TOKENS, VALUES, LABEL), names)
    assert wanted.rows_of == teller
    assert wanted.parsed[0] == teller
    assert [field.name for field in wanted.parsed[1:]] == [
        name for name in names or ["tokens", "label"] if name != teller.name
    ]
    assert wanted.windows == Windows(length=8, stride=4)


def test_what_is_no_list_of_fields_is_told(written):
    manifest = with_fields(written, NAME, VALUES, LABEL)
    with pytest.raises(UserError, match=r"has no field 'value'; did you mean 'values'\? .it has: name, values, label"):
        choose_fields(manifest, ["label", "value"])
    for names in ("values", []):
        with pytest.raises(ValueError, match="must be a list of names"):
            choose_fields(manifest, names)
    with pytest.raises(UserError, match="no field with a value for each row"):
        choose_fields(with_fields(written, LABEL), None)
    with pytest.raises(UserError, match="no field with a value for each window"):
        choose_fields(with_fields(written, NAME), None)

"""Mistakes of the user's: one line, exit code 2, nothing written."""

from random import Random
from typing import Any

from ..fleet import Fleet
from .kind import damage


def _set(fleet: Fleet, key: str, value: Any) -> None:
    *sections, name = key.split(".")
    section = fleet.job
    for one in sections:
        section = section.setdefault(one, {})
    section[name] = value


MISTAKES: dict[str, tuple[str, Any, str]] = {
    "an_unknown_key": ("windows.strid", 4, "strid"),
    "a_column_that_is_not_there": ("source.time.column", "when", "when"),
    "a_feature_that_is_not_there": ("source.features", ["pressure"], "pressure"),
    "a_glob_of_nothing": ("source.features", ["y*"], r"y\*"),
    "a_feature_of_text": ("source.features", ["state"], "state"),
    "an_asset_column_that_is_not_there": ("source.asset", {"column": "engine"}, "engine"),
    "a_pattern_without_an_asset": ("source.asset", {"from": "path", "pattern": "(?P<site>north)"}, "asset"),
    "a_pattern_that_is_none": ("source.asset", {"from": "path", "pattern": "(?P<asset>[a-"}, "regular expression"),
    "a_stride_of_nothing": ("windows.stride", 0, "stride"),
    "a_length_in_words": ("windows.length", "eight", "length"),
    "fractions_that_do_not_add_up": ("split", {"by": "asset", "train": 0.8, "eval": 0.8, "test": 0.1}, "1.7"),
    "a_fill_that_is_unknown": ("prepare.missing", {"fill": "backward"}, "backward"),
    "a_scale_that_is_unknown": ("prepare.scale", {"how": "zscore"}, "zscore"),
    "a_duration_of_nothing": ("prepare.max_gap", "0s", "max_gap"),
    "a_duration_that_is_none": ("prepare.max_gap", "soon", "soon"),
    "a_limit_over_one": ("limits.max_rejected_fraction", 1.5, "max_rejected_fraction"),
    "files_that_are_not_there": ("source.files", "{fleet}/*.nothing", "nothing"),
    "a_value_in_two_splits": (
        "split", {"by": "column", "column": "phase", "train": ["run"], "eval": ["run"]}, "more than one split"),
    "a_split_column_that_is_not_there": ("split", {"by": "column", "column": "era", "train": ["a"]}, "era"),
    "a_label_that_is_not_there": ("label", {"column": "fault"}, "fault"),
    "a_label_of_text_as_a_number": ("label", {"column": "state"}, "state"),
}  # fmt: skip


def _mistake(name: str) -> None:
    key, value, said = MISTAKES[name]

    def apply(fleet: Fleet, chance: Random) -> None:
        _set(fleet, key, value)
        fleet.mistake = said

    apply.__name__ = apply.__qualname__ = name
    apply.__module__ = __name__
    apply.__doc__ = f"{key}: {value!r} is a mistake that is told in one line, with exit code 2."
    damage(alone=True)(apply)


for _name in MISTAKES:
    _mistake(_name)

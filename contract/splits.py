"""The names of the splits. Loads nothing, so that a command line knows them at once."""

from typing import Literal

SplitName = Literal["train", "eval", "test"]
SPLITS: tuple[SplitName, ...] = ("train", "eval", "test")
SPLIT_WORDS: dict[str, SplitName] = {  # in small letters, what folders, files and columns call them
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("eval", "evaluation", "val", "valid", "validation", "dev"), "eval"),
    **dict.fromkeys(("test", "testing"), "test"),
}

"""What the user says of the files, so that it is not guessed."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from beamfeed.contract.errors import UserError, near_miss

NO_LABEL = "none"


@dataclass(frozen=True)
class Options:
    """The options of `beamfeed init`; None where it is to guess.

    Attributes:
      label: the column to learn; `none` for none.
      time: the column of times.
      asset: the column that says which rows belong together.
      kind: of the source.
    """

    label: str | None = None
    time: str | None = None
    asset: str | None = None
    kind: str | None = None

    @property
    def columns(self) -> dict[str, str]:
        """The columns that are named, by the option."""
        label = None if self.label == NO_LABEL else self.label
        named = {"label": label, "time": self.time, "asset": self.asset}
        return {option: name for option, name in named.items() if name is not None}

    def check(self, columns: Sequence[str]) -> None:
        """Raises UserError if a column that is named is none of these, or two options name one."""
        for option, name in self.columns.items():
            if name not in columns:
                has = f"the files have: {', '.join(columns)}"
                raise UserError(f"--{option} {name}: is not a column of the files{near_miss(name, columns)} ({has})")
        for (first, name), (second, other) in combinations(self.columns.items(), 2):
            if name == other:
                raise UserError(f"--{first} and --{second} are both {name}; a column is one of them")

    def check_arrays(self, names: Sequence[str]) -> str | None:
        """The label, in small letters as arrays are called; `none` for none, None where it is to be guessed.

        Raises:
          UserError: if it is none of them, or a column is named that arrays have not.
        """
        for option, name in self.columns.items():
            if option != "label":
                raise UserError(
                    f"--{option} {name}: arrays have no such column; source.keys of the job file names some"
                )
            if name.lower() not in names:
                raise UserError(f"--label {name}: is no array{near_miss(name, names)} (there are: {', '.join(names)})")
        return self.label and self.label.lower()

    def check_images(self) -> None:
        """Raises UserError where images have no such column."""
        for option, name in self.columns.items():
            raise UserError(
                f"--{option} {name}: images have no columns, their folders are their classes; "
                "source.list of the job file names a table of labels"
            )

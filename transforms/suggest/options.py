"""What the user says of the files, so that it is not guessed."""

from collections.abc import Sequence
from dataclasses import dataclass

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
        named = {"label": self.label, "time": self.time, "asset": self.asset}
        return {
            option: name for option, name in named.items() if name is not None and (option, name) != ("label", NO_LABEL)
        }

    def check(self, columns: Sequence[str]) -> None:
        """Raises UserError if a column that is named is none of these, or two options name one."""
        for option, name in self.columns.items():
            if name not in columns:
                has = f"the files have: {', '.join(columns)}"
                raise UserError(f"--{option} {name}: is not a column of the files{near_miss(name, columns)} ({has})")
        names = list(self.columns.values())
        if twice := [name for name in names if names.count(name) > 1]:
            first, second = [option for option, name in self.columns.items() if name == twice[0]][:2]
            raise UserError(f"--{first} and --{second} are both {twice[0]}; a column is one of them")

    def check_images(self) -> None:
        """Raises UserError where images have no such column."""
        for option, name in self.columns.items():
            raise UserError(
                f"--{option} {name}: images have no columns, their folders are their classes; "
                "source.list of the job file names a table of labels"
            )

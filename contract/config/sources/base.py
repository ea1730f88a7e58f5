"""What every kind of source has in the job file."""

from typing import Annotated, ClassVar

from pydantic import Field

from beamfeed.contract.config.section import Section


class SourceSection(Section):
    """Which files to read, and what they hold.

    A kind adds its own keys, and narrows `kind` to a Literal of its name.

    Attributes:
      suffixes: of the files that the kind reads.
      sections: of the job file beside those that every kind has: those that this kind uses; True where the
        section must be given.
      split_by: the values of `split.by` that the kind knows: asset, and others only if its source sees to them.
    """

    suffixes: ClassVar[tuple[str, ...]] = ()
    sections: ClassVar[dict[str, bool]] = {}
    split_by: ClassVar[tuple[str, ...]] = ("asset",)

    kind: str = Field(description="What the files hold.")
    files: str = Field(min_length=1, description="Local or gs:// file, glob (** crosses folders) or folder.")
    max_assets: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="Only the first N assets: a smoke test."
    )
    renamed: ClassVar[dict[str, str]] = {"prune": "max_assets"}

"""What the sections of a dataset's files are: strict, so that what another version wrote is seen, and frozen."""

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """A mapping in a file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

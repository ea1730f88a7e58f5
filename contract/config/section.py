"""What every section of the job file is: strict, frozen, and able to name a key that has a new name."""

from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field

Fraction = Annotated[float, Field(ge=0, le=1)]
Duration = str | int | float


class Section(BaseModel):
    """A mapping of the job file.

    Attributes:
      renamed: old names of keys, each with its new one; an old one is refused with a pointer to the new one.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False, protected_namespaces=())
    renamed: ClassVar[dict[str, str]] = {}

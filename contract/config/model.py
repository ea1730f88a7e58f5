"""The section `train.model`: a model of Beamfeed's, or one of the user's own."""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from beamfeed.contract.config.section import Section


class RecurrentAutoencoder(Section):
    """Beamfeed's own model: recurrent layers down to a latent state and up again."""

    name: Literal["recurrent_autoencoder"] = Field(description="Says that it is this model.")
    cell: Literal["lstm", "gru"] = Field(default="lstm", description="The kind of recurrent layer.")
    units: list[Annotated[int, Field(ge=1)]] = Field(default=[64], min_length=1, description="Units of each layer.")
    latent: Annotated[int, Field(ge=1)] = Field(
        default=16, description="Size of the state that a window is compressed to."
    )


class CustomModel(Section):
    """A model of the user's own. Only the trainer imports its module."""

    class_: str = Field(
        alias="class", description="package.module:Class, built as Class(length=..., features=..., **args)."
    )
    args: dict[str, Any] = Field(default={}, description="Further keyword arguments of the class.")

    @model_validator(mode="before")
    @classmethod
    def _only_class_and_args(cls, value: Any) -> Any:
        if isinstance(value, dict):
            if "name" in value:
                raise ValueError("give either 'name', for the built-in model, or 'class', for your own")
            if unknown := [str(key) for key in value if key not in ("class", "args")]:
                raise ValueError(f"unknown key {', '.join(unknown)} beside 'class' (allowed: class, args)")
        return value

    @field_validator("class_")
    @classmethod
    def _names_module_and_class(cls, value: str) -> str:
        module, colon, name = value.partition(":")
        if not colon or not all(part.isidentifier() for part in [*module.split("."), name]):
            raise ValueError(f"{value!r} must be module:Class, such as my_package.my_module:MyModel")
        return value

    @field_validator("args")
    @classmethod
    def _shape_is_given(cls, value: dict[str, Any]) -> dict[str, Any]:
        if taken := [key for key in ("length", "features") if key in value]:
            raise ValueError(f"{' and '.join(taken)}: the dataset says this, leave it out")
        return value

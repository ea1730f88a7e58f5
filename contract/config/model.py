"""The section `train.model`. One class a model, and the one place that looks a model up."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from beamfeed.contract.config.section import FilePath, OneOf, Positive, Section, names_code

DropoutRate = Annotated[float, Field(ge=0, lt=1)]


class ModelSection(Section):
    """A model: Beamfeed's own by `name`, the user's by `class`."""

    @property
    def bare(self) -> Self:
        """The same model, which reads no weights: for who has them already."""
        return self


class Autoencoder(ModelSection):
    """What autoencoders of windows have in common."""

    latent: Positive = Field(default=16, description="Size of the state that a window is compressed to.")
    linear: bool = Field(default=True, description="Adds a linear path, which begins as PCA of training windows.")


class RecurrentAutoencoder(Autoencoder):
    """Recurrent layers down to a latent state and up again, for the task reconstruct."""

    name: Literal["recurrent_autoencoder"] = Field(description="Says that it is this model.")
    cell: Literal["lstm", "gru"] = Field(default="lstm", description="The kind of recurrent layer.")
    units: list[Positive] = Field(default=[64], min_length=1, description="Units of each layer.")


class DenseAutoencoder(Autoencoder):
    """Dense layers over all numbers of a window down to a latent state and up again, for the task reconstruct."""

    name: Literal["dense_autoencoder"] = Field(description="Says that it is this model.")
    units: list[Positive] = Field(
        default=[256], min_length=1, description="Units of each layer on the way down; the way up has them in reverse."
    )
    dropout: DropoutRate = Field(default=0.0, description="Dropout rate of each layer.")


class Ensemble(ModelSection):
    """What models that can be several networks have in common."""

    members: Annotated[int, Field(ge=1, le=64)] = Field(
        default=1,
        description="Number of networks, trained independently but for embeddings of categories; the output is their "
        "mean. Training time grows with it. Not for forecasts.",
    )


class Recurrent(Ensemble):
    """Recurrent layers over a window, with a head on their last state for each target; forecasts add a linear part."""

    name: Literal["recurrent"] = Field(description="Says that it is this model.")
    cell: Literal["lstm", "gru"] = Field(default="lstm", description="The kind of recurrent layer.")
    units: list[Positive] = Field(default=[64], min_length=1, description="Units of each layer.")
    dense: list[Positive] = Field(
        default=[], description="Units of further layers between the last state and the outputs."
    )
    dropout: DropoutRate = Field(default=0.0, description="Dropout rate of each layer.")


class DLinear(ModelSection):
    """Linear maps over time of trend and rest, the same for all columns (Zeng et al. 2022), for the task forecast."""

    name: Literal["dlinear"] = Field(description="Says that it is this model.")
    trend: Positive = Field(
        default=25, description="Rows of the moving mean that is the trend; an odd number. 1: nothing is taken apart."
    )
    last: bool = Field(
        default=True,
        description="Takes the last row of a window off its rows and adds it to the forecast: it follows a level that "
        "training did not have.",
    )

    @field_validator("trend")
    @classmethod
    def _has_a_middle(cls, value: int) -> int:
        if value % 2 == 0:
            raise ValueError(f"{value} rows have no middle one; give an odd number")
        return value


class Tabular(ModelSection):
    """An ensemble of dense networks over embeddings of numbers and categories, with a head for each target."""

    name: Literal["tabular"] = Field(description="Says that it is this model.")
    units: list[Positive] = Field(
        default=[128, 128],
        min_length=1,
        description="Units of each layer; one as wide as the one before has a skip connection.",
    )
    dropout: DropoutRate = Field(default=0.0, description="Dropout rate of each layer.")
    embedding: Positive | None = Field(
        default=None, description="Size of a category's embedding; left out, larger for columns of more categories."
    )
    bins: Annotated[int, Field(ge=0, le=256)] = Field(
        default=64,
        description="A number is embedded piecewise: linear within each of so many bins of the training values, with "
        "about as many of them each, at least 48. 0: numbers are taken as they are.",
    )
    members: Annotated[int, Field(ge=1, le=64)] = Field(
        default=8,
        description="Networks that share most weights, learn each by itself, and whose mean is the output. 1: one "
        "network, which trains in a fraction of the time.",
    )
    wide: bool = Field(
        default=False,
        description="Adds a linear model of numbers and categories (wide and deep, Cheng et al. 2016), as which "
        "training begins: ridge or logistic regression of training rows.",
    )


class Linear(ModelSection):
    """A weighted sum of numbers and categories, which begins as ridge or logistic regression."""

    name: Literal["linear"] = Field(description="Says that it is this model.")


class TextModel(ModelSection):
    """Word embeddings with layers over them, concatenated with the other inputs."""

    name: Literal["text"] = Field(description="Says that it is this model.")
    layer: Literal["convolution", "gru", "lstm", "mean"] = Field(
        default="convolution",
        description="Over the words: convolutions of several widths and the highest value of each, a recurrent layer "
        "in both directions, or the mean.",
    )
    embedding: Positive = Field(default=64, description="Size of the embedding of a word.")
    units: Positive = Field(default=64, description="Filters of each width, or units of the layer.")
    widths: list[Positive] = Field(default=[2, 3, 4], min_length=1, description="Of convolutions, in words.")
    dense: list[Positive] = Field(default=[], description="Units of the dense layers after them.")
    dropout: DropoutRate = Field(default=0.0, description="Dropout rate of each layer.")


class MultiInput(ModelSection):
    """Each input by itself, images through convolutions, then all through dense layers; a head for each output."""

    name: Literal["multi_input"] = Field(description="Says that it is this model.")
    filters: list[Positive] = Field(
        default=[32, 64],
        description="Of inputs [height, width] or [height, width, channels]: filters of each convolution of 3 by 3, "
        "after which the size is halved, as long as it can be. []: they are flattened, as other inputs are.",
    )
    units: list[Positive] = Field(default=[128], description="Units of the layers over the concatenated inputs.")
    dropout: DropoutRate = Field(default=0.0, description="Dropout rate of each layer.")


class Residual(Ensemble):
    """A small residual network (He et al. 2015) over images, with a head for each target."""

    name: Literal["residual"] = Field(description="Says that it is this model.")
    filters: list[Positive] = Field(
        default=[32, 64, 128],
        min_length=1,
        description="Filters of each stage; every stage after the first halves height and width.",
    )
    blocks: Positive = Field(
        default=2, description="Blocks in a stage, each of two convolutions with a skip connection."
    )
    stem: Literal[1, 2, 4] = Field(
        default=1, description="The first layer divides height and width by this: 1 for small images, 4 for large ones."
    )
    dense: list[Positive] = Field(
        default=[], description="Units of further layers between the mean over the image and the outputs."
    )
    dropout: DropoutRate = Field(default=0.0, description="Dropout rate before the outputs.")


class Application(ModelSection):
    """A network of keras.applications over images, without its last layer; nothing is downloaded."""

    name: Literal["application"] = Field(description="Says that it is this model.")
    network: str = Field(description="Its name in keras.applications, such as MobileNetV2.")
    weights: FilePath | None = Field(
        default=None,
        min_length=1,
        description="A file with weights of the network without its last layer (.weights.h5, or the .h5 files of "
        "keras.applications), local or gs://; left out, it is trained from scratch.",
    )
    frozen: bool = Field(default=False, description="Freeze its weights, and train only the layers after them.")
    dense: list[Positive] = Field(
        default=[], description="Units of further layers between the mean over the image and the outputs."
    )
    dropout: DropoutRate = Field(default=0.0, description="Dropout rate before the outputs.")

    @property
    def bare(self) -> Self:
        """Without `weights`."""
        return self.model_copy(update={"weights": None})

    @model_validator(mode="after")
    def _has_what_is_frozen(self) -> "Application":
        if self.frozen and self.weights is None:
            raise ValueError("frozen: goes with weights: what is frozen must have learned something")
        return self


class CustomModel(ModelSection):
    """A model of the user's own. Only the trainer imports its module."""

    class_: str = Field(alias="class", description="package.module:Class, see docs/own_model.md for its arguments.")
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
        return names_code(value, "Class", "my_package.my_module:MyModel")

    @field_validator("args")
    @classmethod
    def _shape_is_given(cls, value: dict[str, Any]) -> dict[str, Any]:
        if reserved := [key for key in ("length", "features", "inputs", "outputs") if key in value]:
            raise ValueError(f"{' and '.join(reserved)}: the dataset says this, leave it out")
        return value


# What makes it is in beamfeed/trainer/models/.
MODELS: tuple[type[ModelSection], ...] = (
    RecurrentAutoencoder, DenseAutoencoder, Recurrent, DLinear, Tabular, Linear, TextModel, Residual, Application,
    MultiInput, CustomModel,
)  # fmt: skip

Model = Annotated[ModelSection, OneOf("name", MODELS)]

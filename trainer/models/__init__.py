"""The models; `build` makes the one that the job names."""

from collections.abc import Callable
from typing import Any

import keras

from beamfeed.contract.config.model import (
    Application,
    CustomModel,
    DenseAutoencoder,
    DLinear,
    Linear,
    ModelSection,
    MultiInput,
    Recurrent,
    RecurrentAutoencoder,
    Residual,
    Tabular,
    TextModel,
)
from beamfeed.trainer.models.autoencoder import build_dense_autoencoder, build_recurrent_autoencoder
from beamfeed.trainer.models.custom import build_custom
from beamfeed.trainer.models.forecast import build_dlinear
from beamfeed.trainer.models.images import build_application, build_residual
from beamfeed.trainer.models.multi_input import build_multi_input
from beamfeed.trainer.models.recurrent import build_recurrent
from beamfeed.trainer.models.signature import Signature
from beamfeed.trainer.models.tabular import build_linear, build_tabular
from beamfeed.trainer.models.text import build_text

# The one look-up of models: the section of the job -> what makes it.
BUILDERS: dict[type[ModelSection], Callable[[Any, Signature], keras.Model]] = {
    RecurrentAutoencoder: build_recurrent_autoencoder,
    DenseAutoencoder: build_dense_autoencoder,
    Recurrent: build_recurrent,
    DLinear: build_dlinear,
    Tabular: build_tabular,
    Linear: build_linear,
    TextModel: build_text,
    MultiInput: build_multi_input,
    Residual: build_residual,
    Application: build_application,
    CustomModel: build_custom,
}


def build(section: ModelSection, signature: Signature, seed: int) -> keras.Model:
    """A built model with its first weights, which `seed` decides.

    Args:
      section: `train.model` of the job.
      signature: what the model gets, and what it must give.
      seed: becomes the seed of Keras, NumPy, Python and TensorFlow.

    Returns:
      A model with these inputs and outputs, see `Signature`.

    Raises:
      UserError: if the model does not fit the task, or is one of the user's own that cannot be made.
    """
    keras.utils.set_random_seed(seed)
    return BUILDERS[type(section)](section, signature)

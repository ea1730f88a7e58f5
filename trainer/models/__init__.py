"""The models, one per file; `build` makes the one that the job names."""

import keras

from beamfeed.contract.config.model import CustomModel
from beamfeed.contract.config.model import RecurrentAutoencoder as RecurrentAutoencoderSection
from beamfeed.trainer.models.custom import build_custom, find_encoder
from beamfeed.trainer.models.recurrent_autoencoder import recurrent_autoencoder


def build(section: RecurrentAutoencoderSection | CustomModel, length: int, features: int, seed: int) -> keras.Model:
    """A built model with its first weights, which `seed` decides.

    Args:
      section: `train.model` of the job.
      length: rows in a window.
      features: columns of a window.
      seed: becomes the seed of Keras, NumPy, Python and TensorFlow.

    Returns:
      A model from float32 `[batch, length, features]` to the same shape.

    Raises:
      UserError: if it is a model of the user's own that cannot be made.
    """
    keras.utils.set_random_seed(seed)
    match section:
        case CustomModel():
            return build_custom(section, length, features)
        case RecurrentAutoencoderSection():
            return recurrent_autoencoder(length, features, section.units, section.latent, section.cell)


def find_parts(model: keras.Model) -> tuple[keras.Layer | None, keras.Layer | None]:
    """The encoder of a model and its decoder, each None where there is none.

    The encoder is the model's attribute or layer of this name. The decoder counts
    only where the model is just `decoder(encoder(windows))`, so that running the
    two gives what the model gives, and the encoder need not be run twice.
    """
    encoder = find_encoder(model)
    steps = getattr(model, "operations", [])  # a functional model lists them; others do not tell
    if len(steps) == 3 and steps[1] is encoder and isinstance(steps[2], keras.Layer):
        return encoder, steps[2]
    return encoder, None

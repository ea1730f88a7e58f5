"""The models, one per file; `build` makes the one that the job names."""

import keras

from contract.job import RecurrentAutoencoder as RecurrentAutoencoderSection
from trainer.models.recurrent_autoencoder import RecurrentAutoencoder


def build(section: RecurrentAutoencoderSection, length: int, features: int, seed: int) -> keras.Model:
    """A built model with its first weights, which `seed` decides.

    Args:
      section: `train.model` of the job.
      length: rows in a window.
      features: columns of a window.
      seed: becomes the seed of Keras, NumPy, Python and TensorFlow.

    Returns:
      A model from float32 `[batch, length, features]` to the same shape.
    """
    keras.utils.set_random_seed(seed)
    match section.name:
        case "recurrent_autoencoder":
            model = RecurrentAutoencoder(length, features, section.units, section.latent, section.cell)
    model.build((None, length, features))
    return model

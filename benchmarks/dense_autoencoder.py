"""A model of the user's own for benchmarks/train.py: one whose steps are short."""

import keras
from keras import layers


@keras.saving.register_keras_serializable("dense_autoencoder")
class DenseAutoencoder(keras.Model):
    """Two dense layers down to a few numbers, and two back: `[batch, length, features]` -> the same shape."""

    def __init__(self, length, features, units=256, latent=8, **kwargs):
        super().__init__(**kwargs)
        self.settings = {"length": length, "features": features, "units": units, "latent": latent}
        self.encoder = keras.Sequential(
            [
                keras.Input((length, features)),
                layers.Flatten(),
                layers.Dense(units, activation="relu"),
                layers.Dense(latent),
            ]
        )
        self.decoder = keras.Sequential(
            [
                keras.Input((latent,)),
                layers.Dense(units, activation="relu"),
                layers.Dense(length * features),
                layers.Reshape((length, features)),
            ]
        )

    def call(self, windows, training=False):
        return self.decoder(self.encoder(windows, training=training), training=training)

    def get_config(self):
        return {**super().get_config(), **self.settings}

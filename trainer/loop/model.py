"""The model of a training run, ready to be trained as the job says."""

from collections.abc import Iterator
from contextlib import contextmanager

import keras

from beamfeed.contract.config.model import CustomModel
from beamfeed.contract.config.train import Train
from beamfeed.trainer import models
from beamfeed.trainer.models.custom import CLASS
from beamfeed.trainer.models.own_training import check_made_again, check_training
from beamfeed.trainer.models.recurrence import quicken
from beamfeed.trainer.models.signature import Signature


def make_model(train: Train, signature: Signature) -> keras.Model:
    """Builds the model and settles what its layers compute in, and by which operations.

    Call it in the strategy's scope.

    Raises:
      UserError: see `models.build`, `check_training` and `check_made_again`.
    """
    with computing_in(train.devices.precision):
        model = models.build(train.model, signature, train.seed)
        if isinstance(train.model, CustomModel):
            check_training(model, CLASS, train.model.class_, signature, train.devices)
            again = models.build(train.model.bare, signature, train.seed)
            check_made_again(model, again, CLASS, train.model.class_, signature.noise(2))
    if train.devices.xla:
        without_cudnn(model)
    elif not isinstance(train.model, CustomModel):
        # A user's own model may differentiate twice, which the quick layers cannot.
        quicken(model)
    return model


def without_cudnn(model: keras.Model) -> None:
    """Lets layers compute by operations that XLA can compile: kernels of cuDNN it cannot."""
    for layer in model._flatten_layers():
        if getattr(layer, "use_cudnn", False):
            layer.use_cudnn = False


@contextmanager
def computing_in(precision: str) -> Iterator[None]:
    """Keras makes layers that compute in this precision; their weights stay float32."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(precision)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)

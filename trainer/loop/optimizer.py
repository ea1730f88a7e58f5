"""The optimizer and its learning rate, as a job's optimizer section asks for them."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow as tf

from beamfeed.contract.config.train import Optimizer, Schedule


class LearningRate(keras.optimizers.schedules.LearningRateSchedule):
    """A linear warm-up to `peak`, and then a decay to `final_fraction * peak`.

    With s the steps since the warm-up, over `decay_steps` (or those until the end of the run) and at most 1:
    constant 1, linear 1 - s, cosine (1 + cos(pi s)) / 2, each between `final_fraction` and
    1; exponential final_fraction ** s.
    """

    def __init__(self, peak: float, section: Schedule, steps: int):
        super().__init__()
        self._peak, self._section = peak, section
        self._decay_steps = section.decay_steps or max(1, steps - section.warmup_steps)

    def __call__(self, step: Any) -> tf.Tensor:
        section, step = self._section, tf.cast(step, tf.float32)
        lowest = section.final_fraction
        warm = tf.minimum(1.0, (step + 1) / max(1, section.warmup_steps)) if section.warmup_steps else 1.0
        done = tf.clip_by_value((step - section.warmup_steps) / self._decay_steps, 0.0, 1.0)
        match section.name:
            case "constant":
                share = tf.ones_like(done)
            case "linear":
                share = lowest + (1 - lowest) * (1 - done)
            case "cosine":
                share = lowest + (1 - lowest) * (1 + tf.cos(math.pi * done)) / 2
            case "exponential":
                share = tf.pow(lowest, done)
        return self._peak * warm * share

    def get_config(self) -> dict[str, Any]:
        return {"peak": self._peak, "section": self._section.model_dump(), "decay_steps": self._decay_steps}


def make_optimizer(
    section: Optimizer, weights: Sequence[keras.Variable], scale_loss: bool = False, steps: int = 1
) -> keras.optimizers.Optimizer:
    """The optimizer that the job names, built; to be made inside the strategy's scope.

    It applies gradients as they are: `beamfeed.trainer.loop.steps` has added up those of all
    replicas, and clipped the sum, before.

    Args:
      section: of the job.
      weights: of the model, those that are trained.
      scale_loss: whether gradients are of float16 and would underflow.
      steps: of the whole run, where a schedule that does not say how long it is ends with it.
    """
    kinds = {
        "adam": keras.optimizers.Adam,
        "adamw": keras.optimizers.AdamW,
        "sgd": keras.optimizers.SGD,
        "rmsprop": keras.optimizers.RMSprop,
    }
    decay = {} if section.weight_decay is None else {"weight_decay": section.weight_decay}
    rate: Any = section.learning_rate
    if section.schedule is not None:
        rate = LearningRate(section.learning_rate, section.schedule, steps)
    average = {} if section.ema is None else {"use_ema": True, "ema_momentum": section.ema}
    optimizer = kinds[section.name](rate, **decay, **average)
    if optimizer.weight_decay:
        # Biases, and offsets and scales of normalization: pulled to 0, they would say less, not something simpler.
        # That of a GRU has two dimensions, so it is known by its name.
        undecayed = [weight for weight in weights if len(weight.shape) <= 1 or weight.name == "bias"]
        optimizer.exclude_from_weight_decay(var_list=undecayed)
    # Keras would add the gradients up among replicas, which is done already. It
    # has no switch for that; tests compare several replicas with one.
    optimizer._all_reduce_sum_gradients = lambda pairs: pairs
    built = keras.optimizers.LossScaleOptimizer(optimizer) if scale_loss else optimizer
    built.build(weights)
    return built


def _averages(model: keras.Model, optimizer: keras.optimizers.Optimizer) -> list[tuple[keras.Variable, keras.Variable]]:
    """Each weight and its moving average; none where the optimizer keeps none, or has made no step."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    if not inner.use_ema or not int(inner.iterations.numpy()):  # each may be skipped, as its gradients overflow
        return []
    return list(zip(model.trainable_variables, inner._model_variables_moving_average, strict=True))


def keep_averages(model: keras.Model, optimizer: keras.optimizers.Optimizer) -> None:
    """The weights of the model become their moving averages, where the optimizer keeps them."""
    for weight, average in _averages(model, optimizer):
        weight.assign(average.numpy())


@contextmanager
def averaged(model: keras.Model, optimizer: keras.optimizers.Optimizer) -> Iterator[None]:
    """In the block, the weights of the model are their moving averages, where the optimizer keeps them."""
    pairs = _averages(model, optimizer)
    weights = [weight.numpy() for weight, _ in pairs]
    keep_averages(model, optimizer)
    try:
        yield
    finally:
        for (weight, _), value in zip(pairs, weights, strict=True):
            weight.assign(value)


def state_of(optimizer: keras.optimizers.Optimizer) -> dict[str, keras.Variable]:
    """The variables that belong to a checkpoint, by names that do not depend on the rate.

    The rate does not belong to them: the job says it, and a constant one is a variable where a schedule is none.
    """
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    saved = [variable for variable in optimizer.variables if variable is not inner._learning_rate]
    return {f"{number:04d}": variable for number, variable in enumerate(saved)}


def learning_rate(optimizer: keras.optimizers.Optimizer) -> float:
    """The rate of the next step."""
    rate = getattr(optimizer, "inner_optimizer", optimizer).learning_rate
    return float((rate.value if isinstance(rate, keras.Variable) else rate).numpy())

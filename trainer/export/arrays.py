"""The SavedModel of a training run on arrays: it takes inputs by name, as the files have them.

It holds a copy of the dataset's transform graph, which scales those inputs that were scaled. What the job decodes is
then decoded as in training.
"""

from typing import Any

import keras
import tensorflow as tf

from beamfeed.contract.config.sources.array import ROW
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.trainer.export.stored import Outputs, StoredServing
from beamfeed.trainer.export.transform import load_transform
from beamfeed.trainer.tasks.objective import Objective


class ArrayServing(StoredServing):
    """The exported module. Its functions are the signatures; docs/serving.md describes them.

    Args:
      model: of the objective's signature.
      objective: what was learned, and so what the functions return.
      transform: the folder of the dataset's transform graph.
    """

    def __init__(self, model: keras.Model, objective: Objective, transform: str):
        super().__init__(model, objective)
        self.transform: Any = load_transform(transform)
        (specs,), _ = self.transform.transform_fn.structured_input_signature
        self._scaled = [name for name in specs if name != ROW]

    def served(self) -> dict[str, tf.TensorSpec]:
        """Of what `serving_default` takes: scaled inputs are float32 before they are scaled, too."""
        return {
            name: tf.TensorSpec(spec.shape, tf.float32, name) if name in self._scaled else spec
            for name, spec in super().served().items()
        }

    def stored(self) -> dict[str, tf.TensorSpec]:
        """Of inputs as records hold them, by name."""
        return super().served()

    def raw_arguments(self) -> tuple[str, dict[str, tf.TensorSpec]]:
        """The signature that takes rows as the files have them, and its arguments by input."""
        return "serving_default", self.served()

    def run_served(self, fields: dict[str, tf.Tensor]) -> Outputs:
        """Inputs by name, `[batch, ...]`, as the files have them; scaled ones as float32."""
        (batch, *_) = tf.unstack(tf.shape(next(iter(fields.values()))))
        given = {ROW: tf.zeros([batch], tf.int64), **{name: fields[name] for name in self._scaled}}
        scaled = self.transform.transform_fn(given)
        return super().run_served({**fields, **{name: scaled[name] for name in self._scaled}})


def takes_arrays(manifest: Manifest, transform: str) -> bool:
    """Whether rows of the dataset are told by their number alone, and it has a transform graph."""
    keys = [field.name for field in manifest.fields if (field.role, field.dtype, field.per) == ("key", "int64", "row")]
    return ROW in keys and tf.saved_model.contains_saved_model(transform)

"""Functions of the user's own in the graph of a table: from columns by name to fields by name."""

import tempfile
from contextlib import suppress

import tensorflow as tf
from tensorflow.python.framework import op_def_registry
from tensorflow_transform import impl_helper

from beamfeed.contract.config.features import Own
from beamfeed.contract.dataset.fields import Dtype, Field, is_field_name
from beamfeed.contract.dataset.transform_graph import find_reaching
from beamfeed.contract.errors import UserError
from beamfeed.contract.own_code import import_own, one_line
from beamfeed.transforms.sources.table.schema import NamedFeature

with suppress(RuntimeError):  # TensorFlow is in use already
    tf.config.set_visible_devices([], "GPU")  # a trainer needs its memory

_TYPES = {"number": tf.float32, "text": tf.string, "time": tf.int64}
_DTYPES: dict[tf.DType, Dtype] = {tf.float32: "float32", tf.int64: "int64", tf.string: "bytes"}


def call_own(feature: NamedFeature, inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """What the function of a feature makes of some columns, by the names of the fields.

    Raises:
      UserError: if it fails, or gives what can be no fields.
    """
    section = feature.section
    assert isinstance(section, Own)
    key = f"features.{feature.name}.function"
    function = import_own(section.function, key)
    try:
        outputs = function({name: inputs[name] for name in section.columns})
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        raise UserError(f"{key}: {section.function} fails: {one_line(error)}") from error
    if not isinstance(outputs, dict) or not outputs:
        raise UserError(f"{key}: {section.function} gives a {type(outputs).__name__}, it must give a dict of tensors")
    for name, tensor in outputs.items():
        message = f"{key}: {section.function} gives {name!r}"
        if not isinstance(name, str) or not is_field_name(name):
            raise UserError(f"{message}, and the name of a field is of letters, digits and _")
        if not isinstance(tensor, tf.Tensor):
            raise UserError(f"{message} as a {type(tensor).__name__}, it must be a tensor [batch, ...]")
        if tensor.dtype not in _DTYPES:
            kinds = ", ".join(dtype.name for dtype in _DTYPES)
            raise UserError(f"{message} as {tensor.dtype.name}, it must be one of {kinds}")
        if tensor.shape.rank is None or tensor.shape.rank < 1 or None in tensor.shape[1:]:
            raise UserError(f"{message} of shape {tensor.shape}, it must be [batch, ...] with sizes that are known")
    return outputs


def own_fields(feature: NamedFeature) -> list[Field]:
    """The fields that a function gives, as it says where it is traced without any data.

    Raises:
      UserError: as `call_own`; also if it would do more than compute, with which no graph is loaded.
    """
    section = feature.section
    assert isinstance(section, Own)
    specs = {name: tf.TensorSpec([None], _TYPES[reads], name=name) for name, reads in section.columns.items()}
    with tempfile.TemporaryDirectory() as folder:
        graph, _, outputs = impl_helper.trace_preprocessing_function(
            lambda inputs: call_own(feature, inputs), specs, use_tf_compat_v1=False, base_temp_dir=folder
        )
    operation = find_reaching(graph.as_graph_def(), op_def_registry.get)
    if operation is not None:
        raise UserError(
            f"features.{feature.name}.function: {section.function} uses the operation {operation}, which reaches "
            "beyond its values; a transform graph may only compute"
        )
    return [
        Field(name=name, dtype=_DTYPES[tensor.dtype], shape=tuple(tensor.shape[1:]), role="input")
        for name, tensor in sorted(outputs.items())
    ]

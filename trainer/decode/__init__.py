"""What is made of stored values before a model gets them: decoding, and in training augmentation."""

from collections.abc import Callable, Mapping
from typing import Any

from beamfeed.contract.config.train import Train
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.goals import inputs_of
from beamfeed.contract.dataset.inputs import IMAGE, check_inputs
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.trainer.decode.image import EncodedImages, Images, RawImages
from beamfeed.trainer.decode.preparation import Preparation

# The one look-up of decoders: `Field.content` -> what decodes it. Without a content, a field holds plain numbers.
DECODERS: Mapping[str, Callable[[Field, Any], Images]] = {IMAGE: EncodedImages, "": RawImages}


def preparation_of(train: Train, manifest: Manifest) -> Preparation | None:
    """What a job's `train.inputs` makes of a dataset's fields; None where models get them as they are stored.

    Raises:
      UserError: if the section does not fit the dataset.
    """
    check_inputs(train.inputs, manifest)
    decoders = {
        field.name: DECODERS[field.content](field, train.inputs[field.name])
        for field in inputs_of(manifest)
        if field.name in train.inputs
    }
    return Preparation(decoders, train.feed.seed, train.feed.batch_size) if decoders else None

"""Whether `train.inputs` fits a dataset, told in one line before TensorFlow is loaded."""

import pytest
from manifests import manifest_of
from pydantic import TypeAdapter

from beamfeed.contract.config.inputs import ImageInput
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.inputs import check_inputs
from beamfeed.contract.errors import UserError

ENCODED = Field(name="image", dtype="bytes", role="input", content="image")
RAW = Field(name="scan", dtype="uint8", shape=(8, 8, 3), role="input")
NUMBERS = Field(name="numbers", dtype="float32", shape=(4,), role="input")
SOUND = Field(name="sound", dtype="bytes", role="input", content="audio")


def check(fields, **inputs):
    check_inputs(TypeAdapter(dict[str, ImageInput]).validate_python(inputs), manifest_of(fields, {}))


@pytest.mark.parametrize(
    ("fields", "inputs", "message"),
    [
        ([ENCODED], {}, "train.inputs.image: is missing: the field holds encoded images"),
        ([ENCODED], {"image": {}}, "train.inputs.image.size: is missing, it must be height and width, such as"),
        ([ENCODED], {"image": {"size": [8, 8]}, "imge": {"size": [8, 8]}},
         "train.inputs.imge: the dataset has no input 'imge'; did you mean 'image'? (its images: image)"),
        ([NUMBERS], {"numbers": {}}, "train.inputs.numbers: the field 'numbers' holds no images (it has no images)"),
        ([RAW], {"scan": {"channels": 1}}, "train.inputs.scan.channels: is 1, the field 'scan' has 3"),
        ([SOUND], {}, "dataset tiny: the field 'sound' holds 'audio', which nothing decodes"),
        ([ENCODED, NUMBERS], {"image": {"size": [8, 8], "augment": {"mixup": 0.2}}},
         "train.inputs.image.augment.mixup: is for images alone, and a model also gets numbers"),
    ],
)  # fmt: skip
def test_what_does_not_fit(fields, inputs, message):
    with pytest.raises(UserError) as caught:
        check(fields, **inputs)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_what_fits():
    check([ENCODED, RAW, NUMBERS], image={"size": [8, 8], "augment": {"flip": "both"}})
    check([RAW], scan={"size": [4, 4], "channels": 3})
    check([RAW, NUMBERS])

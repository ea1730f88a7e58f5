"""The section `train.inputs`: how fields are decoded for a model. One class for each kind of content."""

from beamfeed.contract.config.inputs.image import ImageInput

# Of a field that the dataset holds encoded, or as raw pixels. What it does is in beamfeed/trainer/decode/.
InputSection = ImageInput

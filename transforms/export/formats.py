"""The one look-up of formats."""

from beamfeed.transforms.export.array_record import ArrayRecord
from beamfeed.transforms.export.base import Format
from beamfeed.transforms.export.numpy_files import NumpyFiles
from beamfeed.transforms.export.parquet import Parquet
from beamfeed.transforms.export.webdataset import WebDataset

FORMATS: dict[str, type[Format]] = {one.name: one for one in (Parquet, WebDataset, ArrayRecord, NumpyFiles)}

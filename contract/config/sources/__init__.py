"""The section `source`: which files, and what they hold. One class a kind, and the one place that looks a kind up."""

from typing import Annotated

from beamfeed.contract.config.section import OneOf
from beamfeed.contract.config.sources.array import ArraySource
from beamfeed.contract.config.sources.base import SourceSection
from beamfeed.contract.config.sources.image import ImageSource
from beamfeed.contract.config.sources.table import TableSource
from beamfeed.contract.config.sources.timeseries import TimeseriesSource

# A kind's class. What it does is in beamfeed/transforms/sources/<kind>/.
SOURCES: tuple[type[SourceSection], ...] = (TimeseriesSource, TableSource, ImageSource, ArraySource)

Source = Annotated[SourceSection, OneOf("kind", SOURCES)]

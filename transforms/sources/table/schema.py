"""Which columns of the files a job reads, what they are read as, and what every file must hold."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from beamfeed.contract.config.features import Categorical, Cross, Feature, Own, Pass, Text
from beamfeed.contract.config.section import Section
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.raw_values import RawValues
from beamfeed.contract.storage import FileStat
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.columns.label_counts import ClassCounts, settled
from beamfeed.transforms.sources.columns.labels import LabelColumn
from beamfeed.transforms.sources.columns.numbers import is_number
from beamfeed.transforms.sources.columns.time_units import TimeUnits
from beamfeed.transforms.sources.readers import TextOptions, require_columns


@dataclass(frozen=True)
class NamedFeature:
    """A feature of the job, and the columns that it is made from.

    Attributes:
      name: of the feature, as fields may be called.
      section: of the job.
      columns: one, or several of a cross.
      fields: that a function of the user's own gives.
    """

    name: str
    section: Section
    columns: tuple[str, ...]
    fields: tuple[Field, ...] = ()

    @property
    def required(self) -> bool:
        """Whether a row without a value is set aside: where the job says so, and where a model would get NaN."""
        section = self.section
        if isinstance(section, Pass) and (section.role, section.as_) == ("input", "number"):
            return True
        return isinstance(section, Feature) and section.required


@dataclass(frozen=True)
class TableSchema:
    """What a job reads of the files.

    Attributes:
      features: those of the job, globs resolved.
      numbers, texts: the columns that features read as such, in order.
      times: likewise, and what their values mean.
      labels: the columns of labels.
      key: the column whose rows belong together, if the job splits by it.
      split: the column of `split.column`.
      time: the column that the job splits by, if it does.
      partitions: the columns of output.partition_by.
      stratify: whether splits are stratified by the first label.
      booleans: columns that hold true and false in some file.
      whole: columns of categories where 7.0 is 7, as a dataset has them; None: all of them.
      of_path: the columns that paths tell, and files do not have.
      text: how texts are written.
      remarks: what was found out of the files that the user did not say.
      raw: what becomes of values as the files have them, for those who have rows as text later on.
      typical: a file whose values are written so, if one is known.
      kept_columns: columns that are kept as the files have them, and their types; also the number of each row is,
        unless this is None.
    """

    features: tuple[NamedFeature, ...]
    numbers: tuple[str, ...]
    texts: tuple[str, ...]
    times: Mapping[str, TimeUnits]
    labels: tuple[LabelColumn, ...] = ()
    key: str | None = None
    split: str | None = None
    time: str | None = None
    partitions: tuple[str, ...] = ()
    booleans: frozenset[str] = frozenset()
    whole: frozenset[str] | None = None
    stratify: bool = field(default=False, kw_only=True)
    of_path: frozenset[str] = frozenset()
    text: TextOptions = field(default=TextOptions(), kw_only=True)
    remarks: tuple[str, ...] = field(default=(), kw_only=True)
    raw: RawValues | None = field(default=None, kw_only=True)
    typical: FileStat | None = field(default=None, kw_only=True)
    kept_columns: Mapping[str, pa.DataType] | None = field(default=None, kw_only=True)

    @property
    def columns(self) -> list[str]:
        """All columns that are read, each once, also those that paths tell."""
        keys = [name for name in (self.key, self.split, self.time) if name is not None]
        labels = [label.column for label in self.labels]
        read = (*self.numbers, *self.texts, *self.times, *labels, *keys, *self.partitions, *(self.kept_columns or ()))
        return list(dict.fromkeys(read))

    @property
    def names(self) -> list[str]:
        """Those that files must have."""
        return [name for name in self.columns if name not in self.of_path] or sorted(self.of_path)

    @property
    def dated(self) -> frozenset[str]:
        """Columns of times that features read."""
        return frozenset(column for feature in self.features for column in feature.columns) & frozenset(self.times)

    @property
    def prose(self) -> frozenset[str]:
        """Columns of texts, in which no word stands for a missing value."""
        return frozenset(feature.columns[0] for feature in self.features if isinstance(feature.section, Text))

    @property
    def categories(self) -> frozenset[str]:
        """Columns of text that nothing but categories is made of: there 7.0 is 7, which pandas writes so by chance."""
        categories, others = (
            {column for feature in self.features if isinstance(feature.section, kinds) for column in feature.columns}
            for kinds in ((Categorical, Cross), (Pass, Own, Text))
        )
        return frozenset(self.texts) & (categories - others if self.whole is None else self.whole)

    @property
    def optional(self) -> frozenset[str]:
        """None may be lacking."""
        return frozenset()

    @property
    def csv_types(self) -> dict[str, pa.DataType]:
        """The types that the columns of a text are parsed as; times are read from text."""
        types: dict[str, pa.DataType] = dict.fromkeys((*(self.kept_columns or ()), *self.partitions), pa.string())
        types |= {label.column: label.type for label in self.labels}
        types |= {name: pa.bool_() if name in self.booleans else pa.float32() for name in self.numbers}
        types |= {
            name: pa.float64() for name in self.kept_columns or () if name in self.numbers
        }  # a number of a customer fits
        texts = [*self.texts, *self.times, *(name for name in (self.key, self.split) if name)]
        return types | dict.fromkeys(texts, pa.string())

    def with_classes(self, counts: ClassCounts) -> "TableSchema":
        """The same with the classes of labels known that are `auto`: those that were counted."""
        return replace(self, labels=settled(self.labels, counts))

    def check(self, path: str, schema: pa.Schema) -> None:
        """Raises BadInput if a column is missing or of the wrong type."""
        require_columns(path, self.names, schema.names, self.optional)
        for name in self.names:
            type_ = schema.field(name).type
            if fault := self._fault(name, type_):
                raise BadInput(path, f"column {name}", fault)

    def _fault(self, name: str, type_: pa.DataType) -> str | None:
        if pa.types.is_null(type_):
            return None
        if name in self.numbers and not is_number(type_):
            return f"is {type_}, a number is needed"
        if name in self.times and (fault := self.times[name].fault(type_)):
            return f"{fault}, times or dates are needed"
        if pa.types.is_nested(type_):
            return f"is {type_}, single values are needed"
        for label in self.labels:
            if name == label.column and (fault := label.fault(type_)):
                return fault
        return None

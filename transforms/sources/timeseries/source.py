"""Sensor series as a kind of source: which of the folder's steps does what."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from beamfeed.contract import storage
from beamfeed.contract.config.job import Job
from beamfeed.contract.config.sources.timeseries import TimeseriesSource
from beamfeed.contract.config.split import SplitName
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.errors import JobFailed
from beamfeed.contract.imports import Later
from beamfeed.contract.storage import FileStat
from beamfeed.transforms.driver import Collection, Driver
from beamfeed.transforms.rejects import Reject
from beamfeed.transforms.sources.base import Source, Transform
from beamfeed.transforms.sources.descriptors import KnownAsset, Unit
from beamfeed.transforms.sources.overview import Overview
from beamfeed.transforms.sources.record_block import RecordBlock
from beamfeed.transforms.sources.timeseries.ahead import ahead_fields
from beamfeed.transforms.sources.timeseries.assets import asset_of_path, check_stems, path_columns
from beamfeed.transforms.sources.timeseries.classes import SeenClasses
from beamfeed.transforms.sources.timeseries.copies import RowCopies
from beamfeed.transforms.sources.timeseries.ongoing import go_on, known_of, may_go_on
from beamfeed.transforms.sources.timeseries.overview import look_over
from beamfeed.transforms.sources.timeseries.plan import SeriesAsset, cut_units, gather, split_by_path
from beamfeed.transforms.sources.timeseries.preprocess import SeriesWork, preprocess_unit
from beamfeed.transforms.sources.timeseries.records import ASSET as ASSET_FIELD
from beamfeed.transforms.sources.timeseries.records import LAST_TIME, check_names, record_fields
from beamfeed.transforms.sources.timeseries.resolve import resolve_schema
from beamfeed.transforms.sources.timeseries.sampling import scaling_of, training_rows
from beamfeed.transforms.sources.timeseries.scan import FileSlice, scan_file
from beamfeed.transforms.sources.timeseries.spec import PreprocessSpec
from beamfeed.transforms.sources.timeseries.survey import SeriesStatistics
from beamfeed.transforms.sources.timeseries.validate import SeriesReport, judge, validate_unit, why_empty
from beamfeed.transforms.sources.timeseries.verdict import (
    SeriesVerdict,
    accepted_classes,
    divide,
    find_unseen,
    set_aside,
)
from beamfeed.transforms.splits import split_of_value
from beamfeed.transforms.statistics.marks import Learned
from beamfeed.transforms.statistics.scaling import ASSET, FLEET, SCALE_FILE, SIZES, VALUES, Scaling, scale_rows

MANY_FLAT = 0.2  # of the assets; as many are worth a word


class Timeseries(Source[FileSlice, SeriesAsset, SeriesReport, SeriesVerdict, SeriesWork]):
    """Series of rows with a time; an asset's rows are divided into units of about 64 MB where files allow."""

    asset_field, time_field = ASSET_FIELD, LAST_TIME

    def __init__(self, spec: PreprocessSpec):
        super().__init__(spec.job)
        self._spec = spec

    @classmethod
    def of(cls, job: Job, files: Sequence[FileStat]) -> "Timeseries":
        check_names(job.label)
        assert isinstance(job.source, TimeseriesSource)
        check_stems([stat.path for stat in files], job.source.asset)
        return cls(PreprocessSpec.of(job, resolve_schema(job, files)))

    @classmethod
    def asset_of_path(cls, path: str, job: Job) -> str | None:
        assert isinstance(job.source, TimeseriesSource)
        return asset_of_path(path, job.source.asset)

    def value_of_path(self, path: str) -> str | None:
        column = self.job.split.column
        if self.job.split.by != "column" or column is None or self._spec.schema.split is not None:
            return None
        return path_columns(path, self._spec.source.asset).get(column)

    @property
    def remarks(self) -> Sequence[str]:
        return self._spec.schema.remarks

    def scan(self, file: FileStat, scratch: str) -> Iterable[FileSlice]:
        with self.scanning([file], scratch) as scan:
            return scan(file)

    @contextmanager
    def scanning(self, files: Sequence[FileStat], scratch: str) -> Iterator[Callable[[FileStat], Iterable[FileSlice]]]:
        split, schema = self.job.split, self._spec.schema
        by_path = split.column if split.by == "column" and schema.split is None else None
        with RowCopies(files, scratch) as copies:
            yield lambda file: scan_file(file, self._spec.source.asset, schema, by_path, scratch, copies)

    def gather(
        self, name: str, pieces: Sequence[FileSlice], split: SplitName | None, lost: Sequence[Reject]
    ) -> SeriesAsset | Reject:
        """As every kind does.

        Raises:
          JobFailed: where labels follow from the end of an asset, and a file that cannot be read may hold that of any.
        """
        derived = [label for label in self.job.label if label.derive]
        if self._spec.schema.asset is None:  # paths name the assets, and those of these files name none
            lost = ()
        if derived and lost:
            raise JobFailed(
                f"label.derive: {derived[0].derive} needs all rows of each asset, and {lost[0].file} may hold the last "
                f"ones of any: {lost[0].reason}; mend the file or leave it out"
            )
        return gather(name, pieces, split, self.job, self._spec.schema.time_units, merged=bool(lost))

    def plan(self, name: str, pieces: Sequence[FileSlice], lost: Sequence[Reject] = ()) -> SeriesAsset | Reject | None:
        """As every kind does; the files of an asset may be in several splits by their paths."""
        values = {piece.split_value for piece in pieces}
        if len({split_of_value(value, self.job.split) for value in values if value is not None}) < 2:
            return super().plan(name, pieces, lost)
        asset = self.gather(name, pieces, None, lost)
        return asset if isinstance(asset, Reject) else split_by_path(asset, self.job.split)

    @classmethod
    def may_go_on(cls, job: Job) -> bool:
        return may_go_on(job)

    def go_on(self, known: KnownAsset, tail: Sequence[FileSlice], new: Sequence[FileSlice]) -> SeriesAsset:
        return go_on(known, tail, new, self._spec)

    def known(self, asset: SeriesAsset) -> KnownAsset:
        return known_of(asset, self._spec)

    def counted(self, asset: SeriesAsset) -> int:
        return training_rows(asset)

    def in_fleet(self, asset: SeriesAsset, rows: int) -> SeriesAsset:
        return replace(asset, fleet_rows=rows) if self.job.prepare.scale.how == "robust" else asset

    def units(self, asset: SeriesAsset) -> Iterator[Unit[SeriesAsset]]:
        return cut_units(asset, self._spec.windowing, len(self._spec.schema.features))

    def size(self, unit: Unit[SeriesAsset]) -> int:
        return unit.rows * self._spec.row_bytes

    @property
    def zero(self) -> SeriesStatistics:
        return SeriesStatistics.zero(self._spec.schema)

    def validate(self, unit: Unit[SeriesAsset]) -> SeriesReport:
        return validate_unit(unit, self._spec)

    def judge(self, asset: SeriesAsset, reports: Iterable[SeriesReport]) -> SeriesVerdict:
        verdict, scale = judge(asset, reports, self._spec), self.job.prepare.scale
        if scale.per == "fleet" or not verdict.accepted:
            return verdict
        statistics = verdict.statistics
        return replace(verdict, scaling=scaling_of(statistics.moments, statistics.sample, scale, settled=True))

    def works(self, verdict: SeriesVerdict) -> Iterator[tuple[SeriesWork, int]]:
        return divide(verdict, self._spec)

    def review(self, driver: Driver, verdicts: Collection) -> Collection:
        labels = self._spec.schema.labels
        if not any(label.auto for label in labels):
            return verdicts
        classes = driver.flat_map("ClassesOfAccepted", verdicts, accepted_classes)
        unseen = driver.map(
            "FindUnseen", driver.once("UnseenOnce"), lambda _, every: find_unseen(every, labels), driver.every(classes)
        )
        nothing = SeenClasses.zero(labels)
        return driver.map("SetAside", verdicts, set_aside, driver.single(unseen), nothing)

    def learn(self, driver: Driver, verdicts: Collection) -> tuple[Collection, Any]:
        scale, features = self.job.prepare.scale, len(self._spec.schema.features)
        sums = self.add_up(driver, verdicts)
        fleet = driver.map("ScaleOfFleet", sums, lambda sums: scaling_of(sums.moments, sums.sample, scale))
        if scale.per == "fleet":
            return self._scaled(driver, sums, fleet), None
        accepted = driver.flat_map("Accepted", verdicts, lambda verdict: [verdict] if verdict.accepted else [])
        sizes = driver.flat_map("Sizes", accepted, lambda verdict: [verdict.scaling.sizes] if verdict.trains else [])
        sizes = driver.add_up("AddUpSizes", sizes, np.zeros((features, SIZES), np.int64))
        fleet = driver.map("WithUsual", fleet, Scaling.with_usual, driver.single(sizes))
        under = driver.map(
            "UnderMin",
            accepted,
            lambda verdict, fleet: verdict.scaling.count_under(fleet, scale.min_divisor),
            driver.single(fleet),
        )
        under = driver.add_up("AddUpUnderMin", under, np.zeros((3, features), np.int64))
        statistics = driver.map(
            "NoteUnderMin",
            self._scaled(driver, sums, fleet),
            lambda sums, under: replace(sums, under_min=tuple(map(tuple, under.tolist()))),
            driver.single(under),
        )
        named = driver.map("NameScale", accepted, lambda verdict: (verdict.asset.name, verdict.scaling))

        def write(named: Collection, scratch: str) -> Collection:
            from beamfeed.transforms.statistics.scale_file import write_scale_file

            return write_scale_file(named, scratch, fleet, scale.min_divisor)

        return statistics, driver.made(named, write)

    def _scaled(self, driver: Driver, sums: Collection, fleet: Collection) -> Collection:
        """The statistics with the scaling of the fleet in the place of the sample."""
        return driver.map(
            "DropSample", sums, lambda sums, scaling: replace(sums, sample=None, scaling=scaling), driver.single(fleet)
        )

    @property
    def graph(self) -> Later:
        scale, features = self.job.prepare.scale, len(self._spec.schema.features)
        return Later("beamfeed.transforms.statistics.scale:trace_scale", scale.per, scale.clip, features)

    def learned(self, statistics: SeriesStatistics, made: str) -> Learned:
        assert statistics.scaling is not None
        numbers: Learned = {FLEET: statistics.scaling.rows}
        return {**numbers, SCALE_FILE: storage.read_chunks(made)} if made else numbers

    def read(self, work: SeriesWork, made: str | None, statistics: SeriesStatistics) -> Iterator[RecordBlock]:
        scale, scaler = self.job.prepare.scale, None
        if made is not None:
            fleet = statistics.scaling
            assert fleet is not None
            scaling = fleet if work.scaling is None else work.scaling.at_least(fleet, scale.min_divisor)
            scaler = partial(scale_rows, rows=scaling.rows, clip=scale.clip)
        return preprocess_unit(work, self._spec.with_classes(statistics.classes), scaler)

    def read_with(self, work: SeriesWork, transform: Transform) -> Iterator[RecordBlock]:
        asset = {ASSET: pa.array([work.unit.asset.name])} if ASSET in transform.inputs else {}

        def scaler(values: np.ndarray) -> np.ndarray:
            scaled = transform({VALUES: values, **asset})[VALUES]
            assert isinstance(scaled, np.ndarray)
            return scaled

        return preprocess_unit(work, self._spec, scaler)

    def overview(self, assets: Sequence[SeriesAsset], statistics: SeriesStatistics) -> Overview:
        return look_over(assets, statistics, self._spec)

    def fields(self, statistics: SeriesStatistics) -> list[Field]:
        schema = self._spec.with_classes(statistics.classes).schema
        length, ahead, labels = self.job.windows.length, self._spec.ahead, self._spec.own_labels
        part = (0, length) if ahead else None
        of_windows = record_fields(schema.features, labels, schema.labels, schema.time_units.counts, part)
        if not ahead:
            return of_windows
        moments, scale = statistics.moments, self.job.prepare.scale
        scaling = statistics.scaling or scaling_of(moments, statistics.sample, scale)
        return [*of_windows, *ahead_fields(ahead, schema.features, length, moments, scaling.rows)]

    def stats(self, statistics: SeriesStatistics) -> dict[str, Any]:
        moments = statistics.moments
        features = moments.describe(self._spec.schema.features)
        for name, assets in zip(features, statistics.under_min[0], strict=False):
            features[name]["assets_under_min_divisor"] = assets
        effects = [] if statistics.clumps is None else statistics.clumps.design_effects()
        for name, effect in zip(features, effects, strict=False):
            if features[name]["missing"]:
                features[name]["missing_design_effect"] = effect
        return {"rows": moments.rows, "features": features}

    def notes_of(self, statistics: SeriesStatistics) -> list[str]:
        least = self.job.prepare.scale.min_divisor
        return [
            f"{name}: the scale of {lifted:,} of {assets:,} assets is under prepare.scale.min_divisor ({least:g} "
            "times the usual one), so they become flat; min_divisor: 0 takes each as it is"
            for name, lifted, assets in zip(self._spec.schema.features, *statistics.under_min[1:], strict=False)
            if lifted > MANY_FLAT * assets
        ]

    def why_empty(self, asset: SeriesAsset) -> str:
        return why_empty(self._spec)


SOURCE = Timeseries

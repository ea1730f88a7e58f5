"""A profile in words, as a table, a figure and JSON. Pure, but for the figure's file."""

import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from beamfeed.trainer.tools.inspect_dataset import table
from beamfeed.trainer.tools.profile_stages import OptionRate, StageRate
from beamfeed.trainer.tools.profile_steps import StepTimes

LITTLE = 0.02  # of a step: less waiting than this is none to speak of


@dataclass(frozen=True)
class Profile:
    """What was measured.

    Attributes:
      first_read: windows per second of reading the shards' bytes when the page cache does not have them.
      plain: windows per second without any option.
    """

    dataset: str
    batch: int
    shuffle: int
    bytes_per_window: float
    first_read: float
    stages: Sequence[StageRate]
    plain: float
    options: Sequence[OptionRate]
    steps: StepTimes | None

    @property
    def feed(self) -> float:
        """Windows per second of the whole feed."""
        return self.stages[-1].windows_per_second

    def to_json(self) -> dict:
        steps = self.steps and {**asdict(self.steps), "share_waiting": self.steps.share_waiting}
        return {**asdict(self), "steps": steps, "limit": limit(self)}


def describe(profile: Profile) -> list[str]:
    """The profile as lines of text; the last one says what limits."""
    megabytes = profile.bytes_per_window / 1e6
    head = ("up to the stage", "windows/s", "MB/s", "+ us/window")
    first = ("first read", round(profile.first_read), f"{profile.first_read * megabytes:,.0f}", "")
    stages = [
        (stage.name, round(stage.windows_per_second), f"{stage.megabytes_per_second:,.0f}",
         f"{stage.extra_microseconds:.3f}")
        for stage in profile.stages
    ]  # fmt: skip
    options = [
        (option.name, _times(option.alone, profile.plain), _times(option.flipped, profile.feed),
         "off" if option.name in ("interleave", "parallel map", "prefetch") else "on", option.note)
        for option in profile.options
    ]  # fmt: skip
    lines = [
        f"{profile.dataset}: batches of {profile.batch}, shuffle {profile.shuffle:,}; MB of shards",
        "",
        *table([head, first, *stages]),
        "",
        *(line.rstrip() for line in table([("option", "alone", "flipped", "", ""), *options])),
        f"alone: times the {profile.plain:,.0f} windows/s without any; flipped: times those of the whole feed",
        "",
    ]
    if profile.steps:
        steps = profile.steps
        lines += [
            *table(
                [
                    ("step", "ms", "windows/s"),
                    ("model alone", f"{1e3 * steps.resident:.2f}", round(profile.batch / steps.resident)),
                    ("fed", f"{1e3 * steps.fed:.2f}", round(profile.batch / steps.fed)),
                    ("of it waiting", f"{1e3 * steps.waiting:.2f}", ""),
                    ("of that asking alone", f"{1e3 * steps.asking:.2f}", ""),
                ]
            ),
            "",
        ]
    return [*lines, limit(profile)]


def _times(rate: float | None, base: float) -> str:
    return "-" if rate is None else f"{rate / base:.2f}x"


def limit(profile: Profile) -> str:
    """One sentence: what limits, and by how much."""
    slowest = max(profile.stages, key=lambda stage: stage.extra_microseconds)
    spent = 1e6 / profile.feed
    costs = f"{slowest.extra_microseconds:.2f} of {spent:.2f} us a window go to {_doing(slowest.name)}"
    if profile.first_read < 0.5 * profile.feed:
        rate = profile.first_read * profile.bytes_per_window / 1e6
        costs += f", in the first epoch storage gives {rate:,.0f} MB/s, {profile.first_read / profile.feed:.0%} of that"
    if profile.steps is None:
        return f"The feed gives {profile.feed:,.0f} windows/s; {costs}."
    steps, waiting = profile.steps, f"{profile.steps.share_waiting:.2%} of a training step is spent waiting for input"
    if steps.waiting - steps.asking < LITTLE * steps.fed:
        times = profile.feed * steps.resident / profile.batch
        return (
            f"The model limits: its step takes {1e3 * steps.resident:.1f} ms, the feed could give {times:,.0f} times "
            f"what that takes; {waiting}."
        )
    return f"The input limits: {costs}; {waiting}."


def _doing(stage: str) -> str:
    """The stage as a thing to do."""
    return {"read": "reading", "CRC": "records and their checksums", "parse": "parsing", "frame": "framing"}.get(
        stage, {"shuffle": "shuffling", "batch": "gathering batches"}.get(stage, "prefetching")
    )


def draw(profile: Profile) -> bytes:
    """The figure as a PNG: the rate up to each stage, and what each option is worth."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4), layout="constrained")
    FigureCanvasAgg(figure)
    stages, options = figure.subplots(1, 2)
    names = ["first read", *(stage.name for stage in profile.stages)]
    rates = [profile.first_read, *(stage.windows_per_second for stage in profile.stages)]
    stages.barh(names, rates, color=["0.7", *["C0"] * len(profile.stages)])
    if profile.steps:
        stages.axvline(profile.batch / profile.steps.resident, color="C3", label="what the model takes")
        stages.legend()
    stages.invert_yaxis()
    stages.set(title="the feed up to each stage", xlabel="windows/s", xscale="log")

    measured = [option for option in profile.options if option.alone is not None and option.flipped is not None]
    names = ["none", *(option.name for option in measured), "all, as in training"]
    alone = [profile.plain, *(option.alone or 0 for option in measured), profile.feed]
    options.barh(names, alone, color=["0.7", *["C0"] * len(measured), "C2"])
    options.invert_yaxis()
    options.set(title="one option by itself", xlabel="windows/s")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()

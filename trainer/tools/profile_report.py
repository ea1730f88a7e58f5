"""What the profile of a dataset says: tables, a sentence, and a picture. Pure; no TensorFlow."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

from beamfeed.contract.text import table
from beamfeed.trainer import figures

STEADY = 0.1  # by so much of their median, at most, may rounds of one figure differ
LITTLE = 0.02  # of a step: less waiting than this is none to speak of
DOING = {  # the stages as things to do
    "read": "reading", "CRC": "records and their checksums", "parse": "parsing", "frame": "framing",
    "shuffle": "shuffling", "batch": "gathering batches", "decode": "decoding", "augment": "augmenting",
    "prefetch": "prefetching",
}  # fmt: skip


class Figure(NamedTuple):
    """What was measured.

    Attributes:
      value: the median of the last rounds.
      spread: how far these are apart, as a part of it.
    """

    value: float
    spread: float

    @property
    def is_steady(self) -> bool:
        """Whether the rounds agree."""
        return self.spread <= STEADY


@dataclass(frozen=True)
class StageRate:
    """The feed up to a stage and no further."""

    name: str
    windows_per_second: float
    megabytes_per_second: float  # of the shards
    extra_microseconds: float  # per window, see `extra_times`
    spread: float = 0.0  # of the rate, see `Figure`


@dataclass(frozen=True)
class OptionRate:
    """What an option does to the windows per second; None where it was not measured, and the reason."""

    name: str
    alone: float | None  # it is on, and all others are off
    flipped: float | None  # all are as in training, but this one is the other way round
    note: str = ""
    spread: float = 0.0  # the larger one of the two


@dataclass(frozen=True)
class StepTimes:
    """Times of a step in seconds.

    Attributes:
      resident: of a step on one batch that is there already: the model alone.
      fed: of a step that takes the next batch first.
      waiting: of that, until the batch has come.
      asking: the same where the batch is there already: the call, and nothing to wait for.
      spread: of `resident` or of `fed`, the larger one, see `Figure`.
    """

    resident: float
    fed: float
    waiting: float
    asking: float
    devices: int
    spread: float = 0.0

    @property
    def share_waiting(self) -> float:
        """From 0 to 1."""
        return self.waiting / self.fed


@dataclass(frozen=True)
class Profile:
    """What was measured.

    Attributes:
      first_read: windows per second of reading the shards' bytes when the page cache does not have them.
      plain: windows per second without any option.
    """

    dataset: str
    batch_size: int
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

    @property
    def spread(self) -> float:
        """Of the stages' rates: how far the least steady one's rounds are apart."""
        return max(stage.spread for stage in self.stages)

    def to_json(self) -> dict:
        steps = self.steps and {**asdict(self.steps), "share_waiting": self.steps.share_waiting}
        return {**asdict(self), "steps": steps, "limit": limit(self)}


def describe(profile: Profile) -> list[str]:
    """The profile as lines of text; the last one says what limits."""
    megabytes = profile.bytes_per_window / 1e6
    head = ("up to the stage", "windows/s", "MB/s", "+ us/window", "")
    first = ("first read", round(profile.first_read), f"{profile.first_read * megabytes:,.0f}", "", "")
    stages = [
        (stage.name, round(stage.windows_per_second), f"{stage.megabytes_per_second:,.0f}",
         f"{stage.extra_microseconds:.3f}", _unsteady(stage.spread))
        for stage in profile.stages
    ]  # fmt: skip
    options = [
        (option.name, _times(option.alone, profile.plain), _times(option.flipped, profile.feed),
         "off" if option.name in ("interleave", "parallel map", "prefetch") else "on",
         option.note or _unsteady(option.spread))
        for option in profile.options
    ]  # fmt: skip
    lines = [
        f"{profile.dataset}: batches of {profile.batch_size}, shuffle {profile.shuffle:,}; MB of shards",
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
                    ("model alone", f"{1e3 * steps.resident:.2f}", round(profile.batch_size / steps.resident)),
                    ("fed", f"{1e3 * steps.fed:.2f}", round(profile.batch_size / steps.fed)),
                    ("of it waiting", f"{1e3 * steps.waiting:.2f}", ""),
                    ("of that asking alone", f"{1e3 * steps.asking:.2f}", ""),
                ]
            ),
            "",
        ]
    return [*lines, limit(profile)]


def _unsteady(spread: float) -> str:
    return f"not steady: {spread:.0%} apart" if spread > STEADY else ""


def _times(rate: float | None, base: float) -> str:
    return "-" if rate is None else f"{rate / base:.2f}x"


def limit(profile: Profile) -> str:
    """One sentence: what limits, and by how much; or that the figures do not say it."""
    if doubt := noise(profile):
        return doubt
    slowest = max(profile.stages, key=lambda stage: stage.extra_microseconds)
    spent = 1e6 / profile.feed
    costs = f"{slowest.extra_microseconds:.2f} of {spent:.2f} us a window go to {DOING[slowest.name]}"
    if profile.first_read < 0.5 * profile.feed:
        rate = profile.first_read * profile.bytes_per_window / 1e6
        costs += f", in the first epoch storage gives {rate:,.0f} MB/s, {profile.first_read / profile.feed:.0%} of that"
    if profile.steps is None:
        return f"The feed gives {profile.feed:,.0f} windows/s; {costs}."
    steps, waiting = profile.steps, f"{profile.steps.share_waiting:.2%} of a training step is spent waiting for input"
    if steps.waiting - steps.asking < LITTLE * steps.fed:
        times = profile.feed * steps.resident / profile.batch_size
        return (
            f"The model limits: its step takes {1e3 * steps.resident:.1f} ms, the feed could give {times:,.0f} times "
            f"what that takes; {waiting}."
        )
    if profile.spread > STEADY:
        costs = f"which stage costs most is not known, as their rates did not get steady ({profile.spread:.0%} apart)"
    return f"The input limits: {costs}; {waiting}."


def noise(profile: Profile) -> str | None:
    """Why nothing can be concluded from the figures, and what to do; None where something can."""
    again = "measure again when the machine has nothing else to do, or longer (--seconds 10)"
    steps = profile.steps
    if steps and steps.fed < (1 - STEADY) * steps.resident:
        return (
            f"No conclusion: a step that waits for its batch took {1e3 * steps.fed:.2f} ms, less than the model alone "
            f"({1e3 * steps.resident:.2f} ms), which cannot be; {again}."
        )
    spread = steps.spread if steps else profile.spread
    if spread > STEADY:
        return f"No conclusion: the figures did not get steady, the same one differs by {spread:.0%}; {again}."
    return None


def draw(profile: Profile) -> bytes:
    """The figure as a PNG: the rate up to each stage, and what each option is worth."""
    figure = figures.figure(11, 4)
    stages, options = figure.subplots(1, 2)
    names = ["first read", *(stage.name for stage in profile.stages)]
    rates = [profile.first_read, *(stage.windows_per_second for stage in profile.stages)]
    stages.barh(names, rates, color=["0.7", *["C0"] * len(profile.stages)])
    if profile.steps:
        stages.axvline(profile.batch_size / profile.steps.resident, color="C3", label="what the model takes")
        stages.legend()
    stages.invert_yaxis()
    stages.set(title="the feed up to each stage", xlabel="windows/s", xscale="log")

    measured = [option for option in profile.options if option.alone is not None and option.flipped is not None]
    names = ["none", *(option.name for option in measured), "all, as in training"]
    alone = [profile.plain, *(option.alone or 0 for option in measured), profile.feed]
    options.barh(names, alone, color=["0.7", *["C0"] * len(measured), "C2"])
    options.invert_yaxis()
    options.set(title="one option by itself", xlabel="windows/s")
    return figures.png(figure)

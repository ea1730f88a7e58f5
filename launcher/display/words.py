"""Lines about stages and their steps, and numbers and times as people read them."""

from beamfeed.launcher.progress import StageProgress, Step


def label(stage: str, step: str) -> str:
    """`preprocess: write`; a step with the name of its stage is not named twice."""
    return stage if step in ("", stage) else f"{stage}: {step}"


def ended_line(stage: str, step: Step, width: int | None = None) -> str:
    """A step that has ended: `preprocess: write: 12 assets, 240,000 rows in 3.1 s (77,419 rows/s)`.

    The rate is left out where the terminal has not the `width` for it.
    """
    seconds = (step.ended or step.started) - step.started
    counts = ", ".join(f"{count:,} {unit}" for count, unit in step.counts())
    line = f"{label(stage, step.name)}: {counts} in {seconds:.1f} s"
    rate = f" ({step.rows / seconds:,.0f} rows/s)" if step.rows and seconds >= 0.1 else ""
    return line + rate if width is None or len(line + rate) <= width else line


def going_line(stage: StageProgress, step: Step, now: float) -> str:
    """A step that goes on: `preprocess: write: 48,000 of 240,000 rows (20 %), 15,210 rows/s, 0:12 left`."""
    done, total, unit = step.measure()
    of = "" if total is None else f" of {total:,}"
    share = f" ({done * 100 // total} %)" if total else ""
    parts = [f"{label(stage.name, step.name)}: {done:,}{of} {unit}{share}"]
    if (rate := step.rate()) is not None:
        parts.append(f"{rate_text(rate)} {unit}/s")
    if step.note:
        parts.append(step.note)
    if (left := step.seconds_left(now)) is not None:
        parts.append(f"{clock(left)} left")
    return ", ".join(parts)


def rate_text(rate: float) -> str:
    """`77,419`, and `0.25` of what is slow."""
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"


def short(count: int) -> str:
    """`812`, `3.4k`, `240k`, `1.2M`: where there is no room for all digits."""
    value = float(count)
    for unit in ("", "k", "M", "G", "T"):
        if value < 999.5 or unit == "T":
            return f"{value:.0f}{unit}" if not unit or value >= 99.95 else f"{value:.1f}{unit}"
        value /= 1000
    raise AssertionError


def clock(seconds: float) -> str:
    """`0:07`, `12:30`, `1:02:03`."""
    rounded = max(0, round(seconds))
    hours, minutes = rounded // 3600, rounded // 60 % 60
    return f"{hours}:{minutes:02}:{rounded % 60:02}" if hours else f"{minutes}:{rounded % 60:02}"

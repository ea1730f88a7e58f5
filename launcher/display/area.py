"""The live area: what it shows of a stage, in at most two lines that fit the terminal. Nothing here draws."""

from beamfeed.launcher.display.words import clock, label, rate_text, short
from beamfeed.launcher.progress import StageProgress, Step

BAR, LEAST_BAR = 30, 8  # cells
PULSE = 6  # cells of a bar of which nothing is known
GAP = "  "

Part = tuple[str, str]  # a text and its style


Marks = tuple[str, str]  # what the full part of a bar is drawn with, and the empty one
LINES, ASCII = ("━", "─"), ("#", "-")


def area(stage: StageProgress, now: float, began: float, width: int, marks: Marks = LINES) -> list[list[Part]]:
    """The lines of the area.

    Args:
      stage: that runs.
      now: `time.monotonic`.
      began: when the run did.
      width: columns that a line may have.
      marks: what to draw with.
    """
    step = stage.step()
    counted = step is not None and not (stage.phase and step.ended is not None)
    first = _step(stage, step, now, width, marks) if step and counted else _phase(stage, now, width, marks)
    words = [f"stage {stage.number} of {stage.of}", f"{clock(now - began)} so far"]
    if (left := stage.run_left(now)) is not None and not stage.phase:
        words.append(f"about {clock(left)} left")
    if width < LEAST_BAR:
        return [cut(first, width)]
    return [cut(first, width), cut([(f"run: {', '.join(words)}", "dim")], width)]


def _phase(stage: StageProgress, now: float, width: int, marks: Marks) -> list[Part]:
    """`train: exporting  ---====----`: a piece that moves says that something goes on."""
    name = f"{stage.name}: {stage.phase or 'starting'}"
    size = min(BAR, width - len(name) - len(GAP))
    if size < LEAST_BAR:
        return [(name, "bold")]
    at = int((now - stage.started) * 4) % (size - PULSE + 1)
    full, empty = marks
    bar = [(empty * at, "dim"), (full * PULSE, "cyan"), (empty * (size - PULSE - at), "dim")]
    return [(name, "bold"), (GAP, ""), *bar]


def _step(stage: StageProgress, step: Step, now: float, width: int, marks: Marks) -> list[Part]:
    """The step's name, its bar, and as much of the rest as there is room for, the most wanted first."""
    done, total, unit = step.measure()
    name = label(stage.name, stage.phase or step.name)
    parts = {"share": f"{done * 100 // total:3} %" if total else ""}
    room = width - len(name) - len(GAP) - LEAST_BAR - sum(len(GAP) + len(text) for text in parts.values())
    left, rate = (None, None) if stage.phase else (step.seconds_left(now), step.rate())
    by_priority = {
        "left": "" if left is None else f"{clock(left)} left",
        "rate": "" if rate is None else f"{rate_text(rate)} {unit}/s",
        "count": (f"{short(done)}/{short(total)}" if total else f"{short(done)}") + f" {unit}",
        "note": step.note,
    }
    for key, text in by_priority.items():
        if text and len(GAP) + len(text) <= room:
            parts[key] = text
            room -= len(GAP) + len(text)
    shown: list[Part] = [(name, "bold"), (GAP, "")]
    if total:
        size = min(BAR, LEAST_BAR + max(0, room))
        cells = done * size // total
        full, empty = marks
        shown += [(full * cells, "green"), (empty * (size - cells), "dim")]
    styles = {"share": "", "count": "", "rate": "cyan", "note": "", "left": "yellow"}
    for key, style in styles.items():
        if parts.get(key):
            shown += [(GAP, ""), (parts[key], style)]
    return shown


def cut(parts: list[Part], width: int) -> list[Part]:
    """As much of a line as fits."""
    fitting = []
    for text, style in parts:
        fitting.append((text[:width], style))
        width -= len(fitting[-1][0])
    return [part for part in fitting if part[0]]

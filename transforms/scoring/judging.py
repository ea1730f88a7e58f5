"""How well scores find events that are known: one asset at a time, all thresholds at once. Pure."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from beamfeed.transforms.scoring.alarms import intervals
from beamfeed.transforms.scoring.tails import MOST_RARE
from beamfeed.transforms.scoring.vus import vus_pr

STEP = 1e-3  # scores that differ by less are one threshold; beyond LINEAR, those that do by a thousandth of them
LINEAR = 50.0
BINS = 60_000  # thresholds up to MOST_RARE, the last one stands for all above
MOST_BUFFER = 100  # rows, the largest of VUS-PR


class Counts:
    """How many rows and events have a score, int64 `[BINS]`: summed up, how many are at or over it.

    Attributes:
      inside, outside: rows of events, and others.
      adjusted: rows of events, each with the highest score of its event.
      events: each at its highest score.
    """

    def __init__(self) -> None:
        self.inside, self.outside, self.adjusted, self.events = np.zeros((4, BINS), np.int64)

    def add(self, scores: np.ndarray, unusual: np.ndarray) -> np.ndarray:
        """Some rows, `[n]`: their scores and which are of events; returns the places in counts."""
        bins = bins_of(scores)
        np.add.at(self.inside, bins[unusual], 1)
        np.add.at(self.outside, bins[~unusual], 1)
        return bins

    def add_event(self, highest: int, rows: int) -> None:
        """An event of so many rows, and the place of its highest score."""
        self.events[highest] += 1
        self.adjusted[highest] += rows


def bins_of(scores: np.ndarray) -> np.ndarray:
    """The last threshold that each score `[n]` reaches, int64; the higher, the higher."""
    linear, places = np.clip(scores, 0, LINEAR) / STEP, BINS - LINEAR / STEP
    beyond = places * np.log(np.maximum(scores, LINEAR) / LINEAR) / np.log(MOST_RARE / LINEAR)
    return np.minimum(linear + beyond, BINS - 1).astype(np.int64)


def at_or_over(counts: np.ndarray) -> np.ndarray:
    """From how many have each score, int64 `[BINS]`, how many have it or a higher one."""
    return counts[::-1].cumsum()[::-1]


@dataclass
class Event:
    """What was seen of an event: its rows, the places of its highest score and of that of random scores, the delay."""

    rows: int = 0
    highest: int = 0
    of_random: int = 0
    delay: int | None = None


class Judge:
    """Compares scores with known events.

    Args:
      events: of each asset, float64 `[events, 2]`, the times of the first and the last row of each, none overlapping.
      length: rows of a window.

    Attributes:
      unseen: assets that have events, and no rows so far.
    """

    def __init__(self, events: Mapping[str, np.ndarray], length: int):
        self._events, self._buffer, self.unseen = events, min(length, MOST_BUFFER), set(events)
        self._counts, self._random = Counts(), Counts()
        self._rng = np.random.default_rng(0)
        self._vus: list[tuple[float, int]] = []
        self._by_event: defaultdict[tuple[str, int], Event] = defaultdict(Event)
        self._flags = np.zeros(3, np.int64)  # flagged rows of events and others, flagged intervals that touch no event

    def add(self, asset: str, time: np.ndarray, scores: np.ndarray, flagged: np.ndarray) -> None:
        """Rows of an asset that follow each other, `[rows]`: their rising times, scores, and which are flagged."""
        self.unseen.discard(asset)
        events = self._events.get(asset, np.empty((0, 2)))
        edges = (np.searchsorted(time, events[:, 0]), np.searchsorted(time, events[:, 1], side="right"))
        parts = np.stack(edges, axis=1).tolist()
        unusual = np.zeros(len(flagged), bool)
        for first, end in parts:
            unusual[first:end] = True
        scores = np.nan_to_num(scores)
        bins = self._counts.add(scores, unusual)
        of_random = self._random.add(self._rng.permutation(scores), unusual)
        for number, (first, end) in enumerate(parts):
            if first == end:
                continue
            event = self._by_event[asset, number]
            event.highest = max(event.highest, int(bins[first:end].max()))
            event.of_random = max(event.of_random, int(of_random[first:end].max()))
            if event.delay is None and flagged[first:end].any():
                event.delay = event.rows + int(flagged[first:end].argmax())
            event.rows += end - first
        alarms = sum(not unusual[first:end].any() for first, end in intervals(flagged, 1, 0).tolist())
        self._flags += [(flagged & unusual).sum(), (flagged & ~unusual).sum(), alarms]
        if unusual.any():
            self._vus.append((vus_pr(unusual, scores, self._buffer), len(scores)))

    def verdict(self) -> dict[str, float | int | None]:
        """How well they agree, to be asked once; None where nothing was found.

        `events` are those with scored rows, `without_rows` how many others the assets have that were seen.
        `unusual` is the share of rows that are in events: `auc_pr` of scores that know nothing. `vus_pr` is the mean
        over series with events, by their rows; `auc_pr` is the average precision of all rows, `auc_roc` the area under
        their ROC curve. `f1` is of rows, `composite_f1` of the recall of events and the precision of rows; at the
        threshold that was used, and (`best_...`) at the one that suits best. `best_adjusted_f1` takes all rows of an
        event as found if one is; `random_adjusted_f1` is the same of the same scores in random order.
        """
        for event in self._by_event.values():
            self._counts.add_event(event.highest, event.rows)
            self._random.add_event(event.of_random, event.rows)
        delays = [event.delay for event in self._by_event.values() if event.delay is not None]
        hits, misses, alarms = self._flags.tolist()
        of = {name: at_or_over(counts) for name, counts in vars(self._counts).items()}
        of_random = {name: at_or_over(counts) for name, counts in vars(self._random).items()}
        rows, events, detected = int(of["inside"][0]), int(of["events"][0]), len(delays)
        known = sum(len(events) for asset, events in self._events.items() if asset not in self.unseen)
        without_rows = known - events
        if not events:
            return {"events": 0, "without_rows": without_rows}
        recall, false_rate = of["inside"] / rows, of["outside"] / max(1, int(of["outside"][0]))
        return {
            "events": events,
            "without_rows": without_rows,
            "found": detected,
            "alarms": alarms,
            "unusual": rows / (rows + int(of["outside"][0])),
            "delay_rows": float(np.median(delays)) if detected else None,
            "vus_pr": sum(value * weight for value, weight in self._vus) / sum(weight for _, weight in self._vus),
            "auc_pr": float(-np.diff(recall, append=0) @ (of["inside"] / np.maximum(1, of["inside"] + of["outside"]))),
            "auc_roc": float(np.trapezoid(np.append(recall, 0)[::-1], np.append(false_rate, 0)[::-1])),
            "f1": _f1(hits, rows, hits + misses),
            "best_f1": _f1(of["inside"], rows, of["inside"] + of["outside"]),
            "composite_f1": _composite_f1(detected / events, hits, hits + misses),
            "best_composite_f1": _composite_f1(of["events"] / events, of["inside"], of["inside"] + of["outside"]),
            "best_adjusted_f1": _f1(of["adjusted"], rows, of["adjusted"] + of["outside"]),
            "random_adjusted_f1": _f1(of_random["adjusted"], rows, of_random["adjusted"] + of_random["outside"]),
        }


def _f1(hits: np.ndarray | int, positives: int, predicted: np.ndarray | int) -> float:
    """The harmonic mean of hits / predicted and hits / positives; of several thresholds, the highest."""
    return float(np.max(2 * np.asarray(hits) / (positives + np.asarray(predicted))))


def _composite_f1(recall: np.ndarray | float, hits: np.ndarray | int, flagged: np.ndarray | int) -> float:
    """The harmonic mean of the recall of events and the precision of rows; of several thresholds, the highest.

    Of intervals, precision would be perfect where all rows are one interval (Garg et al. 2021, "An Evaluation of
    Anomaly Detection and Diagnosis in Multivariate Time Series").
    """
    precision = hits / np.maximum(1, flagged)
    return float(np.max(2 * recall * precision / np.maximum(1e-12, recall + precision)))

"""Which column of a table is to be learned: only where names, places and values agree; else some that may be it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from beamfeed.transforms.suggest.columns import MOSTLY_MISSING, Column, tokens
from beamfeed.transforms.suggest.options import NO_LABEL, Options

CLASSES = 20  # values of a label, up to which whole numbers are classes
_WORD_CLASSES, _OF_WORD = 100, 50  # more of words, where each has so many rows on average
_MANY_NUMBERS = 8  # columns, beside which classes alone, in the first column, are what the numbers tell
_OF_CLASS = 5  # rows of a class, on average, without which values are no classes
_SURE = 2.0
_MOST_CANDIDATES = 6  # candidates in a comment

# Words that say what is to be learned, where one is the last of a name or the name; and how surely. Where a column
# stands adds to it: 2 for the last, 1 for the first.
_PLAIN = frozenset((
    "label", "labels", "target", "targets", "outcome", "fraud", "fraudulent", "spam", "churn", "churned", "anomaly",
    "defect", "defective", "fault", "faulty", "failure", "survived", "classe", "diagnosis", "attrition", "exited",
    "intrusion", "readmitted", "malignant", "sentiment", "recidivism", "changepoint", "outlier", "breakdown",
    "malfunction", "attack", "attacks", "anomalies", "anomalous", "abnormal", "outliers",
))  # fmt: skip
_EVENTS = frozenset((  # what became of a case
    "default", "defaulted", "species", "canceled", "cancelled", "died", "deceased", "approved", "admitted",
    "purchased", "converted", "clicked", "subscribed", "infected", "toxic", "edible", "poisonous", "hazardous",
    "bankrupt", "raintomorrow", "promoted", "recid",
))  # fmt: skip
_CLASSES = frozenset((
    "y", "class", "classes", "quality", "income", "death", "stroke", "disease", "heartdisease", "diabetes",
    "diabetic", "cancer", "tumor", "response", "variety", "admit", "revenue", "occupancy", "cultivar", "winner",
))  # fmt: skip
_LAST_CLASSES = frozenset((
    "category", "condition", "type", "status", "event", "result", "alive", "num", "risk", "grade", "left",
    "severity", "direction", "decision", "activity", "deposit", "purchase", "win", "accepted", "passed", "hired",
    "dead", "delayed", "bought", "satisfaction",
))  # fmt: skip
_PRICES = frozenset(("price", "saleprice", "sellingprice", "medianhousevalue"))
_AMOUNTS = frozenset(("tip", "medv", "mpg", "quality", "charges", "strength", "salary", "sales", "rul", "y"))
_LAST_AMOUNTS = frozenset((
    "price", "wage", "wages", "value", "cost", "demand", "consumption", "cnt", "count", "score", "rating", "rings",
    "area", "yield", "profit", "revenue", "output", "progression", "fare", "expenses", "amount", "admission", "admit",
    "spending", "performance", "points", "pe", "grade", "g3",
))  # fmt: skip
_OF_CLASSES = ((_PLAIN, 3.0), (_EVENTS, 2.0), (_CLASSES, 1.0), (_LAST_CLASSES, 0.5))
_OF_AMOUNTS = ((frozenset(("label", "target")), 3.0), (_PRICES, 2.0), (_AMOUNTS, 1.0), (_LAST_AMOUNTS, 0.5))
_TRAITS = frozenset((  # what a last column often holds beside measurements, and nobody asks for
    "sex", "gender", "age", "group", "region", "country", "state", "city", "size", "cluster", "fold", "split", "batch",
    "weekday", "month", "year", "day", "hour", "season", "subject", "user", "color", "colour", "name", "source", "make",
    "brand", "model", "manufacturer", "store", "station", "site", "location", "product", "company", "team",
))  # fmt: skip


@dataclass(frozen=True)
class Choice:
    """What may be learned of a table.

    Attributes:
      label: the column; None where none is surely meant.
      why: what says so, for a comment.
      candidates: columns that may be meant, the likeliest first.
    """

    label: Column | None = None
    why: str = ""
    candidates: tuple[Column, ...] = ()


def named_label(column: Column) -> bool:
    """Whether a name alone says that a column is what somebody wants to know, and its values can be: no input."""
    words = tokens(column.name)
    named = bool(words) and (words[-1] in _PLAIN or "".join(words[-2:]) in _PLAIN)
    return named and (column.kind in ("bool", "nothing") or _is_class_count(column) or column.constant)


def is_flag_of_label(column: Column, values: Sequence[np.ndarray]) -> bool:
    """Whether a column of zeros and ones has a word of a label anywhere in its name, such as `attack_P1`.

    Args:
      column: of the files.
      values: its numbers, float64 [rows] of each of some tables.
    """
    if column.kind not in ("number", "bool") or column.distinct > 2 or not names_label(column.name):
        return False
    return all(bool(np.isin(part[np.isfinite(part)], (0, 1)).all()) for part in values)


def names_label(name: str) -> frozenset[str]:
    """The words of a name that say that it is a label, wherever they stand."""
    return frozenset(tokens(name)) & _PLAIN


def classifies(column: Column) -> bool:
    """Whether the values of a label are classes; else they are numbers."""
    return column.kind in ("bool", "text") or (column.whole and column.distinct <= CLASSES)


def task_of(column: Column) -> str:
    """What learns a label."""
    return "classify" if classifies(column) else "regress"


def label_keys(column: Column, **more: str) -> dict[str, str]:
    """The section `label` of a column."""
    return {"column": column.name, **more} | ({"classes": "auto"} if classifies(column) else {})


def choose_label(columns: Mapping[str, Column], options: Options) -> Choice:
    """The label of a table.

    Args:
      columns: of the files, as they stand there.
      options: what the user says.
    """
    if options.label not in (None, NO_LABEL):
        return Choice(columns[options.label], "as --label says")
    able = [column for column in columns.values() if _able(column) and column.name not in options.columns.values()]
    if options.label == NO_LABEL or not able:
        return Choice()
    plausible = [column for column in columns.values() if not (column.identity or column.constant or column.prose)]
    # Whole numbers that all differ may name rows, whatever they are called.
    begin = next((column for column in plausible if not (column.whole and column.unique)), plausible[0])
    first, last = (column if column in able else None for column in (begin, plausible[-1]))
    scores = {column.name: _score(column, able, first, last) for column in able}
    order = sorted(able, key=lambda column: -scores[column.name])
    best, score = order[0], scores[order[0].name]
    alone = not any(scores[column.name] == score for column in order[1:])
    # In the middle of a table a word such as `default` may be a feature, where the last column says yes or no.
    contested = score < 3 and best is not last and last is not None and last.distinct == 2
    if score >= _SURE and alone and not contested:
        place = ", and as the last column" if best is last else ", and as the first column" if best is first else ""
        return Choice(best, place.removeprefix(", and ") if re.fullmatch(r"f\d+", best.name) else f"by its name{place}")
    if score < _SURE and len(able) == 1 and _is_class_count(best) and any(column.prose for column in columns.values()):
        return Choice(best, "the only column beside a text")
    likely = [column for column in order if scores[column.name]]
    likely += [column for column in (able[-1], able[0]) if not scores[column.name]]
    return Choice(candidates=tuple({column.name: column for column in likely}.values())[:_MOST_CANDIDATES])


def _able(column: Column) -> bool:
    """Whether values can be learned at all: they differ, are mostly there, and are no names of rows."""
    if column.kind not in ("number", "bool", "text") or column.distinct < 2 or column.missing > MOSTLY_MISSING:
        return False
    if column.kind == "text":
        return _is_class_count(column) and not column.prose
    return not column.identity


def _is_class_count(column: Column) -> bool:
    """Whether the values are few enough to be classes."""
    if column.kind == "text" and column.distinct <= _WORD_CLASSES and column.distinct * _OF_WORD <= column.rows:
        return True
    return column.distinct <= max(CLASSES, 2) and column.distinct * _OF_CLASS <= column.rows


def _score(column: Column, able: Sequence[Column], first: Column | None, last: Column | None) -> float:
    """How surely a column is the label: what its name says, and more where it stands first or last.

    Args:
      column: that may be it.
      able: all that may be.
      first: of the table but for columns that name rows, never change or are texts; None if it may not be it.
      last: likewise.
    """
    words = tokens(column.name)
    strength = _said_by_name(column, able)
    if not strength and column is last:
        spoken = bool({*words} & (_AMOUNTS | _LAST_AMOUNTS)) if _is_amount(column) else _odd_one_out(column, able)
        strength = 0.5 if spoken and not _is_axis(words, able) else 0.0  # such as `Chance of Admit`
    if not strength and column is first and column.kind == "text" and len(able) > _MANY_NUMBERS:
        numbers = all(
            other.kind == "number" and not _said_by_name(other, able) for other in able if other is not column
        )
        strength = 1.0 if numbers and not {*words} & _TRAITS else 0.0
    place = 2.0 if column is last else 1.0 if column is first else 0.0
    if column is first and column.distinct == 2 and len(words) == 1:
        place += 0.5  # such as `type`, of two kinds, before all that is known of them
    return strength + place if strength else 0.0


def _said_by_name(column: Column, able: Sequence[Column]) -> float:
    words = tokens(column.name)
    if _is_axis(words, able):
        return 0.0
    named = {*words[-1:], "".join(words)}
    return next((far for words, far in (_OF_AMOUNTS if _is_amount(column) else _OF_CLASSES) if words & named), 0.0)


def _is_amount(column: Column) -> bool:
    return column.kind == "number" and not (column.whole and _is_class_count(column))


def _is_axis(words: Sequence[str], able: Sequence[Column]) -> bool:
    """Whether `y` is one of x, y and z."""
    return words[-1:] == ["y"] and (len(words) > 1 or any(tokens(column.name) in (["x"], ["z"]) for column in able))


def _odd_one_out(column: Column, able: Sequence[Column]) -> bool:
    """Whether a column holds classes beside at least three of numbers, and none of classes or of such a name."""
    rest = [other for other in able if other is not column]
    amounts = all(_is_amount(other) and not _said_by_name(other, able) for other in rest)
    return len(rest) >= 3 and amounts and not {*tokens(column.name)} & _TRAITS

"""Rows as text, as a CSV has them, in TensorFlow's graph: they become what the transform graph takes.

What preprocessing does with Arrow is done here with operations on strings, by the description that the dataset carries.
Both have the same patterns (RE2) and round numbers alike.
"""

import re

import numpy as np
import tensorflow as tf

from beamfeed.contract.dataset.raw_values import NOTHING, WHITE_SPACE, WHOLE_NUMBER, RawColumn, RawValues, whole_words

NO_TIME = np.int64(np.iinfo(np.int64).min)
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
YEARS = (1824, 2115)  # that nanoseconds since 1970 reach, which times of a text are counted in
_EXPONENT = r"^[+-]?(?:\d+\.?\d*|\.\d+)[eE][+-]?\d+$"
_WHOLE = r"^([+-]?\d+)\.0*$"
_FRACTION = r"^([+-]?\d*\.\d*?[1-9])0+$"
Columns = dict[str, tf.Tensor]


class RawText:
    """Reads columns of text, as `raw` says of the values of the files."""

    def __init__(self, raw: RawValues):
        self._raw = raw

    def read(self, columns: Columns) -> tuple[Columns, tf.Tensor]:
        """Columns of text by name, strings `[batch]`, as the transform graph takes them.

        Returns:
          the columns, and strings `[batch]`: why preprocessing would set a row aside; "" where it would not.
        """
        reasons = tf.zeros_like(next(iter(columns.values())))
        values: Columns = {}
        for name, text in columns.items():
            column = self._raw.columns[name]
            if column.reads == "text":
                values[name] = self.words(name, text)
                missing, reason = values[name] == "", tf.zeros_like(text)
            else:
                bare = trimmed(text)
                nothing = (bare == "") | (self._without_nothing(bare, column) == "")
                text = tf.where(nothing, "", bare if column.trims else text)
                read = self._times if column.reads == "time" else self._bools if column.bools else self._numbers
                values[name], fits, kind = read(text, column)
                missing = values[name] == NO_TIME if column.reads == "time" else ~tf.math.is_finite(values[name])
                reason = tf.where(
                    fits, "", tf.strings.join([f"{name}: '", tf.strings.substr(text, 0, 100), f"' {kind}"])
                )
            if column.required:
                reason = tf.where(missing & (reason == ""), f"{name} is missing", reason)
            reasons = tf.where(reasons == "", reason, reasons)
        return values, reasons

    def words(self, name: str, text: tf.Tensor) -> tf.Tensor:
        """A column of texts or categories, strings `[batch]`, as the files have it: "" is missing."""
        column = self._raw.columns[name]
        text = trimmed(text) if column.trims else text
        if column.typed:
            text = _as_whole(text)
        if column.whole:
            text = tf.strings.regex_replace(text, WHOLE_NUMBER, r"\1")
        text = self._without_nothing(text, column)
        return tf.strings.lower(text, encoding="utf-8") if column.bools else text

    def _without_nothing(self, text: tf.Tensor, column: RawColumn) -> tf.Tensor:
        words = [*(self._raw.null_words if column.null_words else ()), *([NOTHING] if column.of_path else ())]
        words = whole_words(words) if column.whole else words
        return tf.where(_among(text, words), "", text) if words else text

    def _numbers(self, text: tf.Tensor, column: RawColumn) -> tuple[tf.Tensor, tf.Tensor, str]:
        raw, plain = self._raw, text
        if raw.group:
            without = tf.strings.regex_replace(text, raw.group, "")
            plain = tf.where(tf.strings.regex_full_match(text, raw.grouped), without, text)
        if raw.decimal != ".":  # a point is no part of a number, but for one between groups
            point = tf.strings.regex_full_match(plain, r"(?s).*\..*")
            plain = tf.where(point, "no number", tf.strings.regex_replace(plain, re.escape(raw.decimal), "."))
        fits = tf.strings.regex_full_match(plain, raw.number)
        return tf.strings.to_number(tf.where(fits, plain, "nan")), fits | (text == ""), "is not a number"

    def _bools(self, text: tf.Tensor, column: RawColumn) -> tuple[tf.Tensor, tf.Tensor, str]:
        yes, no = _among(text, self._raw.true_words), _among(text, self._raw.false_words)
        numbers = tf.where(yes, 1.0, tf.where(no, 0.0, np.float32(np.nan)))
        return numbers, yes | no | (text == ""), "is neither true nor false"

    def _times(self, text: tf.Tensor, column: RawColumn) -> tuple[tf.Tensor, tf.Tensor, str]:
        """Seconds since 1970, int64 `[batch]`."""
        fits = tf.strings.regex_full_match(text, column.pattern)
        names = sorted(set(re.findall(r"\(\?P<(\w)_?>", column.pattern)))
        part = {name: tf.where(fits, _part(text, column.pattern, name), "") for name in names}

        def number(name: str, otherwise: int = 0) -> tf.Tensor:
            if name not in part:
                return tf.fill(tf.shape(text), np.int64(otherwise))
            return tf.strings.to_number(tf.where(part[name] == "", "0", part[name]), tf.int64)

        year, month, day = number("Y"), number("m", 1), number("d", 1)
        short = tf.strings.length(part["Y"]) == 2
        year = tf.where(short, year + tf.where(year < 69, np.int64(2000), np.int64(1900)), year)
        if "b" in part:
            begun = tf.strings.lower(tf.strings.substr(part["b"], 0, 3))
            for place, name in enumerate(MONTHS):
                month = tf.where(begun == name, np.int64(place + 1), month)
        if "q" in part:
            quarter = number("q")
            month = tf.where(quarter > 0, 3 * quarter - 2, month)
        if "j" in part:  # a day of the year, which nothing else says
            month, day = tf.ones_like(year), number("j")
        hour, minute, second = number("H"), number("M"), number("S")
        if "p" in part:
            half = tf.strings.lower(tf.strings.substr(part["p"], 0, 1))
            fits &= (half == "") | ((hour >= 1) & (hour <= 12))
            hour = tf.where(half == "", hour, hour % 12 + tf.where(half == "p", np.int64(12), np.int64(0)))
        if column.aware is not None and "z" in part:
            fits &= (part["z"] != "") == column.aware
        ahead = tf.zeros_like(hour)
        if "z" in part:
            digits = tf.strings.regex_replace(part["z"], "[^0-9]", "")
            zone = tf.strings.to_number(tf.strings.substr(tf.strings.join([digits, "0000"]), 0, 4), tf.int64)
            fits &= (zone % 100 < 60) & (zone <= 1400)
            behind = tf.strings.regex_full_match(part["z"], "-.*")
            ahead = (zone // 100 * 60 + zone % 100) * tf.where(behind, np.int64(-60), np.int64(60))
        fits &= (month >= 1) & (month <= 12) & (day >= 1) & (minute < 60) & (second <= 60)
        fits &= (hour < 24) | ((hour == 24) & (minute == 0) & (second == 0))
        if not column.typed:
            fits &= (year >= YEARS[0]) & (year <= YEARS[1])
        ones = tf.ones_like(day)
        after = days_of(year + 1, ones, ones) if "j" in part else days_of(year + month // 12, month % 12 + 1, ones)
        days = days_of(year, month, day)
        fits &= days < after  # 31 February is none, and neither is day 366 of most years
        seconds = days * 86_400 + hour * 3600 + minute * 60 + second - ahead
        return tf.where(fits, seconds, NO_TIME), fits | (text == ""), "is not a time in the files' format"


def trimmed(text: tf.Tensor) -> tf.Tensor:
    """Texts without the white space around them."""
    return tf.strings.regex_replace(text, rf"^{WHITE_SPACE}+|{WHITE_SPACE}+$", "")


def days_of(year: tf.Tensor, month: tf.Tensor, day: tf.Tensor) -> tf.Tensor:
    """Days since 1970, int64 `[batch]`, by Hinnant's `days_from_civil`."""
    year = tf.where(month <= 2, year - 1, year)
    era = year // 400
    of_era = year - era * 400
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def _among(text: tf.Tensor, words: list[str]) -> tf.Tensor:
    return tf.reduce_any(text[:, None] == tf.constant(words)[None], axis=1)


def _part(text: tf.Tensor, pattern: str, name: str) -> tf.Tensor:
    """What stands for a part of a pattern in texts that fit; of two places where it may stand, one is empty."""
    texts = []
    for group in (f"(?P<{name}>", f"(?P<{name}_>"):
        if group in pattern:
            regex = re.sub(r"\(\?P<\w+>", "(?:", pattern.replace(group, "\0")).replace("\0", "(")
            texts.append(tf.strings.regex_replace(text, regex, r"\1"))
    return tf.strings.join(texts)


def _as_whole(text: tf.Tensor) -> tf.Tensor:
    """Numbers as names of categories: whole ones without a point, others without zeros at the end."""
    large = tf.strings.regex_full_match(text, _EXPONENT)
    number = tf.strings.to_number(tf.where(large, text, "0"), tf.float64)
    is_whole = large & (tf.round(number) == number) & (tf.abs(number) < 2.0**63)
    text = tf.where(is_whole, tf.strings.as_string(tf.cast(tf.where(is_whole, number, 0.0), tf.int64)), text)
    text = tf.strings.regex_replace(tf.strings.regex_replace(text, _WHOLE, r"\1"), _FRACTION, r"\1")
    return tf.where(text == "-0", "0", text)

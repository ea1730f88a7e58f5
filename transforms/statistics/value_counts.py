"""How often the values of a column come: exact, and the same in whatever order parts are added."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_SLACK = 1 << 16  # entries that wait to be added, at least


@dataclass(frozen=True, eq=False)
class ValueCounts:
    """Values, and how often each came.

    Parts are added when they are many: a sum of many small ones takes no more than their values.

    Attributes:
      values: large_string, each once in the first `settled` entries; those after them wait.
      counts: int64.
      settled: how many entries are in order.
      most: different values that are kept.
      told_over: whether it is known that there were more.
    """

    values: pa.Array
    counts: np.ndarray
    settled: int
    most: int
    told_over: bool = False

    @property
    def over(self) -> bool:
        """Whether there were more than are kept. Which values are then kept means nothing."""
        return self._settle().told_over

    @classmethod
    def zero(cls, most: int) -> "ValueCounts":
        """Of no value."""
        return cls(pa.array([], pa.large_string()), np.empty(0, np.int64), 0, most)

    @classmethod
    def of(cls, column: pa.Array, most: int) -> "ValueCounts":
        """Of a column of strings; missing ones do not count."""
        found = pc.value_counts(column.drop_null())
        values = found.field("values").cast(pa.large_string())
        return cls(values, found.field("counts").to_numpy().astype(np.int64), 0, most)._settle()

    def __add__(self, other: "ValueCounts") -> "ValueCounts":
        if self.told_over or other.told_over:
            return ValueCounts(self.values[:0], np.empty(0, np.int64), 0, self.most, told_over=True)
        values = pa.concat_arrays([self.values, other.values])
        both = ValueCounts(values, np.concatenate([self.counts, other.counts]), self.settled, self.most)
        waiting = len(values) - self.settled
        return both._settle() if waiting > max(self.settled, _SLACK) else both

    def _settle(self) -> "ValueCounts":
        if self.settled == len(self.values):
            return self
        table = pa.table({"value": self.values, "count": self.counts})
        summed = table.group_by("value", use_threads=False).aggregate([("count", "sum")]).sort_by("value")
        if summed.num_rows > self.most:
            return ValueCounts(self.values[:0], np.empty(0, np.int64), 0, self.most, told_over=True)
        values = summed["value"].combine_chunks()
        return ValueCounts(values, summed["count_sum"].to_numpy(), summed.num_rows, self.most)

    def __len__(self) -> int:
        return len(self._settle().values)

    def table(self) -> pa.Table:
        """The columns `value` and `count`, in the order of the alphabet."""
        found = self._settle()
        return pa.table({"value": found.values, "count": found.counts})

    @classmethod
    def of_table(cls, table: pa.Table, most: int, *, over: bool = False) -> "ValueCounts":
        """What `table` gave, and whether it was `over`."""
        values, counts = (table[name].combine_chunks() for name in ("value", "count"))
        return cls(values, counts.to_numpy(), len(values), most, told_over=over)

    def items(self) -> list[tuple[str, int]]:
        """The values with their counts, in the order of the alphabet."""
        found = self._settle()
        return list(zip(found.values.to_pylist(), found.counts.tolist(), strict=True))

    def frequent(self, min_count: int, most: int | None) -> list[str]:
        """The values that come at least so often, the most frequent first; of equal ones, in the alphabet's order."""
        found = self._settle()
        kept = np.flatnonzero(found.counts >= min_count)
        order = kept[np.argsort(-found.counts[kept], kind="stable")][:most]
        return found.values.take(pa.array(order)).to_pylist()

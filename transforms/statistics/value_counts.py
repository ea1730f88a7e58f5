"""How often the values of a column come: exact, and the same in whatever order parts are added."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_SLACK = 1 << 16  # entries that wait to be added, at least
MOST_BYTES = 256 << 20  # of the text of different values that are kept


@dataclass(frozen=True, eq=False)
class ValueCounts:
    """Values, and how often each came.

    Parts are added when they are many: a sum of many small ones takes no more than their values.

    Attributes:
      values: large_string, each once in the first `settled` entries; those after them wait.
      counts: int64.
      settled: how many entries are in order.
      most: different values that are kept, of MOST_BYTES together.
      overflowed: whether it is known that there were more.
    """

    values: pa.Array
    counts: np.ndarray
    settled: int
    most: int
    overflowed: bool = False

    @property
    def over(self) -> bool:
        """Whether there were more than are kept. Which values are then kept means nothing."""
        return self._settle().overflowed

    @classmethod
    def zero(cls, most: int) -> "ValueCounts":
        """Of no value."""
        return cls(pa.array([], pa.large_string()), np.empty(0, np.int64), 0, most)

    @classmethod
    def of(cls, column: pa.Array, most: int) -> "ValueCounts":
        """Of a column of strings; missing ones do not count."""
        counted = pc.value_counts(column.drop_null())
        values = counted.field("values").cast(pa.large_string())
        return cls(values, counted.field("counts").to_numpy().astype(np.int64), 0, most)._settle()

    def __add__(self, other: "ValueCounts") -> "ValueCounts":
        if self.overflowed or other.overflowed:
            return ValueCounts(self.values[:0], np.empty(0, np.int64), 0, self.most, overflowed=True)
        values = pa.concat_arrays([self.values, other.values])
        total = ValueCounts(values, np.concatenate([self.counts, other.counts]), self.settled, self.most)
        waiting = len(values) - self.settled
        are_many = waiting > max(self.settled, _SLACK) or values[self.settled :].nbytes > MOST_BYTES
        return total._settle() if are_many else total

    def _settle(self) -> "ValueCounts":
        if self.settled == len(self.values):
            return self
        table = pa.table({"value": self.values, "count": self.counts})
        summed = table.group_by("value", use_threads=False).aggregate([("count", "sum")]).sort_by("value")
        if summed.num_rows > self.most or (pc.sum(pc.binary_length(summed["value"])).as_py() or 0) > MOST_BYTES:
            return ValueCounts(self.values[:0], np.empty(0, np.int64), 0, self.most, overflowed=True)
        values = summed["value"].combine_chunks()
        return ValueCounts(values, summed["count_sum"].to_numpy(), summed.num_rows, self.most)

    @property
    def total(self) -> int:
        """How often all of them came together."""
        return int(self.counts.sum())

    def __len__(self) -> int:
        return len(self._settle().values)

    def table(self) -> pa.Table:
        """The columns `value` and `count`, in the order of the alphabet."""
        settled = self._settle()
        return pa.table({"value": settled.values, "count": settled.counts})

    @classmethod
    def of_table(cls, table: pa.Table, most: int, *, over: bool = False) -> "ValueCounts":
        """What `table` gave, and whether it was `over`."""
        values, counts = (table[name].combine_chunks() for name in ("value", "count"))
        return cls(values, counts.to_numpy(), len(values), most, overflowed=over)

    def items(self) -> list[tuple[str, int]]:
        """The values with their counts, in the order of the alphabet."""
        settled = self._settle()
        return list(zip(settled.values.to_pylist(), settled.counts.tolist(), strict=True))

    def frequent(self, min_count: int, most: int | None) -> list[str]:
        """The values that come at least so often, the most frequent first; of equal ones, in the alphabet's order."""
        settled = self._settle()
        indices = np.flatnonzero(settled.counts >= min_count)
        order = indices[np.argsort(-settled.counts[indices], kind="stable")][:most]
        return settled.values.take(pa.array(order)).to_pylist()

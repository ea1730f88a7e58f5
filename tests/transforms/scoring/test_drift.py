"""Drift of columns: the statistics against independent ones, what chance alone alarms, and what is planted."""

import tracemalloc
from itertools import permutations

import numpy as np
import pyarrow as pa
import pytest
from scipy.signal import lfilter
from scipy.stats import entropy, ks_2samp

from beamfeed.contract.options import DRIFT as THRESHOLD
from beamfeed.transforms.scoring.compared import changes
from beamfeed.transforms.scoring.deals import deal_rows
from beamfeed.transforms.scoring.drift import RawCounts, compare, edges_of, ks_distance, psi, with_missing
from beamfeed.transforms.scoring.summary import Columns, Summary
from beamfeed.transforms.statistics.clumps import Clumps
from beamfeed.transforms.statistics.quantiles import capacity

LINES = Columns(("a", "b"), ("kind",))
SERIES = Columns(("a", "b", "c"), by_asset=True)


def lines(numbers: np.ndarray, kinds: list[str | None], name: str = "file") -> Summary:
    """The summary of rows that stand for themselves."""
    rows, places = len(numbers), pa.array([name] * len(numbers))
    texts = {"kind": pa.array(kinds, pa.string())}
    return Summary.zero(LINES).extend(numbers.astype(np.float32), texts, places, np.arange(rows))


def fleet(random: np.random.Generator, assets: int, rows: int = 200) -> list[np.ndarray]:
    """Machines with levels of their own, whose values follow from those before, float32 `[rows, 3]` each."""
    steps = random.normal(size=(assets, rows, 3)) * np.sqrt(1 - 0.95**2)
    return list((lfilter([1], [1, -0.95], steps, axis=1) + random.normal(size=(assets, 1, 3))).astype(np.float32))


def series(machines: dict[str, np.ndarray]) -> Summary:
    """Their summary."""
    summary = Summary.zero(SERIES)
    for name, rows in machines.items():
        summary = summary.extend(rows, {}, pa.array([name] * len(rows)), np.arange(len(rows)))
    return summary


def raw_counts(assets: np.ndarray) -> RawCounts:
    """Of a column, of assets with so many rows and missing values each, int64 `[assets, 2]`."""
    clumps = Clumps.of(assets)
    return RawCounts(clumps.rows, clumps.missing[0], clumps.design_effects()[0])


def same(one: Summary, other: Summary) -> bool:
    """Whether two summaries are equal to the bit."""
    counts = all(a.items() == b.items() for a, b in zip(one.counts, other.counts, strict=True))
    return counts and (one.moments, one.samples, one.missing) == (other.moments, other.samples, other.missing)


def test_summaries_add_up_to_the_same_in_any_order() -> None:
    """Also where a sample is full, and rows come one file at a time or all at once."""
    random = np.random.default_rng(1)
    most = capacity(2 + len(LINES.names))
    numbers = random.normal(size=(4, most // 2, 2))
    numbers[1, ::7, 0] = np.nan
    kinds = [[None if one == 3 else f"k{one}" for one in random.integers(0, 9, most // 2)] for _ in range(4)]
    parts = [lines(*part, name=f"f{at}") for at, part in enumerate(zip(numbers, kinds, strict=True))]
    sums = [sum((parts[at] for at in order), Summary.zero(LINES)) for order in permutations(range(4))]
    assert all(same(sums[0], one) for one in sums[1:])
    assert same((parts[0] + parts[1]) + (parts[2] + parts[3]), sums[0])
    places = pa.array([f"f{at}" for at in range(4) for _ in range(most // 2)])
    positions = np.tile(np.arange(most // 2), 4)
    texts = {"kind": pa.array([kind for some in kinds for kind in some])}
    every = numbers.reshape(-1, 2).astype(np.float32)
    at_once = Summary.zero(LINES).extend(every, texts, places, positions)
    assert (at_once.samples, at_once.missing) == (sums[0].samples, sums[0].missing)
    assert at_once.counts[0].items() == sums[0].counts[0].items()
    assert at_once.moments.mean() == pytest.approx(sums[0].moments.mean())


def test_summaries_of_other_columns_are_not_added() -> None:
    with pytest.raises(ValueError, match="other columns"):
        Summary.zero(LINES) + Summary.zero(SERIES)


def test_psi_is_the_divergence_both_ways() -> None:
    """As SciPy has it; bins that are empty on both sides are no bins."""
    random = np.random.default_rng(2)
    counts = random.integers(5, 500, (2, 12))
    p, q = (counts + 0.5) / (counts + 0.5).sum(axis=1, keepdims=True)
    assert psi(counts) == pytest.approx(entropy(p, q) + entropy(q, p))
    wider = np.concatenate([counts, np.zeros((2, 3), int)], axis=1)
    assert psi(wider) == pytest.approx(psi(counts))
    assert psi(np.zeros((2, 4))) == 0
    assert psi(np.stack([counts, counts[::-1]])) == pytest.approx([psi(counts)] * 2)


def test_distance_is_that_of_scipy() -> None:
    random = np.random.default_rng(3)
    for _ in range(20):
        one, other = random.integers(0, 30, 100) / 10, random.normal(1, 1, 150)
        assert ks_distance(one, other) == pytest.approx(ks_2samp(one, other).statistic)
    assert np.isnan(ks_distance(np.empty(0), np.ones(3)))


def test_bins_are_tenths_and_frequent_values() -> None:
    even = np.arange(1000, dtype=np.float32)
    shares = np.bincount(np.searchsorted(edges_of(even), even)) / 1000
    assert shares == pytest.approx([0.1] * 10)
    flags = np.array([0] * 90 + [1] * 10, np.float32)
    assert np.searchsorted(edges_of(flags), [-0.1, 0, 0.5, 1]).tolist() == [0, 1, 2, 2]
    constant = edges_of(np.full(50, 7, np.float32))
    assert np.searchsorted(constant, [6.9, 7, 7.1]).tolist() == [0, 1, 2]
    assert not len(edges_of(np.empty(0, np.float32)))


@pytest.mark.parametrize(("rows", "times"), [(60, 300), (1000, 100)])
def test_halves_of_rows_do_not_alarm(rows: int, times: int) -> None:
    """Random halves of 60 rows differ by more than the threshold, but not by more than noise."""
    random, alarms, over = np.random.default_rng(rows), 0, 0
    for _ in range(times):
        numbers, kinds = random.normal(size=(rows, 2)), random.choice(list("aabbbcde"), rows).tolist()
        half = rows // 2
        found = compare(lines(numbers[:half], kinds[:half]), lines(numbers[half:], kinds[half:]))
        over += any(drift.psi > THRESHOLD for drift in found)
        alarms += any(drift.over(0) for drift in found)
    assert alarms <= times / 33  # 1 in 100 is what is asked for
    assert over > times / 2 if rows == 60 else over == 0


def test_noise_of_more_rows_than_numpy_deals() -> None:
    """It is that of a billion: more than theirs, and next to nothing."""
    counts = np.array([[300, 700], [620, 1380]])
    few, many = (psi(deal_rows(counts * times)).mean() for times in (300_000, 10**9))
    assert 0.5 * few < many < 1e-7
    assert not deal_rows(np.zeros((2, 3), np.int64)).any()


def test_halves_of_a_fleet_do_not_alarm() -> None:
    """Two random halves of 40 machines that differ: as rows they do, as machines they do not."""
    random, alarms, over = np.random.default_rng(4), 0, 0
    for _ in range(100):
        machines = fleet(random, 40, 60)
        half = [series({f"m{at}": machines[at] for at in part}) for part in (range(20), range(20, 40))]
        found = compare(*half)
        over += any(drift.psi > 0.1 for drift in found)
        alarms += any(drift.over(0) for drift in found)
    assert over > 50
    assert alarms <= 4


def planted() -> tuple[np.ndarray, list[str | None]]:
    random = np.random.default_rng(5)
    return random.normal(size=(4000, 2)), random.choice(list("aaabbc"), 4000).tolist()


def test_a_shift_alarms() -> None:
    """Of half a deviation, in one column of two; its sides are told."""
    numbers, kinds = planted()
    found = compare(lines(numbers[:2000], kinds[:2000]), lines(numbers[2000:] + np.array([0.5, 0]), kinds[2000:]))
    shifted, other, kind = found
    assert shifted.over(THRESHOLD)
    assert not other.over(0)
    assert not kind.over(0)
    assert 0.2 < shifted.psi < 0.3
    assert shifted.distance == pytest.approx(0.2, abs=0.03)
    assert shifted.current.mean - shifted.reference.mean == pytest.approx(0.5, abs=0.1)
    assert shifted.shares.sum(axis=1) == pytest.approx([1, 1])
    assert shifted.shares[0, :-1] == pytest.approx(0.1, abs=0.001)


def test_missing_values_alarm() -> None:
    """None before, 10 % now."""
    numbers, kinds = planted()
    now = numbers[2000:].copy()
    now[::10, 1] = np.nan
    lacking = [None if at % 10 == 0 else kind for at, kind in enumerate(kinds[2000:])]
    found = compare(lines(numbers[:2000], kinds[:2000]), lines(now, lacking))
    assert [drift.over(THRESHOLD) for drift in found] == [False, True, True]
    assert [drift.current.missing for drift in found] == [0, pytest.approx(0.1), pytest.approx(0.1)]


def test_missing_values_of_few_machines_do_not_alarm() -> None:
    """Of 40 in two random halves some lack a third or more of a sensor's values; where all lose a fifth, it is told."""
    random, over, alarms, seen = np.random.default_rng(11), 0, 0, 0
    half = series({f"m{at}": rows for at, rows in enumerate(fleet(random, 8, 60))})
    unmoved = compare(half, half)[0]
    for _ in range(100):
        few = np.where(random.random(40) < 0.1, random.uniform(1 / 3, 1, 40), 0)
        counts = np.stack([np.full(40, 200), (200 * few).astype(int)], axis=1)
        before, now = np.split(counts, 2)
        less = np.maximum(now, [0, 40])
        sides = ([raw_counts(before), raw_counts(side)] for side in (now, less))
        of_now, of_less = (with_missing(unmoved, raw, columns=3) for raw in sides)
        over += of_now.psi > THRESHOLD
        alarms += of_now.over(0)
        seen += of_less.over(THRESHOLD)
    assert over > 10
    assert alarms <= 3
    assert seen > 50


def test_a_new_value_alarms() -> None:
    """Of 8 % of the rows; of any share it is told."""
    numbers, kinds = planted()
    now = ["new" if at % 12 == 0 else kind for at, kind in enumerate(kinds[2000:])]
    drift = compare(lines(numbers[:2000], kinds[:2000]), lines(numbers[2000:], now))[-1]
    assert drift.over(THRESHOLD)
    assert drift.new == (("new", pytest.approx(1 / 12, abs=0.001)),)
    assert not drift.gone
    assert dict(zip(drift.labels, drift.shares[1], strict=False))["new"] == pytest.approx(1 / 12, abs=0.001)


def test_a_constant_that_changes_alarms() -> None:
    ones = np.ones((500, 2))
    found = compare(lines(ones, ["a"] * 500), lines(ones * [1, 0.5], ["a"] * 500))
    assert [drift.over(THRESHOLD) for drift in found] == [False, True, False]
    assert (found[0].psi, found[0].noise) == (0, 0)


def test_machines_that_move_alarm() -> None:
    """All that were there before, by two deviations: as each is compared with itself, that is seen among 12."""
    random = np.random.default_rng(6)
    machines = fleet(random, 12)
    before = series({f"m{at}": rows[:100] for at, rows in enumerate(machines)})
    after = {f"m{at}": rows[100:] for at, rows in enumerate(machines)}
    assert not any(drift.over(0) for drift in compare(before, series(after)))
    moved = compare(before, series({name: rows + np.float32([2, 0, 0]) for name, rows in after.items()}))
    assert [drift.over(THRESHOLD) for drift in moved] == [True, False, False]


def test_a_day_of_a_fleet_against_a_year() -> None:
    """Of the same machines, which differ: as many alarms as there should be, and a move of all is seen."""
    random, alarms, seen = np.random.default_rng(9), 0, 0
    for _ in range(40):
        machines = fleet(random, 12, 1100)
        before = series({f"m{at}": rows[:1000] for at, rows in enumerate(machines)})
        after = {f"m{at}": rows[1000:] for at, rows in enumerate(machines)}
        alarms += any(drift.over(0) for drift in compare(before, series(after)))
        moved = {name: rows + np.float32([2, 0, 0]) for name, rows in after.items()}
        seen += compare(before, series(moved))[0].over(THRESHOLD)
    assert alarms <= 2
    assert seen >= 37


def test_one_machine_is_compared_in_runs() -> None:
    """Its two years alarm if they differ by more than runs of them do."""
    random = np.random.default_rng(7)
    (rows,) = fleet(random, 1, 8000)
    before, after = rows[:4000], rows[4000:]
    assert not any(drift.over(THRESHOLD) for drift in compare(series({"m": before}), series({"m": after})))
    moved = compare(series({"m": before}), series({"m": after + np.float32([1, 0, 0])}))
    assert [drift.over(THRESHOLD) for drift in moved] == [True, False, False]


def test_what_cannot_be_compared() -> None:
    """No rows, no values, and texts that name each row."""
    numbers, kinds = planted()
    some = lines(numbers, kinds)
    assert all(np.isnan(drift.psi) and not drift.over(0) for drift in compare(some, Summary.zero(LINES)))
    nothing = compare(lines(numbers * np.nan, kinds), lines(numbers, kinds))[0]
    assert nothing.over(THRESHOLD)
    assert np.isnan(nothing.reference.mean)
    assert np.isnan(nothing.distance)
    many = np.zeros((10_001, 2))
    named = compare(lines(many, [str(at) for at in range(10_001)]), some)[-1]
    assert np.isnan(named.psi)
    assert not named.over(0)
    assert compare(some, Summary.zero(SERIES))[0].name == "a"


def test_wide_rows_are_sampled_in_parts() -> None:
    """150 columns, of which one moves."""
    columns, random = Columns(tuple(f"x{at}" for at in range(150))), np.random.default_rng(8)
    place, at = pa.array(["f"] * 3000), np.arange(3000)
    one, other = (random.normal(size=(3000, 150)).astype(np.float32) for _ in range(2))
    other[:, 130] += 1
    found = compare(*(Summary.zero(columns).extend(rows, {}, place, at) for rows in (one, other)))
    assert [drift.name for drift in found if drift.over(THRESHOLD)] == ["x130"]
    assert sum(drift.over(0) for drift in found) == 1


def test_a_column_of_another_kind_alarms() -> None:
    """Numbers that became texts are not compared, and do not vanish."""
    numbers, kinds = planted()
    columns, place = Columns(("b",), ("kind", "a")), pa.array(["file"] * len(numbers))
    texts = {"kind": pa.array(kinds), "a": pa.array(["one"] * len(numbers))}
    now = Summary.zero(columns).extend(numbers[:, 1:].astype(np.float32), texts, place, np.arange(len(numbers)))
    found = compare(lines(numbers, kinds), now)
    assert [(drift.name, drift.over()) for drift in found] == [("a", True), ("b", False), ("kind", False)]
    assert changes(found[0]) == ["numbers in the reference, texts now"]
    back = compare(now, lines(numbers, kinds))
    assert [changes(drift) for drift in back] == [[], [], ["texts in the reference, numbers now"]]
    assert (found[0].reference.mean, found[0].current.rows) == (pytest.approx(numbers[:, 0].mean(), abs=1e-6), 4000)


@pytest.mark.slow
def test_memory_does_not_grow_with_columns() -> None:
    """Of 400 assets a side, with as many columns as are sampled together and with three times as many."""
    random, peaks = np.random.default_rng(10), []
    names = pa.array([f"m{at}" for at in range(400)])
    for width in (60, 180):
        columns = Columns(tuple(f"x{at}" for at in range(width)), by_asset=True)
        sides = [
            Summary.zero(columns).extend(random.normal(size=(400, width)), {}, names, np.zeros(400, np.int64))
            for _ in range(2)
        ]
        tracemalloc.start()
        compare(*sides)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]

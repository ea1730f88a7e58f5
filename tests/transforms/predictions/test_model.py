"""How large the calls of a model are."""

import pytest

from beamfeed.transforms.predictions.model import CALL_BYTES, CALL_WINDOWS, TRIES, CallSizes

SIZES = [size // 1024 for size in CALL_BYTES]  # windows of 1 KB
PLENTY = 10**6


@pytest.mark.parametrize("fastest", SIZES)
def test_the_fastest_size_is_found(fastest):
    calls, seen = CallSizes(1024), []
    for _ in range(TRIES * len(SIZES)):
        size = calls.next(PLENTY)
        slow = seen.count(size) == 0 or size != fastest  # the first call makes ready
        seen.append(size)
        calls.took(size, size * (2.0 if slow else 1.0))
    assert sorted(seen) == sorted(SIZES * TRIES)
    assert {calls.next(PLENTY) for _ in range(3)} == {fastest}
    calls.took(fastest, 1e9)  # what is known stays
    assert calls.next(PLENTY) == fastest
    assert calls.next(3) == 3


def test_the_end_of_a_shard_says_nothing_of_a_size():
    calls = CallSizes(1024)
    assert calls.next(min(SIZES) - 1) == min(SIZES) - 1
    for _ in range(TRIES):
        calls.took(min(SIZES) - 1, 1.0)
    assert calls.next(PLENTY) == min(SIZES)


def test_what_a_part_has_no_room_for_is_not_tried():
    calls = CallSizes(1024)
    for size in sorted(SIZES)[:-1]:
        for _ in range(TRIES):
            assert calls.next(max(SIZES) - 1) == size
            calls.took(size, 1.0)  # so the larger is the faster
    assert calls.next(max(SIZES) - 1) == sorted(SIZES)[-2]
    assert calls.next(PLENTY) == max(SIZES)


@pytest.mark.parametrize(("window_bytes", "size"), [(0, CALL_WINDOWS[1]), (1 << 40, CALL_WINDOWS[0])])
def test_windows_of_no_or_many_bytes(window_bytes, size):
    assert CallSizes(window_bytes).next(PLENTY) == size

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


def test_fewer_windows_than_a_call_are_one_call_unless_a_smaller_size_is_untried():
    calls = CallSizes(1024)
    assert calls.next(max(SIZES) - 1) == sorted(SIZES)[-2]
    assert calls.next(min(SIZES) - 1) == min(SIZES) - 1
    for _ in range(TRIES):
        calls.took(7, 1.0)  # the end of a shard says nothing of a size
    assert calls.next(PLENTY) == max(SIZES)


@pytest.mark.parametrize(("window_bytes", "size"), [(0, CALL_WINDOWS[1]), (1 << 40, CALL_WINDOWS[0])])
def test_windows_of_no_or_many_bytes(window_bytes, size):
    assert CallSizes(window_bytes).next(PLENTY) == size

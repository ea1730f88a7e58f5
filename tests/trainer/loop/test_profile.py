"""How many steps run in a call while some are recorded."""

from beamfeed.trainer.loop.profile import StepProfile


def test_calls_end_where_the_range_begins_and_are_of_one_step_in_it():
    profile = StepProfile((5, 7), "", is_chief=False)
    calls, step = [], 0
    while step < 30:
        steps = min(10, profile.limit(step))
        calls.append((step + 1, step + steps))
        step += steps
    assert calls == [(1, 4), (5, 5), (6, 6), (7, 7), (8, 17), (18, 27), (28, 37)]
    assert StepProfile(None, "", is_chief=True).limit(3) > 10**9

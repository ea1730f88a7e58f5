"""What the live area shows in so many columns."""

import pytest

from beamfeed.launcher.display.area import ASCII, area
from beamfeed.launcher.display.words import clock, rate_text, short
from beamfeed.launcher.progress import StageProgress


def text(lines):
    return ["".join(part for part, _ in line) for line in lines]


@pytest.fixture
def stage():
    stage = StageProgress("preprocess", 10.0, 1, 2)
    stage.add({"stage": "write", "total_assets": 12, "total_rows": 2_400_000}, 10.0)
    stage.add({"stage": "write", "assets": 1, "rows": 200_000}, 11.0)
    stage.add({"stage": "write", "assets": 5, "rows": 1_000_000}, 16.0)
    return stage


def test_all_of_it_where_there_is_room(stage):
    assert text(area(stage, 16.0, 10.0, 119)) == [
        f"preprocess: write  {15 * '━'}{15 * '─'}   50 %  1.2M/2.4M rows  200,000 rows/s  0:06 left",
        "run: stage 1 of 2, 0:06 so far",
    ]


def test_the_time_left_is_the_last_to_go(stage):
    assert text(area(stage, 16.0, 10.0, 59))[0] == f"preprocess: write  {11 * '━'}{11 * '─'}   50 %  0:06 left"
    assert text(area(stage, 16.0, 10.0, 38))[0] == f"preprocess: write  {6 * '━'}{6 * '─'}   50 %"


@pytest.mark.parametrize("phase", ["", "exporting"])
def test_no_line_is_wider_than_the_terminal(stage, phase):
    stage.phase = phase
    for width in range(1, 220):
        lines = text(area(stage, 16.0, 10.0, width))
        assert all(0 < len(line) <= width for line in lines), width


def test_what_is_not_counted_moves(stage):
    stage.steps["write"].ended = 16.0
    stage.phase = "exporting"
    shown = {text(area(stage, 16.0 + quarter / 4, 10.0, 79))[0] for quarter in range(25)}
    assert len(shown) == 25
    assert all(line.count("━") == 6 and line.startswith("preprocess: exporting  ") for line in shown)


def test_what_is_not_counted_within_a_step_leaves_its_bar(stage):
    stage.phase = "evaluating"
    bar = 15 * "━" + 15 * "─"
    assert text(area(stage, 16.0, 10.0, 79))[0] == f"preprocess: evaluating  {bar}   50 %  1.2M/2.4M rows"


def test_marks_of_a_terminal_without_unicode(stage):
    assert "#" * 15 + "-" * 15 in text(area(stage, 16.0, 10.0, 119, ASCII))[0]


def test_numbers_for_people():
    assert [short(n) for n in (0, 812, 999, 1000, 3_449, 99_940, 99_960, 999_499, 999_500, 1_234_567)] == [
        *("0", "812", "999", "1.0k", "3.4k", "99.9k", "100k", "999k", "1.0M", "1.2M"),
    ]
    assert [clock(s) for s in (-1, 7.4, 59.6, 750, 3723)] == ["0:00", "0:07", "1:00", "12:30", "1:02:03"]
    assert [rate_text(r) for r in (77_419.3, 10, 9.96, 0.25)] == ["77,419", "10", "10", "0.25"]

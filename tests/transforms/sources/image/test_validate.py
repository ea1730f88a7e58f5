"""Images are looked at in threads, in order; what is wrong with the machine is no reject."""

import time
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import numpy as np
import pytest
from albums import encoded, picture

from beamfeed.contract import storage
from beamfeed.contract.config.sources.image import ImageSource
from beamfeed.contract.errors import JobFailed
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.image import validate
from beamfeed.transforms.sources.image.records import RECORD_BYTES, cut_records
from beamfeed.transforms.sources.image.validate import check_file, in_order

SOURCE = ImageSource(kind="image", files="photos")


def test_results_come_in_order_and_no_further_than_asked():
    begun = []

    def slow(number: int) -> int:
        begun.append(number)
        time.sleep(0.002 * (number % 3))
        return number * number

    with ThreadPoolExecutor(4) as pool:
        found = in_order(pool, slow, range(60), 6)
        first = list(islice(found, 10))
        assert max(begun) <= 10 + 6 + 1
        assert [*first, *found] == [(number, number * number) for number in range(60)]


def test_an_error_in_a_thread_is_raised_in_its_place():
    def fail(number: int) -> int:
        if number == 5:
            raise JobFailed("the disk")
        return number

    with ThreadPoolExecutor(4) as pool:
        found = in_order(pool, fail, range(60), 6)
        assert len(list(islice(found, 5))) == 5
        with pytest.raises(JobFailed, match="the disk"):
            next(found)


@pytest.fixture
def photo(tmp_path):
    path = tmp_path / "a.jpg"
    path.write_bytes(encoded(picture(), "JPEG"))
    return path


def test_a_file_that_is_gone_or_another_one_ends_the_job(photo):
    file = storage.stat(str(photo))
    assert check_file(file, SOURCE).data == photo.read_bytes()
    with pytest.raises(JobFailed, match="the same size, written later"):
        check_file(storage.FileStat(file.path, file.size, file.mtime - 1), SOURCE)
    photo.write_bytes(b"longer" + photo.read_bytes())
    with pytest.raises(JobFailed, match="changed while the job ran"):
        check_file(file, SOURCE)
    photo.unlink()
    with pytest.raises(JobFailed, match="is not any more"):
        check_file(file, SOURCE)


def test_a_huge_file_is_not_read(photo, monkeypatch):
    monkeypatch.setattr(validate, "MOST_BYTES", 100)
    with pytest.raises(BadInput, match=r"bytes; more than 100 are no image"):
        check_file(storage.stat(str(photo)), SOURCE)


def test_tasks_hold_each_row_once_and_few_bytes():
    sizes = np.random.default_rng(0).integers(10, 200_000, 500).tolist()
    tasks = list(validate._tasks(sizes))
    assert [row for rows in tasks for row in rows] == list(range(500))
    assert max(map(len, tasks)) <= validate.TASK_IMAGES + 1
    assert max(sum(sizes[row] for row in rows) for rows in tasks) < validate.TASK_BYTES + 200_000
    assert list(validate._tasks([7])) == [[0]]


def test_records_hold_small_images_together_and_large_ones_alone():
    first, rows = cut_records(np.full(100, 3000), None)
    assert rows.sum() == 100
    assert set((rows * 3000 // RECORD_BYTES).tolist()) <= {0, 1}
    assert rows.min() >= 12  # but for the last one, about 22
    first, rows = cut_records(np.array([70_000] * 5), None)
    assert (first.tolist(), rows.tolist()) == ([0, 1, 2, 3, 4], [1] * 5)
    first, rows = cut_records(np.full(10, 3000), 4)
    assert (first.tolist(), rows.tolist()) == ([0, 4, 8], [4, 4, 2])

"""Images are looked at in order, in threads where they are decoded; what is wrong with the machine is no reject."""

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice

import numpy as np
import pytest
from albums import encoded, picture

from beamfeed.contract import storage
from beamfeed.contract.config.sources.image import ImageSource
from beamfeed.contract.errors import JobFailed
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.image import look
from beamfeed.transforms.sources.image.look import Listed, in_order, look_at_all

SOURCE = ImageSource(kind="image", files="photos")


def test_results_come_in_order_and_no_further_than_asked():
    begun = []

    def slow(number: int) -> list[int]:
        begun.append(number)
        time.sleep(0.002 * (number % 3))
        return [number, -number]

    with ThreadPoolExecutor(4) as pool:
        # Every fourth is there already.
        tasks = ([number, -number] if number % 4 == 3 else partial(slow, number) for number in range(60))
        found = in_order(pool, tasks, 6)
        first = list(islice(found, 20))
        assert max(begun) <= 10 + 6 + 2
        assert [*first, *found] == [value for number in range(60) for value in (number, -number)]


def test_an_error_in_a_thread_is_raised_in_its_place():
    def fail(number: int) -> list[int]:
        if number == 5:
            raise JobFailed("the disk")
        return [number]

    with ThreadPoolExecutor(4) as pool:
        found = in_order(pool, (partial(fail, number) for number in range(60)), 6)
        assert len(list(islice(found, 5))) == 5
        with pytest.raises(JobFailed, match="the disk"):
            next(found)


@pytest.fixture(params=["JPEG", "PNG"])  # one is decoded, the other is not
def photo(tmp_path, request):
    path = tmp_path / "a.jpg"
    path.write_bytes(encoded(picture(), request.param))
    return path


def listed(path, **changes):
    stat = storage.stat(str(path))
    return Listed(stat.path, stat.size, stat.mtime, None)._replace(**changes)


def test_a_file_that_is_gone_or_another_one_ends_the_job(photo):
    file = listed(photo)
    (found,) = look_at_all(SOURCE, [file])
    assert found.data == photo.read_bytes()
    with pytest.raises(JobFailed, match="the same size, written later"):
        list(look_at_all(SOURCE, [file._replace(mtime=file.mtime - 1)]))
    photo.write_bytes(b"longer" + photo.read_bytes())
    with pytest.raises(JobFailed, match="changed while the job ran"):
        list(look_at_all(SOURCE, [file]))
    photo.write_bytes(photo.read_bytes()[:100])
    with pytest.raises(JobFailed, match="now 100"):
        list(look_at_all(SOURCE, [file]))
    photo.unlink()
    with pytest.raises(JobFailed, match="is not any more"):
        list(look_at_all(SOURCE, [file]))


@pytest.mark.parametrize("suffix", [".JPG", ".png", ""])
def test_each_image_has_its_own_result_in_the_order_of_the_files(tmp_path, suffix):
    files, wanted = [], []
    for number in range(80):
        data = encoded(picture(10 + number, 20), ("JPEG", "PNG", "GIF")[number % 3 if number > 40 else 0])
        data = data[:200] if number % 7 == 2 else data
        path = tmp_path / f"{number}{suffix}"
        path.write_bytes(data)
        wrong = "no such file" if number % 11 == 1 else None
        files.append(listed(path, wrong=wrong))
        wanted.append("listed" if wrong else "broken" if number % 7 == 2 else (20, 10 + number))
    found = list(look_at_all(SOURCE, files))
    seen = []
    for one, file in zip(found, files, strict=True):
        if isinstance(one, BadInput):
            assert one.file == file.path
            seen.append("listed" if one.reason == file.wrong else "broken")
        else:
            seen.append((one.width, one.height))
    assert seen == wanted
    assert list(look_at_all(SOURCE, [])) == []


def test_of_what_is_to_be_decoded_few_bytes_are_held(tmp_path, monkeypatch):
    files, held, most = [], 0, 0
    for number in range(60):
        (tmp_path / str(number)).write_bytes(encoded(picture(40, 40), "PNG") + b"\0" * look.TASK_BYTES)
        files.append(listed(tmp_path / str(number)))

    def slow(data, *_):
        nonlocal held, most
        held += 1
        most = max(most, held)
        time.sleep(0.003)
        held -= 1
        return len(data)

    monkeypatch.setattr(look, "make_picture", slow)
    monkeypatch.setattr(look, "available_cores", lambda: 3)
    assert list(look_at_all(SOURCE, files)) == [file.size for file in files]
    assert most <= 3


def test_a_huge_file_is_not_read(photo, monkeypatch):
    monkeypatch.setattr(look, "MOST_BYTES", 100)
    (found,) = look_at_all(SOURCE, [listed(photo)])
    assert isinstance(found, BadInput)
    assert "bytes; more than 100 are no image" in found.reason


def test_tasks_hold_each_row_once_and_few_bytes():
    sizes = np.random.default_rng(0).integers(10, 200_000, 500).tolist()
    tasks = [list(range(first, end)) for first, end in look._tasks(sizes)]
    assert [row for rows in tasks for row in rows] == list(range(500))
    assert max(map(len, tasks)) <= look.TASK_IMAGES + 1
    assert max(sum(sizes[row] for row in rows) for rows in tasks) < look.TASK_BYTES + 200_000
    assert list(look._tasks([7])) == [(0, 1)]

"""Damages of folders: files beside the data, links, one name in several folders, files that change."""

import os
import time
from copy import deepcopy
from pathlib import Path
from random import Random

import numpy as np

from ..fleet import Fleet, Part
from ..write import part_bytes
from .kind import break_file, damage, some_part


def _beside(fleet: Fleet, path: str, data: bytes = b"no data at all") -> None:
    """A file that is no data, written before the job runs."""

    def write(folder: str) -> None:
        target = Path(folder) / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)

    fleet.before.append(write)


@damage()
def files_of_other_kinds(fleet: Fleet, chance: Random) -> None:
    """A README, a picture, a marker of success and a check sum beside the data are no input."""
    for name in ("README.md", "plot.png", "_SUCCESS", "m0.parquet.crc", "sub/notes.docx", "data.parquet.bak"):
        _beside(fleet, name)


@damage()
def hidden_files(fleet: Fleet, chance: Random) -> None:
    """What begins with a dot or an underscore, files or folders, is no input."""
    suffix = ".parquet" if fleet.plan.format == "parquet" else ".csv"
    for name in (f"._m0{suffix}", f".part{suffix}", f"_temporary/0/m9{suffix}", f"_delta_log/0{suffix}",
                 f".ipynb_checkpoints/m0{suffix}", f"_m7{suffix}"):  # fmt: skip
        _beside(fleet, name)


@damage(naming="stem", last=True)
def a_dangling_link(fleet: Fleet, chance: Random) -> None:
    """A link to nowhere is a reject."""
    fleet.before.append(lambda folder: os.symlink("nowhere.parquet", f"{folder}/zz.parquet"))
    fleet.parts.append(_nothing(fleet, "zz.parquet", "no such file|link|nowhere"))


@damage(naming="stem", last=True)
def a_link_to_itself(fleet: Fleet, chance: Random) -> None:
    """A link to itself is a reject."""
    fleet.before.append(lambda folder: os.symlink("zz.parquet", f"{folder}/zz.parquet"))
    fleet.parts.append(_nothing(fleet, "zz.parquet", "link|no such file"))


@damage(naming="stem")
def a_link_to_a_file(fleet: Fleet, chance: Random) -> None:
    """A link to a file is a file."""
    part = some_part(fleet, chance)

    def link(folder: str) -> None:
        path = Path(folder) / part.path
        target = Path(folder) / f"elsewhere-{len(part)}.bin"
        path.rename(target)
        path.symlink_to(target)

    fleet.before.append(link)


@damage()
def a_pipe_and_a_folder(fleet: Fleet, chance: Random) -> None:
    """A pipe and an empty folder with the names of data are no input, and nothing waits for the pipe."""
    fleet.before.append(lambda folder: os.mkfifo(f"{folder}/pipe.parquet"))
    fleet.before.append(lambda folder: os.mkdir(f"{folder}/folder.parquet"))


@damage(naming="stem")
def a_file_without_permission(fleet: Fleet, chance: Random) -> None:
    """A file that may not be read is a reject or ends the job in one line; the super-user may read it."""
    part = some_part(fleet, chance)
    fleet.before.append(lambda folder: os.chmod(f"{folder}/{part.path}", 0))
    if os.geteuid() != 0:
        break_file(fleet, part, "permission")
        fleet.variants.append(lambda other: setattr(other, "failure", "permission"))


def _nothing(fleet: Fleet, path: str, reason: str) -> Part:
    """A file of the listing that cannot be read, and which something else has put there."""
    part = Part(path, [], np.empty(0, np.int64), np.empty((0, fleet.plan.features), np.float32))
    part.form = {"format": fleet.plan.format, "unwritten": True}
    part.broken = reason
    return part


@damage(last=True)
def a_glob(fleet: Fleet, chance: Random) -> None:
    """A glob that crosses folders names the same files."""
    suffix = f".{fleet.plan.format}"
    alike = all(part.path.endswith(suffix) for part in fleet.parts)  # unless another damage has renamed some
    fleet.job["source"]["files"] = f"{{fleet}}/**{suffix if alike else ''}"


@damage()
def a_slash_at_the_end(fleet: Fleet, chance: Random) -> None:
    """A folder with a slash at its end is the folder."""
    fleet.job["source"]["files"] = "{fleet}/"


@damage(alone=True, naming="stem", label=None, split="time", holes=False, rows=140)
def a_single_file(fleet: Fleet, chance: Random) -> None:
    """One file is a fleet of one."""
    fleet.parts = fleet.parts[:1]
    fleet.job["source"]["files"] = "{fleet}/" + fleet.parts[0].path


@damage(naming="pattern")
def a_list_of_sources(fleet: Fleet, chance: Random) -> None:
    """A list of folders and files names all of them, and what stands in two of them counts once."""
    first = fleet.parts[0].path
    fleet.job["source"]["files"] = ["{fleet}/north", "{fleet}/south", "{fleet}/east", "{fleet}/" + first]


@damage(alone=True, naming="stem")
def one_stem_in_several_folders(fleet: Fleet, chance: Random) -> None:
    """Two files of one stem in two folders are two machines or one: the job says so in one line, with a suggestion."""
    for k, part in enumerate(fleet.parts[:2]):
        part.path = f"site{k}/part-0.{fleet.plan.format}"
    fleet.mistake = "part-0"


@damage(naming="stem", odd_names=False)
def hive_folders(fleet: Fleet, chance: Random) -> None:
    """machine=A/part-0.parquet: the folder's key is a column, which names the assets."""
    for part in fleet.parts:
        name, _, suffix = part.path.partition(".")  # which another damage may have changed
        part.path = f"machine={name}/part-0.{suffix}"
    fleet.job["source"]["asset"] = {"column": "machine"}


@damage(naming="column", files=[3, 4], rows=[90, 140])
def a_rejected_file_in_the_middle(fleet: Fleet, chance: Random) -> None:
    """The hole that a rejected file leaves in every asset is a break: no window crosses it."""
    if len(fleet.parts) < 3:
        return
    part = sorted(fleet.parts, key=lambda part: part.path)[1]
    part.form["touched"] = True
    halved = fleet.plan.format in ("parquet", "csv.gz")
    part.mend.append(lambda data: data[: len(data) // 2] if halved else b"\n".join([b"no data"] * 9))
    break_file(fleet, part, ".")


@damage(alone=True, format="parquet", row_group=None, rows=140, units=True)
def a_file_that_changes(fleet: Fleet, chance: Random) -> None:
    """A file that is written anew while the job runs: one clear line, or what it was when the job began."""
    part, wait = some_part(fleet, chance, 40), chance.uniform(0, 0.3)
    other = deepcopy(part)
    other.form["row_group"] = 7
    other.take(slice(3, None))
    data = part_bytes(fleet, other)

    def rewrite(folder: str) -> None:
        time.sleep(wait)
        path = Path(folder) / part.path
        path.with_suffix(".new").write_bytes(data)
        path.with_suffix(".new").replace(path)

    fleet.during.append(rewrite)
    fleet.variants.append(lambda other: setattr(other, "failure", "changed|modified|no longer"))


@damage(split=["time", "column"])
def max_assets(fleet: Fleet, chance: Random) -> None:
    """source.max_assets takes the first assets by name."""
    count = chance.randint(2, 4)
    fleet.job["source"]["max_assets"] = count
    fleet.job["limits"]["max_rejected_fraction"] = 1

"""What many files are, asked for together."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from beamfeed.contract.storage.files import FileStat, is_remote, match, stat

ASKED_TOGETHER = 32  # files of a bucket
MOST_ASKED = 1000  # of them; a listing tells as many at a time


def stat_all(paths: Sequence[str]) -> dict[str, FileStat]:
    """What the files are that are there, by path.

    Those of a bucket are asked for at the same time, as each waits for an answer; very many are listed instead.
    """

    def ask(path: str) -> FileStat | None:
        try:
            return stat(path)
        except FileNotFoundError:
            return None

    remote = bool(paths) and is_remote(paths[0])
    if remote and len(paths) > MOST_ASKED:
        return {one.path: one for one in match(os.path.commonpath(paths).replace(":/", "://", 1), ("",))}
    with ThreadPoolExecutor(ASKED_TOGETHER) as pool:
        found = list(pool.map(ask, paths) if remote else map(ask, paths))
    return {one.path: one for one in found if one is not None}

"""Folders of a dataset by the values of columns."""

from collections.abc import Collection, Mapping, Sequence
from urllib.parse import unquote

from beamfeed.contract.errors import UserError, near_miss


def partition_values(folder: str) -> dict[str, str]:
    """The columns of a partition and their values: `country=DE/kind=a%2Fb` -> country DE, kind a/b."""
    parts = (part.partition("=") for part in folder.split("/") if part)
    return {unquote(column): unquote(value) for column, _, value in parts}


def check_where(where: Mapping[str, Sequence[str]], partitions: Collection[Mapping[str, str]], dataset: str) -> None:
    """Raises UserError if there is no such column of partitions, or a value never occurs."""
    key, columns = "train.feed.where", sorted({column for values in partitions for column in values})
    for column, wanted in where.items():
        known = sorted({values[column] for values in partitions if column in values})
        if not known:
            has = f"it has {', '.join(columns)}" if columns else "it has none, see output.partition_by"
            hint = near_miss(column, columns)
            raise UserError(f"{key}: {dataset} has no partitions by {column!r}{hint} ({has})")
        for value in wanted:
            if value not in known:
                some = ", ".join(known[:10]) + (" ..." if len(known) > 10 else "")
                raise UserError(f"{key}: {column} is never {value!r}{near_miss(value, known)} (it is {some})")

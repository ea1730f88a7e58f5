"""Files on a local disk or gs://: small files whole, listings, ranges of large ones, locks."""

from beamfeed.contract.storage.files import (
    GS,
    FileStat,
    exists,
    is_remote,
    join,
    list_folder,
    match,
    open_input,
    open_output,
    read_bytes,
    read_text,
    remove_tree,
    stat,
    write_bytes,
    write_text,
)

__all__ = [
    "GS",
    "FileStat",
    "exists",
    "is_remote",
    "join",
    "list_folder",
    "match",
    "open_input",
    "open_output",
    "read_bytes",
    "read_text",
    "remove_tree",
    "stat",
    "write_bytes",
    "write_text",
]

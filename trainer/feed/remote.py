"""How TensorFlow reads what is not on this machine."""

from collections.abc import MutableMapping


def set_reads(environ: MutableMapping[str, str]) -> None:
    """Says how TensorFlow reads gs://, unless the user did; before it is imported.

    Left to itself it fetches 64 MB for every block of records that is asked for,
    and keeps none. Measured in docs/gs.md.
    """
    environ.setdefault("GCS_READ_CACHE_BLOCK_SIZE_MB", "1")
    environ.setdefault("GCS_READ_CACHE_MAX_SIZE_MB", "256")

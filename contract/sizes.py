"""Sizes for people."""


def size_text(size: float) -> str:
    """Bytes for people: 812 B, 3.4 MB."""
    if size < 1000:
        return f"{size:.0f} B"
    for unit in ("kB", "MB", "GB"):
        size /= 1000
        if size < 1000:
            return f"{size:.1f} {unit}"
    return f"{size / 1000:.1f} TB"

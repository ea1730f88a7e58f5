"""Bins of the values of a column, for a piecewise linear encoding.

Gorishniy et al. 2022, "On Embeddings for Numerical Features in Tabular Deep Learning". A value becomes a number for
each bin: 1 where it is beyond the bin, 0 where it is below, and in between as far as it is into it.
"""

import numpy as np

LEAST_ROWS = 48  # in a bin: with fewer rows there are fewer bins, which noise cannot fill
SMALLEST = 1e-30  # width of a bin: float32 holds 1 / width
NARROWEST = 1e-5  # of a bin, as a share of the size of its edges: float32 can tell some hundred places in it


def find_edges(values: np.ndarray, count: int) -> np.ndarray:
    """The edges of at most `count` bins that hold about equally many of the values.

    A value that many rows share, such as 0, counts as no more than one bin: the others are for what differs.

    Args:
      values: float32 `[n]`, n above 0, all finite.
      count: bins.

    Returns:
      float64 `[edges]`, rising; one edge where the values do not differ.
    """
    distinct, counts = np.unique(values.astype(np.float64), return_counts=True)
    shares = np.cumsum(np.minimum(counts, len(values) / count))
    last_in_bin = np.searchsorted(shares, shares[-1] * np.arange(1, count + 1) / count * (1 - 1e-12))
    edges = distinct[np.unique([0, *last_in_bin])]
    chosen = [edges[0]]
    for edge in edges[1:]:
        if edge - chosen[-1] > max(SMALLEST, NARROWEST * max(abs(edge), abs(chosen[-1]))):
            chosen.append(edge)
    return np.array(chosen)


def encoding(values: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Kernel and bias `[columns, count]`, float32: the encoding is `kernel * value + bias`, cut off at 0 and 1.

    Args:
      values: float32 `[n, columns]`.
      count: bins of each column, at most; what a column does not need stays 0.
    """
    kernel, bias = np.zeros((2, values.shape[1], count), np.float32)
    used = max(1, min(count, len(values) // LEAST_ROWS))
    for column in range(values.shape[1]):
        edges = find_edges(values[:, column], used)
        widths = np.diff(edges)
        kernel[column, : len(widths)] = 1 / widths
        bias[column, : len(widths)] = -edges[:-1] / widths
    return kernel, bias

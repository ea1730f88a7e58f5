"""What is usual, of all assets or of one: how rare each measure of a window is, and how far its latent numbers are."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from beamfeed.transforms.scoring.tails import Tail

LEAST_OWN = 100  # windows from which on an asset has distributions of its own
PRIOR = 100  # windows of an asset, as much as which the covariance of all counts beside its own
FOLDS = 4  # parts of an asset's windows, each of which is measured by the others
LEAST_EXCESS = 0.1  # of that of all: an asset that stood still in training may stir
RIDGE = 1e-4  # what is added to the variances of latent numbers of deviation 1: some are sums of others


@dataclass(frozen=True, eq=False)
class Measured:
    """Some windows.

    Attributes:
      measures: float64 `[n, parts]`, how unusual each is.
      latent: float64 `[n, numbers]`, what the model makes of each; no number, where that is no measure.
    """

    measures: np.ndarray
    latent: np.ndarray

    def __len__(self) -> int:
        return len(self.measures)


@dataclass(frozen=True, eq=False)
class Cloud:
    """Where latent numbers lie.

    Attributes:
      mean: float64 `[numbers]`.
      covariance: float64 `[numbers, numbers]`.
    """

    mean: np.ndarray
    covariance: np.ndarray

    @classmethod
    def of(cls, latent: np.ndarray, like: "Cloud | None" = None) -> "Cloud":
        """That of some windows.

        Args:
          latent: of windows, `[n, numbers]`, finite.
          like: of which some windows are taken to be, too, but around the mean of these.
        """
        numbers = latent.shape[1]
        if not len(latent):
            return like or cls(np.zeros(numbers), np.eye(numbers))
        mean = latent.mean(axis=0)
        squares = (latent - mean).T @ (latent - mean)
        if like is None:
            return cls(mean, squares / len(latent))
        return cls(mean, (squares + PRIOR * like.covariance) / (len(latent) + PRIOR))

    @classmethod
    def of_others(cls, parts: Sequence[np.ndarray], like: "Cloud") -> Iterator["Cloud"]:
        """For each part of some windows, `of` those of the other parts; each window is looked at once.

        Args:
          parts: two at least, each `[n, numbers]`, finite.
          like: see `of`.
        """
        middle = np.concatenate(parts).mean(axis=0)  # squares about it lose no digits where numbers are far from 0
        counts = [len(part) for part in parts]
        sums = [(part - middle).sum(axis=0) for part in parts]
        squares = [(part - middle).T @ (part - middle) for part in parts]
        for at in range(len(parts)):
            count = sum(counts) - counts[at]
            mean = (sum(sums) - sums[at]) / count
            others = sum(squares) - squares[at] - count * np.outer(mean, mean)
            yield cls(middle + mean, (others + PRIOR * like.covariance) / (count + PRIOR))

    def t2(self, latent: np.ndarray) -> np.ndarray:
        """Hotelling's T squared of windows `[n, numbers]`, `(x - mean)' covariance^-1 (x - mean)`, float64 `[n]`.

        NaN where one of the numbers is none.
        """
        variances = np.diag(self.covariance)
        used = variances > 1e-12 * variances.max(initial=0)
        deviations = np.sqrt(variances[used])
        correlation = self.covariance[np.ix_(used, used)] / np.outer(deviations, deviations)
        inverse = np.linalg.inv(correlation + RIDGE * np.eye(len(deviations)))
        known = np.isfinite(latent).all(axis=1)
        apart = (latent[known][:, used] - self.mean[used]) / deviations
        t_squared = np.full(len(latent), np.nan)
        t_squared[known] = np.einsum("ij,ij->i", apart @ inverse, apart)
        return t_squared


@dataclass(frozen=True, eq=False)
class Usual:
    """The distributions of windows of training.

    Attributes:
      tails: of each measure, and last of T squared of the latent numbers where they are a measure.
      cloud: of these.
    """

    tails: Sequence[Tail]
    cloud: Cloud

    @classmethod
    def of(cls, windows: Measured, like: "Usual | None" = None) -> "Usual":
        """Those of some windows.

        A covariance fits the windows that it is of better than others of the same asset. So T squared of each part of
        an asset's windows is measured by the other parts.

        Args:
          windows: one at least; of an asset as they follow each other.
          like: those of all assets, where the windows are of one.
        """
        tails = [Tail.of(values) for values in windows.measures.T]
        latent = windows.latent[np.isfinite(windows.latent).all(axis=1)]
        if not windows.latent.shape[1]:
            return cls(tails, Cloud.of(latent))
        if like is None:
            cloud = Cloud.of(latent)
            return cls([*tails, Tail.of(cloud.t2(latent))], cloud)
        if len(latent) < LEAST_OWN:
            return cls([*tails, like.tails[-1]], like.cloud)
        parts = np.array_split(latent, FOLDS)
        across = [cloud.t2(part) for cloud, part in zip(Cloud.of_others(parts, like.cloud), parts, strict=True)]
        tail = Tail.of(np.concatenate(across))
        excess = max(tail.mean_excess, LEAST_EXCESS * like.tails[-1].mean_excess)
        return cls([*tails, replace(tail, mean_excess=excess)], Cloud.of(latent, like.cloud))

    def rarities(self, windows: Measured) -> np.ndarray:
        """Of each measure, and of T squared, float64 `[n, parts]`: see `Tail.rarity`."""
        values = [*windows.measures.T, *([self.cloud.t2(windows.latent)] if windows.latent.shape[1] else [])]
        return np.stack([tail.rarity(some) for tail, some in zip(self.tails, values, strict=True)], axis=1)


def compare(windows: Measured, own: Measured, held: Measured, fleet: Usual) -> np.ndarray:
    """How rare the windows of an asset are, by each measure, float64 `[n, parts]`.

    One that trained is compared with itself, if its windows of training are enough to tell. One that was held out is
    compared with all that trained and with itself, and the rarer counts: the first finds that it differs from the
    others all along, the second what it does once, too little to stand out among all. Either may be rare by chance, so
    twice as often as one alone.

    Args:
      windows: of the asset.
      own: its windows of training.
      held: its windows of the dataset that do not train.
      fleet: of the windows of training of all.
    """
    if len(own) >= LEAST_OWN:
        return Usual.of(own, fleet).rarities(windows)
    rarities = fleet.rarities(windows)
    if not len(own) and len(held) >= LEAST_OWN:
        rarities = np.maximum(0, np.fmax(rarities, Usual.of(held, fleet).rarities(windows)) - np.log10(2))
    return rarities

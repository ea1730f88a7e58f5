"""Where a stage runs: one folder a backend, and the one place that knows their names."""

from functools import cache

from beamfeed.launcher.backends.base import Backend


@cache
def backends() -> dict[str, Backend]:
    """Every backend, by the name that a job file calls it."""
    from beamfeed.launcher.backends.dataflow.backend import DataflowBackend
    from beamfeed.launcher.backends.kubernetes.backend import KubernetesBackend
    from beamfeed.launcher.backends.local.backend import LocalBackend
    from beamfeed.launcher.backends.portable.backend import PortableBackend
    from beamfeed.launcher.backends.portable.section import FlinkSection, PrismSection, SparkSection
    from beamfeed.launcher.backends.slurm.backend import SlurmBackend
    from beamfeed.launcher.backends.vertex.backend import VertexBackend

    return {
        "local": LocalBackend(),
        "dataflow": DataflowBackend(),
        "flink": PortableBackend("flink", FlinkSection),
        "spark": PortableBackend("spark", SparkSection),
        "prism": PortableBackend("prism", PrismSection),
        "slurm": SlurmBackend(),
        "kubernetes": KubernetesBackend(),
        "vertex": VertexBackend(),
    }

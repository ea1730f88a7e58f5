"""A stage as a CustomJob. A pure function."""

from collections.abc import Sequence
from typing import Any

from beamfeed.contract.config.duration import seconds_of
from beamfeed.launcher.backends.vertex.section import VertexSection

WORK = "beamfeed-work"  # the label that tells what a job makes


def custom_job(section: VertexSection, command: Sequence[str], name: str, workers: int, work: str) -> dict[str, Any]:
    """The request, by the field names of `google.cloud.aiplatform_v1.CustomJob`.

    Args:
      section: of the job file.
      command: of each worker.
      name: of the job.
      workers: machines; the first is the chief, in a pool of its own, as the service wants it.
      work: what it makes.
    """
    machine: dict[str, Any] = {"machine_type": section.machine_type}
    if section.gpus is not None:
        machine |= {"accelerator_type": section.gpu_type, "accelerator_count": section.gpus}
    container: dict[str, Any] = {"image_uri": section.image, "command": list(command)}
    if section.env:
        container["env"] = [{"name": key, "value": value} for key, value in section.env.items()]
    pool: dict[str, Any] = {"machine_spec": machine, "container_spec": container}
    if section.disk_gb is not None:
        pool["disk_spec"] = {"boot_disk_size_gb": section.disk_gb}
    pools = [{**pool, "replica_count": 1}]
    if workers > 1:
        pools.append({**pool, "replica_count": workers - 1})
    # Workers that miss one cannot go on without it: all start again, from the last checkpoint.
    scheduling: dict[str, Any] = {"restart_job_on_worker_restart": True}
    if section.timeout is not None:
        scheduling["timeout"] = {"seconds": int(seconds_of(section.timeout))}
    if section.spot:
        scheduling["strategy"] = "SPOT"
    spec: dict[str, Any] = {"worker_pool_specs": pools, "scheduling": scheduling}
    if section.service_account is not None:
        spec["service_account"] = section.service_account
    if section.network is not None:
        spec["network"] = section.network
    return {"display_name": name, "labels": {**section.labels, WORK: work}, "job_spec": spec}

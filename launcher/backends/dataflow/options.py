"""What a job file says of Dataflow, as Beam's options. Pure functions."""

from beamfeed.launcher.backends.dataflow.section import DataflowSection
from beamfeed.launcher.backends.remote import flags

DATA_LABEL = "beamfeed-data"  # which dataset a job makes


def beam_options(section: DataflowSection, name: str, fingerprint: str, *, own_code: bool) -> list[str]:
    """The options of a submission; keys left out of the job file are left to the service.

    Args:
      section: of the job file.
      name: of the job.
      fingerprint: of the dataset.
      own_code: whether workers run code of the user's own, which may need TensorFlow.
    """
    labels = {**section.labels, DATA_LABEL: fingerprint[:16]}
    own: dict[str, bool | int | str | list[str] | None] = {
        "runner": "DataflowRunner",
        "project": section.project,
        "region": section.region,
        "job_name": name,
        "temp_location": section.temp_location,
        "staging_location": section.staging_location,
        "sdk_container_image": section.image if own_code else section.worker_image or section.image,
        "worker_machine_type": section.machine_type,
        "disk_size_gb": section.disk_gb,
        "num_workers": section.workers,
        "max_num_workers": section.max_workers,
        "service_account_email": section.service_account,
        "network": section.network,
        "subnetwork": section.subnetwork,
        "resource_hint": None if section.min_ram_gb is None else f"min_ram={section.min_ram_gb:g}GB",
        "use_public_ips": section.public_ips is True,
        "no_use_public_ips": section.public_ips is False,
        "label": [f"{key}={value}" for key, value in labels.items()],
    }
    return [*flags(own), *flags(section.options)]

"""Whether this process has credentials for gs://, found out at once.

Without any, pyarrow asks for them for a quarter of an hour, TensorFlow for ten
seconds and more with each request, and neither says a word. The places looked at
are the ones that all clients know: pyarrow, TensorFlow, Beam.
"""

import http.client
import json
import os
import time
from functools import lru_cache

from beamfeed.contract.errors import UserError

# By number: a name server that does not answer would hold the lookup of a name up.
_METADATA_SERVER = "169.254.169.254"
_ACCOUNT = "/computeMetadata/v1/instance/service-accounts/default/email"
_TRIES, _TIMEOUT, _PAUSE = 2, 2.0, 1.0  # seconds; the server of a pod that has just started may be late
_HELP = "run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS to a key file"


@lru_cache
def require_credentials() -> None:
    """Raises UserError where no client of Cloud Storage would find credentials. Looks once a process."""
    key_file = os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")
    if key_file:
        _check_key_file(key_file)
        return
    if os.path.isfile(_login_file()) or _has_service_account():
        return
    raise UserError(f"gs://: there are no credentials on this machine; {_HELP}")


def _check_key_file(path: str) -> None:
    """Raises UserError where a file is no key file: clients would say so after minutes, or never."""
    variable = "GOOGLE_APPLICATION_CREDENTIALS"
    if not os.path.isfile(path):
        raise UserError(f"{variable}: {path}: there is no such file; {_HELP}")
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except OSError as error:
        raise UserError(f"{variable}: {path}: cannot be read: {error.strerror}") from None
    except ValueError:  # of JSON, or of UTF-8
        content = None
    if not isinstance(content, dict) or "type" not in content:
        raise UserError(f"{variable}: {path}: is not a key file (JSON with a 'type'); {_HELP}")


def _login_file() -> str:
    """What `gcloud auth application-default login` writes."""
    folder = os.environ.get("CLOUDSDK_CONFIG") or os.path.expanduser("~/.config/gcloud")
    return os.path.join(folder, "application_default_credentials.json")


def _has_service_account() -> bool:
    """Whether the machine is one of Google's that has a service account."""
    if os.environ.get("NO_GCE_CHECK", "").lower() == "true":
        return False
    host = os.environ.get("GCE_METADATA_HOST") or os.environ.get("GCE_METADATA_ROOT") or _METADATA_SERVER
    for attempt in range(_TRIES):
        if attempt:
            time.sleep(_PAUSE)
        connection = http.client.HTTPConnection(host, timeout=_TIMEOUT)
        try:
            connection.request("GET", _ACCOUNT, headers={"Metadata-Flavor": "Google"})
            response = connection.getresponse()
            if response.getheader("Metadata-Flavor") == "Google" and response.status < 500:
                return response.status == 200
        except (OSError, http.client.HTTPException):
            continue
        finally:
            connection.close()
    return False

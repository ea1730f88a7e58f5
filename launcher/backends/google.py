"""What the backends on Google Cloud share: keys of their sections, and how a service is asked by its REST interface."""

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field

from beamfeed.contract.config.section import InWords
from beamfeed.contract.errors import UserError, first_line
from beamfeed.launcher.backends.remote import Unreachable

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
TIMEOUT_SECONDS = 60.0
LOGIN = "run `gcloud auth application-default login`"

Project = Annotated[
    str,
    Field(pattern=r"^[a-z][a-z0-9:.-]+[a-z0-9]$"),
    InWords("the id of a project (not its number), such as my-project"),
]
Region = Annotated[str, Field(pattern=r"^[a-z]+-[a-z]+[0-9]+$"), InWords("a region, such as europe-west1")]
Account = Annotated[
    str,
    Field(pattern=r"^[^@\s]+@[^@\s]+$"),
    InWords("an e-mail address, such as name@my-project.iam.gserviceaccount.com"),
]
LabelKey = Annotated[
    str,
    Field(pattern=r"^[a-z][a-z0-9_-]{0,62}$"),
    InWords("at most 63 small letters, digits, _ and -, a letter first"),
]
LabelValue = Annotated[str, Field(pattern=r"^[a-z0-9_-]{0,63}$"), InWords("at most 63 small letters, digits, _ and -")]


def state_words(state: str) -> str:
    """A state of a job as a person says it: running, cancelled."""
    return state.removeprefix("JOB_STATE_").lower()


class GoogleService:
    """The jobs of a service in one project and region.

    Every method raises Unreachable where trying again may help, and UserError where it does not.

    Args:
      name: of the service, as messages have it.
      place: its project and region, likewise.
      url: of its jobs.
      advice: what helps, as the end of a message, by the status of HTTP.
      anonymous: whether it is asked without credentials.
    """

    def __init__(self, name: str, place: str, url: str, advice: Mapping[int, str], *, anonymous: bool = False):
        self._name, self._place, self._url, self._advice = name, place, url, advice
        self._session = _session(name, anonymous)

    def call(self, method: str, path: str = "", **options: Any) -> dict[str, Any]:
        """The answer to a request; `options` as of `requests.request`."""
        from google.auth.exceptions import GoogleAuthError, TransportError

        try:
            response = self._session.request(method, self._url + path, timeout=TIMEOUT_SECONDS, **options)
        except (OSError, TransportError) as error:
            raise Unreachable(first_line(error)) from None
        except GoogleAuthError as error:
            raise UserError(f"{self._name}: the credentials are not accepted: {first_line(error)}; {LOGIN}") from None
        if response.ok:
            return dict(response.json())
        status = response.status_code
        reason = f"{status} {_error_text(response.text)}"
        if status in (408, 429) or status >= 500:
            raise Unreachable(reason)
        raise UserError(f"{self._name} in {self._place}: {reason}{self._advice.get(status, '')}")

    def listed(self, path: str, key: str, **query: str | None) -> Iterator[dict[str, Any]]:
        """The entries under a key of an answer that comes in pages."""
        page: str | None = None
        while page != "":
            answer = self.call("GET", path, params={**query, "pageToken": page})
            yield from answer.get(key, ())
            page = answer.get("nextPageToken", "")


def _session(name: str, anonymous: bool) -> Any:
    import google.auth
    from google.auth.credentials import AnonymousCredentials
    from google.auth.exceptions import GoogleAuthError
    from google.auth.transport.requests import AuthorizedSession

    if anonymous:
        return AuthorizedSession(AnonymousCredentials())
    try:
        credentials, _ = google.auth.default(scopes=[SCOPE])
    except GoogleAuthError as error:
        raise UserError(
            f"{name}: {first_line(error)}; {LOGIN}, or set GOOGLE_APPLICATION_CREDENTIALS to a key file"
        ) from None
    return AuthorizedSession(credentials)


def _error_text(body: str) -> str:
    """What an error of a service says, in one line."""
    try:
        message = json.loads(body)["error"]["message"]
    except (ValueError, KeyError, TypeError):
        message = body
    return " ".join(str(message).split())[:300]

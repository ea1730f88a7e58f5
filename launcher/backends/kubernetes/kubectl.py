"""The few commands of kubectl with which objects are made, looked at and deleted."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from typing import Any

from beamfeed.contract.errors import UserError
from beamfeed.launcher.backends.remote import Unreachable, answered

TIMEOUT_SECONDS = 60.0
# What helps where the cluster says no; else it is asked again.
UNKNOWN = "the cluster does not know it; install it there, or choose another launch.STAGE.kubernetes.kind"
CONTEXTS = "see `kubectl config get-contexts`"
LOGIN, TAKEN = "log in to the cluster again", "the cluster does not take it"
REFUSED = {
    "no matches for kind": UNKNOWN,
    "doesn't have a resource type": UNKNOWN,
    "(Unauthorized)": LOGIN,
    "must be logged in": LOGIN,
    "exec plugin": LOGIN,
    "(Forbidden)": "the cluster does not allow it",
    "(NotFound)": "make it first",
    "context was not found": CONTEXTS,
    '" does not exist': CONTEXTS,
    "is invalid": TAKEN,
    "(BadRequest)": TAKEN,
    "(Invalid)": TAKEN,
}


class Exists(Exception):
    """An object of this name is there already."""


class Kubectl:
    """Commands to a namespace of a cluster.

    Args:
      context: of the configuration; None for its current one.
      namespace: None for that of the context.
      stage: for messages.
    """

    def __init__(self, context: str | None, namespace: str | None, stage: str):
        self._stage = stage
        self._command = ["kubectl", *([f"--context={context}"] if context else [])]
        self._command += [f"--namespace={namespace}"] if namespace else []

    def check_installed(self) -> None:
        """Raises UserError if this machine has no kubectl."""
        if shutil.which("kubectl") is None:
            raise UserError(
                "backend: kubernetes: kubectl is not on this machine's PATH; install it, and log in to the cluster"
            )

    def create(self, item: dict[str, Any]) -> None:
        """Makes an object.

        Raises:
          Exists: if one of its name is there.
          UserError: if the cluster does not take it.
        """
        with answered("the cluster", "; run the same command again, which follows what was started"):
            self._call(["create", "-f", "-"], json.dumps(item))

    def get(self, resource: str, name: str) -> dict[str, Any] | None:
        """An object; None where there is none."""
        shown = self._call(["get", resource, name, "--ignore-not-found", "-o", "json"])
        return json.loads(shown) if shown.strip() else None

    def known(self, resources: Iterable[str]) -> list[str]:
        """Those of these types that the cluster has."""
        served = self._call(["api-resources", "--namespaced", "--output=name"], partly=True).split()
        return [resource for resource in resources if resource in served]

    def listed(self, resource: str, *selection: str) -> list[dict[str, Any]]:
        """The objects that are selected."""
        items: list[dict[str, Any]] = json.loads(self._call(["get", resource, *selection, "-o", "json"]))["items"]
        return items

    def delete(self, item: dict[str, Any]) -> None:
        """Asks the cluster to delete this object, not another that has its name by now, and what it made."""
        metadata, version = item["metadata"], item["apiVersion"]
        kind = f"{item['kind'].lower()}s"
        path = f"/{'apis' if '/' in version else 'api'}/{version}/namespaces/{metadata['namespace']}/{kind}"
        # Where what it made goes first, the controller of a TrainJob makes that anew: the old run would begin again.
        order = "Background" if item["kind"] == "TrainJob" else "Foreground"
        how = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": order,
               "preconditions": {"uid": metadata["uid"]}}  # fmt: skip
        self._call(["delete", f"--raw={path}/{metadata['name']}", "-f", "-"], json.dumps(how))

    def logs(self, pod: str, *options: str) -> list[str]:
        """The command that prints what a pod wrote."""
        return [*self._command, "logs", pod, *options]

    def words(self, *command: str) -> str:
        """A command as a user would write it."""
        return " ".join([*self._command, *command])

    def _call(self, arguments: Sequence[str], text: str | None = None, *, partly: bool = False) -> str:
        """What a command prints; `partly`, also where it had to leave something out, as an API that is down."""
        command = [*self._command, *arguments]
        try:
            done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
        except FileNotFoundError:
            self.check_installed()
            raise
        except subprocess.TimeoutExpired:
            raise Unreachable("kubectl does not answer") from None
        if done.returncode == 0 or (partly and done.stdout.strip()):
            return done.stdout
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        reason = lines[-1] if lines else f"kubectl ended with exit code {done.returncode}"
        if "(AlreadyExists)" in reason:
            raise Exists(reason)
        if arguments[0] == "delete" and ("(NotFound)" in done.stderr or "(Conflict)" in done.stderr):
            return ""  # there is no such object, or another has its name
        for words, advice in REFUSED.items():
            if words in done.stderr:
                line = next(line for line in lines if words in line)
                refusal = re.sub(r"^(error: )?(Error from server )?(Error in configuration: )?", "", line)
                raise UserError(f"{self._stage}: Kubernetes: {refusal}; {advice.replace('STAGE', self._stage)}")
        raise Unreachable(reason)

"""What clients sign in with: the metadata server of a machine, a key file, and the servers that hand out tokens."""

import json
import re
from pathlib import Path

from cloud.certificates import private_pem
from cloud.exchange import Refused, Request, Response
from cryptography.hazmat.primitives.asymmetric import rsa

ACCOUNT_HOSTS = ("oauth2.googleapis.com", "iamcredentials.googleapis.com")
ACCOUNT = "tester@example.com"
TOKEN = {"access_token": "throw-away", "expires_in": 3600, "token_type": "Bearer"}


def write_key(folder: Path) -> Path:
    """Writes the key file of the account, as GOOGLE_APPLICATION_CREDENTIALS names one."""
    account = {
        "type": "service_account",
        "project_id": "test-project",
        "private_key_id": "1",
        "private_key": private_pem(rsa.generate_private_key(public_exponent=65537, key_size=2048)).decode(),
        "client_email": ACCOUNT,
        "client_id": "1",
        "token_uri": f"https://{ACCOUNT_HOSTS[0]}/token",
    }
    path = folder / "key.json"
    path.write_text(json.dumps(account))
    return path


def concerns(request: Request) -> bool:
    """Whether a request is for a token or of an account; TensorFlow asks a host of Cloud Storage for tokens."""
    return request.host in ACCOUNT_HOSTS or request.path.startswith("/oauth2/")


def answer(request: Request) -> Response:
    if request.method == "POST" and request.path.endswith("/token"):
        return Response.json(TOKEN)
    if re.fullmatch(r"/v1/projects/-/serviceAccounts/[^/]+/allowedLocations", request.path):
        return Response.json({"locations": [], "encodedLocations": "0x0"})  # the account may be used everywhere
    return Response.error(Refused(400, f"this stand-in does not know {request.method} {request.path}"))


def metadata(path: str) -> Response:
    """What the metadata server of a machine with a service account says."""
    flavor = {"Metadata-Flavor": "Google"}
    if "/token" in path:
        return Response.json(TOKEN, **flavor)
    if "recursive=true" in path:
        about = {"email": ACCOUNT, "aliases": ["default"], "scopes": ["https://www.googleapis.com/auth/cloud-platform"]}
        return Response.json(about, **flavor)
    text = {"/email": ACCOUNT, "/project-id": "test-project", "/universe-domain": "googleapis.com"}
    found = next((value for end, value in text.items() if end in path.replace("_", "-")), "")
    return Response(200, found.encode(), {"Content-Type": "application/text", **flavor})

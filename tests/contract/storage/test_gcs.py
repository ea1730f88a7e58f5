"""The client of gs:// objects; what it reads is shown by tests/gs."""

import json

from beamfeed.contract.storage import gcs


def test_a_person_who_logged_in_needs_no_project(tmp_path, monkeypatch):
    login = {"type": "authorized_user", "client_id": "a", "client_secret": "b", "refresh_token": "c"}
    (tmp_path / "login.json").write_text(json.dumps(login))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "login.json"))
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    for name in ("GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    assert gcs._client.__wrapped__(0).bucket("fleet").blob("a.parquet").name == "a.parquet"

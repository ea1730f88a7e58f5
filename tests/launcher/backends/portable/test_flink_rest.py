"""What Flink's REST interface answers is understood; a server of these tests stands for it, as Flink 1.16 answers."""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from beamfeed.contract.errors import UserError
from beamfeed.launcher.backends.portable.backend import PortableRun
from beamfeed.launcher.backends.portable.flink_rest import FlinkRest
from beamfeed.launcher.backends.portable.section import FlinkSection
from beamfeed.launcher.display import Lines
from beamfeed.launcher.progress import StageProgress
from beamfeed.launcher.stage import PREPROCESS, Stage


@pytest.fixture
def flink():
    """Answers by method and path; returns the address, what is to be answered, and what was asked."""
    answers, asked = {}, []

    class Handler(BaseHTTPRequestHandler):
        def answer(self):
            asked.append(f"{self.command} {self.path}")
            status, values = answers.get(asked[-1], (404, {"errors": ["Not found: " + self.path]}))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(values).encode())

        do_GET = do_PATCH = answer

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}", answers, asked
    server.shutdown()
    server.server_close()


def test_the_job_of_a_name_that_has_not_ended(flink):
    address, answers, _ = flink
    jobs = [("a", "fleet", "CANCELED"), ("b", "other", "RUNNING"), ("c", "fleet", "RESTARTING")]
    listed = [{"jid": job_id, "name": name, "state": state} for job_id, name, state in jobs]
    answers["GET /jobs/overview"] = (200, {"jobs": listed})
    assert FlinkRest(address).active_job("fleet") == "c"
    assert FlinkRest(address).active_job("none") is None


def test_cancel_waits_for_the_end(flink):
    address, answers, asked = flink
    answers |= {"PATCH /jobs/c?mode=cancel": (202, {}), "GET /jobs/c": (200, {"state": "CANCELED"})}
    assert FlinkRest(address).cancel("c")
    assert asked == ["PATCH /jobs/c?mode=cancel", "GET /jobs/c"]


def test_what_it_refuses_is_told(flink):
    address, answers, _ = flink
    with pytest.raises(UserError, match=f"master: no answer from Flink at {address}: 404 Not found: /jobs/overview"):
        FlinkRest(address).active_job("fleet")
    answers["PATCH /jobs/c?mode=cancel"] = (403, {"errors": ["cancelling is disabled"]})
    with pytest.raises(UserError, match="403 cancelling is disabled"):
        FlinkRest(address).cancel("c")


@pytest.mark.parametrize(("code", "cancelled"), [(0, False), (1, True), (2, False)])
def test_a_job_whose_submission_failed_is_ended_and_nobody_elses(flink, tmp_path, code, cancelled):
    """Exit code 2 is a mistake, such as to preprocess where another launcher does: that one's job has the same name."""
    address, answers, asked = flink
    answers |= {
        "GET /jobs/overview": (200, {"jobs": [{"jid": "c", "name": "fleet", "state": "RUNNING"}]}),
        "PATCH /jobs/c?mode=cancel": (202, {}),
        "GET /jobs/c": (200, {"state": "CANCELED"}),
    }
    command = (sys.executable, "-c", f"raise SystemExit({code})", "--job_name=fleet")
    section = FlinkSection(job_server="127.0.0.1:1", master=address)
    stage = Stage(
        PREPROCESS, command, "flink", 1, "", False, "", output=f"{tmp_path}/data", fingerprint="f" * 64, section=section
    )
    assert PortableRun(stage, "flink").follow(StageProgress(PREPROCESS, 0.0), Lines()) == code
    assert ("PATCH /jobs/c?mode=cancel" in asked) == cancelled


def test_what_is_no_flink_is_told(flink):
    address, answers, _ = flink
    answers["GET /jobs/overview"] = (200, {"status": "ok"})
    with pytest.raises(UserError, match=f"no answer from Flink at {address}: something else answers there"):
        FlinkRest(address).active_job("fleet")


def test_one_that_is_not_there_is_told():
    with pytest.raises(UserError, match=r"master: no answer from Flink at 127\.0\.0\.1:1: Connection refused"):
        FlinkRest("127.0.0.1:1").active_job("fleet")

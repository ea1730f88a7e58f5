"""The one kind of error that is shown to a user as a single line."""


class UserError(Exception):
    """A mistake in a job file, a path or the environment, told in one line.

    Commands print the message without a traceback and exit with code 2. The
    message says what was found, where, and what is allowed.
    """


class JobFailed(Exception):
    """The job ran and found that it must not publish, such as too many rejected assets.

    Commands print the message without a traceback and exit with code 1.
    """

    MARK = "job failed:"

    def __init__(self, message: str):
        super().__init__(f"{self.MARK} {message}" if not message.startswith(self.MARK) else message)


def find_job_failure(text: str) -> str | None:
    """Returns the message of a JobFailed inside the text of a runner's error, or None.

    A runner hands an error of a worker process back as text with the worker's
    traceback, so the type is lost and the mark has to be found.
    """
    for line in reversed(text.splitlines()):
        at = line.find(JobFailed.MARK)
        if at >= 0:
            return line[at:].split(" [while running", 1)[0].rstrip("\"')")
    return None

"""Calls the main functions of modules one after the other, so that TensorFlow and Beam are loaded once."""

import contextlib
import importlib
import io
import json
import os
import sys
import warnings

from tests.fast import keep_all

warnings.simplefilter("ignore")


def call(module: str, arguments: list[str]) -> tuple[object, str, str]:
    """The exit code, and what went to stdout and stderr."""
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        try:
            code = importlib.import_module(module).main(arguments)
        except SystemExit as end:
            code = end.code
        except BaseException as raised:
            code = f"raised {type(raised).__name__}: {raised}"
    return code, out.getvalue(), error.getvalue()


def run(cases: list[dict]) -> list[tuple[object, str, str]]:
    found = []
    for case in cases:
        before = dict(os.environ)
        os.environ.update(case["env"])
        if "apache_beam" in sys.modules:
            keep_all()
        found.append(call(case["module"], case["arguments"]))
        os.environ.clear()
        os.environ.update(before)
    return found


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        results = run(json.load(file))
    with open(sys.argv[2], "w") as file:
        json.dump(results, file)

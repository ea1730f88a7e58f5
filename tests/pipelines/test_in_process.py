"""What is left out of Beam's work in a job of one process changes nothing of what it does."""

import base64
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import apache_beam as beam
import pytest
import yaml
from apache_beam.coders import VarIntCoder
from apache_beam.internal import pickler
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.worker.statesampler import StateSampler
from apache_beam.transforms import core, userstate
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec, TimeDomain, TimerSpec, on_timer
from apache_beam.typehints.typecheck import OutputCheckWrapperDoFn
from apache_beam.utils.counters import CounterFactory

from beamfeed.pipelines.in_process import SAMPLING_MS, remember_arguments, remember_specs, steps_stay
from beamfeed.pipelines.runner import choose_runner

TIMER = TimerSpec("timer", TimeDomain.WATERMARK)
STATE, OTHER = (ReadModifyWriteStateSpec(name, VarIntCoder()) for name in ("state", "other"))


class Counts(beam.DoFn):
    def process(self, pair, state=beam.DoFn.StateParam(STATE), timer=beam.DoFn.TimerParam(TIMER)):
        yield pair

    @on_timer(TIMER)
    def expire(self):
        pass

    def otherwise(self, pair, state=beam.DoFn.StateParam(OTHER)):
        yield pair


def with_method(step, name, method):
    setattr(step, name, method)
    return step


class Stateless(beam.DoFn):
    def process(self, pair):
        yield pair


STEPS = {
    "none": lambda: beam.ParDo(beam.DoFn()).fn,
    "of a function": lambda: beam.Map(len).fn,
    "of a method": lambda: beam.Map(Counts().otherwise).fn,
    "of a class": lambda: Counts(),
    "of a wrapper": lambda: OutputCheckWrapperDoFn(Stateless(), "step"),  # which --runtime_type_check puts around
    "of another in it": lambda: OutputCheckWrapperDoFn(Counts(), "step"),
    "a method of its own": lambda: with_method(Counts(), "process", Counts().otherwise),
    "a function in the place of a method": lambda: with_method(Counts(), "process", len),
}


def test_what_is_remembered_of_steps_is_what_beam_finds():
    remember_specs()
    remember_specs()
    find, remembered = userstate.get_dofn_specs.__wrapped__, userstate.get_dofn_specs
    assert not hasattr(find, "__wrapped__")
    for _ in range(2):
        for name, make in STEPS.items():
            assert remembered(make()) == find(make()), name
    state, timers = remembered(Counts())
    assert {spec.name for spec in state} == {"state", "other"}
    assert timers == {TIMER}
    assert remembered(STEPS["a function in the place of a method"]()) != remembered(Counts())


def test_a_class_of_steps_is_looked_through_once(monkeypatch):
    remember_specs()

    class Step(beam.DoFn):
        def process(self, element):
            yield element

    asked = []
    monkeypatch.setattr(Step, "_inspect_process", lambda _: asked.append(1) or ([], []), raising=False)
    for _ in range(3):
        userstate.get_dofn_specs(Step())
    assert len(asked) == 1


COUNT = """
import bz2

packed, compress = [], bz2.compress
bz2.compress = lambda data, compresslevel=9: packed.append(data) or compress(data, compresslevel)
from beamfeed.pipelines import preprocess

print(preprocess.main(["--job", "job.yaml"]), len(packed))
"""


def is_packed(step) -> bool:
    return base64.b64decode(pickler.dumps(step)).startswith(b"BZh")


@pytest.mark.parametrize("step", [len, lambda number: number + 40, Stateless(), (Stateless(), (), {"a": 2}, [], None)])
def test_a_step_that_stays_here_is_not_packed(step):
    with steps_stay(True):
        assert not is_packed(step)
        here = pickler.dumps(step)
        with steps_stay(False), ThreadPoolExecutor(1) as other:
            assert is_packed(step)
            assert other.submit(is_packed, step).result()
            elsewhere = pickler.dumps(step)
    assert type(pickler.loads(here)) is type(pickler.loads(elsewhere)) is type(step)


def test_a_function_without_a_name_stays_here_too():
    with steps_stay(True):
        assert pickler.loads(pickler.dumps(lambda number: number + 40))(2) == 42


def test_a_small_job_packs_next_to_nothing(tmp_path):
    """Of its some four hundred steps and coders, those that Beam packs in another way."""
    (tmp_path / "rows.csv").write_text("a,b\n" + "1,2\n" * 50)
    job = {"name": "t", "source": {"kind": "table", "files": "rows.csv"}, "features": {"a": "numeric", "b": "numeric"}}
    (tmp_path / "job.yaml").write_text(yaml.safe_dump({**job, "output": {"path": "data"}}))
    done = subprocess.run([sys.executable, "-c", COUNT], cwd=tmp_path, capture_output=True, text=True, check=True)
    code, packed = map(int, done.stdout.splitlines()[-1].split())
    assert code == 0
    assert 0 < packed < 20


def test_what_is_found_by_its_name_is_not_pickled_by_value():
    with steps_stay(True):
        assert len(base64.b64decode(pickler.dumps(is_packed))) == len(pickle.dumps(is_packed, pickle.HIGHEST_PROTOCOL))


def test_a_step_ends_soon_after_its_work():
    choose_runner(PipelineOptions([]), 1)
    assert StateSampler("step", CounterFactory()).sampling_period_ms == SAMPLING_MS


def test_what_is_remembered_of_methods_is_what_beam_finds():
    remember_arguments()
    find = core.get_function_args_defaults.__wrapped__
    for _ in range(2):
        for method in (Counts().process, Counts().otherwise, Stateless().process, Counts().expire, len, is_packed):
            assert core.get_function_args_defaults(method) == find(method)

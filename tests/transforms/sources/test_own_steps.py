"""The user's own steps on batches: what they may give, and what is told of a mistake."""

import pickle

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from beamfeed.contract.errors import UserError
from beamfeed.transforms.sources.own_steps import OwnSteps

BATCH = pa.RecordBatch.from_pydict({"t": [1, 2, 3, 4], "x": [1.0, None, 3.0, 4.0], "asset": ["a", "a", "a", "a"]})
WHERE = "rows 0 to 3 of a.csv"
MODULE = __name__


def double(table: pa.Table) -> pa.Table:
    return table.append_column("y", pc.multiply(table["x"], 2.0))


def plus_one(table: pa.Table) -> pa.RecordBatch:
    """Gives a batch, which is as good as a table."""
    table = table.append_column("z", pc.add(table["y"], 1.0))
    return table.combine_chunks().to_batches()[0]


def only_new(table: pa.Table) -> pa.Table:
    return pa.table({"asset": table["asset"], "new": pc.is_null(table["x"]), "t": table["t"]})


class Counting(beam.DoFn):
    """Needs its setup, which is called once."""

    made = 0

    def setup(self):
        Counting.made += 1
        self.number = Counting.made

    def process(self, table):
        yield table.append_column("n", pa.array([self.number] * len(table)))


class Silent(beam.DoFn):
    def process(self, table):
        pass


class Unready(beam.DoFn):
    def setup(self):
        raise FileNotFoundError("no table of factors")

    def process(self, table):
        yield table


def running_sum(table: pa.Table) -> pa.Table:
    return table.append_column("s", pc.cumulative_sum(table["t"]))


def sometimes(table: pa.Table) -> pa.Table:
    return double(table) if len(table) == 4 else table


def fails(table: pa.Table) -> pa.Table:
    return table[1 // 0]


def no_memory(table: pa.Table) -> pa.Table:
    raise MemoryError


def no_table(table: pa.Table) -> dict:
    return {}


def fewer(table: pa.Table) -> pa.Table:
    return table.filter(pc.is_valid(table["x"]))


def later(table: pa.Table) -> pa.Table:
    return table.set_column(0, "t", pc.add(table["t"], 1))


def as_float(table: pa.Table) -> pa.Table:
    """Times that are equal and of another type."""
    return table.set_column(0, "t", pc.cast(table["t"], pa.float64()))


def nameless(table: pa.Table) -> pa.Table:
    return table.drop_columns(["asset"])


def twice(table: pa.Table) -> pa.Table:
    return table.append_column("x", table["x"])


def steps(*names: str) -> OwnSteps:
    return OwnSteps(tuple(f"{MODULE}:{name}" for name in names), ("t", "asset"))


def test_steps_follow_each_other():
    made = steps("double", "plus_one").apply(BATCH, WHERE)
    assert made.column("z").to_pylist() == [3.0, None, 7.0, 9.0]
    assert made.schema.names == ["t", "x", "asset", "y", "z"]


def test_columns_may_go_and_come_in_any_order():
    made = steps("only_new").apply(BATCH, WHERE)
    assert made.column("new").to_pylist() == [False, True, False, False]


def test_a_dofn_is_set_up_once_in_each_process_it_comes_to():
    Counting.made = 0
    own = steps("Counting")
    first = [own.apply(BATCH, WHERE).column("n")[0].as_py() for _ in range(3)]
    there = pickle.loads(pickle.dumps(own))
    assert (first, there.apply(BATCH, WHERE).column("n")[0].as_py()) == ([1, 1, 1], 2)


def test_a_time_that_is_not_a_number_is_no_fault_of_a_step():
    batch = BATCH.set_column(0, "t", pa.array([1.0, float("nan"), 3.0, None]))
    assert steps("double").apply(batch, WHERE).num_rows == 4
    with pytest.raises(UserError, match="changes the column 't'"):
        steps("later").apply(batch, WHERE)


def test_no_rows_are_no_business_of_a_step():
    assert steps("fails").apply(BATCH.slice(0, 0), WHERE).num_rows == 0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fails", rf"fails on {WHERE}: ZeroDivisionError: .*test_own_steps.py:\d+\)"),
        ("plus_one", r"fails on .*KeyError: .*it gets the columns t, x, asset, and more of prepare.step_columns"),
        ("no_table", "gives a dict, it must be a pyarrow.Table"),
        ("fewer", "makes 3 rows of 4"),
        ("later", "changes the column 't'"),
        ("as_float", "changes the column 't'"),
        ("nameless", "leaves out the column 'asset', which the job needs"),
        ("twice", "gives 2 columns of the name 'x'"),
        ("Silent", "process gave 0 elements, it must yield one table"),
        ("Unready", "cannot be made: FileNotFoundError: no table of factors"),
        ("dubble", "has no 'dubble'; did you mean 'double'"),
    ],
)
def test_a_mistake_is_one_line(name, message):
    with pytest.raises(UserError, match=f"^prepare.steps: .*{message}") as error:
        steps(name).apply(BATCH, WHERE)
    assert "\n" not in str(error.value)


def test_trouble_of_the_machine_is_no_mistake():
    with pytest.raises(MemoryError):
        steps("no_memory").apply(BATCH, WHERE)


@pytest.mark.parametrize("name", ["double", "only_new", "Counting"])
def test_steps_that_make_rows_of_rows_are_fine(name):
    assert steps(name).try_out(BATCH, WHERE) == steps(name).apply(BATCH, WHERE).schema or name == "Counting"


@pytest.mark.parametrize(
    ("name", "message"),
    [("running_sum", "column 's' differs when"), ("sometimes", "column 'y' is not there for each batch")],
)
def test_steps_that_look_at_where_a_batch_begins_are_refused(name, message):
    with pytest.raises(UserError, match=message):
        steps(name).try_out(BATCH, WHERE)

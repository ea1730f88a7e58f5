"""Losses and metrics by name, against plain NumPy, and what is told of those that cannot be had."""

import keras
import numpy as np
import pytest
import sklearn.metrics
import tensorflow as tf
from labelled import write_labelled
from pydantic import TypeAdapter

from beamfeed.contract.config.task import Task
from beamfeed.contract.errors import UserError
from beamfeed.trainer.tasks.objective import Objective

OWN = """
import keras
import tensorflow as tf

def cubed(wanted, found):
    return tf.abs(tf.cast(wanted, tf.float32) - found) ** 3

def total(wanted, found):
    return tf.reduce_sum(found)

def broken(wanted, found):
    raise RuntimeError("no luck")

class Least(keras.metrics.Metric):
    def __init__(self):
        super().__init__(name="least")
        self.least = self.add_variable((), initializer=keras.initializers.Constant(9.0))

    def update_state(self, wanted, found, sample_weight=None):
        self.least.assign(tf.minimum(self.least, tf.reduce_min(found)))

    def result(self):
        return self.least.value

class Right(keras.metrics.Mean):
    def update_state(self, wanted, found, sample_weight=None):
        right = tf.cast(tf.equal(wanted, tf.argmax(found, -1)), tf.float32)
        return super().update_state(right, sample_weight)

class Positives(keras.metrics.Metric):  # as in Keras's documentation of Metric: the result is a variable
    def __init__(self):
        super().__init__(name="positives")
        self.positives = self.add_weight(shape=(), initializer="zeros")

    def update_state(self, wanted, found, sample_weight=None):
        right = tf.cast((wanted == 1) & (tf.argmax(found, -1) == 1), tf.float32)
        right = right if sample_weight is None else right * sample_weight
        self.positives.assign(self.positives + tf.reduce_sum(right))

    def result(self):
        return self.positives

class Worst(keras.metrics.Metric):
    def __init__(self):
        super().__init__(name="worst")
        self.worst = self.add_weight(shape=(), initializer="zeros")

    def update_state(self, wanted, found, sample_weight=None):
        self.worst.assign(tf.maximum(self.worst, tf.reduce_max(tf.abs(found - wanted))))

    def result(self):
        return self.worst.value

class Eager(keras.metrics.Mean):
    def update_state(self, wanted, found, sample_weight=None):
        return super().update_state(found.numpy() - wanted.numpy())

def eager(wanted, found):
    return tf.constant((found.numpy() - wanted.numpy()) ** 2)

def rounded(wanted, found):
    return tf.abs(wanted - tf.round(found))

class Both(keras.metrics.Mean):
    def update_state(self, wanted, found, sample_weight=None):
        return super().update_state(found[..., 0], sample_weight)

    def result(self):
        return tf.stack([self.total.value, self.count.value])
"""


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    return write_labelled(str(tmp_path_factory.mktemp("data"))).manifest


@pytest.fixture(autouse=True)
def own(tmp_path, monkeypatch):
    (tmp_path / "own_tasks.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)


def objective(manifest, **section) -> Objective:
    return Objective(TypeAdapter(Task).validate_python(section), manifest)


CLASSIFY = {"name": "classify", "target": "fault"}
REGRESS = {"name": "regress", "target": "life"}


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({**REGRESS, "loss": "huberr"}, "train.task.loss: 'huberr' is not a Keras loss; did you mean 'huber'?"),
        ({**REGRESS, "metrics": ["aux"]}, "train.task.metrics: 'aux' is not a Keras metric; did you mean 'auc'?"),
        ({**REGRESS, "loss": "nowhere:f"}, "train.task.loss: there is no module 'nowhere'"),
        ({**REGRESS, "loss": "own_tasks:cubd"}, "has no 'cubd'; did you mean 'cubed'?"),
        ({**REGRESS, "loss": "own_tasks:total"}, "train.task.loss: 'own_tasks:total' gives [] for 3 windows"),
        ({**REGRESS, "loss": "own_tasks:broken"}, "'own_tasks:broken' does not fit the task: RuntimeError: no luck"),
        ({**CLASSIFY, "loss": "ctc"}, "train.task.loss: 'ctc' does not fit the task"),
        (
            {**CLASSIFY, "loss": "dice"},
            "train.task.loss: 'dice' gives [] for 3 windows, it must give a number for each",
        ),
        ({**CLASSIFY, "metrics": ["own_tasks:Least"]}, "train.task.metrics: 'own_tasks:Least' does not begin at zero"),
        ({**CLASSIFY, "metrics": ["own_tasks:Both"]}, "train.task.metrics: 'own_tasks:Both' gives [2], it must give"),
        ({**CLASSIFY, "metrics": ["own_tasks:cubed"]}, "train.task.metrics: 'own_tasks:cubed' cannot be made"),
        ({**CLASSIFY, "metrics": ["precision_at_recall"]}, "train.task.metrics: 'precision_at_recall' cannot be made"),
        ({**CLASSIFY, "metrics": ["auc", "AUC"]}, "train.task.metrics: two metrics have the name 'auc'"),
        (
            {"outputs": {"a": {**REGRESS, "loss": "mea"}, "b": CLASSIFY}},
            "train.task.outputs.a.loss: 'mea' is not a Keras loss",
        ),
        (
            {"outputs": {"eval": REGRESS, "b": CLASSIFY}},
            "train.task: metrics.jsonl would have two numbers called 'eval_loss'",
        ),
        (
            {
                "outputs": {
                    "a": {**CLASSIFY, "metrics": ["categorical_accuracy"]},
                    "a_categorical": {**CLASSIFY, "metrics": ["accuracy"]},
                }
            },
            "train.task: metrics.jsonl would have two numbers called 'a_categorical_accuracy'",
        ),
        ({**REGRESS, "metrics": ["own_tasks:Worst"]}, "train.task.metrics: 'own_tasks:Worst' does not add up"),
        ({**REGRESS, "metrics": ["own_tasks:Eager"]}, "'own_tasks:Eager' does not fit the task: AttributeError"),
        ({**REGRESS, "loss": "own_tasks:eager"}, "'own_tasks:eager' does not fit the task: AttributeError"),
        ({**REGRESS, "loss": "own_tasks:rounded"}, "train.task.loss: 'own_tasks:rounded' has no gradient"),
        ({**REGRESS, "loss": "cosine_similarity"}, "'cosine_similarity' is the same for every prediction"),
        ({**REGRESS, "loss": "kl_divergence"}, "'kl_divergence' is the same for every prediction"),
        ({**REGRESS, "loss": "categorical_crossentropy"}, "is the same for every prediction"),
        ({**REGRESS, "metrics": ["mae", "cosine_similarity"]}, "'cosine_similarity' is the same for every"),
        ({**REGRESS, "metrics": ["pearson_correlation"]}, "'pearson_correlation' is the same for every prediction"),
        ({**REGRESS, "metrics": ["categorical_accuracy"]}, "is the same for every prediction"),
        ({**CLASSIFY, "metrics": ["top_k_accuracy"]}, "'top_k_accuracy' is the same for every prediction"),
    ],
)
def test_what_cannot_be_had_is_one_line(manifest, section, message):
    with pytest.raises(UserError) as caught:
        objective(manifest, **section)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def losses_of(objective, fields, found):
    examples = objective.examples({name: tf.constant(value) for name, value in fields.items()})
    return objective.losses(examples, objective.outputs(tf.constant(found)))["loss"].numpy()


RNG = np.random.default_rng(1)
FIELDS = {
    "values": RNG.normal(size=(5, 8, 3)).astype("f4"),
    "fault": np.array([0, 1, 2, 1, 0]),
    "hot": np.array([0, 1, 1, 0, 1]),
    "life": RNG.normal(size=5).astype("f4"),
    "importance": np.array([1, 2, 0, 0.5, 1], "f4"),
}
LOGITS = RNG.normal(size=(5, 3)).astype("f4")
PROBABILITIES = np.exp(LOGITS) / np.exp(LOGITS).sum(1, keepdims=True)
TRUE = np.eye(3, dtype=bool)[FIELDS["fault"]]
ENTROPY = -np.log(PROBABILITIES[np.arange(5), FIELDS["fault"]])
GUESSED = RNG.normal(size=(5, 1)).astype("f4")
ERROR = GUESSED[:, 0] - FIELDS["life"]
AGAIN = RNG.normal(size=(5, 8, 3)).astype("f4")


@pytest.mark.parametrize("cast", [np.float32, np.float16])
@pytest.mark.parametrize(
    ("section", "found", "expected"),
    [
        (CLASSIFY, LOGITS, ENTROPY),
        ({**CLASSIFY, "loss": "categorical_crossentropy"}, LOGITS, ENTROPY),
        ({**CLASSIFY, "loss": "SparseCategoricalCrossentropy"}, LOGITS, ENTROPY),
        ({**CLASSIFY, "sample_weight": "importance"}, LOGITS, ENTROPY * FIELDS["importance"]),
        ({**CLASSIFY, "class_weights": {"worn": 3}}, LOGITS, ENTROPY * np.array([1, 3, 1, 3, 1])),
        (
            {**CLASSIFY, "class_weights": {"worn": 3}, "sample_weight": "importance", "weight": 0.5},
            LOGITS,
            ENTROPY * np.array([1, 6, 0, 1.5, 1]) / 2,
        ),
        (
            {**CLASSIFY, "loss": "kl_divergence"}, LOGITS, ENTROPY,
        ),
        (
            {**CLASSIFY, "loss": "mae"}, LOGITS, np.abs(TRUE - PROBABILITIES).mean(1),
        ),
        (
            {**CLASSIFY, "loss": "categorical_hinge"}, LOGITS,
            np.maximum(0, 1 + np.where(TRUE, 0, LOGITS).max(1) - LOGITS[np.arange(5), FIELDS["fault"]]),
        ),
        (REGRESS, GUESSED, ERROR**2),
        (REGRESS, GUESSED[:, 0], ERROR**2),
        ({**REGRESS, "loss": "mae"}, GUESSED, np.abs(ERROR)),
        (
            {**REGRESS, "loss": "huber"},
            GUESSED,
            np.where(np.abs(ERROR) < 1, ERROR**2 / 2, np.abs(ERROR) - 0.5),
        ),
        ({**REGRESS, "loss": "own_tasks:cubed"}, GUESSED, np.abs(ERROR) ** 3),
        ({"name": "reconstruct"}, AGAIN, ((AGAIN - FIELDS["values"]) ** 2).mean((1, 2))),
        ({"name": "reconstruct", "loss": "MeanAbsoluteError"}, AGAIN, np.abs(AGAIN - FIELDS["values"]).mean((1, 2))),
        (
            {"name": "reconstruct", "loss": "own_tasks:cubed"}, AGAIN,
            (np.abs(AGAIN - FIELDS["values"]) ** 3).mean((1, 2)),
        ),
    ],
)  # fmt: skip
def test_losses_are_those_of_the_formula_in_any_precision(manifest, section, found, expected, cast):
    losses = losses_of(objective(manifest, **section), FIELDS, found.astype(cast))
    assert losses.dtype == np.float32
    np.testing.assert_allclose(
        losses, expected, rtol=1e-5 if cast is np.float32 else 2e-2, atol=1e-6 if cast is np.float32 else 2e-2
    )


@pytest.mark.parametrize("threshold", [1e-9, 1 - 1e-9])
def test_a_threshold_that_few_windows_reach_has_metrics(manifest, threshold):
    made = objective(manifest, **HOT, threshold=threshold, metrics=["accuracy", "precision", "recall", "f1_score"])
    assert made.names()[1:] == ["accuracy", "precision", "recall", "f1_score"]


def test_several_outputs_are_added_up_by_their_weights(manifest):
    several = objective(
        manifest, outputs={"a": {**CLASSIFY, "weight": 2}, "b": {**REGRESS, "sample_weight": "importance"}}
    )
    examples = several.examples({name: tf.constant(value) for name, value in FIELDS.items()})
    losses = several.losses(examples, several.outputs({"a": tf.constant(LOGITS), "b": tf.constant(GUESSED)}))
    np.testing.assert_allclose(losses["a_loss"], ENTROPY, rtol=1e-5)
    np.testing.assert_allclose(losses["b_loss"], ERROR**2 * FIELDS["importance"], rtol=1e-5)
    np.testing.assert_allclose(losses["loss"], 2 * ENTROPY + ERROR**2 * FIELDS["importance"], rtol=1e-5)
    assert several.names() == [
        "loss",
        "a_loss",
        "b_loss",
        "a_accuracy",
        "b_mean_absolute_error",
        "b_root_mean_squared_error",
    ]
    assert several.fields() == ["values", "fault", "life", "importance"]


def in_parts(objective, fields, found, parts):
    """The metrics, from sums that are added up over parts of a batch, padded to the size of the largest."""
    sums = objective.zero()
    size = max(map(len, parts))
    for part in parts:
        padded = [*part, *[0] * (size - len(part))]
        present = tf.constant([1.0] * len(part) + [0.0] * (size - len(part)))
        examples = objective.examples({name: tf.constant(value[padded]) for name, value in fields.items()})
        outputs = objective.outputs(tf.constant(found[padded]))
        for name, one in objective.measure(examples, outputs, present).items():
            sums[name] = sums[name] + one.numpy()
    return objective.values(sums, 1)


MANY = {
    "values": np.zeros((200, 8, 3), "f4"),
    "fault": RNG.integers(0, 3, 200),
    "hot": RNG.integers(0, 2, 200),
    "life": RNG.normal(size=200).astype("f4") + 1000,  # as in the dataset
    "importance": np.ones(200, "f4"),
}
MANY_LOGITS = (np.eye(3)[MANY["fault"]] + RNG.normal(size=(200, 3))).astype("f4")
TWO_LOGITS = (np.eye(2)[MANY["hot"]] + RNG.normal(size=(200, 2))).astype("f4")
MANY_GUESSED = (MANY["life"] + RNG.normal(size=200)).astype("f4")[:, None]
PARTS = [list(range(0, 7)), list(range(7, 120)), list(range(120, 200)), []]


def softmax(logits):
    return np.exp(logits) / np.exp(logits).sum(1, keepdims=True)


def of_keras(metric, wanted, found):
    """By Keras's own state, all at once."""
    metric.update_state(wanted, found)
    return float(metric.result())


HOT = {"name": "classify", "target": "hot"}
STRICT = {**HOT, "threshold": 0.7}
SURE = (softmax(TWO_LOGITS)[:, 1] >= 0.7).astype(int)
MANY_ONE_HOT = np.eye(3, dtype="f4")[MANY["fault"]]


@pytest.mark.parametrize(
    ("section", "metric", "found", "expected"),
    [
        (CLASSIFY, "accuracy", MANY_LOGITS, lambda: (MANY_LOGITS.argmax(1) == MANY["fault"]).mean()),
        (CLASSIFY, "own_tasks:Right", MANY_LOGITS, lambda: (MANY_LOGITS.argmax(1) == MANY["fault"]).mean()),
        (HOT, "auc", TWO_LOGITS, lambda: of_keras(keras.metrics.AUC(), MANY["hot"], softmax(TWO_LOGITS)[:, 1])),
        (HOT, "Precision", TWO_LOGITS, lambda: precision(TWO_LOGITS.argmax(1), MANY["hot"])),
        (HOT, "recall", TWO_LOGITS, lambda: precision(MANY["hot"], TWO_LOGITS.argmax(1))),
        (STRICT, "accuracy", TWO_LOGITS, lambda: (MANY["hot"] == SURE).mean()),
        (STRICT, "binary_accuracy", TWO_LOGITS, lambda: (MANY["hot"] == SURE).mean()),
        (STRICT, "precision", TWO_LOGITS, lambda: precision(SURE, MANY["hot"])),
        (STRICT, "recall", TWO_LOGITS, lambda: precision(MANY["hot"], SURE)),
        (STRICT, "true_positives", TWO_LOGITS, lambda: (SURE & MANY["hot"]).sum()),
        (
            STRICT, "f1_score", TWO_LOGITS,
            lambda: sklearn.metrics.f1_score(MANY["hot"], SURE, average="macro"),
        ),
        (
            STRICT, "mean_iou", TWO_LOGITS,
            lambda: sklearn.metrics.jaccard_score(MANY["hot"], SURE, average="macro"),
        ),
        (STRICT, "auc", TWO_LOGITS, lambda: of_keras(keras.metrics.AUC(), MANY["hot"], softmax(TWO_LOGITS)[:, 1])),
        (STRICT, "crossentropy", TWO_LOGITS, lambda: -np.log(softmax(TWO_LOGITS)[np.arange(200), MANY["hot"]]).mean()),
        (CLASSIFY, "auc", MANY_LOGITS, lambda: of_keras(keras.metrics.AUC(), MANY_ONE_HOT, softmax(MANY_LOGITS))),
        (
            CLASSIFY, "f1_score", MANY_LOGITS,
            lambda: of_keras(keras.metrics.F1Score(average="macro"), MANY_ONE_HOT, softmax(MANY_LOGITS)),
        ),
        (
            CLASSIFY, "categorical_crossentropy", MANY_LOGITS,
            lambda: -np.log(softmax(MANY_LOGITS)[np.arange(200), MANY["fault"]]).mean(),
        ),
        (HOT, "own_tasks:Positives", TWO_LOGITS, lambda: ((TWO_LOGITS.argmax(1) == 1) & (MANY["hot"] == 1)).sum()),
        (
            CLASSIFY, "MeanIoU", MANY_LOGITS,
            lambda: of_keras(keras.metrics.OneHotMeanIoU(3, sparse_y_pred=False), MANY_ONE_HOT, softmax(MANY_LOGITS)),
        ),
        (REGRESS, "mean_absolute_error", MANY_GUESSED, lambda: np.abs(MANY_GUESSED[:, 0] - MANY["life"]).mean()),
        (
            REGRESS, "root_mean_squared_error", MANY_GUESSED,
            lambda: np.sqrt(((MANY_GUESSED[:, 0] - MANY["life"]) ** 2).mean()),
        ),
        (
            REGRESS, "r2_score", MANY_GUESSED,
            lambda: 1 - ((MANY_GUESSED[:, 0] - MANY["life"]) ** 2).mean() / MANY["life"].var(),
        ),
    ],
)  # fmt: skip
def test_metrics_are_exact_however_they_are_added_up(manifest, section, metric, found, expected):
    made = objective(manifest, **section, metrics=[metric], sample_weight="importance")
    (name,) = made.names()[1:]
    # Keras adds squares up for R2, of which float32 leaves less when the mean is far from the dataset's.
    rel = 1e-4 if metric == "r2_score" else 2e-6
    assert in_parts(made, MANY, found, PARTS)[name] == pytest.approx(float(expected()), rel=rel)


def precision(said, true):
    return ((said == 1) & (true == 1)).sum() / (said == 1).sum()


def test_a_metric_of_nothing_is_no_number(manifest):
    assert objective(manifest, **CLASSIFY).values(objective(manifest, **CLASSIFY).zero(), 1)["accuracy"] in (0.0, None)


def test_r2_far_from_zero(manifest):
    made = objective(manifest, **REGRESS, metrics=["r2_score"])
    mean = manifest.splits["train"].targets["life"].mean
    assert mean > 900  # float32 of its square has little left of a spread of 1
    life = (mean + RNG.normal(size=200)).astype("f4")
    found = (life + RNG.normal(size=200)).astype("f4")[:, None]
    expected = 1 - ((found[:, 0] - life).astype("f8") ** 2).mean() / life.astype("f8").var()
    assert in_parts(made, {**MANY, "life": life}, found, PARTS)["r2_score"] == pytest.approx(expected, abs=1e-4)


def test_outputs_are_in_the_order_of_their_names(manifest):
    goals = {"b": REGRESS, "a": CLASSIFY}
    one, two = objective(manifest, outputs=goals), objective(manifest, outputs=dict(reversed(goals.items())))
    assert list(one.signature.outputs) == list(two.signature.outputs) == ["a", "b"]
    assert one.names() == two.names()


@pytest.mark.parametrize(("threshold", "place"), [(0.1, 1), (0.9, 0), ("best_f1", 0)])
def test_what_a_constant_guess_says_is_decided_by_the_threshold(manifest, threshold, place):
    train = manifest.splits["train"]
    target = train.targets["hot"].model_copy(update={"counts": [4, 1]})
    train = train.model_copy(update={"targets": {**train.targets, "hot": target}})
    counted = manifest.model_copy(update={"splits": {**manifest.splits, "train": train}})
    (task,) = objective(counted, **HOT, threshold=threshold).tasks.values()
    (said,) = task.guesses(lambda: iter([]), None).by_name
    assert said == f"always {task.classes[place]!r}"


@pytest.mark.parametrize("counts", [(972, 979, 1887), (972, 1887, 979), (1, 3, 7), (49, 10, 31)])
def test_the_commonest_class_is_the_one_that_the_guess_says(manifest, counts):
    train = manifest.splits["train"]
    target = train.targets["fault"].model_copy(update={"counts": list(counts)})
    train = train.model_copy(update={"targets": {**train.targets, "fault": target}})
    balanced = manifest.model_copy(update={"splits": {**manifest.splits, "train": train}})
    (task,) = objective(balanced, **CLASSIFY, class_weights="balanced").tasks.values()
    ((name, guess),) = task.guesses(lambda: iter([]), None).by_name.items()
    assert name == f"always {task.classes[int(guess(None, np.zeros(1)).numpy().argmax())]!r}"


@pytest.mark.parametrize(
    ("section", "truth", "name", "told"),
    [
        (CLASSIFY, np.array([2, 0, 2, 2, 1]), "always 'broken'", np.log([0.2, 0.2, 0.6])),
        (REGRESS, np.array([1, 2, 3, 4, 0], "f4"), "the mean", [2]),
    ],
)
def test_a_guess_is_of_the_windows_that_are_trained_on(manifest, section, truth, name, told):
    (task,) = objective(manifest.with_shards({"train": {0}}), **section).tasks.values()
    guesses = task.guesses(lambda: iter([(None, truth[:2]), (None, truth[2:])]), None)
    assert list(guesses.by_name) == [name]
    np.testing.assert_allclose(guesses.by_name[name](None, tf.constant(truth)), [told] * len(truth), rtol=1e-6)


def test_of_several_numbers_the_mean_is_that_of_each(manifest):
    target = manifest.field(REGRESS["target"]).model_copy(update={"shape": (2,)})
    fields = [target if field.name == target.name else field for field in manifest.fields]
    (task,) = objective(manifest.model_copy(update={"fields": fields}), **REGRESS).tasks.values()
    truth = np.array([[1, 100], [2, 200], [3, 600]], "f4")
    guess = task.guesses(lambda: iter([(None, truth[:2]), (None, truth[2:])]), None).by_name["the mean"]
    assert guess(None, tf.constant(truth[:2])).numpy().tolist() == [[2, 300]] * 2

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_attention.training import label_metrics
from keras_attention.training.label_metrics import (
    best_temperature,
    expected_calibration_error,
    label_scores,
    paired_accuracy,
    paired_bootstrap,
)


def test_scores_by_hand():
    gold, predicted = ["a", "a", "b", "c"], ["a", "b", "b", "a"]
    probabilities = np.array([[0.6, 0.3, 0.1], [0.3, 0.5, 0.2], [0.2, 0.7, 0.1], [0.5, 0.25, 0.25]])
    scores = label_scores(gold, predicted, probabilities, ["a", "b", "c"])
    assert scores["accuracy"] == 50
    # a: precision 1/2, recall 1/2; b: precision 1/2, recall 1; c: nothing right
    assert scores["macro_f1"] == pytest.approx(100 * (1 / 2 + 2 / 3 + 0) / 3)
    assert scores["nll"] == pytest.approx(-np.log([0.6, 0.3, 0.7, 0.25]).mean())
    # each confidence is in a bin of its own but for the two of 0.5: (0.4 + |0.5 + 0.5| + 0.3) / 4
    assert scores["ece"] == pytest.approx(100 * (0.4 + 1.0 + 0.3) / 4)


def test_calibration_of_bins_by_hand():
    confidence = np.array([0.95, 0.95, 0.95, 0.95, 0.55])
    right = np.array([True, True, True, False, True])
    assert expected_calibration_error(confidence, right, bins=10) == pytest.approx((4 * 0.2 + 0.45) / 5)
    assert expected_calibration_error(np.ones(3), np.ones(3, bool)) == 0
    assert expected_calibration_error(np.zeros(2), np.zeros(2, bool)) == 0


@given(st.floats(0.3, 4.0), st.integers(0, 100))
def test_the_temperature_that_spoilt_the_logits_is_found(temperature, seed):
    random = np.random.default_rng(seed)
    logits = random.normal(0, 2, (4000, 3))
    places = (logits + random.gumbel(size=logits.shape)).argmax(axis=1)  # drawn from their softmax
    assert best_temperature(logits * temperature, places) == pytest.approx(temperature, rel=0.15)


def test_no_difference_is_chance_and_a_large_one_is_none():
    right = np.arange(200) % 3 == 0
    assert paired_accuracy(right, right)["p_value"] == 1
    found = paired_accuracy(right, right | (np.arange(200) % 3 == 1))
    assert found["b"] - found["a"] == pytest.approx(found["difference"])
    assert found["difference"] == pytest.approx(33.5)
    assert found["p_value"] < 0.01
    noise = np.random.default_rng(3).random(200) < 0.02
    assert paired_accuracy(right, right ^ noise, seed=5)["p_value"] > 0.05


def test_the_draws_are_of_the_same_examples_for_both():
    drawn = []
    paired_bootstrap(lambda places: drawn.append(places) or (0.0, 1.0), 10, samples=5)
    assert [len(one) for one in drawn] == [10] * 6
    assert set(drawn[0]) == set(range(10))
    assert any(len(set(one)) < 10 for one in drawn[1:])


@pytest.mark.parametrize(
    ("gold", "predicted", "shape", "message"),
    [
        ([], [], (0, 2), "Expected a prediction.*Received 0 labels"),
        (["a"], ["a", "b"], (1, 2), "Received 1 labels, 2 predictions"),
        (["a"], ["a"], (1, 3), r"probabilities \(1, 3\)"),
        (["z"], ["a"], (1, 2), "The model has no label 'z'. Expected one of a, b"),
    ],
)
def test_what_cannot_be_scored_is_refused(gold, predicted, shape, message):
    with pytest.raises(ValueError, match=message):
        label_scores(gold, predicted, np.ones(shape), ["a", "b"])
    with pytest.raises(ValueError, match="Expected at least one example"):
        paired_bootstrap(lambda places: (0.0, 0.0), 0)
    with pytest.raises(ValueError, match="Expected the same examples of both"):
        paired_accuracy([True], [True, False])


def test_a_missing_package_says_what_to_install(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(label_metrics.importlib, "import_module", missing)
    with pytest.raises(ImportError, match="scikit-learn, which is not installed.*keras-attention-zoo"):
        label_metrics.require_scorer()

from __future__ import annotations

import keras
import numpy as np
import pytest

from keras_attention.layers import ExponentialTemperature, HardAttention
from tests.backends import to_float64


def draw():
    rng = np.random.default_rng(0)
    return [rng.normal(size=shape).astype("float32") for shape in ((2, 3, 7), (2, 5, 6))]


def scheduled_model(schedule):
    layer = HardAttention(sample="gumbel_softmax", temperature=schedule, seed=1, name="looks")
    query, value = keras.Input((3, 7)), keras.Input((5, 6))
    model = keras.Model([query, value], keras.layers.Dense(1)(layer([query, value])))
    model.compile("sgd", "mse")
    return model, layer


@pytest.mark.parametrize(
    "schedule",
    [
        ExponentialTemperature(2.0, 0.5, rate=0.1),
        keras.optimizers.schedules.PolynomialDecay(1.0, decay_steps=8, end_learning_rate=0.25),
    ],
    ids=["exponential", "linear"],
)
def test_a_schedule_moves_in_training_and_goes_on_after_loading(schedule, tmp_path):
    at = lambda step: pytest.approx(to_float64(schedule(step)), rel=1e-6)  # noqa: E731
    model, layer = scheduled_model(schedule)
    assert to_float64(layer.temperature.value) == at(0) and to_float64(layer.step.value) == 0
    data, target = draw(), np.ones((2, 3, 1))
    model.fit(data, target, batch_size=1, epochs=2, verbose=0)
    assert to_float64(layer.step.value) == 4 and to_float64(layer.temperature.value) == at(3)
    assert at(3) != to_float64(schedule(0))
    model.predict(data, verbose=0)
    assert to_float64(layer.step.value) == 4
    assert sorted(w.name for w in layer.non_trainable_weights) == ["step", "temperature"]

    model.save(tmp_path / "model.keras")
    model.save_weights(tmp_path / "model.weights.h5")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    fresh, _ = scheduled_model(schedule)
    fresh.load_weights(tmp_path / "model.weights.h5")
    for other in (loaded, fresh):
        twin = other.get_layer("looks")
        assert to_float64(twin.step.value) == 4 and to_float64(twin.temperature.value) == at(3)
        assert type(twin.schedule) is type(schedule) and twin.schedule.get_config() == schedule.get_config()
        other.fit(data, target, batch_size=1, verbose=0)
        assert to_float64(twin.step.value) == 6 and to_float64(twin.temperature.value) == at(5)


def test_a_loop_of_steps_counts_as_one_call_in_training():
    layer, (query, value) = HardAttention(temperature=ExponentialTemperature(2.0, 0.5, rate=0.1)), draw()
    layer([query, value])
    prepared = layer.prepare(value)
    for count in (1, 2):
        state = layer.initial_state(prepared, training=True)
        for t in range(3):
            _, _, state = layer.attend(query[:, t], prepared, state, training=True)
        assert to_float64(layer.step.value) == count
    assert layer.initial_state(prepared) == () and to_float64(layer.step.value) == 2
    layer([query, value])
    assert to_float64(layer.step.value) == 2
    layer([query, value], training=True)
    assert to_float64(layer.step.value) == 3
    assert to_float64(layer.temperature.value) == pytest.approx(2 * np.exp(-0.2))


def test_the_exponential_schedule_is_that_of_the_paper():
    schedule = ExponentialTemperature(1.0, 0.5, rate=1e-3)
    for step in (0, 1, 300, 693, 694, 10**6):
        assert to_float64(schedule(step)) == pytest.approx(max(0.5, np.exp(-1e-3 * step)), rel=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"start": 0}, r"`start` must be a number > 0\. Received 0"),
        ({"end": -1.0}, r"`end` must be a number > 0\. Received -1\.0"),
        ({"rate": 0.0}, r"`rate` must be a number > 0\. Received 0\.0"),
        ({"start": 0.3}, r"`end` must be at most `start`\. Received end=0\.5, start=0\.3"),
    ],
)
def test_wrong_arguments_of_the_schedule_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        ExponentialTemperature(**arguments)


@pytest.mark.parametrize(("schedule", "start"), [(lambda step: -1.0, -1.0), (lambda step: 0 * step, 0.0)])
def test_a_schedule_that_does_not_begin_above_0_is_refused(schedule, start):
    with pytest.raises(
        ValueError, match=f"`temperature` must be a number > 0, or a schedule of such. Received {start}"
    ):
        HardAttention(temperature=schedule)


def test_the_example_of_the_docstring_runs():
    schedule = ExponentialTemperature(start=2.0, end=0.5, rate=0.1)
    assert [round(float(schedule(step)), 3) for step in (0, 10, 100)] == [2.0, 0.736, 0.5]

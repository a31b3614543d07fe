"""Scheduled sampling: in training, the decoder is fed more and more of what it would have written itself."""

from __future__ import annotations

import keras
import tensorflow as tf

from keras_attention.models.scan import scan
from keras_attention.models.search_options import check_number

__all__ = ["ScheduledSampling", "check_schedule", "gold_probability"]

# decay → the keys of its dict, with the lowest and the highest value of each, and its default (None: it must be said)
_SETTINGS = {
    "linear": {"start": (0, 1, 1.0), "slope": (0, 1, None), "end": (0, 1, 0.0)},
    "exponential": {"base": (0, 1, None)},
    "inverse_sigmoid": {"k": (1, 1e9, None)},
}


def check_schedule(schedule) -> dict:
    """A schedule with its defaults filled in.

    Raises:
        ValueError: it is no dict of a known decay with the numbers that this decay has.
    """
    if not isinstance(schedule, dict) or schedule.get("decay") not in _SETTINGS:
        known = ", ".join(map(repr, _SETTINGS))
        raise ValueError(f"`scheduled_sampling` must be a dict whose `decay` is one of {known}. Received {schedule!r}.")
    settings = _SETTINGS[schedule["decay"]]
    for key in schedule:
        if key not in ("decay", *settings):
            raise ValueError(
                f"`scheduled_sampling` has the unknown key {key!r}. Expected decay, {', '.join(settings)} with the "
                f"decay {schedule['decay']!r}."
            )
    filled = {name: schedule.get(name, default) for name, (_, _, default) in settings.items()}
    for name, (low, high, _) in settings.items():
        if filled[name] is None:
            raise ValueError(f"`scheduled_sampling` with the decay {schedule['decay']!r} lacks `{name}`. Add it.")
        check_number(f"scheduled_sampling.{name}", filled[name], low)
        if filled[name] > high:
            raise ValueError(f"`scheduled_sampling.{name}` must be at most {high}. Received {filled[name]!r}.")
    return {"decay": schedule["decay"], **filled}


def gold_probability(schedule, step):
    """How likely the decoder is fed the true token, ε_i at the step i (Bengio et al., 2015, arXiv 1506.03099, section
    2.4): "linear", `max(end, start − slope · i)`; "exponential", `base^i`; "inverse_sigmoid", `k / (k + exp(i / k))`.

    Args:
        schedule: dict, as `check_schedule` returns it.
        step: int32 scalar, i.

    Returns:
        float32 scalar.
    """
    step = tf.cast(step, tf.float32)
    if schedule["decay"] == "linear":
        return tf.maximum(float(schedule["end"]), schedule["start"] - schedule["slope"] * step)
    if schedule["decay"] == "exponential":
        return tf.pow(float(schedule["base"]), step)
    k = float(schedule["k"])
    return tf.sigmoid(tf.math.log(k) - step / k)  # the same, without overflow


class ScheduledSampling(keras.layers.Layer):
    """Feeds a decoder, at each place by the throw of a coin, the true last token or one that it draws itself.

    Bengio et al., 2015 (arXiv 1506.03099), section 2.4. A token is drawn from the model's own distribution; no gradient
    flows through the draw.

    The step i counts the batches of training. It is a weight that is not trained, and so part of every checkpoint.

    Args:
        schedule: dict, as `check_schedule` wants it.
    """

    def __init__(self, schedule, **kwargs):
        super().__init__(**kwargs)
        self.schedule = check_schedule(schedule)
        self.seed_generator = keras.random.SeedGenerator()

    def build(self, input_shape=None):
        # Of a mirrored variable every replica writes the same: the first one's will do.
        self.step = self.add_weight(
            name="step", shape=(), dtype="int32", initializer="zeros", trainable=False, autocast=False,
            aggregation="only_first_replica",
        )  # fmt: skip
        self.built = True

    @property
    def probability(self):
        """ε of the next step, a float32 scalar."""
        return gold_probability(self.schedule, tf.convert_to_tensor(self.step.value))

    def coins(self, rows, length):
        """Where the true token is fed: bool (rows, length), always so at the first place. Counts a step."""
        probability = self.probability
        self.step.assign(self.step.value + 1)
        thrown = keras.random.uniform((rows, length), seed=self.seed_generator) < probability
        return tf.logical_or(thrown, tf.range(length) == 0)

    def decode(self, step, gold, noise, embed, logits, state):
        """Runs a decoder over a target, mixed as the schedule says.

        Args:
            step: function (embedded (B, E), state) → output (B, U), state.
            gold: (B, T, E). The true tokens, each one place late, embedded.
            noise: (B, T, E). What dropout multiplies embeddings by; `gold` has it already.
            embed: function ids (B,) → (B, E), without dropout.
            logits: function output (B, U) → (B, V).
            state: nested tensors.

        Returns:
            output (B, T, U).
        """
        rows, length, width = tf.shape(gold)[0], tf.shape(gold)[1], gold.shape[-1]
        coins = tf.cast(self.coins(rows, length), gold.dtype)[..., None]
        seed = keras.random.randint((2,), 0, 2**31 - 1, dtype="int32", seed=self.seed_generator)

        def one(inputs, state):
            true, noise, coin = tf.split(inputs, [width, width, 1], axis=-1)
            output, inner = step(tf.where(coin > 0, true, embed(state["token"]) * noise), state["inner"])
            distribution = tf.stop_gradient(tf.cast(logits(output), tf.float32))
            at_place = tf.random.experimental.stateless_fold_in(seed, state["place"])
            token = tf.random.stateless_categorical(distribution, 1, at_place, dtype=tf.int32)[:, 0]
            return output, {"inner": inner, "token": token, "place": state["place"] + 1}

        start = {"inner": state, "token": tf.zeros([rows], tf.int32), "place": tf.constant(0)}
        return scan(one, tf.concat([gold, noise, coins], axis=-1), start)

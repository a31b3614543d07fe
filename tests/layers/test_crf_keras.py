from __future__ import annotations

import subprocess
import sys

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention.layers import ConditionalRandomField, tag_constraints
from tests.backends import gradients, one_backend, tensorflow_only, to_float64
from tests.layers.exporting import Exportable, run_onnx, run_tflite, to_onnx, to_tflite
from tests.layers.test_crf import ALLOWED, LENGTH, MASK, OPTIONS, TAGS, built, computed, draw


def test_the_mask_that_keras_passes_on_is_used():
    inputs = keras.layers.Masking(0.0)
    layer, (emissions, _) = built(), draw()
    masked = np.where(MASK[..., None], emissions, np.float32(0))
    got = to_float64(keras.Sequential([inputs, layer])(masked))
    np.testing.assert_allclose(got, to_float64(layer.marginals(emissions, MASK)), atol=1e-6)


def test_symbolic_shapes():
    layer = built(dtype="mixed_float16")
    marginals = layer(keras.Input((None, TAGS)))
    assert (marginals.shape, marginals.dtype) == ((None, None, TAGS), "float32")
    assert layer.compute_output_shape((2, None, TAGS)) == (2, None, TAGS)


def test_config_makes_an_equal_one():
    layer = ConditionalRandomField(
        TAGS,
        allowed_transitions=np.array(ALLOWED),
        allowed_end=(1, 1, 0),
        transition_initializer="zeros",
        transition_regularizer=keras.regularizers.L2(0.5),
        name="tags",
    )
    twin = ConditionalRandomField.from_config(layer.get_config())
    assert twin.get_config() == layer.get_config()
    assert (twin.allowed_transitions, twin.allowed_start, twin.allowed_end) == (ALLOWED, None, [True, True, False])
    twin.transitions.assign(np.full((TAGS, TAGS), 2.0))
    assert to_float64(twin.losses[0]) == pytest.approx(0.5 * 9 * 4)


@one_backend
def test_a_saved_model_gives_the_same_in_a_new_process(tmp_path):
    layer, (emissions, _) = built(**OPTIONS["constrained"]), draw()
    inputs = keras.Input((None, TAGS))
    model = keras.Model(inputs, layer(inputs))
    model.save(tmp_path / "model.keras")
    np.save(tmp_path / "emissions.npy", emissions)
    code = (
        "import sys, keras, numpy as np, keras_attention.layers\n"
        "model = keras.models.load_model(sys.argv[1] + '/model.keras')\n"
        "got = model(np.load(sys.argv[1] + '/emissions.npy'))\n"
        "np.save(sys.argv[1] + '/got.npy', keras.ops.convert_to_numpy(got))\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, timeout=300)
    np.testing.assert_allclose(np.load(tmp_path / "got.npy"), to_float64(layer(emissions)), atol=1e-6)


@tensorflow_only
@pytest.mark.parametrize("jit_compile", [False, True], ids=["graph", "XLA"])
def test_graph_and_xla_of_unknown_sizes_equal_eager(jit_compile):
    import tensorflow as tf

    layer = built(**OPTIONS["constrained"])
    specs = [
        tf.TensorSpec((None, None, TAGS)),
        tf.TensorSpec((None, None), tf.int32),
        tf.TensorSpec((None, None), tf.bool),
    ]

    @tf.function(jit_compile=jit_compile, input_signature=specs, autograph=False)
    def graph(emissions, tags, mask):
        decoded, best = layer.decode(emissions, mask)
        log = layer.log_likelihood(emissions, tags, mask)
        return decoded, best, log, layer.marginals(emissions, mask)

    for length in (LENGTH,) if jit_compile else (LENGTH, 1, 0):
        emissions, tags = draw(length=length)
        mask = MASK[:, :length]
        expected = computed(layer, emissions, tags, mask)
        names = ("decoded", "best", "log_likelihood", "marginals")
        for name, got in zip(names, graph(emissions, tags, mask), strict=True):
            np.testing.assert_allclose(to_float64(got), expected[name], rtol=1e-5, atol=1e-5, err_msg=name)


@tensorflow_only
def test_the_gradient_in_a_graph_of_unknown_sizes_equals_eager():
    import tensorflow as tf

    layer, (emissions, tags) = built(), draw()

    def loss(emissions):
        return ops.sum(layer.log_likelihood(emissions, tags, MASK)) + ops.sum(layer.marginals(emissions, MASK) ** 2)

    @tf.function(input_signature=[tf.TensorSpec((None, None, TAGS))], autograph=False)
    def graph(emissions):
        with tf.GradientTape() as tape:
            tape.watch(emissions)
            value = loss(emissions)
        return tape.gradient(value, [emissions, *(one.value for one in layer.trainable_variables)])

    (of_emissions,), of_weights = gradients(loss, [emissions], layer.trainable_variables)
    for got, expected in zip(graph(emissions), [of_emissions, *of_weights], strict=True):
        np.testing.assert_allclose(to_float64(got), expected, atol=1e-5)


def decoder(layer, names):
    """`decode` as a graph to export; `marginals` too where they are asked for."""

    def function(tensors):
        emissions, mask = tensors["emissions"], tensors["mask"]
        tags, score = layer.decode(emissions, mask)
        found = {"tags": tags, "score": score, "marginals": layer.marginals(emissions, mask)}
        return {name: found[name] for name in names}

    axes = {"emissions": ("batch", "length", TAGS), "mask": ("batch", "length")}
    return Exportable(function, axes, {"emissions": "float32", "mask": "bool"})


@tensorflow_only
@pytest.mark.parametrize("names", [("tags", "score"), ("marginals",)], ids=["decode", "marginals"])
def test_it_converts_to_builtin_operations_of_tflite_and_to_onnx(tmp_path, names):
    layer = built(**OPTIONS["constrained"])
    exportable = decoder(layer, names)
    feeds, expected = [], []
    for length in (LENGTH, 2):
        emissions, tags = draw(length=length)
        feeds.append({"emissions": emissions, "mask": MASK[:, :length]})
        found = computed(layer, emissions, tags, MASK[:, :length])
        expected.append({"tags": found["decoded"], "score": found["best"], "marginals": found["marginals"]})
    one = [{name: array[1:2] for name, array in feed.items()} for feed in feeds]
    lite = run_tflite(to_tflite(exportable, str(tmp_path), {"batch": 1}), one)
    for got, wanted in zip(lite, expected, strict=True):
        for name in names:
            np.testing.assert_allclose(got[name], wanted[name][1:2], rtol=1e-5, atol=1e-5, err_msg=name)
    for got, wanted in zip(run_onnx(to_onnx(exportable), feeds), expected, strict=True):
        for name, value in zip(sorted(names), (got[key] for key in sorted(got)), strict=True):
            np.testing.assert_allclose(value, wanted[name], rtol=1e-5, atol=1e-5, err_msg=name)


def test_a_kept_tag_out_of_range_is_not_passed_over():
    layer, (emissions, tags) = built(), draw()
    tags[0, 1], tags[1, 0] = TAGS, -1
    found = to_float64(layer.log_likelihood(emissions, tags, MASK))
    assert np.isnan(found[:2]).all() and np.isfinite(found[2])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_tags": 0}, r"`num_tags` must be an int > 0\. Received 0"),
        ({"num_tags": True}, r"`num_tags` must be an int > 0\. Received True"),
        ({"allowed_transitions": [[True] * 3] * 2}, r"must be 3 rows of 3 entries.*Received rows of \[3, 3\]"),
        ({"allowed_start": [True]}, r"`allowed_start` must have 3 entries, one a tag\. Received 1"),
        ({"allowed_end": [False] * 3}, "`allowed_end` allows no tag"),
    ],
)
def test_bad_arguments_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        ConditionalRandomField(**{"num_tags": TAGS, **options})


def test_bad_tensors_are_refused():
    layer, (emissions, tags) = built(), draw()
    with pytest.raises(ValueError, match=r"a score for each of the 3 tags\. Received \(3, 5, 2\).*num_tags=2"):
        layer.log_partition(emissions[..., :2])
    with pytest.raises(ValueError, match=r"emissions must be of rank 3, \(B, T, K\)\. Received \(3, 5\)"):
        layer.decode(emissions[..., 0])
    with pytest.raises(TypeError, match=r"The tags must be integers, 0 to 2\. Received float32"):
        layer.log_likelihood(emissions, tags.astype("float32"))
    with pytest.raises(ValueError, match=r"The tags must be \(B, T\), here \(3, 5\)\. Received \(3, 4\)"):
        layer.log_likelihood(emissions, tags[:, :4])
    with pytest.raises(TypeError, match=r"mask must be bool, True = keep\. Received float32"):
        layer.marginals(emissions, MASK.astype("float32"))
    with pytest.raises(ValueError, match=r"mask must be \(B, T\), here \(3, 5\)\. Received \(3, 1\)"):
        layer.marginals(emissions, MASK[:, :1])


@pytest.mark.parametrize(
    ("tags", "scheme", "message"),
    [
        (["O", "B-PER"], "BILOU", "Unknown scheme 'BILOU'. Expected one of BIO, IOB1, IOBES"),
        (["O", "PER"], "BIO", "'PER' is no tag of the scheme BIO. Expected 'O', or one of B, I before '-'"),
        (["O", "S-PER"], "BIO", "'S-PER' is no tag of the scheme BIO.*name the scheme"),
        (["O", "B-"], "BIO", "'B-' is no tag"),
        (["O", "B-PER", "O"], "BIO", "The tag 'O' comes twice"),
    ],
)
def test_bad_tags_are_refused(tags, scheme, message):
    with pytest.raises(ValueError, match=message):
        tag_constraints(tags, scheme)


def test_the_examples_of_the_docstrings_run():
    tags, score = ConditionalRandomField(3).decode(keras.random.normal((2, 5, 3)))
    assert (tuple(tags.shape), tuple(score.shape)) == ((2, 5), (2,))
    assert tag_constraints(["O", "B-PER", "I-PER"])["allowed_start"] == [True, True, False]

from __future__ import annotations

import json

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import scores
from keras_attention.layers import AttentionOverAttention, sum_attention
from tests.backends import gradients, one_backend, tensorflow_only, to_float64

DIM = 6
RNG = np.random.default_rng(0)
DOCUMENT, QUERY = (RNG.normal(size=(2, length, DIM)).astype("float32") for length in (7, 3))
DOCUMENT_MASK = np.arange(7) < np.array([[5], [7]])
QUERY_MASK = np.array([[True, True, True], [True, False, True]])
WEIGHTS = np.array([[0.1, 0.2, 0.3, 0.4, 0.0], [0.5, 0.0, 0.25, 0.25, 0.0]], "float32")
WORDS = np.array([[3, 5, 3, 2, 0], [7, 7, 2, 3, 0]])


def attend(layer, inputs, mask=None):
    return [to_float64(one) for one in layer(inputs, mask=mask, return_attention_scores=True)]


def test_all_that_is_returned_belongs_together():
    weights, alpha, beta = attend(AttentionOverAttention(), [DOCUMENT, QUERY], [DOCUMENT_MASK, QUERY_MASK])
    np.testing.assert_allclose(weights, np.einsum("bqd,bq->bd", alpha, beta), atol=1e-6)
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6)
    alone = AttentionOverAttention()([DOCUMENT, QUERY], mask=[DOCUMENT_MASK, QUERY_MASK])
    np.testing.assert_array_equal(to_float64(alone), weights)


def test_a_masked_query_word_is_as_if_it_were_not_there():
    weights, alpha, beta = attend(AttentionOverAttention(), [DOCUMENT, QUERY], [None, QUERY_MASK])
    fewer = attend(AttentionOverAttention(), [DOCUMENT[1:], QUERY[1:, [0, 2]]])
    for got, expected in zip((weights[1], alpha[1, [0, 2]], beta[1, [0, 2]]), fewer, strict=True):
        np.testing.assert_allclose(got, expected[0], atol=1e-6)
    assert (alpha[1, 1] == 0).all() and beta[1, 1] == 0


@pytest.mark.parametrize("side", [0, 1], ids=["document", "query"])
def test_an_empty_document_or_query_gives_0_and_no_gradient(side):
    masks = [DOCUMENT_MASK.copy(), QUERY_MASK.copy()]
    masks[side][0] = False
    layer = AttentionOverAttention()
    for one in attend(layer, [DOCUMENT, QUERY], masks):
        assert (one[0] == 0).all() and (one[1] > 0).any()

    def total(document, query):
        return ops.sum(ops.square(layer([document, query], mask=masks)))

    for found in gradients(total, [DOCUMENT, QUERY])[0]:
        assert (found[0] == 0).all() and (found[1] != 0).any() and np.isfinite(found).all()


def test_a_word_that_matches_the_trusted_query_word_gets_the_weight():
    document, query = np.zeros((1, 4, DIM), "float32"), np.zeros((1, 2, DIM), "float32")
    document[0, 2, 0] = query[0, 1, 0] = 6
    weights, alpha, beta = attend(AttentionOverAttention(), [document, query])
    assert weights[0].argmax() == 2 and alpha[0, 1].argmax() == 2 and beta[0].argmax() == 1
    np.testing.assert_allclose(beta[0, 1], (3 * 0.5 + 1) / 4, atol=1e-6)  # one of four words asks for the second


def test_masks_of_embeddings_arrive_and_end_here():
    embed, layer = keras.layers.Embedding(11, DIM, mask_zero=True), AttentionOverAttention()
    document, query = np.array([[3, 4, 5, 0, 0], [6, 7, 8, 9, 1]]), np.array([[4, 0], [7, 8]])
    found = attend(layer, [embed(document), embed(query)])
    expected = attend(layer, [embed(document), embed(query)], [document != 0, query != 0])
    for got, one in zip(found, expected, strict=True):
        np.testing.assert_array_equal(got, one)
    assert (found[0][document == 0] == 0).all() and (found[2][query == 0] == 0).all()
    assert layer.compute_mask([DOCUMENT, QUERY], [DOCUMENT_MASK, QUERY_MASK]) is None


def test_scores_with_weights_join_other_widths():
    for options in ({"score": "general"}, {"score": "additive", "units": 8}, {"score": scores.MLPScore(8)}):
        layer = AttentionOverAttention(**options)
        weights, alpha, beta = attend(layer, [DOCUMENT, QUERY[..., :4]])
        assert weights.shape == (2, 7) and alpha.shape == (2, 3, 7) and beta.shape == (2, 3)
        config = json.loads(json.dumps(layer.get_config()))
        twin = AttentionOverAttention.from_config(config)
        assert json.loads(json.dumps(twin.get_config())) == config
        twin.build([DOCUMENT.shape, (2, 3, 4)])
        twin.set_weights(layer.get_weights())
        np.testing.assert_array_equal(attend(twin, [DOCUMENT, QUERY[..., :4]])[0], weights)


def test_half_precision_matches_beyond_its_range():
    weights = AttentionOverAttention(dtype="mixed_float16")([300 * DOCUMENT, 300 * QUERY])
    assert keras.backend.standardize_dtype(weights.dtype) == "float32" and np.isfinite(to_float64(weights)).all()


def test_candidates_get_the_sum_of_their_places():
    candidates = np.array([[3, 2, 9, 0], [7, 3, 5, 0]])
    found = to_float64(sum_attention(WEIGHTS, WORDS, candidates))
    np.testing.assert_allclose(found, [[0.4, 0.4, 0, 0], [0.5, 0.25, 0, 0]], atol=1e-7)


def test_candidates_of_padding_get_0_even_where_the_document_holds_that_id():
    words = np.array([[4, 9, 4]])
    weights = np.array([[0.2, 0.5, 0.3]], "float32")
    np.testing.assert_allclose(to_float64(sum_attention(weights, words, np.array([[9, 4]]))), [[0.5, 0.5]], atol=1e-7)
    found = to_float64(sum_attention(weights, words, np.array([[9, 4]]), padding_id=4))
    np.testing.assert_allclose(found, [[0.5, 0]], atol=1e-7)


def test_the_gradient_of_a_candidate_reaches_its_places_alone():
    candidates = np.array([[3], [7]])
    (found,), _ = gradients(lambda one: ops.sum(sum_attention(one, WORDS, candidates)), [WEIGHTS])
    np.testing.assert_array_equal(found, candidates == WORDS)


@tensorflow_only
def test_sums_in_a_graph_of_unknown_sizes():
    import tensorflow as tf

    signature = [tf.TensorSpec([None, None], dtype) for dtype in (tf.float32, tf.int64, tf.int32)]
    for jit_compile in (False, True):
        compiled = tf.function(sum_attention, input_signature=signature, jit_compile=jit_compile)
        np.testing.assert_allclose(
            to_float64(compiled(WEIGHTS, WORDS, np.array([[2], [2]], "int32"))), [[0.4], [0.25]], atol=1e-7
        )


def test_sums_of_symbolic_tensors_are_those_of_numbers():
    inputs = [keras.Input((None,), dtype=dtype) for dtype in ("float32", "int32", "int32")]
    candidates = np.array([[3, 2, 9, 0], [7, 3, 5, 0]])
    sums = sum_attention(*inputs)
    assert sums.shape == (None, None)
    found = keras.Model(inputs, sums)([WEIGHTS, WORDS, candidates])
    np.testing.assert_array_equal(to_float64(found), to_float64(sum_attention(WEIGHTS, WORDS, candidates)))


@one_backend
def test_a_cloze_reader_learns_to_point():
    """The word that follows what the query names is the answer: states are embeddings of a word and the one before."""
    rng = np.random.default_rng(3)
    words = np.array([rng.permutation(np.arange(2, 8)) for _ in range(512)])
    asked = rng.integers(0, 5, 512)
    query, answer = words[np.arange(512), asked], words[np.arange(512), asked + 1]
    before = np.concatenate([np.ones((512, 1), int), words[:, :-1]], axis=1)

    document_input, query_input = keras.Input((6,), dtype="int32"), keras.Input((1,), dtype="int32")
    ids, candidates = keras.Input((6,), dtype="int32"), keras.Input((8,), dtype="int32")
    embed = keras.layers.Embedding(8, 16)
    attention = AttentionOverAttention("general")([embed(document_input), embed(query_input)])
    model = keras.Model([document_input, query_input, ids, candidates], sum_attention(attention, ids, candidates))
    model.compile(keras.optimizers.Adam(0.05), keras.losses.SparseCategoricalCrossentropy(), metrics=["accuracy"])
    data = [before, query[:, None], words, np.tile(np.arange(8), (512, 1))]
    model.fit(data, answer, epochs=8, batch_size=64, verbose=0)
    assert model.evaluate(data, answer, verbose=0)[1] > 0.95


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda layer: layer(DOCUMENT), ValueError, r"`inputs` must be a list \[document, query\].*shape \(2, 7, 6\)"),
        (lambda layer: layer([DOCUMENT]), ValueError, r"`inputs` must be a list \[document, query\].*list of 1"),
        (lambda layer: layer([DOCUMENT, QUERY[0]]), ValueError, r"query must be of rank 3, \(B, Tq, Dq\).*\(3, 6\)"),
        (lambda layer: layer([DOCUMENT[0], QUERY]), ValueError, r"document must be of rank 3, \(B, Td, Dd\).*\(7, 6\)"),
        (lambda layer: layer([DOCUMENT, QUERY[:1]]), ValueError, r"same batch size B.*\(1, 3, 6\).*same examples"),
        (lambda layer: layer([DOCUMENT, QUERY[..., :4]]), ValueError, r"same width.*score='general'"),
        (
            lambda layer: layer([DOCUMENT, QUERY], mask=DOCUMENT_MASK),
            ValueError,
            r"`mask` must be a list \[document_mask, query_mask\].*one tensor of shape \(2, 7\)",
        ),
        (
            lambda layer: layer([DOCUMENT, QUERY], mask=[QUERY_MASK, DOCUMENT_MASK]),
            ValueError,
            r"document mask must be \(B, Td\), here \(2, 7\)\. Received \(2, 3\)",
        ),
        (
            lambda layer: layer([DOCUMENT, QUERY], mask=[None, QUERY_MASK.astype("float32")]),
            TypeError,
            r"query mask must be bool.*float32",
        ),
    ],
)
def test_a_wrong_call_says_what_is_wrong(call, error, message):
    with pytest.raises(error, match=f"(?s){message}"):
        call(AttentionOverAttention())


def test_wrong_scores_are_refused():
    with pytest.raises(ValueError, match=r"Unknown score 'dott'.*Did you mean 'dot'"):
        AttentionOverAttention("dott")
    with pytest.raises(ValueError, match=r"has a hidden layer: give its width as `units`"):
        AttentionOverAttention("additive")
    with pytest.raises(ValueError, match=r"one score a pair of words.*Received ChannelBilinearScore.*'general'"):
        AttentionOverAttention(scores.ChannelBilinearScore(3))
    with pytest.raises(ValueError, match=r"Received LocationAwareScore, which depends on the weights.*'general'"):
        AttentionOverAttention("location_aware", units=8)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda s, d, c: (s, d.astype("float32"), c), TypeError, r"`document_ids` must be integers.*float32"),
        (lambda s, d, c: (s, d, c > 0), TypeError, r"`candidate_ids` must be integers.*bool"),
        (lambda s, d, c: (s, d, c[0]), ValueError, r"`candidate_ids` must be of rank 2, \(B, C\).*\(4,\)"),
        (lambda s, d, c: (s[..., None], d, c), ValueError, r"`weights` must be of rank 2, \(B, Td\).*\(2, 5, 1\)"),
        (lambda s, d, c: (s[:, :4], d, c), ValueError, r"of one shape \(B, Td\).*\(2, 4\), \(2, 5\) and \(2, 4\)"),
        (lambda s, d, c: (s, d, c[:1]), ValueError, r"same B.*\(1, 4\).*same examples"),
    ],
)
def test_a_wrong_sum_says_what_is_wrong(change, error, message):
    with pytest.raises(error, match=f"(?s){message}"):
        sum_attention(*change(WEIGHTS, WORDS, np.array([[3, 2, 9, 0]] * 2)))


def test_the_example_of_the_docstring_runs():
    document, query = keras.random.normal((2, 7, 6)), keras.random.normal((2, 3, 6))
    assert AttentionOverAttention()([document, query]).shape == (2, 7)

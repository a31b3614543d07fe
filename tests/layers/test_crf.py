from __future__ import annotations

import itertools

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops

from keras_attention.layers import ConditionalRandomField, tag_constraints
from tests.backends import float64_only, gradients, one_backend, to_float64

BATCH, LENGTH, TAGS = 3, 5, 3
# A full row, one with padding behind, one with a hole and padding on both sides.
MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [0, 1, 0, 1, 0]], bool)
ALLOWED = [[True, False, True], [True, True, False], [False, True, True]]


def built(seed=1, num_tags=TAGS, **options):
    layer = ConditionalRandomField(num_tags, **options)
    rng = np.random.default_rng(seed)
    for weight in layer.weights:
        weight.assign(rng.normal(size=weight.shape))
    return layer


def draw(seed=2, batch=BATCH, length=LENGTH, num_tags=TAGS, dtype="float32"):
    rng = np.random.default_rng(seed)
    emissions = rng.normal(size=(batch, length, num_tags)).astype(dtype)
    return emissions, rng.integers(0, num_tags, size=(batch, length)).astype("int32")


def score_of(path, emissions, layer):
    """Lample et al., 2016, section 2.2, of one row without its padding: emissions (n, K), path of n tags."""
    if not path:
        return 0.0
    transitions, start, end = (to_float64(one) for one in (layer.transitions, layer.start, layer.end))
    emitted = sum(emissions[t, tag] for t, tag in enumerate(path))
    moved = sum(transitions[one, two] for one, two in itertools.pairwise(path))
    return float(start[path[0]] + emitted + moved + end[path[-1]])


def allowed(path, layer):
    steps = layer.allowed_transitions, layer.allowed_start, layer.allowed_end
    return not path or (
        all(steps[0] is None or steps[0][one][two] for one, two in itertools.pairwise(path))
        and (steps[1] is None or steps[1][path[0]])
        and (steps[2] is None or steps[2][path[-1]])
    )


def enumerated(emissions, layer):
    """Every allowed path of one row without its padding → its score."""
    paths = itertools.product(range(layer.num_tags), repeat=len(emissions))
    return {path: score_of(path, emissions, layer) for path in paths if allowed(path, layer)}


def brute_force(layer, emissions, tags, mask):
    """Everything the layer computes, row by row from the list of all paths."""
    found = {name: [] for name in ("log_likelihood", "path_score", "log_partition", "best", "decoded", "marginals")}
    for row, gold, keep in zip(np.asarray(emissions, "float64"), tags, mask, strict=True):
        scores = enumerated(row[keep], layer)
        partition = np.log(np.sum(np.exp(list(scores.values()))))
        found["path_score"].append(score_of(tuple(gold[keep]), row[keep], layer))
        found["log_partition"].append(partition)
        found["log_likelihood"].append(found["path_score"][-1] - partition)
        best = max(scores, key=scores.get)
        found["best"].append(scores[best])
        decoded, marginals = np.zeros(len(row), int), np.zeros(row.shape)
        decoded[keep] = best
        for path, score in scores.items():
            marginals[np.flatnonzero(keep), list(path)] += np.exp(score - partition)
        found["decoded"].append(decoded)
        found["marginals"].append(marginals)
    return {name: np.array(rows) for name, rows in found.items()}


def computed(layer, emissions, tags, mask):
    decoded, best = layer.decode(emissions, mask)
    return {
        "log_likelihood": to_float64(layer.log_likelihood(emissions, tags, mask)),
        "path_score": to_float64(layer.path_score(emissions, tags, mask)),
        "log_partition": to_float64(layer.log_partition(emissions, mask)),
        "marginals": to_float64(layer.marginals(emissions, mask)),
        "decoded": to_float64(decoded),
        "best": to_float64(best),
    }


def assert_equal(found, expected, tolerance=1e-5):
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=tolerance, atol=tolerance, err_msg=name)


OPTIONS = {
    "free": {},
    "constrained": {
        "allowed_transitions": ALLOWED,
        "allowed_start": [True, True, False],
        "allowed_end": [False, True, True],
    },
}
each_option = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)


@each_option
def test_everything_is_what_counting_all_paths_gives(options):
    layer, (emissions, _) = built(**options), draw()
    tags = np.array([[0, 2, 1, 1, 1], [1, 0, 2, -5, 9], [7, 1, -1, 1, 2]], "int32")  # odd ones where they are masked
    assert_equal(computed(layer, emissions, tags, MASK), brute_force(layer, emissions, tags, MASK))


@float64_only
@each_option
def test_float64_is_kept(options):
    layer, (emissions, _) = built(dtype="float64", **options), draw(dtype="float64")
    tags = np.ones((BATCH, LENGTH), "int32")
    assert_equal(computed(layer, emissions, tags, MASK), brute_force(layer, emissions, tags, MASK), 1e-10)
    assert keras.backend.standardize_dtype(layer.log_partition(emissions).dtype) == "float64"


def test_without_a_mask_everything_is_kept():
    layer, (emissions, tags) = built(), draw()
    full = np.ones((BATCH, LENGTH), bool)
    assert_equal(computed(layer, emissions, tags, None), computed(layer, emissions, tags, full), 0)
    assert_equal(computed(layer, emissions, tags, full), brute_force(layer, emissions, tags, full))


sizes = st.tuples(st.integers(1, 2), st.integers(1, 4), st.integers(1, 4))


@one_backend
@settings(max_examples=15, deadline=None)
@given(sizes, st.integers(0, 10**6), st.sampled_from([0.3, 3.0, 20.0]), st.data())
def test_any_sizes_masks_and_constraints_agree_with_counting_all_paths(sizes, seed, scale, data):
    batch, length, num_tags = sizes
    row = st.lists(st.booleans(), min_size=num_tags, max_size=num_tags)
    matrix = data.draw(st.lists(row, min_size=num_tags, max_size=num_tags))
    for tag in range(num_tags):
        matrix[tag][tag] = matrix[tag][0] = True  # so that every length has a path
    layer = built(seed, num_tags, allowed_transitions=matrix, allowed_end=data.draw(row.filter(lambda one: one[0])))
    emissions, tags = draw(seed, batch, length, num_tags)
    emissions *= scale
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=batch * length, max_size=batch * length)))
    mask = mask.reshape(batch, length)
    expected = brute_force(layer, emissions, tags, mask)
    found = computed(layer, emissions, tags, mask)
    legal = [allowed(tuple(gold[keep]), layer) for gold, keep in zip(tags, mask, strict=True)]
    for name in ("path_score", "log_likelihood"):  # targets that are not allowed are punished, and no matter how much
        assert (found[name][np.logical_not(legal)] < -1e8).all()
        found[name], expected[name] = found[name][legal], expected[name][legal]
    assert_equal(found, expected, 2e-4)


@one_backend
@settings(max_examples=10, deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=6), st.integers(0, 10**6))
def test_masked_places_are_as_if_they_were_not_there(keep, seed):
    layer, keep = built(seed), np.array(keep)
    emissions, tags = draw(seed, 1, len(keep))
    whole = computed(layer, emissions, tags, keep[None])
    emissions, tags = emissions[:, keep], tags[:, keep]
    if keep.any():
        alone = computed(layer, emissions, tags, np.ones((1, int(keep.sum())), bool))
        whole["decoded"], whole["marginals"] = whole["decoded"][:, keep], whole["marginals"][:, keep]
        assert_equal(whole, alone)
    else:
        assert all((values == 0).all() for values in whole.values())


def test_more_padding_and_what_is_in_it_change_nothing():
    layer, (emissions, tags) = built(), draw()
    plain = computed(layer, emissions, tags, MASK)
    emissions = np.where(MASK[..., None], emissions, np.float32(np.nan))
    more = ((0, 0), (0, 2))
    emissions = np.pad(emissions, (*more, (0, 0)), constant_values=1e30)
    padded = computed(layer, emissions, np.pad(tags, more, constant_values=99), np.pad(MASK, more))
    for name in ("marginals", "decoded"):
        assert (padded[name][:, LENGTH:] == 0).all()
        padded[name] = padded[name][:, :LENGTH]
    assert_equal(padded, plain, 1e-7)


def test_a_row_does_not_depend_on_the_rows_beside_it():
    layer, (emissions, tags) = built(), draw()
    together = computed(layer, emissions, tags, MASK)
    for b in range(BATCH):
        alone = computed(layer, emissions[b : b + 1], tags[b : b + 1], MASK[b : b + 1])
        assert_equal(alone, {name: values[b : b + 1] for name, values in together.items()}, 1e-6)


@pytest.mark.parametrize("length", [0, 1])
def test_short_and_empty_rows_do_no_harm(length):
    layer, (emissions, tags) = built(), draw(batch=2, length=length)
    mask = np.array([[True], [False]])[:, :length]
    found = computed(layer, emissions, tags, mask)
    assert_equal(found, brute_force(layer, emissions, tags, mask))
    if length:
        assert found["log_partition"][0] != 0 and found["log_partition"][1] == 0

    def loss(emissions):
        return ops.sum(layer.log_likelihood(emissions, tags, mask)) + ops.sum(layer.marginals(emissions, mask) ** 2)

    of_arrays, of_weights = gradients(loss, [emissions], layer.trainable_variables)
    assert all(np.isfinite(one).all() for one in [*of_arrays, *of_weights])
    assert (of_arrays[0][1:] == 0).all()


@each_option
def test_the_gradient_is_observed_minus_expected_counts(options):
    layer, (emissions, _) = built(**options), draw()
    tags = np.array([[0, 2, 1, 1, 1], [1, 0, 2, 0, 0], [0, 1, 0, 1, 0]], "int32")
    (found,), of_weights = gradients(
        lambda one: ops.sum(layer.log_likelihood(one, tags, MASK)), [emissions], layer.trainable_variables
    )
    of_emissions = np.zeros(emissions.shape)
    counts = {"transitions": np.zeros((TAGS, TAGS)), "start": np.zeros(TAGS), "end": np.zeros(TAGS)}
    for b, keep in enumerate(MASK):
        scores = enumerated(emissions[b, keep].astype("float64"), layer)
        partition = np.log(np.sum(np.exp(list(scores.values()))))
        weighted = [(tuple(tags[b, keep]), 1.0), *((path, -np.exp(one - partition)) for path, one in scores.items())]
        for path, share in weighted:
            of_emissions[b, np.flatnonzero(keep), list(path)] += share
            counts["start"][path[0]] += share
            counts["end"][path[-1]] += share
            for one, two in itertools.pairwise(path):
                counts["transitions"][one, two] += share
    np.testing.assert_allclose(found, of_emissions, atol=1e-5)
    assert (found[~MASK] == 0).all()
    for variable, gradient in zip(layer.trainable_variables, of_weights, strict=True):
        np.testing.assert_allclose(gradient, counts[variable.name], atol=1e-5, err_msg=variable.name)


def test_marginals_are_the_gradient_of_the_partition():
    layer, (emissions, _) = built(), draw()
    (found,), _ = gradients(lambda one: ops.sum(layer.log_partition(one, MASK)), [emissions])
    np.testing.assert_allclose(found, to_float64(layer(emissions, mask=MASK)), atol=1e-6)


@float64_only
def test_gradients_of_marginals_are_finite_differences():
    layer, (emissions, _) = built(dtype="float64"), draw(dtype="float64")
    directions = np.random.default_rng(5).normal(size=emissions.shape)

    def loss(one):
        return ops.sum(layer.marginals(one, MASK) * directions)

    (found,), _ = gradients(loss, [emissions])
    moved = np.random.default_rng(6).normal(size=emissions.shape) * 1e-5
    difference = to_float64(loss(emissions + moved)) - to_float64(loss(emissions - moved))
    np.testing.assert_allclose(2 * np.sum(found * moved), difference, rtol=1e-6)


TAG_NAMES = {
    "BIO": ["I-LOC", "O", "B-LOC", "B-PER", "I-PER"],
    "IOB1": ["I-LOC", "O", "B-LOC", "B-PER", "I-PER"],
    "IOBES": ["E-PER", "O", "B-PER", "I-PER", "S-PER"],
}


def legal(names, scheme):
    """Whether tag names are spans, told by the pairs of neighbours."""
    for one, two in itertools.pairwise(["O", *names, "O"]):
        goes_on = one[2:] == two[2:] and one != "O"
        if scheme == "BIO" and two[0] == "I" and not goes_on:
            return False
        if scheme == "IOB1" and two[0] == "B" and not goes_on:
            return False
        inside = one[0] in "BI"
        if scheme == "IOBES" and (inside != (two[0] in "IE") or (inside and not goes_on)):
            return False
    return True


@pytest.mark.parametrize("scheme", TAG_NAMES)
def test_decoded_tags_are_spans_of_the_scheme(scheme):
    names = TAG_NAMES[scheme]
    layer = built(num_tags=len(names), **tag_constraints(names, scheme))
    emissions, _ = draw(batch=64, length=7, num_tags=len(names))
    mask = np.arange(7) < 1 + np.arange(64)[:, None] % 7
    decoded, _ = layer.decode(8 * emissions, mask)
    greedy = emissions.argmax(-1)
    for tags, keep in zip(to_float64(decoded).astype(int), mask, strict=True):
        assert legal([names[tag] for tag in tags[keep]], scheme)
    assert not all(legal([names[tag] for tag in best[keep]], scheme) for best, keep in zip(greedy, mask, strict=True))


@pytest.mark.parametrize("scheme", TAG_NAMES)
def test_constraints_allow_exactly_the_sequences_of_the_scheme(scheme):
    names = TAG_NAMES[scheme]
    layer = ConditionalRandomField(len(names), **tag_constraints(names, scheme))
    for length in (1, 2, 3, 4):
        for path in itertools.product(range(len(names)), repeat=length):
            assert allowed(path, layer) == legal([names[tag] for tag in path], scheme), path


def test_ties_go_to_the_lowest_tag():
    tags, score = ConditionalRandomField(4, transition_initializer="zeros").decode(np.zeros((2, 3, 4), "float32"))
    assert (to_float64(tags) == 0).all() and (to_float64(score) == 0).all()


def test_where_no_sequence_is_allowed_the_numbers_stay_finite():
    layer = built(num_tags=2, allowed_transitions=[[False, True], [False, False]])
    found = computed(layer, *draw(length=4, num_tags=2), np.ones((3, 4), bool))
    assert all(np.isfinite(values).all() for values in found.values())
    assert (found["best"] < -1e8).all()


@pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16", "float16"])
def test_sums_run_in_float32(dtype):
    layer = built(dtype=dtype)
    emissions, tags = draw(length=30)
    half = ops.cast(3000 * emissions, layer.compute_dtype)  # sums past 65504, where float16 ends
    plain = built()
    for one, other in zip(plain.weights, layer.weights, strict=True):
        one.assign(to_float64(other))
    found = computed(layer, half, tags, None)
    assert_equal(found, computed(plain, to_float64(half).astype("float32"), tags, None), 1e-6)
    assert keras.backend.standardize_dtype(layer(half).dtype) == "float32"
    assert np.abs(found["best"]).max() > 3e4


def test_weights_stay_exact_inside_a_call_in_half_precision():
    class Tagger(keras.layers.Layer):
        def __init__(self, crf, **options):
            super().__init__(**options)
            self.crf = crf

        def call(self, emissions):
            return self.crf.log_partition(emissions)

    plain = built()
    tagger = Tagger(built(dtype="mixed_float16"), dtype="mixed_float16")
    emissions = np.ones((2, 3, TAGS), "float32")
    np.testing.assert_allclose(to_float64(tagger(emissions)), to_float64(plain.log_partition(emissions)), rtol=1e-6)


@one_backend
def test_it_learns_what_the_emissions_do_not_say():
    """Tags alternate; the emissions know only the first one."""
    rng, length = np.random.default_rng(0), 6
    tags = ((np.arange(length) + rng.integers(0, 2, size=(32, 1))) % 2).astype("int32")
    emissions = np.zeros((32, length, 2), "float32")
    emissions[np.arange(32), 0, tags[:, 0]] = 2.0
    layer = ConditionalRandomField(2)
    for _ in range(30):
        _, of_weights = gradients(
            lambda one: -ops.mean(layer.log_likelihood(one, tags)), [emissions], layer.trainable_variables
        )
        for variable, gradient in zip(layer.trainable_variables, of_weights, strict=True):
            variable.assign(to_float64(variable) - 0.5 * gradient)
    decoded, _ = layer.decode(emissions)
    assert (to_float64(decoded) == tags).all()

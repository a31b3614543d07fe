from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_attention.training.pipeline import BatchPlan, TokenStore, tf_dataset

lengths_of_pairs = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=120)


def skewed_lengths(count: int) -> np.ndarray:
    """Two correlated columns with many short and few long sentences, as in a corpus."""
    generator = np.random.default_rng(7)
    source = 2 + generator.gamma(2.0, 4.0, count).astype(int)
    return np.stack([source, np.maximum(1, source + generator.integers(-3, 6, count))], axis=1)


def examples_of(lengths) -> list[dict[str, list[int]]]:
    """Examples whose ids tell which example and position they are."""
    return [
        {"source": [100 * n + t + 1 for t in range(s)], "target": [-(100 * n + t + 1) for t in range(u)]}
        for n, (s, u) in enumerate(lengths)
    ]


def as_lists(batches) -> list[list[int]]:
    return [batch.tolist() for batch in batches]


@settings(max_examples=60, deadline=None)
@given(
    lengths_of_pairs,
    st.integers(1, 300),
    st.integers(1, 9),
    st.sampled_from([1, 4]),
    st.integers(0, 5),
    st.booleans(),
)
def test_each_example_comes_once_and_no_batch_exceeds_its_budget(lengths, budget, width, multiple, epoch, shuffle):
    plan = BatchPlan(lengths, batch_tokens=budget, bucket_width=width, multiple_of=multiple, shuffle=shuffle)
    batches = plan.batches(epoch)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    store = TokenStore.from_examples(examples_of(lengths))
    for batch in batches:
        arrays = store.padded(batch, multiple)
        assert len(batch) == 1 or sum(array.size for array in arrays.values()) <= budget
        assert all(array.shape[1] % multiple == 0 for array in arrays.values())


@settings(max_examples=30, deadline=None)
@given(lengths_of_pairs, st.integers(1, 50), st.integers(0, 3))
def test_batches_of_a_fixed_size_are_full_but_one(lengths, size, epoch):
    sizes = sorted(len(batch) for batch in BatchPlan(lengths, batch_size=size).batches(epoch))
    assert sum(sizes) == len(lengths)
    assert all(found == size for found in sizes[1:])


@settings(max_examples=30, deadline=None)
@given(lengths_of_pairs, st.integers(0, 3), st.integers(0, 3))
def test_the_order_is_a_pure_function_of_seed_and_epoch(lengths, seed, epoch):
    plan = BatchPlan(lengths, batch_tokens=100, seed=seed)
    plan.batches(epoch + 1)
    again = BatchPlan(np.array(lengths), batch_tokens=100, seed=seed)
    assert as_lists(plan.batches(epoch)) == as_lists(again.batches(epoch))


def test_another_epoch_or_seed_gives_other_batches_in_another_order():
    lengths = skewed_lengths(300)
    first = BatchPlan(lengths, batch_tokens=400).batches(0)
    for plan, epoch in ((BatchPlan(lengths, batch_tokens=400), 1), (BatchPlan(lengths, batch_tokens=400, seed=1), 0)):
        other = plan.batches(epoch)
        assert {frozenset(batch.tolist()) for batch in first} != {frozenset(batch.tolist()) for batch in other}
        assert [len(batch) for batch in first] != [len(batch) for batch in other]


def test_batches_are_not_in_order_of_length():
    lengths = skewed_lengths(2000)
    means = [lengths[batch].mean() for batch in BatchPlan(lengths, batch_tokens=500).batches(0)]
    assert abs(np.corrcoef(means, np.arange(len(means)))[0, 1]) < 0.3
    ordered = [lengths[batch][:, 0].max() for batch in BatchPlan(lengths, batch_size=20, shuffle=False).batches(0)]
    assert ordered == sorted(ordered)


def test_without_shuffling_epochs_are_alike():
    plan = BatchPlan(skewed_lengths(200), batch_tokens=300, shuffle=False)
    assert as_lists(plan.batches(0)) == as_lists(plan.batches(5))


def test_a_resumed_epoch_sees_the_batches_it_would_have_seen():
    lengths = skewed_lengths(150)
    store = TokenStore.from_examples(examples_of(lengths))
    plan = BatchPlan(store.lengths, batch_tokens=200, seed=3)
    whole = list(tf_dataset(store, plan, epoch=2).as_numpy_iterator())
    for start in (0, 1, len(whole) - 1, len(whole)):
        again = BatchPlan(store.lengths, batch_tokens=200, seed=3)
        rest = list(tf_dataset(store, again, epoch=2, start=start).as_numpy_iterator())
        assert len(rest) == len(whole) - start
        for one, other in zip(rest, whole[start:], strict=True):
            for name in ("source", "target"):
                np.testing.assert_array_equal(one[name], other[name])


def test_batches_hold_the_examples_padded_at_the_right():
    lengths = skewed_lengths(60)
    examples = examples_of(lengths)
    store = TokenStore.from_examples(iter(examples))
    plan = BatchPlan(store.lengths, batch_tokens=150)
    dataset = tf_dataset(store, plan, epoch=1)
    assert int(dataset.cardinality()) == len(plan.batches(1))
    padded = 0
    for batch, arrays in zip(plan.batches(1), dataset.as_numpy_iterator(), strict=True):
        for name, array in arrays.items():
            assert array.dtype == np.int32
            assert array.shape == (len(batch), max(len(examples[index][name]) for index in batch))
            for index, row in zip(batch, array, strict=True):
                ids = examples[index][name]
                assert row[: len(ids)].tolist() == ids
                assert not row[len(ids) :].any()
                padded += len(row) - len(ids)
    assert padded > 0


@pytest.mark.parametrize(
    ("settings_", "bound"), [({"bucket_width": 1}, 0.06), ({}, 0.065), ({"bucket_width": 8}, 0.14)]
)
def test_little_is_padded_on_skewed_lengths(settings_, bound):
    lengths = skewed_lengths(20_000)
    plan = BatchPlan(lengths, batch_tokens=4000, **settings_)
    assert plan.padding_share(epoch=1) < bound
    tokens, positions = 0, 0
    for batch in plan.batches(1):
        tokens += lengths[batch].sum()
        positions += lengths[batch].max(axis=0).sum() * len(batch)
    assert plan.padding_share(epoch=1) == pytest.approx(1 - tokens / positions)
    in_any_order = lengths.reshape(-1, 100, 2).max(axis=1).sum() * 100
    assert 1 - lengths.sum() / in_any_order > 0.5


def test_an_example_longer_than_the_budget_is_a_batch_of_its_own():
    batches = BatchPlan([[3, 3], [90, 80], [3, 2], [70, 70]], batch_tokens=24).batches(0)
    assert sorted(sorted(batch.tolist()) for batch in batches) == [[0, 2], [1], [3]]


def test_the_budget_counts_all_columns():
    assert [len(batch) for batch in BatchPlan([[5, 5]] * 6, batch_tokens=30).batches(0)] == [3, 3]
    assert [len(batch) for batch in BatchPlan([5] * 6, batch_tokens=30).batches(0)] == [6]
    assert [len(batch) for batch in BatchPlan([[5, 5]] * 6, batch_tokens=32, multiple_of=8).batches(0)] == [2, 2, 2]


def test_replicas_do_not_change_batches_but_leave_no_part_empty():
    store = TokenStore.from_examples(examples_of([[3, 2], [30, 30], [3, 3], [3, 1]]))
    plan = BatchPlan(store.lengths, batch_tokens=24)
    one = list(tf_dataset(store, plan, 0).as_numpy_iterator())
    three = list(tf_dataset(store, plan, 0, replicas=3).as_numpy_iterator())
    assert sorted(len(batch["source"]) for batch in one) == [1, 3]
    for single, parted in zip(one, three, strict=True):
        rows = len(single["source"])
        for name in store.columns:
            assert len(parted[name]) == 3
            np.testing.assert_array_equal(parted[name][:rows], single[name])
            assert not parted[name][rows:].any()


def test_the_store_gives_back_each_example():
    examples = [{"source": [5, 9, 3], "target": [7, 3]}, {"source": [], "target": [4]}, {"source": [1], "target": [2]}]
    store = TokenStore.from_examples(examples)
    assert len(store) == 3
    assert store.columns == ("source", "target")
    assert store.lengths.tolist() == [[3, 2], [0, 1], [1, 1]]
    assert [{name: ids.tolist() for name, ids in store.example(n).items()} for n in range(3)] == examples
    batch = store.padded([1, 0], multiple_of=4)
    assert batch["source"].tolist() == [[0, 0, 0, 0], [5, 9, 3, 0]]
    assert batch["target"].tolist() == [[4, 0, 0, 0], [7, 3, 0, 0]]
    assert store.flat["source"].dtype == np.int32


def test_a_list_of_examples_works_like_a_store():
    examples = examples_of([[3, 2], [2, 2], [1, 4]])
    plan = BatchPlan([[3, 2], [2, 2], [1, 4]], batch_size=2)
    from_list = list(tf_dataset(examples, plan, 0).as_numpy_iterator())
    from_store = list(tf_dataset(TokenStore.from_examples(examples), plan, 0).as_numpy_iterator())
    np.testing.assert_equal(from_list, from_store)


@pytest.mark.parametrize(
    ("lengths", "arguments", "message"),
    [
        ([3], {}, "exactly one of `batch_tokens` and `batch_size`. Received None and None"),
        ([3], {"batch_tokens": 5, "batch_size": 5}, "exactly one of"),
        ([3], {"batch_tokens": 0}, "`batch_tokens` must be at least 1. Received 0"),
        ([3], {"batch_size": -1}, "`batch_size` must be at least 1"),
        ([3], {"batch_size": 1, "bucket_width": 0}, "`bucket_width` must be at least 1"),
        ([3], {"batch_size": 1, "multiple_of": 0}, "`multiple_of` must be at least 1"),
        ([3], {"batch_size": 1, "seed": -1}, "`seed` must be at least 0"),
        ([], {"batch_size": 1}, "at least one example"),
        ([[[3]]], {"batch_size": 1}, r"Received shape \(1, 1, 1\)"),
    ],
)
def test_unfit_plans_are_refused(lengths, arguments, message):
    with pytest.raises(ValueError, match=message):
        BatchPlan(lengths, **arguments)


def test_unfit_stores_and_datasets_are_refused():
    store = TokenStore.from_examples(examples_of([[3, 2], [2, 2]]))
    plan = BatchPlan(store.lengths, batch_size=1)
    with pytest.raises(ValueError, match="The plan knows 3 examples, the store has 2"):
        tf_dataset(store, BatchPlan([1, 1, 1], batch_size=1), 0)
    with pytest.raises(ValueError, match=r"`start` must be in 0 … 2, .* Received 3"):
        tf_dataset(store, plan, 0, start=3)
    with pytest.raises(ValueError, match=r"`replicas` must be at least 1. Received 0"):
        tf_dataset(store, plan, 0, replicas=0)
    with pytest.raises(ValueError, match="There are no examples"):
        TokenStore.from_examples([])
    with pytest.raises(ValueError, match=r"Example 2 has the columns \['source'\]. Expected \['source', 'target'\]"):
        TokenStore.from_examples([{"source": [1], "target": [1]}, {"source": [1]}])
    with pytest.raises(ValueError, match=r"tokens for \['a'\] and offsets for \['b'\]"):
        TokenStore({"a": np.zeros(1, np.int32)}, {"b": np.array([0, 1])})

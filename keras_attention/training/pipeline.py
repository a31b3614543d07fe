"""From vectorised examples to padded batches: compact storage, length buckets, token budgets, resumable order.

Which examples form which batch is a pure function of (lengths, settings, seed, epoch), so that a training which
starts again at batch n of an epoch sees the batches it would have seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import tensorflow as tf

PAD_ID = 0


class TokenStore:
    """Sequences of token ids of many examples, one flat int32 array and one array of offsets for each column.

    140,000 sentence pairs take some 10 MB instead of the 100 MB of Python lists.

    Args:
        flat: dict, column -> int32 (number of tokens,). All sequences of the column, one after the other.
        offsets: dict, column -> int64 (number of examples + 1,). Where each sequence starts, and the end of the last.

    Example:
        >>> store = TokenStore.from_examples([{"source": [5, 9, 3], "target": [7, 3]}, {"source": [4], "target": [8]}])
        >>> len(store), store.lengths.tolist()
        (2, [[3, 2], [1, 1]])
    """

    def __init__(self, flat: dict[str, np.ndarray], offsets: dict[str, np.ndarray]):
        if not flat or flat.keys() != offsets.keys() or len({len(values) for values in offsets.values()}) != 1:
            raise ValueError(
                f"Every column needs tokens and offsets for the same examples. Received tokens for {list(flat)} and "
                f"offsets for {list(offsets)}. Use `TokenStore.from_examples`."
            )
        self.flat, self.offsets = flat, offsets
        self.columns = tuple(flat)

    @classmethod
    def from_examples(cls, examples: Iterable[Mapping[str, Sequence[int]]]) -> TokenStore:
        """Packs vectorised examples, dict of column -> list of ids; every example has the columns of the first."""
        chunks: dict[str, list[np.ndarray]] = {}
        lengths: dict[str, list[int]] = {}
        for number, example in enumerate(examples, start=1):
            if number == 1:
                chunks, lengths = {name: [] for name in example}, {name: [] for name in example}
            if example.keys() != chunks.keys():
                raise ValueError(
                    f"Example {number} has the columns {sorted(example)}. Expected {sorted(chunks)}, as in the first "
                    "example; vectorise all of them with one model."
                )
            for name, ids in example.items():
                chunks[name].append(np.asarray(ids, dtype=np.int32))
                lengths[name].append(len(ids))
        if not chunks:
            raise ValueError("There are no examples. Expected at least one; check the data file and its filters.")
        flat = {name: np.concatenate(parts) for name, parts in chunks.items()}
        return cls(flat, {name: np.concatenate([[0], np.cumsum(values)]) for name, values in lengths.items()})

    def __len__(self) -> int:
        return len(next(iter(self.offsets.values()))) - 1

    @property
    def lengths(self) -> np.ndarray:
        """int64 (number of examples, number of columns)."""
        return np.stack([np.diff(self.offsets[name]) for name in self.columns], axis=1)

    def example(self, index: int) -> dict[str, np.ndarray]:
        """One example without padding, column -> int32 (length,)."""
        return {
            name: self.flat[name][self.offsets[name][index] : self.offsets[name][index + 1]] for name in self.columns
        }

    def padded(self, indices: Sequence[int], multiple_of: int = 1) -> dict[str, np.ndarray]:
        """A batch, column -> int32 (B, T), padded at the right with `PAD_ID`; T is a multiple of `multiple_of`."""
        batch = {}
        for name in self.columns:
            starts = self.offsets[name][indices]
            lengths = self.offsets[name][np.asarray(indices) + 1] - starts
            width = -(-max(int(lengths.max()), 1) // multiple_of) * multiple_of
            kept = np.arange(width) < lengths[:, None]  # (B, T)
            positions = np.where(kept, starts[:, None] + np.arange(width), 0)
            batch[name] = np.where(kept, self.flat[name][positions], PAD_ID).astype(np.int32)
        return batch


class BatchPlan:
    """Says which examples form which batch in which epoch.

    An epoch shuffles all examples, sorts them by length in steps of `bucket_width` that begin elsewhere in each epoch,
    cuts the sorted list into batches and shuffles the batches. Examples of about one length meet in ever new company,
    and little is padded.

    Args:
        lengths: int (number of examples, number of columns), or (number of examples,). Tokens of each column.
        batch_tokens: int > 0. Budget of a batch, padding included: sentences x (longest first column + longest second
            column + …). An example longer than the budget is a batch of its own. Give this or `batch_size`.
        batch_size: int > 0. Examples in a batch; the last of an epoch may have fewer.
        bucket_width: int > 0, in tokens. Lengths of a column that fall into one step of this width count as equal (of
            the last column, only equal ones do); wide steps mix more and pad more.
        seed: int >= 0. Seed of the shuffles.
        shuffle: bool. False keeps the order of equal lengths and of batches (for validation).
        multiple_of: int > 0. Batches are padded to a multiple of it, and the budget counts that.

    Example:
        >>> plan = BatchPlan([[3, 4], [9, 8], [3, 3]], batch_tokens=20, shuffle=False)
        >>> [batch.tolist() for batch in plan.batches(epoch=0)]
        [[0, 2], [1]]
    """

    def __init__(
        self,
        lengths: np.ndarray | Sequence,
        *,
        batch_tokens: int | None = None,
        batch_size: int | None = None,
        bucket_width: int = 2,
        seed: int = 0,
        shuffle: bool = True,
        multiple_of: int = 1,
    ):
        if (batch_tokens is None) == (batch_size is None):
            raise ValueError(
                f"Give exactly one of `batch_tokens` and `batch_size`. Received {batch_tokens} and {batch_size}."
            )
        for name, value, least in (
            ("batch_tokens", batch_tokens, 1),
            ("batch_size", batch_size, 1),
            ("bucket_width", bucket_width, 1),
            ("multiple_of", multiple_of, 1),
            ("seed", seed, 0),
        ):
            if value is not None and value < least:
                raise ValueError(f"`{name}` must be at least {least}. Received {value}. Pass a larger number.")
        lengths = np.asarray(lengths, dtype=np.int64)
        self.lengths = lengths[:, None] if lengths.ndim == 1 else lengths
        if self.lengths.ndim != 2 or not self.lengths.size:
            raise ValueError(
                f"`lengths` must have shape (examples, columns) and hold at least one example. Received shape "
                f"{lengths.shape}. Pass `TokenStore.lengths`."
            )
        self.batch_tokens, self.batch_size, self.bucket_width = batch_tokens, batch_size, bucket_width
        self.seed, self.shuffle, self.multiple_of = seed, shuffle, multiple_of

    def batches(self, epoch: int) -> list[np.ndarray]:
        """The batches of an epoch, each an int64 array of example indices; every index is in exactly one of them."""
        count = len(self.lengths)
        generator = np.random.default_rng([self.seed, epoch])
        order = generator.permutation(count) if self.shuffle else np.arange(count)
        offset = int(generator.integers(self.bucket_width)) if self.shuffle else 0
        order = order[self._sort(self.lengths[order], offset)]
        parts = self._cut(order)
        if self.shuffle:
            parts = [parts[index] for index in generator.permutation(len(parts))]
        return parts

    def _sort(self, lengths: np.ndarray, offset: int) -> np.ndarray:
        """Indices that bring rows of (almost) equal lengths together; equal rows stay in their order.

        Rows are walked like a field under the plough: up the lengths of a column, then down them in the next bucket of
        the column before. A jump from longest to shortest would put both into one batch.
        """
        keys, turns = [], np.zeros(len(lengths), dtype=np.int64)
        for column in range(lengths.shape[1]):
            is_last = column == lengths.shape[1] - 1
            bucket = lengths[:, column] if is_last else (lengths[:, column] + offset) // self.bucket_width
            keys.append(np.where(turns % 2, -bucket, bucket))
            turns = turns + bucket
        return np.lexsort(keys[::-1])  # the last key of lexsort is the first to sort by

    def _cut(self, order: np.ndarray) -> list[np.ndarray]:
        """Cuts a sorted order into batches."""
        if self.batch_size is not None:
            return [order[start : start + self.batch_size] for start in range(0, len(order), self.batch_size)]
        rows = self._padded(order).tolist()
        parts, start = [], 0
        while start < len(rows):
            size = self._fitting(rows, start)
            parts.append(order[start : start + size])
            start += size
        return parts

    def _fitting(self, rows: list[list[int]], start: int) -> int:
        """How many examples from `start` on fit the budget, at least 1."""
        widest, size = rows[start], 1
        while start + size < len(rows):
            wider = [max(pair) for pair in zip(widest, rows[start + size], strict=True)]
            if (size + 1) * sum(wider) > self.batch_tokens:
                break
            widest, size = wider, size + 1
        return size

    def padding_share(self, epoch: int = 0) -> float:
        """Share of padding among all positions of an epoch, in [0, 1)."""
        positions = sum(int(self._padded(batch).max(axis=0).sum()) * len(batch) for batch in self.batches(epoch))
        return 1 - int(self.lengths.sum()) / positions

    def _padded(self, indices: np.ndarray) -> np.ndarray:
        """Lengths as they count in a batch: rounded up to `multiple_of`, and one position at least."""
        return -(-np.maximum(self.lengths[indices], 1) // self.multiple_of) * self.multiple_of


def tf_dataset(
    vectorized: TokenStore | Iterable[Mapping[str, Sequence[int]]],
    plan: BatchPlan,
    epoch: int,
    start: int = 0,
    replicas: int = 1,
) -> tf.data.Dataset:
    """The batches of one epoch as a dataset of dicts, column -> int32 (B, T), padded at the right with 0.

    Args:
        vectorized: the `TokenStore` (or examples) whose lengths the plan was made from.
        plan: `BatchPlan`.
        epoch: int >= 0.
        start: int >= 0. Batches to leave out at the beginning: those a training has seen before it was stopped.
        replicas: int > 0. The trainer splits a batch into so many parts of nearly equal numbers of rows. A batch with
            fewer rows than that gets rows of padding alone, so that no part is empty. Which examples form a batch does
            not depend on it.

    Returns:
        `tf.data.Dataset` of known cardinality, prefetched.

    Raises:
        ValueError: the plan does not fit the examples, `replicas` < 1, or `start` lies beyond the epoch.
    """
    store = _as_store(vectorized)
    if len(plan.lengths) != len(store):
        raise ValueError(
            f"The plan knows {len(plan.lengths)} examples, the store has {len(store)}. Make the plan from "
            "`store.lengths`."
        )
    if replicas < 1:
        raise ValueError(f"`replicas` must be at least 1. Received {replicas}. Pass strategy.num_replicas_in_sync.")
    batches = plan.batches(epoch)
    if not 0 <= start <= len(batches):
        raise ValueError(f"`start` must be in 0 … {len(batches)}, the batches of epoch {epoch}. Received {start}.")
    signature = {name: tf.TensorSpec((None, None), tf.int32) for name in store.columns}
    dataset = tf.data.Dataset.from_generator(
        lambda: (_with_rows(store.padded(batch, plan.multiple_of), replicas) for batch in batches[start:]),
        output_signature=signature,
    )
    return dataset.apply(tf.data.experimental.assert_cardinality(len(batches) - start)).prefetch(tf.data.AUTOTUNE)


def _with_rows(batch: dict[str, np.ndarray], at_least: int) -> dict[str, np.ndarray]:
    """The batch, with rows of padding below it up to `at_least` rows."""
    return {
        name: np.pad(ids, ((0, max(at_least - len(ids), 0)), (0, 0)), constant_values=PAD_ID)
        for name, ids in batch.items()
    }


def _as_store(vectorized: TokenStore | Iterable[Mapping[str, Sequence[int]]]) -> TokenStore:
    return vectorized if isinstance(vectorized, TokenStore) else TokenStore.from_examples(vectorized)

"""The model of TensorFlow's public tutorial "Neural machine translation with attention", as a yardstick for
`nmt_luong`.

Own code after the tutorial's description: embeddings and GRUs of 256, a bidirectional encoder whose directions are
summed, one GRU as decoder, attention by `keras.layers.MultiHeadAttention` with one head over all steps, added and
layer-normalised; Adam at its defaults, batches of 64 in random order, masked cross entropy, greedy decoding. It gets
what our preset gets: the same pieces, casing, pairs, split and training minutes. Two things are kinder than the
    tutorial: the whole budget is used instead of stopping at the first three bad
validations, and the weights with the best validation loss are kept.

    taskset -c 0 python benchmarks/tutorial_nmt.py --data DIR --tokenizer zoo/nmt_luong/tokenizer --minutes 70 --out
    runs/tutorial_nmt

`DIR` holds train.tsv, valid.tsv and test.tsv as `training/prepare_tatoeba.py` writes them. Minutes are the process's
CPU time over the number of cores that it may use, as in the recipe of `nmt_luong`, so that other work on the machine
does not count.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from keras_attention.text import SentencePieceTokenizer
from keras_attention.training.metrics import corpus_scores

UNITS, BATCH, MAX_LENGTH = 256, 64, 50
START, END = SentencePieceTokenizer.start_id, SentencePieceTokenizer.end_id


class CrossAttention(keras.layers.Layer):
    """One head of attention from decoder to encoder, added to the query and layer-normalised."""

    def __init__(self, units):
        super().__init__()
        self.attention = keras.layers.MultiHeadAttention(key_dim=units, num_heads=1)
        self.normalization = keras.layers.LayerNormalization()

    def call(self, query, context, context_mask):
        read = self.attention(query, context, attention_mask=context_mask[:, None, :])
        return self.normalization(query + read)


class TutorialTranslator(keras.Model):
    """The tutorial's encoder and decoder: (source, previous target) → logits (B, Tq, V)."""

    def __init__(self, vocabulary_size, units=UNITS):
        super().__init__()
        self.source_embedding = keras.layers.Embedding(vocabulary_size, units)
        self.encoder = keras.layers.Bidirectional(
            keras.layers.GRU(units, return_sequences=True, recurrent_initializer="glorot_uniform"), merge_mode="sum"
        )
        self.target_embedding = keras.layers.Embedding(vocabulary_size, units)
        self.decoder = keras.layers.GRU(
            units, return_sequences=True, return_state=True, recurrent_initializer="glorot_uniform"
        )
        self.attention = CrossAttention(units)
        self.output_layer = keras.layers.Dense(vocabulary_size)

    def encode(self, source):
        mask = tf.not_equal(source, 0)
        return self.encoder(self.source_embedding(source), mask=mask), mask

    def decode(self, previous, context, context_mask, state=None):
        embedded = self.target_embedding(previous)
        states, state = self.decoder(embedded, mask=tf.not_equal(previous, 0), initial_state=state)
        return self.output_layer(self.attention(states, context, context_mask)), state

    def call(self, inputs):
        source, previous = inputs
        return self.decode(previous, *self.encode(source))[0]

    @tf.function(reduce_retracing=True, input_signature=[tf.TensorSpec([None, None], tf.int32)])
    def translate(self, source):
        """Greedy: source (B, Tv) → ids (B, MAX_LENGTH)."""
        context, mask = self.encode(source)
        batch = tf.shape(source)[0]
        token, state = tf.fill([batch], START), tf.zeros([batch, UNITS])
        done, written = tf.zeros([batch], tf.bool), tf.TensorArray(tf.int32, MAX_LENGTH)
        for t in tf.range(MAX_LENGTH):
            logits, state = self.decode(token[:, None], context, mask, state)
            token = tf.where(done, END, tf.argmax(logits[:, 0], axis=-1, output_type=tf.int32))
            written = written.write(t, token)
            done = tf.logical_or(done, token == END)
        return tf.transpose(written.stack())


def read_pairs(path):
    return [line.split("\t") for line in Path(path).read_text("utf-8").rstrip("\n").split("\n")]


def dataset(pairs, tokenizer, batch, shuffle_seed=None):
    """Batches of ((source, previous target), target), in random order for ever, or once in order."""
    source = tf.ragged.constant([[*tokenizer.encode(one), END] for one, _ in pairs], dtype=tf.int32)
    target = tf.ragged.constant([[START, *tokenizer.encode(two), END] for _, two in pairs], dtype=tf.int32)
    data = tf.data.Dataset.from_tensor_slices((source, target))
    if shuffle_seed is not None:
        data = data.shuffle(len(pairs), seed=shuffle_seed).repeat()

    def split(source, target):
        target = target.to_tensor()
        return (source.to_tensor(), target[:, :-1]), target[:, 1:]

    return data.batch(batch).map(split).prefetch(2)


def masked_loss(labels, logits):
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.cast(labels, tf.int32), logits)
    mask = tf.cast(tf.not_equal(labels, 0), loss.dtype)
    return tf.reduce_sum(loss * mask) / tf.reduce_sum(mask)


class Budget(keras.callbacks.Callback):
    """Stops when the minutes are used; validates outside of them and keeps the best weights."""

    def __init__(self, minutes, valid, folder, every=500):
        super().__init__()
        self.seconds, self.valid, self.folder, self.every = 60 * minutes, valid, Path(folder), every
        self.used = self.step = self.tokens = 0
        self.best = np.inf

    def on_train_begin(self, logs=None):
        self.last = time.process_time()
        self.wall = time.time()

    def on_train_batch_end(self, batch, logs=None):
        self.step += 1
        self._count()
        if self.step % self.every == 0 or self.used >= self.seconds:
            self._validate(logs)
            self.last = time.process_time()
        if self.used >= self.seconds:
            self.model.stop_training = True

    def _count(self):
        now = time.process_time()
        self.used += (now - self.last) / len(os.sched_getaffinity(0))
        self.last = now

    def _validate(self, logs):
        loss = self.model.evaluate(self.valid, verbose=0)
        minutes = self.used / 60
        print(f"step {self.step}  {minutes:.1f} min  loss {logs['loss']:.3f}  validation loss {loss:.3f}", flush=True)
        if loss < self.best:
            self.best = loss
            self.model.save_weights(self.folder / "best.weights.h5")


def train(model, tokenizer, options):
    """Uses the budget, and says what it came to."""
    valid = dataset(read_pairs(options.data / "valid.tsv"), tokenizer, BATCH)
    budget = Budget(options.minutes, valid, options.out)
    data = dataset(read_pairs(options.data / "train.tsv"), tokenizer, BATCH, shuffle_seed=options.seed)
    model.fit(data, epochs=1, steps_per_epoch=10**9, shuffle=False, verbose=0, callbacks=[budget])
    wall = (time.time() - budget.wall) / 60
    return {"minutes": round(budget.used / 60, 1), "wall_minutes": round(wall, 1), "steps": budget.step}


def outputs_of(model, sources, tokenizer):
    order = sorted(range(len(sources)), key=lambda place: len(sources[place]))
    outputs = [""] * len(sources)
    for start in range(0, len(order), BATCH):
        rows = order[start : start + BATCH]
        padded = tf.ragged.constant(
            [[*tokenizer.encode(sources[row]), END] for row in rows], dtype=tf.int32
        ).to_tensor()
        for row, ids in zip(rows, model.translate(padded).numpy(), strict=True):
            outputs[row] = tokenizer.decode(ids.tolist())
    return outputs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, type=Path)
    parser.add_argument("--tokenizer", required=True, type=Path)
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--score-only", action="store_true", help="train no more: score the weights in --out")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    keras.utils.set_random_seed(options.seed)
    tokenizer = SentencePieceTokenizer.load(options.tokenizer)
    model = TutorialTranslator(tokenizer.vocabulary_size)
    model.compile(optimizer="adam", loss=masked_loss)
    report = {"seed": options.seed}
    if options.score_only:
        model((tf.zeros([1, 1], tf.int32), tf.zeros([1, 1], tf.int32)))
    else:
        report |= train(model, tokenizer, options)
    model.load_weights(options.out / "best.weights.h5")
    report["parameters"] = model.count_params()
    for split in ("valid", "test"):
        references: dict[str, list[str]] = {}
        for source, target in read_pairs(options.data / f"{split}.tsv"):
            references.setdefault(source, []).append(target)
        outputs = outputs_of(model, list(references), tokenizer)
        (options.out / f"{split}.outputs.txt").write_text("".join(line + "\n" for line in outputs), "utf-8")
        report[split] = corpus_scores("translation", outputs, list(references.values()))
    (options.out / "report.json").write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()

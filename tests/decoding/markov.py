"""A fake model for the searches: what comes next depends on the row, the last token and the place, by a table."""

from __future__ import annotations

import itertools

import numpy as np
import tensorflow as tf

START, END, PAD = 0, 1, 2


class Markov:
    """log p(next | row, place, last) from a table (rows, places, V, V), with attention (rows, places, V, Tv) to look
    at."""

    def __init__(self, seed, rows=3, places=4, words=5, columns=3, sharpness=1.5):
        random = np.random.default_rng(seed)
        logits = random.normal(size=(rows, places, words, words)) * sharpness
        self.logits = logits.astype(np.float32)
        self.log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        attention = random.uniform(0.1, 1, size=(rows, places, words, columns))
        self.attention = (attention / attention.sum(-1, keepdims=True)).astype(np.float32)
        self.rows, self.places, self.words, self.columns = rows, places, words, columns

    def state(self, rows=None):
        rows = list(range(self.rows)) if rows is None else rows
        return {"row": tf.constant(rows, tf.int32), "place": tf.zeros(len(rows), tf.int32)}

    def step(self, ids, state):
        where = tf.stack([state["row"], tf.minimum(state["place"], self.places - 1), ids], axis=1)
        state = {"row": state["row"], "place": state["place"] + 1}
        return tf.gather_nd(self.logits, where), tf.gather_nd(self.attention, where), state

    def all_hypotheses(self, row, limit, alpha):
        """Every sequence that ends within `limit` tokens: (score, log p, ids), best first; at the limit the end is the
        only choice."""
        found = []
        others = [token for token in range(self.words) if token != END]
        for length in range(1, limit + 1):
            for words in itertools.product(others, repeat=length - 1):
                ids = [*words, END]
                total, last = 0.0, START
                for place, token in enumerate(ids):
                    total += self.log_p[row, min(place, self.places - 1), last, token]
                    last = token
                found.append((total / ((5 + length) / 6) ** alpha, total, ids))
        return sorted(found, key=lambda one: -one[0])

    def attention_of(self, row, ids):
        last, weights = START, []
        for place, token in enumerate(ids):
            weights.append(self.attention[row, min(place, self.places - 1), last])
            last = token
        return np.array(weights)

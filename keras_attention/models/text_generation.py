"""`TextGeneration`: how a sequence-to-sequence model finds its outputs, and how it is served."""

from __future__ import annotations

import dataclasses

import numpy as np
import tensorflow as tf

from keras_attention import decoding
from keras_attention.maps import AttentionMap
from keras_attention.models.prediction import Prediction
from keras_attention.models.search_options import SearchOptions, check_range
from keras_attention.models.sequences import budget_batches, pad_rows
from keras_attention.models.unknown_words import check_replaces_unknown, replace_unknown

__all__ = ["TextGeneration"]

_OF_GIVEN_OUTPUTS = ("length_penalty", "attention")  # options that outputs which are given take too


class TextGeneration:
    """The part of `SequenceToSequence` that searches: over its `encode`, `stepper` and `decoder`."""

    def output_limits(self, source, max_length):
        """Longest output of each row in tokens, int32 (B,): twice the input and a few more, at most `max_length`.

        It depends on the row alone, so that a sentence gets the same output in every batch.
        """
        lengths = tf.reduce_sum(tf.cast(tf.not_equal(source, self.pad_id), tf.int32), axis=1)
        return tf.minimum(2 * lengths + 10, max_length)

    def search(self, source, options: SearchOptions, seeds=None):
        """The best outputs for a batch, in the graph: greedy for one beam, beam search for more; or samples.

        Args:
            source: int32 (B, Tv), padded with 0, each row ended by the end id.
            options: `SearchOptions`; of several samples a row, each is a row of `source`.
            seeds: int32 (B,), of the samples.

        Returns:
            `decoding.Hypotheses`.
        """
        memory, states = self.encode(source)
        state = self.decoder.initial_state(states, memory)
        rows = memory if options.beam_size == 1 else decoding.repeat_rows(memory, options.beam_size)
        common = {
            "step": self.stepper(rows),
            "state": state,
            "limits": self.output_limits(source, options.max_length),
            "settings": self.search_settings(options),
            "value_length": self._map_columns(source),
            "value_mask": tf.not_equal(source, self.pad_id),
        }
        if options.samples:
            drawn_from = {"temperature": options.temperature, "top_k": options.top_k, "top_p": options.top_p}
            return decoding.sample_search(**common, seeds=seeds, **drawn_from)
        if options.beam_size == 1:
            return decoding.greedy_search(**common)
        return decoding.beam_search(**common, beam_size=options.beam_size)

    def force(self, source, target, length_penalty=0.0, return_attention=True):
        """Outputs that are given, in the graph: int32 (B, Tv) and (B, Tq), each row ended by the end id → `Hypotheses`
        with their log-probability and attention.
        """
        memory, states = self.encode(source)
        state, step = self.decoder.initial_state(states, memory), self.stepper(memory)
        room = target.shape[1] or tf.shape(target)[1]
        settings = decoding.SearchSettings(
            self.start_id, self.end_id, self.pad_id, room, length_penalty, return_attention
        )
        return decoding.forced_search(step, state, target, settings, self._map_columns(source))

    def search_settings(self, options: SearchOptions) -> decoding.SearchSettings:
        if options.replace_unknown:
            check_replaces_unknown(self.tokenizer, self.decoder.maps)
        if options.coverage_penalty and not self.decoder.maps:
            raise ValueError(
                f"`coverage_penalty` is {options.coverage_penalty}, but this model has no attention to cover its input "
                "with. Leave it out."
            )
        return decoding.SearchSettings(
            self.start_id,
            self.end_id,
            self.pad_id,
            options.max_length,
            float(options.length_penalty),
            options.keeps_attention,
            float(options.coverage_penalty),
            options.min_length,
            options.no_repeat_ngram,
            never=(self.pad_id, self.start_id),
        )

    def _map_columns(self, source):
        """How many weights a step gives: one for each place of the source, times the decoder's heads."""
        return sum(kind.heads for kind in self.decoder.maps) * tf.shape(source)[1]

    def stepper(self, memory):
        """The step of a search: a function (ids int32 (N,), state) → logits (N, V), weights (N, heads · Tv), state."""
        step, logits = self.decoder.stepper(memory, self.compute_dtype), self._output_layer(self.compute_dtype)

        def next_logits(ids, state):
            projected = self.decoder.project(self.embed(self.target_embedding, ids))
            output, weights, state = step(projected, state)
            return tf.cast(logits(output), tf.float32), weights, state

        return next_logits

    def translate(self, inputs, **options):
        """Translates one text or a list of texts.

        Args:
            inputs: str, or list of str.
            beam_size, length_penalty, max_length: see `SearchOptions`; the configuration's by default.
            n_best, coverage_penalty, min_length, no_repeat_ngram, temperature, top_k, top_p, seed, replace_unknown,
                attention: see `SearchOptions`. The best output is the prediction, the others are its `alternatives`.
            targets: str, or a list of str as long as the inputs. Outputs that are given: nothing is searched for, and
                each gets its score and its attention. Takes `length_penalty` and `attention` beside it.
            batch_tokens: int > 0. How many source pieces, times beams, go through the network at once.

        Returns:
            `Prediction`, or a list of them in the order of the inputs, whose `output` is the translation.

        Raises:
            TypeError, ValueError: see `run`; an option out of range, options that contradict each other, or another
                number of targets than of inputs.
        """
        return self.run(inputs, **options)

    def predict_examples(self, examples, batch_tokens=8192, targets=None, **options):
        if targets is not None:
            targets = self._given_outputs(targets, len(examples), options)
            options["beam_size"] = 1
        options = self.search_options(**options)
        check_range("batch_tokens", batch_tokens, 1, 2**31 - 1)
        sources = self._all_ids("source", [one["source"] for one in examples])
        compute = self._search_function(options) if targets is None else self._force_function(options)
        repeated = options.n_best if options.samples else 1
        predictions: list = [None] * len(sources)
        lengths = [len(ids) for ids in sources]
        if targets is not None:
            lengths = [max(pair) for pair in zip(lengths, map(len, targets), strict=True)]
        for rows in budget_batches(lengths, batch_tokens // max(options.beam_size, repeated)):
            source = np.repeat(pad_rows([sources[row] for row in rows], self.pad_id), repeated, axis=0)
            seeds = _seeds(options.seed, rows, repeated)
            given = seeds if targets is None else pad_rows([targets[row] for row in rows], self.pad_id)
            found = compute(tf.constant(source), tf.constant(given))
            by_input = (len(rows), repeated if options.samples else options.beam_size)
            found = (part.numpy() for part in found)
            found = decoding.Hypotheses(*(part.reshape(*by_input, *part.shape[2:]) for part in found))
            for place, row in enumerate(rows):
                one = decoding.Hypotheses(*(part[place] for part in found))
                predictions[row] = self._prediction(one, sources[row], examples[row]["source"], options)
        return predictions

    def _all_ids(self, column, texts):
        places = [f" (input {place})" if len(texts) > 1 else "" for place in range(1, len(texts) + 1)]
        return [self._ids(column, text, place) for text, place in zip(texts, places, strict=True)]

    def _given_outputs(self, targets, count, options):
        """The ids of outputs that are given; options of a search beside them are refused."""
        texts = [targets] if isinstance(targets, str) else list(targets)
        if any(not isinstance(text, str) for text in texts) or len(texts) != count:
            raise ValueError(
                f"`targets` must be as many str as there are inputs, {count}. Received {len(texts)}: "
                f"{str(texts)[:60]}. Give each input its output."
            )
        searching = [name for name, one in options.items() if one is not None and name not in _OF_GIVEN_OUTPUTS]
        if searching:
            raise ValueError(
                f"`targets` gives the outputs, `{searching[0]}` says how to search for them. Leave out one of the two."
            )
        return self._all_ids("target", texts)

    def search_options(self, **options) -> SearchOptions:
        """`SearchOptions` of what a caller gives, with the configuration's where nothing is given."""
        given = {name: value for name, value in options.items() if value is not None}
        known = {one.name for one in dataclasses.fields(SearchOptions)}
        for name in given:
            if name not in known:
                raise TypeError(f"`{self.verb}` has no option {name!r}. Expected some of {', '.join(sorted(known))}.")
        if given.get("temperature") is None:
            n_best = given.get("n_best", 1)
            given.setdefault("beam_size", max(self.config.beam_size, n_best) if isinstance(n_best, int) else 1)
        given.setdefault("length_penalty", self.config.length_penalty)
        given.setdefault("max_length", self.config.max_length)
        found = SearchOptions(**given)
        check_range("beam_size", found.beam_size, 1, self.config.vocabulary_size // 2)
        self.search_settings(found)
        return found

    def _search_function(self, options):
        """The compiled search of these settings, traced once for all shapes."""
        options = dataclasses.replace(options, seed=0, n_best=1)
        if options not in self._searches:
            specs = [tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None], tf.int32)]

            @tf.function(input_signature=specs)
            def search(source, seeds):
                return self.search(source, options, seeds)

            self._searches[options] = search
        return self._searches[options]

    def _force_function(self, options):
        """As `_search_function`, for outputs that are given."""
        key = ("force", options.length_penalty, options.attention)
        if key not in self._searches:

            @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)] * 2)
            def force(source, target):
                return self.force(source, target, options.length_penalty, options.attention)

            self._searches[key] = force
        return self._searches[key]

    def _prediction(self, found, source, text, options):
        """One row of `Hypotheses`, in NumPy: its best hypothesis, with the next ones as alternatives."""
        answers = []
        order = np.argsort(-found.score, kind="stable") if options.samples else range(len(found.score))
        for place in order[: options.n_best]:
            length = int(found.length[place])
            if length == 0:
                break
            ids = [int(one) for one in found.ids[place, :length]]
            weights = found.attention[place, :length]
            maps = self._attention_maps(weights, ids, source) if options.attention else []
            if options.replace_unknown:
                output = replace_unknown(
                    self.tokenizer, ids, self.tokenizer.words(text), self._by_head(weights, len(source))
                )
            else:
                output = self.tokenizer.decode(ids)
            extra = {"log_probability": float(found.log_probability[place])}
            answers.append(Prediction(output, float(found.score[place]), maps, extra=extra))
        return dataclasses.replace(answers[0], alternatives=answers[1:])

    def _attention_maps(self, weights, ids, source):
        """One map for each of the decoder's mechanisms: weights (T, heads · Tv), Tv as it was padded."""
        rows, columns = self.tokenizer.tokens(ids), self.tokenizer.tokens(source)
        if not self.decoder.maps:
            return []
        weights = self._by_head(weights, len(source)).transpose(1, 0, 2)  # (heads, T, Tv)
        maps, first = [], 0
        for kind in self.decoder.maps:
            own = np.ascontiguousarray(weights[first : first + kind.heads] if kind.heads > 1 else weights[first])
            axes = ("head",) if kind.heads > 1 else ()
            maps.append(AttentionMap(kind.name, kind.layer, "decoder", own, rows, columns, axes))
            first += kind.heads
        return maps

    def _by_head(self, weights, length):
        """Weights (T, heads · Tv), Tv as it was padded → (T, heads, length)."""
        heads = sum(kind.heads for kind in self.decoder.maps)
        return weights.reshape(len(weights), heads, -1)[..., :length]

    # Export

    def serving_functions(self, batch_size=None, beam_size=1, length_penalty=None):
        """`ids`: source int32 (B, Tv) → ids (B, K, T), length, score (B, K), attention (B, K, T, Tv). `text`: strings
        in and out.

        Args:
            batch_size: int or None. A fixed B, for formats that want one.
            beam_size: int > 0. K; 1 is greedy.
            length_penalty: float >= 0; the configuration's by default.

        Raises:
            ValueError: an option out of range.
        """
        options = self.search_options(beam_size=beam_size, length_penalty=length_penalty)

        def search(source):
            found = self.search(source, options)
            return {"ids": found.ids, "length": found.length, "score": found.score, "attention": found.attention}

        @tf.function(input_signature=[tf.TensorSpec([batch_size, None], tf.int32, name="source")])
        def ids(source):
            return search(source)

        functions = {"ids": ids}
        if self.tokenizer is not None:
            functions["text"] = self._text_function(search, batch_size)
        return functions

    def random_ids(self, length, random):
        return {"source": [*random.integers(4, self.config.vocabulary_size, length).tolist(), self.end_id]}

    def output_loss(self, inputs, outputs):
        best = tf.constant(np.ascontiguousarray(outputs["ids"][:, 0]))
        total, count = self.loss_terms({"source": tf.constant(inputs["source"]), "target": best}, training=False)
        return float(total) / max(float(count), 1.0)

    def sidecar(self):
        return {
            "special_ids": {"pad": self.pad_id, "start": self.start_id, "end": self.end_id},
            "max_length": self.config.max_length,
        }

    def _text_function(self, search, batch_size):
        tokenizer = self.tokenizer

        @tf.function(input_signature=[tf.TensorSpec([batch_size], tf.string, name="text")])
        def text(text):
            pieces = tokenizer.graph_encode(text)
            ends = tf.fill([pieces.nrows(), 1], self.end_id)
            source = tf.concat([pieces, tf.cast(ends, pieces.dtype)], axis=1).to_tensor(self.pad_id)
            found = search(source)
            rows = tf.reshape(found["ids"], [-1, tf.shape(found["ids"])[2]])
            outputs = tf.reshape(tokenizer.graph_decode(rows), tf.shape(found["score"]))
            return {"text": outputs, "source_ids": source, **found}

        return text


def _seeds(seed, rows, samples):
    """A seed for each sample of each input, int32 (rows · samples,), by its place among the inputs alone."""
    found = [
        np.random.default_rng([seed, row, number]).integers(2**31 - 1) for row in rows for number in range(samples)
    ]
    return np.array(found, np.int32)

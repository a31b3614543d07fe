"""Cloze questions made of plain text: sentences of context, and one more with a word left out."""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Callable, Iterator, Sequence

from keras_attention.text import WordTokenizer

BLANK = "XXXXX"
# kind of a question → the universal part of speech of its answer
KINDS = {"named_entity": "PROPN", "common_noun": "NOUN"}

_END = re.compile(r"""(?<=[.!?])(["')\]]*)\s+(?=["'(\[]*[A-Z])""")
_NO_END = re.compile(r"\b(?:[A-Z]|Mr|Mrs|Ms|Dr|St|Prof|Capt|Col|Gen|Lieut|Rev|Hon|Messrs|Jr|Sr|vs)\.$")

Tag = Callable[[Sequence[str]], Sequence[str]]


def make_cloze(
    text: str,
    tag: Tag,
    kinds: Sequence[str] = tuple(KINDS),
    *,
    context: int = 20,
    candidates: int = 10,
    step: int = 1,
    seed: int = 0,
) -> Iterator[dict[str, str]]:
    """Makes questions of a text as the Children's Book Test was made.

    Hill et al., 2016 (arXiv 1511.02301), section 2: of 21 sentences in a row the first 20 are the context, and in the
    last a word is left out, the answer; it is to be chosen among ten words of its kind that stand in the context or in
    that sentence.
    Differs from the paper: a named entity is a proper noun (UPOS PROPN), as `tag` tells it; verbs and prepositions are
    not asked for; the answer stands in the context, and once only in its sentence.

    Args:
        text: str. Paragraphs are told by empty lines between them; those in which no sentence ends, such as headings,
            are left out.
        tag: function of the words of a sentence → as many tags, universal parts of speech (UPOS).
        kinds: some of `KINDS`: at most one question of each is made of 21 sentences.
        context: int > 0. Sentences before the one that is asked about.
        candidates: int > 1. Words to choose from.
        step: int > 0. Every so many sentences one is asked about.
        seed: int. Of the choice of words.

    Returns:
        An iterator of dicts: "document", the context, words with spaces between them; "query", with `XXXXX` for the
        word; "candidates", with | between them, in an order by chance; "answer", one of them; "kind".

    Raises:
        ValueError: an unknown kind, a number that is too small, or `tag` gives another number of tags than words.

    Example:
        >>> first = next(make_cloze(book, lambda words: tagger.tag(words)))     # doctest: +SKIP
        >>> first["query"], first["answer"]                                     # doctest: +SKIP
        ('The XXXXX ran after the rabbit .', 'girl')
    """
    for kind in kinds:
        if kind not in KINDS:
            raise ValueError(f"Unknown kind {kind!r}. Expected some of {', '.join(KINDS)}.")
    for name, value, low in (("context", context, 1), ("candidates", candidates, 2), ("step", step, 1)):
        if value < low:
            raise ValueError(f"`{name}` must be at least {low}. Received {value!r}.")
    return _questions(_tagged(text, tag), kinds, context, candidates, step, random.Random(seed))


def split_sentences(text: str) -> list[str]:
    """The sentences of a text: they end with . ! or ? before a capital letter, and with their paragraph."""
    found = []
    for paragraph in re.split(r"\n\s*\n", text.replace("\r\n", "\n")):
        line = " ".join(paragraph.replace("_", " ").replace("--", " — ").split())
        if not re.search(r"[.!?]", line):
            continue
        start = 0
        for end in _END.finditer(line):
            if not _NO_END.search(line[: end.start()]):
                found.append(line[start : end.end(1)])
                start = end.end()
        found.append(line[start:])
    return [sentence for sentence in found if sentence]


def split_words(sentence: str) -> list[str]:
    """The words of a sentence as a `text.WordTokenizer` tells them, with upper and lower case."""
    return _splitter().words(sentence)


@functools.cache
def _splitter() -> WordTokenizer:
    return WordTokenizer.from_words(["a"], lowercase=False)


def _tagged(text: str, tag: Tag) -> list[tuple[list[str], list[str]]]:
    """(words, tags) of each sentence that has a word."""
    found = []
    for sentence in split_sentences(text):
        words = split_words(sentence)
        if not words:
            continue
        tags = list(tag(words))
        if len(tags) != len(words):
            raise ValueError(
                f"`tag` gave {len(tags)} tags for {len(words)} words: {' '.join(words)[:60]!r}. Expected one for each."
            )
        found.append((words, tags))
    return found


def _questions(sentences, kinds, context, candidates, step, chance) -> Iterator[dict[str, str]]:
    for place in range(context, len(sentences), step):
        before, (words, tags) = sentences[place - context : place], sentences[place]
        document = [word for own, _ in before for word in own]
        for kind in kinds:
            there = _of_kind(before, KINDS[kind])
            asked = [
                at
                for at, (word, upos) in enumerate(zip(words, tags, strict=True))
                if upos == KINDS[kind] and word.lower() in there and _once(word, words)
            ]
            others = {**_of_kind([sentences[place]], KINDS[kind]), **there}
            if not asked or len(others) < candidates:
                continue
            at = chance.choice(asked)
            others.pop(words[at].lower())
            chosen = [words[at], *(others[one] for one in chance.sample(sorted(others), candidates - 1))]
            chance.shuffle(chosen)
            yield {
                "document": " ".join(document),
                "query": " ".join([*words[:at], BLANK, *words[at + 1 :]]),
                "candidates": "|".join(chosen),
                "answer": words[at],
                "kind": kind,
            }


def _of_kind(sentences, upos) -> dict[str, str]:
    """Distinct words of a kind, by their spelling in lower case."""
    pairs = [pair for own, tags in sentences for pair in zip(own, tags, strict=True)]
    return {word.lower(): word for word, tag in pairs if tag == upos and word.isalpha() and len(word) > 1}


def _once(word: str, words: Sequence[str]) -> bool:
    return sum(one.lower() == word.lower() for one in words) == 1

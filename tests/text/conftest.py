from __future__ import annotations

import pytest

from keras_attention.text import SentencePieceTokenizer

SENTENCES = [
    "Where is the library?",
    "The library is behind the station, on the left.",
    "She doesn't know where the children are.",
    "I have never seen such a beautiful garden before.",
    "He said: 'It costs 12.50 or 13 dollars (at most)!'",
    "We would like two tickets to London, please; thank you.",
    "Où est la bibliothèque\u202f?",
    "Je ne sais pas où sont les enfants\u00a0!",
    "C’est à côté de la gare, près du café\u202f: «\u00a0Chez Zoé\u00a0».",
    "Nous avons déjà mangé, merci beaucoup\u202f; ça coûte 8\u202f€.",
    "L’été dernier, ils étaient à la forêt.",
    "Wo ist die Bücherei?",
    "Der Fuß tut ihr weh, aber sie läuft weiter.",
    "Die schönen Häuser gehören unserer Großmutter.",
    "Könnten Sie mir bitte helfen?",
    "図書館はどこですか。",
    "私は毎日図書館で本を読みます。",
    "すみません、駅はどこですか。",
    "この本はとても面白いです。",
]
VOCABULARY_SIZE = 170


@pytest.fixture(scope="session")
def sentences() -> list[str]:
    return SENTENCES


@pytest.fixture(scope="session")
def tokenizer() -> SentencePieceTokenizer:
    return SentencePieceTokenizer.train(SENTENCES, VOCABULARY_SIZE)

"""A translation preset that is whole but knows nothing: 160 pieces, 16 units, weights at random."""

from __future__ import annotations

from pathlib import Path
from typing import Any

PAIRS = [
    ("Where is the library?", "Où est la bibliothèque ?"),
    ("The library is behind the station, on the left.", "La bibliothèque est derrière la gare, à gauche."),
    ("She does not know where the children are.", "Elle ne sait pas où sont les enfants."),
    ("I have never seen such a beautiful garden.", "Je n'ai jamais vu un aussi beau jardin."),
    ("We would like two tickets to London, please.", "Nous voudrions deux billets pour Londres, merci."),
    ("It is raining again.", "Il pleut encore."),
    ("They went home before the storm.", "Ils sont rentrés avant la tempête."),
    ("Do you want some tea or coffee?", "Voulez-vous du thé ou du café ?"),
    ("The old man told us a long story.", "Le vieil homme nous a raconté une longue histoire."),
    ("My brother works in a small shop.", "Mon frère travaille dans un petit magasin."),
    ("Please close the window.", "Fermez la fenêtre, s'il vous plaît."),
    ("I forgot to bring my keys.", "J'ai oublié de prendre mes clés."),
    ("He reads the newspaper every morning.", "Il lit le journal tous les matins."),
    ("Is there a bakery near here?", "Y a-t-il une boulangerie près d'ici ?"),
    ("Tomorrow we will visit the museum.", "Demain nous visiterons le musée."),
    ("Zoe likes very quiet music.", "Zoé aime la musique très calme."),
]
VOCABULARY_SIZE = 160
MAX_LENGTH = 32
METADATA = {
    "task": "translation",
    "description": "English to French, made of random weights.",
    "weights_license": "Apache-2.0",
    "headline": "BLEU 0.0 (none)",
    "scores": {"test": {"bleu": 0.0}},
    "recipe": {"version": 1, "family": "translation"},
}
CARD = "# tiny\n\nTranslates English to noise – or à peu près.\n"


def make_model(seed: int = 3, **config: Any):
    """A `TranslationModel` whose every weight is different."""
    import keras
    import numpy as np

    from keras_attention.models import TranslationModel
    from keras_attention.text import SentencePieceTokenizer

    tokenizer = SentencePieceTokenizer.train([text for pair in PAIRS for text in pair], VOCABULARY_SIZE)
    keras.utils.set_random_seed(seed)
    settings = {"embedding_dim": 12, "units": 16, "max_length": MAX_LENGTH, "beam_size": 2, **config}
    model = TranslationModel({"vocabulary_size": VOCABULARY_SIZE, **settings}, tokenizer)
    generator = np.random.default_rng(seed)
    for weight in model.weights:
        # Halves: what the preset stores is exactly what the model has.
        weight.assign(generator.normal(0, 0.4, weight.shape).astype(np.float16).astype(np.float32))
    return model


def make_preset(folder: str | Path, metadata: dict[str, Any] | None = None, **config: Any) -> Path:
    """Writes the preset of `make_model`, with a card, into a folder."""
    from keras_attention import zoo

    folder = zoo.save(make_model(**config), folder, METADATA if metadata is None else metadata)
    (folder / "README.md").write_text(CARD, "utf-8")
    return folder

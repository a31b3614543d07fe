"""Translates with an exported `.tflite` file: no TensorFlow, no keras_attention.

    pip install ai-edge-litert sentencepiece numpy
    python translate.py nmt.tflite "Where is the library?"

All that it knows of the model stands in the sidecar `nmt.tflite.json`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import sentencepiece
from ai_edge_litert.interpreter import Interpreter


class Translator:
    """One exported model with its tokenizer.

    Args:
        path: the .tflite file; its sidecar and its tokenizer must lie beside it.
    """

    def __init__(self, path):
        path = Path(path)
        self.facts = json.loads(path.with_name(path.name + ".json").read_text("utf-8"))
        tokenizer = path.with_name(self.facts["tokenizer"]["file"])
        self.tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(tokenizer))
        self.run = Interpreter(str(path)).get_signature_runner("ids")

    def __call__(self, text):
        ids = self.tokenizer.encode(text)
        if not ids or len(ids) >= self.facts["max_length"]:
            raise SystemExit(f"The text has {len(ids)} pieces; the model reads 1 to {self.facts['max_length'] - 1}.")
        found = self.run(source=np.array([[*ids, self.facts["special_ids"]["end"]]], np.int32))
        length = int(found["length"][0, 0])
        return self.tokenizer.decode(found["ids"][0, 0, : length - 1].tolist())


if __name__ == "__main__":
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    translate = Translator(sys.argv[1])
    for sentence in sys.argv[2:]:
        print(translate(sentence))

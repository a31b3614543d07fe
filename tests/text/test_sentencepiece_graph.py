from __future__ import annotations

import builtins
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keras_attention.text import SentencePieceTokenizer, normalize
from keras_attention.text.normalize import DROPPED, SPACES
from tests.text.conftest import SENTENCES, VOCABULARY_SIZE

tf = pytest.importorskip("tensorflow")
tensorflow_text = pytest.importorskip("tensorflow_text")

ODD = [
    *["<s>", "</s>", "<pad>", "<unk>", "<0x41>", "\x00", "\u2581", "\ufffd", "\u2047", "\u2585", "\u200d", "  ", "😀"],
    *map(chr, (*SPACES, *DROPPED, *range(0x300, 0x330))),
]
PARTS = st.sampled_from([*ODD, *"abcdehistée 1'.", "the", " library", "où", "図書館"]) | st.characters(
    exclude_categories=["Cs"]
)
TEXTS = st.lists(st.text() | st.lists(PARTS).map("".join), min_size=1, max_size=20)
BYTES = st.lists(
    st.binary() | st.lists(PARTS.map(str.encode) | st.binary(max_size=2)).map(b"".join), min_size=1, max_size=20
)
IDS = st.lists(
    st.lists(st.integers(0, VOCABULARY_SIZE - 1) | st.integers(0, 5), min_size=7, max_size=7), min_size=1, max_size=9
)
RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@RELAXED
@given(TEXTS)
def test_any_text_has_the_same_ids_in_python_in_the_graph_and_in_the_fast_tokenizer(tokenizer, texts):
    expected = [tokenizer.encode(value) for value in texts]
    strings = tf.constant([value.encode() for value in texts])
    assert tokenizer.graph_encode(strings).to_list() == expected
    assert tokenizer.graph_encode_fast(strings).to_list() == expected


@RELAXED
@given(BYTES)
def test_any_bytes_have_the_ids_of_their_text_with_replacement_characters(tokenizer, values):
    expected = [tokenizer.encode(value.decode(errors="replace")) for value in values]
    assert tokenizer.graph_encode(tf.constant(values)).to_list() == expected


@RELAXED
@given(IDS)
def test_any_ids_have_the_same_text_in_python_and_in_the_graph(tokenizer, ids):
    expected = [tokenizer.decode(row).encode() for row in ids]
    batch = tf.constant(ids, tf.int32)
    assert tokenizer.graph_decode(batch).numpy().tolist() == expected
    fast = tokenizer.graph_decode_fast(batch).numpy().tolist()
    assert [b" ".join(value.split()) for value in fast] == expected


def test_long_runs_have_the_same_ids(tokenizer):
    texts = [unit * 20_000 for unit in ("a", "the ", "  ", "漢", "\u0301", "e\u0301", "\u2581", "<s>")]
    expected = [tokenizer.encode(value) for value in texts]
    assert tokenizer.graph_encode(texts).to_list() == expected
    assert tokenizer.graph_encode_fast(texts).to_list() == expected


def test_graph_round_trip(tokenizer, sentences):
    ids = tokenizer.graph_encode(sentences)
    assert ids.dtype == tf.int32
    expected = [normalize(s) for s in sentences]
    for decode in (tokenizer.graph_decode, tokenizer.graph_decode_fast):
        assert [value.decode() for value in decode(ids.to_tensor(0)).numpy()] == expected


def test_graph_decode_is_cut_at_the_end(tokenizer):
    ids = tokenizer.encode("the library")
    batch = tf.constant([[2, *ids, 3, 5], [3] + [5] * (len(ids) + 2), [0] * (len(ids) + 3)], tf.int32)
    for decode in (tokenizer.graph_decode, tokenizer.graph_decode_fast):
        assert decode(batch).numpy().tolist() == [b"the library", b"", b""]
        assert decode(tf.zeros([2, 0], tf.int32)).numpy().tolist() == [b"", b""]


def test_ids_outside_the_vocabulary_are_errors_in_the_graph(tokenizer):
    for decode in (tokenizer.graph_decode, tokenizer.graph_decode_fast):
        for bad in (-1, VOCABULARY_SIZE):
            with pytest.raises((tf.errors.OutOfRangeError, tf.errors.InternalError)):
                decode(tf.constant([[5, bad]], tf.int32))


def test_first_use_inside_a_traced_function(tokenizer):
    fresh = SentencePieceTokenizer.from_bytes(tokenizer.model_bytes)

    @tf.function
    def there_and_back(strings):
        plain, fast = fresh.graph_encode(strings), fresh.graph_encode_fast(strings)
        return fresh.graph_decode(plain.to_tensor(0)), fresh.graph_decode_fast(fast.to_tensor(0))

    for strings in (["the library"], ["Où est", ""]):
        for result in there_and_back(tf.constant(strings)):
            assert [value.decode() for value in result.numpy()] == strings
    assert fresh.graph_encode(["the"]).to_list() == fresh.graph_encode_fast(["the"]).to_list() == [fresh.encode("the")]


def test_reseeding_does_not_lose_the_tokenizer(tokenizer):
    expected = [tokenizer.encode("the library")]
    for seed in (1, 2):
        assert tokenizer.graph_encode(["the library"]).to_list() == expected
        assert tokenizer.graph_decode(tf.constant(expected)).numpy().tolist() == [b"the library"]
        tf.random.set_seed(seed)


def test_two_tokenizers_do_not_share_a_model(tokenizer):
    other = SentencePieceTokenizer.train(SENTENCES, 120)
    for value in SENTENCES:
        assert tokenizer.graph_encode([value]).to_list() == [tokenizer.encode(value)]
        assert other.graph_encode([value]).to_list() == [other.encode(value)]


def test_a_saved_model_keeps_the_tokenizer(tokenizer, sentences, tmp_path):
    text = tf.TensorSpec([None], tf.string, name="text")
    ids = tf.TensorSpec([None, None], tf.int32, name="ids")
    encode = tf.function(lambda text: {"ids": tokenizer.graph_encode(text).to_tensor(0)}, input_signature=[text])
    decode = tf.function(lambda ids: {"text": tokenizer.graph_decode(ids)}, input_signature=[ids])
    tf.saved_model.save(tf.Module(), str(tmp_path / "saved"), signatures={"encode": encode, "decode": decode})
    (tmp_path / "text.txt").write_text("\n".join(sentences), encoding="utf-8")
    code = f"""
        import pathlib, tensorflow as tf, tensorflow_text
        folder = pathlib.Path({str(tmp_path)!r})
        signatures = tf.saved_model.load(str(folder / "saved")).signatures
        lines = (folder / "text.txt").read_text(encoding="utf-8").split("\\n")
        ids = signatures["encode"](text=tf.constant(lines))["ids"]
        (folder / "ids.txt").write_text(str(ids.numpy().tolist()))
        (folder / "back.txt").write_bytes(b"\\n".join(signatures["decode"](ids=ids)["text"].numpy()))
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, timeout=300)
    assert (tmp_path / "ids.txt").read_text() == str(tokenizer.graph_encode(sentences).to_tensor(0).numpy().tolist())
    assert (tmp_path / "back.txt").read_text(encoding="utf-8").split("\n") == [normalize(s) for s in sentences]


def lite_runner(function, folder):
    interpreter = pytest.importorskip("ai_edge_litert.interpreter")
    module = tf.Module()
    module.function = function
    tf.saved_model.save(module, str(folder), signatures={"serving_default": function})
    converter = tf.lite.TFLiteConverter.from_saved_model(str(folder))
    converter.allow_custom_ops = True
    return interpreter.InterpreterWithCustomOps(
        model_content=converter.convert(), custom_op_registerers=tensorflow_text.tflite_registrar.SELECT_TFTEXT_OPS
    ).get_signature_runner("serving_default")


def test_lite_rt_gives_the_same_ids_and_texts(tokenizer, tmp_path):
    text = tf.TensorSpec([1], tf.string, name="text")
    ids = tf.TensorSpec([1, None], tf.int32, name="ids")
    encode = lite_runner(
        tf.function(
            lambda text: {"ids": tokenizer.graph_encode_fast(text).flat_values[tf.newaxis]}, input_signature=[text]
        ),
        tmp_path / "encode",
    )
    decode = lite_runner(
        tf.function(lambda ids: {"text": tokenizer.graph_decode_fast(ids)}, input_signature=[ids]), tmp_path / "decode"
    )
    for value in [*SENTENCES, *ODD, "", "cafe\u0301 <s>\u2581\u200b a\x00b", "漢字 " * 500]:
        expected = tokenizer.encode(value)
        assert encode(text=np.array([value.encode()], object))["ids"].tolist() == [expected], repr(value)
        result = decode(ids=np.array([[2, *expected, 3, 5, 0]], np.int32))["text"][0].decode()
        assert " ".join(result.split()) == tokenizer.decode(expected), repr(value)


def test_without_tensorflow_text_the_error_says_what_to_install(tokenizer, monkeypatch):
    fresh = SentencePieceTokenizer.from_bytes(tokenizer.model_bytes)
    real_import = builtins.__import__

    def no_tensorflow_text(name, *args, **kwargs):
        if name == "tensorflow_text":
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", no_tensorflow_text)
    for call in (lambda: fresh.graph_encode(["a"]), fresh.fast, lambda: fresh.graph_decode_fast([[5]])):
        with pytest.raises(ImportError, match=r"pip install tensorflow-text.*everything but text signatures works"):
            call()
    assert fresh.decode(fresh.encode("the library")) == "the library"

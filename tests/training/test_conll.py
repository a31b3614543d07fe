from __future__ import annotations

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_attention.training.conll import read_conll
from keras_attention.training.readers import BadLines, DataError, Limits
from tests.shared_data import shared_data

SENTENCES = [
    {"words": ["Empire", "State", "#1", "#"], "tags": ["B-loc", "I-loc", "O", "O"]},
    {"words": ["Pretty\u00a0bad", "."], "tags": ["O", "O"]},
]
THREE = "1\tIt\tPRON\n2-3\tisn't\t_\n2\tis\tAUX\n2.1\tthere\tADV\n3\tn't\tPART\n"


def write(path, data):
    data = data.encode() if isinstance(data, str) else data
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def columns(sentences, separator="\t"):
    blocks = (
        "".join(f"{word}{separator}{tag}\n" for word, tag in zip(*one.values(), strict=True)) for one in sentences
    )
    return "\n".join(blocks)


@pytest.mark.parametrize("name", ["a.conll", "a.conll.gz"])
@pytest.mark.parametrize("separator", ["\t", " ", "   "])
def test_sentences_are_read(tmp_path, name, separator):
    path = write(tmp_path / name, columns(SENTENCES, separator))
    assert list(read_conll(path, separator=separator[0])) == SENTENCES


def test_files_follow_each_other_and_a_sentence_ends_with_its_file(tmp_path):
    files = [write(tmp_path / f"{at}.conll", columns([one]).strip("\n")) for at, one in enumerate(SENTENCES)]
    assert list(read_conll(files)) == SENTENCES


@pytest.mark.parametrize(
    "blank", ["\n\n\n", "\t\n", " \t \n", "\r\n", "# text = A b\n\n", "\n# sent_id = 3\n#\u00a0O\tO\n"]
)
def test_blank_lines_and_comments(tmp_path, blank):
    text = "\ufeff# newdoc\r\n\n" + columns(SENTENCES[:1]) + blank + columns(SENTENCES[1:]) + "\n\n"
    read = list(read_conll(write(tmp_path / "a.conll", text)))
    assert (read[0], len(read)) == (SENTENCES[0], 2)
    assert read[1]["words"][-2:] == SENTENCES[1]["words"]


def test_a_comment_alone_does_not_end_a_sentence(tmp_path):
    path = write(tmp_path / "a.conll", "A\tO\n# in between\nB\tO\n")
    assert [one["words"] for one in read_conll(path)] == [["A", "B"]]


def test_with_spaces_a_hash_is_a_word(tmp_path):
    path = write(tmp_path / "a.conll", "# # B-NP\n5 CD I-NP\n")
    wanted = {"words": 0, "chunk": 2}
    assert list(read_conll(path, columns=wanted, separator=" ")) == [{"words": ["#", "5"], "chunk": ["B-NP", "I-NP"]}]


def test_words_of_several_tokens_and_empty_nodes_are_left_out(tmp_path):
    path = write(tmp_path / "a.conllu", f"# sent_id = 1\n{THREE}\n1-2\tonly\t_\n\n1\tYes\tINTJ\n")
    read = list(read_conll(path, columns={"words": 1, "upos": 2}, id_column=0))
    assert read == [
        {"words": ["It", "is", "n't"], "upos": ["PRON", "AUX", "PART"]},
        {"words": ["Yes"], "upos": ["INTJ"]},
    ]


BAD = [
    ("B", r"column 1 \('tags'\) is missing: 1 column\(s\) in 'B'\. Expected at least 2"),
    ("#B", r"column 1 \('tags'\) is missing"),
    ("B\t", r"column 1 \('tags'\) is empty"),
    ("\tO", r"column 0 \('words'\) is empty"),
    ("B O", r"column 1 \('tags'\) is missing.*other columns or separator"),
    (b"caf\xe9\tO", r"invalid UTF-8 at byte 4 of the line \(0xe9\)"),
    ("x" * 999 + "\tO", "longer than 500 bytes"),
]


@pytest.mark.parametrize("name", ["a.conll", "a.conll.gz"])
@pytest.mark.parametrize(("bad", "message"), BAD)
def test_a_bad_line_is_named_or_its_sentence_skipped(tmp_path, name, bad, message):
    bad = bad.encode() if isinstance(bad, str) else bad
    path = write(tmp_path / name, b"# one\nA\tO\n\nA\tO\n" + bad + b"\nC\tO\nD\n\nE\tO\n")
    sentences = read_conll(path, limits=Limits(line_bytes=500))
    assert next(sentences)["words"] == ["A"]
    with pytest.raises(DataError, match=f"{path}:5: .*{message}"):
        next(sentences)
    bad_lines = BadLines()
    kept = read_conll(path, skip_bad=True, bad_lines=bad_lines, limits=Limits(line_bytes=500))
    assert [one["words"] for one in kept] == [["A"], ["E"]]
    assert bad_lines.count == 1
    assert bad_lines.messages[0].startswith(f"{path}:5: ")


def test_a_bad_id_is_named(tmp_path):
    path = write(tmp_path / "a.conllu", THREE + "x\ty\tz\n")
    with pytest.raises(DataError, match=f"{path}:6: the id is 'x'. Expected a number, or such as 3-4"):
        list(read_conll(path, columns={"words": 1}, id_column=0))


def test_a_gz_file_that_was_cut_short_is_named_and_nothing_before_is_lost(tmp_path):
    text = "".join(f"word{number * 7919 % 99991}\tO\n{number * 104729 % 99991}\tO\n\n" for number in range(20000))
    whole = gzip.compress(text.encode())
    path = tmp_path / "a.conll.gz"
    path.write_bytes(whole[: len(whole) // 2])
    for skip_bad in (False, True):
        read = []
        with pytest.raises(DataError, match=rf"{path}:\d+: the gzip data is damaged, cut short"):
            for sentence in read_conll(path, skip_bad=skip_bad):
                read.append(sentence["words"][0])
        assert 5000 < len(read) < 15000
        assert read == [f"word{number * 7919 % 99991}" for number in range(len(read))]


def test_what_is_wrong_with_a_file_is_told_at_the_call(tmp_path):
    with pytest.raises(DataError, match="missing.conll: no such file"):
        read_conll(tmp_path / "missing.conll")
    with pytest.raises(DataError, match="this is a folder"):
        read_conll([tmp_path])
    with pytest.raises(DataError, match="the file is empty"):
        read_conll(write(tmp_path / "a.conll", ""))
    with pytest.raises(DataError, match=r"a\.conll: there is no sentence in it"):
        list(read_conll(write(tmp_path / "a.conll", "# only a comment\n\n")))


def test_a_file_without_blank_lines_is_not_collected_whole(tmp_path):
    path = write(tmp_path / "a.conll", "a\tO\n" * 100_001)
    with pytest.raises(DataError, match=f"{path}:100001: a sentence of more than 100000 words"):
        next(read_conll(path))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"separator": ","}, "separator"),
        ({"columns": {}}, "must map names to columns"),
        ({"columns": {"words": 0, "tags": -1}}, r"counted from 0\. Received \{'words': 0, 'tags': -1\}"),
        ({"id_column": -1}, "id -1"),
    ],
)
def test_bad_options_are_refused(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        read_conll(write(tmp_path / "a.conll", "A\tO\n"), **options)
    with pytest.raises(ValueError, match="at least one path"):
        read_conll([])


cell = st.text(st.characters(exclude_characters="\t\n\r", exclude_categories=["Cs"]), min_size=1, max_size=6).filter(
    lambda one: one.strip() and not one.startswith("\ufeff")
)


@given(st.lists(st.lists(st.tuples(cell, cell), min_size=1, max_size=4), min_size=1, max_size=4), st.booleans())
def test_any_text_comes_back_as_it_was(tmp_path_factory, sentences, packed):
    path = tmp_path_factory.mktemp("conll") / ("a.conll.gz" if packed else "a.conll")
    text = "\n".join("".join(f"{word}\t{tag}\n" for word, tag in sentence) for sentence in sentences)
    read = list(read_conll(write(path, text)))
    assert read == [dict(zip(("words", "tags"), map(list, zip(*one, strict=True)), strict=True)) for one in sentences]


def counts(path, **options):
    sentences = list(read_conll(path, **options))
    return len(sentences), sum(len(one["words"]) for one in sentences)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("wnut17train.conll.gz", (3394, 62730)),
        ("emerging.dev.conll", (1009, 15733)),
        ("emerging.test.annotated", (1287, 23394)),
    ],
)
def test_wnut17_is_read_whole(name, expected):
    path = shared_data(f"wnut17-ner/{name}")
    assert counts(path) == expected
    kinds = {tag[2:] for one in read_conll(path) for tag in one["tags"]} - {""}
    assert kinds == {"person", "location", "group", "corporation", "creative-work", "product"}


@pytest.mark.parametrize(("part", "expected"), [("dev", (2001, 25147)), ("test", (2077, 25094))])
def test_the_english_web_treebank_is_read_whole(part, expected):
    path = shared_data(f"ud-english-ewt/en_ewt-ud-{part}.conllu.gz")
    assert counts(path, columns={"words": 1, "upos": 3}, id_column=0) == expected
    assert len({tag for one in read_conll(path, columns={"upos": 3}, id_column=0) for tag in one["upos"]}) == 17


def test_the_chunks_of_conll2000_are_read_whole():
    path = shared_data("conll2000-chunking/test.txt.gz")
    assert counts(path, columns={"words": 0, "chunk": 2}, separator=" ")[0] == 2012

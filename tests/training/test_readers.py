from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from keras_attention.training.readers import BadLines, DataError, Limits, read_examples, read_lines
from tests.shared_data import shared_data

COLUMNS = ("source", "target")
ROWS = [{"source": "Go.", "target": "Va !"}, {"source": "Hi.", "target": "Salut\u202f!"}]


def write(path: Path, data: bytes | str) -> Path:
    data = data.encode() if isinstance(data, str) else data
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def tsv(rows) -> str:
    return "".join("\t".join(row.values()) + "\n" for row in rows)


def jsonl(rows) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize(("name", "text"), [("a.tsv", tsv), ("a.txt", tsv), ("a.jsonl", jsonl), ("a.ndjson", jsonl)])
def test_one_file_is_read_by_its_suffix(tmp_path, name, text, suffix):
    assert list(read_examples(write(tmp_path / (name + suffix), text(ROWS)), columns=COLUMNS)) == ROWS


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_parallel_files_are_read_side_by_side(tmp_path, suffix):
    files = [write(tmp_path / f"t.{name}{suffix}", "\n".join(row[name] for row in ROWS)) for name in COLUMNS]
    assert list(read_examples(files, columns=COLUMNS)) == ROWS
    assert list(read_examples(files, columns=COLUMNS, format="parallel")) == ROWS


def test_several_files_follow_each_other_and_may_differ_in_format(tmp_path):
    files = [write(tmp_path / "a.tsv", tsv(ROWS)), write(tmp_path / "b.jsonl.gz", jsonl(ROWS[::-1]))]
    assert list(read_examples(files, columns=COLUMNS)) == ROWS + ROWS[::-1]


def test_format_wins_over_the_suffix(tmp_path):
    assert list(read_examples(write(tmp_path / "data.en-fr", tsv(ROWS)), columns=COLUMNS, format="tsv")) == ROWS


def test_a_byte_order_mark_and_crlf_are_not_part_of_the_text(tmp_path):
    path = write(tmp_path / "a.tsv", "\ufeffGo.\tVa !\r\nHi.\tSalut\u202f!\r\n")
    assert list(read_examples(path, columns=COLUMNS)) == ROWS


def test_lines_end_at_the_line_feed_alone(tmp_path):
    odd = "a\u2028b\u0085c\x0bd\x1ce\rf"
    assert list(read_examples(write(tmp_path / "a.tsv", f"{odd}\tx\n"), columns=COLUMNS)) == [
        {"source": odd, "target": "x"}
    ]


def test_keys_beyond_the_columns_are_left_out(tmp_path):
    path = write(tmp_path / "a.jsonl", jsonl([{"id": 7, **ROWS[0]}]))
    assert list(read_examples(path, columns=COLUMNS)) == ROWS[:1]


BAD_TSV = [
    ("no tab", "a tab is missing: 1 column.*'no tab'.*Expected 2.*source, target"),
    ("a\tb\tc", "too many tabs: 3 column"),
    ("\tb", "'source' is empty"),
    ("a\t \u00a0", "'target' is empty"),
    ("", "a tab is missing"),
    (b"a\tcaf\xe9", r"invalid UTF-8 at byte 6 of the line \(0xe9\)"),
    ("x" * 2001 + "\ty", "longer than 2000 bytes"),
]
BAD_JSONL = [
    ('{"source": "a", "target": ', "broken JSON"),
    ("[" * 100_0, "broken JSON"),
    ('["a", "b"]', "Expected an object with the keys source, target"),
    ('{"source": "a"}', "the key 'target' is missing"),
    ('{"source": "a", "target": 3}', "'target' is 3. Expected a string"),
    ('{"source": "a", "target": null}', "'target' is null"),
    ('{"source": " ", "target": "b"}', "'source' is empty"),
    ('{"source": "a", "target": "\\ud800"}', "surrogate"),
]
LIMITS = Limits(line_bytes=2000)


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize(
    ("name", "bad", "message"),
    [("a.tsv", *case) for case in BAD_TSV] + [("a.jsonl", *case) for case in BAD_JSONL],
)
def test_a_bad_line_is_named_or_skipped(tmp_path, name, bad, message, suffix):
    good = (tsv if "tsv" in name else jsonl)(ROWS).encode().split(b"\n")
    bad = bad.encode() if isinstance(bad, str) else bad
    path = write(tmp_path / (name + suffix), b"\n".join([good[0], bad, good[1]]))
    examples = read_examples(path, columns=COLUMNS, limits=LIMITS)
    assert next(examples) == ROWS[0]
    with pytest.raises(DataError, match=f"{path}:2: .*{message}"):
        next(examples)
    bad_lines = BadLines()
    skipped = read_examples(path, columns=COLUMNS, skip_bad=True, bad_lines=bad_lines, limits=LIMITS)
    assert list(skipped) == ROWS
    assert bad_lines.count == 1
    assert bad_lines.messages[0].startswith(f"{path}:2: ")


def test_only_the_first_messages_are_kept(tmp_path):
    bad_lines = BadLines(keep=2)
    path = write(tmp_path / "a.tsv", "x\n" * 7 + "a\tb\n")
    examples = list(read_examples(path, columns=COLUMNS, skip_bad=True, bad_lines=bad_lines))
    assert (len(examples), bad_lines.count, len(bad_lines.messages)) == (1, 7, 2)


@pytest.mark.parametrize("bad", ["", b"\xff", "y" * 2001])
def test_a_bad_line_of_a_parallel_file_takes_its_row_along(tmp_path, bad):
    bad = bad.encode() if isinstance(bad, str) else bad
    files = [write(tmp_path / "t.en", "a\nb\nc\n"), write(tmp_path / "t.fr", b"x\n" + bad + b"\nz\n")]
    with pytest.raises(DataError, match=r"t\.fr:2: "):
        list(read_examples(files, columns=COLUMNS, limits=LIMITS))
    bad_lines = BadLines()
    examples = list(read_examples(files, columns=COLUMNS, skip_bad=True, bad_lines=bad_lines, limits=LIMITS))
    assert [example["source"] for example in examples] == ["a", "c"]
    assert bad_lines.count == 1


@pytest.mark.parametrize("skip_bad", [False, True])
def test_parallel_files_of_unequal_length_are_an_error_with_both_counts(tmp_path, skip_bad):
    files = [write(tmp_path / "t.en", "a\nb\n"), write(tmp_path / "t.fr", "x\ny\nz\nw\n")]
    with pytest.raises(DataError, match=r"t\.en has 2, .*t\.fr has 4"):
        list(read_examples(files, columns=COLUMNS, skip_bad=skip_bad))


def test_missing_folder_and_empty_files_are_refused_at_the_call(tmp_path):
    for path, message in (
        (tmp_path / "none.tsv", "no such file"),
        (tmp_path, "this is a folder"),
        (write(tmp_path / "empty.tsv", ""), "the file is empty"),
    ):
        with pytest.raises(DataError, match=message):
            read_examples(path, columns=COLUMNS, format="tsv", skip_bad=True)
        with pytest.raises(DataError, match=message):
            read_lines(path)


def test_a_gzip_file_without_lines_is_refused(tmp_path):
    with pytest.raises(DataError, match="no line in it"):
        list(read_examples(write(tmp_path / "a.tsv.gz", ""), columns=COLUMNS))


def test_damaged_gzip_files_are_refused(tmp_path):
    whole = gzip.compress("".join(f"{n * n}\t{n}\n" for n in range(50_000)).encode())
    cut = tmp_path / "cut.tsv.gz"
    cut.write_bytes(whole[: len(whole) // 2])
    flipped = tmp_path / "flipped.tsv.gz"
    flipped.write_bytes(whole[:5000] + bytes(byte ^ 0xFF for byte in whole[5000:5100]) + whole[5100:])
    plain = tmp_path / "plain.tsv.gz"
    plain.write_bytes(b"a\tb\n")
    for path in (cut, flipped, plain):
        with pytest.raises(DataError, match="damaged, cut short, or not gzip"):
            list(read_examples(path, columns=COLUMNS, skip_bad=True))


def test_gzip_without_the_suffix_and_utf16_get_a_hint(tmp_path):
    hidden = tmp_path / "a.tsv"
    hidden.write_bytes(gzip.compress(b"a\tb\n"))
    with pytest.raises(DataError, match="looks like gzip"):
        list(read_examples(hidden, columns=COLUMNS))
    with pytest.raises(DataError, match="looks like UTF-16"):
        list(read_examples(write(tmp_path / "b.tsv", "a\tb\n".encode("utf-16")), columns=COLUMNS))


@pytest.mark.parametrize("unit", [b"a\tb\n", b"\0"])
def test_a_gzip_bomb_stops_early(tmp_path, unit):
    path = tmp_path / "bomb.tsv.gz"
    path.write_bytes(gzip.compress(unit * (8_000_000 // len(unit))))
    limits = Limits(gz_free_bytes=1_000_000, line_bytes=100_000)
    seen = 0
    with pytest.raises(DataError, match="more than 100 to 1"):
        for _ in read_examples(path, columns=COLUMNS, skip_bad=True, limits=limits):
            seen += 1
    assert seen < 1_000_000


def test_a_line_of_exactly_the_limit_is_read_and_one_byte_more_is_not(tmp_path):
    limits = Limits(line_bytes=10)
    for end in ("", "\n", "\r\n"):
        assert list(read_lines(write(tmp_path / "a", "x" * 10 + end), limits=limits)) == ["x" * 10]
        with pytest.raises(DataError, match="longer than 10 bytes"):
            list(read_lines(write(tmp_path / "a", "x" * 11 + end), limits=limits))
    path = write(tmp_path / "a", "x" * 57 + "\n" + "y" * 10 + "\n" + "z" * 23)
    assert list(read_lines(path, skip_bad=True, limits=limits)) == ["y" * 10]


def test_lines_keep_blank_ones_and_their_number(tmp_path):
    assert list(read_lines(write(tmp_path / "a.gz", "one\n\n three \n"))) == ["one", "", " three "]


def test_a_dash_is_standard_input(monkeypatch):
    class Stdin:
        buffer = io.BytesIO("Où ?\nIci.\n".encode())

    monkeypatch.setattr(sys, "stdin", Stdin)
    assert list(read_lines("-")) == ["Où ?", "Ici."]
    assert not Stdin.buffer.closed


@pytest.mark.parametrize(
    ("paths", "arguments", "message"),
    [
        (["a.tsv"], {"columns": ()}, "at least one path and distinct column names"),
        ([], {"columns": COLUMNS}, "at least one path"),
        (["a.tsv"], {"columns": ("x", "x")}, "distinct column names"),
        (
            ["a.tsv"],
            {"columns": COLUMNS, "format": "csv"},
            "Unknown format 'csv'. Expected one of tsv, jsonl, parallel",
        ),
        (["a.en"], {"columns": COLUMNS, "format": "parallel"}, r"one file for each of the columns.*Received 1 file"),
        (["a.bin"], {"columns": COLUMNS}, "Cannot tell the format"),
        (["a.tsv", "b.en"], {"columns": ("x", "y", "z")}, "Cannot tell the format"),
    ],
)
def test_misuse_is_refused_at_the_call(paths, arguments, message):
    with pytest.raises(ValueError, match=message):
        read_examples(paths, **arguments)


def test_reading_is_lazy(tmp_path):
    examples = read_examples(write(tmp_path / "a.tsv", "a\tb\nbroken\n"), columns=COLUMNS)
    assert next(examples) == {"source": "a", "target": "b"}


def test_the_readers_do_not_import_tensorflow():
    code = (
        "import sys\n"
        "from keras_attention.training import metrics, readers, splits\n"
        "sys.exit('tensorflow' in sys.modules or 'sacrebleu' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).resolve().parents[2]).returncode == 0


def test_the_real_pairs_are_read_whole():
    examples = read_examples(shared_data("tatoeba-anki/fra.txt.gz"), columns=COLUMNS)
    assert sum(1 for _ in examples) == 142_787

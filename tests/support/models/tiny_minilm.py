"""Real ONNX model and tokenizer of a few kilobytes, in the layout of Chroma's MiniLM."""

import io
import json
import struct
import tarfile

import numpy as np

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "foo", "bar", "baz", "cat", "dog", "purrs"]
WORDS = np.random.default_rng(7).standard_normal((len(VOCABULARY), 384)).astype(np.float32)
TYPES = np.random.default_rng(8).standard_normal((2, 384)).astype(np.float32)


def expected(text):
    """Return the expected vector: the mean over [CLS] words [SEP], scaled to length 1."""
    words = ["[CLS]", *text.lower().split(), "[SEP]"]
    tokens = [VOCABULARY.index(word if word in VOCABULARY else "[UNK]") for word in words]
    mean = (WORDS[tokens] + TYPES[0]).mean(axis=0)
    return mean / np.linalg.norm(mean)


def files():
    """Return the files that Chroma looks for, by name."""
    empty = b"{}"
    return {
        "model.onnx": onnx_model(),
        "tokenizer.json": tokenizer(),
        "config.json": empty,
        "special_tokens_map.json": empty,
        "tokenizer_config.json": empty,
        "vocab.txt": "\n".join(VOCABULARY).encode(),
    }


def put_into(folder):
    folder.mkdir(parents=True)
    for name, content in files().items():
        (folder / name).write_bytes(content)


def archive():
    """Return the files as the archive that Chroma downloads."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in files().items():
            entry = tarfile.TarInfo(f"onnx/{name}")
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def tokenizer():
    ids = {word: place for place, word in enumerate(VOCABULARY)}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    special = [{"id": ids[word], "content": word, **flags} for word in VOCABULARY[:4]]
    frame = [{"SpecialToken": {"id": word, "type_id": 0}} for word in ("[CLS]", "[SEP]")]
    between = {"Sequence": {"id": "A", "type_id": 0}}
    return json.dumps(
        {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": special,
            "normalizer": {"type": "Lowercase"},
            "pre_tokenizer": {"type": "WhitespaceSplit"},
            "post_processor": {
                "type": "TemplateProcessing",
                "single": [frame[0], between, frame[1]],
                "pair": [frame[0], between, frame[1], {"Sequence": {"id": "B", "type_id": 1}}],
                "special_tokens": {
                    word: {"id": word, "ids": [ids[word]], "tokens": [word]} for word in VOCABULARY[2:4]
                },
            },
            "decoder": None,
            "model": {"type": "WordLevel", "vocab": ids, "unk_token": "[UNK]"},
        }
    ).encode()


def onnx_model():
    """Return Gather(WORDS, input_ids) + Gather(TYPES, token_type_ids) as an ONNX model, encoded by hand.

    The numbers are the fields of onnx.proto3: ModelProto, GraphProto, NodeProto, TensorProto, ValueInfoProto.
    """
    inputs = [tensor_info(name, 7) for name in ("input_ids", "attention_mask", "token_type_ids")]
    graph = (
        field(1, node("Gather", ["words", "input_ids"], "a"))
        + field(1, node("Gather", ["types", "token_type_ids"], "b"))
        + field(1, node("Add", ["a", "b"], "last_hidden_state"))
        + field(2, b"tiny")
        + field(5, tensor("words", WORDS))
        + field(5, tensor("types", TYPES))
        + b"".join(field(11, info) for info in inputs)
        + field(12, tensor_info("last_hidden_state", 1, 384))
    )
    return field(1, 8) + field(7, graph) + field(8, field(1, b"") + field(2, 13))


def node(kind, inputs, output):
    return b"".join(field(1, name.encode()) for name in inputs) + field(2, output.encode()) + field(4, kind.encode())


def tensor(name, values):
    dimensions = b"".join(field(1, size) for size in values.shape)
    return dimensions + field(2, 1) + field(8, name.encode()) + field(9, struct.pack(f"<{values.size}f", *values.flat))


def tensor_info(name, kind, *last):
    sizes = [field(1, field(2, b"texts")), field(1, field(2, b"tokens")), *(field(1, field(1, size)) for size in last)]
    return field(1, name.encode()) + field(2, field(1, field(1, kind) + field(2, b"".join(sizes))))


def field(number, value):
    """Return one encoded field of a message: a varint for an int, length and content for bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(value):
    low, high = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + varint(high) if high else bytes([low])

"""Real ONNX model and tokenizer of a few kilobytes, in the layout of Chroma's MiniLM.

``tiny_minilm.onnx`` computes ``Gather(WORDS, input_ids) + Gather(TYPES, token_type_ids)`` with the values below.
"""

import io
import tarfile
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import WhitespaceSplit
from tokenizers.processors import TemplateProcessing

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
    return {
        "model.onnx": Path(__file__).with_suffix(".onnx").read_bytes(),
        "tokenizer.json": tokenizer().to_str().encode(),
        "vocab.txt": "\n".join(VOCABULARY).encode(),
        **dict.fromkeys(("config.json", "special_tokens_map.json", "tokenizer_config.json"), b"{}"),
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
    model = Tokenizer(WordLevel({word: place for place, word in enumerate(VOCABULARY)}, unk_token="[UNK]"))
    model.add_special_tokens(VOCABULARY[:4])
    model.normalizer = Lowercase()
    model.pre_tokenizer = WhitespaceSplit()
    frame = [("[CLS]", VOCABULARY.index("[CLS]")), ("[SEP]", VOCABULARY.index("[SEP]"))]
    model.post_processor = TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", frame)
    return model

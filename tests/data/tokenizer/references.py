"""Independent tokenizers with a GGUF file's vocabulary: the `tokenizers` and `sentencepiece` packages.

Both take text only. Bytes that are not UTF-8 are passed as private-use characters (neither letter, number nor
space, unchanged by NFC, in no vocabulary here) where text is cut, and are themselves again where it is merged.
"""
import re
import unicodedata

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
STAND_IN = 0xE000

# The published settings: GPT-2 and SmolLM use the ByteLevel component's own expression.
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace('{1,3}', '')


def byte_level(use_regex):
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)


def split(expression):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(expression), 'isolated'), byte_level(False)])


PRE_TOKENIZERS = {
    'gpt-2': byte_level(True),
    'smollm': pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level(True)]),
    'llama-bpe': split(LLAMA3),
    'qwen2': split(QWEN2),
}


def alphabet():
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in keep]
    return {**{byte: chr(byte) for byte in keep}, **{byte: chr(256 + i) for i, byte in enumerate(rest)}}


BYTE_TO_CHARACTER = alphabet()
CHARACTER_TO_BYTE = {character: byte for byte, character in BYTE_TO_CHARACTER.items()}


def with_stand_ins(text):
    return ''.join(chr(STAND_IN + ord(c) - 0xDC00) if 0xDC80 <= ord(c) <= 0xDCFF else c
                   for c in text.decode(errors='surrogateescape'))


class Special:
    """Cuts special tokens out of text: the leftmost, of those the longest."""

    def __init__(self, tokens, kinds):
        self.ids = {t: i for i, (t, k) in enumerate(zip(tokens, kinds)) if k in (UNKNOWN, CONTROL, USER_DEFINED)}
        longest_first = sorted(self.ids, key=len, reverse=True)
        self.expression = re.compile('(' + '|'.join(map(re.escape, longest_first)) + ')')

    def cut(self, text):
        return [part for part in self.expression.split(text) if part]


class ByteLevelBpe:
    def __init__(self, tokens, kinds, merges, pre):
        self.special = Special(tokens, kinds)
        self.tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)},
                                              merges=[tuple(merge.split(' ')) for merge in merges],
                                              ignore_merges=pre == 'llama-bpe'))
        self.tokenizer.pre_tokenizer = PRE_TOKENIZERS[pre]
        self.tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in self.special.ids])
        # Qwen2's normaliser. The package's own NFC knows fewer characters than its expressions, so Python's.
        self.normalise = (lambda t: unicodedata.normalize('NFC', t)) if pre == 'qwen2' else (lambda t: t)

    def encode(self, text):
        stand_ins = with_stand_ins(text)
        parts = self.special.cut(stand_ins)
        if stand_ins.encode() == text:
            return self.tokenizer.encode(''.join(map(self.normalise, parts)), add_special_tokens=False).ids
        ids = []
        for part in parts:
            if part in self.special.ids:
                ids.append(self.special.ids[part])
                continue
            for piece, _ in self.tokenizer.pre_tokenizer.pre_tokenize_str(self.normalise(part)):
                ids += [token.id for token in self.tokenizer.model.tokenize(self.restored(piece))]
        return ids

    @staticmethod
    def restored(piece):
        characters = bytes(CHARACTER_TO_BYTE[c] for c in piece).decode()
        raw = b''.join(bytes([ord(c) - STAND_IN]) if STAND_IN + 0x80 <= ord(c) <= STAND_IN + 0xFF else c.encode()
                       for c in characters)
        return ''.join(BYTE_TO_CHARACTER[byte] for byte in raw)


class SentencePieceBpe:
    def __init__(self, tokens, kinds, scores):
        model = sentencepiece_model_pb2.ModelProto()
        for token, kind, score in zip(tokens, kinds, scores):
            model.pieces.add(piece=token, score=score, type=kind)
        model.trainer_spec.model_type = sentencepiece_model_pb2.TrainerSpec.BPE
        model.trainer_spec.byte_fallback = True
        model.trainer_spec.vocab_size = len(tokens)
        model.normalizer_spec.name = 'identity'
        model.normalizer_spec.add_dummy_prefix = True
        model.normalizer_spec.remove_extra_whitespaces = False
        model.normalizer_spec.escape_whitespaces = True
        self.processor = sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString())
        self.special = Special(tokens, kinds)
        self.bytes = {i: int(token[3:5], 16) for i, (token, kind) in enumerate(zip(tokens, kinds)) if kind == BYTE}
        self.byte_ids = {byte: i for i, byte in self.bytes.items()}

    def encode(self, text):
        ids = []
        stand_ins = with_stand_ins(text)
        for part in self.special.cut(stand_ins):
            if part in self.special.ids:
                ids.append(self.special.ids[part])
                continue
            got = self.processor.encode(part)
            at = 0
            while at < len(got):  # a stand-in has become its three bytes: EE, 80 + b / 64, 80 + b % 64
                second = self.bytes.get(got[at + 1]) if self.bytes.get(got[at]) == 0xEE else None
                if stand_ins.encode() != text and second in (0x82, 0x83):
                    ids.append(self.byte_ids[(second & 3) << 6 | self.bytes[got[at + 2]] & 63])
                    at += 3
                else:
                    ids.append(got[at])
                    at += 1
        return ids


class HuggingFaceSentencePiece:
    """The same vocabulary as `tokenizers` runs it: merges listed from the scores, byte fallback."""

    def __init__(self, tokens, kinds, scores):
        self.special = Special(tokens, kinds)
        ids = {token: i for i, token in enumerate(tokens)}
        normal = {token for token, kind in zip(tokens, kinds) if kind == NORMAL}
        merges = [(-scores[ids[t]], t[:at], t[at:]) for t in normal for at in range(1, len(t))
                  if t[:at] in normal and t[at:] in normal]
        self.tokenizer = Tokenizer(models.BPE(vocab=ids, merges=[(a, b) for _, a, b in sorted(merges)],
                                              unk_token='<unk>', fuse_unk=True, byte_fallback=True))

    def encode(self, text):
        ids = []
        for part in self.special.cut(text.decode()):
            if part in self.special.ids:
                ids.append(self.special.ids[part])
            else:
                text = '\u2581' + part.replace(' ', '\u2581')
                ids += [token.id for token in self.tokenizer.model.tokenize(text)]
        return ids

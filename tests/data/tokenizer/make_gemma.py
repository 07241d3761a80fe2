"""Trains a small SentencePiece model with the settings of Gemma (no space before a text, whitespace as it is, tokens
for runs of spaces and newlines that are cut out first) and writes its vocabulary as GGUF in two ways, with the ids that
the package `sentencepiece` gives texts; README.md says with which versions. Texts: those of hugging_face/texts.pairs.

usage: make_gemma.py [--out FOLDER]
"""
import argparse
import io
import pathlib
import random
import re

import gguf
import sentencepiece
from sentencepiece import sentencepiece_model_pb2

HERE = pathlib.Path(__file__).parent
SPACE = '\u2581'
USER_DEFINED = ['<unused0>', '\n', '\n\n', '\n\n\n', *(SPACE * n for n in range(2, 9)), '<table>', '</table>', '<start_of_turn>']


def train(texts):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=model, model_type='bpe', vocab_size=800, character_coverage=0.98, byte_fallback=True,
        add_dummy_prefix=False, remove_extra_whitespaces=False, normalization_rule_name='identity', split_digits=True,
        allow_whitespace_only_pieces=True, user_defined_symbols=USER_DEFINED, pad_id=0, eos_id=1, bos_id=2, unk_id=3,
        pad_piece='<pad>', bos_piece='<bos>', eos_piece='<eos>', minloglevel=2, num_threads=1)
    return model.getvalue()


def write_gguf(path, model, plain):
    """With types as the model has them; or, plain, as converters leave tokens that tokenizer_config.json lists."""
    writer = gguf.GGUFWriter(path, 'gemma2')
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    tokens, scores, types = [], [], []
    for piece in proto.pieces:
        user_defined = piece.type == gguf.TokenType.USER_DEFINED
        tokens.append((piece.piece.replace(SPACE, ' ') if plain and user_defined else piece.piece).encode())
        scores.append(-1000.0 if plain and user_defined else piece.score)
        types.append(piece.type)
    writer.add_tokenizer_model('llama')
    writer.add_token_list(tokens)
    writer.add_token_scores(scores)
    writer.add_token_types(types)
    writer.add_bos_token_id(2)
    writer.add_eos_token_id(1)
    writer.add_add_space_prefix(False)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def texts_of(path):
    for line in path.read_text().splitlines()[1:]:
        kind, escaped = line.split('\t')[:2]
        text = re.sub(rb'\\x(..)', lambda code: bytes([int(code[1], 16)]), escaped.encode())
        yield kind, text.decode()


def runs(seed=5):
    """Spaces and newlines in runs of all lengths, between words and at both ends."""
    rng = random.Random(seed)
    parts = ['the', 'a', '1', '12', '.', 'God', '\t', '\n', '\r\n', '<table>', 'unused0>', '\u3000', '\xa0']
    for _ in range(80):
        yield 'spaces', ''.join(rng.choice(parts) * rng.randrange(2) + ' ' * rng.randrange(20) * rng.randrange(2)
                                + '\n' * rng.randrange(6) * rng.randrange(2) for _ in range(rng.randrange(1, 7))) or ' '


def escaped(text):
    return ''.join(chr(byte) if 0x20 <= byte < 0x7F and byte != 0x5C else f'\\x{byte:02x}' for byte in text.encode())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--out', type=pathlib.Path, default=HERE / 'gemma')
    out = parser.parse_args().out
    out.mkdir(exist_ok=True)
    records = [record for record in texts_of(HERE / 'hugging_face' / 'texts.pairs') if record[0] != 'special']
    model = train([text for _, text in records])
    write_gguf(out / 'typed.gguf', model, plain=False)
    write_gguf(out / 'plain.gguf', model, plain=True)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    records += runs()
    with open(out / 'texts.pairs', 'w') as file:
        print('kind', 'text', 'ids', sep='\t', file=file)
        for kind, text in records:
            print(kind, escaped(text), ' '.join(map(str, processor.encode(text, add_bos=True))), sep='\t', file=file)
    print(len(records), 'texts', processor.vocab_size(), 'tokens')


main()

"""Trains small tokenizers of the kinds that folders hold and writes their tokenizer.json, with the ids that the package
`tokenizers` gives texts, special tokens added; README.md says with which version. Texts: those of small_bpe.pairs.

usage: make_hugging_face.py [--out FOLDER]
"""
import argparse
import json
import pathlib
import re

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import references

HERE = pathlib.Path(__file__).parent
BYTES = [f'<0x{byte:02X}>' for byte in range(256)]
SPACE = '\u2581'


def begin_with(token, tokenizer):
    return processors.TemplateProcessing(single=f'{token} $A', pair=f'{token} $A $B',
                                         special_tokens=[(token, tokenizer.token_to_id(token))])


def byte_level(texts, pre, normalizer=None, ignore_merges=False, bos=False):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = references.PRE_TOKENIZERS[pre]
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=420, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False,
        special_tokens=['<|endoftext|>', '<|im_start|>']))
    tokenizer.add_tokens([AddedToken('    ', normalized=False), AddedToken('<|im_', normalized=False)])
    tokenizer.decoder = decoders.ByteLevel()
    parts = [processors.ByteLevel(trim_offsets=False)]
    if bos:
        parts.append(begin_with('<|endoftext|>', tokenizer))
    tokenizer.post_processor = processors.Sequence(parts) if bos else parts[0]
    return tokenizer


def with_byte_fallback(texts, normalizer, pre_tokenizer):
    """As converters write SentencePiece models: special tokens, bytes, then what was learned."""
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, 'never', split=True)
    trained.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=160, limit_alphabet=60, show_progress=False))
    learned = json.loads(trained.to_str())['model']
    tokens = ['<unk>', '<s>', '</s>', *BYTES, *sorted(learned['vocab'], key=learned['vocab'].get)]
    # Runs of spaces are tokens in Llama 2 and Gemma.
    merges = [tuple(merge) for merge in learned['merges']] + [(SPACE, SPACE), (SPACE * 2, SPACE * 2)]
    tokens += [SPACE * 2, SPACE * 4]
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges,
                                     byte_fallback=True, fuse_unk=True, unk_token='<unk>'))
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in tokens[:3]])
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.post_processor = begin_with('<s>', tokenizer)
    return tokenizer


def tokenizers_of(texts):
    replace = normalizers.Replace(' ', SPACE)
    return {
        'gpt2': byte_level(texts, 'gpt-2'),
        'smollm': byte_level(texts, 'smollm'),
        'llama3': byte_level(texts, 'llama-bpe', ignore_merges=True, bos=True),
        'qwen2': byte_level(texts, 'qwen2', normalizers.NFC()),
        'llama2': with_byte_fallback(texts, normalizers.Sequence([normalizers.Prepend(SPACE), replace]), None),
        'mistral': with_byte_fallback(texts, None, pre_tokenizers.Metaspace(SPACE, 'first', split=False)),
        'always': with_byte_fallback(texts, None, pre_tokenizers.Metaspace(SPACE, 'always', split=False)),
        'gemma': with_byte_fallback(texts, replace, pre_tokenizers.Split(' ', 'merged_with_previous')),
    }


def texts_of(path):
    """(kind, text as escaped, text), of those that are UTF-8."""
    for line in path.read_text().splitlines()[1:]:
        kind, escaped = line.split('\t')[:2]
        text = re.sub(rb'\\x(..)', lambda code: bytes([int(code[1], 16)]), escaped.encode())
        if kind != 'broken':
            yield kind, escaped, text.decode()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--out', type=pathlib.Path, default=HERE / 'hugging_face')
    out = parser.parse_args().out
    records = list(texts_of(HERE / 'small_bpe.pairs'))
    columns = tokenizers_of([text for kind, _, text in records if kind != 'special'])
    chosen = [record for i, record in enumerate(records) if i % 2 == 0 and len(record[1]) < 200]
    chosen += [('special', text, text) for text in ('<s>a b</s> c', ' <s> a', '<|im_start|>x<|im_y    z', '<s>', ' ', '  a')]
    out.mkdir(exist_ok=True)
    for name, tokenizer in columns.items():
        (out / name).mkdir(exist_ok=True)
        tokenizer.save(str(out / name / 'tokenizer.json'), pretty=False)
    with open(out / 'texts.pairs', 'w') as file:
        print('kind', 'text', *columns, sep='\t', file=file)
        for kind, escaped, text in chosen:
            ids = [tokenizer.encode(text).ids for tokenizer in columns.values()]
            print(kind, escaped, *(' '.join(map(str, row)) for row in ids), sep='\t', file=file)
    print(len(chosen), 'texts', len(columns), 'tokenizers')


main()

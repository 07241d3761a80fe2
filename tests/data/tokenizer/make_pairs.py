"""Writes text-and-token-id pairs from independent tokenizers; README.md says which and how.

usage: make_pairs.py --smollm2 SmolLM2-135M-Instruct.Q4_1.gguf --stories stories260K.gguf [--out FOLDER] [--all]
"""
import argparse
import json
import pathlib
import random

from gguf import GGUFReader
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

import references
from corpus import corpus

HERE = pathlib.Path(__file__).parent
SPECIAL = [('<|endoftext|>', references.CONTROL), ('<|im_start|>', references.CONTROL),
           ('<|im_end|>', references.CONTROL), ('<|im_', references.USER_DEFINED), ('<unk>', references.UNKNOWN)]


def read_gguf(path):
    fields = GGUFReader(path).fields
    def texts(key):
        field = fields.get('tokenizer.ggml.' + key)
        return field and [bytes(field.parts[i]).decode() for i in field.data]
    def numbers(key):
        field = fields.get('tokenizer.ggml.' + key)
        return field and [field.parts[i][0].item() for i in field.data]
    return texts('tokens'), numbers('token_type'), texts('merges'), numbers('scores')


def train(records):
    """A small byte-level vocabulary; every ninth merge that nothing builds on is dropped, so that some
    tokens are reached only by looking up whole pieces."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = references.PRE_TOKENIZERS['llama-bpe']
    trainer = trainers.BpeTrainer(vocab_size=1500, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  special_tokens=[token for token, _ in SPECIAL], show_progress=False)
    kinds = 'english english english code code numbers cjk emoji marks contractions spaces arabic nfc'.split()
    tokenizer.train_from_iterator((text.decode() for kind in kinds for k, text in records if k == kind), trainer)
    model = json.loads(tokenizer.to_str())['model']
    tokens = sorted(model['vocab'], key=model['vocab'].get)
    merges = [tuple(merge) for merge in model['merges']]
    used = {part for merge in merges for part in merge}
    leaves = [merge for merge in merges if ''.join(merge) not in used]
    dropped = set(leaves[::9])
    special = dict(SPECIAL)
    return (tokens, [special.get(token, references.NORMAL) for token in tokens],
            [' '.join(merge) for merge in merges if merge not in dropped])


def sample(records, per_kind, longest):
    rng = random.Random(1)
    result = []
    for kind in dict.fromkeys(kind for kind, _ in records):
        fit = [text for k, text in records if k == kind and len(text) <= longest]
        result += [(kind, text) for text in rng.sample(fit, min(per_kind, len(fit)))]
    return result


def escaped(text):
    return ''.join(chr(b) if 0x20 <= b < 0x7F and b != 0x5C else f'\\x{b:02x}' for b in text)


def write_pairs(path, records, columns):
    with open(path, 'w') as out:
        print('kind', 'text', *columns, sep='\t', file=out)
        for kind, text in records:
            print(kind, escaped(text), *(' '.join(map(str, c.encode(text))) for c in columns.values()),
                  sep='\t', file=out)
    print(path, len(records), 'texts', len(columns), 'columns')


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--smollm2', required=True)
    parser.add_argument('--stories', required=True)
    parser.add_argument('--out', type=pathlib.Path, default=HERE)
    parser.add_argument('--all', action='store_true', help='the whole corpus, not a sample')
    arguments = parser.parse_args()
    records = corpus()
    small = train(records)
    chosen = records if arguments.all else sample(records, 9, 160)

    with open(arguments.out / 'small_bpe.tokens', 'w') as out:
        out.writelines(f'{kind}\t{token}\n' for token, kind in zip(*small[:2]))
    with open(arguments.out / 'small_bpe.merges', 'w') as out:
        out.writelines(merge + '\n' for merge in small[2])
    for name, (tokens, kinds, merges) in (('small_bpe', small), ('smollm2', read_gguf(arguments.smollm2)[:3])):
        write_pairs(arguments.out / f'{name}.pairs', chosen,
                    {pre: references.ByteLevelBpe(tokens, kinds, merges, pre) for pre in references.PRE_TOKENIZERS})

    tokens, kinds, _, scores = read_gguf(arguments.stories)
    sentencepiece = references.SentencePieceBpe(tokens, kinds, scores)
    second = references.HuggingFaceSentencePiece(tokens, kinds, scores)
    for kind, text in records:
        if kind != 'broken' and sentencepiece.encode(text) != second.encode(text):
            raise SystemExit(f'the two references differ on {text!r}')
    write_pairs(arguments.out / 'stories260K.pairs', chosen, {'sentencepiece': sentencepiece})


main()

"""Trains small vocabularies as GPT2Tokenizer keeps them (vocab.json and merges.txt, no tokenizer.json) and writes them
with the ids that GPT2Tokenizer of transformers gives texts, which are checked to be those of GPT2TokenizerFast;
README.md says with which versions. Texts: those of hugging_face/texts.pairs.

usage: make_gpt2_files.py [--out FOLDER]
"""
import argparse
import json
import pathlib
import re
import shutil

from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, GPT2Tokenizer

HERE = pathlib.Path(__file__).parent


def token(text):
    """As tokenizer_config.json of OPT writes one."""
    return {'content': text, 'single_word': False, 'lstrip': False, 'rstrip': False, 'normalized': True}


def train(folder, texts, first, config):
    """Tokens `first` have the lowest ids, whether or not they are special."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False, special_tokens=first))
    folder.mkdir(parents=True)
    tokenizer.model.save(str(folder))
    (folder / 'config.json').write_text(json.dumps(config) + '\n')


def make(out, texts):
    # GPT-2 without any word on special tokens: <|endoftext|> is the only one.
    train(out / 'gpt2', texts, ['<|endoftext|>'], {'model_type': 'gpt2', 'eos_token_id': 0})

    # OPT: what its folders say, special tokens in two files, </s> before every text. <s> is none.
    train(out / 'opt', texts, ['<s>', '<pad>', '</s>', '<unk>'], {'model_type': 'opt', 'eos_token_id': 2})
    special = {'bos_token': token('</s>'), 'eos_token': token('</s>'), 'unk_token': token('</s>'), 'pad_token': token('<pad>')}
    (out / 'opt' / 'special_tokens_map.json').write_text(json.dumps(special) + '\n')
    typed = {name: {**value, '__type': 'AddedToken'} for name, value in special.items()}
    del typed['pad_token']
    (out / 'opt' / 'tokenizer_config.json').write_text(json.dumps(
        {'errors': 'replace', **typed, 'add_prefix_space': False, 'add_bos_token': True,
         'special_tokens_map_file': None, 'tokenizer_class': 'GPT2Tokenizer'}) + '\n')

    # Tokens added to a tokenizer that was then saved: added_tokens_decoder.
    train(out / 'start', texts, ['<|endoftext|>'], {'model_type': 'gpt2'})
    tokenizer = GPT2Tokenizer.from_pretrained(out / 'start', pad_token='<pad>', unk_token=None,
                                              additional_special_tokens=['<s>', '<|im_start|>'])
    tokenizer.add_tokens([AddedToken('    ', normalized=False), AddedToken('<|im_', normalized=False)])
    tokenizer.save_pretrained(out / 'added')
    shutil.copy(out / 'start' / 'config.json', out / 'added')
    shutil.rmtree(out / 'start')

    # As older versions saved it: added_tokens.json, and names of tokens alone.
    shutil.copytree(out / 'added', out / 'older')
    config = json.loads((out / 'older' / 'tokenizer_config.json').read_text())
    kept = {name: config[name] for name in ('add_prefix_space', 'errors', 'tokenizer_class')}
    (out / 'older' / 'tokenizer_config.json').write_text(json.dumps(kept) + '\n')
    special = {'bos_token': '<|endoftext|>', 'pad_token': token('<pad>'), 'additional_special_tokens': ['<s>', '<|im_start|>', '</s>']}
    (out / 'older' / 'special_tokens_map.json').write_text(json.dumps(special) + '\n')


def texts_of(path):
    for line in path.read_text().splitlines()[1:]:
        kind, escaped = line.split('\t')[:2]
        text = re.sub(rb'\\x(..)', lambda code: bytes([int(code[1], 16)]), escaped.encode())
        yield kind, escaped, text.decode()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--out', type=pathlib.Path, default=HERE / 'gpt2_files')
    out = parser.parse_args().out
    shutil.rmtree(out, ignore_errors=True)
    records = list(texts_of(HERE / 'hugging_face' / 'texts.pairs'))
    make(out, [text for kind, _, text in records if kind != 'special'])
    names = ['gpt2', 'opt', 'added', 'older']
    slow = [AutoTokenizer.from_pretrained(out / name, use_fast=False) for name in names]
    fast = [AutoTokenizer.from_pretrained(out / name, use_fast=True) for name in names]
    with open(out / 'texts.pairs', 'w') as file:
        print('kind', 'text', *names, sep='\t', file=file)
        for kind, escaped, text in records + [('special', text, text) for text in ('<s>', 'a</s>', '<pad> <|endoftext|>b')]:
            ids = [tokenizer.encode(text) for tokenizer in slow]
            assert ids == [tokenizer.encode(text) for tokenizer in fast], text
            print(kind, escaped, *(' '.join(map(str, row)) for row in ids), sep='\t', file=file)
    print(len(records) + 3, 'texts', len(names), 'tokenizers')


main()

"""A mixed corpus for tokenizers: (kind, bytes) records, the same on every run with the same inputs.

Inputs: the `bible` program (Debian bible-kjv), Python's own sources, NormalizationTest.txt.bz2 (Debian
unicode-data); all else is drawn from chosen alphabets by a seeded generator.
"""
import bz2
import glob
import random
import subprocess
import sysconfig
import unicodedata

def bible():
    out = subprocess.run(['bible', '-f', 'gen1:1-lev1:1'], capture_output=True, text=True).stdout
    return [l for l in out.splitlines() if l.strip()]

def corpus(seed=20):
    rng = random.Random(seed)
    records = []
    def add(kind, text):
        records.append((kind, text if isinstance(text, bytes) else text.encode()))
    verses = bible()
    for l in rng.sample(verses, 500): add('english', l)
    for k in range(20): add('english', '\n'.join(verses[k*40:k*40+40]) + '\n')
    code = []
    for p in sorted(glob.glob(sysconfig.get_path('stdlib') + '/*.py'))[:60]:
        code += open(p, encoding='utf-8', errors='replace').read().split('\n')
    for l in rng.sample([c for c in code if c.strip()], 400): add('code', l)
    for k in range(40):
        a = rng.randrange(len(code) - 40); add('code', '\n'.join(code[a:a + rng.randrange(2, 40)]))
    for k in range(150):
        n = rng.choice([1, 2, 3, 4, 6, 9, 20])
        add('numbers', rng.choice(['', ' ', 'x', '-', '$', 'a ']).join(
            [str(rng.randrange(10 ** rng.randrange(1, 12))) + rng.choice(['', '.5', ',000', '%', 'e-5', ' km', 'th']) for _ in range(n)]))
    assigned = [c for c in map(chr, range(0x110000)) if unicodedata.category(c) not in ('Cn', 'Cs', 'Co')]
    def letters(lo, hi): return [chr(c) for c in range(lo, hi) if unicodedata.category(chr(c)) not in ('Cn', 'Cs')]
    alphabets = {
        'cjk': letters(0x4E00, 0x9FFF) + letters(0x3040, 0x30FF) * 20 + letters(0xAC00, 0xD7A4) + list('。，、！？「」（）　・ー 0１２３') * 200,
        'arabic': letters(0x600, 0x700) + list('  ،.') * 10, 'hebrew': letters(0x590, 0x600) + list('  .') * 10,
        'devanagari': letters(0x900, 0x980) + list('  ।') * 10, 'thai': letters(0xE00, 0xE60) + list('  ') * 10,
        'cyrillic': letters(0x400, 0x530) + list('  .,') * 10, 'greek': letters(0x370, 0x400) + list('  .,') * 10,
        'latin': letters(0xA0, 0x250) + list('abcdefgh  .') * 10,
        'emoji': [chr(c) for c in range(0x1F300, 0x1F650)] + list('❤☺✈\uFE0F\uFE0E\u200D  a🏻🏼🏽🏾🏿') * 20,
        'marks': list('aeiouAEIOUcn') * 10 + letters(0x300, 0x370) + letters(0x1DC0, 0x1E00) + letters(0x20D0, 0x20F1) + list(' \u200d\u200c') * 4,
        'digits': [c for c in assigned if unicodedata.category(c) in ('Nd', 'Nl', 'No')] + list(' aB.x') * 60,
        'spaces': list('\t\n\r\x0b\x0c \x1c\x1d\x1e\x1f\x85\xa0\u1680\u180e\u2000\u2003\u2009\u200a\u200b\u2028\u2029\u202f\u205f\u2060\u3000\ufeff') + list(' ' * 12 + '\n\r' * 4 + 'ab1.,\''),
        'controls': [chr(c) for c in range(0x20)] + [chr(c) for c in range(0x7f, 0xa0)] + list('ab 1.') * 4,
        'symbols': [c for c in assigned if unicodedata.category(c)[0] in 'PS'] + list(' \n\r aA1') * 60,
        'ascii': [chr(c) for c in range(0x20, 0x7f)] + list('\n\t '),
        'anything': assigned, 'anything2': assigned[:3000] + list(' \n') * 100,
    }
    for kind, alphabet in alphabets.items():
        for k in range(160): add(kind, ''.join(rng.choices(alphabet, k=rng.choice([1, 2, 3, 5, 10, 30, 80, 200]))))
    zwj = ['👨‍👩‍👧‍👦', '👩🏽‍💻', '🏳️‍🌈', '🇩🇪🇫🇷', '1️⃣2️⃣', '❤️‍🔥', '🧑🏿‍🤝‍🧑🏻', '👁️‍🗨️', '🏴󠁧󠁢󠁥󠁮󠁧󠁿', '#️⃣', '🤷‍♀️']
    for k in range(60): add('emoji', rng.choice(['', ' ', 'hi ']).join(rng.choices(zwj + ['x', '!', '\n'], k=rng.randrange(1, 9))))
    ends = ['s', 't', 're', 've', 'm', 'll', 'd', 'S', 'T', 'RE', 'Re', 'rE', 'VE', 'vE', 'M', 'LL', 'lL', 'Ll', 'D', 'ſ', 'ſa', 'sa', 'tx', 'r', 'v', 'l', 'K', '\u212a', 'nt', 'ß', 'ﬆ', 'ﬅ', "'", '', ' s', '\u0301s']
    for k in range(250):
        add('contractions', rng.choice([' ', '', '\n', '  ']).join(rng.choice(['I', 'we', 'It', ' ', '', '1', '!', 'ça', '中', '\t', '"']) + rng.choice(["'", "'", "'", '’', '‘', "''", '´']) + rng.choice(ends) for _ in range(rng.randrange(1, 8))))
    for k in range(60):
        add('spaces', rng.choice(['\r\n', '\n', '\n\n', '\n\n\n ', ' \n', '\t\n', '\n\t', '   ', '\u3000\n', '\xa0 ']).join(rng.choices(['a', 'bc ', ' d', '', '1', '!', '.', ' ', '中'], k=rng.randrange(2, 12))))
    special = ['<|endoftext|>', '<|im_start|>', '<|im_end|>', '<repo_name>', '<reponame>', '<file_sep>', '<jupyter_text>', '<empty_output>', '<s>', '</s>', '<unk>', '<0x0A>', '<|im_', '<|', '|>', '<', '<<|im_start|>>', '<|im_start|', 'start|>']
    for k in range(200):
        add('special', ''.join(rng.choices(special + ['user\n', ' ', 'hello', '\n', "'", 's', '12', ' x', 'é', 'e\u0301'], k=rng.randrange(1, 10))))
    norm = [l.split('#')[0].split(';')[:5] for l in bz2.open('/usr/share/unicode/NormalizationTest.txt.bz2', 'rt') if l[0] in '0123456789ABCDEF']
    for row in rng.sample(norm, 300):
        add('nfc', rng.choice(['', 'a', ' ', '1']).join(''.join(chr(int(c, 16)) for c in rng.choice(row).split()) for _ in range(3)))
    for k in range(20): add('nfc', ''.join(rng.choices(letters(0x1100, 0x1200) + list('a \u0301'), k=40)))
    broken = [b'\x80', b'\xbf', b'\xc0\xaf', b'\xc2', b'\xe2\x82', b'\xf0\x9f\x98', b'\xed\xa0\x80', b'\xf4\x90\x80\x80', b'\xff', b'\xfe', b'\xf8\x88', b'\xc1\x81', b'\xe0\x80\x80', b'\xf0\x80\x80\x80', b'\xe9', b'\xe9t\xe9']
    good = [b'a', b' ', b'the', b'1', b'\n', b'.', '中'.encode(), b"'s", 'é'.encode(), '😀'.encode(), b'\r\n', b'<|im_start|>', 'e\u0301'.encode()]
    for k in range(250): add('broken', b''.join(rng.choices(broken + good * 2, k=rng.randrange(1, 16))))
    for k in range(60): add('broken', bytes(rng.randrange(256) for _ in range(rng.randrange(1, 60))))
    for l in rng.sample(verses, 40):
        b = bytearray(l.encode())
        for _ in range(3): b[rng.randrange(len(b))] ^= 1 << rng.randrange(8)
        add('broken', bytes(b))
    for run in ['a', ' ', '\n', '1', '中', '!', '\u0301', "'", 'ab', ' a', '\r\n']:
        for n in (2, 3, 7, 64, 1000): add('runs', run * n)
    return records

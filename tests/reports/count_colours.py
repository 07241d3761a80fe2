"""Prints how many colours a picture has, then for each colour asked for (rrggbb) how many pixels have it."""
import sys
from collections import Counter

from PIL import Image

picture = Image.open(sys.argv[1]).convert("RGB")
colours = Counter(picture.getdata())
print(len(colours))
for wanted in sys.argv[2:]:
    print(colours[tuple(bytes.fromhex(wanted))])

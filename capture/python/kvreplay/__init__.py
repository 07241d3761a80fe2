"""Record the attention of Hugging Face models, read traces, replay them under eviction policies.

>>> with kvreplay.capture(model, "run.h5"):
...     model.generate(**inputs, max_new_tokens=64)
>>> kvreplay.read("run.h5").rows(layer=3, head=2)[100]      # what query 100 gave keys 0..100
>>> kvreplay.import_attentions("saved.pt", "run.h5")        # of output_attentions=True
>>> pandas.DataFrame(kvreplay.simulate("run.h5", policy="h2o,local", budget="10%,20%"))
"""

from ._capture import capture
from ._import import export_dense, import_attentions
from ._library import InputError, OutputError, version
from ._read import HeadRows, Trace, read
from ._simulate import Results, simulate

__version__ = version()
__all__ = ["HeadRows", "InputError", "OutputError", "Results", "Trace", "capture", "export_dense", "import_attentions", "read",
           "simulate"]

"""python -m kvreplay import SAVED T.h5, python -m kvreplay export T.h5 DENSE.npz"""

import argparse
import sys

from . import InputError, export_dense, import_attentions, read


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m kvreplay", description="Attentions that were saved before, as traces; traces as dense arrays.")
    commands = parser.add_subparsers(dest="command", required=True)
    take = commands.add_parser("import", help="a trace of a .pt, .npy, .npz, .safetensors or .h5 file of attentions")
    take.add_argument("saved")
    take.add_argument("trace")
    take.add_argument("--batch", type=int, default=0, help="which sequence, where there are several")
    take.add_argument("--kv-heads", type=int, help="of the model, if not as many as query heads")
    take.add_argument("--prompt-tokens", type=int, help="how many tokens are the prompt (default: all)")
    take.add_argument("--model-name")
    take.add_argument("--encoding", default="fp16", help="fp16, fp32 or u16log")
    take.add_argument("--tolerance", type=float, help="accept row sums within 1 +- this")
    give = commands.add_parser("export", help="all rows of a trace, dense, as .npz or .h5")
    give.add_argument("trace")
    give.add_argument("dense")
    for command in (take, give):
        command.add_argument("--overwrite", action="store_true", help="replace the file if it exists")
    options = vars(parser.parse_args())
    try:
        if options.pop("command") == "import":
            written = options.pop("trace")
            import_attentions(options.pop("saved"), written, **options)
        else:
            written = options["dense"]
            with read(options["trace"]) as trace:
                export_dense(trace, written, overwrite=options["overwrite"])
        print(f"wrote {written}")
    except (ValueError, ImportError) as error:
        return said(error, 2)
    except InputError as error:
        return said(error, 3)
    except OSError as error:  # OutputError among them
        return said(error, 4)
    return 0


def said(error: Exception, code: int) -> int:
    print(f"python -m kvreplay: {error}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())

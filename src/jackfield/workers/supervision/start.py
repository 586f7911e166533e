"""What the gateway starts: `python -I -S start.py SOCKET LIFELINE exact|best-effort`.

An isolated interpreter finds nothing but the standard library, so this room's folder is put on the path, last.
"""

import importlib
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.append(str(Path(__file__).resolve().parents[1]))
    importlib.import_module("supervision.zygote").main(sys.argv[1:])

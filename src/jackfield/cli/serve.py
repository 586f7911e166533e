"""`jackfield serve`: the gateway itself.

Above: `main.py`. Below: settings, and the server in `web/`.
"""

from argparse import ArgumentParser, Namespace

from jackfield.gateway.server import serve
from jackfield.settings import load_settings

DESCRIPTION = """\
Run the gateway until Ctrl-C. Without --config it takes jackfield.toml or jackfield.json in this folder, if there.

environment: JACKFIELD_CONFIG, JACKFIELD_HOST, JACKFIELD_PORT, JACKFIELD_STORE, JACKFIELD_DATA (default .jackfield),
JACKFIELD_ADMIN_KEY, JACKFIELD_LOG (text or json)"""
EXAMPLES = """\
  jackfield serve
  jackfield serve --config demo/jackfield.toml --port 9000
  jackfield serve --store memory:"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--config", metavar="FILE", help="the config, or its folder")
    parser.add_argument("--host", help="the address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, help="the port to listen on (8420)")
    parser.add_argument("--store", metavar="URL", help="where calls are kept: sqlite:///FILE or memory:")


def run(options: Namespace) -> int:
    overrides = {"host": options.host, "port": options.port, "store": options.store}
    return serve(load_settings(options.config, overrides=overrides))

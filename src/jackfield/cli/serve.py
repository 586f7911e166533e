"""`jackfield serve`: run the gateway."""

from argparse import Namespace

from jackfield.cli.options import argument, command
from jackfield.gateway import server
from jackfield.settings import load_settings


@command(
    """\
Run the gateway until Ctrl-C. The default config is jackfield.toml or jackfield.json in this folder, if there is one.

environment: JACKFIELD_CONFIG, JACKFIELD_HOST, JACKFIELD_PORT, JACKFIELD_STORE, JACKFIELD_DATA (default .jackfield),
JACKFIELD_ADMIN_KEY, JACKFIELD_WORKERS, JACKFIELD_LOG (text or json)""",
    argument("--config", metavar="FILE", help="the config, or its folder"),
    argument("--host", help="the address to listen on (127.0.0.1)"),
    argument("--port", type=int, help="the port to listen on (8420)"),
    argument(
        "--workers", type=int, metavar="N", help="gateway processes that share the port (1); several need PostgreSQL"
    ),
    argument("--store", metavar="URL", help="where calls are stored: sqlite:///FILE, postgresql://… or memory:"),
    examples="""\
  jackfield serve
  jackfield serve --config demo/jackfield.toml --port 9000
  jackfield serve --store memory:
  jackfield serve --store postgresql://jackfield@db.example.org/jackfield --workers 4""",
)
def serve(options: Namespace) -> int:
    overrides = {"host": options.host, "port": options.port, "workers": options.workers, "store": options.store}
    return server.serve(load_settings(options.config, overrides=overrides))

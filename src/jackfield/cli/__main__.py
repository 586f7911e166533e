"""`python -m jackfield.cli`: the same as `jackfield`."""

import sys

from jackfield.cli.main import main

sys.exit(main())

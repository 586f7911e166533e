"""`python -m jackfield.cli`"""

import sys

from jackfield.cli.main import main

sys.exit(main())

import sys

from documentation.pages import main

sys.exit(main())

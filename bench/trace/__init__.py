"""`make trace`: how much code there is, and how much of it one call passes through.

`code` reads the sources, `scenes` makes calls of a gateway that `recorder` runs, `report` puts the figures beside those
of `before.json` and beside the aims.
"""

"""What the calls of a gateway came to: rollups per minute and hour, and the figures of the console's first page."""

"""One run of a model with tools: the loop that agents, responses and sessions share."""
